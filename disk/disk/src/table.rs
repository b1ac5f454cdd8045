//! The volume table: one system block for each volume.

use crate::changes::Changes;
use crate::error::DiskError;
use crate::map;
use crate::state::{Life, SharedVolume, VolumeState};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tonearm_engine::{CommitChange, Engine};
use tonearm_format::{
    Extent, NAME_MAX, SECTOR, SYSTEM_BLOCKS, VOLUMES_MAX, VolumeEntry, VolumeKind, volume_faults,
};
use tonearm_layout::Piece;

pub(crate) type SharedTable = Rc<RefCell<Table>>;

/// All volumes, by name, and the slots and blocks that open recovery units hold.
#[derive(Default)]
pub(crate) struct Table {
    pub volumes: BTreeMap<String, SharedVolume>,
    /// Commits that have changed their names.
    pub names: Changes,
    held_slots: BTreeSet<u64>,
    held_extents: Vec<Extent>,
    serials: u64,
}

impl Table {
    /// Reads the table.
    ///
    /// # Errors
    /// When an entry is damaged, or contradicts another one.
    pub async fn load(engine: &Engine) -> Result<Self, DiskError> {
        let mut entries = Vec::new();
        let mut slot = 0;
        let block_size = engine.block_size();
        for piece in engine.read(0, SYSTEM_BLOCKS).await? {
            match piece {
                Piece::Zero(bytes) => slot += (bytes / block_size) as u64,
                Piece::Data(data) => {
                    for block in data.chunks_exact(block_size) {
                        let entry = VolumeEntry::decode(&block[..SECTOR])
                            .map_err(|cause| DiskError::Table { slot, cause })?;
                        entries.extend(entry.map(|entry| (slot, entry)));
                        slot += 1;
                    }
                }
            }
        }
        let by_slot = entries.iter().map(|(slot, entry)| (*slot, entry));
        let faults = volume_faults(by_slot, engine.size_blocks(), block_size as u32);
        if let Some(fault) = faults.into_iter().next() {
            return Err(DiskError::Volume(fault));
        }
        let mut table = Self::default();
        for (slot, entry) in entries {
            let name = entry.name.clone();
            let volume = table.state(slot, entry, Life::Live);
            table.volumes.insert(name, volume);
        }
        Ok(table)
    }

    /// A volume's state under a new serial number.
    pub fn state(&mut self, slot: u64, entry: VolumeEntry, life: Life) -> SharedVolume {
        self.serials += 1;
        Rc::new(RefCell::new(VolumeState {
            serial: self.serials,
            slot,
            entry,
            life,
            moves: 0,
            cuts: 0,
            changes: Changes::default(),
            watched: Rc::default(),
        }))
    }

    /// The volume of `kind`, of which there is one at most.
    pub fn of_kind(&self, kind: VolumeKind) -> Option<SharedVolume> {
        let mut volumes = self.volumes.values();
        volumes
            .find(|volume| volume.borrow().entry.kind == kind)
            .cloned()
    }

    /// Free home blocks, in ascending runs.
    pub fn free(&self, size_blocks: u64) -> Vec<Extent> {
        let volumes = self.volumes.values();
        let used = volumes.flat_map(|volume| volume.borrow().entry.extents.clone());
        let used: Vec<Extent> = used.chain(self.held_extents.iter().copied()).collect();
        map::free(SYSTEM_BLOCKS..size_blocks, used.into_iter())
    }

    /// A slot without a volume; it is not given out again until it is released.
    ///
    /// # Errors
    /// When there is none.
    pub fn hold_slot(&mut self) -> Result<u64, DiskError> {
        let volumes = self.volumes.values();
        let mut taken: BTreeSet<u64> = volumes.map(|volume| volume.borrow().slot).collect();
        taken.extend(&self.held_slots);
        let slot = (0..VOLUMES_MAX as u64).find(|slot| !taken.contains(slot));
        let slot = slot.ok_or(DiskError::TooManyVolumes(VOLUMES_MAX))?;
        self.held_slots.insert(slot);
        Ok(slot)
    }

