//! How long the arm takes.

use crate::made::made;
use tonearm_base::Nanos;
use tonearm_drive::{Seek, SeekCurve, SeekSpec, curve_ms};

fn seek(change: impl FnOnce(&mut SeekSpec)) -> Seek {
    let spec = made(|disk, _| change(&mut disk.seek));
    Seek::new(&spec.disk.unwrap().seek, 1_000)
}

fn table(points: &[(u32, f64)]) -> SeekCurve {
    SeekCurve::Table(points.to_vec())
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
}

#[test]
fn a_table_holds_at_its_points_and_runs_straight_between_and_behind_them() {
    let curve = table(&[(2, 1.0), (10, 5.0), (20, 7.0)]);
    for (distance, ms) in [
        (1, 1.0),
        (2, 1.0),
        (3, 1.5),
        (9, 4.5),
        (10, 5.0),
        (11, 5.2),
        (20, 7.0),
        (30, 9.0),
    ] {
        near(curve_ms(&curve, distance), ms);
    }
    for distance in [1, 5, 900] {
        near(curve_ms(&table(&[(5, 3.0)]), distance), 3.0);
    }
}

#[test]
fn a_formula_is_a_root_then_a_line_after_what_is_given_singly() {
    let curve = SeekCurve::Formula {
        first_ms: vec![0.7, 0.9],
        below: 100,
        root: (1.0, 0.5),
        above: (4.0, 0.03),
    };
    for (distance, ms) in [
        (1, 0.7),
        (2, 0.9),
        (4, 2.0),
        (81, 5.5),
        (100, 7.0),
        (200, 10.0),
    ] {
        near(curve_ms(&curve, distance), ms);
    }
}

#[test]
fn the_longer_of_seek_and_head_switch_counts() {
    let seek = seek(|spec| {
        spec.curve = table(&[(1, 0.5), (100, 5.0)]);
        spec.head_switch_ms = 0.8;
    });
    assert_eq!(seek.time(0, false, false), Nanos(0));
    assert_eq!(seek.time(0, true, false), Nanos(800_000));
    assert_eq!(seek.time(1, false, false), Nanos(500_000));
    assert_eq!(seek.time(1, true, false), Nanos(800_000));
    assert_eq!(seek.time(100, true, false), Nanos(5_000_000));
}

#[test]
fn a_write_settles_after_any_move_and_after_none_it_does_not() {
    let settles = |ms| {
        seek(|spec| {
            spec.curve = table(&[(1, 0.5), (100, 5.0)]);
            spec.head_switch_ms = 0.8;
            spec.write_settle_ms = ms;
        })
    };
    let slow = settles(0.3);
    assert_eq!(slow.time(0, false, true), Nanos(0));
    assert_eq!(slow.time(0, true, true), Nanos(1_100_000));
    assert_eq!(slow.time(1, false, true), Nanos(800_000));
    assert_eq!(slow.time(100, true, true), Nanos(5_300_000));
    let fast = settles(-0.6);
    assert_eq!(fast.time(1, false, true), Nanos(0), "no time below zero");
    assert_eq!(fast.time(100, false, true), Nanos(4_400_000));
    assert_eq!(fast.time(0, false, true), Nanos(0));
}
