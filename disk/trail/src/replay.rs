//! Reads the log at recovery: finds the youngest record, goes to the log start that it names, and returns commits
//! in order up to the end of the gap-free prefix.
//!
//! Tracks are read forward, and the `prev_sector` link of each record is checked. Links followed backwards, as in
//! the paper, would end at the first hole of a torn tail, and the records before the hole would not be found
//! (docs/decisions/0003-forward-replay.md).
//!
//! If the search meets a track that cannot be read, all tracks are read, and the search is repeated on what they hold.
//! So all recoveries of a log begin at the same log start. That matters: a recovery may be cut while it writes home, and
//! one that begins elsewhere does not write the same blocks. If the search needs tracks that are still unreadable, two
//! rules ensure that none of them holds a younger record, which would name another log start:
//! - A track that could not be read then counts as unreadable until the end of the replay, even if a later read works.
//! - The whole prefix is read before its first commit is returned. The opening is refused if an unreadable track is
//!   met, or if one lies where records that were never flushed may be.

mod history;
mod youngest;

pub use history::{History, HistoryError};
use youngest::{Youngest, find_youngest};

use crate::decide::{Case, Finding, Join, Sight, decide};
use crate::error::TrailError;
use crate::geometry::LogGeometry;
use crate::pack::RecordPlace;
use crate::scan::{FoundRecord, scan_track};
use crate::unflushed_tracks_max;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use tonearm_base::{Buf, BufPool, Lsn, RecordSeq};
use tonearm_device::{Device, DeviceIo};
use tonearm_format::{EntryKind, LogState};
use tonearm_rt::{Data, Op};

const READ_AHEAD: usize = 3;

/// Where a replay begins.
pub(crate) enum Begin {
    /// With the record at this log sector, which has this number.
    At(u64, RecordSeq),
    /// With the first record that the log ever got, on the track where the log begins.
    Empty,
}

/// One change of a recovered commit.
#[derive(Debug)]
pub struct RecoveredChange {
    /// First home block.
    pub block: u64,
    /// The kind of change.
    pub kind: EntryKind,
    /// Content of the block, for data.
    pub data: Option<Buf>,
}

/// A commit that is whole in the log.
#[derive(Debug)]
pub struct RecoveredCommit {
    /// Its number.
    pub lsn: Lsn,
    /// Its changes, in order.
    pub changes: Vec<RecoveredChange>,
}

/// Counters of one recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayStats {
    /// Tracks read to find the youngest record.
    pub search_tracks: u64,
    /// Tracks read to replay.
    pub replay_tracks: u64,
    /// Records replayed.
    pub records: u64,
    /// Commits returned.
    pub commits: u64,
    /// Records after the end of the prefix, which are dead from now on.
    pub discarded: u64,
}

/// The commits that a lenient replay has left out, as far as readable records show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// First lost commit: the one after the last commit that was kept.
    pub first: Lsn,
    /// Last lost commit that is known. Less than `first` when none is known.
    pub last: Lsn,
    /// Records after the end, which are dead from now on.
    pub records: u64,
}

impl GivenUp {
    /// Number of commits known to be lost. Some of them may never have been durable.
    pub fn commits(&self) -> u64 {
        (self.last.0 + 1).saturating_sub(self.first.0)
    }
}

/// Where the log ended.
#[derive(Clone, Debug)]
pub struct RecoveredTail {
    /// Log positions for the superblock of the next epoch. The log starts with the oldest replayed record.
    pub state: LogState,
    /// All replayed records, oldest first.
    pub records: Vec<RecordPlace>,
    /// Why the log ended where it ended.
    pub case: Case,
    /// What was given up, if a lenient replay ended at damage.
    pub given_up: Option<GivenUp>,
    /// Counters.
    pub stats: ReplayStats,
}

struct Track {
    index: u64,
    /// `None` when the device could not read the track.
    bytes: Option<Buf>,
    found: Vec<FoundRecord>,
}

struct Open {
    lsn: Lsn,
    epoch: u64,
    changes: Vec<RecoveredChange>,
}

