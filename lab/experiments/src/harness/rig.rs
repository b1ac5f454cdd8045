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

/// Angles of a revolution at which the search for the best write begins.
const PLACES: u64 = 64;

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

    /// The least time that a write of `sectors` sectors within `free` could take now, within a revolution and a quarter
    /// of its start. A perfect predictor would reach it.
    ///
    /// # Panics
    /// When the drive does not rotate, or `free` is shorter than the write.
    pub fn least_write(&mut self, free: Span, sectors: u32) -> Nanos {
        let now = self.now();
        let disk = self.user.drive().disk().expect("a drive that turns");
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
