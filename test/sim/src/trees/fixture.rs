//! File systems for tests.

use super::sound;
use crate::store::{Layout, Shape, StoreImage};
use tonearm_disk::{TreePages, TreeStop};
use tonearm_fs::{Fs, Key, NewInode, SetAttr, Tree};
use tonearm_rt::Rt;

/// A new regular file.
pub const FILE: NewInode = NewInode {
    mode: 0o100_644,
    uid: 0,
    gid: 0,
    rdev: 0,
};

/// A new directory.
pub const DIRECTORY: NewInode = NewInode {
    mode: 0o040_755,
    ..FILE
};

/// Sets the permissions.
pub fn with_mode(mode: u32) -> SetAttr {
    SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    }
}

/// A store with a small volume, and `spare` bytes for files.
pub fn store(layout: Layout, spare: u64) -> StoreImage {
    Shape::small(layout, 32, 1).create_with_spare(spare)
}

/// Runs `test` with a file system in virtual time, which is sound after it.
///
/// # Panics
/// When it is not.
pub fn with_fs(spare: u64, test: impl AsyncFnOnce(Rt, Fs) + 'static) {
    store(Layout::Overwrite, spare).with_fs(1, async move |_, rt, fs| {
        test(rt, fs.clone()).await;
        sound(fs.disk()).await.expect("the tree is sound");
    });
}

/// The key of an inode.
pub fn inode_key(ino: u64) -> Key {
    Key {
        ino,
        kind: 1,
        at: 0,
    }
}

/// The key of the record that says that a file is an orphan.
pub fn orphan_key(ino: u64) -> Key {
    Key {
        ino: 0,
        kind: 6,
        at: ino,
    }
}

/// Changes the tree beneath the file system, as a faulty program could.
///
/// # Panics
/// When that fails.
pub async fn craft(
    fs: &Fs,
    mut change: impl FnMut(&mut Tree<'_, TreePages<'_>>) -> Option<()> + 'static,
) {
    let mut unit = fs.disk().begin();
    unit.set_tree(Box::new(move |pages: &mut TreePages<'_>| {
        change(&mut Tree(pages)).ok_or(TreeStop::Refused)
    }));
    unit.end().await.expect("the tree is changed");
}

/// Bytes of a file.
///
/// # Panics
/// When they cannot be read.
pub async fn read(fs: &Fs, ino: u64, at: u64, len: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in fs.read(ino, at, len).await.expect("the file is read") {
        piece.append_to(&mut bytes);
    }
    bytes
}
