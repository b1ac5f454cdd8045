//! Checkpoints: the root of the map and the segment table, in two slots.
//!
//! Each checkpoint is written to both slots, one after the other, so a torn slot leaves the other one. The segments
//! that the older checkpoint needs are freed only when both slots are durable. So if one slot is damaged later, the
//! other has a valid state from which the chain of partials continues.
//!
//! Most segments become free by a flush, without a checkpoint: the newer versions of their content are in the chain
//! then, and recovery applies them before the next content of these segments. One with tombstones or notes waits for a
//! checkpoint.

use crate::error::HomeError;
use crate::segments::Segments;
use crate::segments::state::EPOCH_GAP;
use crate::separation::Kind;
use tonearm_base::crc32c;
use tonearm_format::{HomeCheckpoint, SECTOR, SEGMENT_ENTRY_BYTES, SegmentEntry, map_pages};
use tonearm_rt::Data;

/// Bytes of the segment table in one operation, with one checksum.
const STEP: usize = 1 << 20;
/// A checkpoint is written after this many times the bytes of the map, ...
const MAP_SHARE: u64 = 64;
/// ... but not after more than this ...
const CHAIN_BYTES_MAX: u64 = 512 << 20;
/// ... but not before this many times the bytes of the segment table.
const TABLE_SHARE: u64 = 32;

impl Segments {
    /// Bytes that may be written between two checkpoints, which recovery has to read. The segment table and all pages
    /// of the map should be small in comparison, as long as recovery stays short.
    pub(crate) fn checkpoint_interval(&self) -> u64 {
        let layout = &self.media.layout;
        let map = map_pages(layout.block_size, self.size_blocks) * u64::from(layout.block_size);
        (MAP_SHARE * map)
            .min(CHAIN_BYTES_MAX)
            .max(TABLE_SHARE * layout.slot_bytes())
    }

    /// Begins a new epoch with its first checkpoint, if there is none.
    pub(crate) async fn begin_epoch(&self) -> Result<(), HomeError> {
        if self.state.borrow().new_epoch {
            self.checkpoint().await?;
        }
        Ok(())
    }

    /// Breaks the chain off after a failure. The next write begins a new one.
    pub(crate) fn end_epoch(&self) {
        let mut state = self.state.borrow_mut();
        state.epoch += 1;
        state.seq += EPOCH_GAP;
        state.end = None;
        state.new_epoch = true;
    }

    /// Makes the next opening begin with the present state, and frees segments.
    pub(crate) async fn checkpoint(&self) -> Result<(), HomeError> {
        self.release_held();
        self.write_pages().await?;
        self.state.borrow_mut().table.pages_written();
        let end = self.open_end()?;
        self.media.flush().await?;
        let (checkpoint, dead) = {
            let state = self.state.borrow();
            let checkpoint = HomeCheckpoint {
                store: self.store,
                generation: state.generation + 1,
                epoch: state.epoch,
                seq: state.seq,
                head: end.place,
                partial: end.partial,
                levels: self.levels,
                root: state.root,
                segments: state.table.len(),
                table_crc: self.table_crc(&state.table),
            };
            let dead = state.table.dead(Some(self.media.segment_of(end.place)));
            (checkpoint, dead)
        };
        let generation = checkpoint.generation;
        for slot in [generation % 2, (generation + 1) % 2] {
            self.write_slot(slot, &checkpoint).await?;
            self.media.flush().await?;
            // From here on an opening after a crash may begin with this checkpoint.
            self.state.borrow_mut().generation = generation;
        }
        let mut state = self.state.borrow_mut();
        state.new_epoch = false;
        state.since_checkpoint = 0;
        state.table.checkpointed(&dead);
        drop(state);
        self.media.count(|stats| {
            stats.segments.checkpoints += 1;
            stats.segments.checkpoint_bytes += 2 * self.media.layout.slot_bytes();
        });
        Ok(())
    }

    /// Makes all writes durable. Segments that have become empty are free then, unless recovery needs them.
    pub(crate) async fn commit_checkpoint(&self) -> Result<(), HomeError> {
        self.media.flush().await?;
        self.free_emptied();
        Ok(())
    }

    /// Notes that everything in the map is durable.
    pub(crate) fn free_emptied(&self) {
        let end = self.end_segment();
        let table = &mut self.state.borrow_mut().table;
        table.free_all(&table.reusable(end));
    }

