//! Predictors for the drives of experiments, told what a calibration of the drive finds.

use super::rig::Rig;
use super::tracks::turn;
use crate::experiment::NamedDrive;
use base::Nanos;
use drive::Kind;
use head::{AccessKind, Delta, DeltaSearch, Deltas, Formula, Head, Online, Track, TrackMap};

/// Tracks on which the formula's delta is looked for: more than a drive reads ahead.
const TRACKS: usize = 300;
/// Times that a delta has to hit.
const TRIES: u32 = 4;

/// Trail's geometric formula (Trail 3.1), with the deltas that its search finds on `drive`.
///
/// # Panics
/// When a write or read of one sector never comes in time for its own track.
pub fn formula(drive: &NamedDrive, map: &TrackMap, seed: u64) -> Box<dyn Head> {
    let disk = drive.spec.disk.as_ref().expect("a drive that turns");
    let shape = map.track(0).turn_sectors;
    let tracks = (0..map.tracks()).map(|index| map.track(index));
    let tracks: Vec<Track> = tracks
        .take_while(|track| track.turn_sectors == shape)
        .take(TRACKS)
        .collect();
    let mut rig = Rig::new(drive, seed);
    let mut search = |before, of| delta(&mut rig, drive, &tracks, before, of);
    use AccessKind::{Read, Write};
    let (write_after_read, read_lag_ns) = search(Read, Write);
    let deltas = Deltas {
        write_after_write: search(Write, Write).0,
        write_after_read,
        read_after_write: search(Write, Read).0,
        read_lag_ns,
        read_ahead: disk.buffer.read_ahead_sectors,
    };
    let switch = disk.seek.head_switch_ms + disk.seek.write_settle_ms.max(0.0);
    let switch = Nanos((switch * 1e6) as u64);
    Box::new(Formula::new(map.clone(), turn(drive), deltas, Some(switch)))
}

/// The predictor that learns from each completed write; told the tracks, and nothing else.
pub fn online(map: &TrackMap) -> Box<dyn Head> {
    Box::new(Online::with_map(map.clone()))
}

/// The delta of a request after another, and how much longer the platter turned than the first one says.
fn delta(
    rig: &mut Rig,
    drive: &NamedDrive,
    tracks: &[Track],
    before: AccessKind,
    of: AccessKind,
) -> (Delta, i64) {
    // From the last one up: what the drive reads ahead is of no use then.
    let tracks = tracks.iter().rev().copied().collect();
    let mut search = DeltaSearch::new(tracks, turn(drive), before, of, TRIES);
    while let Some(trial) = search.trial() {
        let kind = match trial.kind {
            AccessKind::Read => Kind::Read,
            AccessKind::Write => Kind::Write,
        };
        search.done(&rig.serve(kind, trial.first, trial.sectors));
    }
    let found = search.found().zip(search.lag_ns());
    found.expect("some place on its own track is in time")
}
