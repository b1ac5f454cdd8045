//! Rebuilds the map and the segment table from the summaries alone, for `tonearm check --rebuild`, when the checkpoints
//! or pages of the map are lost.
//!
//! Of all copies of a block, and all tombstones over it, the one of the highest version is valid. The cleaner's copies
//! have the version of their original, and of those any one whose content has the right checksum is valid. A block
//! whose newest version is damaged stays damaged: no older version takes its place. The rebuild may find blocks that
//! are newer than the end of the chain. They are also in the engine's log, and its replay writes them again.
//!
//! A note tells the version and checksum of a block that was overwritten in place. The cleaner may have copied that
//! version since. The place of the note is taken if there is no whole copy of the version, and the segment there has not
//! been used again since.
//!
//! Memory is bounded: the rebuild goes over the blocks in windows, twice. The first pass counts the live blocks of each
//! segment, and so finds the free segments. The second pass writes the leaves of the map there.

use crate::error::HomeError;
use crate::segments::table::SegmentTable;
use crate::segments::{EPOCH_GAP, Segments, SegmentsMember, SegmentsOptions};
use std::num::NonZeroU64;
use std::ops::Range;
use tonearm_base::BufPool;
use tonearm_format::{MapEntry, PARTIAL_SEQ_MAX, SegmentEntry, SummaryKind};
use tonearm_rt::Rt;

/// Memory of a window for each block.
const BLOCK_BYTES: usize = size_of::<Best>();

/// The result of a rebuild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// Partial segments.
    pub partials: u64,
    /// Blocks with content.
    pub blocks: u64,
    /// Those of them whose newest copy fails its checksum. Reads of them stay errors.
    pub damaged: u64,
}

#[derive(Clone, Copy, Default)]
struct Best {
    entry: MapEntry,
    whole: bool,
    /// The place that a note of this version tells.
    noted: Option<NonZeroU64>,
    /// For a hole or a note, the segment where it lies.
    segment: u64,
}