    /// CRC-32C of the checksums of the table's parts.
    fn table_crc(&self, table: &super::table::SegmentTable) -> u32 {
        let mut crcs = Vec::new();
        let mut part = Vec::with_capacity(STEP.min(table.len() as usize * 16));
        for (index, entry) in table.entries().enumerate() {
            part.extend_from_slice(&entry.encode());
            if part.len() == STEP || index as u64 + 1 == table.len() {
                crcs.extend_from_slice(&crc32c(&part).to_le_bytes());
                part.clear();
            }
        }
        crc32c(&crcs)
    }

    async fn write_slot(&self, slot: u64, checkpoint: &HomeCheckpoint) -> Result<(), HomeError> {
        let offset = self.media.slot_offset(slot);
        let len = self.media.layout.slot_bytes() as usize;
        let mut at = 0;
        while at < len {
            let step = len.min(at + SECTOR + STEP) - at;
            let mut buf = self.media.pool.alloc_zeroed(step);
            let mut table = &mut buf[..];
            if at == 0 {
                table[..SECTOR].copy_from_slice(&checkpoint.encode());
                table = &mut buf[SECTOR..];
            }
            let first = at.saturating_sub(SECTOR) as u64 / SEGMENT_ENTRY_BYTES;
            {
                let state = self.state.borrow();
                let entries = state.table.entries().skip(first as usize);
                for (bytes, entry) in table.chunks_exact_mut(16).zip(entries) {
                    bytes.copy_from_slice(&entry.encode());
                }
            }
            let media = &self.media;
            let _turn = media.write_turn(Kind::Sweep, 0, step as u64).await?;
            let write = media.write_at(0, offset + at as u64, Data::whole(buf));
            write.await?;
            at += step;
        }
        Ok(())
    }

    /// The newest checkpoint and its segment table.
    pub(crate) async fn read_checkpoint(
        &self,
    ) -> Result<(HomeCheckpoint, Vec<SegmentEntry>), HomeError> {
        let mut slots = Vec::new();
        for slot in 0..2 {
            slots.extend(self.read_header(slot).await.map(|header| (slot, header)));
        }
        // The newer slot first, so that one table in memory is enough, even that of a large store.
        slots.sort_by_key(|(_, header)| std::cmp::Reverse(header.generation));
        for (slot, header) in slots {
            if let Some(entries) = self.read_table(slot, &header).await {
                return Ok((header, entries));
            }
        }
        Err(HomeError::Checkpoint {
            member: self.media.name(0).to_string(),
            offsets: [self.media.slot_offset(0), self.media.slot_offset(1)],
        })
    }

    /// One slot; none when it is torn, damaged or cannot be read.
    pub(crate) async fn read_slot(&self, slot: u64) -> Option<(HomeCheckpoint, Vec<SegmentEntry>)> {
        let header = self.read_header(slot).await?;
        let entries = self.read_table(slot, &header).await?;
        Some((header, entries))
    }

    async fn read_header(&self, slot: u64) -> Option<HomeCheckpoint> {
        let offset = self.media.slot_offset(slot);
        let header = self.media.read_at(0, offset, SECTOR).await.ok()?;
        let checkpoint = HomeCheckpoint::decode(&header).ok()?;
        let own = (self.store, self.media.layout.segments, self.levels);
        let fits = (checkpoint.store, checkpoint.segments, checkpoint.levels) == own;
        (fits && self.media.holds(checkpoint.head)).then_some(checkpoint)
    }

    async fn read_table(&self, slot: u64, header: &HomeCheckpoint) -> Option<Vec<SegmentEntry>> {
        let offset = self.media.slot_offset(slot);
        let segments = header.segments as usize;
        let mut entries = Vec::with_capacity(segments);
        let mut crcs = Vec::new();
        let len = segments * SEGMENT_ENTRY_BYTES as usize;
        for at in (0..len).step_by(STEP) {
            let step = STEP.min(len - at);
            // Whole sectors are read, but the checksum covers only the entries.
            let whole = step.next_multiple_of(SECTOR);
            let offset = offset + (SECTOR + at) as u64;
            let bytes = self.media.read_at(0, offset, whole).await.ok()?;
            crcs.extend_from_slice(&crc32c(&bytes[..step]).to_le_bytes());
            entries.extend(bytes[..step].chunks_exact(16).map(SegmentEntry::decode));
        }
        let blocks = self.media.layout.segment_blocks();
        let possible = |entry: &SegmentEntry| u64::from(entry.live) <= blocks;
        (crc32c(&crcs) == header.table_crc && entries.iter().all(possible)).then_some(entries)
    }
}
