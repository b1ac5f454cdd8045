//! Rebuilds the map and the segment table from the summaries alone, for `tonearm check --rebuild`, when the checkpoints
//! or pages of the map are lost.
//!
//! Of all copies of a block, and all tombstones over it, the one of the highest version is valid. The cleaner's copies
//! have the version of their original, and of those any one whose content has the right checksum is valid. The youngest of
//! them is taken, so that the segments from which the cleaner has moved blocks are free. A block
//! whose newest version is damaged stays damaged: no older version takes its place. The rebuild may find blocks that
//! are newer than the end of the chain. They are also in the engine's log, and its replay writes them again.
//!
//! A note has the version and checksum of a block that was overwritten in place or moved into a hole. The cleaner may have
//! copied that version since. The place of the youngest note is taken if there is no younger whole copy of the version, the
//! segment there has not been used again since, and the block is still there: its hole may have been filled with another one.
//!
//! Memory is bounded: the rebuild goes over the blocks in windows, twice. The first pass counts the live blocks of each
//! segment, and so finds the free segments. The second pass writes the leaves of the map there.

use crate::error::HomeError;
use crate::segments::media::Media;
use crate::segments::state::EPOCH_GAP;
use crate::segments::table::SegmentTable;
use crate::segments::walk::Content;
use crate::segments::{Segments, SegmentsMember, SegmentsOptions};
use std::num::NonZeroU64;
use std::ops::Range;
use tonearm_base::{BufPool, Lsn, crc32c};
use tonearm_format::{MapEntry, PARTIAL_SEQ_MAX, SegmentEntry, Summary, SummaryEntry, SummaryKind};
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
    /// The partial that has this copy.
    copied_by: u64,
    /// The place that the youngest note of this version names.
    noted: Option<NonZeroU64>,
    /// The partial of that note.
    noted_by: u64,
    /// For a hole or a note, the segment where it lies.
    segment: u64,
}

impl Best {
    /// Takes a note in `segment`, of partial `seq`, that the block lies at `entry`.
    fn see_note(&mut self, entry: MapEntry, segment: u64, seq: u64) {
        if self.entry.version < entry.version {
            *self = Self {
                entry,
                ..Self::default()
            };
        }
        let is_younger = self.noted.is_none() || self.noted_by <= seq;
        if self.entry.version == entry.version && is_younger {
            (self.noted, self.noted_by) = (NonZeroU64::new(entry.place), seq);
            self.segment = segment;
        }
    }

    /// Takes a tombstone in `segment`. A block of the same partial replaces it.
    fn see_hole(&mut self, version: u64, segment: u64) {
        if self.entry.version < version {
            *self = Self {
                entry: MapEntry::hole(version),
                whole: true,
                segment,
                ..Self::default()
            };
        }
    }

    /// Takes a copy of the block in `segment`, in partial `seq`. `is_whole` verifies it.
    fn see_copy(
        &mut self,
        entry: MapEntry,
        segment: u64,
        seq: u64,
        is_whole: impl FnOnce() -> bool,
    ) {
        let same = self.entry.version == entry.version;
        let is_older = same && self.whole && self.entry.is_placed() && seq < self.copied_by;
        if self.entry.version > entry.version || is_older {
            return;
        }
        let whole = is_whole();
        if !same || whole || self.entry.is_hole() {
            // A copy of the block that a note names.
            let noted = self.noted.filter(|_| same);
            *self = Self {
                entry,
                whole,
                copied_by: seq,
                noted,
                noted_by: self.noted_by,
                segment: noted.map_or(segment, |_| self.segment),
            };
        }
    }
}

/// The newest entries of a range of blocks.
struct Window {
    range: Range<u64>,
    best: Vec<Best>,
}

impl Window {
    fn new(range: Range<u64>) -> Self {
        let best = vec![Best::default(); (range.end - range.start) as usize];
        Self { range, best }
    }

    fn of(&mut self, block: u64) -> Option<&mut Best> {
        let at = block.checked_sub(self.range.start)?;
        self.best.get_mut(at as usize)
    }

