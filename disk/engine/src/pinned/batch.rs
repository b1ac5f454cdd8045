//! The part of the pinned set that one round of write-back brings home.

use super::{BLOCK_COST, Block, Content, LogRetention, Moved, Pinned, add_range};
use tonearm_base::{Lsn, crc32c};
use tonearm_layout::{HomeBlock, PlacedBlock, ZeroRange};

/// Which blocks are written home first.
#[derive(Clone, Copy)]
pub(crate) enum Order<'a> {
    /// Ascending from this block on, and from the first one after the last. For a home where adjacent blocks share a
    /// device write.
    Sweep(u64),
    /// These, ascending.
    Explicit(&'a [u64]),
}

/// A part of the set that is being written home.
#[derive(Default)]
pub(crate) struct Batch {
    /// Ranges, to be zeroed before the blocks are written.
    pub ranges: Vec<ZeroRange>,
    /// Blocks whose content is in memory.
    pub blocks: Vec<HomeBlock>,
    /// Blocks whose content is to be read from where it is.
    pub moved: Vec<Moved>,
    /// Blocks that home has at their places.
    pub placed: Vec<PlacedBlock>,
    /// All blocks with the versions that are being written.
    pub written: Vec<(u64, Lsn)>,
}

impl Pinned {
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
        // The memory for the content of moved blocks is not charged to the budget.
        let moved_max = (blocks_max / 8).max(1);
        let mut left = blocks_max * BLOCK_COST;
        let mut take = |number: u64, block: &mut Block| {
            if left < block.cost() || batch.moved.len() == moved_max {
                return false;
            }
            if block.is_ready(durable) && !busy(number) {
                left -= block.cost();
                block.writing = Some(block.lsn);
                batch.written.push((number, block.lsn));
                match &mut block.content {
                    Content::Data { data, crc, place } => {
                        let (block, crc) = (number, *crc.get_or_insert_with(|| crc32c(data)));
                        match *place {
                            Some(place) => batch.placed.push(PlacedBlock { block, place, crc }),
                            None => batch.blocks.push(HomeBlock {
                                block,
                                data: data.clone(),
                                crc,
                            }),
                        }
                    }
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
            Order::Explicit(numbers) => {
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

    /// The batch is durable at home.
    pub fn finish_batch(
        &mut self,
        ranges: usize,
        written: &[(u64, Lsn)],
        holds: &dyn LogRetention,
    ) {
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
    fn finish_run(&mut self, run: &[(u64, Lsn)], holds: &dyn LogRetention) {
        let (Some((first, _)), Some((last, _))) = (run.first(), run.last()) else {
            return;
        };
        let mut run = run.iter().peekable();
        let at_home = |number: &u64, block: &mut Block| {
            // Gone: a range has removed it meanwhile.
            while run.next_if(|(written, _)| written < number).is_some() {}
            let written = run.next_if(|(written, _)| written == number);
            // Removed, and pinned anew since.
            if written.is_none_or(|(_, version)| block.writing != Some(*version)) {
                return false;
            }
            holds.release(block.hold);
            let is_newest = block.writing == Some(block.lsn);
            match block.next_hold.take() {
                Some(next) if !is_newest => {
                    (block.hold, block.writing) = (next, None);
                    false
                }
                next => {
                    // The image that the hold would have moved to.
                    next.into_iter().for_each(|next| holds.release(next));
                    holds.at_home(*number, block.hold);
                    true
                }
            }
        };
        self.blocks.extract_if(first..=last, at_home).for_each(drop);
    }

    /// The batch has failed: everything in it is still to be done.
    pub fn cancel_batch(&mut self, written: &[(u64, Lsn)], holds: &dyn LogRetention) {
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
}

impl Batch {
    /// True when there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.written.is_empty()
    }
}
