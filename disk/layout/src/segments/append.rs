//! Appending to the chain of partial segments: each partial is one device write.

use crate::error::HomeError;
use crate::segments::Segments;
use crate::segments::partial::{ChainEnd, Cut, Item, PARTIAL_MIN, Packed};
use crate::separation::Kind;
use std::collections::VecDeque;
use tonearm_format::{MapEntry, NUMBER_MAX, Summary, summary_blocks};
use tonearm_rt::JoinHandle;

/// Partials under way together.
const WRITES_MAX: usize = 8;

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
            state.holes.clear(segment);
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
            let media = &home.media;
            media.write(Kind::Append, member, offset, slices).await
        })
    }
}
