//! The cleaner: copies what lives in some segments to the head of the log, so that they become free.
//!
//! A pass changes nothing that a crash could lose: the segments that it empties stay as they are until the
//! copies are durable.
//!
//! Tombstones. A tombstone of version T stays necessary for a block while the block is a hole of version T and
//! something written before T may still lie on the medium: a rebuild would take an older copy for the newest.
//! A pass carries on what of the tombstones in its segments is necessary, with the versions that they have.

use crate::error::HomeError;
use crate::segments::Segments;
use crate::segments::append::Item;
use crate::segments::map::Found;
use crate::segments::page_cache::PageId;
use crate::segments::policy::{Policy, choose};
use crate::segments::read::Leaf;
use crate::segments::walk::Content;
use crate::segments::write_back::PORTION_SEGMENTS;
use base::Nanos;
use format::{SegmentLayout, Summary, SummaryKind, summary_blocks};
use std::ops::Range;

/// Most bytes that one pass reads (HyLog 4.2).
const PASS_BYTES: u64 = 20 << 20;
/// Segments that one pass may read however large they are, and however few there are.
const PASS_SEGMENTS_MIN: u64 = 4;
/// One segment of so many stays free beyond what the next portion needs: below that cleaning goes along with
/// writing.
const FREE_SHARE: u64 = 256;

/// How often a writer that waits for reads looks again.
const READ_WAIT: Nanos = Nanos::from_millis(1);

/// Passes and checkpoints in a row without one more free segment, after which nothing more can be gained.
const IDLE_MAX: u32 = 32;

/// Most segments that one pass reads: a small part of the store.
pub(crate) fn pass_segments(layout: &SegmentLayout) -> u64 {
    let most = (PASS_BYTES / u64::from(layout.segment_bytes)).min(layout.segments / 16);
    most.max(PASS_SEGMENTS_MIN)
}

/// What lives in a segment.
#[derive(Default)]
struct Living {
    items: Vec<Item>,
    pages: Vec<PageId>,
    holes: Vec<Item>,
    /// Places found, to be compared with the segment table.
    found: u64,
    /// Tombstones before this partial are not necessary any more.
    oldest: u64,
}

impl Segments {
    /// Free segments that only checkpoints may take: all changed pages, and a new head.
    pub(crate) fn checkpoint_reserve(&self) -> u64 {
        self.map_segments + 1
    }

    /// Free segments that data never takes: for a checkpoint, for changed pages that are too many for the
    /// cache, and for the cleaner to begin with.
    fn reserve(&self) -> u64 {
        let relief = if self.map_in_memory {
            0
        } else {
            self.map_segments
        };
        self.checkpoint_reserve() + relief + 2
    }

    pub(crate) fn free(&self) -> u64 {
        self.state.borrow().table.free_and_held().0
    }

    /// Makes sure that `segments` segments can be written.
    ///
    /// # Errors
    /// `NoSpace` when nothing more can be gained.
    pub(crate) async fn make_room(&self, segments: u64) -> Result<(), HomeError> {
        let wanted = self.reserve() + segments;
        let (mut most, mut idle) = (0, 0);
        loop {
            let (free, held) = self.state.borrow().table.free_and_held();
            if free >= wanted {
                return Ok(());
            }
            if free + held >= wanted {
                // Reads that began before they became free still look at them.
                self.rt.sleep(READ_WAIT).await;
                continue;
            }
            // What is gained at a time may be less than a segment.
            idle = if free + held > most { 0 } else { idle + 1 };
            most = most.max(free + held);
            if idle > IDLE_MAX {
                return Err(self.full());
            }
            if !self.gain(wanted - free - held).await? {
                self.checkpoint().await?;
            }
        }
    }

