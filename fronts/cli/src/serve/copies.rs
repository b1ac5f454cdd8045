//! Copies of a store, which have the UUIDs of the original. The kernel has a device's UUID, so the device of the original would be
//! taken for one of the copy.

use std::fs::{File, metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use tonearm_format::{SECTOR, SUPERBLOCK_SLOTS, Superblock, superblock_offset};

/// True when `other` is another file than `store` and has the same store.
pub fn is_copy(store: &Path, other: &Path) -> bool {
    let file = |path| metadata(path).map(|file| (file.dev(), file.ino()));
    let is_other = matches!((file(store), file(other)), (Ok(a), Ok(b)) if a != b);
    is_other
        && matches!((superblock(store), superblock(other)), (Some(a), Some(b)) if a.store == b.store)
}

/// A superblock of a store.
fn superblock(path: &Path) -> Option<Superblock> {
    let file = File::open(path).ok()?;
    (0..SUPERBLOCK_SLOTS).find_map(|slot| {
        let mut bytes = [0; SECTOR];
        file.read_exact_at(&mut bytes, superblock_offset(slot))
            .ok()?;
        Superblock::decode(&bytes).ok()
    })
}
