//! Packs queued commits into records. One device write takes all queued commits, as far as the rest of the track
//! has room (Trail 3.1, batching).

use crate::geometry::LogGeometry;
use std::collections::VecDeque;
use tonearm_base::{Lsn, RecordSeq, Slice};
use tonearm_format::{
    Entry, EntryKind, RecordHeader, Slots, escape_payload, record_fits, run_slots,
};

/// One change of a commit, as the log records it. Blocks are home blocks.
#[derive(Clone, Debug)]
pub enum Change {
    /// Adjacent blocks get new content.
    Write {
        /// First block.
        first: u64,
        /// Content, a whole number of blocks.
        data: Slice,
        /// CRC-32C of each block.
        crcs: Vec<u32>,
    },
    /// A range becomes holes.
    Trim {
        /// First block.
        first: u64,
        /// Blocks.
        count: u64,
    },
    /// A range reads as zeroes and keeps its space.
    Zero {
        /// First block.
        first: u64,
        /// Blocks.
        count: u64,
    },
    /// Some words of a block change. The caller makes sure that the log holds the block's content before this change: a
    /// [`Change::Write`] of it and all later changes.
    Patch {
        /// The block.
        block: u64,
        /// The words, at least one.
        words: Vec<Word>,
    },
    /// Adjacent blocks get the content of other blocks. Those are durable at home, and do not change until no recovery
    /// can see this change.
    Move {
        /// First block that gets content.
        to: u64,
        /// First block that has it.
        from: u64,
        /// CRC-32C of each block.
        crcs: Vec<u32>,
    },
}

/// Eight bytes of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// Byte offset in the block, a multiple of 8.
    pub at: u32,
    /// The bytes, little-endian.
    pub value: u64,
}

impl Change {
    /// Log space that the change takes: blocks of data, and slots of entries without data.
    fn needs(&self) -> (u64, u64) {
        match self {
            Self::Write { crcs, .. } => (crcs.len() as u64, 0),
            Self::Trim { .. } | Self::Zero { .. } => (0, 1),
            Self::Patch { words, .. } => (0, patch_slots(words)),
            Self::Move { crcs, .. } => (0, crcs.len() as u64),
        }
    }

    /// Number of its entries.
    fn parts(&self) -> usize {
        match self {
            Self::Write { crcs, .. } | Self::Move { crcs, .. } => crcs.len(),
            Self::Trim { .. } | Self::Zero { .. } => 1,
            Self::Patch { words, .. } => words.len(),
        }
    }

    /// Log sectors of data of each of its entries.
    fn payload_sectors(&self, geometry: &LogGeometry) -> usize {
        match self {
            Self::Write { .. } => geometry.block_sectors() as usize,
            _ => 0,
        }
    }
}

struct Queued {
    lsn: Lsn,
    /// Log sectors reserved for it.
    promised: u64,
    changes: Vec<Change>,
    /// Index of the next change, and of the next entry within it.
    change: usize,
    part: usize,
}

/// Commits that wait for the log.
#[derive(Default)]
pub(crate) struct Queue {
    commits: VecDeque<Queued>,
    bytes: u64,
    promised: u64,
}

/// Header fields of the first record of a device write; those of later records follow from it.
pub(crate) struct Frame {
    pub epoch: u64,
    pub next_seq: RecordSeq,
    pub prev_sector: u64,
    pub prev_epoch: u64,
    /// The log start. `None` when no record is live: then the log starts with the record itself.
    pub log_start: Option<(u64, RecordSeq)>,
    pub durable_seq: RecordSeq,
}

/// A record that the log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPlace {
    /// Its number.
    pub seq: RecordSeq,
    /// Its log sector.
    pub sector: u64,
    /// Commit of its first entry.
    pub first_lsn: Lsn,
    /// Commit of its last entry.
    pub last_lsn: Lsn,
}

impl RecordPlace {
    /// The place of the record with `header` at log sector `sector`.
    pub fn of(header: &RecordHeader, sector: u64) -> Self {
        let ended = header.entries.iter().filter(|entry| entry.last).count() as u64;
        let open = header.entries.last().is_some_and(|entry| !entry.last);
        let last_lsn = Lsn((header.first_lsn.0 + ended + u64::from(open)).saturating_sub(1));
        Self {
            seq: header.seq,
            sector,
            first_lsn: header.first_lsn,
            last_lsn,
        }
    }
}

