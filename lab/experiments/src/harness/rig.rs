//! A drive with one user, as predictors see it.

use crate::experiment::Random;
use tonearm_base::Nanos;
use tonearm_drive::{ClosedLoop, Drift, Drive, DriveOptions};
use tonearm_drive_file::DriveFile;
use tonearm_head::{Access, Span};
use tonearm_world::Kind;

/// A drive and its user, which waits for each of its requests.
pub struct Rig {
    user: ClosedLoop,
    /// Mean time in ms after which the host notices an end, and its random numbers.
    late: Option<(f64, Random)>,
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
            late: None,
        }
    }

    /// A host that notices the end of a request late, by this time on average, exponentially distributed.
    #[must_use]
    pub fn late(mut self, mean_ms: f64, seed: u64) -> Self {
        self.late = (mean_ms > 0.0).then(|| (mean_ms, Random::new(seed, 3)));
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
        self.user.least_write(free.start..free.end, sectors)
    }

    /// Sends a request and waits for it.
    pub fn serve(&mut self, kind: Kind, first: u64, sectors: u32) -> Access {
        let sent = self.now();
        self.user.serve(kind, first, sectors);
        if let Some((mean_ms, random)) = &mut self.late {
            let late = random.exponential(*mean_ms);
            self.user.think(Nanos((late * 1e6) as u64));
        }
        Access {
            first,
            sectors,
            sent,
            done: self.now(),
        }
    }
}
