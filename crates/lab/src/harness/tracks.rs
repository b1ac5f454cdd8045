//! The tracks of a drive, as a log would know them.

use crate::experiment::NamedDrive;
use base::Nanos;
use drive::Geometry;
use head::{Span, Track, TrackMap};

/// Time of a revolution.
///
/// # Panics
/// When the drive has no platter.
pub fn turn(drive: &NamedDrive) -> Nanos {
    let disk = drive.spec.disk.as_ref().expect("a drive that turns");
    Nanos((60e9 / disk.rotation.rpm).round() as u64)
}

/// The first `count` tracks of the drive whose sectors all have consecutive numbers.
pub fn outer_tracks(drive: &NamedDrive, count: u64) -> TrackMap {
    let whole = Span {
        start: 0,
        end: u64::MAX,
    };
    tracks(drive, whole, count)
}

/// The tracks within `region` whose sectors all have consecutive numbers.
pub fn tracks_within(drive: &NamedDrive, region: Span) -> TrackMap {
    tracks(drive, region, u64::MAX)
}

fn tracks(drive: &NamedDrive, region: Span, count: u64) -> TrackMap {
    let disk = drive.spec.disk.as_ref().expect("a drive that turns");
    let geometry = Geometry::new(&disk.geometry);
    let end = geometry.sectors().min(region.end);
    let mut tracks = Vec::new();
    // A region may begin in the midst of a track.
    let mut lba = match region.start {
        0 => 0,
        start => start + u64::from(geometry.extent(start).sectors),
    };
    while lba < end && (tracks.len() as u64) < count {
        let extent = geometry.extent(lba);
        let (first, mut parts) = (lba, 1);
        lba += u64::from(extent.sectors);
        while lba < end {
            let next = geometry.extent(lba);
            if (next.cylinder, next.head) != (extent.cylinder, extent.head) {
                break;
            }
            lba += u64::from(next.sectors);
            parts += 1;
        }
        if parts == 1 && lba <= end {
            tracks.push(Track {
                index: tracks.len() as u64,
                first,
                sectors: extent.sectors,
                turn_sectors: extent.track_sectors,
                angle: (extent.angle >> 32) as u32,
            });
        }
    }
    TrackMap::from_tracks(tracks.into_iter()).expect("tracks of a drive make a map")
}
