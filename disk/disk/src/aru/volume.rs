//! A volume as a recovery unit sees it.

use crate::error::DiskError;
use crate::map;
use crate::state::{Life, SharedVolume};
use crate::table::Table;
use std::rc::Rc;
use tonearm_format::{Extent, VolumeEntry};

/// A volume that a unit changes.
pub(super) struct ShadowVolume {
    pub shared: SharedVolume,
    pub serial: u64,
    /// How often the volume had been cut off when the unit first changed it.
    cuts: u64,
    /// Size that the unit has set.
    pub size: Option<u64>,
    /// First block whose committed content the unit has cut off. From there on all bytes are the unit's.
    pub cut: u64,
    /// Blocks taken for it, after those that it has.
    pub held: Vec<Extent>,
    /// The unit has made it.
    pub created: bool,
    /// The unit has deleted it.
    pub deleted: bool,
}

/// The change of a volume's entry when its unit ends.
pub(super) enum Outcome {
    /// The entry does not change.
    Same,
    /// This entry takes its place; blocks of the volume from `cut` on lose their content.
    Put { entry: VolumeEntry, cut: u64 },
    /// The volume is deleted.
    Gone,
}

impl ShadowVolume {
    pub fn new(shared: &SharedVolume) -> Self {
        let state = shared.borrow();
        Self {
            shared: shared.clone(),
            serial: state.serial,
            cuts: state.cuts,
            size: None,
            cut: u64::MAX,
            held: Vec::new(),
            created: state.life == Life::Pending,
            deleted: false,
        }
    }

    pub fn is(&self, shared: &SharedVolume) -> bool {
        Rc::ptr_eq(&self.shared, shared)
    }

    /// True when the entry may change, apart from its name.
    pub fn changes_entry(&self) -> bool {
        self.created || self.deleted || self.size.is_some()
    }

    /// Checks that nothing about this volume prevents the unit's end.
    ///
    /// # Errors
    /// When others have deleted or shrunk it or made it read-only.
    pub fn check(&self) -> Result<(), DiskError> {
        let state = self.shared.borrow();
        if !self.created && state.life != Life::Live {
            return Err(deleted(&state.entry.name));
        }
        // It was made read-only after the unit had begun to change it.
        if state.entry.read_only {
            return Err(DiskError::ReadOnlyVolume(state.entry.name.clone()));
        }
        // The volume may be as long again by now, but with other content than the unit has read.
        if !self.deleted && state.cuts != self.cuts {
            let name = &state.entry.name;
            let text = format!("volume {name:?} has been made shorter");
            return Err(DiskError::Conflict(text));
        }
        Ok(())
    }

    /// The volume's outcome in the present state, under the name `name` if that is a new one. Takes further blocks if
    /// others have taken some from the volume meanwhile.
    ///
    /// # Errors
    /// When others have deleted or shrunk it or made it read-only, or the store has become full.
    pub fn outcome(
        &mut self,
        name: Option<&str>,
        table: &mut Table,
        size_blocks: u64,
        block_size: u64,
    ) -> Result<Outcome, DiskError> {
        self.check()?;
        if self.deleted {
            return Ok(Outcome::Gone);
        }
        let state = self.shared.borrow();
        let committed = state.entry.size_bytes;
        let size_bytes = self.size.unwrap_or(committed);
        let same = size_bytes == committed && self.cut == u64::MAX && !self.created;
        if same && name.is_none() {
            return Ok(Outcome::Same);
        }
        let needed = size_bytes.div_ceil(block_size);
        let mut extents = state.entry.extents.clone();
        let mut cut = self.cut;
        if self.size.is_some() {
            cut = cut.min(needed);
            extents = map::split(&extents, needed).0;
        }
        let name = name.unwrap_or(&state.entry.name).to_string();
        let entry = VolumeEntry {
            name,
            size_bytes,
            extents: Vec::new(),
            ..state.entry.clone()
        };
        drop(state);
        if map::blocks(&extents) < needed {
            extents = map::append(extents, &self.held);
            let have = map::blocks(&extents);
            if have < needed {
                let more = needed - have;
                let held = table.hold_blocks(&extents, more, more, size_blocks, block_size)?;
                extents = map::append(extents, &held);
                self.held.extend(held);
            }
        }
        if extents.len() > tonearm_format::EXTENTS_MAX {
            return Err(DiskError::Fragmented);
        }
        Ok(Outcome::Put {
            entry: VolumeEntry { extents, ..entry },
            cut,
        })
    }

    /// Gives back what the unit has taken: after the unit's end it belongs to the volume, or is free.
    pub fn give_back(&self, table: &mut Table) {
        table.release_blocks(&self.held);
        if self.created {
            let mut state = self.shared.borrow_mut();
            table.release_slot(state.slot);
            if state.life == Life::Pending {
                state.life = Life::Deleted;
            }
        }
    }
}

pub(super) fn deleted(name: &str) -> DiskError {
    DiskError::Conflict(format!("volume {name:?} has been deleted"))
}
