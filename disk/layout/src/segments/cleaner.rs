//! The cleaner: copies the live blocks of some segments to the end of the chain, so that these segments become free.
//!
//! A crash during a pass loses nothing: the segments that it empties are not overwritten until the copies are durable.
//!
//! Tombstones. A tombstone of version T stays necessary for a block while the block is a hole of version T and an older
//! copy, written before T, may still be on the medium: a rebuild would take this copy for the newest. A pass copies the
//! necessary tombstones of its segments with their versions. Notes of blocks that were overwritten in place are carried
//! likewise (`in_place.rs`).

use crate::error::HomeError;
use crate::segments::Segments;
use crate::segments::map::Found;
use crate::segments::page_cache::PageId;
use crate::segments::partial::{Item, block_of};
use crate::segments::policy::{Policy, choose};
use crate::segments::read::Leaf;
use crate::segments::sizes::pass_segments;
use crate::segments::table::Candidates;
use crate::segments::walk::Content;
use crate::separation::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tonearm_format::{Summary, SummaryKind, summary_blocks};

/// The live content of a segment.
#[derive(Default)]
pub(crate) struct LiveBlocks {
    pub items: Vec<Item>,
    pub pages: Vec<PageId>,
    /// Tombstones, and notes of blocks that were overwritten in place or moved into holes.
    pub holes: Vec<Item>,
    /// Places found, for comparison with the segment table.
    found: u64,
    /// Tombstones older than this partial are no longer necessary.
    oldest: u64,
}

impl LiveBlocks {
    /// The first `most` blocks of `all`, and the segments that they empty. Notes, tombstones and pages of a segment move as a
    /// whole, or not at all.
    pub fn first(all: Vec<(u64, Self)>, mut most: usize) -> (Self, Vec<u64>) {
        let (mut joined, mut drained) = (Self::default(), Vec::new());
        for (segment, mut own) in all {
            let whole = own.items.len() <= most;
            own.items.truncate(most);
            most -= own.items.len();
            joined.items.append(&mut own.items);
            if whole {
                joined.pages.append(&mut own.pages);
                joined.holes.append(&mut own.holes);
                drained.push(segment);
            }
        }
        (joined, drained)
    }
}

/// The blocks that the map finds in the segments of a pass, by their places, once it was asked for them.
pub(crate) type InHoles = Option<BTreeMap<u64, u64>>;

impl Segments {
    /// Cleans until about `wanted` blocks are gained, at most [`pass_segments`] are read, or the limit of
    /// [`Segments::pass_limit`] is reached. False when nothing was moved. Pages of the map are only marked as changed;
    /// the next checkpoint writes them and frees their segments.
    ///
    /// A pass with `fill` moves just as many blocks as fill segments to their ends, the last of its segments in part if
    /// need be. So even a small gain from each segment is not lost at the ends of partials. On RAID-5 any pass moves as many
    /// as fill stripes to their ends (`stripes.rs`).
    pub(crate) async fn pass(
        &self,
        policy: Policy,
        wanted: u64,
        fill: bool,
    ) -> Result<bool, HomeError> {
        let most = pass_segments(&self.media.layout) as usize;
        let Some(segments) = self.pass_limit() else {
            return Ok(false);
        };
        // The rest of the last segment counts only for a pass with `fill`.
        let limit = (segments + u64::from(fill)) * self.capacity;
        let (mut takes, mut gained) = (0, 0);
        let mut all: Vec<(u64, LiveBlocks)> = Vec::new();
        let oldest = self.state.borrow().table.oldest();
        let (chosen, mut in_holes) = (self.choose(policy, most, Candidates::Now), None);
        for segment in chosen.iter().copied() {
            let live = u64::from(self.state.borrow().table.entry(segment).live);
            let fits = if fill {
                takes < limit
            } else {
                takes + live <= limit
            };
            if !fits || gained >= wanted {
                break;
            }
            let Some(living) = self
                .collect(segment, oldest, &chosen, &mut in_holes)
                .await?
            else {
                self.state.borrow_mut().table.set_stuck(segment);
                continue;
            };
            let own = live + self.tombstone_blocks(living.holes.len() as u64);
            takes += own;
            gained += self.capacity.saturating_sub(own);
            all.push((segment, living));
        }
        let (moved, drained) = self.join(all, fill.then_some(segments));
        let blocks = (moved.items.len() + moved.pages.len()) as u64;
        if blocks == 0 && drained.is_empty() {
            return Ok(false);
        }
        self.carry(moved).await?;
        for segment in &drained {
            self.state.borrow_mut().table.set_drained(*segment);
        }
        self.media.count(|stats| {
            stats.segments.cleaned_segments += drained.len() as u64;
            stats.segments.cleaned_blocks += blocks;
            match policy {
                Policy::CostAge => stats.segments.age_passes += 1,
                Policy::Greedy => stats.segments.greedy_passes += 1,
            }
        });
        Ok(true)
    }

