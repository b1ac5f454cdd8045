//! Predictors for the drives of experiments, with the data that a calibration finds.

use super::tracks::turn;
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_head::{Formula, Head, Online, TrackMap};

/// Trail's geometric formula (Trail 3.1), with the deltas that its search finds on the drive.
///
/// # Panics
/// When a write or read of one sector never comes in time for its own track.
pub fn formula(drive: &DriveFile, map: &TrackMap) -> Box<dyn Head> {
    let deltas = tonearm_calibrate::deltas(&drive.spec, map).expect("some place is in time");
    let switch = Some(head_switch(drive));
    Box::new(Formula::new(map.clone(), turn(drive), deltas, switch))
}

/// Time that the drive needs to write with another head.
///
/// # Panics
/// When the drive does not turn.
pub fn head_switch(drive: &DriveFile) -> Nanos {
    let disk = drive.spec.disk.as_ref().expect("a drive that turns");
    let switch = disk.seek.head_switch_ms + disk.seek.write_settle_ms.max(0.0);
    Nanos((switch * 1e6) as u64)
}

/// The predictor that learns from each completed write. It gets only the tracks.
pub fn online(map: &TrackMap) -> Box<dyn Head> {
    Box::new(Online::with_map(map.clone()))
}
