//! A small drive made up for tests.

use tonearm_drive_file::{DriveSpec, GeometrySpec};

/// A drive whose times are easy to add up: 6000 rpm (10 ms a revolution), 100 sectors a track (0.1 ms
/// each), 2 heads, 50 cylinders, 1 ms + 0.1 ms for each cylinder of a seek, no skew, no overheads, a bus
/// that takes no time, no buffer, no cache.
pub const PLAIN: &str = include_str!("../plain.toml");

/// The geometry of the plain drive after `change`.
pub fn geometry(change: impl FnOnce(&mut GeometrySpec)) -> GeometrySpec {
    let spec = DriveSpec::parse("made.toml", PLAIN).unwrap();
    let mut geometry = spec.disk.unwrap().geometry;
    change(&mut geometry);
    geometry
}
