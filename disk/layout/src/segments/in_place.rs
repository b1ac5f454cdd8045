//! Which blocks of a write-back are overwritten in place, and in which order the others are appended (HyLog 4).
//!
//! A block that is overwritten keeps its place. A partial gets a *note* of it: block, place, version and checksum. A
//! power cut at any moment is harmless. Until the call has returned, the engine's log has the block and replays it.
//! Afterwards both the block and its note are durable, and recovery takes place and checksum from the note.
//!
//! For a rebuild of the map, a note stays necessary while the block is the one that it names, and lies in a segment
//! whose own summaries have an older version (`cleaner.rs` carries it on).

use crate::error::HomeError;
use crate::segments::Segments;
use crate::segments::partial::{Item, block_of};
use crate::segments::state::State;
use crate::separation::cost::{Efficiency, appending};
use crate::separation::{Inputs, Kind};
use std::cmp::Reverse;
use std::collections::VecDeque;
use tonearm_base::Slice;
use tonearm_format::{Placement, SummaryKind};
use tonearm_rt::JoinHandle;

/// Device writes in place that are under way together.
const WRITES_MAX: usize = 16;
/// Most blocks of one device write.
const RUN_MAX: usize = 256;
/// Segment I/O efficiency until it is measured: that of a drive of 2003 (HyLog, Figure 1).
const EFFICIENCY: f64 = 32.8;
/// Until the first decision, blocks are overwritten when more than this share of the space is in use. From there on
/// overwriting is cheaper even with uniform updates on a drive of 1999 (HyLog, Figure 3).
const CROWDED: f64 = 0.94;

/// A block that is written at a place within a segment.
pub(crate) struct InPlace {
    pub place: u64,
    pub block: u64,
    pub crc: u32,
    pub data: Slice,
}

impl Segments {
    /// Blocks that the segments can hold which data may take.
    fn space(&self, state: &State) -> f64 {
        let segments = state.table.len().saturating_sub(self.kept_free());
        (segments * self.capacity).max(1) as f64
    }

    /// Counts the writes of `blocks`, and ends the separator's interval when it is time.
    pub(crate) fn count_writes(&self, blocks: impl Iterator<Item = u64>) {
        let mut state = self.state.borrow_mut();
        let live_pages = state.table.live();
        let utilisation = live_pages as f64 / self.space(&state);
        let Some(separation) = &mut state.separation else {
            return;
        };
        let now = self.rt.now();
        if now >= separation.ends {
            let known = separation.decision.map(|(_, efficiency)| efficiency);
            let mut times = self.media.times.borrow_mut();
            times.end_interval();
            let all_hot = separation
                .decision
                .is_none_or(|(decision, _)| decision.hot_writes == 1.0);
            if all_hot && let Some(cost) = times.appending_cost() {
                let cleaning = cost / appending(utilisation);
                let known = separation.cleaning.unwrap_or(cleaning);
                separation.cleaning = Some((known + cleaning) / 2.0);
            }
            let unknown = || known.unwrap_or(Efficiency::constant(EFFICIENCY));
            separation.decide(
                now,
                Inputs {
                    live_pages,
                    utilisation,
                    efficiency: times.efficiency().unwrap_or_else(unknown),
                    cleaning: separation.cleaning.unwrap_or(1.0),
                },
            );
        }
        for block in blocks {
            separation.separator.note_write(block);
        }
    }

    /// True when `block` is to be overwritten if it has a place.
    pub(crate) fn is_cold(&self, block: u64) -> bool {
        if let Some(given) = self.given {
            return given(block);
        }
        let state = self.state.borrow();
        match &state.separation {
            Some(known) if known.placement == Placement::Hylog => match known.decision {
                Some(_) => !known.separator.is_hot(block),
                None => state.table.live() as f64 > CROWDED * self.space(&state),
            },
            _ => false,
        }
    }

