//! Which segments stay free, and when the home is full.
//!
//! Let C be the blocks that a segment can hold, and W the segments that writing all changed pages of the map takes at
//! most. Invariants:
//! 1. At any time a checkpoint can be written, in a new segment: else a store could not be opened any more after a
//!    power cut, as each opening begins with one. A pass of the cleaner leaves room for the pages that it may change
//!    ([`Segments::pass_room`]).
//! 2. Data is appended only where `reserve` segments stay free: W for invariant 1, W for the checkpoint with which
//!    waiting for room may begin, W for pages that are written between checkpoints if they are too many for the
//!    cache, and [`Segments::cleaner_room`]. So a writer that waits for room always finds the cleaner with some.
//!
//! Why waiting for room succeeds where there is room. Blocks that are neither free nor live are in gaps: a segment with
//! L live blocks has a gap of C - L. Behind a checkpoint all segments but the last of the chain are candidates for
//! cleaning. A pass takes those with the largest gaps and fills segments to their ends, so that the whole gap of each
//! segment that it empties is gained, and what it leaves in a segment makes a larger gap for the next. Segments written
//! since the checkpoint are no candidates, so the passes come to an end; then no other segment has a gap. The next
//! checkpoint frees those that held pages. It writes pages side by side, in segments that the one after it empties as a
//! whole: what is lost for good is a few blocks between the levels of the map. Passes gain much more than that, or else
//! more and more ([`Segments::make_room`]).
//!
//! So there is no room if the sum of the gaps is too small ([`Segments::can_gain`]): all but a 128th of the blocks, for
//! the last gaps would cost more writing than they are worth. And there is none if behind a checkpoint nothing
//! can be moved, or the largest passes gain nothing: then tombstones fill what the table counts as gaps. Blocks and
//! tombstones of a store that has the segments of [`tonearm_format::segments_for`] always leave more.

use crate::error::HomeError;
use crate::segments::Segments;
use crate::segments::cleaner::pass_segments;
use crate::segments::policy::Policy;
use crate::segments::write_back::{PORTION_ENDS, PORTION_SEGMENTS};
use tonearm_base::Nanos;

/// Blocks that a partial of its own costs more than the same entries in a larger one: two summaries, each rounded up,
/// and the end of a segment that is too short for one more.
const PARTIAL_COST: u64 = 6;
/// Pages that are appended in one go.
pub(crate) const PAGES_MAX: u64 = 1024;
/// Of all blocks, this share of gaps is not worth cleaning.
const GAP_SHARE: u64 = 128;
/// Gaps that the cleaner can move at a time, in blocks: many against what is lost at the ends of partials.
const CLEANER_BLOCKS: u64 = 128;
/// One segment of so many stays free beyond what the next portion needs: below that cleaning goes along with
/// writing.
const FREE_SHARE: u64 = 256;
/// How often a writer that waits for reads looks again.
const READ_WAIT: Nanos = Nanos::from_millis(1);

impl Segments {
    /// Segments that `pages` changed pages take: each level, and each [`PAGES_MAX`] of them, begins a partial.
    fn segments_of_pages(&self, pages: u64) -> u64 {
        let partials = u64::from(self.levels) + pages / PAGES_MAX;
        (pages + PARTIAL_COST * partials).div_ceil(self.capacity) + 1
    }

    /// Segments that writing all changed pages takes at most.
    fn map_segments(&self) -> u64 {
        self.segments_of_pages(self.changed_max)
    }

    /// Segments for the cleaner to go on with.
    fn cleaner_room(&self) -> u64 {
        2 + CLEANER_BLOCKS / self.capacity
    }

    /// Segments that data never takes: see the module.
    fn reserve(&self) -> u64 {
        let times = if self.map_in_memory { 2 } else { 3 };
        times * self.map_segments() + 1 + self.cleaner_room()
    }

    pub(crate) fn free(&self) -> u64 {
        self.state.borrow().table.free_and_held().0
    }

    /// Segments that a pass may fill beside the rest of the chain's last one; none when it may not even do that. A
    /// checkpoint of all pages that it may have changed takes what is left.
    pub(crate) fn pass_room(&self) -> Option<u64> {
        let (free, changed) = {
            let state = self.state.borrow();
            (state.table.free_and_held().0, state.pages.dirty() as u64)
        };
        let fits = |segments: &u64| {
            // Of each block moved the leaf, and what leads to it. The last segment that is filled opens one more.
            let pages = changed + 2 * (segments + 1) * self.capacity;
            segments + 1 + self.segments_of_pages(pages.min(self.changed_max)) <= free
        };
        (0..=pass_segments(&self.media.layout))
            .take_while(fits)
            .last()
    }

