//! What one partial segment contains, and how much of a segment it takes.

use std::iter::repeat;
use tonearm_base::Slice;
use tonearm_format::{MapEntry, SegmentLayout, SummaryEntry, SummaryKind, summary_blocks};

/// Most blocks of data in one partial, because its slices go into one device write.
const PAYLOAD_MAX: u64 = 500;
/// Most entries of one partial; tombstones and notes have no block.
const ENTRIES_MAX: usize = 2048;
/// A partial takes at least this many blocks: two summaries and one block.
pub(crate) const PARTIAL_MIN: u64 = 3;

/// Something to be appended.
pub(crate) struct Item {
    /// The version that it already has; none if it is new.
    pub version: Option<u64>,
    pub kind: SummaryKind,
    /// Exactly one block; none for a tombstone or a note.
    pub data: Option<Slice>,
}

/// The block of `item`; 0 if it is about none.
pub(crate) fn block_of(item: &Item) -> u64 {
    match item.kind {
        SummaryKind::Data { block, .. }
        | SummaryKind::Indirect { block, .. }
        | SummaryKind::Overwritten { block, .. } => block,
        _ => 0,
    }
}

/// The end of the chain, where the next partial is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainEnd {
    pub place: u64,
    pub partial: u32,
}

/// The items of one partial.
pub(crate) struct Cut {
    pub entries: usize,
    /// Those of them that have a block.
    pub payload: u64,
    /// With both summaries.
    pub blocks: u64,
}

impl Cut {
    /// The part of `items` (true: it has a block) that one partial takes when `left` blocks remain in the segment.
    pub fn of(block_size: u32, left: u64, items: impl Iterator<Item = bool>) -> Self {
        let (mut entries, mut payload) = (0, 0);
        for has_block in items.take(ENTRIES_MAX) {
            let more = payload + u64::from(has_block);
            let summary = summary_blocks(block_size, entries as u64 + 1);
            if more + 2 * summary > left || more > PAYLOAD_MAX {
                break;
            }
            (entries, payload) = (entries + 1, more);
        }
        Self {
            entries,
            payload,
            blocks: payload + 2 * summary_blocks(block_size, entries as u64),
        }
    }
}

/// Blocks of a segment that an endless stream of items fills. No segment can hold more.
pub(crate) fn capacity(layout: &SegmentLayout) -> u64 {
    let (mut left, mut payload) = (layout.segment_blocks(), 0);
    while left >= PARTIAL_MIN {
        let cut = Cut::of(layout.block_size, left, repeat(true));
        payload += cut.payload;
        left -= cut.blocks;
    }
    payload
}

/// Items as the content of one partial.
pub(crate) struct Packed {
    pub entries: Vec<SummaryEntry>,
    /// Their blocks, those joined that are adjacent in memory.
    pub slices: Vec<Slice>,
    pub holes: u32,
    pub notes: u32,
}

impl Packed {
    /// The content of partial `seq`, whose first block lies at `place`. Adds the map entries of `items`.
    pub fn of(items: Vec<Item>, seq: u64, mut place: u64, placed: &mut Vec<MapEntry>) -> Self {
        let mut packed = Self {
            entries: Vec::with_capacity(items.len()),
            slices: Vec::with_capacity(items.len() + 2),
            holes: 0,
            notes: 0,
        };
        for Item {
            version,
            kind,
            data,
        } in items
        {
            let version = version.unwrap_or(seq);
            packed.entries.push(SummaryEntry { version, kind });
            let at = match (kind, data) {
                (kind, Some(data)) => {
                    let crc = kind.crc().expect("what has a block has a checksum");
                    match packed.slices.last_mut() {
                        Some(last) if last.is_followed_by(&data) => *last = last.joined(&data),
                        _ => packed.slices.push(data),
                    }
                    place += 1;
                    Some((place - 1, crc))
                }
                (SummaryKind::Overwritten { place, crc, .. }, None) => {
                    packed.notes += 1;
                    Some((place, crc))
                }
                (_, None) => {
                    packed.holes += 1;
                    None
                }
            };
            placed.push(match at {
                Some((place, crc)) => MapEntry {
                    place,
                    version,
                    crc,
                },
                None => MapEntry::hole(version),
            });
        }
        packed
    }
}
