//! A client. It makes the operations of its script and compares the results with the model.

use crate::blame::{Blame, Faults};
use crate::content::fill;
use crate::found::append;
use crate::model::{Change, Effect};
use crate::observer::Observer;
use crate::script::{Op, volume_name};
use crate::store::Shape;
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_disk::{Disk, DiskError, ErrorKind, Scrub};
use tonearm_layout::{BadBlock, GroupReport, HomeError};
use tonearm_rt::Rt;

/// One client of a run.
#[derive(Clone)]
pub struct Client {
    pub rt: Rt,
    pub faults: Faults,
    pub disk: Disk,
    pub observer: Observer,
    pub shape: Shape,
    pub pool: BufPool,
    /// Source of identities for new volumes.
    pub ids: Rc<Cell<u64>>,
}

/// How an operation ended for its client.
enum End {
    Well,
    /// The store has failed, and the client stops.
    Failed,
}

impl Client {
    /// Makes the operations `ops`, or as many as the store allows.
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub async fn run(self, ops: Vec<Op>) -> Result<(), String> {
        for op in ops {
            let end = self
                .step(&op)
                .await
                .map_err(|what| format!("{op:?}: {what}"))?;
            let violation = self.observer.model.borrow().violation();
            match violation {
                // With an old volume table anything may follow: see `Blame`.
                Some(_) if self.blame().stale => break,
                Some(what) => return Err(format!("{op:?}: {what}")),
                None => {}
            }
            if let End::Failed = end {
                break;
            }
        }
        Ok(())
    }

    fn blame(&self) -> Blame {
        Blame::of(&self.faults.struck(), &self.shape)
    }

    async fn step(&self, op: &Op) -> Result<End, String> {
        match *op {
            Op::Write {
                volume,
                offset,
                len,
                stamp,
                durable,
            } => {
                let mut bytes = vec![0; len as usize];
                fill(&mut bytes, stamp, offset);
                let data: Rc<[u8]> = bytes.into();
                let change = Change::Write {
                    offset,
                    data: data.clone(),
                };
                let effect = self.effect(volume, change);
                let work = async {
                    let volume = self.disk.volume(&volume_name(volume))?;
                    let permit = volume.reserve(len).await?;
                    let mut buf = self.pool.copy_of(&data);
                    buf.attach(Rc::new(permit));
                    volume.write(offset, buf.share(), durable).await
                };
                self.change(effect, durable, false, work).await
            }
            Op::Zero {
                volume,
                offset,
                len,
                keep,
                durable,
            } => {
                let effect = self.effect(volume, Change::Zero { offset, len });
                let work = async {
                    let volume = self.disk.volume(&volume_name(volume))?;
                    volume.write_zeroes(offset, len, keep, durable).await
                };
                self.change(effect, durable, false, work).await
            }
            Op::Trim {
                volume,
                offset,
                len,
                durable,
            } => {
                let effect = self.effect(volume, Change::Trim { offset, len });
                let work = async {
                    let volume = self.disk.volume(&volume_name(volume))?;
                    volume.trim(offset, len, durable).await
                };
                self.change(effect, durable, true, work).await
            }
            Op::Create { volume, size } => {
                let id = self.ids.get();
                self.ids.set(id + 1);
                let change = Change::Create(size);
                let effect = Effect { volume, id, change };
                let uuid = [volume + 3; 16];
                let name = volume_name(volume);
                let work = self.disk.create_volume(&name, size, uuid, 0);
                self.change(Some(effect), true, false, work).await
            }
            Op::Delete { volume } => {
                let effect = self.effect(volume, Change::Delete);
                let name = volume_name(volume);
                self.change(effect, true, false, self.disk.delete_volume(&name))
                    .await
            }
            Op::Resize { volume, size } => self.resize(volume, size).await,
            Op::Flush => {
                let last = self.observer.model.borrow().last();
                let (result, _, _) = self.observer.watch(Vec::new(), self.disk.flush()).await;
                match result {
                    Ok(()) => {
                        self.observer.model.borrow_mut().acknowledge(last);
                        Ok(End::Well)
                    }
                    Err(error) => self.excuse(&error),
                }
            }
            Op::Read {
                volume,
                offset,
                len,
            } => self.read(volume, offset, len).await,
            Op::Sleep { us } => {
                self.rt.sleep(Nanos::from_micros(us)).await;
                Ok(End::Well)
            }
            Op::Scrub => {
                let (result, _, _) = self
                    .observer
                    .watch(Vec::new(), self.disk.scrub(Scrub::Repair, |_, _| true))
                    .await;
                match result {
                    Ok(report) if report.damaged.is_empty() || self.blame().damage => Ok(End::Well),
                    // A drive that fails all operations also fails those of the scrub. Then no checksum is wrong.
                    Ok(report) if self.blame().errors && report.damaged.iter().all(unread) => {
                        Ok(End::Well)
                    }
                    Ok(report) => Err(format!("damage without a fault: {:?}", report.damaged[0])),
                    Err(error) => self.excuse(&error),
                }
            }
        }
    }

