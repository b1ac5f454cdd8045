//! The pinned set against a naive disk: whichever blocks have gone home, and whatever a power cut leaves of them, the
//! replay of any prefix of the log gives the content that the prefix has.

// proptest's macros share their strategies.
#![allow(clippy::disallowed_types)]

use crate::commit::{CommitChange, record};
use crate::images::{Base, Images};
use crate::pinned::{Batch, Known, LogRetention, Moved, Order, Pinned};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use tonearm_base::{BufPool, Lsn, Slice, crc32c};
use tonearm_layout::PlacedBlock;
use tonearm_trail::{Change, Word};

const BLOCKS: u64 = 5;
const BLOCK: usize = 128;
const WORDS: usize = BLOCK / 8;

type Content = [u64; WORDS];

/// A change of a commit.
#[derive(Clone, Debug)]
enum Step {
    Write(u64, u64),
    Patch(u64, Vec<(usize, u64)>),
    Zero(u64, u64),
    Move(u64, u64),
}

#[derive(Clone, Debug)]
enum Op {
    Commit(Vec<Step>),
    /// So many commits more are durable.
    Durable(u64),
    /// A batch of at most so many blocks starts, from this block on.
    Start(u64, usize),
    /// The batch is durable at home, or has failed.
    End(bool),
    /// A durable record names the start of the log.
    LogStart,
    /// Holds of at most so many blocks that are not durable move to images, those before so many commits of the last durable one.
    Renew(u64, usize),
    /// Home gets the blocks of a commit before the log has it.
    Place(u64),
    /// A power cut. So many of the commits that are not durable are lost. Each bit says whether the recovery writes
    /// everything home at that entry of the log. The first recovery is cut short at an entry.
    Cut(u64, u64, usize),
}

/// An entry of the log.
#[derive(Clone, Debug)]
enum Entry {
    Data(u64, Content),
    Words(u64, Vec<Word>),
    Zero(u64, u64),
    Move(Moved),
}

/// The holds on the log's commits.
#[derive(Default)]
struct Account(RefCell<BTreeMap<Lsn, usize>>);

impl LogRetention for Account {
    fn hold(&self, lsn: Lsn) {
        *self.0.borrow_mut().entry(lsn).or_default() += 1;
    }
    fn release(&self, lsn: Lsn) {
        let mut holds = self.0.borrow_mut();
        let count = holds.get_mut(&lsn).expect("released what is held");
        *count -= 1;
        if *count == 0 {
            holds.remove(&lsn);
        }
    }
}

#[derive(Default)]
struct World {
    pinned: Pinned,
    account: Account,
    /// Commits from the first on.
    log: Vec<Vec<Entry>>,
    /// The content of the disk after each commit; first the empty disk.
    truth: Vec<[Content; BLOCKS as usize]>,
    durable: u64,
    /// First commit that a recovery sees.
    log_start: u64,
    /// `None`: torn, fails its checksum.
    home: BTreeMap<u64, Option<Content>>,
    batch: Option<Batch>,
    next_spilled: u64,
    /// Content and commit of what home has in no map.
    places: BTreeMap<u64, (Content, u64)>,
}

fn slice_of(content: &Content) -> Slice {
    let bytes: Vec<u8> = content.iter().flat_map(|word| word.to_le_bytes()).collect();
    BufPool::new(0).copy_of(&bytes).share()
}

fn content_of(data: &[u8]) -> Content {
    std::array::from_fn(|word| {
        u64::from_le_bytes(data[8 * word..][..8].try_into().expect("eight bytes"))
    })
}

impl World {
    fn new() -> Self {
        Self {
            truth: vec![Default::default()],
            log_start: 1,
            next_spilled: 1000,
            ..Self::default()
        }
    }