    /// Divides the blocks of a call into those that are overwritten in place and those that are appended. WOLF sorts the
    /// latter, those first that are written most often.
    pub(crate) async fn separate(
        &self,
        items: Vec<Item>,
    ) -> Result<(Vec<Item>, Vec<Item>), HomeError> {
        if self.given.is_none() && self.state.borrow().separation.is_none() {
            return Ok((Vec::new(), items));
        }
        let (mut cold, mut hot) = (Vec::new(), Vec::with_capacity(items.len()));
        for item in items {
            let is_cold = match item.kind {
                SummaryKind::Data { block, .. } if self.is_cold(block) => {
                    self.place_of(block).await?.is_some()
                }
                _ => false,
            };
            if is_cold {
                cold.push(item);
            } else {
                hot.push(item);
            }
        }
        if let Some(separation) = &self.state.borrow().separation
            && separation.placement == Placement::Wolf
        {
            hot.sort_by_cached_key(|item| Reverse(separation.separator.frequency(block_of(item))));
        }
        Ok((cold, hot))
    }

    /// Where `block` may be overwritten; none for a hole. A block whose map page is damaged is appended, which begins a new page.
    pub(crate) async fn place_of(&self, block: u64) -> Result<Option<u64>, HomeError> {
        match self.entry(block).await {
            Ok(known) => {
                let is_there = known.is_placed() && self.media.holds(known.place);
                // The log may name the older content there (`indirect.rs`).
                let is_held = || {
                    let segment = self.media.segment_of(known.place);
                    self.state.borrow().table.is_held_for_log(segment)
                };
                Ok((is_there && !is_held()).then_some(known.place))
            }
            Err(HomeError::MapPage { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Overwrites `items` in place, in one sweep that is measured as `kind`. Returns what is to be appended: a note of each.
    /// Nothing is durable before a flush. The cleaner may have moved a block since it was separated, so its place is looked
    /// up again.
    pub(crate) async fn overwrite(
        &self,
        kind: Kind,
        items: Vec<Item>,
    ) -> Result<Vec<Item>, HomeError> {
        let (mut sweep, mut appended) = (Vec::with_capacity(items.len()), Vec::new());
        for item in items {
            match (item.kind, &item.data, self.place_of(block_of(&item)).await?) {
                (SummaryKind::Data { block, crc }, Some(data), Some(place)) => {
                    sweep.push(InPlace {
                        place,
                        block,
                        crc,
                        data: data.clone(),
                    });
                }
                _ => appended.push(item),
            }
        }
        sweep.sort_by_key(|one| one.place);
        let notes = sweep.iter().map(|one| Item {
            version: None,
            kind: SummaryKind::Overwritten {
                block: one.block,
                place: one.place,
                crc: one.crc,
            },
            data: None,
        });
        let mut items: Vec<Item> = notes.collect();
        let count = sweep.len() as u64;
        self.media
            .count(|stats| stats.segments.overwritten_blocks += count);
        self.write_in_place(kind, sweep).await?;
        items.append(&mut appended);
        Ok(items)
    }

    /// Writes blocks, in the order of their places, over their older content. Neighbours share a device write.
    pub(crate) async fn write_in_place(
        &self,
        kind: Kind,
        blocks: Vec<InPlace>,
    ) -> Result<(), HomeError> {
        let mut under_way: VecDeque<JoinHandle<Result<(), HomeError>>> = VecDeque::new();
        let mut failed = None;
        let joins = |a: &InPlace, b: &InPlace| {
            a.place + 1 == b.place
                && self.media.segment_of(a.place) == self.media.segment_of(b.place)
        };
        let runs = blocks.chunk_by(joins).flat_map(|run| run.chunks(RUN_MAX));
        for run in runs {
            if under_way.len() == WRITES_MAX {
                let first = under_way.pop_front().expect("writes are under way");
                failed = first.await.err();
            }
            if failed.is_some() {
                break;
            }
            let slices = run.iter().map(|one| one.data.clone()).collect();
            let (member, offset) = self.media.locate(run[0].place);
            let home = self.clone();
            under_way.push_back(
                self.rt
                    .spawn(async move { home.media.write(kind, member, offset, slices).await }),
            );
        }
        for write in under_way {
            let result = write.await;
            failed = failed.or(result.err());
        }
        failed.map_or(Ok(()), Err)
    }
}