    /// Ends the hold on a slot, which a volume has now, or which is free again.
    pub fn release_slot(&mut self, slot: u64) {
        self.held_slots.remove(&slot);
    }

    /// Blocks that follow those of `extents`: at least `needed` of them, and `wanted` if the store has
    /// plenty. They are not given out again until they are released.
    ///
    /// # Errors
    /// When the store is full, or its free space in too many pieces.
    pub fn hold_blocks(
        &mut self,
        extents: &[Extent],
        needed: u64,
        wanted: u64,
        size_blocks: u64,
        block_size: u64,
    ) -> Result<Vec<Extent>, DiskError> {
        let free = self.free(size_blocks);
        let free_blocks = map::blocks(&free);
        if free_blocks < needed {
            return Err(DiskError::StoreFull {
                free_bytes: free_blocks * block_size,
                needed_bytes: needed.saturating_mul(block_size),
            });
        }
        let plenty = wanted <= free_blocks / PLENTY;
        let grown = plenty.then(|| map::allocate(extents, wanted.max(needed), &free));
        let grown = match grown.flatten() {
            Some(grown) => grown,
            None => map::allocate(extents, needed, &free).ok_or(DiskError::Fragmented)?,
        };
        let held = map::split(&grown, map::blocks(extents)).1;
        self.held_extents.extend(&held);
        Ok(held)
    }

    /// Ends the hold on blocks, which a volume has now, or which are free again.
    pub fn release_blocks(&mut self, extents: &[Extent]) {
        for extent in extents {
            let at = self.held_extents.iter().position(|held| held == extent);
            self.held_extents
                .swap_remove(at.expect("what is released is held"));
        }
    }
}

/// A preallocation may take one part in so many of the free space.
const PLENTY: u64 = 8;
/// The change that puts `entry` into `slot`.
pub(crate) fn put(
    engine: &Engine,
    pool: &tonearm_base::BufPool,
    slot: u64,
    entry: &VolumeEntry,
) -> CommitChange {
    let mut block = pool.alloc_zeroed(engine.block_size());
    block[..SECTOR].copy_from_slice(&entry.encode());
    let data = block.share();
    CommitChange::Write { first: slot, data }
}

/// The change that frees `slot`.
pub(crate) fn clear(engine: &Engine, pool: &tonearm_base::BufPool, slot: u64) -> CommitChange {
    CommitChange::Write {
        first: slot,
        data: pool.alloc_zeroed(engine.block_size()).share(),
    }
}

/// Checks the name of a volume, which is also the name of an NBD export and appears in URIs.
///
/// # Errors
/// When it cannot name a volume.
pub(crate) fn check_name(name: &str) -> Result<(), DiskError> {
    if name.is_empty() {
        Err(bad_name(
            name,
            "it is empty (the empty export name stands for main)",
        ))
    } else if name.len() > NAME_MAX {
        Err(bad_name(name, "it has over 255 bytes"))
    } else if name.chars().any(char::is_control) {
        Err(bad_name(name, "it has a control character"))
    } else if name.chars().any(|c| c == '/' || c.is_whitespace()) {
        Err(bad_name(name, "it has a space or a slash"))
    } else if [LISTS, SPILL, TREE].contains(&name) {
        Err(bad_name(name, "the store keeps it for itself"))
    } else {
        Ok(())
    }
}

/// Name of the area of lists and blocks.
pub(crate) const LISTS: &str = ".lists";
/// Name of the space for large recovery units.
pub(crate) const SPILL: &str = ".spill";
/// Name of the volume with the pages of the tree of files.
pub(crate) const TREE: &str = ".tree";

fn bad_name(name: &str, why: &'static str) -> DiskError {
    DiskError::BadName {
        name: name.to_string(),
        why,
    }
}
