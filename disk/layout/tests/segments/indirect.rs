//! Indirect writes: blocks that are appended before their commits are in the log. Nothing finds them before they are entered,
//! and their places stay as they are until the log is released, whatever is written, cleaned, plugged or overwritten meanwhile.

use crate::common::{GIVEN, Numbers, Shape, Store};
use crate::crash::Call;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::{Lsn, Nanos};
use tonearm_format::HEADER_AREA_BYTES;
use tonearm_layout::{Home as _, HomeBlock, PlacedBlock, Plugging, Segments};
use tonearm_rt::{IoError, Op};
use tonearm_world::{Crash, share};

/// A block that was appended, of which commit `lsn` may be in the log.
#[derive(Clone, Copy)]
struct Appended {
    lsn: u64,
    version: u32,
    placed: PlacedBlock,
}

/// A store, and the log as far as its indirect writes are concerned.
struct Indirect {
    store: Store,
    lsn: u64,
    /// What a recovery may read.
    logged: Vec<Appended>,
    /// The newest content of blocks that is not entered yet.
    pending: BTreeMap<u64, Appended>,
}

/// A store in which segments are cleaned, or emptied into holes, and used again.
fn shape(seed: u64) -> Shape {
    let blocks = 1300;
    Shape {
        segments: blocks / 14 + 58,
        cache_bytes: 256 << 10,
        given: GIVEN[seed as usize % 2],
        plugging: [Plugging::Always, Plugging::Never][seed as usize / 2 % 2],
        ..Shape::small(blocks)
    }
}

fn append(home: &Segments, store: &Store, lsn: u64, blocks: Vec<HomeBlock>) -> Option<Vec<u64>> {
    let home = home.clone();
    store.rt.block_on(async move {
        let indirect = home.indirect().expect("segments have indirect writes");
        let places = indirect.append(Lsn(lsn), blocks).await.unwrap()?;
        indirect.flush().await.unwrap();
        Some(places)
    })
}

fn enter(store: &Store, placed: Vec<PlacedBlock>) {
    let home = store.home.clone();
    let entered = async move { home.indirect().unwrap().enter(placed).await };
    store.rt.block_on(entered).unwrap();
}

/// Each of `logged` is where the log says.
fn check_places(store: &Store, logged: &[Appended]) {
    for one in logged {
        let (home, PlacedBlock { block, place, crc }) = (store.home.clone(), one.placed);
        let read = async move {
            home.indirect()
                .unwrap()
                .read(place, vec![(block, crc)])
                .await
        };
        let found = store.rt.block_on(read);
        let found = found.unwrap_or_else(|error| panic!("commit {}: {error}", one.lsn));
        assert_eq!(found[..], Store::content(block, one.version));
    }
}

impl Indirect {
    fn new(seed: u64) -> Self {
        let mut store = Store::new(shape(seed));
        store.fill(50);
        Self {
            store,
            lsn: 0,
            logged: Vec::new(),
            pending: BTreeMap::new(),
        }
    }

    /// One commit of these blocks; false when the home does not take it.
    fn append(&mut self, blocks: impl IntoIterator<Item = u64>) -> bool {
        self.lsn += 1;
        let new: Vec<(u32, HomeBlock)> = blocks
            .into_iter()
            .map(|block| self.store.next_version(block))
            .collect();
        let blocks = new.iter().map(|(_, block)| block.clone()).collect();
        let Some(places) = append(&self.store.home.clone(), &self.store, self.lsn, blocks) else {
            return false;
        };
        for ((version, HomeBlock { block, crc, .. }), place) in new.into_iter().zip(places) {
            let one = Appended {
                lsn: self.lsn,
                version,
                placed: PlacedBlock { block, place, crc },
            };
            self.logged.push(one);
            self.pending.insert(block, one);
        }
        true
    }

    /// Writes back all pending blocks, whose commits are durable in the log.
    fn enter(&mut self) -> Vec<u64> {
        let pending = std::mem::take(&mut self.pending);
        for (block, one) in &pending {
            self.store.model.insert(*block, one.version);
        }
        enter(
            &self.store,
            pending.values().map(|one| one.placed).collect(),
        );
        pending.into_keys().collect()
    }

