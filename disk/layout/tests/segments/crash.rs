//! Power cuts at every moment of a write-back while the cleaner runs. Blocks of earlier calls are there at once, and
//! those of the interrupted call after the replay of the log.

use crate::common::{BLOCK, GIVEN, Numbers, Shape, Store};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tonearm_format::{HEADER_AREA_BYTES, segments_for};
use tonearm_layout::{Home as _, Policy};
use tonearm_rt::{IoError, Op};
use tonearm_world::{Crash, share};

/// A full store with little spare space. Each write-back cleans, and uses segments that were cleaned shortly before.
fn full(seed: u64) -> Store {
    let blocks = 600 + 100 * (seed % 3);
    let mut store = Store::new(Shape {
        segments: blocks / 14 + 30,
        // A cache for the whole map, or for a part.
        cache_bytes: if seed.is_multiple_of(2) {
            64 << 10
        } else {
            16 << 10
        },
        policy: [Policy::Greedy, Policy::CostAge][seed as usize / 2 % 2],
        given: GIVEN[seed as usize / 6 % 2],
        ..Shape::small(blocks)
    });
    store.fill(50);
    store
}

pub struct Call {
    pub blocks: Vec<u64>,
    pub holes: Vec<(u64, u64)>,
}

impl Call {
    pub fn random(numbers: &mut Numbers, size: u64) -> Self {
        let blocks = (0..1 + numbers.below(40)).map(|_| numbers.below(size));
        let blocks = blocks.collect();
        let mut holes = Vec::new();
        if numbers.below(3) == 0 {
            let first = numbers.below(size);
            holes.push((first, 1 + numbers.below((size - first).min(30))));
        }
        Self { blocks, holes }
    }

    fn touches(&self, block: u64) -> bool {
        let within = |(first, count): &(u64, u64)| (*first..first + count).contains(&block);
        self.blocks.contains(&block) || self.holes.iter().any(within)
    }

    /// One power cut in the middle of the call; `store` has the model after the call.
    pub fn check(&self, store: &Store, crash: &Crash, cut: u64, rebuild: bool) {
        let mut cut_off = store.on(crash.images(cut)).unwrap();
        cut_off.compare_but(|block| self.touches(block));
        cut_off.replay(&self.blocks, &self.holes);
        cut_off.compare();
        let again = cut_off.reopened(cut).unwrap();
        again.compare();
        if rebuild {
            let slots = again.shape.layout().checkpoint_bytes();
            again.destroy(HEADER_AREA_BYTES, slots as usize);
            again.rebuild(64 << 10);
            again.reopened(0).unwrap().compare();
        }
    }
}

/// One slot of the newest checkpoint is damaged; the other one has the same content.
#[test]
fn a_damaged_checkpoint_slot_loses_nothing() {
    for seed in 0..12 {
        let mut numbers = Numbers(seed);
        let mut store = full(seed);
        let size = store.shape.blocks;
        for round in 0..24u64 {
            let call = Call::random(&mut numbers, size);
            store.write(&call.blocks, &call.holes);
            if round % 4 == 3 {
                store.close();
                let slot = store.shape.layout().slot_bytes();
                for number in 0..2 {
                    let rotten = store.reopened(0).unwrap();
                    // The header, or the table after it.
                    let within = if round % 8 == 3 { 0 } else { 4096 };
                    rotten.destroy(HEADER_AREA_BYTES + number * slot + within, 1);
                    let mut again = rotten.reopened(0).unwrap();
                    again.compare();
                    // Writing and cleaning continue.
                    for _ in 0..10 {
                        let call = Call::random(&mut numbers, size);
                        again.write(&call.blocks, &call.holes);
                    }
                    again.compare();
                    again.reopened(1 + round).unwrap().compare();
                }
            }
        }
    }
}

#[test]
fn a_power_cut_at_any_moment_of_cleaning_loses_nothing() {
    let (mut cuts, mut cleaned, mut checkpoints, mut overwritten) = (0, 0, 0, 0);
    let seeds = share(0..12);
    for seed in seeds.iter().copied() {
        let mut numbers = Numbers(seed);
        let mut store = full(seed);
        let size = store.shape.blocks;
        for round in 0..60u64 {
            let call = Call::random(&mut numbers, size);
            let states: Rc<RefCell<Vec<Crash>>> = Rc::default();
            if round % 5 == 4 {
                let (seen, share) = (states.clone(), 1 + numbers.below(4));
                let mut number = numbers.below(4);
                store.world.on_io(move |_, crash| {
                    number += 1;
                    if number.is_multiple_of(4 * share) {
                        seen.borrow_mut().push(crash.clone());
                    }
                });
            }
            store.write(&call.blocks, &call.holes);
            store.world.clear_hook();
            for (index, crash) in states.take().iter().enumerate() {
                let cut = seed * 1_000_003 + round * 1009 + index as u64;
                call.check(&store, crash, cut, index.is_multiple_of(4));
                cuts += 1;
            }
        }
        store.compare();
        cleaned += store.home.stats().segments.cleaned_segments;
        checkpoints += store.home.stats().segments.checkpoints;
        overwritten += store.home.stats().segments.overwritten_blocks;
    }
    println!("{cuts} power cuts, {cleaned} segments cleaned, {checkpoints} checkpoints");
    println!("{overwritten} blocks overwritten in place");
    let count = seeds.len() as u64;
    assert!(cuts > 20 * count && cleaned > 100 * count);
    assert!(checkpoints > 6 * count && overwritten > 150 * count);
}

