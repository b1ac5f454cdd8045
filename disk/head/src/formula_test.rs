//! Trail's formula on a drive in closed form.

use crate::testing::{AFTER, BEFORE, MOVE, Platter, READ_LAG, TURN};
use crate::{Access, Delta, Deltas, Formula, Head, Span, Track};
use proptest::prelude::*;
use tonearm_base::Nanos;

fn delta(sectors: u32) -> Delta {
    Delta {
        sectors,
        turn_sectors: 100,
    }
}

/// The delays of [`Platter`]: 0.35 ms, and 0.65 ms after a read.
fn deltas() -> Deltas {
    Deltas {
        write_after_write: delta(4),
        write_after_read: delta(7),
        read_after_write: delta(4),
        read_lag_ns: READ_LAG as i64,
        read_ahead: 0,
    }
}

fn formula(platter: &Platter) -> Formula {
    Formula::new(platter.map.clone(), TURN, deltas(), None)
}

fn whole(track: Track) -> Span {
    Span {
        start: track.first,
        end: track.end(),
    }
}

/// Time that the write took in addition to overheads and transfer.
fn residual(access: &Access) -> u64 {
    let transfer = u64::from(access.sectors) * TURN.0 / 100;
    access.done.since(access.sent).0 - BEFORE - AFTER - transfer
}

#[test]
fn without_a_reference_point_it_takes_the_first_place() {
    let platter = Platter::new();
    let mut head = formula(&platter);
    let free = [whole(platter.track(3))];
    let place = head.place(Nanos(0), 5, &free).unwrap();
    assert_eq!((place.sector, place.response), (free[0].start, None));
    assert_eq!(head.reposition(Nanos(0), free[0]), Some(free[0].start));
    assert_eq!(head.place(Nanos(0), 200, &free), None);
}

proptest! {
    #[test]
    fn a_write_on_a_free_track_waits_for_less_than_a_sector(
        thinks in prop::collection::vec(0_u64..200_000_000, 1..20),
        track in 0_u64..40,
        sectors in 1_u32..3,
    ) {
        let mut platter = Platter::new();
        let mut head = formula(&platter);
        let track = platter.track(track);
        head.written(&platter.write(track.first, 1));
        for think in thinks {
            platter.think(think);
            let place = head.place(platter.now, sectors, &[whole(track)]).unwrap();
            let access = platter.write(place.sector, sectors);
            head.written(&access);
            // At the end of a track it waits for the start of the track, over the sectors that do not belong to it.
            let wraps = place.sector == track.first;
            let most = if wraps { 1_400_000 } else { 151_000 };
            prop_assert!(residual(&access) <= most, "{} ns", residual(&access));
            let expected = place.response.unwrap().0;
            let response = access.done.since(access.sent).0;
            // Delta is a whole number of sectors.
            prop_assert!(expected.abs_diff(response) <= 51_000, "{expected}, {response}");
        }
    }

    #[test]
    fn after_moves_by_reads_too(thinks in prop::collection::vec(0_u64..200_000_000, 38)) {
        let mut platter = Platter::new();
        let mut head = formula(&platter);
        head.written(&platter.write(1_000, 1));
        for (index, think) in (1..).zip(thinks) {
            let track = whole(platter.track(index));
            let sector = head.reposition(platter.now, track).unwrap();
            let read = platter.read(sector, 1);
            // Skews are longer than a move by 0.1 or by 0.8 ms.
            let most = if sector == track.start { 1_900_000 } else { 1_000_000 };
            prop_assert!(residual(&read) - MOVE - READ_LAG <= most);
            head.read(&read);
            platter.think(think);
            let place = head.place(platter.now, 1, &[track]).unwrap();
            let write = platter.write(place.sector, 1);
            head.written(&write);
            let most = if place.sector == track.start { 1_300_000 } else { 151_000 };
            prop_assert!(residual(&write) <= most, "{} ns", residual(&write));
        }
    }

    #[test]
    fn place_is_the_first_free_one_to_pass_the_head(
        spans in prop::collection::btree_set(0_u64..100, 2..12),
        think in 0_u64..30_000_000,
        sectors in 1_u32..8,
    ) {
        let mut platter = Platter::new();
        let mut head = formula(&platter);
        let track = platter.track(5);
        head.written(&platter.write(track.first, 1));
        platter.think(think);
        let ends: Vec<u64> = spans.into_iter().map(|at| track.first + at).collect();
        let free: Vec<Span> = ends.chunks_exact(2).map(|pair| Span { start: pair[0], end: pair[1] }).collect();
        let everywhere = head.place(platter.now, 1, &[whole(track)]).unwrap().sector;
        let wait = |sector: u64| (sector + 100 - everywhere) % 100;
        let places = (track.first..track.end()).filter(|sector| free.iter().any(|span| span.holds(*sector, sectors)));
        let expected = places.min_by_key(|sector| wait(*sector));
        prop_assert_eq!(head.place(platter.now, sectors, &free).map(|place| place.sector), expected);
    }
}