impl Segments {
    /// Rebuilds the home and writes a checkpoint.
    ///
    /// # Errors
    /// When a device fails, or no segment is free for the map.
    pub async fn rebuild(
        rt: &Rt,
        pool: &BufPool,
        members: Vec<SegmentsMember>,
        options: &SegmentsOptions,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<RebuildReport, HomeError> {
        let segments = members.iter().map(|member| member.segments).sum::<u64>();
        let table = SegmentTable::new((0..segments).map(|_| SegmentEntry::default()));
        let home = Self::assemble(rt, pool, members, options, table);
        let mut report = RebuildReport::default();
        let mut epoch = 0;
        for slot in 0..2 {
            if let Some((found, _)) = home.read_slot(slot).await {
                let mut state = home.state.borrow_mut();
                state.generation = state.generation.max(found.generation);
                state.seq = state.seq.max(found.seq);
                epoch = epoch.max(found.epoch);
            }
        }
        let fanout = home.fanout as u64;
        let leaves = (options.map_cache_bytes / BLOCK_BYTES / home.fanout).max(1) as u64;
        let window = leaves * fanout;
        let windows = home.size_blocks.div_ceil(window);
        let total = 2 * windows * segments;
        let mut done = 0;
        let mut last = None;
        for number in 0..windows {
            let range = number * window..((number + 1) * window).min(home.size_blocks);
            let step = |_| {
                done += 1;
                progress(done, total);
            };
            let best = home
                .window(&range, number == 0, &mut epoch, &mut report, step)
                .await;
            let mut state = home.state.borrow_mut();
            for best in &best {
                if best.noted.is_some() {
                    state.table.entry_mut(best.segment).has_notes = true;
                }
                if best.entry.is_placed() {
                    let segment = home.media.segment_of(best.entry.place);
                    state.table.take(segment, best.entry.version);
                    report.blocks += 1;
                    report.damaged += u64::from(!best.whole);
                } else if best.entry.version > 0 {
                    // One copy of each valid tombstone is enough.
                    state.table.entry_mut(best.segment).has_holes = true;
                }
            }
            last = (windows == 1).then_some(best);
        }
        {
            let mut state = home.state.borrow_mut();
            state.epoch = epoch + 1;
            state.seq += EPOCH_GAP;
            let free = state.table.dead(None);
            state.table.free_all(&free);
            state.table.sort_free();
            // The second pass enters the leaves, and counts again.
            state.table.forget_live();
        }
        for number in 0..windows {
            let range = number * window..((number + 1) * window).min(home.size_blocks);
            let best = match last.take() {
                Some(best) => best,
                None => {
                    let mut ignored = RebuildReport::default();
                    let step = |_| {
                        done += 1;
                        progress(done, total);
                    };
                    home.window(&range, false, &mut epoch, &mut ignored, step)
                        .await
                }
            };
            for (leaf, part) in best.chunks(home.fanout).enumerate() {
                let first = range.start + leaf as u64 * fanout;
                let known = part.iter().any(|best| best.entry != MapEntry::default());
                if known {
                    let entries: Vec<(u64, MapEntry)> =
                        (first..).zip(part.iter().map(|best| best.entry)).collect();
                    home.set_blocks(&entries).await?;
                    home.relieve_pages().await?;
                }
            }
        }
        home.checkpoint().await?;
        progress(total, total);
        Ok(report)
    }

    /// The newest entry for each of the blocks of `range`. With `count`, the segment table counts them.
    async fn window(
        &self,
        range: &Range<u64>,
        count: bool,
        epoch: &mut u64,
        report: &mut RebuildReport,
        mut step: impl FnMut(u64),
    ) -> Vec<Best> {
        let mut best = vec![Best::default(); (range.end - range.start) as usize];
        for segment in 1..=self.media.layout.segments {
            let content = self.content_from(self.media.first_place(segment)).await;
            for summary in content.partials(&self.store) {
                // No number could follow this one, so this program has not written it.
                if summary.seq > PARTIAL_SEQ_MAX {
                    continue;
                }
                if count {
                    report.partials += 1;
                    *epoch = summary.epoch.max(*epoch);
                    let mut state = self.state.borrow_mut();
                    state.seq = state.seq.max(summary.seq + 1);
                    let entry = state.table.entry_mut(segment);
                    if entry.first == 0 {
                        entry.first = summary.seq;
                    }
                }
                for entry in &summary.entries {
                    if let SummaryKind::Overwritten { block, place, crc } = entry.kind
                        && range.contains(&block)
                        && self.media.holds(place)
                    {
                        let known = &mut best[(block - range.start) as usize];
                        let version = entry.version;
                        if known.entry.version < version {
                            let entry = MapEntry {
                                place,
                                version,
                                crc,
                            };
                            *known = Best {
                                entry,
                                ..Best::default()
                            };
                        }
                        if known.entry.version == version && known.noted.is_none() {
                            (known.noted, known.segment) = (NonZeroU64::new(place), segment);
                        }
                    }
                    if let SummaryKind::Hole { first, count } = entry.kind {
                        let part = first.max(range.start)..(first + count).min(range.end);
                        for block in part {
                            let known = &mut best[(block - range.start) as usize];
                            // A block of the same partial replaces the hole.
                            if known.entry.version < entry.version {
                                *known = Best {
                                    entry: MapEntry::hole(entry.version),
                                    whole: true,
                                    noted: None,
                                    segment,
                                };
                            }
                        }
                    }
                }
                for (place, entry) in summary.placed(self.media.layout.block_size) {
                    let SummaryKind::Data { block, crc } = entry.kind else {
                        continue;
                    };
                    if !range.contains(&block) {
                        continue;
                    }
                    let known = &mut best[(block - range.start) as usize];
                    let version = entry.version;
                    let same = known.entry.version == version;
                    if known.entry.version > version
                        || same && known.whole && known.entry.is_placed()
                    {
                        continue;
                    }
                    let whole = content.block(place).map(tonearm_base::crc32c) == Some(crc);
                    if !same || whole || known.entry.is_hole() {
                        let entry = MapEntry {
                            place,
                            version,
                            crc,
                        };
                        // A copy of the block that a note tells of.
                        let noted = known.noted.filter(|_| same);
                        let segment = if noted.is_some() {
                            known.segment
                        } else {
                            segment
                        };
                        *known = Best {
                            entry,
                            whole,
                            noted,
                            segment,
                        };
                    }
                }
            }
            step(segment);
        }
        for known in &mut best {
            if let Some(noted) = known.noted.filter(|_| !known.whole) {
                self.take_noted(noted.get(), known).await;
            }
        }
        best
    }

    /// Takes the place of a note if the block still lies there; else the version is lost.
    async fn take_noted(&self, place: u64, known: &mut Best) {
        if !self.is_older(place, known.entry.version) {
            // Another block lies there. A damaged copy stays an error at its own place.
            if known.entry.place == place {
                known.entry.place = MapEntry::LOST.place;
            }
            return;
        }
        let bytes = self.media.read(place, 1).await;
        known.whole = bytes.is_ok_and(|bytes| tonearm_base::crc32c(&bytes) == known.entry.crc);
        known.entry.place = place;
    }
}