    /// Tombstones that are written where there is no room for data leave room for a checkpoint.
    pub(crate) fn has_room_for_tombstones(&self) -> bool {
        self.free() > self.map_segments() + PORTION_ENDS
    }

    /// True when cleaning can make `wanted` segments free.
    fn can_gain(&self, wanted: u64) -> bool {
        let state = self.state.borrow();
        let (stuck, stuck_live) = state.table.stuck();
        let live = state.table.live() - stuck_live;
        // Without the chain's last segment.
        let blocks = (state.table.len() - stuck).saturating_sub(1) * self.capacity;
        blocks >= live + wanted * self.capacity + blocks / GAP_SHARE
    }

    /// Makes sure that `segments` segments can be written; false when there is no room for them.
    pub(crate) async fn make_room(&self, segments: u64) -> Result<bool, HomeError> {
        let wanted = self.reserve() + segments;
        // Most that was free behind a checkpoint, blocks that a pass is to gain at least, and whether nothing was moved
        // since the last checkpoint.
        let (mut most, mut least, mut idle) = (0, self.pass_least(), false);
        loop {
            let (free, held) = self.state.borrow().table.free_and_held();
            if free >= wanted {
                return Ok(true);
            }
            if free + held >= wanted {
                // Reads that began before they became free still look at them.
                self.rt.sleep(READ_WAIT).await;
                continue;
            }
            if !self.can_gain(wanted) {
                return Ok(false);
            }
            if self.gain(wanted - free - held, least).await? {
                idle = false;
                continue;
            }
            // Cleaning and checkpoints write summaries, which cost space. If they took all of the gain, the next passes
            // must gain more, up to as much as can be moved at all.
            let whole = self.media.layout.segments * self.capacity;
            if idle || least > whole {
                return Ok(false);
            }
            self.checkpoint().await?;
            idle = true;
            let (free, held) = self.state.borrow().table.free_and_held();
            least = match free + held > most {
                true => self.pass_least(),
                false => 2 * least,
            };
            most = most.max(free + held);
        }
    }

    /// Blocks to be gained at a time: much more than a checkpoint loses between the levels of the map.
    fn pass_least(&self) -> u64 {
        4 * PARTIAL_COST * u64::from(self.levels + 1)
    }

    /// Gains free segments, `missing` or less, without a checkpoint; false when one is due. A pass of the cleaner gains
    /// `least` blocks or more if it can.
    async fn gain(&self, missing: u64, least: u64) -> Result<bool, HomeError> {
        let end = self.end_segment();
        let (reusable, emptied, pressed, changed) = {
            let state = self.state.borrow();
            let reusable = !state.table.reusable(end).is_empty();
            let pages = &state.pages;
            (
                reusable,
                state.table.emptied(),
                pages.is_pressed(),
                pages.dirty() as u64,
            )
        };
        if reusable {
            self.settle().await?;
            return Ok(true);
        }
        // A checkpoint that frees as much as it writes is worth more than cleaning.
        if pressed || emptied >= missing.max(self.segments_of_pages(changed)) {
            return Ok(false);
        }
        let wanted = least.max(missing * self.capacity);
        self.pass(Policy::Greedy, wanted, true).await
    }

    /// After `written` blocks were appended: cleans in proportion when free segments are few, and leaves a
    /// checkpoint from time to time.
    pub(crate) async fn maintain(&self, written: u64) -> Result<(), HomeError> {
        let low = self.reserve() + PORTION_SEGMENTS + PORTION_ENDS;
        let high = low + 1 + self.media.layout.segments / FREE_SHARE;
        let coming = self.free() + self.state.borrow().table.emptied();
        if coming < high {
            // Age counts only where there is time for it.
            let policy = if coming < low {
                Policy::Greedy
            } else {
                self.policy
            };
            // Twice what was written: slowly more than keeping up.
            self.pass(policy, 2 * written, false).await?;
        }
        if self.state.borrow().since_checkpoint >= self.checkpoint_interval() {
            self.checkpoint().await?;
        }
        Ok(())
    }
}
