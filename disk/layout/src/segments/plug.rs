//! Plugging: the live blocks of the emptiest segments are written into holes of other segments, so that the former become
//! free (HyLog 3.2.3; Matthews and others). The cleaner does it where it costs less than appending them (`policy.rs`).
//!
//! A partial gets a note of each moved block: block, version and checksum as before, and the new place. A power cut at
//! any moment is harmless:
//! 1. A hole is written only after a flush, and never in a segment that recovery reads. So the map that recovery makes
//!    does not lead to what was there before.
//! 2. The moved blocks are flushed before the notes are written. So recovery finds what a note names.
//! 3. A segment that was emptied is used again like one that was cleaned, after the notes are durable.
//!
//! No read finds the new content of a hole in place of the old one: a hole is written when all reads have ended that
//! began before the pass.
//!
//! The summaries of a segment do not name the blocks in its holes. The cleaner, and a check, find them through the map
//! ([`Segments::blocks_in`]); a rebuild finds them through the notes, which the cleaner carries. So only a home whose map fits
//! into memory plugs.

use crate::error::HomeError;
use crate::segments::Segments;
use crate::segments::cleaner::LiveBlocks;
use crate::segments::in_place::InPlace;
use crate::segments::partial::{Item, block_of};
use crate::segments::policy::{Costs, Plugging, Policy, Sources, Way};
use crate::segments::read::Leaf;
use crate::segments::sizes::pass_segments;
use crate::segments::table::Candidates;
use crate::separation::{Kind, PAGES_MIN};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use tonearm_base::Nanos;
use tonearm_format::{MapEntry, SummaryKind};

/// Blocks that the first pass moves, which measures. Writers may wait for it.
const SAMPLE: u64 = 4 * PAGES_MIN as u64;
/// After so many passes that cleaned, one plugs to measure again. The measured time depends on where the holes are.
const MEASURED_EVERY: u64 = 64;
/// How often a pass that waits for reads checks again.
const READ_WAIT: Nanos = Nanos::from_millis(1);

impl Segments {
    /// Makes about `wanted` blocks free in the cheapest way: by [`Segments::pass`] with `policy` or greedily, or by plugging. False
    /// when nothing was moved.
    pub(crate) async fn clean_or_plug(
        &self,
        policy: Policy,
        wanted: u64,
        fill: bool,
    ) -> Result<bool, HomeError> {
        let way = match self.plugging {
            Plugging::Never => Way::Clean(policy),
            Plugging::Always => Way::Plug(wanted),
            Plugging::Cheaper => self.cheapest_way(policy, wanted),
        };
        let policy = match way {
            Way::Plug(most) if self.plug(most).await? => {
                self.state.borrow_mut().cleaned_passes = 0;
                return Ok(true);
            }
            Way::Plug(_) => policy,
            Way::Clean(policy) => policy,
        };
        self.state.borrow_mut().cleaned_passes += 1;
        self.pass(policy, wanted, fill).await
    }

    fn cheapest_way(&self, policy: Policy, wanted: u64) -> Way {
        let is_known = self.media.times.borrow().plugging_efficiency().is_some();
        if !is_known || self.state.borrow().cleaned_passes >= MEASURED_EVERY {
            return Way::Plug(wanted.min(SAMPLE));
        }
        let costs = self.costs(policy, wanted, Candidates::Now);
        costs.cheapest(policy, wanted)
    }

