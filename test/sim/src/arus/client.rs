//! A client. It begins units of a few operations each and ends or aborts them, flushes, makes simple operations, and
//! compares what it reads with the model.

use super::content::{CELLS, bytes_of};
use super::model::{MAIN, Model, State, Unit};
use crate::counts::Met;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::{BufPool, Lsn, Nanos};
use tonearm_disk::{Aru, Disk, DiskError, ErrorKind};
use tonearm_format::Uuid;
use tonearm_rt::Rt;

/// Number of different names of volumes.
const NAMES: u64 = 5;
pub struct Client {
    rt: Rt,
    pub disk: Disk,
    pub model: Rc<RefCell<Model>>,
    pub(super) rng: ChaCha8Rng,
    pool: BufPool,
    stamps: u64,
    /// The current unit shall become larger than memory and log.
    pub(super) large: bool,
    /// The only volume that the client uses, if set.
    pub(super) only: Option<String>,
}

/// An open unit of the store and its counterpart in the model.
pub struct Open {
    aru: Aru,
    unit: Unit,
    /// Number of structural ends when the unit began.
    structural: u64,
    /// Another client has deleted something that the unit uses.
    gone: bool,
}

/// The next step of a unit.
#[derive(Clone, Copy)]
pub enum Step {
    Write,
    List,
    Create,
    Resize,
    Delete,
    Rename,
    Look,
    Pause,
}

/// Outcome of an operation within a unit.
pub enum Done {
    Yes,
    /// There was no space. The unit continues without the operation.
    NoRoom,
    /// Another client has deleted what the operation needs. The unit cannot end.
    Gone,
}

pub fn done(result: Result<(), DiskError>, what: &str) -> Result<Done, String> {
    match result {
        Ok(()) => Ok(Done::Yes),
        Err(error) => match error.kind() {
            ErrorKind::NoSpace => Ok(Done::NoRoom),
            ErrorKind::Deleted => Ok(Done::Gone),
            _ => Err(format!("{what}: {error}")),
        },
    }
}