    /// Gains free segments, `missing` or less, without a checkpoint; false when one is due.
    async fn gain(&self, missing: u64) -> Result<bool, HomeError> {
        let head = self.head_segment();
        let (reusable, emptied, pressed, changed) = {
            let state = self.state.borrow();
            let reusable = !state.table.reusable(head).is_empty();
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
        let cost = changed.div_ceil(self.media.layout.payload_blocks());
        let due = pressed || emptied >= missing.max(cost);
        Ok(!due && self.pass(Policy::Greedy, missing).await? > 0)
    }

    /// After `written` bytes were appended: cleans in proportion when free segments are few, and leaves a
    /// checkpoint from time to time.
    pub(crate) async fn maintain(&self, written: u64) -> Result<(), HomeError> {
        let segment = u64::from(self.media.layout.segment_bytes);
        let low = self.reserve() + PORTION_SEGMENTS + 2;
        let high = low + 1 + self.media.layout.segments / FREE_SHARE;
        let coming = self.free() + self.state.borrow().table.emptied();
        if coming < high {
            // Twice what was written: slowly more than keeping up. Age counts only where there is time for it.
            let policy = if coming < low {
                Policy::Greedy
            } else {
                self.policy
            };
            self.pass(policy, (2 * written).div_ceil(segment)).await?;
        }
        if self.state.borrow().since_checkpoint >= self.checkpoint_interval() {
            self.checkpoint().await?;
        }
        Ok(())
    }

    /// Cleans until about `wanted` segments are gained, at most [`PASS_BYTES`] are read or the free segments
    /// are used up to the rest for a checkpoint; gives the number of segments that were emptied. Pages of the
    /// map are only marked as changed: the next checkpoint, which frees the segments, writes them.
    async fn pass(&self, policy: Policy, wanted: u64) -> Result<u64, HomeError> {
        let layout = self.media.layout;
        let payload = layout.payload_blocks();
        let most = pass_segments(&layout) as usize;
        let chosen = {
            let head = self.head_segment();
            let state = self.state.borrow();
            let now = state.seq;
            let candidates = state.table.candidates(head).map(|(segment, entry)| {
                let live = u64::from(entry.live);
                (segment, live, now.saturating_sub(entry.age))
            });
            choose(policy, candidates, payload, most)
        };
        let (mut moved, mut gained) = (0, 0);
        let mut living = Living {
            oldest: self.state.borrow().table.oldest(),
            ..Living::default()
        };
        let mut segments = Vec::new();
        let room = self.free().saturating_sub(self.checkpoint_reserve()) * payload;
        for segment in chosen {
            let live = u64::from(self.state.borrow().table.entry(segment).live);
            if moved + live > room || gained >= wanted.saturating_mul(payload) {
                break;
            }
            let holes = living.holes.len() as u64;
            if !self.collect(segment, &mut living).await? {
                self.state.borrow_mut().table.set_stuck(segment);
                continue;
            }
            // Tombstones take place in both copies of a summary.
            let holes = living.holes.len() as u64 - holes;
            let takes = live + 2 * summary_blocks(layout.block_size, holes) * u64::from(holes > 0);
            moved += takes;
            gained += payload.saturating_sub(takes);
            segments.push(segment);
        }
        self.carry(living).await?;
        for segment in &segments {
            self.state.borrow_mut().table.set_drained(*segment);
        }
        let emptied = segments.len() as u64;
        self.media.count(|stats| {
            stats.cleaned_segments += emptied;
            stats.cleaned_blocks += moved;
        });
        Ok(emptied)
    }

    /// Adds what lives in `segment`; false when less is found than there should be, or it cannot be read:
    /// then it stays as it is.
    async fn collect(&self, segment: u64, living: &mut Living) -> Result<bool, HomeError> {
        let content = self.content_from(self.media.first_place(segment)).await;
        let mut own = Living {
            oldest: living.oldest,
            ..Living::default()
        };
        for summary in content.partials(&self.store) {
            if !self.collect_partial(&content, &summary, &mut own).await? {
                return Ok(false);
            }
        }
        let expected = u64::from(self.state.borrow().table.entry(segment).live);
        if own.found != expected {
            return Ok(false);
        }
        living.items.append(&mut own.items);
        living.pages.append(&mut own.pages);
        living.holes.append(&mut own.holes);
        Ok(true)
    }

    async fn collect_partial(
        &self,
        content: &Content,
        summary: &Summary,
        own: &mut Living,
    ) -> Result<bool, HomeError> {
        for (place, entry) in summary.placed(self.media.layout.block_size) {
            match entry.kind {
                SummaryKind::Data { block, .. } if block < self.size_blocks => {
                    let known = match self.entry(block).await {
                        Ok(known) => known,
                        Err(HomeError::MapPage { .. }) => return Ok(false),
                        Err(error) => return Err(error),
                    };
                    if known.place != place {
                        continue;
                    }
                    // A block that has rotted keeps the checksum that it should have: it stays an error.
                    let Some(bytes) = content.block(place) else {
                        return Ok(false);
                    };
                    let data = self.media.pool.copy_of(bytes).share();
                    own.found += 1;
                    own.items.push(Item {
                        version: Some(known.version),
                        kind: SummaryKind::Data {
                            block,
                            crc: known.crc,
                        },
                        data: Some(data),
                    });
                }
                SummaryKind::Page { level, index, .. } if u32::from(level) < self.levels => {
                    let id = (u32::from(level), index);
                    let known = match self.entry_of_page(id).await {
                        Ok(known) => known,
                        Err(HomeError::MapPage { .. }) => return Ok(false),
                        Err(error) => return Err(error),
                    };
                    if known.place == place {
                        own.found += 1;
                        own.pages.push(id);
                    }
                }
                _ => {}
            }
        }
        for entry in &summary.entries {
            if let SummaryKind::Hole { first, count } = entry.kind {
                let end = (first + count).min(self.size_blocks);
                if own.oldest <= entry.version {
                    let range = first.min(end)..end;
                    self.collect_holes(range, entry.version, &mut own.holes)
                        .await?;
                }
            }
        }
        Ok(true)
    }

    /// The parts of `range` that are holes of `version`.
    async fn collect_holes(
        &self,
        range: Range<u64>,
        version: u64,
        holes: &mut Vec<Item>,
    ) -> Result<(), HomeError> {
        let mut found: Vec<Range<u64>> = Vec::new();
        let mut add = |part: Range<u64>| match found.last_mut() {
            Some(last) if last.end == part.start => last.end = part.end,
            _ => found.push(part),
        };
        let mut at = range.start;
        while at < range.end {
            // Holes as large as the map has them, not leaf by leaf.
            let (part, known) = self.hole_at(at, range.end).await?;
            if let Some(of) = known {
                if of == version {
                    add(part.clone());
                }
                at = part.end;
                continue;
            }
            let (part, leaf) = self.leaf(at, range.end).await;
            match leaf {
                Ok(Leaf::Entries(entries)) => {
                    for (block, entry) in (at..).zip(entries) {
                        if entry.is_hole() && entry.version == version {
                            add(block..block + 1);
                        }
                    }
                }
                Ok(Leaf::Hole) => {}
                // Whatever is below: it may be a hole of this version.
                Err(HomeError::MapPage { .. }) => add(part.clone()),
                Err(error) => return Err(error),
            }
            at = part.end;
        }
        holes.extend(found.into_iter().map(|part| Item {
            version: Some(version),
            kind: SummaryKind::Hole {
                first: part.start,
                count: part.end - part.start,
            },
            data: None,
        }));
        Ok(())
    }

    /// The largest subtree at `at` that is one hole, cut at `end`, with its version; none when there is a leaf.
    async fn hole_at(&self, at: u64, end: u64) -> Result<(Range<u64>, Option<u64>), HomeError> {
        for level in (0..self.levels).rev() {
            let span = (self.fanout as u64).saturating_pow(level + 1);
            let id = (level, at / span);
            match self.page(id).await {
                Ok(Found::Hole(version)) => {
                    let below = self.blocks_below(id);
                    return Ok((at..end.min(below.end), Some(version)));
                }
                Ok(_) | Err(HomeError::MapPage { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok((at..at, None))
    }

    /// Appends what was collected and enters it into the map.
    async fn carry(&self, living: Living) -> Result<(), HomeError> {
        let Living {
            mut items,
            pages,
            holes,
            ..
        } = living;
        // Blocks of one age stay together (HyLog 2: cost-age cleaning sorts by age), neighbours in order.
        items.sort_by_key(|item| (item.version, block_of(item)));
        let all: Vec<Item> = holes.into_iter().chain(items).collect();
        if !all.is_empty() {
            let kinds: Vec<SummaryKind> = all.iter().map(|item| item.kind).collect();
            let placed = self.append(all).await?;
            let mut blocks: Vec<_> = kinds
                .iter()
                .zip(&placed)
                .filter_map(|(kind, entry)| match kind {
                    SummaryKind::Data { block, .. } => Some((*block, *entry)),
                    _ => None,
                })
                .collect();
            blocks.sort_by_key(|(block, _)| *block);
            self.set_blocks(&blocks).await?;
        }
        for id in pages {
            self.page_to_change(id).await?;
        }
        Ok(())
    }
}

fn block_of(item: &Item) -> u64 {
    match item.kind {
        SummaryKind::Data { block, .. } => block,
        _ => 0,
    }
}
