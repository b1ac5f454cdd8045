//! A drive with one user, as predictors see it.

use crate::experiment::Random;
use tonearm_base::Nanos;
use tonearm_drive::{ClosedLoop, Drift, Drive, DriveOptions};
use tonearm_drive_file::{DriveFile, HostSpec};
use tonearm_head::{Access, Span};
use tonearm_world::Kind;

/// A drive and its user, which waits for each of its requests.
pub struct Rig {
    user: ClosedLoop,
    host: Host,
}

/// The program's part of each request.
struct Host {
    /// From a request of the program until the drive has it.
    request: Nanos,
    /// Mean time in ms from the end of a request until the program knows it.
    late_ms: f64,
    /// That time of the next request.
    late: Nanos,
    random: Random,
}

impl Host {
    fn new(spec: &HostSpec, seed: u64) -> Self {
        let mut host = Self {
            request: Nanos((spec.request_ms * 1e6) as u64),
            late_ms: spec.late_ms,
            late: Nanos(0),
            random: Random::new(seed, 3),
        };
        host.draw();
        host
    }

    fn draw(&mut self) {
        self.late = Nanos((self.random.exponential(self.late_ms) * 1e6) as u64);
    }
}

impl Rig {
    /// `drive`, switched on at time 0. `seed` determines the phase of its platter.
    pub fn new(drive: &DriveFile, seed: u64) -> Self {
        Self::with_drift(drive, seed, None)
    }

    /// The same, with a spindle whose speed changes.
    pub fn with_drift(drive: &DriveFile, seed: u64, drift: Option<Drift>) -> Self {
        let options = DriveOptions {
            seed,
            phase: Random::new(seed, u64::MAX).unit(),
            drift,
            ..DriveOptions::default()
        };
        Self {
            user: ClosedLoop::new(Drive::new(&drive.spec, &options)),
            host: Host::new(&HostSpec::default(), seed),
        }
    }

    /// The user is a program on `host`. Its times count as the drive's.
    #[must_use]
    pub fn on(mut self, host: &HostSpec, seed: u64) -> Self {
        self.host = Host::new(host, seed);
        self
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.user.now()
    }

    /// Lets time pass until `time`, unless it has passed.
    pub fn wait_until(&mut self, time: Nanos) {
        self.think(time.since(self.now()));
    }

    /// Lets `time` pass.
    pub fn think(&mut self, time: Nanos) {
        self.user.think(time);
    }

    /// Writes to the medium.
    pub fn write(&mut self, first: u64, sectors: u32) -> Access {
        self.serve(Kind::Write, first, sectors)
    }

    /// Reads.
    pub fn read(&mut self, first: u64, sectors: u32) -> Access {
        self.serve(Kind::Read, first, sectors)
    }

    /// Sectors of the drive.
    pub fn sectors(&mut self) -> u64 {
        self.user.drive().sectors()
    }

    /// The least time that a write of `sectors` sectors within `free` could take now: see
    /// [`ClosedLoop::least_write`].
    pub fn least_write(&mut self, free: Span, sectors: u32) -> Nanos {
        let now = self.now();
        self.user.think(self.host.request);
        let least = self.user.least_write(free.start..free.end, sectors);
        self.user.set_now(now);
        Nanos(self.host.request.0 + least.0 + self.host.late.0)
    }

    /// Sends a request and waits for it.
    pub fn serve(&mut self, kind: Kind, first: u64, sectors: u32) -> Access {
        let sent = self.now();
        self.user.think(self.host.request);
        self.user.serve(kind, first, sectors);
        self.user.think(self.host.late);
        self.host.draw();
        Access {
            first,
            sectors,
            sent,
            done: self.now(),
        }
    }
}