    /// The `most` best segments.
    pub(crate) fn choose(&self, policy: Policy, most: usize, candidates: Candidates) -> Vec<u64> {
        let end = self.end_segment();
        let state = self.state.borrow();
        let by = |with_holes: bool| {
            let segments = state.table.candidates(end, candidates);
            let weighed = segments.map(|(segment, entry, holes)| {
                let holes = if with_holes {
                    self.tombstone_blocks(u64::from(holes))
                } else {
                    0
                };
                let age = state.seq.saturating_sub(entry.age);
                (segment, u64::from(entry.live) + holes, age)
            });
            choose(policy, weighed, self.capacity, most)
        };
        let best = by(true);
        // Only a pass finds out whether tombstones have become unnecessary.
        if best.is_empty() { by(false) } else { best }
    }

    /// Blocks of `count` tombstones, in both copies of a summary.
    pub(crate) fn tombstone_blocks(&self, count: u64) -> u64 {
        match count {
            0 => 0,
            count => 2 * summary_blocks(self.media.layout.block_size, count),
        }
    }

    /// The live blocks of `all`, and the segments that they empty. With `fill`, only as many as fill the chain's last
    /// segment and up to `fill` more to their ends; without it, on RAID-5, as many as fill stripes to their ends.
    ///
    /// Notes and tombstones of a segment move as a whole, or not at all. If those of all segments do not even fill the
    /// first segment, the first few segments are emptied that fit into `fill` segments.
    fn join(&self, mut all: Vec<(u64, LiveBlocks)>, fill: Option<u64>) -> (LiveBlocks, Vec<u64>) {
        let count = |all: &[(u64, LiveBlocks)]| {
            let holes: usize = all.iter().map(|(_, own)| own.holes.len()).sum();
            let blocks: usize = all.iter().map(|(_, own)| own.items.len()).sum();
            (holes, blocks)
        };
        let (holes, blocks) = count(&all);
        let mut left = blocks;
        if let (None, Some(part)) = (fill, self.part_blocks) {
            // Where notes reach beyond the last end of a part, all of them move, or a pass would move nothing.
            let filling = self.filling(holes, blocks, u64::MAX, part);
            left = if filling > holes {
                filling - holes
            } else {
                blocks
            };
        }
        if let Some(segments) = fill {
            let segment = self.media.layout.segment_blocks();
            let filling = self.filling(holes, blocks, segments, segment);
            left = filling.saturating_sub(holes);
            if left == 0 {
                let mut space = segments * self.capacity;
                let fits = all.iter().take_while(|(_, own)| {
                    let takes = own.found + self.tombstone_blocks(own.holes.len() as u64);
                    let fits = takes <= space;
                    space = space.saturating_sub(takes);
                    fits
                });
                let fits = fits.count();
                all.truncate(fits);
                (_, left) = count(&all);
            }
        }
        LiveBlocks::first(all, left)
    }

    /// The live blocks of `segment`. None when it cannot be read or has fewer than the table says: then it is not
    /// emptied. Tombstones of versions before `oldest` are no longer necessary. Where the summaries name fewer, the map is
    /// asked for the blocks in holes, once for all segments of `pass`.
    pub(crate) async fn collect(
        &self,
        segment: u64,
        oldest: u64,
        pass: &[u64],
        in_holes: &mut InHoles,
    ) -> Result<Option<LiveBlocks>, HomeError> {
        let first = self.media.first_place(segment);
        let content = self.content_as(Kind::Clean, first).await;
        let mut own = LiveBlocks {
            oldest,
            ..LiveBlocks::default()
        };
        for summary in content.partials(&self.store) {
            if !self.collect_partial(&content, &summary, &mut own).await? {
                return Ok(None);
            }
        }
        let expected = u64::from(self.state.borrow().table.entry(segment).live);
        if own.found < expected {
            if in_holes.is_none() {
                let segments = pass.iter().copied().collect();
                *in_holes = Some(self.blocks_in(&segments).await?);
            }
            let known = in_holes.as_ref().expect("the map was asked");
            self.collect_in_holes(segment, &content, known, &mut own)
                .await?;
        }
        Ok((own.found == expected).then_some(own))
    }

