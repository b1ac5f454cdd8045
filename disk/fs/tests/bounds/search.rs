//! Searches for holes, and holes that are made.

use crate::{FILE, add_items, with_drive};
use std::cell::Cell;
use std::rc::Rc;
use tonearm_format::{FileExtent, item};
use tonearm_fs::{Allocate, Fs, FsError, ROOT_INO, Seek, SetAttr};

const EXTENTS: u64 = 20_000;
/// Items of an extent that a page of the tree has at least.
const ITEMS_OF_A_PAGE: u64 = 40;

/// A file whose blocks are data and, after each of them, a hole. Only the tree knows of them.
async fn sparse_file(fs: &Fs) -> u64 {
    let ino = fs.make(ROOT_INO, b"sparse", FILE).await.unwrap().ino;
    fs.write(ino, 0, &[1; 4096]).await.unwrap();
    let extent = FileExtent { block: 2, count: 2 };
    add_items(fs, ino, item::EXTENT, EXTENTS, extent.encode().to_vec()).await;
    let size = SetAttr {
        size: Some(2 * EXTENTS * 4096),
        ..SetAttr::default()
    };
    fs.set_attr(ino, size).await.unwrap();
    ino
}

async fn first_hole(fs: &Fs, ino: u64) -> u64 {
    fs.seek(ino, 0, Seek::Hole).await.unwrap()
}

#[test]
fn a_search_for_a_hole_reads_each_page_once() {
    with_drive(64 << 20, async |drive| {
        let fs = drive.open_fs().await;
        let ino = sparse_file(&fs).await;
        fs.disk().close().await.unwrap();
        drop(fs);
        let fs = drive.open_fs().await;
        let before = fs.disk().stats().home_reads;
        assert_eq!(first_hole(&fs, ino).await, 2 * EXTENTS * 4096);
        let reads = fs.disk().stats().home_reads - before;
        assert!(
            reads <= EXTENTS / ITEMS_OF_A_PAGE,
            "{reads} reads for {EXTENTS} extents"
        );
    });
}

/// Others go on during a search whose pages are all in memory, so that it waits for no device.
#[test]
fn a_search_for_a_hole_lets_others_go_on() {
    with_drive(64 << 20, async |drive| {
        let fs = drive.open_fs().await;
        let ino = sparse_file(&fs).await;
        first_hole(&fs, ino).await;
        let (turns, over) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let others = drive.rt.spawn({
            let (rt, turns, over) = (drive.rt.clone(), turns.clone(), over.clone());
            async move {
                while !over.get() {
                    turns.set(turns.get() + 1);
                    rt.yield_now().await;
                }
            }
        });
        let reads = fs.disk().stats().home_reads;
        first_hole(&fs, ino).await;
        over.set(true);
        others.await;
        assert_eq!(fs.disk().stats().home_reads, reads);
        assert!(turns.get() >= EXTENTS / 2048, "{} turns", turns.get());
    });
}

/// A hole over many extents is made in several commits. All of them together read each page once.
#[test]
fn a_hole_over_many_extents_is_made_in_bounded_steps() {
    const BLOCKS: u64 = 4000;
    with_drive(64 << 20, async |drive| {
        let fs = drive.open_fs().await;
        let ino = fs.make(ROOT_INO, b"file", FILE).await.unwrap().ino;
        // Backwards, so that blocks that follow each other in the file do not on the disk.
        for at in (0..BLOCKS).rev() {
            let block = fs.allocate(ino, at * 4096, 4096, Allocate::Grow);
            block.await.unwrap();
        }
        fs.disk().close().await.unwrap();
        drop(fs);
        let fs = drive.open_fs().await;
        let before = fs.disk().stats();
        let punched = fs.allocate(ino, 0, BLOCKS * 4096, Allocate::Punch);
        punched.await.unwrap();
        let after = fs.disk().stats();
        let (reads, commits) = (
            after.home_reads - before.home_reads,
            after.commits - before.commits,
        );
        // Pages of the tree, and pages of records of lists.
        let pages = BLOCKS / ITEMS_OF_A_PAGE + BLOCKS / 100;
        assert!(reads <= pages, "{reads} reads for {BLOCKS} extents");
        assert!(commits > BLOCKS / 1024, "{commits} commits");
        let data = fs.seek(ino, 0, Seek::Data).await;
        assert!(matches!(data, Err(FsError::NothingBehind)), "{data:?}");
    });
}