impl Client {
    pub fn new(rt: &Rt, disk: &Disk, model: &Rc<RefCell<Model>>, seed: u64) -> Self {
        Self {
            rt: rt.clone(),
            disk: disk.clone(),
            model: model.clone(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            pool: BufPool::new(1 << 20),
            // The seeds of clients differ from bit 48 on. These bits become the highest bits of a client's stamps, and
            // the lowest 16 bits count, so that no two clients use the same stamp.
            stamps: (seed << 16) ^ (seed >> 48 << 60),
            large: false,
            only: None,
        }
    }

    /// Makes `operations` operations.
    ///
    /// # Errors
    /// When an operation fails, or returns a wrong result.
    pub async fn run(mut self, operations: u64) -> Result<(), String> {
        let mut left = operations;
        while left > 0 {
            left -= 1;
            match self.below(100) {
                0..52 => {
                    let steps = 1 + self.below(8).min(left);
                    left -= steps - 1;
                    self.unit(steps).await?;
                }
                52..62 => {
                    left = left.saturating_sub(3);
                    self.pair().await?;
                }
                62..72 => self.simple().await?,
                72..78 => self.simple_list().await?,
                78..86 => self.flush().await?,
                86..94 => self.check().await?,
                _ => self.pause(3000).await,
            }
        }
        Ok(())
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.rng.next_u64() % bound.max(1)
    }

    async fn pause(&mut self, micros_max: u64) {
        let micros = self.below(micros_max);
        self.rt.sleep(Nanos::from_micros(micros)).await;
    }

    pub fn cell(&self) -> usize {
        self.disk.block_size() as usize / CELLS
    }

    pub fn name(&mut self) -> String {
        match &self.only {
            Some(name) => name.clone(),
            None => format!("f{}", self.below(NAMES)),
        }
    }

    pub fn now(&self) -> Rc<State> {
        self.model.borrow().states.now()
    }

    pub fn stamps(&mut self, count: u64) -> Vec<u64> {
        let first = self.stamps + 1;
        self.stamps += count;
        (first..=self.stamps).collect()
    }

    async fn unit(&mut self, steps: u64) -> Result<(), String> {
        self.large = self.below(10) == 0;
        let mut open = self.begin();
        for _ in 0..steps {
            let step = match self.below(100) {
                0..34 => Step::Write,
                34..54 => Step::List,
                54..62 => Step::Create,
                62..74 => Step::Resize,
                74..80 => Step::Delete,
                80..86 => Step::Rename,
                86..92 => Step::Look,
                _ => Step::Pause,
            };
            self.step(&mut open, step).await?;
        }
        self.end(open).await
    }

    /// Two units over one volume or over lists. One ends while the other continues.
    async fn pair(&mut self) -> Result<(), String> {
        let state = self.now();
        let files: Vec<&String> = state
            .volumes
            .keys()
            .filter(|name| *name != "main")
            .collect();
        let file = files.get(self.below(files.len() as u64) as usize);
        self.only = file
            .filter(|_| self.below(5) > 0)
            .map(|name| name.to_string());
        self.large = false;
        let (mut long, mut short) = (self.begin(), self.begin());
        for _ in 0..1 + self.below(2) {
            self.step_of_pair(&mut long).await?;
        }
        for _ in 0..1 + self.below(3) {
            self.step_of_pair(&mut short).await?;
        }
        self.end(short).await?;
        for _ in 0..self.below(3) {
            self.step_of_pair(&mut long).await?;
        }
        self.end(long).await?;
        self.only = None;
        Ok(())
    }

    async fn step_of_pair(&mut self, open: &mut Open) -> Result<(), String> {
        let step = match self.below(16) {
            _ if self.only.is_none() => Step::List,
            0..8 => Step::Resize,
            8..14 => Step::Write,
            14 => Step::Look,
            _ => Step::Delete,
        };
        self.step(open, step).await
    }

    fn begin(&self) -> Open {
        Open {
            aru: self.disk.begin(),
            unit: Unit::default(),
            structural: self.model.borrow().structural,
            gone: false,
        }
    }

    async fn step(&mut self, open: &mut Open, step: Step) -> Result<(), String> {
        let kept = self.disk.spill_bytes();
        let (aru, unit) = (&mut open.aru, &mut open.unit);
        let done = match step {
            Step::Write => self.write(aru, unit).await?,
            Step::List => self.list(aru, unit).await?,
            Step::Create => self.create(aru, unit).await?,
            Step::Resize => self.resize(aru, unit).await?,
            Step::Delete => self.delete(aru, unit).await?,
            Step::Rename => self.rename(aru, unit).await?,
            Step::Look => self.look(aru, unit).await?,
            Step::Pause => {
                self.pause(2000).await;
                Done::Yes
            }
        };
        open.gone |= matches!(done, Done::Gone);
        let given_back = u64::from(self.disk.spill_bytes() < kept);
        let mut model = self.model.borrow_mut();
        model.counts.met(Met::SpaceBack, given_back);
        Ok(())
    }

    async fn end(&mut self, open: Open) -> Result<(), String> {
        let Open {
            aru,
            unit,
            structural,
            gone,
        } = open;
        if self.below(6) == 0 {
            aru.abort();
            return Ok(());
        }
        let spilled = aru.spilled_blocks() > 0;
        match aru.end().await {
            Ok(lsn) => {
                let times = u64::from(spilled);
                self.model.borrow_mut().counts.met(Met::Spill, times);
                self.ended(&unit, lsn).await
            }
            Err(error) if error.kind() == ErrorKind::NoSpace => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Deleted) => {
                self.model.borrow_mut().counts.met(Met::Conflict, 1);
                match gone || self.model.borrow().structural > structural {
                    true => Ok(()),
                    false => Err(format!(
                        "a conflict, but no other unit has changed the structure: {error}"
                    )),
                }
            }
            Err(error) => Err(format!("the end of a unit fails: {error}")),
        }
    }

    /// Updates the model after an end. There was no await between the commit and this call.
    async fn ended(&mut self, unit: &Unit, lsn: Lsn) -> Result<(), String> {
        let number = {
            let mut model = self.model.borrow_mut();
            let before = model.states.now();
            let after = unit
                .apply(&before)
                .map_err(|why| format!("a unit has ended although it must not: {why}"))?;
            if lsn == Lsn(0) {
                return match after == *before {
                    true => Ok(()),
                    false => Err("a unit with changes has no commit".into()),
                };
            }
            model.end(unit, after)
        };
        if self.below(3) == 0 {
            let durable = self.disk.wait_durable(lsn).await;
            durable.map_err(|error| error.to_string())?;
            self.model.borrow_mut().states.acknowledge(number);
        }
        Ok(())
    }

