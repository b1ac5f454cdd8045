//! The data that a log needs about a drive: its tracks, the time of a revolution, the delays between two requests.

use crate::geometry::Geometry;
use crate::spec::{DiskSpec, DriveSpec};
use std::ops::Range;
use tonearm_base::Nanos;
use tonearm_head::{Delta, Deltas, Track, TrackMap};

/// The tracks of the drive of `spec` that lie in `sectors`, without those that have slipped or remapped sectors;
/// `None` for a drive without a platter or with a media cache, which does not write where its host says, or if there are
/// none.
pub fn track_map(spec: &DriveSpec, sectors: Range<u64>) -> Option<TrackMap> {
    let disk = spec.disk.as_ref().filter(|_| spec.has_head())?;
    let geometry = Geometry::new(&disk.geometry);
    let end = sectors.end.min(geometry.sectors());
    let mut tracks = Vec::new();
    let mut lba = sectors.start;
    // A track that begins before the range is not whole.
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

/// The delays between two requests, for Trail's formula; `None` if the file does not have them.
pub fn deltas(disk: &DiskSpec) -> Option<Deltas> {
    let spec = disk.deltas.as_ref()?;
    let delta = |sectors| Delta {
        sectors,
        turn_sectors: spec.track_sectors,
    };
    Some(Deltas {
        write_after_write: delta(spec.write_after_write),
        write_after_read: delta(spec.write_after_read),
        read_after_write: delta(spec.read_after_write),
        read_lag_ns: spec.read_lag_ns,
        read_ahead: disk.buffer.read_ahead_sectors,
    })
}