    /// Takes the entries of a partial of `segment`, which is one of `content`.
    fn see(&mut self, summary: &Summary, segment: u64, content: &Content, media: &Media) {
        for SummaryEntry { version, kind } in &summary.entries {
            let version = *version;
            match *kind {
                SummaryKind::Overwritten { block, place, crc } if media.holds(place) => {
                    let entry = MapEntry {
                        place,
                        version,
                        crc,
                    };
                    if let Some(best) = self.of(block) {
                        best.see_note(entry, segment, summary.seq);
                    }
                }
                SummaryKind::Hole { first, count } => {
                    for block in first.max(self.range.start)..(first + count).min(self.range.end) {
                        if let Some(best) = self.of(block) {
                            best.see_hole(version, segment);
                        }
                    }
                }
                _ => {}
            }
        }
        for (place, SummaryEntry { version, kind }) in summary.placed(media.layout.block_size) {
            if let SummaryKind::Data { block, crc } = *kind
                && let Some(best) = self.of(block)
            {
                let entry = MapEntry {
                    place,
                    version: *version,
                    crc,
                };
                let is_whole = || content.block(place).map(crc32c) == Some(crc);
                best.see_copy(entry, segment, summary.seq, is_whole);
            }
        }
    }
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
        let leaves = (options.map_cache_bytes / BLOCK_BYTES / home.fanout).max(1) as u64;
        let size = leaves * home.fanout as u64;
        let windows = home.size_blocks.div_ceil(size);
        let range = |number: u64| number * size..((number + 1) * size).min(home.size_blocks);
        let total = 2 * windows * segments;
        let mut done = 0;
        let mut step = || {
            done += 1;
            progress(done, total);
        };
        let mut last = None;
        for number in 0..windows {
            let counts = number == 0;
            let window = home
                .window(range(number), counts, &mut epoch, &mut report, &mut step)
                .await;
            home.count_live(&window, &mut report);
            last = (windows == 1).then_some(window);
        }
        let spare = home.spare_segments_max();
        {
            let mut state = home.state.borrow_mut();
            state.epoch = epoch + 1;
            state.seq += EPOCH_GAP;
            state.table.limit_held(spare);
            let free = state.table.dead(None);
            state.table.free_all(&free);
            state.table.sort_free();
            // The second pass enters the leaves, and counts again.
            state.table.forget_live();
        }
        for number in 0..windows {
            let window = match last.take() {
                Some(window) => window,
                None => {
                    let mut ignored = RebuildReport::default();
                    home.window(range(number), false, &mut epoch, &mut ignored, &mut step)
                        .await
                }
            };
            home.enter_leaves(&window).await?;
        }
        home.checkpoint().await?;
        progress(total, total);
        Ok(report)
    }

    /// The newest entries of `range`. With `count`, the segment table counts the partials.
    async fn window(
        &self,
        range: Range<u64>,
        count: bool,
        epoch: &mut u64,
        report: &mut RebuildReport,
        mut step: impl FnMut(),
    ) -> Window {
        let mut window = Window::new(range);
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
                    if summary.has_indirect() {
                        state.table.hold_for_log(segment, Lsn(0));
                    }
                }
                window.see(&summary, segment, &content, &self.media);
            }
            step();
        }
        let noted = window.best.iter().enumerate().filter_map(|(at, known)| {
            let noted = known.noted?;
            (!known.whole || known.copied_by < known.noted_by).then_some((noted.get(), at))
        });
        // In the order of their places, because each is a read.
        let mut noted: Vec<(u64, usize)> = noted.collect();
        noted.sort_unstable();
        for (place, at) in noted {
            self.take_noted(place, &mut window.best[at]).await;
        }
        window
    }

    /// Counts the blocks of a window in the segment table.
    fn count_live(&self, window: &Window, report: &mut RebuildReport) {
        let mut state = self.state.borrow_mut();
        for best in &window.best {
            if best.noted.is_some() {
                state.table.entry_mut(best.segment).has_notes = true;
            }
            if best.entry.is_placed() {
                let segment = self.media.segment_of(best.entry.place);
                state.table.take(segment, best.entry.version);
                report.blocks += 1;
                report.damaged += u64::from(!best.whole);
            } else if best.entry.is_lost() {
                report.blocks += 1;
                report.damaged += 1;
            } else if best.entry.version > 0 {
                // One copy of each valid tombstone is enough.
                state.table.entry_mut(best.segment).has_holes = true;
            }
        }
    }

    /// Enters a window's leaves into the map.
    async fn enter_leaves(&self, window: &Window) -> Result<(), HomeError> {
        for (leaf, part) in window.best.chunks(self.fanout).enumerate() {
            let first = window.range.start + (leaf * self.fanout) as u64;
            if part.iter().any(|best| best.entry != MapEntry::default()) {
                let entries: Vec<(u64, MapEntry)> =
                    (first..).zip(part.iter().map(|best| best.entry)).collect();
                self.set_blocks(&entries).await?;
                self.relieve_pages().await?;
            }
        }
        Ok(())
    }

    /// Takes the place of a note if the block still lies there; else the version is lost.
    async fn take_noted(&self, place: u64, known: &mut Best) {
        let is_same_use = self.is_older(place, known.noted_by);
        let mut is_there = false;
        if is_same_use {
            let bytes = self.media.read(place, 1).await;
            is_there = bytes.is_ok_and(|bytes| crc32c(&bytes) == known.entry.crc);
        }
        let was_overwritten = known.noted_by == known.entry.version;
        if is_there || !known.whole && is_same_use && was_overwritten {
            (known.entry.place, known.whole) = (place, is_there);
        } else if known.entry.place == place {
            // Another block lies there. A damaged copy stays an error at its own place.
            known.entry.place = MapEntry::LOST.place;
        }
    }
}
