//! What is in the log and not yet at home: newest versions of blocks, and ranges to be zeroed. The content of
//! a block that has been moved is not in memory: it lies at home, in the place from which it comes.
//!
//! Invariants:
//! 1. A block here is newer than any pending range over it: a new range takes the blocks that it covers
//!    out of the set.
//! 2. Each block holds the oldest commit since it was last durable at home ([`Holds`]); the versions in
//!    between are freed with it (Trail 4.1, superseding).
//! 3. A home write frees its block only if no newer version came meanwhile; else the block stays with the
//!    newer version and the hold moves to the first commit after the written one.
//! 4. The commit that a block holds has the whole block in the log (its image), and the patches since are
//!    behind it: a change of some words is logged as such only where that is so, else as the whole block
//!    ([`Pinned::apply`]).

use crate::difference::difference;
use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use tonearm_base::{Lsn, Slice, crc32c};
use tonearm_layout::{HomeBlock, ZeroRange};
use tonearm_trail::{Change, Trail, Word};

/// Who keeps commits in the log.
pub trait Holds {
    /// One more thing needs `lsn`.
    fn hold(&self, lsn: Lsn);
    /// One thing less needs `lsn`.
    fn release(&self, lsn: Lsn);
    /// `block`, which had `hold`, is durable at home and leaves the set.
    fn at_home(&self, _block: u64, _hold: Lsn) {}
}

impl Holds for Trail {
    fn hold(&self, lsn: Lsn) {
        Trail::hold(self, lsn);
    }
    fn release(&self, lsn: Lsn) {
        Trail::release(self, lsn);
    }
}

/// Blocks that recovery has written home, with the commits of their images: patches that it finds later
/// go on from there. No account is kept, the log does not run yet.
#[derive(Default)]
pub struct Images(RefCell<BTreeMap<u64, Lsn>>);

/// What a patch goes on from.
pub enum Base {
    /// This content.
    Memory(Slice),
    /// What the block has at home.
    Home,
    /// Nothing: the patch is void. Its image is before the log head, so all up to the patch is at home or
    /// superseded (invariant 4).
    None,
}

impl Holds for Images {
    fn hold(&self, _: Lsn) {}
    fn release(&self, _: Lsn) {}
    fn at_home(&self, block: u64, hold: Lsn) {
        self.0.borrow_mut().insert(block, hold);
    }
}

enum Content {
    Data {
        data: Slice,
        /// Made when it is first needed: a patched block is often patched again before it goes home.
        crc: Option<u32>,
    },
    Moved {
        from: u64,
        crc: u32,
    },
}

struct Block {
    content: Content,
    lsn: Lsn,
    hold: Lsn,
    /// Version that is being written home.
    writing: Option<Lsn>,
    /// First commit that came after that version.
    next_hold: Option<Lsn>,
}

impl Block {
    fn is_ready(&self, durable: Lsn) -> bool {
        self.lsn <= durable && self.writing.is_none()
    }

    /// The content, when the log will hold its image as long as it holds what comes now. The image of a version that
    /// is being written home leaves the log with it.
    fn image(&self) -> Option<&Slice> {
        let kept = self.writing.is_none() || self.next_hold.is_some();
        match &self.content {
            Content::Data { data, .. } if kept => Some(data),
            _ => None,
        }
    }
}

/// What the log needs of a block.
enum Log {
    /// All of it, with this CRC-32C.
    Image(u32),
    /// These words.
    Words(Vec<Word>),
}

/// What the log gets of a commit.
struct Logged {
    changes: Vec<Change>,
    crcs: Vec<u32>,
}

impl Logged {
    /// A part of a write, in bytes of `data`, which begins at block `first`.
    fn write(&mut self, first: u64, data: &Slice, part: std::ops::Range<usize>, block_size: usize) {
        if !part.is_empty() {
            self.changes.push(Change::Write {
                first: first + (part.start / block_size) as u64,
                data: data.slice(part),
            });
        }
    }
}

struct Range {
    first: u64,
    count: u64,
    keep_space: bool,
    lsn: Lsn,
    hold: Lsn,
}

/// What a block reads as, when the set knows.
pub enum Known<'a> {
    /// This content.
    Data(&'a Slice),
    /// What this block has at home.
    Moved(u64),
    /// Zeroes.
    Zero,
}

/// Which blocks are written home first.
#[derive(Clone, Copy)]
pub enum Order<'a> {
    /// Ascending from this one on, round the end: for a home where neighbours share a device write.
    Sweep(u64),
    /// These, ascending.
    These(&'a [u64]),
}

