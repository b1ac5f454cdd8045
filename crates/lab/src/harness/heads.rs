//! Predictors for the drives of experiments.

use super::stand_in::Known;
use super::tracks::turn;
use crate::experiment::NamedDrive;
use base::Nanos;
use head::{Head, TrackMap};

fn lead(drive: &NamedDrive) -> [Nanos; 2] {
    let disk = drive.spec.disk.as_ref().expect("a drive that turns");
    let o = &disk.overhead;
    let rest = disk.seek.same_track_ms + o.write_done_ms;
    [
        o.write_miss_ms.write + rest,
        o.write_miss_ms.read + rest + o.read_done_ms,
    ]
    .map(|ms| Nanos((ms * 1e6) as u64))
}

/// Trail's geometric formula (Trail 3.1).
pub fn formula<'a>(drive: &NamedDrive, map: &'a TrackMap) -> Box<dyn Head + 'a> {
    Box::new(Known::new(map, turn(drive), lead(drive), true))
}

/// The predictor that learns from each completed write.
pub fn online<'a>(drive: &NamedDrive, map: &'a TrackMap) -> Box<dyn Head + 'a> {
    Box::new(Known::new(map, turn(drive), lead(drive), false))
}