/// A failed write leaves a gap in the chain, so the next write begins another chain.
#[test]
fn a_write_after_a_failed_write_is_recovered() {
    let mut failed = 0;
    for nth in 0..12 {
        // With enough space that no checkpoint is due.
        let mut store = Store::new(Shape::small(2000));
        store.write(&(0..100).collect::<Vec<_>>(), &[]);
        let blocks: Vec<u64> = (0..200).step_by(3).collect();
        let mut writes = 0;
        store.world.set_fault(move |request| {
            writes += u64::from(request.op == Op::Write);
            (request.op == Op::Write && writes == nth + 1).then_some(IoError::ENOSPC)
        });
        failed += u64::from(store.try_write(&blocks, &[]).is_err());
        store.world.clear_fault();
        store.replay(&blocks, &[]);
        store.write(&[1, 2, 3], &[(300, 7)]);
        store.compare();
        store.reopened(0).unwrap().compare();
        store.reopened(1 + nth).unwrap().compare();
    }
    assert!(failed > 3, "{failed} calls failed");
}

/// One call writes more than the free segments hold, so it writes into segments that it has cleaned itself. The blocks
/// that it does not change are in their old places, or their copies are durable.
#[test]
fn power_cut_loses_nothing_while_reusing_cleaned_segments() {
    let mut cuts = 0;
    let seeds = share(0..8);
    for seed in seeds.iter().copied() {
        let mut numbers = Numbers(100 + seed);
        let mut store = full(seed);
        let size = store.shape.blocks;
        for round in 0..4u64 {
            let blocks = (0..size).filter(|_| numbers.below(2) == 0).collect();
            let call = Call {
                blocks,
                holes: Vec::new(),
            };
            let states: Rc<RefCell<Vec<Crash>>> = Rc::default();
            let (seen, mut number) = (states.clone(), 0);
            store.world.on_io(move |_, crash| {
                number += 1;
                if number % 24 == 0 {
                    seen.borrow_mut().push(crash.clone());
                }
            });
            store.write(&call.blocks, &call.holes);
            store.world.clear_hook();
            for (index, crash) in states.take().iter().enumerate() {
                for manner in 0..4 {
                    let cut = seed * 1_000_003 + round * 1009 + index as u64 * 4 + manner;
                    let cut_off = store.on(crash.images(cut)).unwrap();
                    cut_off.compare_but(|block| call.touches(block));
                    cuts += 1;
                }
            }
        }
        store.compare();
    }
    assert!(cuts > 30 * seeds.len(), "{cuts} power cuts");
}

/// The cleaner has copied blocks, and their first places were used again. If recovery or a rebuild then finds a copy
/// damaged and takes the first place for the block's, the next write in place destroys the block that lies there now.
#[test]
fn a_damaged_copy_leads_to_no_place_of_another_block() {
    let blocks = 3000;
    let mut store = Store::new(Shape {
        segments: blocks / 14 + 44,
        cache_bytes: 256 << 10,
        given: GIVEN[1],
        ..Shape::small(blocks)
    });
    for part in (0..blocks).collect::<Vec<_>>().chunks(50) {
        store.write(part, &[]);
    }
    let mut numbers = Numbers(7);
    let mut checkpoints = store.home.stats().segments.checkpoints;
    let (mut tried, mut overwritten) = (0, VecDeque::new());
    while tried < 120 {
        // Every third block is appended, and one of the others is overwritten.
        let mut written: Vec<u64> = (0..30).map(|_| 3 * numbers.below(blocks / 3)).collect();
        let cold = 3 * numbers.below(blocks / 3) + 1;
        written.push(cold);
        overwritten.push_back(cold);
        let old = store.world.images();
        store.write(&written, &[]);
        let now = store.home.stats().segments.checkpoints;
        if now == checkpoints {
            continue;
        }
        // The longest chain is there just before a checkpoint.
        checkpoints = now;
        let before = store.on(old).unwrap();
        let places = before.places();
        let never = (1..blocks).step_by(600).map(|block| block - block % 3 + 1);
        let once = overwritten.drain(..overwritten.len().saturating_sub(20));
        for cold in never
            .chain(once.step_by(2))
            .filter(|cold| !written.contains(cold))
        {
            let rotten = before.reopened(0).unwrap();
            rotten.destroy(places[&cold], BLOCK);
            if tried % 2 == 0 {
                let slots = rotten.shape.layout().checkpoint_bytes();
                rotten.destroy(HEADER_AREA_BYTES, slots as usize);
                rotten.rebuild(64 << 10);
            }
            let mut again = rotten.reopened(0).unwrap();
            again.replay(&[cold], &[]);
            again.compare_but(|other| written.contains(&other));
            tried += 1;
        }
    }
}

