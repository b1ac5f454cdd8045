//! Drives, and true data about them, which no predictor gets.

use tonearm_base::Nanos;
use tonearm_drive::{ClosedLoop, Drive, DriveOptions};
use tonearm_drive_file::{DriveFile, DriveSpec, track_map};
use tonearm_head::{Access, Track};
use tonearm_world::Kind;

/// The drive of the project with this name.
pub fn spec(name: &str) -> DriveSpec {
    DriveFile::of_library(name).spec
}

/// It, with one user.
pub fn user(spec: &DriveSpec, phase: f64) -> ClosedLoop {
    let options = DriveOptions {
        phase,
        ..DriveOptions::default()
    };
    ClosedLoop::new(Drive::new(spec, &options))
}

/// Time of a revolution.
pub fn turn(spec: &DriveSpec) -> Nanos {
    Nanos((60e9 / spec.disk.as_ref().unwrap().rotation.rpm).round() as u64)
}

/// Sends a request and waits for it.
pub fn send(user: &mut ClosedLoop, kind: Kind, first: u64, sectors: u32) -> Access {
    let sent = user.now();
    user.serve(kind, first, sectors);
    Access {
        first,
        sectors,
        sent,
        done: user.now(),
    }
}

/// Sends a write and waits for it.
pub fn write(user: &mut ClosedLoop, first: u64, sectors: u32) -> Access {
    send(user, Kind::Write, first, sectors)
}

/// The tracks of the first `limit` sectors without slipped or remapped sectors.
pub fn tracks(spec: &DriveSpec, limit: u64) -> Vec<Track> {
    let map = track_map(spec, 0..limit).unwrap();
    (0..map.tracks()).map(|index| map.track(index)).collect()
}
