//! What a log needs to know of a drive, from its file: the tracks, and what passes between two requests.

use std::ops::Range;
use tonearm_base::Nanos;
use tonearm_drive::{ClosedLoop, DiskSpec, Drive, DriveOptions, DriveSpec, Geometry};
use tonearm_head::{Access, AccessKind, Delta, DeltaSearch, Deltas, Track, TrackMap};
use tonearm_world::Kind;

/// Tracks on which deltas are looked for: more than a drive reads ahead.
const TRACKS: usize = 300;
/// What a host takes between two requests.
const HOST: Nanos = Nanos::from_micros(10);
/// Times that a delta has to hit.
const TRIES: u32 = 4;

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

/// What passes between two requests on the drive of `spec` (Trail 3.1), found on its model as the paper does it
/// on the drive itself, on the first of the tracks of `map`. `None` when a write or read of one sector never
/// comes in time for its own track.
pub fn deltas(spec: &DriveSpec, map: &TrackMap) -> Option<Deltas> {
    let disk = spec.disk.as_ref()?;
    let shape = map.track(0).turn_sectors;
    let tracks = (0..map.tracks()).map(|index| map.track(index));
    let tracks: Vec<Track> = tracks
        .take_while(|track| track.turn_sectors == shape)
        .take(TRACKS)
        .collect();
    let mut user = ClosedLoop::new(Drive::new(spec, &DriveOptions::default()));
    let mut search = |before, of| delta(&mut user, turn(disk), &tracks, before, of);
    use AccessKind::{Read, Write};
    let (write_after_read, read_lag_ns) = search(Read, Write)?;
    Some(Deltas {
        write_after_write: search(Write, Write)?.0,
        write_after_read,
        read_after_write: search(Write, Read)?.0,
        read_lag_ns,
        read_ahead: disk.buffer.read_ahead_sectors,
    })
}

/// The delta of a request after another, and how much longer the platter turned than the first one says.
fn delta(
    user: &mut ClosedLoop,
    turn: Nanos,
    tracks: &[Track],
    before: AccessKind,
    of: AccessKind,
) -> Option<(Delta, i64)> {
    // From the last one up: what the drive reads ahead is of no use then.
    let tracks = tracks.iter().rev().copied().collect();
    let mut search = DeltaSearch::new(tracks, turn, before, of, TRIES);
    while let Some(trial) = search.trial() {
        let kind = match trial.kind {
            AccessKind::Read => Kind::Read,
            AccessKind::Write => Kind::Write,
        };
        // A host needs a moment between two requests.
        user.think(HOST);
        let sent = user.now();
        user.serve(kind, trial.first, trial.sectors);
        search.done(&Access {
            first: trial.first,
            sectors: trial.sectors,
            sent,
            done: user.now(),
        });
    }
    search.found().zip(search.lag_ns())
}
