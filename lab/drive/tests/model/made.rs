//! Small drives for tests, and ways to run them.

use tonearm_base::Nanos;
use tonearm_drive::{Disk, DriveOptions};
use tonearm_drive_file::{DiskSpec, DriveSpec, WriteCacheSpec};
use tonearm_world::{Done, DriveRequest, Kind, Timing};

/// A drive whose times are easy to add: 6000 rpm (10 ms a revolution), 100 sectors a track (0.1 ms each), 2 heads, 50
/// cylinders, 1 ms + 0.1 ms for each cylinder of a seek, no skew, no overheads, a bus that takes no time, no buffer, no
/// cache.
pub const PLAIN: &str = include_str!("../../../drive-file/tests/plain.toml");

/// The plain drive after `change`.
pub fn made(change: impl FnOnce(&mut DiskSpec, &mut WriteCacheSpec)) -> DriveSpec {
    let mut spec = DriveSpec::parse("made.toml", PLAIN).unwrap();
    change(spec.disk.as_mut().unwrap(), &mut spec.write_cache);
    spec
}

/// The mechanical drive of `spec`.
pub fn disk(spec: &DriveSpec) -> Disk {
    disk_with(spec, &DriveOptions::default())
}

/// The mechanical drive of `spec`, switched on with `options`.
pub fn disk_with(spec: &DriveSpec, options: &DriveOptions) -> Disk {
    Disk::new(spec.disk.as_ref().unwrap(), &spec.write_cache, options)
}

pub fn read(lba: u64, sectors: u32) -> DriveRequest {
    request(Kind::Read, lba, sectors)
}

pub fn write(lba: u64, sectors: u32) -> DriveRequest {
    request(Kind::Write, lba, sectors)
}

pub fn fua(lba: u64, sectors: u32) -> DriveRequest {
    DriveRequest {
        fua: true,
        ..write(lba, sectors)
    }
}

pub fn flush() -> DriveRequest {
    request(Kind::Flush, 0, 0)
}

fn request(kind: Kind, lba: u64, sectors: u32) -> DriveRequest {
    DriveRequest {
        id: 0,
        kind,
        fua: false,
        lba,
        sectors,
    }
}

/// Runs one request on an idle drive. Returns when it is done.
pub fn run(drive: &mut impl Timing, now: Nanos, request: DriveRequest) -> Nanos {
    drive.submit(now, request);
    let mut done = Vec::new();
    let at = drive.next().unwrap();
    assert!(at >= now, "done before it came");
    drive.advance(at, &mut done);
    assert_eq!(done, [Done { id: request.id, at }]);
    at
}

/// Runs one request that comes at `now_ms`. Returns how many ms it takes.
pub fn takes(drive: &mut impl Timing, now_ms: f64, request: DriveRequest) -> f64 {
    let now = Nanos((now_ms * 1e6).round() as u64);
    (run(drive, now, request).0 - now.0) as f64 / 1e6
}

/// Equal except for a rounding error of some nanoseconds.
#[track_caller]
pub fn near(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() < 1e-4,
        "{found} ms where {expected} ms were expected"
    );
}
