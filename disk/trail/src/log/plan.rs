//! What the writer does next, as a pure function of the log's state.
//!
//! A record goes to the log when commits are queued, or when commits wait for log space and a marker would free
//! some. A marker is a record without entries. It names a new log start, and the tracks before that start are
//! free once the marker is durable.

use super::{GroupCommit, State, TrailOptions, WriteCache};
use crate::unflushed_tracks_max;
use std::ops::Range;
use tonearm_base::{Lsn, Nanos};

/// What the writer does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Waits until something changes, but not beyond this time.
    Wait(Option<Nanos>),
    /// There is nothing to write. The head of an idle drive may move to the next track.
    Reposition,
    /// Asks the flusher to make all written records durable, and waits.
    Flush,
    /// Starts one device write.
    Write(WriteStep),
}

/// A device write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WriteStep {
    /// Writes a marker; else the commits that are queued.
    pub marker: bool,
    /// Sectors of its first record, at least.
    pub min: u64,
    /// Sectors that it would fill if there were room.
    pub wanted: u64,
    pub target: Target,
    /// The write has FUA when it completes this commit.
    pub fua_from: Option<Lsn>,
}

/// Where a write goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// The first free range of the current track that is long enough.
    Current,
    /// The start of the next track, which is opened.
    Next,
    /// The place among these free ranges, each with its track, that the drive's head reaches first.
    Head(Vec<(u64, Range<u64>)>),
}

/// The callers that wait for a commit to be durable.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waiters {
    pub count: usize,
    /// The oldest commit that one of them waits for.
    pub first: Option<Lsn>,
}

/// How long queued commits wait for more, so that they share a device write.
#[derive(Clone, Copy)]
pub(crate) struct CommitDelay {
    /// End of the wait of commits for which no caller waits, during that wait.
    pub lingers_until: Option<Nanos>,
    pub group: GroupCommit,
}

/// The next step, and the delay to remember.
pub(crate) fn plan(
    state: &State,
    options: &TrailOptions,
    waiters: Waiters,
    now: Nanos,
) -> (Step, CommitDelay) {
    let mut delay = state.delay;
    let step = if state.failed.is_some() {
        Step::Wait(None)
    } else if state.queue.is_empty() {
        match (state.ending, state.space_queue.is_empty()) {
            (true, _) => Step::Wait(None),
            (false, true) => Step::Reposition,
            (false, false) => state.plan_marker(options, waiters),
        }
    } else if state.is_pipeline_full(options) {
        Step::Wait(None)
    } else {
        match delay.until(state, options, waiters, now) {
            Some(until) => Step::Wait(Some(until)),
            None => state.plan_commits(options, waiters),
        }
    };
    (step, delay)
}

impl CommitDelay {
    /// Until when the queued commits wait for more; `None` when they are to be written now.
    fn until(
        &mut self,
        state: &State,
        options: &TrailOptions,
        waiters: Waiters,
        now: Nanos,
    ) -> Option<Nanos> {
        let urgent = !state.space_queue.is_empty() || state.queue.bytes() >= options.pipeline_bytes;
        self.lingers_until = match self.lingers_until {
            _ if options.linger == Nanos(0) || urgent || waiters.count > 0 => None,
            None => Some(now + options.linger.0),
            Some(until) if now < until => Some(until),
            Some(_) => None,
        };
        if self.lingers_until.is_some() {
            return self.lingers_until;
        }
        let durability = &state.durability;
        // Callers that wait for a flush of written records do not wait for what is queued. Where a head is
        // followed, the place of a write depends on its time.
        let flushing = durability.durable() != durability.flushed();
        if urgent
            || waiters.count == 0
            || durability.writes_in_flight() > 0
            || flushing
            || !state.heads.is_empty()
        {
            return None;
        }
        self.group.waits_until(now, waiters.count)
    }
}

impl State {
    /// True when no further device write may start beside those under way. With heads, a busy drive says so itself.
    fn is_pipeline_full(&self, options: &TrailOptions) -> bool {
        let under_way = self.durability.writes_in_flight();
        self.heads.is_empty()
            && (under_way >= options.writes_in_flight_max
                || (under_way > 0 && self.queue.bytes() < options.pipeline_bytes))
    }

    fn plan_commits(&self, options: &TrailOptions, waiters: Waiters) -> Step {
        let min = self.queue.min_sectors(&self.geometry);
        if self.ring.first_fit(min, false).is_none() {
            if self.undurable_tracks() > unflushed_tracks_max(self.geometry.tracks) {
                return Step::Flush;
            }
            if !self.ring.may_open(self.ring.log_start()) {
                return self.plan_marker(options, waiters);
            }
        }
        self.plan_write(options, waiters, (min, self.queue.promised()), false)
    }

    /// A marker, if the log start has moved since a record last named it.
    fn plan_marker(&self, options: &TrailOptions, waiters: Waiters) -> Step {
        let named = self.ring.log_start();
        if self.log_start_track() <= named || self.durability.writes_in_flight() > 0 {
            return Step::Wait(None);
        }
        if self.durability.flushed().log_start_track > named {
            // A written record names a new log start already.
            return Step::Flush;
        }
        self.plan_write(options, waiters, (1, 1), true)
    }

    /// A write, if there is a place for it and the drive of that place is idle.
    fn plan_write(
        &self,
        options: &TrailOptions,
        waiters: Waiters,
        (min, wanted): (u64, u64),
        marker: bool,
    ) -> Step {
        let Some(target) = self.target(options.threshold_percent, min, marker) else {
            return Step::Wait(None);
        };
        Step::Write(WriteStep {
            marker,
            min,
            wanted,
            target,
            fua_from: self.fua_from(options, waiters),
        })
    }

    /// From which commit on a write has FUA: the first that a caller waits for, when no earlier write is in the
    /// drive's cache. Where a head is followed every write has FUA, because a write to a cache moves no head.
    fn fua_from(&self, options: &TrailOptions, waiters: Waiters) -> Option<Lsn> {
        let durability = &self.durability;
        if options.write_cache == WriteCache::Ordered {
            return None;
        }
        if !self.heads.is_empty() {
            return Some(Lsn(0));
        }
        let alone =
            durability.writes_in_flight() == 0 && durability.durable() == durability.flushed();
        waiters.first.filter(|_| alone)
    }
}
