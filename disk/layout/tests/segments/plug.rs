//! Plugging: live blocks are moved into holes of other segments.

use crate::common::{BLOCK, Numbers, Shape, Store};
use crate::crash::Call;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_format::{HEADER_AREA_BYTES, Placement};
use tonearm_layout::{Home as _, HomeStats, Plugging, Reader};
use tonearm_rt::Op;
use tonearm_world::{
    Crash, Done, DriveRequest, Jitter, JitterTimes, Kind, SimDisk, SimOptions, SimWorld, Timing,
    Zeroing,
};

/// A full store that plugs wherever there are holes.
fn full(seed: u64) -> Store {
    let blocks = 900 + 100 * (seed % 3);
    let mut store = Store::new(Shape {
        segments: blocks / 14 + 30 + 8 * (seed % 2),
        cache_bytes: 64 << 10,
        plugging: Plugging::Always,
        placement: [Placement::Append, Placement::Wolf][seed as usize / 2 % 2],
        ..Shape::small(blocks)
    });
    store.fill(50);
    store
}

fn plugged(store: &Store) -> u64 {
    store.home.stats().segments.plugged_blocks
}

fn destroy_checkpoints(store: &Store) {
    let slots = store.shape.layout().checkpoint_bytes();
    store.destroy(HEADER_AREA_BYTES, slots as usize);
}

/// Overwrites random blocks in `rounds` calls.
fn overwrite(store: &mut Store, numbers: &mut Numbers, rounds: u64) {
    for _ in 0..rounds {
        let call = Call::random(numbers, store.shape.blocks);
        store.write(&call.blocks, &call.holes);
    }
}

#[test]
fn a_power_cut_at_any_moment_of_plugging_loses_nothing() {
    let (mut cuts, mut moved, mut recovered) = (0, 0, 0);
    for seed in 0..8 {
        let mut numbers = Numbers(seed);
        let mut store = full(seed);
        let size = store.shape.blocks;
        for round in 0..45u64 {
            let call = Call::random(&mut numbers, size);
            let states: Rc<RefCell<Vec<Crash>>> = Rc::default();
            let before = plugged(&store);
            if round % 4 == 3 {
                let (seen, mut number) = (states.clone(), numbers.below(6));
                store.world.on_io(move |_, crash| {
                    number += 1;
                    if number.is_multiple_of(6) {
                        seen.borrow_mut().push(crash.clone());
                    }
                });
            }
            store.write(&call.blocks, &call.holes);
            store.world.clear_hook();
            let states = states.take();
            if plugged(&store) == before {
                continue;
            }
            for (index, crash) in states.iter().enumerate() {
                let cut = seed * 1_000_003 + round * 1009 + index as u64;
                call.check(&store, crash, cut, index.is_multiple_of(8));
                cuts += 1;
            }
        }
        store.compare();
        let again = store.reopened(seed).unwrap();
        recovered += again.home.stats().segments.recovered_partials;
        again.compare();
        moved += plugged(&store);
    }
    println!("{cuts} power cuts, {moved} blocks moved, {recovered} partials recovered");
    assert!(cuts > 300 && moved > 3000 && recovered > 100);
}

/// A store that was cut off goes on plugging, over what earlier openings have plugged.
#[test]
fn plugging_goes_on_after_each_opening() {
    for seed in 0..4 {
        let mut numbers = Numbers(40 + seed);
        let mut store = full(seed);
        let mut moved = 0;
        for round in 0..12 {
            overwrite(&mut store, &mut numbers, 30);
            moved += plugged(&store);
            if round % 4 == 3 {
                store.close();
            }
            store = store.reopened(1 + round).unwrap();
            store.compare();
        }
        assert!(moved > 1000, "{moved} blocks moved");
    }
}