    /// Writes back newer content.
    fn write(&mut self, call: &Call) {
        let holes = || {
            call.holes
                .iter()
                .flat_map(|(first, count)| *first..first + count)
        };
        for block in call.blocks.iter().copied().chain(holes()) {
            self.pending.remove(&block);
        }
        self.store.write(&call.blocks, &call.holes);
    }

    /// A durable log start is beyond everything that is not pending.
    fn release(&mut self) {
        self.store.home.indirect().unwrap().end_recovery();
        let oldest = self.pending.values().map(|one| one.lsn).min();
        let before = oldest.unwrap_or(self.lsn + 1);
        let home = self.store.home.clone();
        home.indirect().unwrap().release(Lsn(before));
        self.logged.retain(|one| one.lsn >= before);
    }

    fn check(&self) {
        self.store.compare();
        check_places(&self.store, &self.logged);
    }

    /// A power cut in the middle of a call that writes back `blocks` and `holes`.
    fn check_cut(
        &self,
        crash: &Crash,
        cut: u64,
        blocks: &[u64],
        holes: &[(u64, u64)],
        rebuild: bool,
    ) {
        let mut cut_off = self.store.on(crash.images(cut)).unwrap();
        let within = |block, (first, count): &(u64, u64)| (*first..first + count).contains(&block);
        let touches =
            |block| blocks.contains(&block) || holes.iter().any(|range| within(block, range));
        cut_off.compare_but(touches);
        check_places(&cut_off, &self.logged);
        cut_off.replay(blocks, holes);
        // Segments are used again, while the log still has the commits.
        let mut numbers = Numbers(cut);
        for _ in 0..6 {
            let call = Call::random(&mut numbers, cut_off.shape.blocks);
            cut_off.write(&call.blocks, &call.holes);
        }
        cut_off.compare();
        check_places(&cut_off, &self.logged);
        let mut again = cut_off.reopened(cut).unwrap();
        again.compare();
        check_places(&again, &self.logged);
        if rebuild {
            let slots = again.shape.layout().checkpoint_bytes();
            again.destroy(HEADER_AREA_BYTES, slots as usize);
            again.rebuild(64 << 10);
            again = again.reopened(0).unwrap();
            again.compare();
            for _ in 0..20 {
                let call = Call::random(&mut numbers, again.shape.blocks);
                again.write(&call.blocks, &call.holes);
            }
            again.compare();
            check_places(&again, &self.logged);
        }
        // The log starts after all of them.
        again.home.indirect().unwrap().release(Lsn(self.lsn + 1));
        for _ in 0..6 {
            let call = Call::random(&mut numbers, again.shape.blocks);
            again.write(&call.blocks, &call.holes);
        }
        again.compare();
    }
}

#[test]
fn indirect_block_is_found_only_after_it_is_entered() {
    let mut test = Indirect::new(1);
    test.release();
    assert!(test.append([3, 4, 5, 90]));
    test.check();
    let again = test.store.reopened(1).unwrap();
    again.compare();
    check_places(&again, &test.logged);
    test.enter();
    test.check();
    let again = test.store.reopened(2).unwrap();
    again.compare();
    check_places(&again, &test.logged);
    test.store.close();
    test.store.reopened(0).unwrap().compare();
}

#[test]
fn places_stay_until_the_log_is_released() {
    for seed in 0..4 {
        let mut test = Indirect::new(seed);
        test.release();
        assert!(test.append(100..140));
        let held = test.logged.clone();
        let mut numbers = Numbers(seed);
        for round in 0..120 {
            let call = Call::random(&mut numbers, test.store.shape.blocks);
            test.write(&call);
            if round == 20 {
                test.enter();
            }
        }
        // The blocks have newer content by now, partly in the same places if these are overwritten.
        test.check();
        let cleaned = test.store.home.stats().segments.cleaned_segments;
        assert!(cleaned > 20, "seed {seed}: {cleaned} segments");
        test.release();
        for _ in 0..60 {
            let call = Call::random(&mut numbers, test.store.shape.blocks);
            test.write(&call);
        }
        test.store.compare();
        let lost = held.iter().filter(|one| {
            let (home, PlacedBlock { block, place, crc }) = (test.store.home.clone(), one.placed);
            let read = async move {
                home.indirect()
                    .unwrap()
                    .read(place, vec![(block, crc)])
                    .await
            };
            test.store.rt.block_on(read).is_err()
        });
        assert!(lost.count() > 10, "the segments are used again");
    }
}