/// A recovery in progress. [`Replay::next`] returns its commits.
pub struct Replay {
    pool: BufPool,
    devices: Vec<Rc<dyn Device>>,
    geometry: LogGeometry,
    epoch: u64,
    before: LogState,
    /// Damage ends the log instead of being an error (`check --repair`).
    lenient: bool,
    ahead: VecDeque<(u64, DeviceIo)>,
    /// Tracks that are read before they are needed.
    read_ahead: usize,
    /// Tracks that count as unreadable, whatever a read returns.
    unreadable: BTreeSet<u64>,
    /// Why no commit may be returned.
    refused: Option<TrailError>,
    /// A track of `unreadable` that may hold records after the end of the prefix.
    hidden: Option<u64>,
    current: Track,
    next: Option<Track>,
    expected: RecordSeq,
    /// Place and epoch of the record before the expected one; `None` at the log start.
    link: Option<(u64, u64)>,
    log_start_sector: Option<u64>,
    open: Option<Open>,
    ready: VecDeque<RecoveredCommit>,
    last_lsn: Lsn,
    /// An entry has been replayed: later commits must have the numbers that follow.
    numbered: bool,
    last: Option<(RecordPlace, u64)>,
    records: Vec<RecordPlace>,
    end: Option<Case>,
    given_up: Option<GivenUp>,
    stats: ReplayStats,
    /// Track where the replay began. Live records never reach it again.
    first_track: u64,
    tracks_expected: u64,
}

impl Replay {
    /// Starts to recover the log of epoch `epoch`. `before` is the log state in that epoch's superblock. With
    /// `lenient`, damage ends the log instead of being an error.
    pub async fn start(
        pool: &BufPool,
        devices: Vec<Rc<dyn Device>>,
        geometry: LogGeometry,
        epoch: u64,
        before: LogState,
        lenient: bool,
    ) -> Self {
        let mut stats = ReplayStats::default();
        let Youngest {
            record: youngest,
            unreadable,
        } = find_youngest(pool, &devices, &geometry, epoch, &before, &mut stats).await;
        let (mut start, mut expected) = (None, RecordSeq(before.log_start_seq.max(1)));
        if before.log_start_seq <= before.log_end_seq {
            start = Some(before.log_start_sector);
        }
        if let Some(record) = &youngest
            && record.header.log_start_seq >= expected
        {
            (start, expected) = (
                Some(record.header.log_start_sector),
                record.header.log_start_seq,
            );
        }
        let first_track = start.map_or(before.start_track, |sector| geometry.track_of(sector));
        let last_track =
            youngest.map_or(first_track, |record| geometry.track_of(record.place.sector));
        let tracks = geometry.tracks;
        let begin = || start.map_or(Begin::Empty, |sector| Begin::At(sector, expected));
        let new = || {
            let (devices, geometry) = (devices.clone(), geometry.clone());
            let mut replay = Self::at(pool, devices, geometry, epoch, before, begin());
            (replay.expected, replay.lenient, replay.stats) = (expected, lenient, stats);
            replay.tracks_expected = (last_track + tracks - first_track) % tracks + 1;
            replay.unreadable = unreadable.clone();
            replay
        };
        let mut refused = None;
        if !unreadable.is_empty() && !lenient {
            let mut rehearsal = new();
            rehearsal.begin().await;
            refused = rehearsal.run_to_end().await.err();
        }
        let mut replay = new();
        replay.begin().await;
        replay.refused = refused;
        replay
    }

    async fn run_to_end(&mut self) -> Result<(), TrailError> {
        while self.next().await?.is_some() {}
        Ok(())
    }

    /// Reads the first track.
    async fn begin(&mut self) {
        self.fill_ahead(self.first_track);
        self.current = self.read_next().await;
    }

