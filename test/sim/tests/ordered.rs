//! `ordered` on drives for which it is not true. The store then sends no flush, and a power cut takes any of its writes since
//! the opening. What must hold nevertheless: each block that is read is one of its own versions, whole. What does not hold:
//! that all blocks are of one moment. The store notices holes in its log, and blocks that do not match their checksums; it
//! does not notice the loss of the log's end, nor that of a block together with its checksum.

#![allow(clippy::unwrap_used)]

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_disk::{Disk, OpenOptions};
use tonearm_engine::WriteCache;
use tonearm_rt::Rt;
use tonearm_sim::{Layout, Shape, StoreImage};
use tonearm_world::{Crash, DiskImage, SimOptions, SimWorld};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 200;
const WRITES: u64 = 250;
/// The power is cut at each of so many I/Os.
const EVERY: u64 = 13;
const LAYOUTS: [Layout; 4] = [
    Layout::Overwrite,
    Layout::Segments,
    Layout::Wolf,
    Layout::Hylog,
];

/// The versions that each block has had, in the order of the writes.
#[derive(Default)]
struct History {
    /// Block, and its content after the write.
    writes: Vec<(u64, Vec<u8>)>,
    /// So many of them have been answered.
    answered: usize,
}

impl History {
    /// The content of `block` after the first `count` writes.
    fn version(&self, block: u64, count: usize) -> Option<&[u8]> {
        let own = self.writes[..count].iter().rev();
        let last = own.into_iter().find(|(of, _)| *of == block);
        last.map(|(_, content)| content.as_slice())
    }