    /// Those of the blocks `in_holes` that lie in `segment` and that its summaries do not name.
    async fn collect_in_holes(
        &self,
        segment: u64,
        content: &Content,
        in_holes: &BTreeMap<u64, u64>,
        own: &mut LiveBlocks,
    ) -> Result<(), HomeError> {
        let named: BTreeSet<u64> = own.items.iter().map(block_of).collect();
        let places = self.media.first_place(segment)..self.media.first_place(segment + 1);
        for (place, block) in in_holes.range(places) {
            let Some(bytes) = content.block(*place).filter(|_| !named.contains(block)) else {
                continue;
            };
            let known = self.entry(*block).await?;
            let data = self.media.pool.copy_of(bytes).share();
            own.found += 1;
            own.items.push(Item {
                version: Some(known.version),
                kind: SummaryKind::Data {
                    block: *block,
                    crc: known.crc,
                },
                data: Some(data),
            });
        }
        Ok(())
    }

    async fn collect_partial(
        &self,
        content: &Content,
        summary: &Summary,
        own: &mut LiveBlocks,
    ) -> Result<bool, HomeError> {
        for (place, entry) in summary.placed(self.media.layout.block_size) {
            match entry.kind {
                SummaryKind::Data { block, .. } | SummaryKind::Indirect { block, .. }
                    if block < self.size_blocks =>
                {
                    let known = match self.entry(block).await {
                        Ok(known) => known,
                        Err(HomeError::MapPage { .. }) => return Ok(false),
                        Err(error) => return Err(error),
                    };
                    if known.place != place {
                        continue;
                    }
                    // A damaged block keeps its right checksum, so that reads still give an error.
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
            match entry.kind {
                SummaryKind::Hole { first, count } if own.oldest <= entry.version => {
                    let end = (first + count).min(self.size_blocks);
                    let range = first.min(end)..end;
                    self.collect_holes(range, entry.version, &mut own.holes)
                        .await?;
                }
                SummaryKind::Overwritten { block, place, .. } if block < self.size_blocks => {
                    let necessary = match self.entry(block).await {
                        Ok(known) => (known.version, known.place) == (entry.version, place),
                        // The damaged page may lead to this block.
                        Err(HomeError::MapPage { .. }) => true,
                        Err(error) => return Err(error),
                    };
                    if necessary {
                        own.holes.push(Item {
                            version: Some(entry.version),
                            kind: entry.kind,
                            data: None,
                        });
                    }
                }
                _ => {}
            }
        }
        Ok(true)
    }

    /// True when `place` lies in a segment that has been in use since before partial `version`.
    pub(crate) fn is_older(&self, place: u64, version: u64) -> bool {
        let segment = self.media.segment_of(place);
        self.state.borrow().table.is_older(segment, version)
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
            // Whole holes of the map, not leaf by leaf.
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
                // A damaged page may contain a hole of this version.
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

    /// The largest subtree at `at` that is one hole, cut at `end`, with its version; none if there is a leaf.
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

    /// Appends the collected blocks and enters their places into the map.
    async fn carry(&self, living: LiveBlocks) -> Result<(), HomeError> {
        let LiveBlocks {
            mut items,
            pages,
            holes,
            ..
        } = living;
        // Blocks that are overwritten in place stay together, and blocks of one age (HyLog 2: cost-age cleaning sorts
        // by age), adjacent ones in order.
        items.sort_by_cached_key(|item| {
            let block = block_of(item);
            (self.is_cold(block), item.version, block)
        });
        let is_note = |item: &&Item| matches!(item.kind, SummaryKind::Overwritten { .. });
        let notes = holes.iter().filter(is_note).count() as u64;
        self.media
            .count(|stats| stats.segments.carried_notes += notes);
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

#[cfg(test)]
#[path = "cleaner_test.rs"]
mod cleaner_test;