    /// A replay that begins at `begin` and has read nothing yet.
    fn at(
        pool: &BufPool,
        devices: Vec<Rc<dyn Device>>,
        geometry: LogGeometry,
        epoch: u64,
        before: LogState,
        begin: Begin,
    ) -> Self {
        let (log_start_sector, link, first_track, expected) = match begin {
            Begin::At(sector, seq) => (Some(sector), None, geometry.track_of(sector), seq),
            Begin::Empty => {
                let link = (before.log_end_sector, before.log_end_epoch);
                (None, Some(link), before.start_track, RecordSeq(1))
            }
        };
        Self {
            pool: pool.clone(),
            devices,
            geometry,
            epoch,
            before,
            lenient: false,
            ahead: VecDeque::new(),
            read_ahead: READ_AHEAD,
            unreadable: BTreeSet::new(),
            refused: None,
            hidden: None,
            current: Track::unreadable(first_track),
            next: None,
            expected,
            link,
            log_start_sector,
            open: None,
            ready: VecDeque::new(),
            last_lsn: Lsn(before.log_end_lsn),
            numbered: false,
            last: None,
            records: Vec::new(),
            end: None,
            given_up: None,
            stats: ReplayStats::default(),
            first_track,
            tracks_expected: 1,
        }
    }

    /// The next commit of the prefix, `None` at its end.
    ///
    /// # Errors
    /// When the log is damaged: a record that must have been durable is missing.
    pub async fn next(&mut self) -> Result<Option<RecoveredCommit>, TrailError> {
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        loop {
            if let Some(commit) = self.ready.pop_front() {
                self.stats.commits += 1;
                return Ok(Some(commit));
            }
            if self.end.is_some() {
                return Ok(None);
            }
            self.step().await?;
        }
    }

    /// Tracks replayed so far, and all tracks to replay, for a progress bar.
    pub fn progress(&self) -> (u64, u64) {
        (
            self.stats.replay_tracks.min(self.tracks_expected),
            self.tracks_expected,
        )
    }

    /// The end of the log, once [`Replay::next`] has returned `None`.
    ///
    /// # Panics
    /// When the replay has not ended.
    pub fn into_tail(self) -> RecoveredTail {
        let case = self.end.expect("the replay has ended");
        let (log_end_sector, log_end_seq, log_end_epoch) = match &self.last {
            Some((place, epoch)) => (place.sector, place.seq.0, *epoch),
            None => (
                self.before.log_end_sector,
                self.before.log_end_seq,
                self.before.log_end_epoch,
            ),
        };
        let start_track = match log_end_seq {
            0 => self.before.start_track,
            _ => (self.geometry.track_of(log_end_sector) + 1) % self.geometry.tracks,
        };
        let (log_start_sector, log_start_seq) = self
            .records
            .first()
            .map_or((log_end_sector, log_end_seq + 1), |first| {
                (first.sector, first.seq.0)
            });
        let state = LogState {
            log_start_sector,
            log_start_seq,
            log_end_sector,
            log_end_seq,
            log_end_epoch,
            log_end_lsn: self.last_lsn.0,
            start_track,
        };
        RecoveredTail {
            state,
            records: self.records,
            case,
            given_up: self.given_up,
            stats: self.stats,
        }
    }

    /// Looks at the expected record and does what the decision table says.
    async fn step(&mut self) -> Result<(), TrailError> {
        let mut record = self.find_in(&self.current);
        // An epoch begins on the track after the last record that its recovery kept. A record that the recovery
        // cut off may still lie on this track, with the same number. The record of the later epoch counts.
        if record.is_none() || self.expected.0 <= self.before.log_end_seq {
            if self.next.is_none() {
                self.next = Some(self.read_next().await);
            }
            let next = self.next.as_ref();
            let next = next.filter(|next| next.index != self.first_track);
            let later = next.and_then(|next| self.find_in(next));
            let epoch = |record: &Option<FoundRecord>| record.as_ref().map(|r| r.header.epoch);
            if epoch(&later) > epoch(&record) {
                record = later;
                self.current = self.next.take().expect("just looked at");
            }
        }
        let blocks = record.as_ref().and_then(|record| {
            let bytes = self.current.bytes.as_ref()?;
            record.blocks(&self.geometry, &self.pool, bytes)
        });
        let finding = self.finding(record.as_ref(), blocks.is_some()).await;
        match decide(&finding) {
            Case::Replay => self.accept(record, blocks),
            Case::AbandonedCommit => {
                self.open = None;
                self.accept(record, blocks);
            }
            case @ (Case::End | Case::TornTail) => {
                if self.last.is_none() && !self.find_last_released().await && !self.lenient {
                    return Err(self.damaged(Case::Unreadable));
                }
                self.end = Some(case);
            }
            case => {
                if !self.lenient {
                    return Err(self.damaged(case));
                }
                self.given_up = Some(self.count_given_up().await);
                self.end = Some(case);
            }
        }
        Ok(())
    }

