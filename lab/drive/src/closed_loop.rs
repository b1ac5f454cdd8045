//! A drive with one user that waits for each request before it sends the next.

use crate::drive::Drive;
use tonearm_base::Nanos;
use tonearm_world::{Done, DriveRequest, Kind, Timing};

/// One request at a time, and think time between them.
pub struct ClosedLoop {
    drive: Drive,
    now: Nanos,
    requests: u64,
    done: Vec<Done>,
}

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
