//! A client: units of a few operations each, ended or given up, flushes, reads that are compared with the model,
//! and simple operations.

use super::content::{Block, CELLS, bytes_of};
use super::counts::Met;
use super::model::{MAIN, Model, State, Unit, blocks_of, cells};
use base::{BufPool, Lsn, Nanos};
use disk::{Aru, Disk, DiskError, ErrorKind, Volume};
use format::Uuid;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rt::Rt;
use std::cell::RefCell;
use std::rc::Rc;

/// Names that files have.
const NAMES: u64 = 5;
/// Blocks that a file has at most, but for one that fills the store.
const FILE_BLOCKS: u64 = 40;
/// Free blocks that are few enough for a file to take all of them.
const FEW_BLOCKS: u64 = 60;

pub struct Client {
    rt: Rt,
    pub disk: Disk,
    pub model: Rc<RefCell<Model>>,
    rng: ChaCha8Rng,
    pool: BufPool,
    stamps: u64,
    /// The unit at work is to become larger than memory and the log.
    large: bool,
}

/// What became of an operation within a unit.
pub enum Done {
    Yes,
    /// There was no room: the unit goes on without it.
    NoRoom,
    /// Others have deleted what it was about: the unit cannot end.
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
            stamps: seed << 16,
            large: false,
        }
    }

    /// Does `operations` operations.
    ///
    /// # Errors
    /// When one fails, or gives what it must not.
    pub async fn run(mut self, operations: u64) -> Result<(), String> {
        let mut left = operations;
        while left > 0 {
            left -= 1;
            match self.below(100) {
                0..62 => {
                    let steps = 1 + self.below(8).min(left);
                    left -= steps - 1;
                    self.unit(steps).await?;
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

    fn name(&mut self) -> String {
        format!("f{}", self.below(NAMES))
    }

    pub fn now(&self) -> Rc<State> {
        self.model.borrow().now()
    }

    pub fn stamps(&mut self, count: u64) -> Vec<u64> {
        let first = self.stamps + 1;
        self.stamps += count;
        (first..=self.stamps).collect()
    }

    async fn unit(&mut self, steps: u64) -> Result<(), String> {
        let structural = self.model.borrow().structural;
        self.large = self.below(10) == 0;
        let mut aru = self.disk.begin();
        let mut unit = Unit::default();
        let mut gone = false;
        for _ in 0..steps {
            let kept = self.disk.spill_bytes();
            let done = match self.below(100) {
                0..34 => self.write(&mut aru, &mut unit).await?,
                34..54 => self.list(&mut aru, &mut unit).await?,
                54..62 => self.create(&mut aru, &mut unit).await?,
                62..74 => self.resize(&mut aru, &mut unit).await?,
                74..80 => self.delete(&mut aru, &mut unit).await?,
                80..86 => self.rename(&mut aru, &mut unit).await?,
                86..92 => self.look(&aru, &unit).await?,
                _ => {
                    self.pause(2000).await;
                    Done::Yes
                }
            };
            gone |= matches!(done, Done::Gone);
            let given_back = u64::from(self.disk.spill_bytes() < kept);
            self.model
                .borrow_mut()
                .counts
                .met(Met::SpaceBack, given_back);
        }
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
                    false => Err(format!("a conflict with nobody: {error}")),
                }
            }
            Err(error) => Err(format!("the end of a unit: {error}")),
        }
    }

    /// From the commit to here there was no await.
    async fn ended(&mut self, unit: &Unit, lsn: Lsn) -> Result<(), String> {
        let number = {
            let mut model = self.model.borrow_mut();
            let before = model.now();
            let after = unit
                .apply(&before)
                .map_err(|why| format!("a unit has ended that cannot: {why}"))?;
            if lsn == Lsn(0) {
                return match after == *before {
                    true => Ok(()),
                    false => Err("a unit with changes has no commit".into()),
                };
            }
            unit.count(&before, &mut model.counts);
            model.structural += u64::from(unit.is_structural());
            model.commit(after)
        };
        if self.below(3) == 0 {
            let durable = self.disk.wait_durable(lsn).await;
            durable.map_err(|error| error.to_string())?;
            self.model.borrow_mut().acknowledge(number);
        }
        Ok(())
    }

    /// A volume that the unit sees, or none.
    fn pick(&mut self, aru: &Aru, unit: &Unit) -> Result<Option<(String, Uuid, Volume)>, String> {
        let name = match self.below(4) {
            0 => "main".to_string(),
            _ => self.name(),
        };
        let (expected, found) = (unit.look_up(&self.now(), &name), aru.volume(&name));
        match (expected, found) {
            (Some(id), Ok(volume)) => Ok(Some((name, id, volume))),
            (None, Err(DiskError::NoVolume(_))) => Ok(None),
            (expected, found) => Err(format!(
                "a unit sees {name}: {}, which should be {}",
                found.is_ok(),
                expected.is_some()
            )),
        }
    }

    async fn create(&mut self, aru: &mut Aru, unit: &mut Unit) -> Result<Done, String> {
        let (name, id) = (self.name(), self.rng.next_u64());
        let mut uuid = [7; 16];
        uuid[..8].copy_from_slice(&id.to_le_bytes());
        let taken = unit.look_up(&self.now(), &name).is_some();
        match aru.create_file(&name, uuid, 0).await {
            Ok(_) if !taken => unit.create(&name, uuid),
            Err(DiskError::VolumeExists(_)) if taken => {}
            Ok(_) => return Err(format!("a unit has made {name}, which is there")),
            Err(error) => return Err(format!("a unit makes {name}: {error}")),
        }
        Ok(Done::Yes)
    }

    async fn delete(&mut self, aru: &mut Aru, unit: &mut Unit) -> Result<Done, String> {
        let Some((name, id, _)) = self.pick(aru, unit)?.filter(|(_, id, _)| *id != MAIN) else {
            return Ok(Done::Yes);
        };
        let state = self.now();
        let done = done(aru.delete_volume(&name).await, "a deletion")?;
        if matches!(done, Done::Yes) {
            unit.delete(&state, &name, id);
        }
        Ok(done)
    }

    async fn rename(&mut self, aru: &mut Aru, unit: &mut Unit) -> Result<Done, String> {
        let Some((from, id, _)) = self.pick(aru, unit)?.filter(|(_, id, _)| *id != MAIN) else {
            return Ok(Done::Yes);
        };
        let (to, state) = (self.name(), self.now());
        let taken = unit.look_up(&state, &to).is_some();
        match aru.rename_volume(&from, &to).await {
            Ok(()) if from == to => {}
            Ok(()) if !taken => unit.rename(&state, &from, &to, id),
            Err(DiskError::VolumeExists(_)) if taken => {}
            Err(error) if error.kind() == ErrorKind::Deleted => return Ok(Done::Gone),
            other => return Err(format!("a unit renames {from} to {to}: {other:?}")),
        }
        Ok(Done::Yes)
    }

    async fn write(&mut self, aru: &mut Aru, unit: &mut Unit) -> Result<Done, String> {
        let Some((_, id, volume)) = self.pick(aru, unit)? else {
            return Ok(Done::Yes);
        };
        let cells = CELLS as u64;
        let size = unit.size(&self.now(), id);
        let end = match id == MAIN {
            true => size,
            false => (size + 6 * cells).min(FILE_BLOCKS * cells),
        };
        let longest = match self.below(8) {
            _ if self.large => FILE_BLOCKS,
            0 => 30,
            _ => 4,
        };
        let longest = longest * cells;
        let (mut from, mut count) = (self.below(end), 1 + self.below(longest));
        if self.below(2) == 0 {
            from -= from % cells;
            count = count.next_multiple_of(cells);
        }
        count = count.min(end - from);
        let (cell, stop) = (self.cell(), from + count);
        let written = self.stamps(count);
        let data = bytes_of(&written, cell);
        let (before, number) = (self.now(), self.model.borrow().last());
        let own = (blocks_of(from + 1) - 1..blocks_of(stop))
            .map(|index| (index, unit.has(id, index), unit.block(&before, id, index)))
            .collect::<Vec<_>>();
        let offset = from * cell as u64;
        let done = done(aru.write(&volume, offset, &data).await, "a write")?;
        if !matches!(done, Done::Yes) {
            return Ok(done);
        }
        let after = self.now();
        for (index, shadow, old) in &own {
            // Which version the rest of the block has, the block itself tells later.
            let mut versions = match shadow {
                true => vec![*old],
                false => self.versions(unit, number, id, *index),
            };
            for block in &mut versions {
                for (at, cell) in block.iter_mut().enumerate() {
                    let place = index * cells + at as u64;
                    if (from..stop).contains(&place) {
                        *cell = written[(place - from) as usize];
                    }
                }
            }
            if *index == own[0].0 {
                unit.write(&after, id, stop);
            }
            unit.put(id, *index, versions[0]);
            self.learn(aru, unit, &volume, id, *index, &versions)
                .await?;
        }
        Ok(Done::Yes)
    }

    async fn resize(&mut self, aru: &mut Aru, unit: &mut Unit) -> Result<Done, String> {
        let Some((_, id, volume)) = self.pick(aru, unit)?.filter(|(_, id, _)| *id != MAIN) else {
            return Ok(Done::Yes);
        };
        let cells = CELLS as u64;
        let (before, number) = (self.now(), self.model.borrow().last());
        let old_size = unit.size(&before, id);
        let free = self.disk.free_bytes() / u64::from(self.disk.block_size());
        let size = match self.below(8) {
            // All that is free, or somewhat more.
            0 if free <= FEW_BLOCKS => {
                let whole = blocks_of(old_size) + free;
                whole * cells + self.below(6 * cells) - self.below((3 * cells).min(free * cells))
            }
            // About where it is: others may write to the same block.
            1..3 => (old_size + self.below(2 * cells)).saturating_sub(cells),
            _ => self.below(FILE_BLOCKS * cells),
        };
        let size = if self.below(2) == 0 {
            size - size % cells
        } else {
            size
        };
        let (index, stays) = (size / cells, (size % cells) as usize);
        let (shadow, old) = (unit.has(id, index), unit.block(&before, id, index));
        let bytes = size * self.cell() as u64;
        let done = done(aru.resize(&volume, bytes).await, "a resize")?;
        if !matches!(done, Done::Yes) {
            return Ok(done);
        }
        let after = self.now();
        let mut versions = match shadow {
            true => vec![old],
            false => self.versions(unit, number, id, index),
        };
        unit.resize(&after, id, size);
        if stays > 0 {
            for block in &mut versions {
                block[stays..].fill(0);
            }
            unit.put(id, index, versions[0]);
            self.learn(aru, unit, &volume, id, index, &versions).await?;
        }
        Ok(Done::Yes)
    }

    /// What the block has been for the unit since state `number`.
    fn versions(&self, unit: &Unit, number: u64, id: Uuid, index: u64) -> Vec<Block> {
        let model = self.model.borrow();
        let states = model.since(number).iter();
        states.map(|state| unit.block(state, id, index)).collect()
    }

    /// Reads a block that has a shadow, which must be one of `versions`.
    async fn learn(
        &mut self,
        aru: &Aru,
        unit: &mut Unit,
        volume: &Volume,
        id: Uuid,
        index: u64,
        versions: &[Block],
    ) -> Result<(), String> {
        let cell = self.cell() as u64;
        let offset = index * CELLS as u64 * cell;
        // The size that the unit sees may be a larger one by now; then what is behind it is committed.
        let size = aru.size_bytes(volume);
        let len = (CELLS as u64 * cell).min(size.saturating_sub(offset));
        let pieces = match aru.read(volume, offset, len).await {
            Ok(pieces) => pieces,
            // Deleted by others: the unit cannot end.
            Err(error) if error.kind() == ErrorKind::Deleted => return Ok(()),
            Err(error) => return Err(format!("a unit reads its own block {index}: {error}")),
        };
        let found = cells(&pieces, cell as usize)?;
        let fits = |version: &&Block| version[..found.len()] == found[..];
        match versions.iter().find(fits) {
            Some(version) => {
                unit.put(id, index, *version);
                Ok(())
            }
            None => Err(format!(
                "a unit's own block {index} is {found:x?} in place of {:x?}",
                versions[0]
            )),
        }
    }

    /// Reads some blocks as the unit sees them.
    async fn look(&mut self, aru: &Aru, unit: &Unit) -> Result<Done, String> {
        let Some((name, id, volume)) = self.pick(aru, unit)? else {
            return Ok(Done::Yes);
        };
        let before = self.now();
        let size = unit.size(&before, id);
        let index = self.below(blocks_of(size));
        let end = (index + 3).min(blocks_of(size));
        let cell = self.cell() as u64;
        let from = index * CELLS as u64;
        let stop = (end * CELLS as u64).min(size);
        if from >= stop {
            return Ok(Done::Yes);
        }
        let pieces = match aru.read(&volume, from * cell, (stop - from) * cell).await {
            Ok(pieces) => pieces,
            // Deleted or made shorter by others.
            Err(error) if matches!(error.kind(), ErrorKind::Deleted | ErrorKind::OutOfRange) => {
                return Ok(Done::Yes);
            }
            Err(error) => return Err(format!("a unit reads {name}: {error}")),
        };
        let after = self.now();
        let found = cells(&pieces, cell as usize)?;
        for (place, found) in (from..stop).zip(found) {
            let (index, at) = (place / CELLS as u64, (place % CELLS as u64) as usize);
            let versions = [&before, &after].map(|state| unit.block(state, id, index)[at]);
            // With more than one commit meanwhile it may be of any of them.
            if versions[0] == versions[1] && found != versions[0] && Rc::ptr_eq(&before, &after) {
                return Err(format!(
                    "a unit sees cell {place} of {name} as {found:x} in place of {:x}",
                    versions[0]
                ));
            }
        }
        Ok(Done::Yes)
    }

    /// A write, trim or zeroing that is a unit of its own.
    async fn simple(&mut self) -> Result<(), String> {
        let name = match self.below(3) {
            0 => self.name(),
            _ => "main".to_string(),
        };
        let Some(known) = self.now().volumes.get(&name).cloned() else {
            return Ok(());
        };
        if known.size == 0 {
            return Ok(());
        }
        let volume = self.disk.volume(&name).map_err(|error| error.to_string())?;
        let from = self.below(known.size);
        let count = (1 + self.below(40)).min(known.size - from);
        let cell = self.cell();
        let (offset, len) = (from * cell as u64, count * cell as u64);
        let mut stamps = vec![0; count as usize];
        let result = match self.below(4) {
            0 => {
                let keep_space = self.below(2) == 0;
                volume.write_zeroes(offset, len, keep_space, false).await
            }
            _ => {
                stamps = self.stamps(count);
                let permit = volume.reserve(len).await;
                let mut buf = self.pool.copy_of(&bytes_of(&stamps, cell));
                buf.attach(Box::new(permit.map_err(|error| error.to_string())?));
                volume.write(offset, buf.share(), false).await
            }
        };
        match result {
            Ok(()) => {}
            // Deleted or made shorter by others.
            Err(error) if matches!(error.kind(), ErrorKind::Deleted | ErrorKind::OutOfRange) => {
                return Ok(());
            }
            Err(error) => return Err(format!("a simple write of {name}: {error}")),
        }
        let mut model = self.model.borrow_mut();
        let mut state = (*model.now()).clone();
        let renamed = state.by_id(known.id).map(|(name, _)| name.clone());
        let name = renamed.ok_or("a write of a volume that is gone")?;
        let mut written = (*state.volumes[&name]).clone();
        let flat = written.blocks.as_flattened_mut();
        flat[from as usize..(from + count) as usize].copy_from_slice(&stamps);
        state.volumes.insert(name, Rc::new(written));
        model.commit(state);
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), String> {
        let number = self.model.borrow().last();
        self.disk.flush().await.map_err(|error| error.to_string())?;
        self.model.borrow_mut().acknowledge(number);
        Ok(())
    }

    /// Compares what is committed with the model.
    async fn check(&mut self) -> Result<(), String> {
        let before = self.now();
        let found = State::read(&self.disk).await;
        // Volumes come and go while they are read.
        match Rc::ptr_eq(&before, &self.now()) {
            true => match found? == *before {
                true => Ok(()),
                false => Err("what is committed is not what the model says".into()),
            },
            false => Ok(()),
        }
    }
}