/// However long the log names places, all blocks of the store can be written, again and again.
#[test]
fn held_segments_leave_space_for_all_blocks() {
    for seed in 0..4 {
        let mut test = Indirect::new(seed);
        test.release();
        let size = test.store.shape.blocks;
        let taken = (0..1000)
            .take_while(|round| test.append(5 * (round % 100)..5 * (round % 100) + 5))
            .count();
        assert!((10..300).contains(&taken), "{taken}");
        let mut numbers = Numbers(seed);
        for round in 0..400 {
            let blocks = match round % 2 {
                0 => (0..30).map(|_| numbers.below(size)).collect(),
                _ => (0..size)
                    .skip(round * 37 % size as usize)
                    .take(40)
                    .collect(),
            };
            let holes = Vec::new();
            test.write(&Call { blocks, holes });
        }
        test.check();
        test.enter();
        test.release();
        assert!(test.append(0..5), "space is free again");
    }
}

/// A write-back is durable when it returns, whatever is flushed for the log meanwhile.
#[test]
fn flush_for_the_log_does_not_pass_for_that_of_a_write_back() {
    let mut test = Indirect::new(1);
    test.release();
    let mut numbers = Numbers(5);
    for round in 0..150u64 {
        let first = numbers.below(test.store.shape.blocks - 10);
        let blocks = (first..first + 8).map(|block| test.store.new_version(block));
        let blocks = blocks.collect::<Vec<_>>();
        let (own, home) = (test.store.home.clone(), test.store.home.clone());
        let (rt, pause) = (test.store.rt.clone(), Nanos(numbers.below(400_000)));
        let flushes = test.store.rt.spawn(async move {
            rt.sleep(pause).await;
            home.indirect().unwrap().flush().await.unwrap();
        });
        let written = async move { own.write_back(Vec::new(), blocks).await };
        test.store.rt.block_on(written).unwrap();
        let images = test.store.world.crash().images(1 + round);
        test.store.on(images).unwrap().compare();
        test.store.rt.block_on(flushes);
    }
}

/// The engine learns of a new log start at any time. Both slots of a checkpoint have what the first one has.
#[test]
fn release_during_a_checkpoint_leaves_both_slots_valid() {
    for released in 0..2 {
        let mut test = Indirect::new(1);
        test.release();
        assert!(test.append(100..130));
        test.enter();
        let (home, before) = (test.store.home.clone(), Lsn(test.lsn + released));
        test.store
            .world
            .on_io(move |_, _| home.indirect().unwrap().release(before));
        test.store.close();
        test.store.world.clear_hook();
        let slot = test.store.shape.layout().slot_bytes();
        for number in 0..2 {
            let rotten = test.store.reopened(0).unwrap();
            rotten.destroy(HEADER_AREA_BYTES + number * slot, 1);
            rotten.reopened(0).unwrap().compare();
        }
    }
}

/// Nearly all segments have had indirect writes in their last use. Only the youngest can be held.
#[test]
fn rebuild_after_a_long_stream_finds_free_segments() {
    for seed in 0..2 {
        let mut test = Indirect::new(seed);
        let size = test.store.shape.blocks;
        let mut numbers = Numbers(seed);
        for round in 0..400 {
            test.release();
            let first = 25 * round % (size - 25);
            if !test.append(first..first + 25) {
                let call = Call::random(&mut numbers, size);
                test.write(&call);
            }
            test.enter();
        }
        let stats = test.store.home.stats().segments;
        assert!(stats.indirect_blocks > 3000, "{}", stats.indirect_blocks);
        test.release();
        assert!(test.append(10..30));
        let again = test.store.reopened(3).unwrap();
        let slots = again.shape.layout().checkpoint_bytes();
        again.destroy(HEADER_AREA_BYTES, slots as usize);
        again.rebuild(64 << 10);
        let mut again = again.reopened(0).unwrap();
        again.compare();
        check_places(&again, &test.logged);
        again.home.indirect().unwrap().end_recovery();
        // The log still has the last commit: all blocks can be written all the same.
        for _ in 0..3 {
            again.fill(40);
        }
        check_places(&again, &test.logged);
    }
}