    /// Finds the record before the log start when nothing is replayed: the log start that the youngest record names was
    /// lost with the tail. All before it is at home, and the numbers of records and commits continue after it.
    ///
    /// That record is there. Its track is used again only when a durable record names a later log start, and then the
    /// record at the log start is durable, too. False when its track cannot be read: new commits would get the numbers
    /// of commits that are at home.
    async fn find_last_released(&mut self) -> bool {
        if self.expected.0 <= self.before.log_end_seq + 1 {
            return true;
        }
        let tracks = self.geometry.tracks;
        let mut is_readable = true;
        for index in [self.first_track, (self.first_track + tracks - 1) % tracks] {
            let track = read_track(&self.pool, &self.devices, &self.geometry, index).await;
            is_readable &= track.bytes.is_some();
            let mut found = track.found.into_iter();
            let released = |record: &FoundRecord| {
                record.header.epoch == self.epoch && record.header.seq + 1 == self.expected
            };
            if let Some(record) = found.find(released) {
                let last = match record.header.entries.is_empty() {
                    true => Lsn(record.header.first_lsn.0.saturating_sub(1)),
                    false => record.place.last_lsn,
                };
                self.last_lsn = self.last_lsn.max(last);
                self.last = Some((record.place, self.epoch));
                return true;
            }
        }
        is_readable
    }

    async fn finding(&mut self, record: Option<&FoundRecord>, whole: bool) -> Finding {
        let mut finding = Finding {
            sight: Sight::Missing,
            before_log_end: self.expected.0 <= self.before.log_end_seq,
            proven: false,
            followed: false,
        };
        if let Some(record) = record.filter(|_| whole) {
            finding.sight = Sight::Whole(self.join_of(record));
            return finding;
        }
        (finding.followed, finding.proven) = self.look_ahead().await;
        let unreadable = self.current.bytes.is_none()
            || self.next.as_ref().is_some_and(|next| next.bytes.is_none());
        if unreadable || self.hidden.is_some() {
            finding.sight = Sight::Unreadable;
        }
        finding
    }

    fn join_of(&self, record: &FoundRecord) -> Join {
        let header = &record.header;
        let numbered =
            header.entries.is_empty() || !self.numbered || { header.first_lsn == self.next_lsn() };
        match (&self.open, header.continues) {
            // A record without entries follows any record. An open commit stays open after it, unless the epoch
            // has changed.
            _ if !numbered => Join::Breaks,
            (Some(open), false) if open.epoch != header.epoch => Join::NewEpoch,
            (Some(_), false) if header.entries.is_empty() => Join::Fresh,
            (Some(open), true) if open.lsn == header.first_lsn && open.epoch == header.epoch => {
                Join::Continues
            }
            // At the log start: the earlier part of the commit has been released, so all of it is durable at home.
            (None, true) if !self.numbered => Join::Continues,
            (None, false) => Join::Fresh,
            _ => Join::Breaks,
        }
    }

