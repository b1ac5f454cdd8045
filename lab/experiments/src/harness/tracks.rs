//! The tracks of a drive, as a log gets them from the drive's file.

use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_head::{Span, TrackMap};

/// Time of a revolution.
///
/// # Panics
/// When the drive has no platter.
pub fn turn(drive: &DriveFile) -> Nanos {
    tonearm_drive_file::turn(drive.spec.disk.as_ref().expect("a drive that turns"))
}

/// The tracks within `region` whose sectors all have consecutive numbers.
///
/// # Panics
/// When there are none.
pub fn tracks_within(drive: &DriveFile, region: Span) -> TrackMap {
    let map = tonearm_drive_file::track_map(&drive.spec, region.start..region.end);
    map.expect("a region of a drive that turns has tracks")
}

/// All tracks of the drive.
///
/// # Panics
/// As [`tracks_within`].
pub fn all_tracks(drive: &DriveFile) -> TrackMap {
    let all = Span {
        start: 0,
        end: u64::MAX,
    };
    tracks_within(drive, all)
}