    fn commit(&mut self, steps: &[Step]) {
        let mut now = *self.truth.last().expect("there is a state");
        let mut changes = Vec::new();
        for step in steps {
            match step {
                Step::Write(block, value) => {
                    now[*block as usize] = [*value; WORDS];
                    let data = slice_of(&now[*block as usize]);
                    changes.push(CommitChange::Write {
                        first: *block,
                        data,
                    });
                }
                Step::Patch(block, words) => {
                    let content = &mut now[*block as usize];
                    for (word, value) in words {
                        content[*word] = *value;
                    }
                    changes.push(CommitChange::Write {
                        first: *block,
                        data: slice_of(content),
                    });
                }
                Step::Zero(first, count) => {
                    let count = (*count).min(BLOCKS - first);
                    now[*first as usize..(first + count) as usize].fill([0; WORDS]);
                    changes.push(CommitChange::Trim {
                        first: *first,
                        count,
                    });
                }
                Step::Move(block, value) => {
                    let content = [*value; WORDS];
                    now[*block as usize] = content;
                    let from = self.next_spilled;
                    self.next_spilled += 1;
                    self.home.insert(from, Some(content));
                    changes.push(CommitChange::Move {
                        to: *block,
                        from,
                        crcs: vec![crc32c(&slice_of(&content))],
                    });
                }
            }
        }
        let lsn = Lsn(self.log.len() as u64 + 1);
        let recorded = record(&mut self.pinned, lsn, changes, BLOCK, &self.account);
        let entry = |change: &Change| match change {
            Change::Write { first, data, crcs } => {
                assert_eq!(*crcs, [crc32c(data)]);
                Entry::Data(*first, content_of(data))
            }
            Change::Patch { block, words } => Entry::Words(*block, words.clone()),
            Change::Trim { first, count } | Change::Zero { first, count } => {
                Entry::Zero(*first, *count)
            }
            Change::Move { to, from, crcs } => Entry::Move(Moved {
                block: *to,
                from: *from,
                crc: crcs[0],
            }),
            Change::Indirect { .. } => panic!("the engine records no places"),
        };
        self.log.push(recorded.iter().map(entry).collect());
        self.truth.push(now);
        self.check(now);
    }

    /// Home gets the blocks of commit `lsn` in advance, if it is not in the log yet.
    fn place(&mut self, lsn: u64) {
        let last = self.log.len() as u64;
        if last == self.durable {
            return;
        }
        let lsn = self.durable + 1 + lsn % (last - self.durable);
        for entry in &self.log[lsn as usize - 1] {
            if let Entry::Data(block, content) = entry {
                let place = 5000 + self.places.len() as u64;
                self.places.insert(place, (*content, lsn));
                let crc = crc32c(&slice_of(content));
                let placed = PlacedBlock {
                    block: *block,
                    place,
                    crc,
                };
                self.pinned.placed(Lsn(lsn), placed);
            }
        }
    }

    /// Blocks that are being written home may have any content until the write has ended.
    fn start(&mut self, cursor: u64, blocks_max: usize) {
        if self.batch.is_some() {
            return;
        }
        // Every other time by age.
        let mut oldest: Vec<u64> = self.pinned.oldest(blocks_max).into();
        oldest.sort_unstable();
        let order = match cursor % 2 {
            0 => Order::Sweep(cursor),
            _ => Order::Explicit(&oldest),
        };
        let batch = self
            .pinned
            .start_batch(Lsn(self.durable), order, blocks_max, |_| false);
        for range in &batch.ranges {
            for block in range.first..range.first + range.count {
                self.home.insert(block, None);
            }
        }
        for (block, _) in &batch.written {
            self.home.insert(*block, None);
        }
        self.batch = Some(batch);
    }

    fn end(&mut self, arrived: bool) {
        let Some(batch) = self.batch.take() else {
            return;
        };
        if !arrived {
            self.pinned.cancel_batch(&batch.written, &self.account);
            return;
        }
        write_back_batch(&mut self.home, &batch);
        for placed in &batch.placed {
            let (content, lsn) = self.places[&placed.place];
            assert!(self.log_start <= lsn, "the log still protects the place");
            assert_eq!(placed.crc, crc32c(&slice_of(&content)));
            self.home.insert(placed.block, Some(content));
        }
        self.pinned
            .finish_batch(batch.ranges.len(), &batch.written, &self.account);
    }

