//! The tracks of a drive, as a log would know them.

use crate::experiment::NamedDrive;
use base::Nanos;
use drive::Geometry;
use head::{TrackMap, TrackRun};

/// Time of a revolution.
///
/// # Panics
/// When the drive has no platter.
pub fn turn(drive: &NamedDrive) -> Nanos {
    let disk = drive.spec.disk.as_ref().expect("a drive that turns");
    Nanos((60e9 / disk.rotation.rpm).round() as u64)
}

/// The first `count` tracks of the drive that have no defects.
pub fn outer_tracks(drive: &NamedDrive, count: u64) -> TrackMap {
    let disk = drive.spec.disk.as_ref().expect("a drive that turns");
    let geometry = Geometry::new(&disk.geometry);
    let mut runs = Vec::new();
    let mut lba = 0;
    while lba < geometry.sectors() && (runs.len() as u64) < count {
        let first = geometry.extent(lba);
        let here = |lba| {
            let extent = geometry.extent(lba);
            (extent.cylinder, extent.head) == (first.cylinder, first.head)
        };
        let mut end = lba + u64::from(first.sectors);
        let whole = end >= geometry.sectors() || !here(end);
        while end < geometry.sectors() && here(end) {
            end += u64::from(geometry.extent(end).sectors);
        }
        if whole {
            runs.push(TrackRun {
                first: lba,
                tracks: 1,
                sectors: first.sectors,
                turn_sectors: first.track_sectors,
                angle: (first.angle >> 32) as u32,
                group: 1,
                at: 0,
                short: 0,
                track_skew: 0,
                cylinder_skew: 0,
            });
        }
        lba = end;
    }
    TrackMap::new(runs).expect("tracks of a drive make a map")
}
