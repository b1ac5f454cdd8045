//! Packs queued commits into records. One device write takes all queued commits, as far as the rest of the track
//! has room (Trail 3.1, batching).

use crate::geometry::LogGeometry;
use crate::streams::Streams;
use std::collections::VecDeque;
use std::ops::Range;
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
    /// Adjacent blocks get content that is durable at home already ([`IndirectSink`](crate::IndirectSink)).
    Indirect {
        /// First block.
        first: u64,
        /// Where the content of each block is.
        places: Vec<u64>,
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
            Self::Move { crcs, .. } | Self::Indirect { crcs, .. } => (0, crcs.len() as u64),
        }
    }

    /// The blocks of its data.
    fn written(&self) -> Option<Range<u64>> {
        match self {
            Self::Write { first, crcs, .. } => Some(*first..*first + crcs.len() as u64),
            _ => None,
        }
    }

    /// Number of its entries.
    fn parts(&self) -> usize {
        match self {
            Self::Write { crcs, .. } | Self::Move { crcs, .. } | Self::Indirect { crcs, .. } => {
                crcs.len()
            }
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
    /// Its stream; 0 for none.
    stream: u64,
    /// Bytes of blocks that can be written outside the log; 0 once that is decided.
    large: u64,
    /// They were written there, or there was no space for them.
    is_decided: bool,
}

/// Commits that wait for the log.
#[derive(Default)]
pub(crate) struct Queue {
    commits: VecDeque<Queued>,
    bytes: u64,
    promised: u64,
    /// Bytes of blocks that can be written outside the log.
    large: u64,
    /// The last commit whose blocks were taken to be written there. None before it can be any more.
    taken: Lsn,
    /// Commits whose blocks were written there, or found no space.
    decided: usize,
    streams: Streams,
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

/// A block that is written outside the log.
#[derive(Clone, Debug)]
pub struct IndirectBlock {
    /// Its commit.
    pub lsn: Lsn,
    /// Its number.
    pub block: u64,
    /// Its content.
    pub data: Slice,
    /// CRC-32C of the content.
    pub crc: u32,
}

impl Queued {
    /// Its blocks of data.
    fn blocks(&self) -> impl Iterator<Item = IndirectBlock> {
        let writes = self.changes.iter().filter_map(|change| match change {
            Change::Write { first, data, crcs } => Some((*first, data, crcs)),
            _ => None,
        });
        let lsn = self.lsn;
        writes.flat_map(move |(first, data, crcs)| {
            let size = data.len() / crcs.len();
            (0..).zip(crcs).map(move |(index, crc)| IndirectBlock {
                lsn,
                block: first + index as u64,
                data: data.slice(index * size..(index + 1) * size),
                crc: *crc,
            })
        })
    }

    /// Its blocks of data are at `places`, in their order.
    fn place(&mut self, mut places: &[u64]) {
        for change in &mut self.changes {
            if let Change::Write { first, crcs, .. } = change {
                let (own, rest) = places.split_at(crcs.len());
                places = rest;
                *change = Change::Indirect {
                    first: *first,
                    places: own.to_vec(),
                    crcs: std::mem::take(crcs),
                };
            }
        }
    }

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
            Change::Indirect {
                first,
                places,
                crcs,
            } => {
                let (place, crc) = (places[part], crcs[part]);
                (first + part as u64, EntryKind::Indirect { place, crc })
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
    /// Queues a commit for which `promised` sectors are reserved. Sectors that it does not need are returned. In a stream with
    /// `large_min` bytes of blocks, its blocks can be written outside the log. 0: they cannot.
    pub fn push(
        &mut self,
        geometry: &LogGeometry,
        lsn: Lsn,
        promised: u64,
        changes: Vec<Change>,
        large_min: u64,
    ) {
        assert!(!changes.is_empty(), "a commit changes something");
        let (blocks, others) = needs(&changes);
        let promised = promised.min(geometry.commit_sectors(blocks, others));
        self.bytes += changes.iter().map(bytes_of).sum::<u64>();
        self.promised += promised;
        let bytes = blocks * geometry.block_size as u64;
        let (mut stream, mut large_from) = (0, None);
        if bytes > 0 && large_min > 0 {
            let writes = changes.iter().filter_map(Change::written);
            let of_commit = self.streams.add(lsn, bytes, writes);
            stream = of_commit.id;
            if of_commit.bytes >= large_min {
                large_from = Some(std::mem::replace(&mut of_commit.from, lsn + 1));
            }
        }
        self.commits.push_back(Queued {
            lsn,
            promised,
            changes,
            change: 0,
            part: 0,
            stream,
            large: 0,
            is_decided: false,
        });
        if let Some(from) = large_from {
            self.note_large(geometry, stream, from);
        }
    }

    /// The commits of `stream` from `from` on can be written outside the log.
    fn note_large(&mut self, geometry: &LogGeometry, stream: u64, from: Lsn) {
        // Records keep the order of commits. A commit that waits for its place would hold back later ones that have theirs.
        let from = from.max(self.taken + 1);
        let commits = self.commits.iter_mut().rev();
        for commit in commits.take_while(|commit| commit.lsn >= from) {
            if commit.stream == stream && commit.change == 0 && commit.part == 0 {
                let (blocks, _) = needs(&commit.changes);
                commit.large = blocks * geometry.block_size as u64;
                self.large += commit.large;
            }
        }
    }

    /// Bytes of blocks of queued commits that can be written outside the log.
    pub fn large_bytes(&self) -> u64 {
        self.large
    }

    /// True when the blocks of a queued commit were written outside the log, or found no space there.
    pub fn has_decided(&self) -> bool {
        self.decided > 0
    }

    /// The first commit that the next device write leaves out: while there are commits of which that is decided, the first one
    /// whose blocks still can be written outside the log.
    fn end(&self) -> Lsn {
        let next = self
            .has_decided()
            .then(|| self.commits.iter().find(|commit| commit.large > 0));
        next.flatten().map_or(Lsn(u64::MAX), |commit| commit.lsn)
    }

    /// The blocks of the first of these commits, about `most` bytes. A later call does not name these commits again.
    pub fn take_large(&mut self, most: u64) -> Vec<IndirectBlock> {
        let (mut blocks, mut bytes) = (Vec::new(), 0);
        for commit in &mut self.commits {
            if bytes >= most || self.large == 0 {
                break;
            }
            bytes += commit.large;
            self.large -= commit.large;
            if std::mem::take(&mut commit.large) > 0 {
                self.taken = commit.lsn;
                blocks.extend(commit.blocks());
            }
        }
        blocks
    }

    /// Blocks that were taken are at `places`, in their order, and not in the commits any more. `None`: the log gets them.
    pub fn decide(
        &mut self,
        geometry: &LogGeometry,
        blocks: &[IndirectBlock],
        places: Option<&[u64]>,
    ) {
        let mut rest = places;
        for of_commit in blocks.chunk_by(|a, b| a.lsn == b.lsn) {
            let at = self
                .commits
                .binary_search_by_key(&of_commit[0].lsn, |commit| commit.lsn);
            let commit = &mut self.commits[at.expect("a commit is queued until it is packed")];
            commit.is_decided = true;
            self.decided += 1;
            let Some(places) = rest else {
                continue;
            };
            self.bytes -= commit.changes.iter().map(bytes_of).sum::<u64>();
            self.promised -= commit.promised;
            let (own, others) = places.split_at(of_commit.len());
            rest = Some(others);
            commit.place(own);
            let (data, slots) = needs(&commit.changes);
            commit.promised = commit.promised.min(geometry.commit_sectors(data, slots));
            self.promised += commit.promised;
            self.bytes += commit.changes.iter().map(bytes_of).sum::<u64>();
        }
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

    /// Sectors that the records of the queued commits up to [`Queue::end`] take. The count ends at `most`.
    pub fn sectors(&self, geometry: &LogGeometry, most: u64) -> u64 {
        let (mut full, mut slots, mut payload) = (0, Slots::default(), 0);
        let end = self.end();
        let entries = self.commits.iter().take_while(|commit| commit.lsn < end);
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

    /// Packs records into `out`, which is as long as the room on the track. The first goes to log sector `sector`. They
    /// have the commits up to [`Queue::end`]. Returns the records, the sectors used, and the last commit that became whole, if any.
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
        let end = self.end();
        let is_next = |queue: &Self| queue.commits.front().is_some_and(|next| next.lsn < end);
        while is_next(self) && used + self.min_sectors(geometry) as usize * bytes <= out.len() {
            let at = sector + (used / bytes) as u64;
            let room = &mut out[used..];
            let (header, sectors, ended) = self.pack_one(geometry, &frame, at, end, room);
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
        end: Lsn,
        out: &mut [u8],
    ) -> (RecordHeader, usize, Option<Lsn>) {
        let (header_out, payload_out) = out.split_at_mut(geometry.sector);
        let front = self.commits.front().expect("the queue is not empty");
        let (first_lsn, continues) = (front.lsn, front.change > 0 || front.part > 0);
        let (mut entries, mut displaced, mut ended) = (Vec::new(), Vec::new(), None);
        let (mut slots, mut payload) = (Slots::default(), 0);
        while let Some(commit) = self.commits.front_mut() {
            if commit.lsn >= end {
                break;
            }
            let change = &commit.changes[commit.change];
            let entry = commit.entry(commit.change, commit.part);
            let wanted = change.payload_sectors(geometry);
            let with = slots.with(&entry);
            if !record_fits(with.count(), displaced.len() + wanted, geometry.sector)
                || payload + wanted * geometry.sector > payload_out.len()
            {
                break;
            }
            self.large -= std::mem::take(&mut commit.large);
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
                self.decided -= usize::from(commit.is_decided);
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

/// Blocks of data, and slots of entries without data, that the log needs for `changes`.
fn needs(changes: &[Change]) -> (u64, u64) {
    let each = changes.iter().map(Change::needs);
    each.fold((0, 0), |all, own| (all.0 + own.0, all.1 + own.1))
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
        Change::Move { crcs, .. } | Change::Indirect { crcs, .. } => 32 * crcs.len() as u64,
    }
}

/// Number of entry slots that the words of a patch take.
pub fn patch_slots(words: &[Word]) -> u64 {
    let runs = words.chunk_by(|word, next| word.at + 8 == next.at);
    runs.map(|run| run_slots(run.len()) as u64).sum()
}
