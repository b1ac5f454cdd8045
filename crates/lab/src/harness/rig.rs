//! A drive with one user, as predictors see it.

use crate::experiment::{NamedDrive, Random};
use base::Nanos;
use drive::{ClosedLoop, Drive, DriveOptions, Kind};
use head::Access;

/// A drive and the one who waits for each of its requests.
pub struct Rig {
    user: ClosedLoop,
}

impl Rig {
    /// `drive`, switched on at time 0; `seed` decides where its platter stands.
    pub fn new(drive: &NamedDrive, seed: u64) -> Self {
        let options = DriveOptions {
            seed,
            phase: Random::new(seed, u64::MAX).unit(),
            ..DriveOptions::default()
        };
        Self {
            user: ClosedLoop::new(Drive::new(&drive.spec, &options)),
        }
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.user.now()
    }

    /// Lets time pass until `time`, if that is not over.
    pub fn wait_until(&mut self, time: Nanos) {
        let left = time.0.saturating_sub(self.now().0);
        self.user.think(Nanos(left));
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

    fn serve(&mut self, kind: Kind, first: u64, sectors: u32) -> Access {
        let sent = self.now();
        self.user.serve(kind, first, sectors);
        Access {
            first,
            sectors,
            sent,
            done: self.now(),
        }
    }
}