/// A part of the set that is being written home.
#[derive(Default)]
pub struct Batch {
    /// Ranges, to be zeroed before the blocks are written.
    pub ranges: Vec<ZeroRange>,
    /// Blocks whose content is in memory.
    pub blocks: Vec<HomeBlock>,
    /// Blocks whose content is to be read from where it is.
    pub moved: Vec<Moved>,
    /// All blocks with the versions that are being written.
    pub written: Vec<(u64, Lsn)>,
}

/// A block that gets the content of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// The block.
    pub block: u64,
    /// Where the content is.
    pub from: u64,
    /// CRC-32C of the content.
    pub crc: u32,
}

/// The set.
#[derive(Default)]
pub struct Pinned {
    blocks: BTreeMap<u64, Block>,
    /// In commit order.
    ranges: VecDeque<Range>,
    /// Union of `ranges`: start -> end.
    zeroed: BTreeMap<u64, u64>,
}

impl Pinned {
    /// Takes the changes of commit `lsn`, and makes of them what the log needs: of a block whose image it has
    /// (invariant 4) the words that change, as long as they take at most half of the block's room, else the whole
    /// block. Gives the CRC-32C of all blocks of data.
    pub fn apply(
        &mut self,
        lsn: Lsn,
        changes: &mut Vec<Change>,
        block_size: usize,
        holds: &dyn Holds,
    ) -> Vec<u32> {
        let mut logged = Logged {
            changes: Vec::with_capacity(changes.len()),
            crcs: Vec::new(),
        };
        for change in changes.drain(..) {
            match &change {
                Change::Write { first, data } => {
                    // Blocks up to this one are logged already.
                    let mut done = 0;
                    for (block, at) in (*first..).zip((0..data.len()).step_by(block_size)) {
                        let part = data.slice(at..at + block_size);
                        match self.rewrite(lsn, block, part, holds) {
                            Log::Image(crc) => logged.crcs.push(crc),
                            Log::Words(words) => {
                                logged.write(*first, data, done..at, block_size);
                                done = at + block_size;
                                logged.changes.push(Change::Patch { block, words });
                            }
                        }
                    }
                    logged.write(*first, data, done..data.len(), block_size);
                    continue;
                }
                Change::Patch { .. } => unreachable!("patches are made here"),
                Change::Trim { first, count } => self.zero(lsn, *first, *count, false, holds),
                Change::Zero { first, count } => self.zero(lsn, *first, *count, true, holds),
                Change::Move { to, from, crcs } => {
                    for ((block, from), crc) in (*to..).zip(*from..).zip(crcs) {
                        let crc = *crc;
                        self.moved(lsn, Moved { block, from, crc }, holds);
                    }
                }
            }
            logged.changes.push(change);
        }
        *changes = logged.changes;
        logged.crcs
    }

    /// Takes a new version of `block`, and tells what the log needs of it.
    fn rewrite(&mut self, lsn: Lsn, block: u64, data: Slice, holds: &dyn Holds) -> Log {
        let entry = self.blocks.entry(block);
        let words = match &entry {
            Entry::Occupied(known) => known.get().image().and_then(|old| difference(old, &data)),
            Entry::Vacant(_) => None,
        };
        let (log, crc) = match words {
            Some(words) => (Log::Words(words), None),
            None => {
                let crc = crc32c(&data);
                (Log::Image(crc), Some(crc))
            }
        };
        take(entry, lsn, lsn, Content::Data { data, crc }, holds);
        log
    }

    /// Takes a new version of `block`; `crc` is its CRC-32C, if known.
    pub fn write(
        &mut self,
        lsn: Lsn,
        block: u64,
        data: Slice,
        crc: Option<u32>,
        holds: &dyn Holds,
    ) {
        let content = Content::Data { data, crc };
        take(self.blocks.entry(block), lsn, lsn, content, holds);
    }

    /// Takes a block that gets the content of another.
    pub fn moved(&mut self, lsn: Lsn, moved: Moved, holds: &dyn Holds) {
        let Moved { block, from, crc } = moved;
        let content = Content::Moved { from, crc };
        take(self.blocks.entry(block), lsn, lsn, content, holds);
    }

    /// What patches of `block` that recovery has found go on from.
    pub fn base(&self, block: u64, images: &Images) -> Base {
        match self.get(block) {
            Some(Known::Data(data)) => Base::Memory(data.clone()),
            // Behind a zeroing or a move the log has the whole block before it has patches.
            Some(Known::Zero | Known::Moved(_)) => Base::None,
            None if images.0.borrow().contains_key(&block) => Base::Home,
            None => Base::None,
        }
    }

    /// Takes what patches have made of `block` in recovery.
    pub fn patched(&mut self, lsn: Lsn, block: u64, data: Slice, images: &Images) {
        let image = images.0.borrow().get(&block).copied().unwrap_or(lsn);
        let content = Content::Data { data, crc: None };
        take(self.blocks.entry(block), image, lsn, content, images);
    }