impl Queued {
    /// Entry `part` of change `change`.
    fn entry(&self, change: usize, part: usize) -> Entry {
        let last = change + 1 == self.changes.len() && part + 1 == self.changes[change].parts();
        let (block, kind) = match &self.changes[change] {
            Change::Write { first, crcs, .. } => {
                (first + part as u64, EntryKind::Data { crc: crcs[part] })
            }
            Change::Trim { first, count } => (*first, EntryKind::Trim { count: *count }),
            Change::Zero { first, count } => (*first, EntryKind::Zero { count: *count }),
            Change::Patch { block, words } => {
                let Word { at, value } = words[part];
                (*block, EntryKind::Patch { at, value })
            }
            Change::Move { to, from, crcs } => {
                let (from, crc) = (from + part as u64, crcs[part]);
                (to + part as u64, EntryKind::Move { from, crc })
            }
        };
        Entry { block, kind, last }
    }

    /// The entries that are not packed yet, each with its sectors of data.
    fn entries(&self, geometry: &LogGeometry) -> impl Iterator<Item = (Entry, usize)> {
        (self.change..self.changes.len()).flat_map(move |change| {
            let first = if change == self.change { self.part } else { 0 };
            let sectors = self.changes[change].payload_sectors(geometry);
            let parts = first..self.changes[change].parts();
            parts.map(move |part| (self.entry(change, part), sectors))
        })
    }
}

impl Queue {
    /// Queues a commit for which `promised` sectors are reserved. Sectors that it does not need are returned.
    pub fn push(&mut self, geometry: &LogGeometry, lsn: Lsn, promised: u64, changes: Vec<Change>) {
        assert!(!changes.is_empty(), "a commit changes something");
        let (mut blocks, mut others) = (0, 0);
        for change in &changes {
            let (data, rest) = change.needs();
            (blocks, others) = (blocks + data, others + rest);
        }
        let promised = promised.min(geometry.commit_sectors(blocks, others));
        self.bytes += changes.iter().map(bytes_of).sum::<u64>();
        self.promised += promised;
        self.commits.push_back(Queued {
            lsn,
            promised,
            changes,
            change: 0,
            part: 0,
        });
    }

    pub fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    /// Approximate bytes of log that the queued commits need.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Log sectors reserved for the queued commits.
    pub fn promised(&self) -> u64 {
        self.promised
    }

    /// Fewest sectors of the next record.
    pub fn min_sectors(&self, geometry: &LogGeometry) -> u64 {
        match self
            .commits
            .front()
            .map(|commit| &commit.changes[commit.change])
        {
            Some(Change::Write { .. }) => 1 + geometry.block_sectors(),
            _ => 1,
        }
    }

    /// Sectors that the records of all queued commits take. The count ends at `most`.
    pub fn sectors(&self, geometry: &LogGeometry, most: u64) -> u64 {
        let (mut full, mut slots, mut payload) = (0, Slots::default(), 0);
        let entries = self.commits.iter();
        for (entry, sectors) in entries.flat_map(|commit| commit.entries(geometry)) {
            let with = slots.with(&entry);
            if record_fits(with.count(), payload + sectors, geometry.sector) {
                (slots, payload) = (with, payload + sectors);
                continue;
            }
            full += 1 + payload as u64;
            (slots, payload) = (Slots::default().with(&entry), sectors);
            if full >= most {
                return most;
            }
        }
        most.min(full + 1 + payload as u64)
    }

    /// Packs records into `out`, which is as long as the room on the track. The first goes to log sector `sector`.
    /// Returns the records, the sectors used, and the last commit that became whole, if any.
    pub fn pack(
        &mut self,
        geometry: &LogGeometry,
        mut frame: Frame,
        sector: u64,
        out: &mut [u8],
    ) -> (Vec<RecordPlace>, usize, Option<Lsn>) {
        let mut packed = Vec::new();
        let bytes = geometry.sector;
        let (mut used, mut whole) = (0, None);
        while !self.is_empty() && used + self.min_sectors(geometry) as usize * bytes <= out.len() {
            let at = sector + (used / bytes) as u64;
            let (header, sectors, ended) = self.pack_one(geometry, &frame, at, &mut out[used..]);
            packed.push(RecordPlace::of(&header, at));
            whole = ended.or(whole);
            used += sectors * bytes;
            frame.prev_sector = at;
            frame.prev_epoch = frame.epoch;
            frame.next_seq += 1;
            // When no record was live, the log starts with the first one.
            frame.log_start = frame.log_start.or(Some((at, header.seq)));
        }
        (packed, used / bytes, whole)
    }

