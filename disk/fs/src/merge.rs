//! What becomes of an item that a unit has changed, if others may have changed it since.

use crate::overlay::Change;
use crate::types::{DIRECTORY, TYPE};
use tonearm_format::{Inode, Key, item};

/// The item that a unit leaves where `there` is committed by now; the outer `None` is a conflict.
pub(crate) fn merge(key: Key, change: &Change, there: Option<&[u8]>) -> Option<Option<Vec<u8>>> {
    let Change { base, now } = change;
    if base.as_deref() == there {
        return Some(now.clone());
    }
    match (base, now, there) {
        (Some(base), Some(now), Some(there)) if key.kind == item::INODE => {
            let decode = |bytes: &[u8]| Inode::decode(bytes).ok();
            let merged = inodes(&decode(base)?, &decode(now)?, &decode(there)?)?;
            Some(Some(merged.encode().to_vec()))
        }
        _ => None,
    }
}

/// `None` when both have changed the same.
fn inodes(base: &Inode, now: &Inode, there: &Inode) -> Option<Inode> {
    let is_directory = base.mode & TYPE == DIRECTORY;
    let was_removed = |one: &Inode, other: &Inode| one.nlink == 0 && other.size != base.size;
    if is_directory && (was_removed(now, there) || there.nlink == 0) {
        return None;
    }
    // The blocks of one side would be on the list that the other one has taken away.
    let moved = |one: &Inode, other: &Inode| {
        one.list != base.list && (other.list, other.blocks) != (base.list, base.blocks)
    };
    if moved(now, there) || moved(there, now) {
        return None;
    }
    let (nlink, size, mtime) = if is_directory {
        // Others may enter and remove other names of the directory.
        (
            added(base.nlink.into(), now.nlink.into(), there.nlink.into())?,
            added(base.size, now.size, there.size)?,
            now.mtime.max(there.mtime),
        )
    } else {
        (
            one_of(base.nlink, now.nlink, there.nlink)?.into(),
            longer(base.size, now.size, there.size)?,
            one_of(base.mtime, now.mtime, there.mtime).unwrap_or(now.mtime.max(there.mtime)),
        )
    };
    Some(Inode {
        mode: one_of(base.mode, now.mode, there.mode)?,
        uid: one_of(base.uid, now.uid, there.uid)?,
        gid: one_of(base.gid, now.gid, there.gid)?,
        nlink: u32::try_from(nlink).ok()?,
        size,
        blocks: one_of(base.blocks, now.blocks, there.blocks)?,
        atime: now.atime.max(there.atime),
        mtime,
        ctime: now.ctime.max(there.ctime),
        btime: base.btime,
        rdev: base.rdev,
        list: one_of(base.list, now.list, there.list)?,
        parent: one_of(base.parent, now.parent, there.parent)?,
    })
}

/// The value that one side has changed; `None` when both have changed it, differently.
fn one_of<T: PartialEq + Copy>(base: T, now: T, there: T) -> Option<T> {
    match (now == base, there == base) {
        (true, _) => Some(there),
        (_, true) => Some(now),
        _ => (now == there).then_some(now),
    }
}

/// The size that two writers leave; `None` when one of them has cut the file off and the other one has changed its size.
fn longer(base: u64, now: u64, there: u64) -> Option<u64> {
    if now >= base && there >= base {
        Some(now.max(there))
    } else {
        one_of(base, now, there)
    }
}

/// Both changes of a count.
fn added(base: u64, now: u64, there: u64) -> Option<u64> {
    there.checked_add(now)?.checked_sub(base)
}
