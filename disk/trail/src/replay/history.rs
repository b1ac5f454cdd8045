//! Reads durable commits of a running log, in order, from any commit on that the log still has.
//!
//! Tracks are used strictly in turn. So the log has its commits long after their blocks are at home, until the ring comes
//! round. The reader holds nothing and delays nobody: it notices when a record that it needs has been overwritten.
//!
//! It never returns a commit that is not durable (Durable WAL 5.6): a power cut could take the commit back, and another
//! one would get its number.

use super::{Begin, Replay, Track, read_track};
use crate::log::{Reader, Trail};
use crate::scan::FoundRecord;
use crate::{RecoveredCommit, TrailError};
use tonearm_base::{Lsn, RecordSeq};

/// Why the log has no commit to return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryError {
    /// The log does not have the commit any more, or its place cannot be read.
    Lost(Lsn),
    /// The log has failed.
    Log(TrailError),
}

/// A reader of the log's history.
pub struct History {
    trail: Trail,
    _reader: Reader,
    replay: Replay,
    /// The next commit to return.
    next: Lsn,
}

impl History {
    /// A reader whose first commit is `from`.
    ///
    /// # Errors
    /// When the log does not have that commit any more.
    pub async fn open(trail: &Trail, from: Lsn) -> Result<Self, HistoryError> {
        let reader = trail.reader();
        let begin = find(trail, from).await?;
        let (before, epoch) = trail.epoch();
        let (pool, devices, geometry) = trail.medium();
        let mut replay = Replay::at(pool, devices, geometry, epoch, before, begin);
        // A record on any track may follow: the ring comes round.
        replay.first_track = u64::MAX;
        Ok(Self {
            trail: trail.clone(),
            _reader: reader,
            replay,
            next: from,
        })
    }

    /// The next commit to return.
    pub fn next(&self) -> Lsn {
        self.next
    }

    /// The durable commits from the next one on, until they have about `bytes` bytes of log; none when no more is durable.
    ///
    /// # Errors
    /// When the next commit has been overwritten or cannot be read.
    pub async fn read(&mut self, bytes: u64) -> Result<Vec<RecoveredCommit>, HistoryError> {
        self.trail.check().map_err(HistoryError::Log)?;
        let end = self.trail.durable_end();
        let (replay, mut commits) = (&mut self.replay, Vec::new());
        if end.lsn < self.next {
            return Ok(commits);
        }
        // What was read of the current track may have got more records since.
        replay.ahead.clear();
        replay.next = None;
        replay.current = replay.read(replay.current.index).await;
        let (sector_bytes, mut read) = (replay.geometry.sector_bytes(), 0);
        while replay.expected <= end.seq && (read < bytes || commits.is_empty()) {
            let tracks = replay.geometry.tracks;
            let left = (end.track + tracks - replay.current.index) % tracks;
            // Where heads are followed, a write may come between the reads of two tracks.
            replay.read_ahead = match self.trail.is_followed() {
                true => 0,
                false => left.min(super::READ_AHEAD as u64) as usize,
            };
            let before = replay.expected;
            let step = replay.step().await;
            if step.is_err() || replay.expected == before {
                // Not the end of the log: the record was durable.
                return Err(HistoryError::Lost(self.next));
            }
            if let Some((place, _)) = replay.last {
                let sectors = replay.sectors_of(place.sector);
                read += sectors * sector_bytes;
            }
            replay.records.clear();
            while let Some(commit) = replay.ready.pop_front() {
                // The first record may begin with commits before the wanted one.
                if commit.lsn >= self.next {
                    if commit.lsn != self.next {
                        return Err(HistoryError::Lost(self.next));
                    }
                    self.next = commit.lsn + 1;
                    commits.push(commit);
                }
            }
        }
        Ok(commits)
    }
}

impl Replay {
    async fn read(&self, index: u64) -> Track {
        read_track(&self.pool, &self.devices, &self.geometry, index).await
    }

    /// Sectors of the record at log sector `sector` of the current track.
    fn sectors_of(&self, sector: u64) -> u64 {
        let found = self.current.found.iter();
        let mut at = found.filter(|record| record.place.sector == sector);
        at.next().map_or(1, |record| record.header.sectors())
    }
}

/// Where commit `from` begins. Goes back from the durable end of the log, along the links of the records.
async fn find(trail: &Trail, from: Lsn) -> Result<Begin, HistoryError> {
    let (before, epoch) = trail.epoch();
    let end = trail.durable_end();
    let lost = || HistoryError::Lost(from);
    if end.seq == RecordSeq(0) {
        return Ok(Begin::Empty);
    }
    let (pool, devices, geometry) = trail.medium();
    let mut link = match end.seq.0 > before.log_end_seq {
        true => (end.sector, epoch),
        false => (end.sector, before.log_end_epoch),
    };
    let mut seq = end.seq;
    let mut track: Option<Track> = None;
    loop {
        let index = geometry.track_of(link.0);
        if track.as_ref().is_none_or(|track| track.index != index) {
            track = Some(read_track(pool, &devices, &geometry, index).await);
        }
        let found = track.iter().flat_map(|track| &track.found);
        let is_it = |record: &&FoundRecord| {
            let header = &record.header;
            (record.place.sector, header.epoch) == link && header.seq == seq
        };
        let record = found.clone().find(is_it).ok_or_else(lost)?;
        let header = &record.header;
        let begins = !header.entries.is_empty()
            && (header.first_lsn < from || header.first_lsn == from && !header.continues);
        if begins {
            return Ok(Begin::At(link.0, seq));
        }
        if seq == RecordSeq(1) {
            return Ok(Begin::At(link.0, seq));
        }
        link = (header.prev_sector, header.prev_epoch);
        seq = RecordSeq(seq.0 - 1);
    }
}