    /// A write, trim or zeroing outside of a unit.
    async fn simple(&mut self) -> Result<(), String> {
        let name = match self.below(3) {
            0 => self.name(),
            _ => "main".to_string(),
        };
        let Some(known) = self.now().volumes.get(&name).cloned() else {
            return Ok(());
        };
        let volume = self.disk.volume(&name).map_err(|error| error.to_string())?;
        let from = self.below(known.size);
        let count = (1 + self.below(40)).min(known.size - from);
        let cell = self.cell();
        let (offset, len) = (from * cell as u64, count * cell as u64);
        let mut stamps = vec![0; count as usize];
        let result = match self.below(6) {
            0 | 1 => return self.plain(&volume, known.id, from, count).await,
            2 => {
                let keep_space = self.below(2) == 0;
                volume.write_zeroes(offset, len, keep_space, false).await
            }
            _ => {
                stamps = self.stamps(count);
                let permit = volume.reserve(len).await;
                let mut buf = self.pool.copy_of(&bytes_of(&stamps, cell));
                buf.attach(Rc::new(permit.map_err(|error| error.to_string())?));
                volume.write(offset, buf.share(), false).await
            }
        };
        match result {
            Ok(()) => {}
            // Another client has deleted or shortened the volume.
            Err(error) if matches!(error.kind(), ErrorKind::Deleted | ErrorKind::OutOfRange) => {
                return Ok(());
            }
            Err(error) => return Err(format!("a simple write of {name}: {error}")),
        }
        let mut model = self.model.borrow_mut();
        let mut state = (*model.states.now()).clone();
        let renamed = state.by_id(known.id).map(|(name, _)| name.clone());
        let name = renamed.ok_or("a write of a deleted volume succeeds")?;
        let mut written = (*state.volumes[&name]).clone();
        let flat = written.blocks.as_flattened_mut();
        flat[from as usize..(from + count) as usize].copy_from_slice(&stamps);
        state.volumes.insert(name, Rc::new(written));
        model.states.commit(state);
        Ok(())
    }

    /// A plain write or a resize. It waits until other clients no longer shorten the volume.
    async fn plain(
        &mut self,
        volume: &tonearm_disk::Volume,
        id: Uuid,
        from: u64,
        count: u64,
    ) -> Result<(), String> {
        let (cell, stamps) = (self.cell(), self.stamps(count));
        let resizes = id != MAIN && self.below(4) == 0;
        let from = if resizes { from.max(1) } else { from };
        let offset = from * cell as u64;
        let result = match resizes {
            true => self.disk.resize(volume, offset).await,
            false => {
                self.disk
                    .write(volume, offset, &bytes_of(&stamps, cell))
                    .await
            }
        };
        let lsn = match result {
            Ok(lsn) => lsn,
            // Another client has deleted or shortened the volume, or there is no space.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Deleted | ErrorKind::OutOfRange | ErrorKind::NoSpace
                ) =>
            {
                return Ok(());
            }
            Err(error) => return Err(format!("a plain write: {error}")),
        };
        let (state, mut unit) = (self.now(), Unit::default());
        if resizes {
            unit.resize(&state, id, from);
            for beyond in from..from.next_multiple_of(CELLS as u64) {
                unit.put(id, beyond, 0);
            }
        } else {
            unit.touch(&state, id);
            for (place, stamp) in (from..).zip(stamps) {
                unit.put(id, place, stamp);
            }
        }
        self.ended(&unit, lsn).await
    }

    async fn flush(&mut self) -> Result<(), String> {
        let number = self.model.borrow().states.last();
        self.disk.flush().await.map_err(|error| error.to_string())?;
        self.model.borrow_mut().states.acknowledge(number);
        Ok(())
    }

    /// Compares the committed state with the model.
    async fn check(&mut self) -> Result<(), String> {
        let before = self.now();
        let found = State::read(&self.disk).await;
        // Other clients may change volumes while they are read.
        match Rc::ptr_eq(&before, &self.now()) {
            true => match found? == *before {
                true => Ok(()),
                false => Err("the committed state differs from the model".into()),
            },
            false => Ok(()),
        }
    }
}