    /// What it costs to make `wanted` blocks free with `candidates`.
    pub(crate) fn costs(&self, policy: Policy, wanted: u64, candidates: Candidates) -> Costs {
        let gains = |sources: Sources| sources.segments * self.capacity >= sources.live + wanted;
        let cleaned = |segments: &[u64]| self.sources(segments, gains).cleaned(self.capacity);
        let most = pass_segments(&self.media.layout) as usize;
        let emptiest = self.choose(Policy::Greedy, most, candidates);
        let sources = self.sources(&emptiest, |sources| sources.live >= wanted);
        let others = self.holes_by_segment(&emptiest[..sources.segments as usize], candidates);
        let has_holes = are_enough(others.iter().map(|(holes, _)| holes).sum(), wanted);
        let efficiency = self.media.times.borrow().plugging_efficiency();
        Costs {
            chosen: cleaned(&self.choose(policy, most, candidates)),
            emptiest: cleaned(&emptiest),
            plugged: efficiency
                .filter(|_| has_holes)
                .map_or(f64::INFINITY, |known| sources.plugged(self.capacity, known)),
        }
    }

    /// The first of `segments`, until they are enough.
    fn sources(&self, segments: &[u64], enough: impl Fn(Sources) -> bool) -> Sources {
        let state = self.state.borrow();
        let mut sources = Sources::default();
        for segment in segments {
            if enough(sources) {
                break;
            }
            sources.segments += 1;
            sources.live += u64::from(state.table.entry(*segment).live);
        }
        sources
    }

    /// Moves at most `wanted` live blocks of the emptiest segments into holes of others. False when nothing was moved.
    async fn plug(&self, wanted: u64) -> Result<bool, HomeError> {
        let Some(segments) = self.pass_limit() else {
            return Ok(false);
        };
        let wanted = wanted.min((segments + 1) * self.capacity);
        let before = self.state.borrow().table.next_read();
        let sources = self.sources_to_plug(wanted);
        let holes = self.holes_beside(&sources, wanted).await?;
        if !are_enough(holes.len() as u64, wanted) {
            return Ok(false);
        }
        // From here on the map that recovery would make does not lead to the holes.
        self.media.flush().await?;
        let (moved, drained) = self.collect_most(&sources, holes.len()).await?;
        let LiveBlocks {
            mut items,
            pages,
            holes: mut notes,
            ..
        } = moved;
        let count = items.len() as u64;
        if count + pages.len() as u64 == 0 && drained.is_empty() {
            return Ok(false);
        }
        while self.state.borrow().table.is_read_since(before) {
            self.rt.sleep(READ_WAIT).await;
        }
        // Neighbours stay in order.
        items.sort_by_key(block_of);
        let (writes, entries) = plugged(items, &holes, &mut notes);
        self.write_in_place(Kind::Plug, writes).await?;
        self.media.flush().await?;
        if !notes.is_empty() {
            self.append(notes).await?;
        }
        self.set_blocks(&entries).await?;
        for id in pages {
            self.page_to_change(id).await?;
        }
        for segment in &drained {
            self.state.borrow_mut().table.set_drained(*segment);
        }
        self.media.count(|stats| {
            stats.segments.cleaned_segments += drained.len() as u64;
            stats.segments.plugged_blocks += count;
            stats.segments.plug_passes += 1;
        });
        Ok(true)
    }

    /// The emptiest segments that have `wanted` live blocks together.
    fn sources_to_plug(&self, wanted: u64) -> Vec<u64> {
        let most = pass_segments(&self.media.layout) as usize;
        let mut segments = self.choose(Policy::Greedy, most, Candidates::Now);
        let sources = self.sources(&segments, |sources| sources.live >= wanted);
        segments.truncate(sources.segments as usize);
        segments
    }

    /// At most `wanted` holes outside `sources`, in the order of their places. They come from few segments, because then the
    /// arm moves little between them.
    async fn holes_beside(&self, sources: &[u64], wanted: u64) -> Result<Vec<u64>, HomeError> {
        let mut targets = self.holes_by_segment(sources, Candidates::Now);
        let mut found: Vec<u64> = Vec::new();
        {
            let state = self.state.borrow();
            // More blocks of a young segment die soon, and it is cheap to clean then.
            let worth = |(holes, segment): &(u64, u64)| {
                let age = state.seq.saturating_sub(state.table.entry(*segment).age);
                (Reverse(u128::from(*holes) * u128::from(age)), *segment)
            };
            targets.sort_unstable_by_key(worth);
            for (_, segment) in targets {
                if found.len() as u64 >= wanted {
                    break;
                }
                found.extend(state.holes.places(segment));
            }
        }
        found.sort_unstable();
        found.truncate(wanted as usize);
        // After a repair two blocks may share a place.
        let segments = found.iter().map(|place| self.media.segment_of(*place));
        let used = self.blocks_in(&segments.collect()).await?;
        found.retain(|place| !used.contains_key(place));
        Ok(found)
    }

