//! State of the log: which commits are queued, written, durable and needed, and how much log space is free.
//!
//! [`Durability`] knows which commits are durable: every rule that depends on durability asks it (Durable WAL 5.1 and
//! 5.2). Its invariant: `appended >= flushed >= durable`, and each only grows. `flushed` is the end of the longest
//! gap-free run of completed writes. `durable` is what is known to be on the medium. At a start nothing is known to be
//! durable before the first explicit flush (5.3), so recovery flushes the log before it reads it.
//!
//! [`PinnedCommits`] knows which commits the log must still keep. Each pinned block (or pending trim) holds the
//! oldest commit that wrote it since it was last durable at home. A newer version takes over the hold, so that the
//! tracks of all versions are freed together (Trail 4.1). The log starts with the oldest commit that is held.

use super::bound::Bound;
use super::cause::{Asked, FlushCause};
use super::group_commit::CommitDelay;
use super::kept::{KeptTracks, TrackPlace};
use super::options::{TrailOptions, TrailStart, TrailStats, WriteCache};
use super::predict::WaitPredictor;
use super::sink::Indirect;
use crate::error::TrailError;
use crate::geometry::LogGeometry;
use crate::pack::{Queue, RecordPlace};
use crate::ring::Ring;
use std::collections::VecDeque;
use std::rc::Rc;
use tonearm_base::{Lsn, Nanos, RecordSeq};
use tonearm_format::LogState;
use tonearm_head::Head;
use tonearm_rt::{Rt, Semaphore};

pub(crate) struct State {
    pub geometry: Rc<LogGeometry>,
    pub epoch: u64,
    /// Where the log ended before this epoch.
    pub before: LogState,
    pub ring: Ring,
    /// Heads of the log's drives: none, or one for each.
    pub heads: Vec<DriveHead>,
    pub kept: KeptTracks,
    pub queue: Queue,
    pub indirect: Indirect,
    pub durability: Durability,
    pub retained: PinnedCommits,
    /// Records from the log start on.
    pub live: VecDeque<Live>,
    pub next_seq: RecordSeq,
    pub prev_sector: u64,
    pub prev_epoch: u64,
    /// Last commit of which all records have been sent to the device.
    pub last_whole: Lsn,
    /// The callers that wait for the log to be durable, by cause.
    pub asked: Asked,
    pub waits: WaitPredictor,
    /// How long queued commits wait for more.
    pub delay: CommitDelay,
    /// Sectors reserved for commits that are admitted and not appended yet.
    pub reserved: u64,
    /// Tickets of the commits that wait for log space, first come first served.
    pub space_queue: VecDeque<u64>,
    pub next_ticket: u64,
    pub failed: Option<TrailError>,
    /// No more commits are appended, so markers are of no use.
    pub ending: bool,
    /// Why the store has failed, when the log has not.
    pub given_up: Option<String>,
    /// The bound on the time until a commit is durable, if one is set.
    pub bound: Option<Bound>,
    pub stats: TrailStats,
}

/// A record that recovery may need.
pub(crate) struct Live {
    pub place: RecordPlace,
    pub track: u64,
}

/// The head of one log drive. Requests are sent to the drive one at a time.
pub(crate) struct DriveHead {
    pub head: Box<dyn Head>,
    /// Requests take turns.
    pub turn: Semaphore,
    /// End of the last request.
    pub idle_since: Nanos,
    /// Count of the track to which the head has been moved, or need not be.
    pub moved_to: Option<u64>,
}

impl DriveHead {
    pub fn new(rt: &Rt, head: Box<dyn Head>) -> Self {
        Self {
            head,
            turn: Semaphore::new(rt, 1),
            idle_since: rt.now(),
            moved_to: None,
        }
    }

    /// A request is under way, or waits for its turn.
    pub fn is_busy(&self) -> bool {
        self.turn.used() > 0 || self.turn.waiting() > 0
    }
}

