//! Writes blocks and zeroes home: appends them or overwrites them in place (`in_place.rs`), flushes, and enters them into
//! the map.
//!
//! A power cut at any moment is harmless: partials go to free segments, which no valid map uses. After the cut the map
//! is that of the checkpoint with the chain of partials up to the first torn one. The engine's log replays the blocks
//! of the call that are not in it. The originals of blocks that the cleaner had copied after that point are still in
//! their places.

use crate::error::HomeError;
use crate::home::{HomeBlock, ZeroRange};
use crate::segments::Segments;
use crate::segments::partial::Item;
use crate::separation::Kind;
use tonearm_format::{MapEntry, SummaryKind};

/// Segments that one portion of a write-back takes. Space is made for one portion at a time.
pub(crate) const PORTION_SEGMENTS: u64 = 2;
/// Portions of blocks that are overwritten in one sweep. Their notes take a fifth of a segment.
const SWEEP_PORTIONS: usize = 8;
/// A portion may begin in the middle of a segment, end in one more for that, and open the next.
pub(crate) const PORTION_ENDS: u64 = 2;

impl Segments {
    /// See [`Home::write_back`](crate::Home::write_back).
    pub(crate) async fn write_back(
        &self,
        zeroes: Vec<ZeroRange>,
        blocks: Vec<HomeBlock>,
    ) -> Result<(), HomeError> {
        self.check_arguments(&zeroes, &blocks);
        let _writer = self.writer.acquire(1).await;
        match self.write_portions(zeroes, blocks).await {
            Ok(true) => Ok(()),
            // No block of the portion was written, so the chain continues.
            Ok(false) => Err(self.full()),
            Err(error) => {
                self.end_epoch();
                Err(error)
            }
        }
    }

    /// False when there is no space for all of it.
    async fn write_portions(
        &self,
        zeroes: Vec<ZeroRange>,
        blocks: Vec<HomeBlock>,
    ) -> Result<bool, HomeError> {
        self.begin_epoch().await?;
        let holes = zeroes.into_iter().filter(|range| range.count > 0);
        let holes = holes.map(|range| Item {
            version: None,
            kind: SummaryKind::Hole {
                first: range.first,
                count: range.count,
            },
            data: None,
        });
        self.count_writes(blocks.iter().map(|block| block.block));
        let measured = self.measured(blocks);
        let portion = (PORTION_SEGMENTS * self.capacity) as usize;
        let mut holes = holes.peekable();
        while holes.peek().is_some() {
            let items = holes.by_ref().take(portion).collect();
            if !self
                .write_portion(Kind::Sweep, Vec::new(), items, true)
                .await?
            {
                return Ok(false);
            }
        }
        for sweep in measured.sweep.chunks(SWEEP_PORTIONS * portion) {
            let sweep = items_of(sweep.to_vec());
            if !self
                .write_portion(measured.kind, sweep, Vec::new(), false)
                .await?
            {
                return Ok(false);
            }
        }
        for appended in measured.appended.chunks(self.appended().clamp(1, portion)) {
            let appended = items_of(appended.to_vec());
            if !self
                .write_portion(Kind::Sweep, Vec::new(), appended, false)
                .await?
            {
                return Ok(false);
            }
            self.media.flush().await?;
        }
        let (cold, hot) = self.separate(items_of(measured.others)).await?;
        let (mut cold, mut hot) = (cold.into_iter(), hot.into_iter());
        while cold.len() + hot.len() > 0 {
            let sweep: Vec<Item> = cold.by_ref().take(SWEEP_PORTIONS * portion).collect();
            let notes = self.tombstone_blocks(sweep.len() as u64) as usize;
            let appended = hot
                .by_ref()
                .take(portion - notes.min(portion / 2))
                .collect();
            if !self
                .write_portion(Kind::Sweep, sweep, appended, false)
                .await?
            {
                return Ok(false);
            }
        }
        self.commit_checkpoint().await?;
        Ok(true)
    }

