//! WebLogic's linear predictor.

use crate::Linear;
use crate::testing::{Platter, TURN};
use tonearm_base::Nanos;
use tonearm_head::{Access, Head, Span};

#[test]
fn skip_covers_rotation_in_response_and_think_time() {
    let head = Linear::new(Nanos::from_millis(1), TURN, 100);
    assert_eq!(head.skip(Nanos(0)), 10);
    assert_eq!(head.skip(Nanos::from_millis(2)), 30);
    // It ignores the revolution.
    assert_eq!(head.skip(Nanos::from_millis(99)), 1_000);
}

#[test]
fn c_is_the_least_response_and_l_follows_the_writes() {
    let mut platter = Platter::new();
    // 8 % too fast.
    let mut head = Linear::new(Nanos::from_millis(5), TURN, 108);
    for track in 0..40 {
        let first = platter.track(track).first;
        head.written(&platter.write(first, 1));
        platter.think(500_000);
        head.written(&platter.write(first + 30, 1));
    }
    assert!(
        (head.speed() / 10_000.0 - 1.0).abs() < 0.01,
        "{}",
        head.speed()
    );
    let response = head.skip(Nanos(0)) as f64 / head.speed();
    assert!(response < 3.1e-3, "{response}");
}

#[test]
fn missed_revolution_does_not_change_the_speed() {
    let mut head = Linear::new(Nanos::from_millis(1), TURN, 100);
    let access = |first, sent, done| Access {
        first,
        sectors: 10,
        sent: Nanos::from_millis(sent),
        done: Nanos::from_millis(done),
    };
    head.written(&access(0, 0, 5));
    head.written(&access(30, 6, 18));
    assert_eq!(head.speed(), 10_000.0);
}

#[test]
fn place_is_one_skip_after_the_last_end() {
    let mut head = Linear::new(Nanos::from_millis(1), TURN, 100);
    let free = [Span {
        start: 0,
        end: 2_000,
    }];
    assert_eq!(head.place(Nanos(0), 4, &free).unwrap().sector, 0);
    head.written(&Access {
        first: 100,
        sectors: 4,
        sent: Nanos(0),
        done: Nanos::from_millis(1),
    });
    assert_eq!(
        head.place(Nanos::from_millis(3), 4, &free).unwrap().sector,
        134
    );
}
