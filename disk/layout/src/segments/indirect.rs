//! Indirect writes: blocks are appended before their commits are in the log, and the log names their places. So the content
//! of a large commit is written once (ZFS's `WR_INDIRECT` log records; ARU 2: a logical disk writes data once).
//!
//! A summary lists such a block as [`SummaryKind::Indirect`], which enters it into no map: its commit may be lost. When the
//! commit is written back, a note with the place of the block ([`SummaryKind::Overwritten`]) enters it.
//!
//! Invariant: as long as a recovery may replay a commit that names a place in a segment, nothing writes there. The segment is
//! neither free nor cleaned, its holes are not plugged, and its blocks are not overwritten in place
//! ([`hold_for_log`](super::table::SegmentTable::hold_for_log)). Checkpoints contain that. So that all blocks of the store still fit,
//! no more segments are held than the store could do without if all its blocks were written.

use crate::error::HomeError;
use crate::home::{HomeBlock, IndirectHome, PlacedBlock};
use crate::segments::Segments;
use crate::segments::partial::Item;
use crate::segments::write_back::{PORTION_ENDS, PORTION_SEGMENTS};
use tonearm_base::{Lsn, Slice};
use tonearm_format::SummaryKind;
use tonearm_rt::Boxed;

impl IndirectHome for Segments {
    fn append(
        &self,
        lsn: Lsn,
        blocks: Vec<HomeBlock>,
    ) -> Boxed<'_, Result<Option<Vec<u64>>, HomeError>> {
        Box::pin(async move {
            let count = blocks.len() as u64;
            if !self.has_room_for_indirect(count) {
                return Ok(None);
            }
            let _writer = self.writer.acquire(1).await;
            // Another call may have taken the space.
            if !self.has_room_for_indirect(count) {
                return Ok(None);
            }
            let appended = self.append_indirect(lsn, blocks).await;
            if appended.is_err() {
                self.end_epoch();
            }
            appended.map(Some)
        })
    }

    fn flush(&self) -> Boxed<'_, Result<(), HomeError>> {
        Box::pin(async move {
            // A flush that overlaps writes of others would pass for theirs.
            let _writer = self.writer.acquire(1).await;
            let failures = self.state.borrow_mut().appended_after.take();
            if failures.is_some_and(|failures| failures < self.media.flush_failures()) {
                // It may have lost what was appended, and the next one would hide that.
                return Err(self.media.flush_failed());
            }
            self.media.flush().await
        })
    }

    fn read(&self, place: u64, blocks: Vec<(u64, u32)>) -> Boxed<'_, Result<Slice, HomeError>> {
        Box::pin(async move {
            let (first, last) = (blocks[0].0, place + blocks.len() as u64 - 1);
            if !self.media.holds(place)
                || self.media.segment_of(place) != self.media.segment_of(last)
            {
                return Err(HomeError::LostBlock { block: first });
            }
            if let Some(named) = &mut self.state.borrow_mut().named {
                named.insert(self.media.segment_of(place));
            }
            let bytes = self.media.read(place, blocks.len() as u64).await?;
            let contents = bytes.chunks_exact(self.block_size());
            for ((place, (block, crc)), content) in (place..).zip(blocks).zip(contents) {
                self.verify(block, place, crc, content)?;
            }
            Ok(bytes.share())
        })
    }

    fn enter(&self, blocks: Vec<PlacedBlock>) -> Boxed<'_, Result<(), HomeError>> {
        Box::pin(async move {
            let _writer = self.writer.acquire(1).await;
            match self.enter_indirect(&blocks).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(self.full()),
                Err(error) => {
                    self.end_epoch();
                    Err(error)
                }
            }
        })
    }

    fn end_recovery(&self) {
        let state = &mut *self.state.borrow_mut();
        if let Some(named) = state.named.take() {
            state.table.keep_held(&named);
        }
    }

    fn release(&self, before: Lsn) {
        let state = &mut *self.state.borrow_mut();
        state.log_start = state.log_start.max(before);
    }
}

impl Segments {
    /// Segments are free again in which the log names no place any more. The caller holds the writer's permit: a checkpoint must not
    /// change while it is written.
    pub(crate) fn release_held(&self) {
        let state = &mut *self.state.borrow_mut();
        state.table.release_from_log(state.log_start);
    }

    /// Only while there is space without cleaning, for which commits would wait.
    fn has_room_for_indirect(&self, blocks: u64) -> bool {
        let wanted = blocks.div_ceil(self.capacity) + PORTION_ENDS;
        let held = {
            let state = self.state.borrow();
            state.table.held_from(state.log_start)
        };
        self.has_space(wanted) && held + wanted <= self.spare_segments()
    }

    async fn append_indirect(
        &self,
        lsn: Lsn,
        blocks: Vec<HomeBlock>,
    ) -> Result<Vec<u64>, HomeError> {
        self.begin_epoch().await?;
        let failures = self.media.flush_failures();
        self.state
            .borrow_mut()
            .appended_after
            .get_or_insert(failures);
        let items = blocks
            .into_iter()
            .map(|HomeBlock { block, data, crc }| Item {
                version: None,
                kind: SummaryKind::Indirect { block, crc },
                data: Some(data),
            });
        let placed = self.append(items.collect()).await?;
        self.media
            .count(|stats| stats.segments.indirect_blocks += placed.len() as u64);
        let mut state = self.state.borrow_mut();
        for entry in &placed {
            let segment = self.media.segment_of(entry.place);
            state.table.hold_for_log(segment, lsn);
        }
        Ok(placed.iter().map(|entry| entry.place).collect())
    }

    /// False when there is no space for the notes.
    async fn enter_indirect(&self, blocks: &[PlacedBlock]) -> Result<bool, HomeError> {
        self.begin_epoch().await?;
        self.count_writes(blocks.iter().map(|placed| placed.block));
        // As many as the pages of the map allow that two segments of blocks change.
        for part in blocks.chunks((PORTION_SEGMENTS * self.capacity) as usize) {
            let notes = self.tombstone_blocks(part.len() as u64);
            let segments = notes.div_ceil(self.capacity);
            if !self.make_space(segments + PORTION_ENDS).await? {
                return Ok(false);
            }
            let notes = part.iter().map(|placed| Item {
                version: None,
                kind: SummaryKind::Overwritten {
                    block: placed.block,
                    place: placed.place,
                    crc: placed.crc,
                },
                data: None,
            });
            let notes: Vec<Item> = notes.collect();
            let kinds: Vec<SummaryKind> = notes.iter().map(|item| item.kind).collect();
            let placed = self.append(notes).await?;
            self.enter(&kinds, &placed).await?;
            self.media
                .count(|stats| stats.segments.written_blocks += part.len() as u64);
            self.relieve_pages().await?;
            self.maintain(part.len() as u64).await?;
        }
        self.commit_checkpoint().await?;
        Ok(true)
    }
}
