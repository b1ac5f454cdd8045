//! The least time that a drive needs for a write that loses no turn of the platter.
//!
//! Computed from the drive's file, as a reference for predictors. No predictor uses it.

use tonearm_base::Nanos;
use tonearm_drive::Seek;
use tonearm_drive_file::DriveFile;
use tonearm_drive_file::{DiskSpec, Geometry};
use tonearm_head::Access;

/// Time that a drive needs besides the wait for the platter.
pub struct Floor {
    spec: DiskSpec,
    geometry: Geometry,
    seek: Seek,
    turn_ns: f64,
}

/// The previous request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Before {
    /// It was a write.
    pub was_write: bool,
    /// Its last sector.
    pub last: u64,
}

impl Floor {
    /// The least times of `drive`.
    ///
    /// # Panics
    /// When it does not rotate.
    pub fn new(drive: &DriveFile) -> Self {
        let spec = drive
            .spec
            .disk
            .as_ref()
            .expect("a drive that turns")
            .clone();
        let geometry = Geometry::new(&spec.geometry);
        let seek = Seek::new(&spec.seek, geometry.cylinders());
        Self {
            turn_ns: 60e9 / spec.rotation.rpm,
            geometry,
            seek,
            spec,
        }
    }

    /// Command, arm and end of `write` after `before`: everything but the platter's part. In milliseconds.
    pub fn overhead_ms(&self, before: Before, write: &Access) -> f64 {
        let overhead = &self.spec.overhead;
        let command = if before.was_write {
            overhead.write_miss_ms.write
        } else {
            overhead.write_miss_ms.read
        };
        let (arm_from, data_from, released) = match &overhead.write_detour {
            None => (command, command + overhead.prepare_ms, 0.0),
            Some(detour) => (
                detour.command_ms + detour.seek_delay_ms,
                detour.command_ms
                    + detour.disconnect_ms
                    + detour.away_ms
                    + overhead.reconnect_ms
                    + overhead.prepare_ms,
                overhead.reconnect_again_ms,
            ),
        };
        let here = self.geometry.extent(before.last);
        let there = self.geometry.extent(write.first);
        let distance = here.cylinder.abs_diff(there.cylinder);
        let moved = self.seek.time(distance, here.head != there.head, true);
        let moved = moved.max(self.seek.same_track).0 as f64 / 1e6;
        let moved = moved.max(overhead.write_seek_at_least_ms);
        let ready = (arm_from + moved).max(data_from + self.spec.bus.write_sector_ms);
        let back = if overhead.write_detour.is_some() {
            released
        } else {
            overhead.reconnect_ms
        };
        ready + back + overhead.write_done_ms
    }

    /// Time in which the sectors of `write` pass under the heads, in milliseconds. They are on one track. Where the bus is
    /// slower than the platter, each sector is written after it has crossed the bus.
    pub fn transfer_ms(&self, write: &Access) -> f64 {
        let track = self.geometry.extent(write.first).track_sectors;
        let sector = self.turn_ns / f64::from(track) / 1e6;
        let slower = self.spec.bus.write_sector_ms.max(sector);
        f64::from(write.sectors - 1) * slower + sector
    }

    /// The time that `write` waited for the platter.
    pub fn rotation(&self, before: Before, write: &Access) -> Nanos {
        let took = (write.done.0 - write.sent.0) as f64 / 1e6;
        let wait = took - self.overhead_ms(before, write) - self.transfer_ms(write);
        Nanos((wait.max(0.0) * 1e6) as u64)
    }
}
