//! A drive with one user that waits for each request before it sends the next.

use crate::drive::Drive;
use std::ops::Range;
use tonearm_base::Nanos;
use tonearm_world::{Done, DriveRequest, Kind, Timing};

/// One request at a time, and think time between them.
pub struct ClosedLoop {
    drive: Drive,
    now: Nanos,
    requests: u64,
    done: Vec<Done>,
}

/// Angles of a revolution at which the search for the best write begins.
const PLACES: u64 = 64;

impl ClosedLoop {
    /// A user of `drive` from time 0 on.
    pub fn new(drive: Drive) -> Self {
        Self {
            drive,
            now: Nanos(0),
            requests: 0,
            done: Vec::new(),
        }
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Lets `time` pass.
    pub fn think(&mut self, time: Nanos) {
        self.now = Nanos(self.now.0 + time.0);
    }

    /// Sets the clock, for a user whose own clock decides when requests are sent.
    pub fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Sends a request for `sectors` sectors from `lba` on, waits for its end, and returns the time that it took. A
    /// write is done when it is on the medium.
    pub fn serve(&mut self, kind: Kind, lba: u64, sectors: u32) -> Nanos {
        let request = DriveRequest {
            id: self.requests,
            kind,
            fua: kind == Kind::Write,
            lba,
            sectors,
        };
        self.serve_request(request)
    }

    /// Writes `sectors` sectors from `lba` on, into the drive's cache if it has one.
    pub fn write_cached(&mut self, lba: u64, sectors: u32) -> Nanos {
        let request = DriveRequest {
            id: self.requests,
            kind: Kind::Write,
            fua: false,
            lba,
            sectors,
        };
        self.serve_request(request)
    }

    /// The drive.
    pub fn drive(&mut self) -> &mut Drive {
        &mut self.drive
    }

    /// The least time that a write of `sectors` sectors within `free` could take now, within a revolution and a
    /// quarter of its start. A perfect predictor would reach it.
    ///
    /// # Panics
    /// When the drive does not rotate, or `free` is shorter than the write.
    pub fn least_write(&mut self, free: Range<u64>, sectors: u32) -> Nanos {
        let now = self.now;
        let disk = self.drive.disk().expect("a drive that turns");
        let track = u64::from(disk.mechanism().geometry.extent(free.start).track_sectors);
        let last = free.end - u64::from(sectors);
        let last = last.min(free.start + track + track / 4);
        let step = (track / PLACES).max(1);
        let mut best = (Nanos(u64::MAX), free.start);
        for first in (free.start..=last).step_by(step as usize) {
            best = best.min((disk.write_time(now, first, sectors), first));
        }
        // Before the best of these lies the last place that is in time, and before that the places one revolution
        // later.
        let (mut late, mut good) = (best.1.saturating_sub(step), best.1);
        while good - late > 1 {
            let middle = late.midpoint(good);
            if middle < free.start {
                break;
            }
            let time = disk.write_time(now, middle, sectors);
            if time <= best.0 {
                (best.0, good) = (time, middle);
            } else {
                late = middle;
            }
        }
        best.0
    }

    fn serve_request(&mut self, request: DriveRequest) -> Nanos {
        self.requests += 1;
        let sent = self.now;
        // First, the drive's own activity up to then.
        self.drive.advance(sent, &mut self.done);
        self.done.clear();
        self.drive.submit(sent, request);
        loop {
            let next = self.drive.next().expect("a request under way ends");
            self.drive.advance(next, &mut self.done);
            if let Some(end) = self.done.iter().find(|done| done.id == request.id) {
                self.now = end.at;
                self.done.clear();
                return Nanos(self.now.0 - sent.0);
            }
            self.done.clear();
        }
    }
}
