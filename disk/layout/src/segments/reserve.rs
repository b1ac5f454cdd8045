//! Which segments stay free, and when the home is full.
//!
//! Let C be the blocks that a segment can hold, and W the most segments that writing all changed pages of the map
//! takes. Invariants:
//! 1. At any time there are free segments for a checkpoint, also for an opening after a power cut: each opening begins
//!    with a checkpoint. A pass of the cleaner leaves free segments for the pages that it may change
//!    ([`Segments::pass_limit`]). Segments that the opening would find in use ([`super::table`]) are filled first, so
//!    the others become fewer only when there are no such segments.
//! 2. Data is appended only if `reserve` segments stay free: W for invariant 1, W for the checkpoint with which a wait
//!    for space may begin, W for pages that are written between checkpoints if they do not fit into the cache, and
//!    [`Segments::cleaner_reserve`]. So when a writer waits for space, the cleaner has free segments.
//!
//! Why such a wait succeeds unless the home is full. Blocks that are neither free nor live are in gaps: a segment with
//! L live blocks has a gap of C - L. After a checkpoint all segments but the last of the chain are candidates for
//! cleaning. A pass takes those with the largest gaps and fills segments to their ends. So it gains the whole gap of
//! each segment that it empties, and what it leaves in a segment makes a larger gap for the next pass. Plugging, where it is
//! cheaper, moves gaps from fuller segments to the emptiest ones and takes nothing of their sum but its notes; it ends with the
//! known holes. Segments written
//! since the checkpoint are no candidates, so the passes come to an end, and then no other segment has a gap. The next
//! checkpoint frees those that held pages. It writes pages side by side, in segments that the following checkpoint
//! empties as a whole, so only a few blocks between the levels of the map are lost. Passes gain much more than that, or
//! else each pass must gain more than the one before ([`Segments::make_space`]).
//!
//! So the home is full if the sum of the gaps is too small ([`Segments::can_gain`]). A 128th of the blocks does not
//! count, because the last gaps would cost more writes than they gain. The home is also full if after a checkpoint
//! nothing can be moved, or the largest passes gain nothing: then tombstones fill what the table counts as gaps. A
//! store with the segments of [`tonearm_format::segments_for`] always has larger gaps.

use crate::error::HomeError;
use crate::segments::Segments;
use crate::segments::policy::{Plugging, Policy};
use crate::segments::sizes::pass_segments;
use crate::segments::table::Candidates;
use crate::segments::write_back::{PORTION_ENDS, PORTION_SEGMENTS};
use tonearm_base::Nanos;
use tonearm_format::map_pages;