/// Each write, and each flush, of a call fails once: among others each of the writes in place, of which more are started than may be
/// under way together. The call reports it. A power cut then leaves all other blocks, and the call can be made again.
#[test]
fn a_call_that_fails_anywhere_reports_it_and_can_be_repeated() {
    let all_in_place: [Option<crate::common::Cold>; 1] = [Some(|_| true)];
    let (mut failed, mut longest) = (0, 0);
    for given in GIVEN.into_iter().chain(all_in_place) {
        for (op, error) in [
            (Op::Write, IoError::EIO),
            (Op::Write, IoError::ENOSPC),
            (Op::Flush, IoError::EIO),
        ] {
            for nth in 0.. {
                let mut store = Store::new(Shape {
                    given,
                    ..Shape::small(300)
                });
                store.write(&(0..100).collect::<Vec<_>>(), &[]);
                let call = Call {
                    blocks: (0..100).step_by(3).collect(),
                    holes: vec![(70, 5)],
                };
                let (mut seen, hit) = (0, Rc::new(RefCell::new(false)));
                let noted = hit.clone();
                store.world.set_fault(move |request| {
                    seen += u64::from(request.op == op);
                    let now = request.op == op && seen == nth + 1;
                    *noted.borrow_mut() |= now;
                    now.then_some(error)
                });
                let result = store.try_write(&call.blocks, &call.holes);
                store.world.clear_fault();
                if !*hit.borrow() {
                    assert_eq!(result, Ok(()));
                    longest = longest.max(nth);
                    break;
                }
                let case = format!("{op:?} {nth} fails with {error}");
                assert!(result.is_err(), "{case}");
                failed += 1;
                let crash = store.world.crash();
                for seed in 0..2 {
                    call.check(&store, &crash, nth * 2 + seed, seed == 0 && nth % 8 == 0);
                }
                if op == Op::Write {
                    store.replay(&call.blocks, &call.holes);
                    store.compare();
                }
            }
        }
    }
    assert!(
        failed > 80 && longest > 30,
        "{failed} failures, {longest} writes"
    );
}

/// While a client reads, segments are written and read for cleaning in parts, with flushes between them.
#[test]
fn power_cut_between_the_parts_of_a_segment_loses_nothing() {
    let blocks = 1500;
    let mut store = Store::new(Shape {
        segment_bytes: 1 << 20,
        segments: segments_for(4096, 1 << 20, blocks, 10),
        cache_bytes: 64 << 10,
        ..Shape::small(blocks)
    });
    store.fill(300);
    let mut numbers = Numbers(1);
    let mut cuts = 0;
    let before = store.home.stats();
    for round in 0..20u64 {
        let count = 100 + numbers.below(400);
        let call = Call {
            blocks: (0..count).map(|_| numbers.below(blocks)).collect(),
            holes: Vec::new(),
        };
        store.read(numbers.below(blocks), 1).unwrap();
        let states: Rc<RefCell<Vec<Crash>>> = Rc::default();
        let (seen, mut number) = (states.clone(), numbers.below(3));
        store.world.on_io(move |_, crash| {
            number += 1;
            if number.is_multiple_of(3) {
                seen.borrow_mut().push(crash.clone());
            }
        });
        store.write(&call.blocks, &[]);
        store.world.clear_hook();
        for (index, crash) in states.take().iter().enumerate() {
            call.check(&store, crash, 1 + round * 1009 + index as u64, false);
            cuts += 1;
        }
    }
    store.compare();
    let after = store.home.stats();
    let cleaned = after.segments.cleaned_segments - before.segments.cleaned_segments;
    let writes = after.writes - before.writes;
    let mean = (after.write_bytes - before.write_bytes) / writes;
    println!("{cuts} power cuts, {cleaned} segments cleaned, {writes} writes of {mean} bytes");
    assert!(cuts > 60 && cleaned > 20 && mean < 256 << 10);
    assert!(after.flushes - before.flushes >= 20);
}