    /// The numbers of known holes in those of `candidates` that have some, without `sources`.
    fn holes_by_segment(&self, sources: &[u64], candidates: Candidates) -> Vec<(u64, u64)> {
        let end = self.end_segment();
        let state = self.state.borrow();
        let segments = state.table.candidates(end, candidates);
        segments
            .map(|(segment, ..)| (state.holes.count(segment), segment))
            .filter(|(holes, segment)| *holes > 0 && !sources.contains(segment))
            .collect()
    }

    /// At most `most` live blocks of `sources`, and the segments that they empty.
    async fn collect_most(
        &self,
        sources: &[u64],
        most: usize,
    ) -> Result<(LiveBlocks, Vec<u64>), HomeError> {
        let oldest = self.state.borrow().table.oldest();
        let mut all = Vec::new();
        let (mut in_holes, mut found) = (None, 0);
        for segment in sources {
            if found >= most && found > 0 {
                break;
            }
            match self
                .collect(*segment, oldest, sources, &mut in_holes)
                .await?
            {
                Some(own) => {
                    found += own.items.len();
                    all.push((*segment, own));
                }
                None => self.state.borrow_mut().table.set_stuck(*segment),
            }
        }
        Ok(LiveBlocks::first(all, most))
    }

    /// The blocks that the map finds in `segments`, by their places. Blocks below a damaged page of the map are left out.
    pub(crate) async fn blocks_in(
        &self,
        segments: &BTreeSet<u64>,
    ) -> Result<BTreeMap<u64, u64>, HomeError> {
        let mut found = BTreeMap::new();
        let mut at = 0;
        while at < self.size_blocks && !segments.is_empty() {
            let (part, leaf) = self.leaf(at, self.size_blocks).await;
            match leaf {
                Ok(Leaf::Entries(entries)) => {
                    for (block, entry) in (at..).zip(entries) {
                        let segment = self.media.segment_of(entry.place);
                        if entry.is_placed() && segments.contains(&segment) {
                            found.insert(entry.place, block);
                        }
                    }
                }
                Ok(Leaf::Hole) | Err(HomeError::MapPage { .. }) => {}
                Err(error) => return Err(error),
            }
            at = part.end;
        }
        Ok(found)
    }
}

/// To read a segment for fewer holes is not worth it.
fn are_enough(holes: u64, wanted: u64) -> bool {
    holes > wanted.min(SAMPLE) / 4
}

/// The writes of `items` into `holes`, and their map entries. Adds the notes of them to `notes`.
fn plugged(
    items: Vec<Item>,
    holes: &[u64],
    notes: &mut Vec<Item>,
) -> (Vec<InPlace>, Vec<(u64, MapEntry)>) {
    let (mut writes, mut entries) = (Vec::new(), Vec::new());
    for (item, place) in items.into_iter().zip(holes) {
        let (SummaryKind::Data { block, crc }, Some(version), Some(data)) =
            (item.kind, item.version, item.data)
        else {
            unreachable!("what the cleaner collects is a block with a version");
        };
        let place = *place;
        writes.push(InPlace {
            place,
            block,
            crc,
            data,
        });
        notes.push(Item {
            version: Some(version),
            kind: SummaryKind::Overwritten { block, place, crc },
            data: None,
        });
        entries.push((
            block,
            MapEntry {
                place,
                version,
                crc,
            },
        ));
    }
    (writes, entries)
}
