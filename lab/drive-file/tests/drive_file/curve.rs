//! Seek time against distance.

use tonearm_drive_file::{SeekCurve, curve_ms};

fn table(points: &[(u32, f64)]) -> SeekCurve {
    SeekCurve::Table(points.to_vec())
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
}

#[test]
fn table_is_interpolated_and_extrapolated_linearly() {
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
fn a_formula_is_a_root_then_a_line_after_the_single_points() {
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
