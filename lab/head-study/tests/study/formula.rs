//! Trail's formula on the log drive of its paper, and others.

use crate::truth::{send, spec, tracks, turn, user, write};
use tonearm_base::Nanos;
use tonearm_drive::ClosedLoop;
use tonearm_drive_file::DriveSpec;
use tonearm_head::{Delta, Deltas, Formula, Head, Span, Track, TrackMap};
use tonearm_head_study::{AccessKind, DeltaSearch};
use tonearm_world::Kind;

/// The delta that the search finds on `tracks` from the last one up, when requests are sent at once.
fn delta(
    user: &mut ClosedLoop,
    turn: Nanos,
    tracks: &[Track],
    before: AccessKind,
    of: AccessKind,
) -> (Delta, i64) {
    let tracks = tracks.iter().rev().copied().collect();
    let mut search = DeltaSearch::new(tracks, turn, before, of, 4);
    while let Some(trial) = search.trial() {
        let kind = match trial.kind {
            AccessKind::Read => Kind::Read,
            AccessKind::Write => Kind::Write,
        };
        // Every host needs some time between requests.
        user.think(Nanos::from_micros(10));
        let access = send(user, kind, trial.first, trial.sectors);
        search.done(&access);
    }
    (search.found().unwrap(), search.lag_ns().unwrap())
}

fn deltas(spec: &DriveSpec, user: &mut ClosedLoop, turn: Nanos, tracks: &[Track]) -> Deltas {
    use AccessKind::{Read, Write};
    let (write_after_read, read_lag_ns) = delta(user, turn, tracks, Read, Write);
    Deltas {
        write_after_write: delta(user, turn, tracks, Write, Write).0,
        write_after_read,
        read_after_write: delta(user, turn, tracks, Write, Read).0,
        read_lag_ns,
        read_ahead: spec.disk.as_ref().unwrap().buffer.read_ahead_sectors,
    }
}

/// The first tracks of a drive, one user, and a predictor with the results of a calibration.
struct Setup {
    user: ClosedLoop,
    head: Formula,
    tracks: Vec<Track>,
    deltas: Deltas,
}

fn setup(spec: &DriveSpec, switch: Option<Nanos>) -> Setup {
    let mut user = user(spec, 0.7);
    let tracks = tracks(spec, 2_000_000);
    let shape = tracks[0].turn_sectors;
    let tracks: Vec<Track> = tracks
        .into_iter()
        .take_while(|track| track.turn_sectors == shape)
        .take(300)
        .collect();
    let turn = turn(spec);
    let deltas = deltas(spec, &mut user, turn, &tracks);
    let map = TrackMap::from_tracks(tracks.iter().copied()).unwrap();
    let head = Formula::new(map, turn, deltas, switch);
    Setup {
        user,
        head,
        tracks,
        deltas,
    }
}

/// Think times that cover all parts of a revolution.
fn thinks() -> impl Iterator<Item = Nanos> {
    (0..200_u64).map(|number| Nanos(number * number * 7_919 % 40_000_000))
}

fn whole(track: &Track) -> Span {
    Span {
        start: track.first,
        end: track.end(),
    }
}

/// Responses of one-sector writes on one track, after various think times.
fn on_a_track(setup: &mut Setup) -> Vec<f64> {
    let track = setup.tracks[40];
    setup.head.written(&write(&mut setup.user, track.first, 1));
    let one = |think| {
        setup.user.think(think);
        let place = setup
            .head
            .place(setup.user.now(), 1, &[whole(&track)])
            .unwrap();
        let access = write(&mut setup.user, place.sector, 1);
        setup.head.written(&access);
        access.done.since(access.sent).0 as f64 / 1e6
    };
    thinks().map(one).collect()
}

