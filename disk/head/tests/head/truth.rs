//! Drives, and what is true of them, which no predictor is told.

use tonearm_base::Nanos;
use tonearm_drive::{ClosedLoop, Drive, DriveOptions, DriveSpec, Extent, Geometry, library};
use tonearm_head::{Access, Track};
use tonearm_world::Kind;

/// The drive of the project with this name.
pub fn spec(name: &str) -> DriveSpec {
    let drive = library().iter().find(|drive| drive.name == name).unwrap();
    DriveSpec::parse(name, drive.text).unwrap()
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

/// The tracks of the first `limit` sectors without slips or remapped sectors among theirs.
pub fn tracks(spec: &DriveSpec, limit: u64) -> Vec<Track> {
    let geometry = Geometry::new(&spec.disk.as_ref().unwrap().geometry);
    let limit = limit.min(geometry.sectors());
    let mut tracks: Vec<Track> = Vec::new();
    let place = |extent: &Extent| (extent.cylinder, extent.head);
    let mut at = 0;
    while at < limit {
        let extent = geometry.extent(at);
        let first = at;
        at += u64::from(extent.sectors);
        let mut whole = true;
        while at < limit {
            let next = geometry.extent(at);
            if place(&next) != place(&extent) {
                break;
            }
            whole = false;
            at += u64::from(next.sectors);
        }
        if whole && at <= limit {
            tracks.push(Track {
                index: tracks.len() as u64,
                first,
                sectors: extent.sectors,
                turn_sectors: extent.track_sectors,
                angle: (extent.angle >> 32) as u32,
            });
        }
    }
    tracks
}