#[test]
fn rebuild_finds_blocks_in_holes() {
    for seed in 0..8 {
        let mut numbers = Numbers(90 + seed);
        let mut store = full(seed);
        for round in 0..3 {
            overwrite(&mut store, &mut numbers, 80);
            assert!(plugged(&store) > 200, "{} blocks moved", plugged(&store));
            if round % 2 == 0 {
                store.close();
            }
            destroy_checkpoints(&store);
            let report = store.rebuild(if seed % 2 == 0 { BLOCK } else { 1 << 20 });
            assert_eq!(
                (report.blocks, report.damaged),
                (store.model.len() as u64, 0)
            );
            store = store.reopened(0).unwrap();
            store.compare();
        }
    }
}

/// A note says where a block was moved. The block has been moved on since, and then another one was moved into the hole.
#[test]
fn a_rebuild_without_the_newest_copy_takes_no_other_block_for_it() {
    let mut lost = 0;
    for seed in 0..6 {
        let mut numbers = Numbers(200 + seed);
        let mut store = full(seed);
        overwrite(&mut store, &mut numbers, 120);
        store.close();
        let places = store.places();
        for (block, offset) in places.into_iter().step_by(37) {
            let rotten = store.reopened(0).unwrap();
            rotten.destroy(offset, BLOCK);
            destroy_checkpoints(&rotten);
            rotten.rebuild(64 << 10);
            let mut again = rotten.reopened(0).unwrap();
            // An older place of the block may have the same content still.
            match again.read(block, 1) {
                Ok(bytes) => {
                    let version = again.model.get(&block).copied();
                    let expected =
                        version.map_or(vec![0; BLOCK], |version| Store::content(block, version));
                    assert!(bytes == expected, "block {block}");
                }
                Err(_) => lost += 1,
            }
            again.replay(&[block], &[]);
            overwrite(&mut again, &mut numbers, 20);
            again.compare();
        }
    }
    assert!(lost > 20, "{lost} blocks were found elsewhere");
}

/// What a drive was asked for.
#[derive(Default)]
struct Order {
    /// Where the appends to each segment end in its present use.
    ends: HashMap<u64, u64>,
    /// Appends since the last flush.
    unflushed: u64,
    into_holes: u64,
    too_early: u64,
}

impl Order {
    /// A write of `bytes` at byte `at` of the segments.
    fn write(&mut self, at: u64, bytes: u64, segment_bytes: u64) {
        let (segment, within) = (at / segment_bytes, at % segment_bytes);
        match self.ends.get_mut(&segment) {
            _ if within == 0 => {
                self.ends.insert(segment, bytes);
                self.unflushed += 1;
            }
            Some(end) if within >= *end => {
                *end = within + bytes;
                self.unflushed += 1;
            }
            Some(_) => {
                self.into_holes += 1;
                self.too_early += u64::from(self.unflushed > 0);
            }
            // The end of what was appended before is not known.
            None => {}
        }
    }
}

/// What lay in a hole may be what recovery finds, until the newer place of its block is durable.
#[test]
fn holes_are_written_when_all_that_was_appended_is_durable() {
    for seed in 0..4 {
        let mut numbers = Numbers(400 + seed);
        let mut store = full(seed);
        overwrite(&mut store, &mut numbers, 10);
        let order: Rc<RefCell<Order>> = Rc::default();
        let (seen, shape) = (order.clone(), store.shape);
        store.world.set_fault(move |request| {
            let mut order = seen.borrow_mut();
            let bytes = request.data.len() as u64;
            match request.op {
                Op::Flush => order.unflushed = 0,
                Op::Write | Op::WriteDurable if request.offset >= shape.first_segment() => {
                    let at = request.offset - shape.first_segment();
                    order.write(at, bytes, u64::from(shape.segment_bytes));
                }
                _ => {}
            }
            None
        });
        overwrite(&mut store, &mut numbers, 160);
        let order = order.borrow();
        assert!(
            order.into_holes > 300,
            "{} writes into holes",
            order.into_holes
        );
        assert_eq!(
            order.too_early, 0,
            "of {} writes into holes",
            order.into_holes
        );
    }
}

