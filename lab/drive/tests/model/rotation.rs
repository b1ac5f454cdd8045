//! The angle of the platter.

use tonearm_base::Nanos;
use tonearm_drive::{Drift, Rotation};

const HOUR: u64 = 3_600_000_000_000;

/// The angle of an ideal platter in units of 2^-64 revolutions, in exact arithmetic.
fn exact(rpm: u64, at: u64) -> u64 {
    let minute = 60_000_000_000_u128;
    let into = u128::from(at) * u128::from(rpm) % minute;
    ((into << 64) / minute) as u64
}

fn apart(a: u64, b: u64) -> u64 {
    a.wrapping_sub(b).min(b.wrapping_sub(a))
}

#[test]
fn the_phase_is_right_to_two_nanoseconds_an_hour() {
    for rpm in [3_600, 5_400, 7_200, 10_025, 15_000] {
        let mut rotation = Rotation::new(rpm as f64, 0.0, 0, 0);
        for hour in [0, 1, 10, 100, 1_000] {
            for odd in [0, 1, 123_456_789, 8_333_333] {
                let at = hour * HOUR + odd;
                let off = apart(rotation.angle(Nanos(at)), exact(rpm, at));
                assert!(
                    off <= (2 * hour + 1) * rotation.speed(),
                    "{rpm} rpm after {hour} hours: {off} units"
                );
            }
        }
    }
}

#[test]
fn waiting_for_an_angle_never_misses_it() {
    for rpm in [3_600.0, 5_411.3, 10_045.0, 15_000.0] {
        let mut rotation = Rotation::new(rpm, 0.0, 0, 0);
        let mut angle = 1_u64;
        let mut at = 7 * HOUR;
        for _ in 0..10_000 {
            angle = angle
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let under = rotation.angle(Nanos(at));
            let wait = rotation.time(angle.wrapping_sub(under));
            assert!(wait <= rotation.period());
            at += wait.0;
            // It comes within the next two nanoseconds.
            let left = angle.wrapping_sub(rotation.angle(Nanos(at)));
            assert!(left <= 2 * rotation.speed(), "{rpm}: {left} units left");
        }
    }
}

#[test]
fn jitter_is_bounded_by_its_largest_drift_in_a_second() {
    let jitter = 5_000;
    let mut even = Rotation::new(7_200.0, 0.3, 0, 1);
    let mut wanders = Rotation::new(7_200.0, 0.3, jitter, 1);
    let mut moved = 0;
    let mut last = 0_u64;
    for tenth in 0..2_000 {
        let at = Nanos(tenth * 100_000_000);
        let error = wanders.angle(at).wrapping_sub(even.angle(at));
        let step = apart(error, last);
        // In a tenth of a second it drifts by a tenth, except for rounding.
        assert!(
            step <= even.speed() * jitter / 10 + 1_000_000_000,
            "at {at:?}: {step}"
        );
        moved = moved.max(step);
        last = error;
    }
    assert!(moved > even.speed() * jitter / 100, "it never moved");
}

#[test]
fn the_seed_determines_the_jitter() {
    let angles = |seed| {
        let mut rotation = Rotation::new(7_200.0, 0.0, 2_000, seed);
        let times = (0..50).map(|k| rotation.angle(Nanos(k * 777_777_777)));
        times.collect::<Vec<_>>()
    };
    assert_eq!(angles(4), angles(4));
    assert_ne!(angles(4), angles(5));
}

#[test]
fn a_turn_moves_the_platter_by_its_share_of_a_revolution() {
    let mut rotation = Rotation::new(7_200.0, 0.25, 0, 0);
    assert_eq!(rotation.angle(Nanos(0)), 1 << 62);
    rotation.turn(0.5);
    assert_eq!(rotation.angle(Nanos(0)), 3 << 62);
    rotation.turn(-0.25);
    assert_eq!(rotation.angle(Nanos(0)), 1 << 63);
    rotation.turn(7.5);
    assert_eq!(rotation.angle(Nanos(0)), 0);
}

#[test]
fn only_a_platter_with_jitter_has_a_tolerance() {
    let late = Nanos(1_000_003);
    let mut even = Rotation::new(6_000.0, 0.0, 0, 0);
    let angle = even.angle(Nanos(1_000_000));
    let wait = even.latency(late, angle);
    assert!(wait > Nanos(9_999_990), "{wait:?}");
    // It drifts by at most 10 ns in a revolution; larger differences are errors.
    let mut wanders = Rotation::new(6_000.0, 0.0, 1_000, 0);
    let angle = wanders.angle(Nanos(1_000_000));
    assert_eq!(wanders.latency(late, angle), Nanos(0));
    let wait = wanders.latency(Nanos(1_000_020), angle);
    assert!(wait > Nanos(9_999_900), "{wait:?}");
}

/// Revolutions by which `rotation` is ahead of an even one after `seconds`, summed over small steps.
fn ahead(mut rotation: Rotation, seconds: u64) -> f64 {
    let mut even = Rotation::new(7_200.0, 0.0, 0, 0);
    let (mut total, mut last) = (0.0, 0_u64);
    for step in 0..=seconds {
        let at = Nanos(step * 1_000_000_000);
        let error = rotation.angle(at).wrapping_sub(even.angle(at));
        total += error.wrapping_sub(last).cast_signed() as f64 / 18_446_744_073_709_551_616.0;
        last = error;
    }
    total
}

#[test]
fn a_drift_approaches_its_speed_exponentially() {
    let drift = Drift {
        relative: 0.001,
        time_constant: Nanos(600_000_000_000),
        start: Nanos(10_000_000_000),
    };
    let drifting = || Rotation::new(7_200.0, 0.0, 0, 0).with_drift(&drift);
    assert_eq!(ahead(drifting(), 10), 0.0);
    for seconds in [1, 60, 600, 6_000] {
        let t = seconds as f64;
        let exact = 120.0 * 0.001 * (t - 600.0 * (1.0 - (-t / 600.0).exp()));
        let model = ahead(drifting(), 10 + seconds);
        assert!(
            (model - exact).abs() < 1e-6 * t,
            "{seconds} s: {model} {exact}"
        );
    }
}

#[test]
fn waiting_for_an_angle_meets_it_at_the_changed_speed() {
    let step = Drift {
        relative: 0.001,
        time_constant: Nanos(0),
        start: Nanos(0),
    };
    let mut rotation = Rotation::new(6_000.0, 0.0, 0, 0).with_drift(&step);
    let now = Nanos(123_000_000);
    let half = rotation.angle(now).wrapping_add(1 << 63);
    let wait = rotation.latency(now, half);
    assert!(wait.0.abs_diff(4_995_005) < 3, "{wait:?}");
    let there = rotation.angle(Nanos(now.0 + wait.0));
    assert!(apart(there, half) < 5 * rotation.speed());
}

#[test]
fn jitter_is_the_same_with_and_without_a_drift() {
    let none = Drift {
        relative: 0.0,
        time_constant: Nanos(600_000_000_000),
        start: Nanos(0),
    };
    let mut plain = Rotation::new(7_200.0, 0.0, 2_000, 4);
    let mut drifting = plain.clone().with_drift(&none);
    for k in 0..100 {
        let at = Nanos(k * 777_777_777);
        assert_eq!(plain.angle(at), drifting.angle(at));
    }
}