impl State {
    pub fn new(
        rt: &Rt,
        geometry: Rc<LogGeometry>,
        start: TrailStart,
        options: &TrailOptions,
    ) -> Self {
        let log = &start.state;
        let first = start.live.first();
        let first_sector = first.map_or(log.start_track * geometry.track_sectors, |f| f.sector);
        let first_track = geometry.track_of(first_sector);
        let ring = Ring::new(geometry.tracks, log.start_track, first_track);
        let oldest = first.map_or(log.log_end_lsn + 1, |first| first.first_lsn.0);
        let live = start.live.iter().map(|place| Live {
            // Recovery has given up a commit without an end. Such a commit keeps no record: no release would ever free
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
            sector: log.log_end_sector,
            track: ring.current(),
            log_start_track: ring.log_start(),
            log_start_lsn: Lsn(oldest),
        };
        let mut retained = PinnedCommits::new(Lsn(oldest));
        for lsn in oldest..=log.log_end_lsn {
            retained.add_commit(Lsn(lsn));
        }
        let heads = start.heads.into_iter();
        Self {
            epoch: start.epoch,
            before: start.state,
            heads: heads.map(|head| DriveHead::new(rt, head)).collect(),
            kept: KeptTracks::default(),
            queue: Queue::default(),
            indirect: Indirect::default(),
            durability: Durability::new(at, options.write_cache == WriteCache::Ordered),
            retained,
            live,
            next_seq: RecordSeq(log.log_end_seq + 1),
            prev_sector: log.log_end_sector,
            prev_epoch: log.log_end_epoch,
            last_whole: Lsn(log.log_end_lsn),
            asked: Asked::default(),
            waits: WaitPredictor::default(),
            delay: CommitDelay::default(),
            reserved: 0,
            space_queue: VecDeque::new(),
            next_ticket: 0,
            failed: None,
            ending: false,
            given_up: None,
            bound: options
                .delay_max
                .map(|max| Bound::new(max, Lsn(log.log_end_lsn))),
            stats: TrailStats::default(),
            ring,
            geometry,
        }
    }

    /// # Errors
    /// When the store has failed for another reason than the log.
    pub fn check_given_up(&self) -> Result<(), TrailError> {
        match &self.given_up {
            Some(reason) => Err(TrailError::GivenUp(reason.clone())),
            None => Ok(()),
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

    /// Where the current track lies.
    pub fn current_place(&self) -> TrackPlace {
        let (geometry, track) = (&self.geometry, self.ring.current_index());
        (geometry.member_of(track), geometry.track_start(track))
    }

    /// Tracks written beyond that of the last durable record, if the next track were opened.
    pub fn undurable_tracks(&self) -> u64 {
        self.ring.current() + 1 - self.durability.durable().track
    }

    /// Asks the flusher to make durable what has been written.
    pub fn force_flush(&mut self, cause: FlushCause) {
        self.asked.force(self.durability.flushed().seq, cause);
    }

    /// Counts a flush, or a write with FUA.
    pub fn count_flush(&mut self) {
        let durable = self.durability.durable();
        let cause = self.asked.cause(durable.lsn, durable.seq);
        self.stats.by_cause.count(cause);
    }
}

/// A position in the log: the end of a device write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Last commit that is whole at this point.
    pub lsn: Lsn,
    /// Last record.
    pub seq: RecordSeq,
    /// Its log sector.
    pub sector: u64,
    /// Count of the track of that record.
    pub track: u64,
    /// Count of the track of the log start that the record names.
    pub log_start_track: u64,
    /// First commit of that log start: recovery replays none before it.
    pub log_start_lsn: Lsn,
}

struct InFlight {
    id: u64,
    end: Point,
    done: bool,
    durable: bool,
}

/// Appended, flushed and durable positions of the log.
pub struct Durability {
    appended: Lsn,
    flushed: Point,
    durable: Point,
    in_flight: VecDeque<InFlight>,
    next_id: u64,
    /// The storage keeps completed writes in order, so that a completed write is durable.
    ordered: bool,
}

impl Durability {
    /// A log that is durable up to `start`.
    pub fn new(start: Point, ordered: bool) -> Self {
        Self {
            appended: start.lsn,
            flushed: start,
            durable: start,
            in_flight: VecDeque::new(),
            next_id: 0,
            ordered,
        }
    }

    /// Notes that commit `lsn` has been queued.
    pub fn append(&mut self, lsn: Lsn) {
        assert!(
            lsn.0 == self.appended.0 + 1,
            "commits are appended in order"
        );
        self.appended = lsn;
    }

    /// Notes the start of a device write that ends at `end`. Returns the identity of the write.
    pub fn start_write(&mut self, end: Point) -> u64 {
        assert!(end.lsn <= self.appended, "written before it was appended");
        let id = self.next_id;
        self.next_id += 1;
        self.in_flight.push_back(InFlight {
            id,
            end,
            done: false,
            durable: false,
        });
        id
    }

    /// Notes the completion of write `id`, which had FUA or not. True when `durable` grew.
    pub fn finish_write(&mut self, id: u64, fua: bool) -> bool {
        let write = self
            .in_flight
            .iter_mut()
            .find(|write| write.id == id)
            .expect("the write is under way");
        (write.done, write.durable) = (true, fua);
        let before = self.durable;
        while let Some(write) = self.in_flight.front().filter(|write| write.done) {
            // FUA counts only when no earlier write is still in the drive's cache.
            if self.ordered || (write.durable && self.durable == self.flushed) {
                self.durable = write.end;
            }
            self.flushed = write.end;
            self.in_flight.pop_front();
        }
        assert!(self.appended >= self.flushed.lsn && self.flushed.lsn >= self.durable.lsn);
        self.durable != before
    }

    /// Notes the completion of a flush that was sent when `flushed` stood at `covered`.
    pub fn finish_flush(&mut self, covered: Point) {
        assert!(
            covered.seq <= self.flushed.seq,
            "a flush covers only writes that completed before it"
        );
        if covered.seq > self.durable.seq {
            self.durable = covered;
        }
    }

    /// Last commit queued.
    pub fn appended(&self) -> Lsn {
        self.appended
    }

    /// End of the longest gap-free run of completed writes.
    pub fn flushed(&self) -> Point {
        self.flushed
    }

    /// End of what is on the medium.
    pub fn durable(&self) -> Point {
        self.durable
    }

    /// Device writes under way.
    pub fn writes_in_flight(&self) -> usize {
        self.in_flight.len()
    }
}

/// The commits that the log keeps, each with its number of holds.
#[derive(Debug)]
pub struct PinnedCommits {
    first: Lsn,
    holds: VecDeque<u32>,
}

impl PinnedCommits {
    /// An account without commits. The next commit is `next`.
    pub fn new(next: Lsn) -> Self {
        Self {
            first: next,
            holds: VecDeque::new(),
        }
    }

    /// Adds commit `lsn`, the next one, without holds.
    pub fn add_commit(&mut self, lsn: Lsn) {
        assert_eq!(
            lsn.0,
            self.first.0 + self.holds.len() as u64,
            "commits are added in order"
        );
        self.holds.push_back(0);
    }

    /// Adds a hold to commit `lsn`.
    pub fn hold(&mut self, lsn: Lsn) {
        self.holds[(lsn - self.first) as usize] += 1;
    }

    /// Removes a hold from commit `lsn`.
    pub fn release(&mut self, lsn: Lsn) {
        let holds = &mut self.holds[(lsn - self.first) as usize];
        assert!(*holds > 0, "released more often than held");
        *holds -= 1;
    }

    /// Removes commits without holds from the front, up to `durable`. Returns the oldest commit that stays, or the next
    /// one to come.
    pub fn advance(&mut self, durable: Lsn) -> Lsn {
        while self.first <= durable && self.holds.front() == Some(&0) {
            self.holds.pop_front();
            self.first += 1;
        }
        self.first
    }

    /// Number of commits in the account.
    pub fn len(&self) -> usize {
        self.holds.len()
    }
}