/// A flush of others has failed since, and may have lost what was appended. The next flush of the drive succeeds.
#[test]
fn flush_after_a_failed_one_of_others_fails() {
    let mut test = Indirect::new(1);
    test.release();
    let (home, lsn) = (test.store.home.clone(), Lsn(9));
    let block = test.store.next_version(5).1;
    test.store.rt.block_on(async move {
        let indirect = home.indirect().unwrap();
        assert!(indirect.append(lsn, vec![block]).await.unwrap().is_some());
    });
    let mut failed = false;
    test.store.world.set_fault(move |request| {
        let fails = request.op == Op::Flush && !std::mem::replace(&mut failed, true);
        fails.then_some(IoError::EIO)
    });
    assert!(test.store.try_write(&[1, 2, 3], &[]).is_err());
    let home = test.store.home.clone();
    let flushed = test
        .store
        .rt
        .block_on(async move { home.indirect().unwrap().flush().await });
    assert!(flushed.is_err());
}

#[test]
fn power_cut_at_any_moment_of_indirect_writes_loses_nothing() {
    let (mut cuts, mut appended, mut cleaned, mut in_place) = (0, 0, 0, 0);
    let seeds = share(0..8);
    for seed in seeds.iter().copied() {
        let mut numbers = Numbers(900 + seed);
        let mut test = Indirect::new(seed);
        let size = test.store.shape.blocks;
        test.release();
        for round in 0..70u64 {
            let states: Rc<RefCell<Vec<Crash>>> = Rc::default();
            if round % 4 == 3 {
                let (seen, share) = (states.clone(), 2 + numbers.below(3));
                let mut number = numbers.below(share);
                test.store.world.on_io(move |_, crash| {
                    number += 1;
                    if number.is_multiple_of(share) {
                        seen.borrow_mut().push(crash.clone());
                    }
                });
            }
            // What was logged before the call: a cut must leave it as it is.
            let before = test.logged.clone();
            let (mut blocks, mut holes) = (Vec::new(), Vec::new());
            match numbers.below(8) {
                0..3 => {
                    let (first, count) = (numbers.below(size - 40), 1 + numbers.below(30));
                    appended += u64::from(test.append(first..first + count));
                }
                3..5 => blocks = test.enter(),
                _ => {
                    let call = Call::random(&mut numbers, size);
                    test.write(&call);
                    (blocks, holes) = (call.blocks, call.holes);
                }
            }
            test.store.world.clear_hook();
            let after = std::mem::replace(&mut test.logged, before);
            for (index, crash) in states.take().iter().enumerate().take(8) {
                let cut = seed * 1_000_003 + round * 1009 + index as u64;
                test.check_cut(crash, cut, &blocks, &holes, index.is_multiple_of(4));
                cuts += 1;
            }
            test.logged = after;
            if numbers.below(3) == 0 {
                test.release();
            }
            if round % 10 == 9 {
                test.check();
            }
        }
        let stats = test.store.home.stats().segments;
        cleaned += stats.cleaned_segments;
        in_place += stats.overwritten_blocks + stats.plugged_blocks;
    }
    println!(
        "{cuts} power cuts, {appended} commits, {cleaned} segments cleaned, {in_place} blocks written in place"
    );
    let count = seeds.len() as u64;
    assert!(cuts > 20 * count && appended > 6 * count);
    // The shapes of some shares overwrite nothing in place.
    assert!(cleaned > 6 * count && (in_place > 300 || count < 8));
}