    /// The effect of a change to the volume that has the name now.
    fn effect(&self, volume: u8, change: Change) -> Option<Effect> {
        let model = self.observer.model.borrow();
        let id = model.now().volumes.get(&volume)?.id;
        Some(Effect { volume, id, change })
    }

    /// An operation that makes one commit, or possibly none if `may_be_none`.
    async fn change(
        &self,
        effect: Option<Effect>,
        durable: bool,
        may_be_none: bool,
        work: impl Future<Output = Result<(), DiskError>>,
    ) -> Result<End, String> {
        let effects: Vec<Effect> = effect.into_iter().collect();
        let expected = effects.len();
        let (result, left, last) = self.observer.watch(effects, work).await;
        match result {
            Ok(()) => {
                if left > 0 && !may_be_none {
                    return Err("it succeeds without a commit".into());
                }
                if expected == 0 && !self.blame().stale {
                    return Err("it succeeds on a volume that does not exist".into());
                }
                let at_once = self.disk.engine().options().ack == tonearm_disk::Ack::Write;
                if left < expected && (durable || at_once) {
                    self.observer.model.borrow_mut().acknowledge(last);
                }
                Ok(End::Well)
            }
            Err(error) => self.excuse(&error),
        }
    }

    async fn resize(&self, volume: u8, size: u64) -> Result<End, String> {
        let effect = self.effect(volume, Change::Resize(size));
        let (is_there, effects) = (effect.is_some(), effect.into_iter().collect());
        let name = volume_name(volume);
        let (result, left, last) = self
            .observer
            .watch(effects, self.disk.resize_volume(&name, size))
            .await;
        match result {
            Ok(()) if !is_there && self.blame().stale => Ok(End::Failed),
            Ok(()) if left > 0 || !is_there => Err("it succeeds without a commit".into()),
            Ok(()) => {
                self.observer.model.borrow_mut().acknowledge(last);
                Ok(End::Well)
            }
            Err(error) => self.excuse(&error),
        }
    }

    async fn read(&self, number: u8, offset: u64, len: u64) -> Result<End, String> {
        let since = self.observer.model.borrow_mut().begin_read();
        let work = async {
            let volume = self.disk.volume(&volume_name(number))?;
            volume.read(offset, len).await
        };
        let (result, _, _) = self.observer.watch(Vec::new(), work).await;
        let end = match result {
            Ok(pieces) => {
                let mut found = Vec::with_capacity(len as usize);
                append(&mut found, &pieces);
                match found.len() as u64 == len {
                    true => self.compare(since, number, offset, &found),
                    false => Err(format!("{} bytes were read instead of {len}", found.len())),
                }
            }
            Err(error) => self.excuse(&error),
        };
        self.observer.model.borrow_mut().end_read(since);
        end
    }

    /// Compares the bytes of a read that began after commit `since`.
    fn compare(&self, since: u64, number: u8, offset: u64, found: &[u8]) -> Result<End, String> {
        let model = self.observer.model.borrow();
        let before = model.states_since(since).next();
        let Some(volume) = before.and_then(|state| state.volumes.get(&number)) else {
            if self.blame().stale {
                return Ok(End::Failed);
            }
            return Err("a volume was read that does not exist".into());
        };
        if model.explains(since, number, volume.id, offset, found) {
            return Ok(End::Well);
        }
        let block = u64::from(self.shape.block_size);
        if self.blame().stale && offset.is_multiple_of(block) && model.has_had(found) {
            return Ok(End::Well);
        }
        let mut expected = vec![0; found.len()];
        volume.content.read(offset, &mut expected);
        let differs = |at: &usize| found[*at] != expected[*at];
        let at = (0..found.len()).find(differs).unwrap_or(0);
        let until = (at + 8).min(found.len());
        Err(format!(
            "byte {} is wrong: {:02x?} in place of {:02x?}",
            offset + at as u64,
            &found[at..until],
            &expected[at..until]
        ))
    }

    /// Returns no finding for an error that is correct, or that a fault excuses.
    fn excuse(&self, error: &DiskError) -> Result<End, String> {
        let blame = self.blame();
        match error.kind() {
            ErrorKind::OutOfRange
            | ErrorKind::NotFound
            | ErrorKind::Exists
            | ErrorKind::Deleted
            | ErrorKind::Invalid => Ok(End::Well),
            // The store has no space for a volume. A full drive below it gives the same error.
            ErrorKind::NoSpace => Ok(End::Well),
            ErrorKind::Damaged if blame.damage => Ok(End::Well),
            ErrorKind::Failed | ErrorKind::ReadOnly if blame.errors => {
                match self.disk.engine().failure() {
                    Some(_) => Ok(End::Failed),
                    None => Ok(End::Well),
                }
            }
            kind => Err(format!("an error without a fault ({kind:?}): {error}")),
        }
    }
}

/// True when the report's only findings are blocks that the device could not read.
fn unread(report: &GroupReport) -> bool {
    let unread = |bad: &BadBlock| matches!(bad.error, HomeError::Device { .. });
    report.bad.iter().all(unread)
}