#[test]
fn write_after_a_full_track_goes_to_the_next_free_track() {
    let mut platter = Platter::new();
    let mut head = formula(&platter);
    let here = platter.track(6);
    head.written(&platter.write(here.first, 1));
    let free = [
        Span {
            start: here.first + 10,
            end: here.first + 12,
        },
        whole(platter.track(8)),
        whole(platter.track(7)),
    ];
    let place = head.place(platter.now, 3, &free).unwrap();
    assert!(
        free[1].holds(place.sector, 3),
        "the order of the log counts: {place:?}"
    );
    let write = platter.write(place.sector, 3);
    assert!(residual(&write) < MOVE + 1_000_000, "{}", residual(&write));
}

#[test]
fn a_known_time_of_a_switch_is_used_within_a_cylinder() {
    let switch = Nanos(MOVE);
    for (index, within) in [(4, true), (5, true), (6, true), (7, false)] {
        let mut platter = Platter::new();
        let map = platter.map.clone();
        let mut head = Formula::new(map, TURN, deltas(), Some(switch));
        let here = platter.track(index);
        head.written(&platter.write(here.first, 1));
        let free = [whole(platter.track(index + 1))];
        let place = head.place(platter.now, 1, &free).unwrap();
        let waits = residual(&platter.write(place.sector, 1)) - MOVE;
        let most = if within { 151_000 } else { 951_000 };
        assert!(waits <= most && waits + 200_000 > most, "{index}: {waits}");
    }
}

#[test]
fn a_read_from_the_drive_s_buffer_is_no_reference() {
    let mut platter = Platter::new();
    let mut head = formula(&platter);
    let track = platter.track(2);
    head.written(&platter.write(track.first, 1));
    // In 0.05 ms, half a revolution away.
    let sent = platter.now;
    platter.think(50_000);
    head.read(&Access {
        first: track.first + 50,
        sectors: 1,
        sent,
        done: platter.now,
    });
    platter.think(3_000_000);
    let place = head.place(platter.now, 1, &[whole(track)]).unwrap();
    let write = platter.write(place.sector, 1);
    assert!(residual(&write) < 151_000, "{}", residual(&write));
}

#[test]
fn after_a_read_from_the_buffer_the_head_still_has_to_move() {
    let mut platter = Platter::new();
    let mut head = formula(&platter);
    head.written(&platter.write(platter.track(4).first, 1));
    let next = platter.track(5);
    let sent = platter.now;
    // Half a revolution from what is under the head.
    platter.think(50_000);
    head.read(&Access {
        first: next.first + 45,
        sectors: 1,
        sent,
        done: platter.now,
    });
    for think in [0, 1_000_000, 9_900_000, 25_000_000] {
        let now = Nanos(platter.now.0 + think);
        let response = head.place(now, 1, &[whole(next)]).unwrap().response;
        assert!(response.unwrap().0 > BEFORE + MOVE, "{think}: {response:?}");
    }
    let place = head.place(platter.now, 1, &[whole(next)]).unwrap();
    let write = platter.write(place.sector, 1);
    assert!(residual(&write) < MOVE + 600_000, "{}", residual(&write));
}

#[test]
fn after_a_long_idle_time_any_read_counts() {
    let mut platter = Platter::new();
    let mut head = formula(&platter);
    let track = platter.track(2);
    head.written(&platter.write(track.first, 1));
    // The spindle has slipped by a third of a revolution in a minute.
    platter.think(60_000_000_000 + 3_333_333);
    let mut late = platter.read(track.first + 20, 1);
    late.sent.0 -= 3_333_333;
    late.done.0 -= 3_333_333;
    platter.now = late.done;
    head.read(&late);
    platter.think(2_000_000);
    let place = head.place(platter.now, 1, &[whole(track)]).unwrap();
    let turned = (place.sector - track.first) as i64 - 21;
    // 2 ms, and the times that a read takes after its sector and a write before it: 2.65 ms.
    assert!((26..=28).contains(&turned), "{turned}");
    assert!(
        head.stale_after()
            .is_some_and(|time| time < Nanos::from_secs(10))
    );
}

#[test]
fn a_drive_that_reads_ahead_has_left_the_track() {
    let mut platter = Platter::new();
    let deltas = Deltas {
        read_ahead: 300,
        ..deltas()
    };
    let mut head = Formula::new(platter.map.clone(), TURN, deltas, None);
    let track = platter.track(9);
    head.read(&platter.read(track.first + 89, 1));
    let soon = head
        .place(platter.now, 1, &[whole(track)])
        .unwrap()
        .response
        .unwrap();
    platter.think(25_000_000);
    let later = head
        .place(platter.now, 1, &[whole(track)])
        .unwrap()
        .response
        .unwrap();
    assert!(soon.0 < 900_000, "{soon}");
    // Back over a cylinder, 15 sectors.
    assert!((1_500_000..2_500_000).contains(&later.0), "{later}");
}

#[test]
fn one_delta_serves_for_all_kinds() {
    let deltas = Deltas::one(delta(9));
    assert_eq!(deltas.write_after_write, deltas.write_after_read);
    assert_eq!((deltas.read_after_write, deltas.read_lag_ns), (delta(9), 0));
    assert_eq!(delta(25).angle(), 1 << 30);
}