/// Blocks that a separate partial costs more than the same entries in a larger one: two summaries, each rounded up, and
/// the end of a segment that is too short for another partial.
const PARTIAL_COST: u64 = 6;
/// Pages that are appended in one go.
pub(crate) const PAGES_MAX: u64 = 1024;
/// Gaps of less than this share of all blocks are not worth cleaning.
const GAP_SHARE: u64 = 128;
/// Gaps, in blocks, that the cleaner can move at a time; large against the losses at the ends of partials.
const CLEANER_BLOCKS: u64 = 128;
/// While less than one segment of so many is free beyond the needs of the next portion, the cleaner runs along with
/// writes.
const FREE_SHARE: u64 = 256;
/// How often a writer that waits for reads checks again.
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
    fn cleaner_reserve(&self) -> u64 {
        2 + CLEANER_BLOCKS / self.capacity
    }

    /// Segments that data never takes: see the module.
    fn reserve(&self) -> u64 {
        let times = if self.map_in_memory { 2 } else { 3 };
        times * self.map_segments() + 1 + self.cleaner_reserve()
    }

    /// Segments that stay free: while fewer are, the cleaner runs along with writes.
    pub(crate) fn kept_free(&self) -> u64 {
        self.reserve() + PORTION_SEGMENTS + PORTION_ENDS
    }

    pub(crate) fn free(&self) -> u64 {
        self.state.borrow().table.free_and_held().0
    }

    /// Segments that a pass may fill besides the rest of the chain's last one; none when it may not fill even that. The
    /// free segments that it leaves are enough for a checkpoint of all pages that it may change.
    pub(crate) fn pass_limit(&self) -> Option<u64> {
        let (free, after_crash, changed) = {
            let state = self.state.borrow();
            let (free, _) = state.table.free_and_held();
            let after_crash = state.table.free_after_crash();
            (free, after_crash, state.pages.dirty() as u64)
        };
        let fits = |segments: &u64| {
            // For each moved block, its leaf and the pages above. The last segment to be filled may need one more.
            let pages = changed + 2 * (segments + 1) * self.capacity;
            let pages = self.segments_of_pages(pages.min(self.changed_max));
            segments + 1 + pages <= free && pages <= after_crash
        };
        (0..=pass_segments(&self.media.layout))
            .take_while(fits)
            .last()
    }

    /// True when tombstones that are written without space for data leave enough free segments for a checkpoint.
    pub(crate) fn has_space_for_tombstones(&self) -> bool {
        self.free() > self.map_segments() + PORTION_ENDS && self.can_open_after_crash()
    }

    /// True when an opening after a crash would have segments for its checkpoint, whatever has changed until then.
    fn can_open_after_crash(&self) -> bool {
        self.state.borrow().table.free_after_crash() >= self.map_segments()
    }

    /// True when cleaning can make `wanted` segments free.
    fn can_gain(&self, wanted: u64) -> bool {
        let state = self.state.borrow();
        let (stuck, stuck_live) = state.table.stuck();
        let (held, held_live) = state.table.held_for_log();
        let live = state.table.live() - stuck_live - held_live;
        // All but the chain's last segment.
        let blocks = (state.table.len() - stuck - held).saturating_sub(1) * self.capacity;
        blocks >= live + wanted * self.capacity + blocks / GAP_SHARE
    }

    /// Segments that the store could do without: while so many cannot be cleaned, a wait for space still succeeds, with all blocks
    /// written.
    pub(crate) fn spare_segments(&self) -> u64 {
        self.segments_beside_blocks()
            .saturating_sub(self.kept_free())
    }

    /// The most of them with any map cache: as many may have been held when the store was open with another one.
    pub(crate) fn spare_segments_max(&self) -> u64 {
        let layout = &self.media.layout;
        let pages = map_pages(layout.block_size, self.size_blocks);
        let changed = pages.min(2 * pass_segments(layout) * self.capacity);
        let kept = 2 * self.segments_of_pages(changed) + self.cleaner_reserve();
        self.segments_beside_blocks().saturating_sub(kept)
    }

    /// Segments beside those that all blocks and pages of the store take, and the last of the chain.
    fn segments_beside_blocks(&self) -> u64 {
        let layout = &self.media.layout;
        let all = self.size_blocks + map_pages(layout.block_size, self.size_blocks);
        let blocks = all + layout.segments * self.capacity / GAP_SHARE;
        layout
            .segments
            .saturating_sub(blocks.div_ceil(self.capacity) + 1)
    }

    /// True when `segments` segments can be written without cleaning or a checkpoint.
    pub(crate) fn has_space(&self, segments: u64) -> bool {
        self.free() >= self.reserve() + segments && self.can_open_after_crash()
    }

    /// Makes `segments` segments writable; false when there is no space for them.
    pub(crate) async fn make_space(&self, segments: u64) -> Result<bool, HomeError> {
        let wanted = self.reserve() + segments;
        // The most segments that were free after a checkpoint, the blocks that a pass must gain, and whether nothing
        // was moved since the last checkpoint.
        let (mut most, mut least, mut idle) = (0, self.pass_least(), false);
        loop {
            self.release_held();
            let (free, held) = self.state.borrow().table.free_and_held();
            if free >= wanted && self.can_open_after_crash() {
                return Ok(true);
            }
            if free >= wanted {
                self.checkpoint().await?;
                continue;
            }
            if free + held >= wanted {
                // Reads that began before these segments became free still use them.
                self.rt.sleep(READ_WAIT).await;
                continue;
            }
            if !self.can_gain(wanted) {
                return Ok(false);
            }
            // Only the first checkpoint of a wait may be made for its price.
            if self.gain(wanted - free - held, least, most == 0).await? {
                idle = false;
                continue;
            }
            // Summaries of the cleaner and of checkpoints cost space. If they take all of the gain, the next passes
            // must gain more, up to as much as can be moved.
            let whole = self.media.layout.segments * self.capacity;
            if idle || least > whole {
                return Ok(false);
            }
            self.checkpoint().await?;
            idle = true;
            let (free, held) = self.state.borrow().table.free_and_held();
            least = if free + held > most {
                self.pass_least()
            } else {
                2 * least
            };
            most = most.max(free + held);
        }
    }

    /// Blocks that a pass must gain; much more than a checkpoint loses between the levels of the map.
    fn pass_least(&self) -> u64 {
        4 * PARTIAL_COST * u64::from(self.levels + 1)
    }

    /// Gains free segments, at most `missing`, without a checkpoint. False when a checkpoint is due. A pass of the
    /// cleaner gains at least `least` blocks if it can. With `may_checkpoint` one is also due where it saves more than it costs.
    async fn gain(
        &self,
        missing: u64,
        least: u64,
        may_checkpoint: bool,
    ) -> Result<bool, HomeError> {
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
            self.commit_checkpoint().await?;
            return Ok(true);
        }
        // A checkpoint that frees as many segments as it writes is cheaper than cleaning.
        if pressed || emptied >= missing.max(self.segments_of_pages(changed)) {
            return Ok(false);
        }
        let wanted = least.max(missing * self.capacity);
        if may_checkpoint && self.saves_by_checkpoint(Policy::Greedy, wanted) {
            return Ok(false);
        }
        self.clean_or_plug(Policy::Greedy, wanted, true).await
    }

    /// True when a checkpoint costs less than what it saves in making `wanted` blocks free: segments that were written since the
    /// last one can be cleaned after it, and their holes can be filled. A home that does not plug checkpoints by
    /// [`Segments::checkpoint_interval`] alone.
    fn saves_by_checkpoint(&self, policy: Policy, wanted: u64) -> bool {
        if self.plugging == Plugging::Never {
            return false;
        }
        let now = self.costs(policy, wanted, Candidates::Now);
        let then = self.costs(policy, wanted, Candidates::AfterCheckpoint);
        let saved = (now.least() - then.least()) * wanted as f64;
        let pages = self.state.borrow().pages.dirty() as u64;
        let slots = 2 * self.media.layout.slot_bytes() / self.media.block_size() as u64;
        // The space that the pages take is made free again at the new price.
        saved > pages as f64 * (1.0 + then.least()) + slots as f64
    }

    /// While fewer segments are free, the cleaner takes the emptiest ones; and while fewer than the second number are, it runs
    /// along with writes.
    fn cleaning_limits(&self) -> (u64, u64) {
        let low = self.kept_free();
        let high = low + 1 + self.media.layout.segments / FREE_SHARE;
        if self.plugging == Plugging::Never {
            return (low, high);
        }
        // A free segment has no holes to fill. So in a nearly full store half of the spare space stays in gaps.
        let state = self.state.borrow();
        let spare = state.table.len() - state.table.live() / self.capacity;
        let least = self.reserve() + PORTION_ENDS + 1;
        let high = high.min(least.max(spare / 2));
        (low.min(high), high)
    }

    /// After a portion has taken `taken` blocks of the segments, those of notes included: cleans in proportion when few
    /// segments are free, and writes a checkpoint when it is due.
    pub(crate) async fn maintain(&self, taken: u64) -> Result<(), HomeError> {
        let (low, high) = self.cleaning_limits();
        let coming = self.free() + self.state.borrow().table.emptied();
        if coming < high {
            // Cost-age needs time, so it is used while there are enough free segments.
            let policy = if coming < low {
                Policy::Greedy
            } else {
                self.policy
            };
            // Twice as many blocks as were taken, so that the number of free segments grows slowly.
            let wanted = 2 * taken;
            if self.saves_by_checkpoint(policy, wanted) {
                self.checkpoint().await?;
            }
            self.clean_or_plug(policy, wanted, false).await?;
        }
        if self.state.borrow().since_checkpoint >= self.checkpoint_interval() {
            self.checkpoint().await?;
        }
        Ok(())
    }
}
