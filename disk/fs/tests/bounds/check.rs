//! The memory of a check.

use crate::{FILE, with_drive};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use tonearm_fs::{Allocate, ROOT_INO, check};

thread_local! {
    /// Bytes that this thread has allocated, and the most since it was last set.
    static MEMORY: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// The allocator of the system, which counts.
struct Counting;

fn count(bytes: isize) {
    let (now, most) = MEMORY.get();
    MEMORY.set((now + bytes, most.max(now + bytes)));
}

// SAFETY: the system's allocator does the work. The count needs no memory and has no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: what the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: what the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A bit for each block, beside what a number of items takes that are looked at together.
#[test]
fn a_check_of_a_large_file_takes_a_bit_for_each_block() {
    const BLOCKS: u64 = 160_000;
    const BESIDES: isize = 100_000;
    with_drive(1 << 30, async |drive| {
        let fs = drive.open_fs().await;
        let ino = fs.make(ROOT_INO, b"file", FILE).await.unwrap().ino;
        for at in (0..BLOCKS).step_by(16_000) {
            let part = fs.allocate(ino, at * 4096, 16_000 * 4096, Allocate::Grow);
            part.await.unwrap();
        }
        // The pages of the tree and of the lists are in memory then.
        check(fs.disk()).await.unwrap();
        let (before, _) = MEMORY.get();
        MEMORY.set((before, before));
        let report = check(fs.disk()).await.unwrap().unwrap();
        assert_eq!((report.blocks, report.problems), (BLOCKS, vec![]));
        let taken = MEMORY.get().1 - before;
        assert!(taken < BLOCKS as isize / 8 + BESIDES, "{taken} bytes");
    });
}