    fn accept(&mut self, record: Option<FoundRecord>, blocks: Option<Vec<Buf>>) {
        let (record, blocks) = record
            .zip(blocks)
            .expect("the table replays whole records only");
        let (header, mut place) = (record.header, record.place);
        if !self.numbered {
            // All commits before it are at home, and no record is left that has their numbers: those of new commits
            // go on from here, also when the rest of a commit that begins here is lost.
            self.last_lsn = self.last_lsn.max(Lsn(header.first_lsn.0.saturating_sub(1)));
        }
        let next_lsn = self.next_lsn();
        if header.entries.is_empty() {
            // The record belongs to no commit, whatever number it carries.
            (place.first_lsn, place.last_lsn) = (next_lsn, Lsn(next_lsn.0.saturating_sub(1)));
        } else if !self.numbered {
            // The records before it belong to no commit either.
            let first = header.first_lsn;
            for before in &mut self.records {
                (before.first_lsn, before.last_lsn) = (first, Lsn(first.0.saturating_sub(1)));
            }
        }
        let mut blocks = blocks.into_iter();
        let mut lsn = header.first_lsn;
        for entry in &header.entries {
            let open = self.open.get_or_insert_with(|| Open {
                lsn,
                epoch: header.epoch,
                changes: Vec::new(),
            });
            let data = matches!(entry.kind, EntryKind::Data { .. })
                .then(|| blocks.next())
                .flatten();
            open.changes.push(RecoveredChange {
                block: entry.block,
                kind: entry.kind,
                data,
            });
            if entry.last
                && let Some(whole) = self.open.take()
            {
                self.last_lsn = whole.lsn;
                lsn = whole.lsn + 1;
                self.ready.push_back(RecoveredCommit {
                    lsn: whole.lsn,
                    changes: whole.changes,
                });
            }
        }
        self.numbered |= !header.entries.is_empty();
        self.stats.records += 1;
        self.expected = header.seq + 1;
        self.link = Some((place.sector, header.epoch));
        self.last = Some((place, header.epoch));
        self.records.push(place);
    }

    /// The commit that the next entry belongs to.
    fn next_lsn(&self) -> Lsn {
        let open = self.open.as_ref();
        open.map_or(self.last_lsn + 1, |open| open.lsn)
    }

    /// The expected record on `track`: it has the right number, the right link and an epoch that counts. Of several
    /// (one that a recovery cut off, and the one written in its place) the record of the latest epoch counts.
    fn find_in(&self, track: &Track) -> Option<FoundRecord> {
        let counts = |record: &&FoundRecord| {
            let header = &record.header;
            let epoch_counts = if header.seq.0 <= self.before.log_end_seq {
                header.epoch <= self.before.log_end_epoch
            } else {
                header.epoch == self.epoch
            };
            let linked = match (self.link, self.log_start_sector) {
                (Some(link), _) => link == (header.prev_sector, header.prev_epoch),
                (None, Some(head)) => head == record.place.sector,
                (None, None) => true,
            };
            header.seq == self.expected && epoch_counts && linked
        };
        track
            .found
            .iter()
            .filter(counts)
            .max_by_key(|record| record.header.epoch)
            .cloned()
    }

    /// Whether later records of this epoch lie after the hole, and whether one of them proves that the missing record
    /// was durable.
    async fn look_ahead(&mut self) -> (bool, bool) {
        let (epoch, expected) = (self.epoch, self.expected);
        let (mut followed, mut proven, mut discarded) = (false, false, 0);
        // Nobody has looked at the next track yet when the record is there and only its payload is damaged.
        if self.next.is_none() {
            self.next = Some(self.read_next().await);
        }
        let mut look = |track: &Track| {
            for record in &track.found {
                if record.header.epoch == epoch && record.header.seq > expected {
                    (followed, discarded) = (true, discarded + 1);
                    proven |= record.header.durable_seq >= expected;
                }
            }
        };
        look(&self.current);
        if let Some(next) = &self.next {
            look(next);
        }
        // With the next track these are all that can have been written until a flush made the record durable, and the one that the
        // first record after that flush may open.
        for _ in 0..unflushed_tracks_max(self.geometry.tracks) {
            let track = self.read_next().await;
            if self.unreadable.contains(&track.index) {
                self.hidden = Some(track.index);
            }
            look(&track);
        }
        self.stats.discarded = discarded;
        (followed, proven)
    }