/// Times of the reads that move the head to the next track, and of the one-sector writes there.
fn track_after_track(setup: &mut Setup) -> (Vec<f64>, Vec<f64>) {
    let first = setup.tracks[60].first;
    setup.head.written(&write(&mut setup.user, first, 1));
    let (mut moves, mut writes) = (Vec::new(), Vec::new());
    for (think, track) in thinks().zip(&setup.tracks.clone()[61..]) {
        let sector = setup
            .head
            .reposition(setup.user.now(), whole(track))
            .unwrap();
        let read = send(&mut setup.user, Kind::Read, sector, 1);
        setup.head.read(&read);
        moves.push(read.done.since(read.sent).0 as f64 / 1e6);
        setup.user.think(think);
        let place = setup
            .head
            .place(setup.user.now(), 1, &[whole(track)])
            .unwrap();
        let write = write(&mut setup.user, place.sector, 1);
        setup.head.written(&write);
        writes.push(write.done.since(write.sent).0 as f64 / 1e6);
    }
    (moves, writes)
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len() as f64
}

fn most(times: &[f64]) -> f64 {
    times.iter().copied().fold(0.0, f64::max)
}

/// The least time of a one-sector write in ms: overhead (after a read, if `after_read`), settling on the
/// track, transfer.
fn least(spec: &DriveSpec, after_read: bool) -> f64 {
    let disk = spec.disk.as_ref().unwrap();
    let command = &disk.overhead.write_miss_ms;
    let command = if after_read {
        command.read
    } else {
        command.write
    };
    let sector = 60e3 / disk.rotation.rpm / f64::from(disk.geometry.zones[0].track_sectors);
    command + disk.seek.same_track_ms + sector
}

#[test]
fn on_a_track_the_residual_latency_is_a_sector_or_two() {
    for drive in tonearm_drive_file::library() {
        let spec = spec(drive.name);
        let Some(disk) = &spec.disk else { continue };
        if !spec.has_head() {
            continue;
        }
        let mut setup = setup(&spec, None);
        let times = on_a_track(&mut setup);
        let sector = 60e3 / disk.rotation.rpm / f64::from(disk.geometry.zones[0].track_sectors);
        let spread = most(&times) - times.iter().copied().fold(f64::MAX, f64::min);
        assert!(spread <= 2.1 * sector, "{}: {spread} ms", drive.name);
    }
}

/// The figures of Trail: residual latency under 0.5 ms, a delta under 15 sectors, 1.5 ms to reposition.
#[test]
fn residual_latency_on_the_paper_drive_is_below_half_a_ms() {
    let spec = spec("st41601n");
    let mut setup = setup(&spec, None);
    assert!(
        setup.deltas.write_after_write.sectors < 15,
        "{:?}",
        setup.deltas
    );
    let residual = mean(&on_a_track(&mut setup)) - least(&spec, false);
    assert!(residual < 0.2, "on a track: {residual} ms");
    let (moves, writes) = track_after_track(&mut setup);
    let residual = mean(&writes) - least(&spec, true);
    assert!(residual < 0.5, "after a move: {residual} ms");
    assert!(
        most(&writes) < 5.0,
        "no write waits for a revolution: {}",
        most(&writes)
    );
    assert!(mean(&moves) < 2.6, "a move: {} ms", mean(&moves));
}

#[test]
fn a_write_of_many_sectors_goes_where_it_fits() {
    let spec = spec("st41601n");
    let mut setup = setup(&spec, None);
    let track = setup.tracks[40];
    setup.head.written(&write(&mut setup.user, track.first, 1));
    for think in thinks() {
        setup.user.think(think);
        let place = setup
            .head
            .place(setup.user.now(), 40, &[whole(&track)])
            .unwrap();
        assert!(track.first <= place.sector && place.sector + 40 <= track.end());
        let access = write(&mut setup.user, place.sector, 40);
        setup.head.written(&access);
        let response = access.done.since(access.sent).0;
        let expected = place.response.unwrap().0;
        assert!(
            response.abs_diff(expected) < 300_000,
            "{response} ns, expected {expected}"
        );
    }
}

#[test]
fn memory_is_the_map_and_a_fixed_state() {
    let setup = setup(&spec("mimic80"), None);
    let map = setup.head.map().memory_bytes();
    let state = setup.head.memory_bytes() - map;
    assert!((1..256).contains(&state), "{state}");
}
