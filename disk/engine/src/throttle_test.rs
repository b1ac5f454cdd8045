use crate::write_back::{DELAY_MAX, PRESSURE_MAX, Throttle, pressure};
use tonearm_base::Nanos;

const BLOCK: u64 = 4096;

/// A throttle that has seen each block take a millisecond to be written back, and whose average pressure has settled at `of`.
fn in_steady_state(of: u64) -> Throttle {
    let throttle = Throttle::default();
    for _ in 0..500 {
        throttle.drained(Nanos::from_millis(128), 128 * BLOCK);
    }
    let mut now = Nanos(0);
    for _ in 0..3000 {
        now = now + throttle.wait(now, BLOCK, of).0;
    }
    throttle
}

/// Milliseconds between writes of writers that are always waiting, once the average has settled.
fn spacing_ms(of: u64) -> f64 {
    let throttle = in_steady_state(of);
    let start = Nanos::from_secs(1000);
    let mut now = start;
    for _ in 0..1000 {
        now = now + throttle.wait(now, BLOCK, of).0;
    }
    now.since(start).0 as f64 / 1e6 / 1000.0
}

#[test]
fn no_write_is_delayed_before_pressure_or_write_back() {
    let throttle = Throttle::default();
    for _ in 0..1000 {
        assert_eq!(throttle.wait(Nanos(5), BLOCK, PRESSURE_MAX), Nanos(0));
    }
    let throttle = in_steady_state(0);
    for _ in 0..1000 {
        assert_eq!(throttle.wait(Nanos(5), BLOCK, 0), Nanos(0));
    }
}

#[test]
fn turns_come_at_the_pace_of_the_write_back() {
    for (of, expected) in [
        (PRESSURE_MAX / 2, 1.0),
        (PRESSURE_MAX, 1.5),
        (PRESSURE_MAX / 4, 0.75),
    ] {
        let spacing = spacing_ms(of);
        assert!(
            (spacing - expected).abs() < 0.05,
            "{spacing} ms at {of}, {expected} expected"
        );
    }
}

#[test]
fn reset_throttle_forgets_old_pressure() {
    let throttle = in_steady_state(PRESSURE_MAX);
    throttle.reset();
    let now = Nanos::from_secs(1000);
    for _ in 0..1000 {
        assert_eq!(throttle.wait(now, BLOCK, 0), Nanos(0));
    }
}

#[test]
fn no_wait_is_longer_than_a_second() {
    let throttle = in_steady_state(PRESSURE_MAX);
    let now = Nanos::from_secs(1000);
    let waits: Vec<u64> = (0..5000)
        .map(|_| throttle.wait(now, BLOCK, PRESSURE_MAX).0)
        .collect();
    assert!(waits.is_sorted() && waits.iter().all(|wait| *wait <= DELAY_MAX.0));
    assert_eq!(waits.last(), Some(&DELAY_MAX.0));
}

#[test]
fn pressure_is_the_used_share_of_what_is_left() {
    assert_eq!(pressure(10, 50, 100), 0);
    assert_eq!(pressure(50, 50, 100), 0);
    assert_eq!(pressure(75, 50, 100), PRESSURE_MAX / 2);
    assert_eq!(pressure(200, 50, 100), PRESSURE_MAX);
    // A log of two tracks.
    assert_eq!(pressure(2, 1, 1), PRESSURE_MAX);
}

/// The turns of a round delay no write after it.
#[test]
fn ended_turns_delay_no_later_write() {
    let throttle = in_steady_state(PRESSURE_MAX);
    let now = Nanos::from_secs(1000);
    for _ in 0..1000 {
        throttle.wait(now, BLOCK, PRESSURE_MAX);
    }
    throttle.end_turns();
    assert_eq!(throttle.wait(now, BLOCK, PRESSURE_MAX), Nanos(0));
}
