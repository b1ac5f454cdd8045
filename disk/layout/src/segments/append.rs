//! Appending to the chain of partial segments: each partial is one device write.

use crate::error::HomeError;
use crate::segments::Segments;
use crate::separation::Kind;
use std::collections::VecDeque;
use tonearm_base::Slice;
use tonearm_format::{
    MapEntry, NUMBER_MAX, SegmentLayout, Summary, SummaryEntry, SummaryKind, summary_blocks,
};
use tonearm_rt::{Data, JoinHandle};

/// Most blocks of data in one partial, because its slices go into one device write.
const PAYLOAD_MAX: u64 = 500;
/// Most entries of one partial; tombstones and notes have no block.
const ENTRIES_MAX: usize = 2048;
/// Partials under way together.
const WRITES_MAX: usize = 8;
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
        SummaryKind::Data { block, .. } | SummaryKind::Overwritten { block, .. } => block,
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
        let cut = Cut::of(layout.block_size, left, std::iter::repeat(true));
        payload += cut.payload;
        left -= cut.blocks;
    }
    payload
}

/// Items as the content of one partial.
struct Packed {
    entries: Vec<SummaryEntry>,
    /// Their blocks, those joined that are adjacent in memory.
    slices: Vec<Slice>,
    holes: u32,
    notes: u32,
}

