//! How much a round of the write-back and a pass of the cleaner take, and where they should end.

use crate::segments::SegmentsMember;
use tonearm_format::SegmentLayout;

/// Bytes of one round that are appended. More gain nothing, and writers would wait for the cleaning that they need. Fewer
/// cost two blocks of summaries more often.
pub(crate) const ROUND_BYTES: usize = 512 << 10;
/// Most bytes that one pass reads (HyLog 4.2).
const PASS_BYTES: u64 = 20 << 20;
/// Segments that one pass may always read, even if they are large or few.
const PASS_SEGMENTS_MIN: u64 = 4;
/// Stripes with more data than this are not filled: a round of this size would keep writers waiting.
const STRIPE_BYTES_MAX: u64 = 2 << 20;

/// Most segments that one pass reads, a small part of the store.
pub(crate) fn pass_segments(layout: &SegmentLayout) -> u64 {
    let most = (PASS_BYTES / u64::from(layout.segment_bytes)).min(layout.segments / 16);
    most.max(PASS_SEGMENTS_MIN)
}

/// Blocks of the parts of segments at whose ends appends should end. None unless all members are arrays with parity and
/// each segment consists of whole stripes.
pub(crate) fn part_blocks(members: &[SegmentsMember], layout: &SegmentLayout) -> Option<u64> {
    let (segment, block) = (
        u64::from(layout.segment_bytes),
        u64::from(layout.block_size),
    );
    let of_member = |member: &SegmentsMember| {
        let stripe = member.device.redundancy()?.stripe_bytes()?;
        let divides = |bytes: u64| bytes.is_multiple_of(stripe);
        let whole = divides(member.first_segment) && divides(segment);
        let fits = whole && stripe.is_multiple_of(block) && stripe <= STRIPE_BYTES_MAX;
        fits.then_some(stripe)
    };
    let stripes: Option<Vec<u64>> = members.iter().map(of_member).collect();
    let largest = stripes?.into_iter().max()?;
    let part = if segment <= ROUND_BYTES as u64 {
        segment
    } else {
        largest
    };
    Some(part / block)
}
