//! The pinned set: what is in the log and not yet at home. It has the newest versions of blocks, and the ranges to be
//! zeroed. The content of a moved block is not in memory: it lies at home, at the block that it is moved from.
//!
//! Invariants:
//! 1. A block of the set is newer than every pending range over it: a new range removes the blocks that it covers.
//! 2. Each block holds the oldest commit since the block was last durable at home, or since its hold moved
//!    ([`LogRetention`]). The versions in between are freed together with it (Trail 4.1, superseding).
//! 3. A home write frees its block only if no newer version came meanwhile. Otherwise the block stays with the newer
//!    version, and the hold moves to the first commit after the written one, or to one before with an image.
//! 4. The commit that a block holds has the whole block in the log (its *image*), and every patch since then is after
//!    it in the log ([`Slot::image`]).
//! 5. A hold moves to a younger image in the log when that is durable ([`Pinned::renew`]).

mod batch;

pub(crate) use batch::{Batch, Order};

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use tonearm_base::{Lsn, Slice};
use tonearm_layout::PlacedBlock;
use tonearm_trail::Trail;

/// The cost of a written block in a round, where that of a note is 1.
pub(crate) const BLOCK_COST: usize = 16;

/// Keeps commits in the log.
pub(crate) trait LogRetention {
    /// One more block or range needs `lsn`.
    fn hold(&self, lsn: Lsn);
    /// One block or range less needs `lsn`.
    fn release(&self, lsn: Lsn);
    /// `block`, which had `hold`, is durable at home and leaves the set.
    fn at_home(&self, _block: u64, _hold: Lsn) {}
}

impl LogRetention for Trail {
    fn hold(&self, lsn: Lsn) {
        Trail::hold(self, lsn);
    }
    fn release(&self, lsn: Lsn) {
        Trail::release(self, lsn);
    }
}

enum Content {
    Data {
        data: Slice,
        /// Computed when it is first needed: a patched block is often patched again before it is written back.
        crc: Option<u32>,
        /// Where home has it already, in no map ([`IndirectHome`](tonearm_layout::IndirectHome)).
        place: Option<u64>,
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
    /// The next change is logged as an image.
    renewing: bool,
    /// Where the hold moves: the first commit after that version, or with the image.
    next_hold: Option<Lsn>,
}

impl Block {
    /// True if the hold is to move from the commit where it is.
    fn leaves_hold(&self) -> bool {
        self.writing.is_some() || self.renewing
    }

    fn is_ready(&self, durable: Lsn) -> bool {
        self.lsn <= durable && self.writing.is_none()
    }

    fn cost(&self) -> usize {
        match self.content {
            Content::Data { place: Some(_), .. } => 1,
            _ => BLOCK_COST,
        }
    }

    /// The content, if the log keeps an image of the block for as long as it keeps a patch that is logged now. An image that
    /// the hold is about to leave does not count.
    fn image(&self) -> Option<&Slice> {
        let kept = !self.leaves_hold() || self.next_hold.is_some();
        match &self.content {
            Content::Data { data, .. } if kept => Some(data),
            _ => None,
        }
    }
}

/// The place of a block in the set.
pub(crate) struct Slot<'a>(Entry<'a, u64, Block>);