    /// True when `found` is the state after the first `count` writes.
    fn is_state(&self, found: &[Vec<u8>], count: usize) -> bool {
        (0..).zip(found).all(|(block, bytes)| {
            self.version(block, count)
                .map_or(is_zero(bytes), |own| own == bytes)
        })
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// What power cuts have left.
#[derive(Default, Debug)]
struct Seen {
    cuts: u64,
    /// The state after all answered writes, or one of the next.
    whole: u64,
    /// An earlier state, without an error.
    shorter: u64,
    refused: u64,
    unreadable: u64,
    /// Versions that never were there together, without an error.
    mixed: u64,
}

fn options() -> OpenOptions {
    OpenOptions {
        memory_bytes: 256 << 10,
        map_cache_bytes: 32 << 10,
        write_cache: WriteCache::Ordered,
        write_back_after: Nanos::from_millis(5),
        separation_interval: Nanos::from_millis(40),
        ..OpenOptions::default()
    }
}

/// Writes whole blocks and parts of them, each when the one before is answered.
async fn client(rt: Rt, disk: Disk, history: Rc<RefCell<History>>, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let volume = disk.volume("main").unwrap().for_kernel_client();
    let memory = BufPool::new(1 << 20);
    for number in 1..=WRITES {
        rt.sleep(Nanos::from_micros(rng.next_u64() % 400)).await;
        let block = rng.next_u64() % BLOCKS;
        let (from, len) = match rng.next_u32() % 3 {
            0 => (rng.next_u32() as usize % 8 * 512, 512),
            _ => (0, BLOCK),
        };
        let mut data = memory.alloc_zeroed(len);
        for word in data.chunks_mut(8) {
            word.copy_from_slice(&number.to_le_bytes());
        }
        let mut content = {
            let known = history.borrow();
            let before = known.version(block, known.writes.len());
            before.map_or_else(|| vec![0; BLOCK], <[u8]>::to_vec)
        };
        content[from..from + len].copy_from_slice(&data);
        history.borrow_mut().writes.push((block, content));
        let offset = block * BLOCK as u64 + from as u64;
        volume.write(offset, data.share(), false).await.unwrap();
        history.borrow_mut().answered = number as usize;
    }
}

/// Opens what a power cut has left, and compares it with `history`.
fn look(left: StoreImage, history: &History, seed: u64, seen: &mut Seen) {
    seen.cuts += 1;
    let (found, _) = left.run(seed, |_, rt, image| async move {
        let disk = image.open_disk(&rt, options()).await.ok()?;
        let volume = disk.volume("main").ok()?;
        let mut found = Vec::new();
        for block in 0..BLOCKS {
            let read = volume.read(block * BLOCK as u64, BLOCK as u64).await;
            found.push(read.ok().map(|pieces| {
                let mut bytes = Vec::new();
                for piece in pieces {
                    piece.append_to(&mut bytes);
                }
                bytes
            }));
        }
        Some(found)
    });
    let Some(found) = found else {
        seen.refused += 1;
        return;
    };
    for (block, bytes) in (0..).zip(&found) {
        let Some(bytes) = bytes else { continue };
        let mut own = history.writes.iter().filter(|(of, _)| *of == block);
        assert!(
            is_zero(bytes) || own.any(|(_, content)| content == bytes),
            "block {block} has a content that it has never had (cut {seed})"
        );
    }
    let read: Option<Vec<Vec<u8>>> = found.into_iter().collect();
    let Some(read) = read else {
        seen.unreadable += 1;
        return;
    };
    let fits = |count: &usize| history.is_state(&read, *count);
    match (0..=history.writes.len()).rev().find(fits) {
        Some(count) if count >= history.answered => seen.whole += 1,
        Some(_) => seen.shorter += 1,
        None => seen.mixed += 1,
    }
}

/// Cuts the power of a store that is opened for an ordered cache. `keeps` says what the drive's cache keeps.
fn run(layout: Layout, seed: u64, keeps: fn(&Crash, u64) -> Vec<DiskImage>, seen: &mut Seen) {
    let image = Shape::small(layout, 16, BLOCKS).create();
    let world_options = SimOptions {
        seed,
        ..SimOptions::default()
    };
    let world = SimWorld::new(world_options, image.disks.clone());
    let rt = Rt::new(world.driver());
    let (history, found) = (
        Rc::new(RefCell::new(History::default())),
        Rc::new(RefCell::new(Seen::default())),
    );
    let (own, noted, tally, steps) = (
        image.clone(),
        history.clone(),
        found.clone(),
        Cell::new(seed),
    );
    let (hooked, opened, working) = (world.clone(), image, rt.clone());
    rt.block_on(async move {
        let disk = opened.open_disk(&working, options()).await.unwrap();
        hooked.on_io(move |_, crash| {
            steps.set(steps.get() + 1);
            if steps.get().is_multiple_of(EVERY) {
                let cut = steps.get() * 31 + seed;
                let left = own.with(keeps(crash, cut));
                look(left, &noted.borrow(), cut, &mut tally.borrow_mut());
            }
        });
        client(working, disk, history, seed).await;
        hooked.clear_hook();
    });
    rt.shut_down();
    let found = found.take();
    seen.cuts += found.cuts;
    seen.whole += found.whole;
    seen.shorter += found.shorter;
    seen.refused += found.refused;
    seen.unreadable += found.unreadable;
    seen.mixed += found.mixed;
}

fn all(keeps: fn(&Crash, u64) -> Vec<DiskImage>) -> Seen {
    let mut seen = Seen::default();
    for layout in LAYOUTS {
        for seed in 1..4 {
            run(layout, seed, keeps, &mut seen);
        }
    }
    seen
}

#[test]
fn nothing_is_lost_where_the_storage_keeps_what_it_has_accepted() {
    let seen = all(Crash::images_ordered);
    assert!(seen.cuts > 500, "{seen:?}");
    assert_eq!(seen.whole, seen.cuts, "{seen:?}");
}

#[test]
fn where_the_drive_reorders_each_block_is_an_error_or_a_version_of_its_own() {
    let seen = all(Crash::images);
    assert!(seen.cuts > 500, "{seen:?}");
    assert!(seen.refused + seen.unreadable > 0, "{seen:?}");
}