    fn move_log_start(&mut self) {
        let oldest = self.account.0.borrow().keys().next().copied();
        let free = oldest.map_or(u64::MAX, |lsn| lsn.0);
        self.log_start = self.log_start.max(free.min(self.durable + 1));
    }

    fn cut(&mut self, lost: u64, homing: u64, cut_short: usize) {
        let last = self.log.len() as u64;
        let kept = last - lost % (last - self.durable + 1);
        self.log.truncate(kept as usize);
        self.truth.truncate(kept as usize + 1);
        self.durable = kept;
        self.batch = None;
        let entries: Vec<(Lsn, Entry)> = (self.log_start..=kept)
            .flat_map(|lsn| {
                let entries = self.log[lsn as usize - 1].iter().cloned();
                entries.map(move |entry| (Lsn(lsn), entry))
            })
            .collect();
        // A power cut during recovery tears the blocks that recovery was writing home.
        let (mut pinned, images) = (Pinned::default(), Images::default());
        for (index, (lsn, entry)) in entries.iter().take(cut_short).enumerate() {
            replay(&mut pinned, &images, &mut self.home, *lsn, entry);
            if homing >> (index % 64) & 1 == 1 {
                all_home(&mut pinned, &images, &mut self.home);
            }
        }
        for (block, _) in pinned
            .start_batch(Lsn(u64::MAX), Order::Sweep(0), 2, |_| false)
            .written
        {
            self.home.insert(block, None);
        }
        let (mut pinned, images) = (Pinned::default(), Images::default());
        for (index, (lsn, entry)) in entries.iter().enumerate() {
            replay(&mut pinned, &images, &mut self.home, *lsn, entry);
            if homing >> (index % 64) & 1 == 1 {
                all_home(&mut pinned, &images, &mut self.home);
            }
        }
        self.account = Account::default();
        pinned.hold_all(&self.account);
        self.pinned = pinned;
        let truth = *self.truth.last().expect("there is a state");
        self.check(truth);
    }

    /// Checks the content that reads see.
    fn check(&self, truth: [Content; BLOCKS as usize]) {
        for (block, expected) in (0..).zip(truth) {
            let found = match self.pinned.get(block) {
                Some(Known::Data(data)) => content_of(data),
                Some(Known::Moved(from)) => self.home[&from].expect("what was spilled is whole"),
                Some(Known::Zero) => [0; WORDS],
                None => self.home.get(&block).map_or([0; WORDS], |content| {
                    content.unwrap_or_else(|| panic!("block {block} is torn and nowhere else"))
                }),
            };
            assert_eq!(found, expected, "block {block}");
        }
    }
}

fn write_back_batch(home: &mut BTreeMap<u64, Option<Content>>, batch: &Batch) {
    for range in &batch.ranges {
        for block in range.first..range.first + range.count {
            home.insert(block, Some([0; WORDS]));
        }
    }
    for block in &batch.blocks {
        assert_eq!(block.crc, crc32c(&block.data));
        home.insert(block.block, Some(content_of(&block.data)));
    }
    for moved in &batch.moved {
        let content = home[&moved.from].expect("what was spilled is whole");
        assert_eq!(moved.crc, crc32c(&slice_of(&content)));
        home.insert(moved.block, Some(content));
    }
}

fn all_home(pinned: &mut Pinned, images: &Images, home: &mut BTreeMap<u64, Option<Content>>) {
    while !pinned.is_empty() {
        let batch = pinned.start_batch(Lsn(u64::MAX), Order::Sweep(0), 100, |_| false);
        write_back_batch(home, &batch);
        pinned.finish_batch(batch.ranges.len(), &batch.written, images);
    }
}

fn replay(
    pinned: &mut Pinned,
    images: &Images,
    home: &mut BTreeMap<u64, Option<Content>>,
    lsn: Lsn,
    entry: &Entry,
) {
    match entry {
        Entry::Data(block, content) => {
            let slot = pinned.slot(*block);
            slot.put(lsn, lsn, slice_of(content), None, images);
        }
        Entry::Words(block, words) => {
            let mut content = match images.base(pinned, *block) {
                Base::Memory(data) => content_of(&data),
                Base::Home => home[block].expect("recovery has written it"),
                Base::None => return,
            };
            for word in words {
                content[word.at as usize / 8] = word.value;
            }
            images.put_patched(pinned, lsn, *block, slice_of(&content));
        }
        Entry::Zero(first, count) => pinned.zero(lsn, *first, *count, false, images),
        Entry::Move(moved) => pinned.moved(lsn, *moved, images),
    }
}

