//! Arm and platter: the place of the heads, and when each sector of an access passes under them.

use crate::rotation::Rotation;
use crate::seek::Seek;
use tonearm_base::Nanos;
use tonearm_drive_file::{Angle, Extent, Geometry};

/// Sectors that are transferred one after the other at the speed of the platter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// First sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// When the first one begins to pass.
    pub begins: Nanos,
    /// Time of one sector times 2^8.
    pub sector_time: u64,
}

impl Run {
    /// Binary digits of `sector_time` that are fractions of a nanosecond.
    pub const DIGITS: u32 = 8;

    /// When the first `count` sectors have passed.
    #[inline]
    pub fn passed(&self, count: u32) -> Nanos {
        Nanos(self.begins.0 + ((u64::from(count) * self.sector_time) >> Self::DIGITS))
    }

    /// When all have passed.
    #[inline]
    pub fn ends(&self) -> Nanos {
        self.passed(self.sectors)
    }

    /// How many sectors have passed whole at `now`.
    pub fn passed_at(&self, now: Nanos) -> u32 {
        let into = now.0.saturating_sub(self.begins.0) << Self::DIGITS;
        // Rounded so that a sector that ends now counts.
        let count = (into + ((1 << Self::DIGITS) - 1)) / self.sector_time;
        count.min(u64::from(self.sectors)) as u32
    }
}

/// Where the heads are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arm {
    /// Cylinder.
    pub cylinder: u32,
    /// Head.
    pub head: u32,
}

/// The moving parts of a drive.
pub struct Mechanism {
    /// The places of sectors.
    pub geometry: Geometry,
    /// How the platter turns.
    pub rotation: Rotation,
    /// How the arm moves.
    pub seek: Seek,
    /// Where the heads are.
    pub arm: Arm,
    /// Sectors that passed under the heads while they read or wrote, or waited for data to write.
    pub passed: u64,
}

impl Mechanism {
    /// Time of a move from where the heads are to `extent`.
    #[inline]
    pub fn seek_time(&self, extent: &Extent, write: bool) -> Nanos {
        let distance = self.arm.cylinder.abs_diff(extent.cylinder);
        self.seek
            .time(distance, self.arm.head != extent.head, write)
    }

    /// Moves the heads to the track of `extent`.
    #[inline]
    pub fn move_to(&mut self, extent: &Extent) {
        self.arm = Arm {
            cylinder: extent.cylinder,
            head: extent.head,
        };
    }

    /// Time from `now` until `angle` is under the heads.
    #[inline]
    pub fn latency(&mut self, now: Nanos, angle: Angle) -> Nanos {
        self.rotation.latency(now, angle)
    }

    /// `sectors` of `extent` from its `first` on. `first` passes next after `ready`.
    #[inline]
    pub fn run(
        &mut self,
        extent: &Extent,
        lba: u64,
        first: u32,
        sectors: u32,
        ready: Nanos,
    ) -> Run {
        let angle = extent
            .angle
            .wrapping_add(u64::from(first).wrapping_mul(extent.width));
        let begins = Nanos(ready.0 + self.latency(ready, angle).0);
        Run {
            lba: lba + u64::from(first),
            sectors,
            begins,
            sector_time: self.sector_time(extent.track_sectors),
        }
    }

    /// Time of a sector on a track of `track_sectors`, times 2^8.
    #[inline]
    pub fn sector_time(&self, track_sectors: u32) -> u64 {
        (self.rotation.period_fixed() >> (16 - Run::DIGITS)) / u64::from(track_sectors)
    }

    /// The index of the sector, of the first `sectors` of `extent`, that begins next after `ready`: 0 unless the heads
    /// are in the middle of them.
    #[inline]
    pub fn first_under(&mut self, extent: &Extent, sectors: u32, ready: Nanos) -> u32 {
        let passed = self.rotation.angle(ready).wrapping_sub(extent.angle);
        let first = passed / extent.width + 1;
        if first < u64::from(sectors) {
            first as u32
        } else {
            0
        }
    }
}
