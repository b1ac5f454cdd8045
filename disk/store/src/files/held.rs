//! Writes that a session keeps back until their unit ends. SQLite writes page after page and reads none of them back,
//! so a transaction is one call of the engine.

use super::{AruId, FileId, FilesError, FilesErrorKind};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tonearm_base::{ALIGN, AlignedMemory, LooseBuf};

/// Most bytes that are kept back of one unit.
const HELD_MAX: usize = 256 << 10;
/// Most buffers that are kept for the next writes.
const SPARE_MAX: usize = 64;

/// A write that is kept back.
pub(crate) struct HeldWrite {
    pub file: FileId,
    pub offset: u64,
    pub data: LooseBuf,
}

/// The part of a unit that the engine does not have yet.
#[derive(Default)]
pub(crate) struct Due {
    /// The engine has yet to open the unit.
    pub begin: bool,
    /// The unit's writes, in order.
    pub writes: Vec<HeldWrite>,
}

/// The open units of a session.
#[derive(Default)]
pub(super) struct HeldUnits {
    open: Mutex<BTreeMap<AruId, Held>>,
    /// Free memory of the engine's pool, for the next writes.
    spare: Mutex<Vec<AlignedMemory>>,
}

struct Held {
    due: Due,
    bytes: usize,
    /// Why a write that was kept back has failed. All later operations of the unit fail for the same reason.
    failed: Option<FilesError>,
}

/// A unit that has left the table.
pub(super) struct Left {
    /// The part of it that the engine does not have.
    pub due: Due,
    pub failed: Option<FilesError>,
}

impl HeldUnits {
    fn units(&self) -> MutexGuard<'_, BTreeMap<AruId, Held>> {
        // A panic leaves nothing half done here.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spare(&self) -> MutexGuard<'_, Vec<AlignedMemory>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes memory for the next writes.
    pub fn give(&self, memory: Vec<AlignedMemory>) {
        let mut spare = self.spare();
        spare.extend(memory);
        spare.truncate(SPARE_MAX);
    }

    /// Adds unit `aru`, which is open.
    pub fn begin(&self, aru: AruId) {
        let due = Due {
            begin: true,
            writes: Vec::new(),
        };
        let held = Held {
            due,
            bytes: 0,
            failed: None,
        };
        self.units().insert(aru, held);
    }

    /// Keeps a write back. Returns all writes that were kept back once they are many.
    ///
    /// # Errors
    /// When the unit is not open, or one of its writes has failed.
    pub fn write(
        &self,
        aru: AruId,
        file: FileId,
        offset: u64,
        data: &[u8],
    ) -> Result<Option<Due>, FilesError> {
        let spare = (data.len() >= ALIGN).then(|| self.spare().pop()).flatten();
        let mut units = self.units();
        let held = open_of(&mut units, aru)?;
        held.bytes += data.len();
        held.due.writes.push(HeldWrite {
            file,
            offset,
            data: LooseBuf::copy_to(spare, data),
        });
        if held.bytes < HELD_MAX {
            return Ok(None);
        }
        held.bytes = 0;
        Ok(Some(std::mem::take(&mut held.due)))
    }

    /// Returns what was kept back of unit `aru`.
    ///
    /// # Errors
    /// As for [`HeldUnits::write`].
    pub fn due(&self, aru: AruId) -> Result<Due, FilesError> {
        let mut units = self.units();
        let held = open_of(&mut units, aru)?;
        held.bytes = 0;
        Ok(std::mem::take(&mut held.due))
    }

    /// Returns what was kept back of the units that have written to `file`, which is about to be closed.
    pub fn due_of(&self, file: FileId) -> Vec<(AruId, Due)> {
        let mut units = self.units();
        let of_file = |held: &Held| held.due.writes.iter().any(|write| write.file == file);
        let units = units.iter_mut().filter(|(_, held)| of_file(held));
        let due = units.map(|(aru, held)| {
            held.bytes = 0;
            (*aru, std::mem::take(&mut held.due))
        });
        due.collect()
    }

    /// Notes that what was returned has failed in the engine.
    pub fn fail(&self, aru: AruId, error: &FilesError) {
        if let Some(held) = self.units().get_mut(&aru) {
            held.failed.get_or_insert_with(|| error.clone());
        }
    }

    /// Removes unit `aru`; `None` when it was not open.
    pub fn leave(&self, aru: AruId) -> Option<Left> {
        let Held { due, failed, .. } = self.units().remove(&aru)?;
        Some(Left { due, failed })
    }
}

fn open_of(units: &mut BTreeMap<AruId, Held>, aru: AruId) -> Result<&mut Held, FilesError> {
    let held = units.get_mut(&aru).ok_or_else(|| not_open(aru))?;
    match &held.failed {
        Some(error) => Err(error.clone()),
        None => Ok(held),
    }
}

pub(super) fn not_open(aru: AruId) -> FilesError {
    let text = format!("unit {} is not open in this session", aru.0);
    FilesError::new(FilesErrorKind::Failed, text)
}