fn run(ops: &[Op]) {
    let mut world = World::new();
    for op in ops {
        match op {
            Op::Commit(steps) => world.commit(steps),
            Op::Durable(more) => {
                let last = world.log.len() as u64;
                world.durable = (world.durable + more).min(last);
            }
            Op::Start(cursor, blocks_max) => world.start(*cursor, *blocks_max),
            Op::End(arrived) => world.end(*arrived),
            Op::LogStart => world.move_log_start(),
            Op::Place(lsn) => world.place(*lsn),
            Op::Renew(age, most) => {
                let before = Lsn(world.durable.saturating_sub(*age));
                let durable = Lsn(world.durable);
                world.pinned.renew(before, durable, *most, &world.account);
            }
            Op::Cut(lost, homing, cut_short) => world.cut(*lost, *homing, *cut_short),
        }
    }
    world.cut(0, 0, 0);
}

fn step() -> impl Strategy<Value = Step> {
    let words = prop::collection::vec((0..WORDS, 1..u64::MAX), 1..4);
    prop_oneof![
        2 => (0..BLOCKS, 1..u64::MAX).prop_map(|(block, value)| Step::Write(block, value)),
        6 => (0..BLOCKS, words).prop_map(|(block, words)| Step::Patch(block, words)),
        1 => (0..BLOCKS, 1..=BLOCKS).prop_map(|(first, count)| Step::Zero(first, count)),
        1 => (0..BLOCKS, 1..u64::MAX).prop_map(|(block, value)| Step::Move(block, value)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => prop::collection::vec(step(), 1..4).prop_map(Op::Commit),
        4 => (1u64..4).prop_map(Op::Durable),
        3 => (0..BLOCKS, 1usize..4).prop_map(|(cursor, max)| Op::Start(cursor, max)),
        3 => prop::bool::weighted(0.8).prop_map(Op::End),
        3 => Just(Op::LogStart),
        3 => any::<u64>().prop_map(Op::Place),
        3 => (0u64..3, 0usize..3).prop_map(|(age, most)| Op::Renew(age, most)),
        1 => (any::<u64>(), any::<u64>(), 0usize..20)
            .prop_map(|(lost, homing, cut)| Op::Cut(lost, homing & homing.rotate_left(7), cut)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_log_prefix_is_recovered_after_any_write_back(
        ops in prop::collection::vec(op(), 1..60),
    ) {
        run(&ops);
    }
}

/// The log's records of each commit, block by block: the whole block, or so many words.
#[test]
fn the_log_gets_the_words_that_change_of_a_block_that_it_has() {
    let mut world = World::new();
    let value = |world: &mut World, block, word, value| {
        world.commit(&[Step::Patch(block, vec![(word, value)])]);
        match world.log.last().expect("just made").as_slice() {
            [Entry::Words(of, words)] if *of == block => Some(words.len()),
            [Entry::Data(of, _)] if *of == block => None,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        value(&mut world, 0, 3, 7),
        None,
        "the log has nothing of it"
    );
    assert_eq!(value(&mut world, 0, 3, 8), Some(1));
    assert_eq!(value(&mut world, 0, 5, 9), Some(1));
    // Under way home the image may leave the log with it.
    world.durable = 3;
    world.start(0, 1);
    assert_eq!(value(&mut world, 0, 3, 10), None);
    assert_eq!(value(&mut world, 0, 3, 11), Some(1));
    world.end(true);
    assert_eq!(value(&mut world, 0, 3, 12), Some(1));
    // A range takes it out of the set.
    world.commit(&[Step::Zero(0, 1)]);
    assert_eq!(value(&mut world, 0, 3, 13), None);
    // Moved content is not in the log.
    world.commit(&[Step::Move(1, 5)]);
    assert_eq!(value(&mut world, 1, 3, 14), None);
    assert_eq!(value(&mut world, 1, 3, 15), Some(1));
    // All new: the whole of it, though the log has it.
    world.commit(&[Step::Write(1, 77)]);
    assert!(matches!(world.log.last().unwrap()[..], [Entry::Data(1, _)]));
}

#[test]
fn patch_during_write_back_includes_an_image() {
    let patch = |value| Op::Commit(vec![Step::Patch(0, vec![(1, value)])]);
    run(&[
        patch(1),
        patch(2),
        Op::Durable(2),
        Op::Start(0, 1),
        patch(3),
        patch(4),
        Op::Durable(2),
        Op::End(true),
        Op::LogStart,
        // A torn home write of the new version: the log must have all of it.
        Op::Start(0, 1),
        Op::Cut(0, 0, 0),
    ]);
}

/// The commit from which on the log is kept.
fn log_start(world: &mut World) -> u64 {
    world.move_log_start();
    world.log_start
}

#[test]
fn hold_of_a_hot_block_moves_to_a_durable_image() {
    let mut world = World::new();
    let patch = |world: &mut World, value| {
        world.commit(&[Step::Patch(0, vec![(1, value)])]);
        matches!(world.log.last().unwrap()[..], [Entry::Data(..)])
    };
    let renew = |world: &mut World, before| {
        let durable = Lsn(world.durable);
        world.pinned.renew(Lsn(before), durable, 1, &world.account);
    };
    assert!(patch(&mut world, 1));
    for value in 2..=8 {
        assert!(!patch(&mut world, value), "commit {value} has words");
    }
    world.durable = 6;
    renew(&mut world, 1);
    assert!(!patch(&mut world, 9), "commit 1 is not before commit 1");
    renew(&mut world, 2);
    assert!(patch(&mut world, 10), "commit 10 has the image");
    assert!(!patch(&mut world, 11));
    world.durable = 9;
    renew(&mut world, 2);
    assert_eq!(log_start(&mut world), 1, "the image is not durable");
    assert!(!patch(&mut world, 12));
    world.durable = 10;
    renew(&mut world, 2);
    assert_eq!(log_start(&mut world), 10);
    // A second time.
    renew(&mut world, 11);
    assert!(patch(&mut world, 13));
    // It is written home before the hold has moved, and is pinned again meanwhile.
    world.durable = 13;
    world.start(0, 1);
    assert!(!patch(&mut world, 14), "commit 13 has the image");
    world.end(true);
    assert_eq!(log_start(&mut world), 13);
    world.durable = 14;
    world.start(0, 1);
    world.end(true);
    assert_eq!(log_start(&mut world), 15, "nothing is held");
    world.cut(0, 0, 0);
}

#[test]
fn home_write_ends_a_renewal() {
    let mut world = World::new();
    let patch = |world: &mut World, value| world.commit(&[Step::Patch(0, vec![(1, value)])]);
    for failed in [true, false] {
        patch(&mut world, 1);
        patch(&mut world, 2);
        world.durable = world.log.len() as u64 - 1;
        let (before, durable) = (Lsn(world.durable + 1), Lsn(world.durable));
        world.pinned.renew(before, durable, 1, &world.account);
        patch(&mut world, 3);
        world.durable = world.log.len() as u64;
        world.start(0, 1);
        world.end(!failed);
        if failed {
            assert_eq!(log_start(&mut world), 1);
            world.start(0, 1);
            world.end(true);
        }
        assert_eq!(log_start(&mut world), world.durable + 1);
        assert!(world.account.0.borrow().is_empty());
    }
    world.cut(0, 0, 0);
}

#[test]
fn block_written_back_by_recovery_keeps_its_image() {
    let patch = |value| Op::Commit(vec![Step::Patch(0, vec![(1, value)])]);
    run(&[
        Op::Commit(vec![Step::Write(0, 7)]),
        patch(2),
        patch(3),
        // Written home after the first entry; the patches come after it.
        Op::Cut(0, 1, 0),
        Op::LogStart,
        Op::Start(0, 1),
        Op::Cut(0, 0, 0),
    ]);
}
