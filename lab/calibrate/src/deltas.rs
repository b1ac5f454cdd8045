//! Finds the delays between two requests on the model of a drive, for the section `[disk.deltas]` of a drive file.

use tonearm_base::Nanos;
use tonearm_drive::{ClosedLoop, Drive, DriveOptions};
use tonearm_drive_file::{DriveSpec, track_map, turn};
use tonearm_head::{Access, Delta, Deltas, Track, TrackMap};
use tonearm_head_study::{AccessKind, DeltaSearch};
use tonearm_world::Kind;

/// Tracks that are tried: more than a drive reads ahead.
const TRACKS: usize = 300;
/// Time of a host between two requests.
const HOST: Nanos = Nanos::from_micros(10);
/// Times that a delta has to hit.
const TRIES: u32 = 4;
/// First sector that a log may have: the first MiB of its drive holds superblocks and the track sheet.
const FIRST: u64 = 2048;

/// The section `[disk.deltas]` for the file of the drive of `spec`, as TOML. `None` for a drive without a platter, and
/// for one on which no request is in time for the track of the previous one.
pub fn deltas_section(spec: &DriveSpec) -> Option<String> {
    let map = track_map(spec, FIRST..u64::MAX)?;
    let found = deltas(spec, &map)?;
    Some(format!(
        "[disk.deltas]\n\
         source = \"found on the model that the other figures describe, by the search of Trail 3.1\"\n\
         track_sectors = {}\n\
         write_after_write = {}\n\
         write_after_read = {}\n\
         read_after_write = {}\n\
         read_lag_ns = {}\n",
        found.write_after_write.turn_sectors,
        found.write_after_write.sectors,
        found.write_after_read.sectors,
        found.read_after_write.sectors,
        found.read_lag_ns,
    ))
}

/// The delays between two requests on the drive of `spec` (Trail 3.1), found on its model, on the first of the tracks
/// of `map`. The paper finds them in the same way on the drive itself. `None` when a write or read of one sector never
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

/// The delta of a request after another, and by how much longer than predicted from the first the platter turned.
fn delta(
    user: &mut ClosedLoop,
    turn: Nanos,
    tracks: &[Track],
    before: AccessKind,
    of: AccessKind,
) -> Option<(Delta, i64)> {
    // From the last track up, so that sectors that the drive reads ahead are never asked for.
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
