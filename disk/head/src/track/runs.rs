//! Combines single tracks into as few runs as possible.
//!
//! From the first track that is in no run yet, it tries the shapes that the neighbouring tracks suggest, and takes the
//! one that fits most tracks. A track that fits no shape is a run of its own.

use super::{Track, TrackMap, TrackMapError, TrackRun};

/// Parts of a sector by which the angle of a track in a run may differ from its true angle.
const SLACK: u32 = 16;

impl TrackMap {
    /// The map of `tracks`, which are in ascending order of their sectors. Their `index` is ignored. Each angle is kept
    /// to a sixteenth of a sector.
    ///
    /// # Errors
    /// When there are no tracks, a track is invalid by itself, or a track begins before the end of the previous one.
    pub fn from_tracks(tracks: impl Iterator<Item = Track>) -> Result<Self, TrackMapError> {
        let tracks: Vec<Track> = tracks.collect();
        let mut runs = Vec::new();
        let mut rest = &tracks[..];
        while !rest.is_empty() {
            let run = longest(rest);
            rest = &rest[run.tracks as usize..];
            runs.push(run);
        }
        Self::new(runs)
    }
}

/// The longest run with which `tracks` begin.
fn longest(tracks: &[Track]) -> TrackRun {
    let fit = |run: TrackRun| TrackRun {
        tracks: fitting(&run, tracks),
        ..run
    };
    let shapes = [inside(tracks), at_its_end(tracks)].into_iter().flatten();
    let alone = TrackRun {
        tracks: 1,
        ..uniform(tracks)
    };
    let all = shapes.chain([uniform(tracks)]).map(fit);
    // The first of equals.
    all.fold(
        alone,
        |best, run| if run.tracks > best.tracks { run } else { best },
    )
}

/// Number of `tracks`, from the first on, that match `run`; at least one.
fn fitting(run: &TrackRun, tracks: &[Track]) -> u32 {
    let run = TrackRun {
        tracks: u32::MAX,
        ..*run
    };
    let holds = |(within, track): &(usize, &Track)| {
        let expected = run.track(*within as u64, 0);
        let slack = (u32::MAX / track.turn_sectors.max(1)) / SLACK;
        let off = expected.angle.wrapping_sub(track.angle);
        let near = off.min(off.wrapping_neg()) <= slack;
        near && (expected.first, expected.sectors, expected.turn_sectors)
            == (track.first, track.sectors, track.turn_sectors)
    };
    let count = tracks
        .iter()
        .enumerate()
        .take(u32::MAX as usize - 1)
        .take_while(holds)
        .count();
    count.max(1) as u32
}

/// Tracks that all follow each other in the same way.
fn uniform(tracks: &[Track]) -> TrackRun {
    let first = &tracks[0];
    let skew = tracks
        .get(1)
        .map_or(0, |next| next.angle.wrapping_sub(first.angle));
    TrackRun {
        first: first.first,
        tracks: 1,
        sectors: first.sectors,
        turn_sectors: first.turn_sectors,
        angle: first.angle,
        group: 1,
        at: 0,
        short: 0,
        track_skew: 0,
        cylinder_skew: skew,
    }
}

/// True for equal steps. A step is the length of a track and the skew to the next one. Steps that differ by a rounding
/// error are equal.
fn same_step(one: &[Track], other: &[Track]) -> bool {
    let skew = |pair: &[Track]| pair[1].angle.wrapping_sub(pair[0].angle);
    let off = skew(one).wrapping_sub(skew(other));
    let slack = (u32::MAX / one[0].turn_sectors.max(1)) / SLACK;
    one[0].sectors == other[0].sectors && off.min(off.wrapping_neg()) <= slack
}

/// Number of the first step from `from` on that differs from that of track `like`; that of the last track if none
/// differs.
fn first_unlike(tracks: &[Track], from: usize, like: usize) -> usize {
    let is_same = |at: &usize| same_step(&tracks[like..like + 2], &tracks[*at..*at + 2]);
    let steps = from..tracks.len() - 1;
    steps
        .clone()
        .find(|at| !is_same(at))
        .unwrap_or(tracks.len() - 1)
}

/// Cylinders, if the first track is not the last of its cylinder: the first step is one within a cylinder.
fn inside(tracks: &[Track]) -> Option<TrackRun> {
    if tracks.len() < 3 {
        return None;
    }
    let last = first_unlike(tracks, 1, 0);
    let end = tracks.get(last + 1)?;
    let next_last = first_unlike(tracks, last + 1, 0);
    let group = (next_last - last).max(last + 1);
    Some(TrackRun {
        group: group as u32,
        at: (group - 1 - last) as u32,
        short: tracks[0].sectors.checked_sub(tracks[last].sectors)?,
        track_skew: tracks[1].angle.wrapping_sub(tracks[0].angle),
        cylinder_skew: end.angle.wrapping_sub(tracks[last].angle),
        ..uniform(tracks)
    })
}

/// Cylinders, if the first track is the last of its cylinder: the second step is one within a cylinder.
fn at_its_end(tracks: &[Track]) -> Option<TrackRun> {
    if tracks.len() < 4 {
        return None;
    }
    let next_last = first_unlike(tracks, 2, 1);
    let full = tracks[1].sectors;
    Some(TrackRun {
        sectors: full,
        group: next_last as u32,
        at: next_last as u32 - 1,
        short: full.checked_sub(tracks[0].sectors)?,
        track_skew: tracks[2].angle.wrapping_sub(tracks[1].angle),
        cylinder_skew: tracks[1].angle.wrapping_sub(tracks[0].angle),
        ..uniform(tracks)
    })
}