impl Slot<'_> {
    /// The content, if the log keeps an image of the block for as long as it keeps a patch that is logged now. Then the
    /// words that change can be logged alone.
    pub fn image(&self) -> Option<&Slice> {
        match &self.0 {
            Entry::Occupied(known) => known.get().image(),
            Entry::Vacant(_) => None,
        }
    }

    /// Puts the version of commit `lsn` here. `image` is the commit that has the block's image, `crc` the CRC-32C of
    /// `data` if it is known.
    pub fn put(
        self,
        image: Lsn,
        lsn: Lsn,
        data: Slice,
        crc: Option<u32>,
        holds: &dyn LogRetention,
    ) {
        let content = Content::Data {
            data,
            crc,
            place: None,
        };
        self.take(image, lsn, content, holds);
    }

    fn take(self, image: Lsn, lsn: Lsn, content: Content, holds: &dyn LogRetention) {
        match self.0 {
            Entry::Occupied(entry) => {
                let known = entry.into_mut();
                (known.content, known.lsn) = (content, lsn);
                if known.leaves_hold() && known.next_hold.is_none() {
                    holds.hold(lsn);
                    known.next_hold = Some(lsn);
                }
                known.renewing = false;
            }
            Entry::Vacant(entry) => {
                holds.hold(image);
                entry.insert(Block {
                    content,
                    lsn,
                    hold: image,
                    writing: None,
                    renewing: false,
                    next_hold: None,
                });
            }
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

/// The content of a block, if the set determines it.
pub(crate) enum Known<'a> {
    /// This content.
    Data(&'a Slice),
    /// What this block has at home.
    Moved(u64),
    /// Zeroes.
    Zero,
}

/// A block that gets the content of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moved {
    /// The block.
    pub block: u64,
    /// The block that has the content.
    pub from: u64,
    /// CRC-32C of the content.
    pub crc: u32,
}

/// The set.
#[derive(Default)]
pub(crate) struct Pinned {
    blocks: BTreeMap<u64, Block>,
    /// In commit order.
    ranges: VecDeque<Range>,
    /// Union of `ranges`: start -> end.
    zeroed: BTreeMap<u64, u64>,
}

impl Pinned {
    /// The place of `block`.
    pub fn slot(&mut self, block: u64) -> Slot<'_> {
        Slot(self.blocks.entry(block))
    }

    /// Home has a block as commit `lsn` wrote it. Without effect if the commit, or a later one, has changed the block since.
    pub fn placed(&mut self, lsn: Lsn, placed: PlacedBlock) {
        let known = self.blocks.get_mut(&placed.block);
        let known = known.filter(|known| known.lsn == lsn);
        if let Some(Content::Data { crc, place, .. }) = known.map(|known| &mut known.content)
            && *crc == Some(placed.crc)
        {
            *place = Some(placed.place);
        }
    }

    /// Forgets `block`, before the log runs.
    pub fn forget(&mut self, block: u64) {
        self.blocks.remove(&block);
    }

    /// What the write-back of `block` takes, in parts of [`BLOCK_COST`]. A block that home has at its place takes a note.
    pub fn cost(&self, block: u64) -> usize {
        self.blocks.get(&block).map_or(0, Block::cost)
    }

    /// Takes a block that gets the content of another.
    pub fn moved(&mut self, lsn: Lsn, moved: Moved, holds: &dyn LogRetention) {
        let Moved { block, from, crc } = moved;
        let content = Content::Moved { from, crc };
        self.slot(block).take(lsn, lsn, content, holds);
    }

    /// Takes a range that becomes zeroes.
    pub fn zero(
        &mut self,
        lsn: Lsn,
        first: u64,
        count: u64,
        keep_space: bool,
        holds: &dyn LogRetention,
    ) {
        let end = first + count;
        let gone = self.blocks.extract_if(first..end, |_, _| true);
        let gone: Vec<Block> = gone.map(|(_, block)| block).collect();
        let mut hold = lsn;
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

    /// The content of `block`; `None` when it must be read from home.
    pub fn get(&self, block: u64) -> Option<Known<'_>> {
        if let Some(known) = self.blocks.get(&block) {
            return Some(match &known.content {
                Content::Data { data, .. } => Known::Data(data),
                Content::Moved { from, .. } => Known::Moved(*from),
            });
        }
        self.is_zeroed(block).then_some(Known::Zero)
    }

    /// Blocks from `first` on, `count` at most, whose content lies side by side at home, from where that of `first` is.
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

    /// Moves the holds of blocks that change so often that no newest version is durable when a round takes blocks. Otherwise the
    /// log would keep all commits since the first change of such a block. Up to `most` blocks that hold a commit before
    /// `before` get an image in the log with their next change. The holds of those whose images are `durable` move there.
    pub fn renew(&mut self, before: Lsn, durable: Lsn, most: usize, holds: &dyn LogRetention) {
        let mut left = most;
        let blocks = self.blocks.values_mut();
        for block in blocks.filter(|block| block.writing.is_none() && block.lsn > durable) {
            match block.next_hold {
                Some(next) if next <= durable => {
                    holds.release(block.hold);
                    (block.hold, block.next_hold) = (next, None);
                }
                None if block.hold < before && !block.renewing && left > 0 => {
                    block.renewing = true;
                    left -= 1;
                }
                _ => {}
            }
        }
    }

    /// Holds the commits of everything in the set: the log runs from now on.
    pub fn hold_all(&self, holds: &dyn LogRetention) {
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
