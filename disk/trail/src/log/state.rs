//! State of the log: what is queued, written, durable and needed, and the log space that is left.

use super::{
    CommitDelay, DriveHead, GroupCommit, LogGeometry, TrailOptions, TrailStart, TrailStats,
    WriteCache,
};
use crate::durability::{Durability, Point};
use crate::error::TrailError;
use crate::pack::{Queue, RecordPlace};
use crate::retained::RetainedCommits;
use crate::ring::Ring;
use std::collections::VecDeque;
use std::rc::Rc;
use tonearm_base::{Lsn, Nanos, RecordSeq};

pub(crate) struct State {
    pub geometry: Rc<LogGeometry>,
    pub epoch: u64,
    pub ring: Ring,
    /// Heads of the log's drives: none, or one for each.
    pub heads: Vec<DriveHead>,
    pub queue: Queue,
    pub durability: Durability,
    pub retained: RetainedCommits,
    /// Records from the log start on.
    pub live: VecDeque<Live>,
    pub next_seq: RecordSeq,
    pub prev_sector: u64,
    pub prev_epoch: u64,
    /// Last commit of which all records have been sent to the device.
    pub last_whole: Lsn,
    /// Records up to this one are to be flushed as soon as they are written.
    pub force_seq: RecordSeq,
    /// How long queued commits wait for more.
    pub delay: CommitDelay,
    /// Sectors reserved for commits that are admitted and not appended yet.
    pub reserved: u64,
    /// Tickets of the commits that wait for log space, first come first served.
    pub space_queue: VecDeque<u64>,
    pub next_ticket: u64,
    pub failed: Option<TrailError>,
    /// Nothing is appended any more, so that markers are useless.
    pub ending: bool,
    /// Why the store has failed, when the log has not.
    pub given_up: Option<String>,
    pub stats: TrailStats,
}

/// A record that recovery may need.
pub(crate) struct Live {
    pub place: RecordPlace,
    pub track: u64,
}

impl State {
    pub fn new(
        geometry: Rc<LogGeometry>,
        start: TrailStart,
        options: &TrailOptions,
        now: Nanos,
    ) -> Self {
        let log = &start.state;
        let first = start.live.first();
        let first_sector = first.map_or(log.start_track * geometry.track_sectors, |f| f.sector);
        let first_track = geometry.track_of(first_sector);
        let ring = Ring::new(geometry.tracks, log.start_track, first_track);
        let oldest = first.map_or(log.log_end_lsn + 1, |first| first.first_lsn.0);
        let live = start.live.iter().map(|place| Live {
            // A commit without an end, which recovery has given up, keeps no record: no release would ever free
            // the record, and an orderly end would find it in the log.
            place: RecordPlace {
                last_lsn: place.last_lsn.min(Lsn(log.log_end_lsn)),
                ..*place
            },
            track: ring.count_of(geometry.track_of(place.sector)),
        });
        let live = live.collect();
        let at = Point {
            lsn: Lsn(log.log_end_lsn),
            seq: RecordSeq(log.log_end_seq),
            track: ring.current(),
            log_start_track: ring.log_start(),
            log_start_lsn: Lsn(oldest),
        };
        let mut retained = RetainedCommits::new(Lsn(oldest));
        for lsn in oldest..=log.log_end_lsn {
            retained.add_commit(Lsn(lsn));
        }
        let heads = start.heads.into_iter();
        Self {
            epoch: start.epoch,
            heads: heads.map(|head| DriveHead::new(head, now)).collect(),
            queue: Queue::default(),
            durability: Durability::new(at, options.write_cache == WriteCache::Ordered),
            retained,
            live,
            next_seq: RecordSeq(log.log_end_seq + 1),
            prev_sector: log.log_end_sector,
            prev_epoch: log.log_end_epoch,
            last_whole: Lsn(log.log_end_lsn),
            force_seq: RecordSeq(0),
            delay: CommitDelay {
                lingers_until: None,
                group: GroupCommit::default(),
            },
            reserved: 0,
            space_queue: VecDeque::new(),
            next_ticket: 0,
            failed: None,
            ending: false,
            given_up: None,
            stats: TrailStats::default(),
            ring,
            geometry,
        }
    }

    /// Sectors that further commits can reserve.
    pub fn space(&self) -> u64 {
        let sectors = self.ring.openable() * self.geometry.track_sectors_usable();
        sectors.saturating_sub(self.promised())
    }

    /// Sectors promised to commits, queued or not.
    pub fn promised(&self) -> u64 {
        self.reserved + self.queue.promised()
    }

    /// Drops the records that recovery no longer needs from the front of `live`.
    pub fn advance_log_start(&mut self) {
        let durable = self.durability.durable();
        let oldest = self.retained.advance(durable.lsn);
        // A record that is not durable stays: a marker or a device write ends with it.
        while self
            .live
            .front()
            .is_some_and(|live| live.place.last_lsn < oldest && live.place.seq <= durable.seq)
        {
            self.live.pop_front();
        }
    }

    /// Count of the track of the log start that a record written now would name.
    pub fn log_start_track(&self) -> u64 {
        let first = self.live.front();
        first.map_or(self.ring.current(), |live| live.track)
    }

    /// Tracks written beyond that of the last durable record, if the next track were opened.
    pub fn undurable_tracks(&self) -> u64 {
        self.ring.current() + 1 - self.durability.durable().track
    }

    /// Asks the flusher to make durable what has been written.
    pub fn force_flush(&mut self) {
        self.force_seq = self.force_seq.max(self.durability.flushed().seq);
    }
}