    /// Takes a range that becomes zeroes.
    pub fn zero(&mut self, lsn: Lsn, first: u64, count: u64, keep_space: bool, holds: &dyn Holds) {
        let end = first + count;
        let mut hold = lsn;
        let covered: Vec<u64> = self
            .blocks
            .range(first..end)
            .map(|(block, _)| *block)
            .collect();
        let gone: Vec<Block> = covered
            .iter()
            .filter_map(|block| self.blocks.remove(block))
            .collect();
        for block in &gone {
            hold = hold.min(block.hold);
        }
        holds.hold(hold);
        for block in gone {
            holds.release(block.hold);
            if let Some(next) = block.next_hold {
                holds.release(next);
            }
        }
        self.ranges.push_back(Range {
            first,
            count,
            keep_space,
            lsn,
            hold,
        });
        add_range(&mut self.zeroed, first, end);
    }

    /// What `block` reads as; `None` when it must be read from home.
    pub fn get(&self, block: u64) -> Option<Known<'_>> {
        if let Some(known) = self.blocks.get(&block) {
            return Some(match &known.content {
                Content::Data { data, .. } => Known::Data(data),
                Content::Moved { from, .. } => Known::Moved(*from),
            });
        }
        self.is_zeroed(block).then_some(Known::Zero)
    }

    /// Blocks from `first` on, `count` at most, whose content lies in a row at home from where `first` has its.
    pub fn moved_run(&self, first: u64, count: u64) -> u64 {
        let from = |block: u64| match self.get(block) {
            Some(Known::Moved(from)) => Some(from),
            _ => None,
        };
        let Some(start) = from(first) else { return 0 };
        let next = |run: &u64| from(first + run) == Some(start + run);
        (0..count).take_while(next).count() as u64
    }

    /// Blocks from `first` on, `count` at most, that must be read from home.
    pub fn unknown_run(&self, first: u64, count: u64) -> u64 {
        if self.is_zeroed(first) {
            return 0;
        }
        let end = first + count;
        let block = self
            .blocks
            .range(first..end)
            .next()
            .map_or(end, |(block, _)| *block);
        let range = self
            .zeroed
            .range(first..end)
            .next()
            .map_or(end, |(start, _)| *start);
        block.min(range) - first
    }

    fn is_zeroed(&self, block: u64) -> bool {
        self.zeroed
            .range(..=block)
            .next_back()
            .is_some_and(|(_, end)| block < *end)
    }

    /// Takes up to `blocks_max` blocks in `order`, and all ranges, as far as their commits are not beyond `durable`
    /// (invariant 4 of the engine: a block with LSN L is written home only when durable >= L). Blocks for which
    /// `busy` holds stay.
    pub fn start_batch(
        &mut self,
        durable: Lsn,
        order: Order<'_>,
        blocks_max: usize,
        busy: impl Fn(u64) -> bool,
    ) -> Batch {
        let mut batch = Batch::default();
        for range in self.ranges.iter().take_while(|range| range.lsn <= durable) {
            let (first, count, keep_space) = (range.first, range.count, range.keep_space);
            batch.ranges.push(ZeroRange {
                first,
                count,
                keep_space,
            });
        }
        // What is read for it is not paid for by anybody.
        let moved_max = (blocks_max / 8).max(1);
        let mut take = |number: u64, block: &mut Block| {
            if batch.written.len() == blocks_max || batch.moved.len() == moved_max {
                return false;
            }
            if block.is_ready(durable) && !busy(number) {
                block.writing = Some(block.lsn);
                batch.written.push((number, block.lsn));
                match &mut block.content {
                    Content::Data { data, crc } => batch.blocks.push(HomeBlock {
                        block: number,
                        data: data.clone(),
                        crc: *crc.get_or_insert_with(|| crc32c(data)),
                    }),
                    Content::Moved { from, crc } => batch.moved.push(Moved {
                        block: number,
                        from: *from,
                        crc: *crc,
                    }),
                }
            }
            true
        };
        match order {
            Order::Sweep(cursor) => {
                for span in [cursor..u64::MAX, 0..cursor] {
                    let mut blocks = self.blocks.range_mut(span);
                    while let Some((number, block)) = blocks.next()
                        && take(*number, block)
                    {}
                }
            }
            Order::These(numbers) => {
                for number in numbers {
                    if let Some(block) = self.blocks.get_mut(number)
                        && !take(*number, block)
                    {
                        break;
                    }
                }
            }
        }
        batch
    }

    /// True when `block` can be taken.
    pub fn is_ready(&self, block: u64, durable: Lsn) -> bool {
        let block = self.blocks.get(&block);
        block.is_some_and(|block| block.is_ready(durable))
    }

    /// Up to `most` blocks, those whose commits the log has kept for longest first, whether they can be taken yet
    /// or not.
    pub fn oldest(&self, most: usize) -> VecDeque<u64> {
        let blocks = self.blocks.iter();
        let mut all: Vec<_> = blocks
            .map(|(number, block)| (block.hold, *number))
            .collect();
        if all.len() > most {
            all.select_nth_unstable(most);
            all.truncate(most);
        }
        all.sort_unstable();
        all.into_iter().map(|(_, number)| number).collect()
    }

    /// The batch is durable at home.
    pub fn finish_batch(&mut self, ranges: usize, written: &[(u64, Lsn)], holds: &dyn Holds) {
        for range in self.ranges.drain(..ranges) {
            holds.release(range.hold);
        }
        if ranges > 0 {
            self.zeroed.clear();
            for range in &self.ranges {
                add_range(&mut self.zeroed, range.first, range.first + range.count);
            }
        }
        for run in written.chunk_by(|a, b| a.0 < b.0) {
            self.finish_run(run, holds);
        }
    }

    /// Blocks in ascending order are durable at home. One walk over the set, not a search for each.
    fn finish_run(&mut self, run: &[(u64, Lsn)], holds: &dyn Holds) {
        let (Some((first, _)), Some((last, _))) = (run.first(), run.last()) else {
            return;
        };
        let mut run = run.iter().peekable();
        let at_home = |number: &u64, block: &mut Block| {
            // Gone: a range has taken it out meanwhile.
            while run.next_if(|(written, _)| written < number).is_some() {}
            let written = run.next_if(|(written, _)| written == number);
            // Not being written any more: taken out, and pinned anew.
            if written.is_none_or(|(_, version)| block.writing != Some(*version)) {
                return false;
            }
            holds.release(block.hold);
            match block.next_hold.take() {
                Some(next) => {
                    (block.hold, block.writing) = (next, None);
                    false
                }
                None => {
                    holds.at_home(*number, block.hold);
                    true
                }
            }
        };
        self.blocks.extract_if(first..=last, at_home).for_each(drop);
    }

    /// The batch failed: everything in it is still to be done.
    pub fn cancel_batch(&mut self, written: &[(u64, Lsn)], holds: &dyn Holds) {
        for (number, version) in written {
            if let Some(block) = self
                .blocks
                .get_mut(number)
                .filter(|block| block.writing == Some(*version))
            {
                block.writing = None;
                if let Some(next) = block.next_hold.take() {
                    holds.release(next);
                }
            }
        }
    }

    /// Tells `holds` of everything in the set: the log runs from now on.
    pub fn hold_all(&self, holds: &dyn Holds) {
        for block in self.blocks.values() {
            holds.hold(block.hold);
        }
        for range in &self.ranges {
            holds.hold(range.hold);
        }
    }

    /// Number of pinned blocks.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Number of pending ranges.
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// Pending ranges up to `durable`.
    pub fn ranges_up_to(&self, durable: Lsn) -> impl Iterator<Item = (u64, u64)> {
        self.ranges
            .iter()
            .take_while(move |range| range.lsn <= durable)
            .map(|range| (range.first, range.count))
    }

    /// True when everything is at home.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.ranges.is_empty()
    }
}

