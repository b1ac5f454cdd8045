//! The volume table: one system block for each volume.

use crate::error::DiskError;
use crate::map;
use engine::{CommitChange, Engine};
use format::{Extent, NAME_MAX, SECTOR, SYSTEM_BLOCKS, VOLUMES_MAX, VolumeEntry};
use layout::Piece;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A volume as all its handles see it.
pub(crate) struct VolumeState {
    pub slot: u64,
    pub entry: VolumeEntry,
    pub deleted: bool,
    /// How often its blocks have been given other homes.
    pub moves: u64,
}

pub(crate) type SharedVolume = Rc<RefCell<VolumeState>>;

/// All volumes, by name.
pub(crate) struct Table {
    pub volumes: BTreeMap<String, SharedVolume>,
}

impl Table {
    /// Reads the table.
    ///
    /// # Errors
    /// When an entry is damaged.
    pub async fn load(engine: &Engine) -> Result<Self, DiskError> {
        let mut volumes = BTreeMap::new();
        let mut slot = 0;
        let block_size = engine.block_size();
        for piece in engine.read(0, SYSTEM_BLOCKS).await? {
            match piece {
                Piece::Zero(bytes) => slot += (bytes / block_size) as u64,
                Piece::Data(data) => {
                    for block in data.chunks_exact(block_size) {
                        let entry = VolumeEntry::decode(&block[..SECTOR])
                            .map_err(|cause| DiskError::Table { slot, cause })?;
                        if let Some(entry) = entry {
                            let name = entry.name.clone();
                            let state = VolumeState {
                                slot,
                                entry,
                                deleted: false,
                                moves: 0,
                            };
                            volumes.insert(name, Rc::new(RefCell::new(state)));
                        }
                        slot += 1;
                    }
                }
            }
        }
        Ok(Self { volumes })
    }

    /// Free home blocks.
    pub fn free(&self, size_blocks: u64) -> Vec<Extent> {
        let used: Vec<Extent> = self
            .volumes
            .values()
            .flat_map(|volume| volume.borrow().entry.extents.clone())
            .collect();
        map::free(SYSTEM_BLOCKS..size_blocks, used.into_iter())
    }

    /// A slot without a volume.
    pub fn free_slot(&self) -> Option<u64> {
        (0..VOLUMES_MAX as u64).find(|slot| {
            self.volumes
                .values()
                .all(|volume| volume.borrow().slot != *slot)
        })
    }
}

/// The change that puts `entry` into `slot`.
pub(crate) fn put(
    engine: &Engine,
    pool: &base::BufPool,
    slot: u64,
    entry: &VolumeEntry,
) -> CommitChange {
    let mut block = pool.alloc_zeroed(engine.block_size());
    block[..SECTOR].copy_from_slice(&entry.encode());
    CommitChange::Write {
        first: slot,
        data: block.share(),
    }
}

/// Checks a name: it is also that of an NBD export, and shows up in URIs.
///
/// # Errors
/// When it cannot name a volume.
pub(crate) fn check_name(name: &str) -> Result<(), DiskError> {
    let why = if name.is_empty() {
        "it is empty (the empty export name stands for main)"
    } else if name.len() > NAME_MAX {
        "it has over 255 bytes"
    } else if name
        .chars()
        .any(|c| c.is_control() || c == '/' || c.is_whitespace())
    {
        "it has a space, a slash or a control character"
    } else {
        return Ok(());
    };
    Err(DiskError::BadName {
        name: name.to_string(),
        why,
    })
}
