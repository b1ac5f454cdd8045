//! Which files have certain blocks: to name the damage of a medium.

use crate::check::{after, next_items};
use crate::error::FsError;
use crate::meta::{Naming, entry_key, first_key};
use crate::tree::Key;
use crate::types::{DIRECTORY, TYPE};
use async_recursion::async_recursion as boxed;
use std::collections::{BTreeMap, BTreeSet};
use tonearm_disk::{BlockId, Disk};
use tonearm_format::{DirEntry, FileExtent, FormatError, ROOT_INO, item};

/// A run of blocks of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedBlocks {
    /// The file.
    pub ino: u64,
    /// One of its paths, without a leading slash; `None` for a file without a name.
    pub path: Option<Vec<u8>>,
    /// The first block of the run, counted from the beginning of the file.
    pub first: u64,
    /// Blocks of the run.
    pub count: u64,
}

/// A name of a file, and its directory.
type Named = (u64, Vec<u8>);

/// The files that have `blocks`, by inode and place in the file. Blocks of no file are left out. Nothing may be committed
/// meanwhile. Reads all pages of the tree, twice.
///
/// # Errors
/// When the tree cannot be read or is damaged.
#[boxed(?Send)]
pub async fn owners(disk: &Disk, blocks: &BTreeSet<BlockId>) -> Result<Vec<OwnedBlocks>, FsError> {
    let mut found = BTreeSet::new();
    each_item(disk, first_key(0), |key, value| {
        if key.kind == item::EXTENT && key.ino != 0 {
            let extent = FileExtent::decode(key.at, value)?;
            let end = BlockId(extent.block + u64::from(extent.count));
            let hit = blocks.range(BlockId(extent.block)..end);
            found.extend(hit.map(|block| (key.ino, key.at.saturating_add(block.0 - extent.block))));
        }
        Ok(true)
    })
    .await?;
    let files = found.iter().map(|(ino, _)| *ino).collect();
    let paths = paths(disk, files).await?;
    let mut runs: Vec<OwnedBlocks> = Vec::new();
    for (ino, block) in found {
        match runs.last_mut() {
            Some(run) if (run.ino, run.first + run.count) == (ino, block) => run.count += 1,
            _ => runs.push(OwnedBlocks {
                ino,
                path: paths.get(&ino).cloned(),
                first: block,
                count: 1,
            }),
        }
    }
    Ok(runs)
}

/// A path of each of `files` that has one.
async fn paths(disk: &Disk, files: BTreeSet<u64>) -> Result<BTreeMap<u64, Vec<u8>>, FsError> {
    let mut names: BTreeMap<u64, Named> = BTreeMap::new();
    if !files.is_empty() {
        each_item(disk, first_key(0), |key, value| {
            if key.kind == item::ENTRY && key.ino != 0 {
                let entry = DirEntry::decode(key.at, value)?;
                if files.contains(&entry.ino) {
                    names.entry(entry.ino).or_insert((key.ino, entry.name));
                }
            }
            Ok(true)
        })
        .await?;
    }
    let mut paths = BTreeMap::new();
    for ino in files {
        let Some((mut dir, name)) = names.get(&ino).cloned() else {
            continue;
        };
        let (mut parts, mut seen) = (vec![name], BTreeSet::new());
        while dir != ROOT_INO {
            if !seen.insert(dir) {
                let text = format!("directory {dir} is below itself");
                return Err(FsError::Damaged(text));
            }
            let above = match names.get(&dir) {
                Some(above) => above.clone(),
                None => name_of_directory(disk, dir).await?,
            };
            names.insert(dir, above.clone());
            dir = above.0;
            parts.push(above.1);
        }
        parts.reverse();
        paths.insert(ino, parts.join(&b'/'));
    }
    Ok(paths)
}

/// The name of a directory, in the directory that its inode names.
async fn name_of_directory(disk: &Disk, dir: u64) -> Result<Named, FsError> {
    let inode = crate::fs::look(disk, Naming::default(), |meta| meta.inode(dir)).await?;
    let (parent, mut found) = (inode.parent, None);
    if inode.mode & TYPE == DIRECTORY {
        each_item(disk, entry_key(parent, 0), |key, value| {
            let is_own = (key.ino, key.kind) == (parent, item::ENTRY);
            if is_own {
                let entry = DirEntry::decode(key.at, value)?;
                found = Some(entry.name).filter(|_| entry.ino == dir);
            }
            Ok(is_own && found.is_none())
        })
        .await?;
    }
    let missing = || FsError::Damaged(format!("directory {dir} has no name in directory {parent}"));
    found.map(|name| (parent, name)).ok_or_else(missing)
}

/// Calls `each` for the items from `from` on, until it returns false.
async fn each_item(
    disk: &Disk,
    from: Key,
    mut each: impl FnMut(Key, &[u8]) -> Result<bool, FormatError>,
) -> Result<(), FsError> {
    let mut from = Some(from);
    while let Some(first) = from {
        let items = next_items(disk, first).await?;
        from = items.last().and_then(|(last, _)| after(*last));
        for (key, value) in items {
            let goes_on = each(key, &value)
                .map_err(|error| FsError::Damaged(format!("inode {}: {error}", key.ino)))?;
            if !goes_on {
                return Ok(());
            }
        }
    }
    Ok(())
}
