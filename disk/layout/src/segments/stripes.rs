//! Appends that end where a stripe of a RAID-5 array ends.
//!
//! A whole stripe is written without reads. A part of one costs reads of old data and parity, and a second write of the
//! parity. So rounds of the write-back, and passes of the cleaner, end with a stripe if they can, or even with a segment if
//! a round fills one. Then a segment has either blocks that callers wrote or blocks that the cleaner copied, which live
//! longer. On other devices an append may end anywhere.

use crate::segments::Segments;
use crate::segments::partial::{Cut, PARTIAL_MIN};
use crate::segments::sizes::ROUND_BYTES;

impl Segments {
    /// How many blocks of data a round appends: about [`ROUND_BYTES`] with their summaries. With parts it ends at the end
    /// of one, and fills at least one.
    pub(crate) fn appended(&self) -> usize {
        let blocks = (ROUND_BYTES / self.block_size()) as u64;
        let Some(part) = self.part_blocks else {
            return blocks as usize;
        };
        let segment = self.media.layout.segment_blocks();
        // Counted from the start of the last segment. Those after it begin with a part, too.
        let from = self.rest_of_segment().map_or(0, |rest| segment - rest);
        let to = ((from + blocks) / part).max(from / part + 1) * part;
        let (mut at, mut items) = (from, 0);
        while at < to {
            let end = to.min((at / segment + 1) * segment);
            let endless = std::iter::repeat(true);
            let cut = Cut::of(self.media.layout.block_size, end - at, endless);
            items += cut.payload as usize;
            at += cut.blocks;
            if end < at + PARTIAL_MIN {
                at = end;
            }
        }
        items
    }
}
