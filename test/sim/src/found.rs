//! The contents of a store as they are read after a power cut.

use crate::script::volume_number;
use std::collections::{BTreeMap, BTreeSet};
use tonearm_disk::{Disk, DiskError, Piece, Volume};

/// The content of a volume.
#[derive(Default)]
pub struct FoundVolume {
    /// All bytes. Bytes that could not be read are zero.
    pub bytes: Vec<u8>,
    /// Blocks that could not be read.
    pub unreadable: BTreeSet<u64>,
}

/// The contents of a store.
#[derive(Default)]
pub struct Found {
    /// The volumes by number.
    pub volumes: BTreeMap<u8, FoundVolume>,
    /// The error of the first block that could not be read.
    pub error: Option<String>,
}

impl Found {
    /// Reads all volumes.
    ///
    /// # Errors
    /// When a volume exists that no client has created.
    pub async fn read(disk: &Disk) -> Result<Self, String> {
        let mut found = Self::default();
        let block = u64::from(disk.block_size());
        for info in disk.volumes() {
            let number = volume_number(&info.name).ok_or_else(|| {
                format!(
                    "volume {:?} exists, but no client has created it",
                    info.name
                )
            })?;
            let volume = disk.volume(&info.name).map_err(|error| error.to_string())?;
            let mut content = FoundVolume::default();
            match volume.read(0, info.size_bytes).await {
                Ok(pieces) => append(&mut content.bytes, &pieces),
                Err(_) => {
                    // Read block by block to find the damaged ones.
                    for index in 0..info.size_bytes.div_ceil(block) {
                        let from = index * block;
                        let len = block.min(info.size_bytes - from);
                        match volume.read(from, len).await {
                            Ok(pieces) => append(&mut content.bytes, &pieces),
                            Err(error) => {
                                found.error.get_or_insert(error.to_string());
                                content.unreadable.insert(index);
                                content.bytes.resize((from + len) as usize, 0);
                            }
                        }
                    }
                }
            }
            found.volumes.insert(number, content);
        }
        Ok(found)
    }

    /// True when every block was read.
    pub fn is_whole(&self) -> bool {
        self.volumes
            .values()
            .all(|volume| volume.unreadable.is_empty())
    }
}

/// Appends the bytes of `pieces`.
pub fn append(bytes: &mut Vec<u8>, pieces: &[Piece]) {
    for piece in pieces {
        piece.append_to(bytes);
    }
}

/// All bytes of a volume.
///
/// # Errors
/// When a block cannot be read.
pub async fn contents(volume: &Volume) -> Result<Vec<u8>, DiskError> {
    let mut bytes = Vec::new();
    append(&mut bytes, &volume.read(0, volume.size_bytes()).await?);
    Ok(bytes)
}