impl Packed {
    /// The content of partial `seq`, whose first block lies at `place`. Adds the map entries of `items`.
    fn of(items: Vec<Item>, seq: u64, mut place: u64, placed: &mut Vec<MapEntry>) -> Self {
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

impl Segments {
    /// How many items fill the last segment of the chain and up to `segments` more, to the end of a part of `unit` blocks
    /// of one of them; a segment consists of whole parts. The first `holes` items have no block and `blocks` have one. All
    /// items if they do not reach the end of a part.
    pub(crate) fn filling(&self, holes: usize, blocks: usize, segments: u64, unit: u64) -> usize {
        let (layout, all) = (&self.media.layout, holes + blocks);
        let size = layout.segment_blocks();
        let mut left = self.rest_of_segment().unwrap_or(0);
        let (mut at, mut filled, mut more) = (0, None, segments);
        while at < all {
            if left < PARTIAL_MIN {
                if more == 0 {
                    break;
                }
                (left, more) = (size, more - 1);
            }
            let cut = |left| Cut::of(layout.block_size, left, (at..all).map(|at| at >= holes));
            let next = cut(left);
            let rest = left - next.blocks;
            if rest < PARTIAL_MIN {
                filled = Some(at + next.entries);
            } else if at + next.entries == all {
                // The last partial, cut at the end of the last part that it fills.
                let beyond = (size - rest) % unit;
                if next.blocks >= beyond + PARTIAL_MIN {
                    filled = Some(at + cut(left - rest - beyond).entries);
                }
            }
            (at, left) = (at + next.entries, rest);
        }
        filled.unwrap_or(at)
    }

    /// Blocks from the end of the chain to the end of its segment.
    pub(crate) fn rest_of_segment(&self) -> Option<u64> {
        let end = self.state.borrow().end?;
        Some(self.blocks_left(end.place))
    }

    /// The last segment of the chain.
    pub(crate) fn end_segment(&self) -> Option<u64> {
        let end = self.state.borrow().end;
        end.map(|end| self.media.segment_of(end.place))
    }

    /// Opens a segment where the chain has none.
    pub(crate) fn open_end(&self) -> Result<ChainEnd, HomeError> {
        let mut state = self.state.borrow_mut();
        if let Some(end) = state.end {
            return Ok(end);
        }
        let Some(segment) = state.table.allocate() else {
            drop(state);
            return Err(self.full());
        };
        let end = ChainEnd {
            place: self.media.first_place(segment),
            partial: 0,
        };
        state.end = Some(end);
        Ok(end)
    }

    /// No free segment is left, and cleaning gains none.
    pub(crate) fn full(&self) -> HomeError {
        let table = &self.state.borrow().table;
        HomeError::Full {
            live: table.live(),
            segments: table.len(),
            stuck: table.stuck().0,
        }
    }

    /// Appends `items` in their order and returns the map entry of each. They are durable only after a flush. After an
    /// error a new epoch has to begin.
    pub(crate) async fn append(&self, items: Vec<Item>) -> Result<Vec<MapEntry>, HomeError> {
        let mut placed = Vec::with_capacity(items.len());
        let mut under_way: VecDeque<JoinHandle<Result<(), HomeError>>> = VecDeque::new();
        let mut items = items.into_iter();
        let mut failed = None;
        while failed.is_none() && !items.as_slice().is_empty() {
            let end = match self.open_end() {
                Ok(end) => end,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            };
            let have = items.as_slice().iter().map(|item| item.data.is_some());
            let left = self.blocks_left(end.place);
            let cut = Cut::of(self.media.layout.block_size, left, have);
            let part = items.by_ref().take(cut.entries).collect();
            let write = match self.partial(end, part, cut.payload, &mut placed) {
                Ok(write) => write,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            };
            if under_way.len() == WRITES_MAX {
                let first = under_way.pop_front().expect("writes are under way");
                failed = first.await.err();
            }
            under_way.push_back(self.rt.spawn(write));
        }
        for write in under_way {
            let result = write.await;
            failed = failed.or(result.err());
        }
        failed.map_or(Ok(placed), Err)
    }

    /// Blocks from `place` to the end of its segment.
    fn blocks_left(&self, place: u64) -> u64 {
        let blocks = self.media.layout.segment_blocks();
        blocks - place % blocks
    }

    /// One partial at `end`: moves the end after it and returns the write.
    fn partial(
        &self,
        end: ChainEnd,
        part: Vec<Item>,
        payload: u64,
        placed: &mut Vec<MapEntry>,
    ) -> Result<impl Future<Output = Result<(), HomeError>> + 'static, HomeError> {
        let block_size = self.media.layout.block_size;
        let summary_len = summary_blocks(block_size, part.len() as u64);
        let blocks = 2 * summary_len + payload;
        let mut state = self.state.borrow_mut();
        let seq = state.seq;
        let next = if self.blocks_left(end.place) - blocks >= PARTIAL_MIN {
            Some(ChainEnd {
                place: end.place + blocks,
                partial: end.partial + 1,
            })
        } else {
            state.table.allocate().map(|segment| ChainEnd {
                place: self.media.first_place(segment),
                partial: 0,
            })
        };
        let Some(next) = next else {
            drop(state);
            return Err(self.full());
        };
        let packed = Packed::of(part, seq, end.place + summary_len, placed);
        let summary = Summary {
            store: self.store,
            epoch: state.epoch,
            seq,
            place: end.place,
            next: next.place,
            partial: end.partial,
            entries: packed.entries,
        };
        let mut copy = self
            .media
            .pool
            .alloc((summary_len * u64::from(block_size)) as usize);
        summary.encode(&mut copy);
        let (copy, mut slices) = (copy.share(), packed.slices);
        slices.insert(0, copy.clone());
        slices.push(copy);
        let segment = self.media.segment_of(end.place);
        if end.partial == 0 {
            state.table.begin_use(segment, seq);
        }
        state.table.add_holes(segment, packed.holes);
        state.table.add_notes(segment, packed.notes);
        state.table.set_needed(segment);
        assert!(
            seq < NUMBER_MAX,
            "fewer than 2^48 partial segments are written"
        );
        (state.end, state.seq) = (Some(next), seq + 1);
        state.since_checkpoint += blocks * u64::from(block_size);
        drop(state);
        self.media
            .count(|stats| stats.segments.summary_blocks += 2 * summary_len);
        let (member, offset) = self.media.locate(end.place);
        let home = self.clone();
        Ok(async move {
            let write = home.media.write_at(member, offset, Data::Slices(slices));
            home.media.measured(Kind::Append, blocks, write).await
        })
    }
}