    fn pack_one(
        &mut self,
        geometry: &LogGeometry,
        frame: &Frame,
        at: u64,
        out: &mut [u8],
    ) -> (RecordHeader, usize, Option<Lsn>) {
        let (header_out, payload_out) = out.split_at_mut(geometry.sector);
        let front = self.commits.front().expect("the queue is not empty");
        let (first_lsn, continues) = (front.lsn, front.change > 0 || front.part > 0);
        let (mut entries, mut displaced, mut ended) = (Vec::new(), Vec::new(), None);
        let (mut slots, mut payload) = (Slots::default(), 0);
        while let Some(commit) = self.commits.front_mut() {
            let change = &commit.changes[commit.change];
            let entry = commit.entry(commit.change, commit.part);
            let wanted = change.payload_sectors(geometry);
            let with = slots.with(&entry);
            if !record_fits(with.count(), displaced.len() + wanted, geometry.sector)
                || payload + wanted * geometry.sector > payload_out.len()
            {
                break;
            }
            slots = with;
            entries.push(entry);
            if let Change::Write { data, .. } = change {
                let from = commit.part * geometry.block_size;
                let start = displaced.len();
                displaced.resize(start + wanted, 0);
                escape_payload(
                    &data[from..from + geometry.block_size],
                    &mut payload_out[payload..payload + geometry.block_size],
                    &mut displaced[start..],
                );
                payload += geometry.block_size;
            }
            commit.part += 1;
            if commit.part == change.parts() {
                self.bytes -= bytes_of(change);
                (commit.change, commit.part) = (commit.change + 1, 0);
            }
            if entry.last {
                ended = Some(commit.lsn);
                self.promised -= commit.promised;
                self.commits.pop_front();
            }
        }
        let header = make_header(
            geometry,
            frame,
            at,
            first_lsn,
            continues,
            displaced.len(),
            entries,
        );
        header.encode(&displaced, header_out);
        (header, 1 + displaced.len(), ended)
    }
}

/// Packs a record without entries, which only names the log start.
pub(crate) fn pack_marker(
    geometry: &LogGeometry,
    frame: &Frame,
    at: u64,
    lsn: Lsn,
    out: &mut [u8],
) -> RecordPlace {
    let header = make_header(geometry, frame, at, lsn, false, 0, Vec::new());
    header.encode(&[], out);
    RecordPlace::of(&header, at)
}

fn make_header(
    geometry: &LogGeometry,
    frame: &Frame,
    at: u64,
    first_lsn: Lsn,
    continues: bool,
    payload_sectors: usize,
    entries: Vec<Entry>,
) -> RecordHeader {
    let (log_start_sector, log_start_seq) = frame.log_start.unwrap_or((at, frame.next_seq));
    RecordHeader {
        store: geometry.store,
        epoch: frame.epoch,
        seq: frame.next_seq,
        prev_sector: frame.prev_sector,
        prev_epoch: frame.prev_epoch,
        log_start_sector,
        log_start_seq,
        durable_seq: frame.durable_seq,
        first_lsn,
        continues,
        payload_sectors: payload_sectors as u32,
        entries,
    }
}

fn bytes_of(change: &Change) -> u64 {
    match change {
        Change::Write { data, .. } => data.len() as u64,
        Change::Trim { .. } | Change::Zero { .. } => 32,
        Change::Patch { words, .. } => 32 * patch_slots(words),
        Change::Move { crcs, .. } => 32 * crcs.len() as u64,
    }
}

/// Number of entry slots that the words of a patch take.
pub fn patch_slots(words: &[Word]) -> u64 {
    let runs = words.chunk_by(|word, next| word.at + 8 == next.at);
    runs.map(|run| run_slots(run.len()) as u64).sum()
}