    /// Overwrites `sweep`, measured as `kind`, and appends `items` and a note of each overwritten block. False when there
    /// is no space for it.
    async fn write_portion(
        &self,
        kind: Kind,
        sweep: Vec<Item>,
        items: Vec<Item>,
        trims: bool,
    ) -> Result<bool, HomeError> {
        let written = (sweep.len() + items.len()) as u64;
        let taken = items.len() as u64 + self.tombstone_blocks(sweep.len() as u64);
        let segments = taken.div_ceil(self.capacity);
        let has_space = self.make_space(segments + PORTION_ENDS).await?;
        // Tombstones take little space, and may free some when nothing else can.
        let tombstones = trims && self.has_space_for_tombstones();
        if !has_space && !tombstones {
            return Ok(false);
        }
        let appended = items.len() as u64;
        let flushes = !sweep.is_empty()
            && (kind != Kind::Sweep || self.media.times.borrow().wants_appended(appended));
        if flushes {
            self.media.flush().await?;
        }
        let mut all = self.overwrite(kind, sweep).await?;
        if flushes {
            self.media.flush().await?;
        }
        all.extend(items);
        let kinds: Vec<SummaryKind> = all.iter().map(|item| item.kind).collect();
        let placed = self.append(all).await?;
        self.enter(&kinds, &placed).await?;
        self.media
            .count(|stats| stats.segments.written_blocks += written);
        self.media.times.borrow_mut().written_back(appended);
        if !has_space {
            self.checkpoint().await?;
            return Ok(true);
        }
        self.relieve_pages().await?;
        self.maintain(taken).await?;
        Ok(true)
    }

    /// Enters appended items into the map: holes, then blocks.
    pub(crate) async fn enter(
        &self,
        kinds: &[SummaryKind],
        placed: &[MapEntry],
    ) -> Result<(), HomeError> {
        let mut blocks = Vec::with_capacity(kinds.len());
        for (kind, entry) in kinds.iter().zip(placed) {
            match *kind {
                SummaryKind::Hole { first, count } => {
                    self.set_holes(first..first + count, entry.version).await?;
                }
                SummaryKind::Data { block, .. } | SummaryKind::Overwritten { block, .. } => {
                    blocks.push((block, *entry));
                }
                SummaryKind::Page { .. } | SummaryKind::Indirect { .. } => {}
            }
        }
        blocks.sort_unstable_by_key(|(block, _)| *block);
        self.set_blocks(&blocks).await
    }

    /// Writes a checkpoint, so that the next opening has nothing to recover.
    pub(crate) async fn close(&self) -> Result<(), HomeError> {
        let _writer = self.writer.acquire(1).await;
        let changed = {
            let state = self.state.borrow();
            state.since_checkpoint > 0 || state.pages.dirty() > 0
        };
        if self.read_only || !changed {
            return Ok(());
        }
        let result = self.checkpoint().await;
        if result.is_err() {
            self.end_epoch();
        }
        result
    }

    fn check_arguments(&self, zeroes: &[ZeroRange], blocks: &[HomeBlock]) {
        assert!(
            !self.read_only,
            "a home that is open for reading is not written"
        );
        assert!(
            blocks.is_sorted_by(|a, b| a.block < b.block),
            "blocks ascend"
        );
        let last = blocks.last().map_or(0, |last| last.block);
        assert!(last < self.size_blocks, "block {last} exists");
        let size = self.block_size();
        assert!(
            blocks.iter().all(|block| block.data.len() == size),
            "a home block has {size} bytes"
        );
        let end = |range: &ZeroRange| range.first.saturating_add(range.count);
        assert!(
            zeroes.iter().all(|range| end(range) <= self.size_blocks),
            "a zero range beyond the store's end"
        );
    }
}

fn items_of(blocks: Vec<HomeBlock>) -> Vec<Item> {
    let items = blocks.into_iter().map(|block| Item {
        version: None,
        kind: SummaryKind::Data {
            block: block.block,
            crc: block.crc,
        },
        data: Some(block.data),
    });
    items.collect()
}