/// A drive on which one read in eight takes a second, many times as long as a pass of the cleaner.
struct SlowReads {
    usual: Jitter,
    numbers: Numbers,
    slow: BTreeSet<(Nanos, u64)>,
}

impl Timing for SlowReads {
    fn submit(&mut self, now: Nanos, request: DriveRequest) {
        match request.kind == Kind::Read && self.numbers.below(8) == 0 {
            true => _ = self.slow.insert((now + 1_000_000_000, request.id)),
            false => self.usual.submit(now, request),
        }
    }

    fn next(&self) -> Option<Nanos> {
        let slow = self.slow.first().map(|(at, _)| *at);
        slow.into_iter().chain(self.usual.next()).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.usual.advance(now, done);
        while let Some((at, id)) = self.slow.first().copied().filter(|(at, _)| *at <= now) {
            self.slow.remove(&(at, id));
            done.push(Done { id, at });
        }
        done.sort_by_key(|done| done.at);
    }
}

/// Clients read all the time, so reads are under way when a pass begins.
#[test]
fn a_read_never_finds_another_block_in_a_hole() {
    for seed in 0..4 {
        let mut numbers = Numbers(300 + seed);
        let full = full(seed);
        let disk = SimDisk {
            image: full.world.images().remove(0),
            timing: Box::new(SlowReads {
                usual: Jitter::new(JitterTimes::default(), seed),
                numbers: Numbers(seed),
                slow: BTreeSet::new(),
            }),
            write_cache: true,
            zeroing: Zeroing::Command,
        };
        let world = SimWorld::with_disks(SimOptions::default(), vec![disk]);
        let mut store = full.in_world(world).unwrap();
        let mut readers = Vec::new();
        for _ in 0..150 {
            let mut blocks: Vec<u64> = (0..30).map(|_| numbers.below(store.shape.blocks)).collect();
            blocks.sort_unstable();
            blocks.dedup();
            let written = blocks.iter().map(|block| store.new_version(*block));
            let written = written.collect::<Vec<_>>();
            for _ in 0..4 {
                let (home, first) = (store.home.clone(), numbers.below(store.shape.blocks - 8));
                let read = async move { home.read(first, 8, Reader::Client).await.map(|_| ()) };
                readers.push(store.rt.spawn(read));
            }
            let home = store.home.clone();
            store.rt.block_on(async move {
                home.write_back(Vec::new(), written).await.expect("written");
            });
        }
        store.rt.block_on(async move {
            for reader in readers {
                reader
                    .await
                    .expect("a read finds the block that it looks for");
            }
        });
        store.compare();
        assert!(plugged(&store) > 300, "{} blocks moved", plugged(&store));
    }
}

/// Appended, plugged and cleaned blocks for each block of the caller, when nearly all is in use.
#[test]
fn plugging_appends_no_live_blocks() {
    let cleaned = |plugging| {
        let mut store = Store::new(Shape {
            segments: 2400 / 14 + 36,
            cache_bytes: 128 << 10,
            plugging,
            ..Shape::small(2400)
        });
        store.fill(50);
        let mut numbers = Numbers(5);
        let before: HomeStats = store.home.stats();
        for _ in 0..300 {
            let blocks: Vec<u64> = (0..20).map(|_| numbers.below(2400)).collect();
            store.write(&blocks, &[]);
        }
        store.compare();
        let after = store.home.stats().segments;
        (
            after.cleaned_blocks - before.segments.cleaned_blocks,
            after.plugged_blocks - before.segments.plugged_blocks,
        )
    };
    let (copied, none) = cleaned(Plugging::Never);
    let (rest, moved) = cleaned(Plugging::Always);
    println!("{copied} blocks copied; {rest} copied and {moved} moved into holes");
    assert_eq!(none, 0);
    assert!(copied > 6000 && rest < copied / 10 && moved > 3000 && moved < copied);
}