impl Batch {
    /// True when there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.written.is_empty()
    }

    /// Sorts the blocks into ascending order, as the home wants them.
    pub fn sort(&mut self) {
        self.blocks.sort_by_key(|block| block.block);
    }
}

/// Puts a version of which the image is in commit `image` in its place in the set.
fn take(entry: Entry<'_, u64, Block>, image: Lsn, lsn: Lsn, content: Content, holds: &dyn Holds) {
    match entry {
        Entry::Occupied(entry) => {
            let known = entry.into_mut();
            (known.content, known.lsn) = (content, lsn);
            if known.writing.is_some() && known.next_hold.is_none() {
                holds.hold(lsn);
                known.next_hold = Some(lsn);
            }
        }
        Entry::Vacant(entry) => {
            holds.hold(image);
            entry.insert(Block {
                content,
                lsn,
                hold: image,
                writing: None,
                next_hold: None,
            });
        }
    }
}

fn add_range(zeroed: &mut BTreeMap<u64, u64>, mut first: u64, mut end: u64) {
    while let Some((start, stop)) = zeroed
        .range(..=end)
        .next_back()
        .map(|(start, stop)| (*start, *stop))
    {
        if stop < first {
            break;
        }
        (first, end) = (first.min(start), end.max(stop));
        zeroed.remove(&start);
    }
    zeroed.insert(first, end);
}
