//! The tracks of a drive, as a log needs them.

use crate::geometry::Geometry;
use crate::spec::{DiskSpec, DriveSpec};
use std::ops::Range;
use tonearm_base::Nanos;
use tonearm_head::{Track, TrackMap};

/// The tracks of the drive of `spec` that lie in `sectors`, but for those with slipped or remapped sectors;
/// `None` for a drive without a platter, or if there are none.
pub fn track_map(spec: &DriveSpec, sectors: Range<u64>) -> Option<TrackMap> {
    let disk = spec.disk.as_ref()?;
    let geometry = Geometry::new(&disk.geometry);
    let end = sectors.end.min(geometry.sectors());
    let mut tracks = Vec::new();
    let mut lba = sectors.start;
    // The rest of a track that begins before the range, which is no whole track.
    let mut whole = lba == 0 || geometry.extent(lba).sector == 0;
    while lba < end {
        let extent = geometry.extent(lba);
        let (first, mut parts) = (lba, 1);
        lba += u64::from(extent.sectors);
        while lba < geometry.sectors() {
            let next = geometry.extent(lba);
            if (next.cylinder, next.head) != (extent.cylinder, extent.head) {
                break;
            }
            lba += u64::from(next.sectors);
            parts += 1;
        }
        if whole && parts == 1 && lba <= end {
            tracks.push(Track {
                index: tracks.len() as u64,
                first,
                sectors: extent.sectors,
                turn_sectors: extent.track_sectors,
                angle: (extent.angle >> 32) as u32,
            });
        }
        whole = true;
    }
    TrackMap::from_tracks(tracks.into_iter()).ok()
}

/// Time of a revolution.
pub fn turn(disk: &DiskSpec) -> Nanos {
    Nanos((60e9 / disk.rotation.rpm).round() as u64)
}
