//! What an inode has many of is removed in commits that fit in the smallest log, whichever way the inode goes.

use crate::{Drive, FILE, add_items, with_drive};
use tonearm_base::Nanos;
use tonearm_format::{Xattr, item};
use tonearm_fs::{Allocate, Fs, ROOT_INO, Rename, SetXattr};

/// More than a file gets by now: all of them in one commit would be larger than the log.
const ATTRIBUTES: u64 = 3000;
const BLOCKS: u64 = 3000;

/// A file with many attributes and extents.
async fn large_file(fs: &Fs, name: &[u8]) -> u64 {
    let ino = fs.make(ROOT_INO, name, FILE).await.unwrap().ino;
    let attribute = Xattr {
        name: b"user.a".to_vec(),
        value: vec![7; 900],
    };
    add_items(fs, ino, item::XATTR, ATTRIBUTES, attribute.encode()).await;
    for at in (0..BLOCKS).rev() {
        let block = fs.allocate(ino, at * 4096, 4096, Allocate::Grow);
        block.await.unwrap();
    }
    ino
}

/// Waits for the work that an operation leaves in the background, then checks that one file is left, with no block.
async fn is_deleted(drive: &Drive, fs: &Fs) {
    drive.rt.sleep(Nanos::from_secs(60)).await;
    let space = fs.space().await.unwrap();
    assert_eq!(space.inodes, 1, "inodes with the root");
    assert_eq!(space.blocks, space.free_blocks, "no file has a block");
    let report = tonearm_fs::check(fs.disk()).await.unwrap().unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn a_file_of_many_parts_is_deleted_by_unlink() {
    with_drive(64 << 20, async |drive| {
        let fs = drive.open_fs().await;
        large_file(&fs, b"file").await;
        fs.unlink(ROOT_INO, b"file").await.unwrap();
        is_deleted(&drive, &fs).await;
    });
}

#[test]
fn a_file_of_many_parts_is_deleted_by_a_rename_over_it() {
    with_drive(64 << 20, async |drive| {
        let fs = drive.open_fs().await;
        large_file(&fs, b"file").await;
        fs.make(ROOT_INO, b"new", FILE).await.unwrap();
        let (from, to) = ((ROOT_INO, &b"new"[..]), (ROOT_INO, &b"file"[..]));
        fs.rename(from, to, Rename::Replace).await.unwrap();
        fs.unlink(ROOT_INO, b"file").await.unwrap();
        is_deleted(&drive, &fs).await;
    });
}

#[test]
fn a_file_of_many_parts_is_deleted_with_its_last_handle() {
    with_drive(64 << 20, async |drive| {
        let fs = drive.open_fs().await;
        let ino = large_file(&fs, b"file").await;
        fs.open_handle(ino).unwrap();
        fs.unlink(ROOT_INO, b"file").await.unwrap();
        fs.close_handle(ino);
        is_deleted(&drive, &fs).await;
    });
}

#[test]
fn a_file_of_many_parts_is_deleted_by_the_next_opening() {
    with_drive(64 << 20, async |drive| {
        let fs = drive.open_fs().await;
        let ino = large_file(&fs, b"file").await;
        fs.open_handle(ino).unwrap();
        fs.unlink(ROOT_INO, b"file").await.unwrap();
        fs.disk().close().await.unwrap();
        drop(fs);
        let fs = drive.open_fs().await;
        assert_eq!(fs.orphans_left().len(), 0);
        is_deleted(&drive, &fs).await;
    });
}

/// The removal of attributes changes pages of the tree, which the full store has kept for that.
#[test]
fn a_file_of_many_parts_is_deleted_on_a_full_store() {
    with_drive(32 << 20, async |drive| {
        let fs = drive.open_fs().await;
        large_file(&fs, b"file").await;
        let other = fs.make(ROOT_INO, b"other", FILE).await.unwrap().ino;
        let mut at = 0;
        for len in [1 << 16, 4096] {
            while fs.write(other, at, &vec![1; len]).await.is_ok() {
                at += len as u64;
            }
        }
        while let Ok(made) = fs
            .make(ROOT_INO, &at.to_le_bytes().map(|b| b | 128), FILE)
            .await
        {
            let value = vec![7; 900];
            let set = fs.set_xattr(made.ino, b"user.a", &value, SetXattr::Any);
            at += 1;
            if set.await.is_err() {
                break;
            }
        }
        fs.unlink(ROOT_INO, b"file").await.unwrap();
        drive.rt.sleep(Nanos::from_secs(60)).await;
        // The blocks can be used again.
        for part in 0..16 {
            let offset = (1 << 30) + (part << 16);
            fs.write(other, offset, &vec![1; 1 << 16]).await.unwrap();
        }
        let report = tonearm_fs::check(fs.disk()).await.unwrap().unwrap();
        assert_eq!((report.orphans, report.problems), (0, vec![]));
    });
}