    /// Reads every track to count the records after the expected record, which are given up.
    async fn count_given_up(&self) -> GivenUp {
        let (expected, before) = (self.expected, &self.before);
        let (mut first, mut last, mut records) = (None, Lsn(0), 0);
        if expected.0 <= before.log_end_seq {
            last = Lsn(before.log_end_lsn);
            first = Some(last);
        }
        for index in 0..self.geometry.tracks {
            let track = read_track(&self.pool, &self.devices, &self.geometry, index).await;
            for record in track.found {
                let header = &record.header;
                let own = header.epoch == self.epoch && header.seq.0 > before.log_end_seq;
                let older =
                    header.epoch <= before.log_end_epoch && header.seq.0 <= before.log_end_seq;
                if header.seq < expected || !(own || older) {
                    continue;
                }
                records += 1;
                if own && !header.entries.is_empty() {
                    last = last.max(record.place.last_lsn);
                    let least = first.get_or_insert(header.first_lsn);
                    *least = header.first_lsn.min(*least);
                }
            }
        }
        // If no earlier record gives the number of the expected commit, it is that of the epoch's first commit, or
        // unknown.
        let known = self.numbered || expected.0 == before.log_end_seq + 1;
        let first = first.filter(|_| !known).unwrap_or(self.next_lsn());
        GivenUp {
            first,
            last,
            records,
        }
    }

    fn damaged(&self, case: Case) -> TrailError {
        let proof = match case {
            Case::DamagedBeforeTail => "the superblock says that it was durable".to_string(),
            Case::DamagedProven => "a later record says that it was durable".to_string(),
            Case::Unreadable => "its place cannot be read, so it may have been durable \
                 (the error may not last: open the store again first)"
                .to_string(),
            _ => "it does not fit the record before it".to_string(),
        };
        let hidden = self.hidden.filter(|_| case == Case::Unreadable);
        let track = hidden.unwrap_or(self.current.index);
        TrailError::Damaged {
            device: self.device_of(track).name().to_string(),
            seq: self.expected.0,
            offset: self.geometry.track_start(track),
            proof,
        }
    }

    fn device_of(&self, track: u64) -> &Rc<dyn Device> {
        &self.devices[self.geometry.member_of(track)]
    }

    fn fill_ahead(&mut self, from: u64) {
        let mut index = self
            .ahead
            .back()
            .map_or(from, |(last, _)| (last + 1) % self.geometry.tracks);
        while self.ahead.len() < self.read_ahead {
            self.ahead.push_back((
                index,
                start_read(&self.pool, &self.devices, &self.geometry, index),
            ));
            index = (index + 1) % self.geometry.tracks;
        }
    }

    async fn read_next(&mut self) -> Track {
        if self.ahead.is_empty() {
            let last = self.next.as_ref().unwrap_or(&self.current).index;
            let index = (last + 1) % self.geometry.tracks;
            let io = start_read(&self.pool, &self.devices, &self.geometry, index);
            self.ahead.push_back((index, io));
        }
        let (index, io) = self.ahead.pop_front().expect("just filled");
        self.fill_ahead((index + 1) % self.geometry.tracks);
        self.stats.replay_tracks += 1;
        let track = Track::of(&self.geometry, index, io).await;
        match self.unreadable.contains(&index) {
            true => Track::unreadable(index),
            false => track,
        }
    }
}

impl Track {
    fn unreadable(index: u64) -> Self {
        Self {
            index,
            bytes: None,
            found: Vec::new(),
        }
    }

    /// The track with index `index` once `io` has read it.
    async fn of(geometry: &LogGeometry, index: u64, io: DeviceIo) -> Self {
        let (result, data) = io.await;
        let bytes = result.is_ok().then(|| data.into_buf());
        let found = bytes
            .as_ref()
            .map_or(Vec::new(), |bytes| scan_track(geometry, index, bytes));
        Self {
            index,
            bytes,
            found,
        }
    }
}

async fn read_track(
    pool: &BufPool,
    devices: &[Rc<dyn Device>],
    geometry: &LogGeometry,
    index: u64,
) -> Track {
    Track::of(geometry, index, start_read(pool, devices, geometry, index)).await
}

fn start_read(
    pool: &BufPool,
    devices: &[Rc<dyn Device>],
    geometry: &LogGeometry,
    track: u64,
) -> DeviceIo {
    let data = Data::whole(pool.alloc(geometry.track_bytes(track)));
    devices[geometry.member_of(track)].io(Op::Read, geometry.track_start(track), 0, data)
}
