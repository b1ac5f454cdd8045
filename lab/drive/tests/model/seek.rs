//! Seek times.

use crate::made::made;
use tonearm_base::Nanos;
use tonearm_drive::Seek;
use tonearm_drive_file::{SeekCurve, SeekSpec};

fn seek(change: impl FnOnce(&mut SeekSpec)) -> Seek {
    let spec = made(|disk, _| change(&mut disk.seek));
    Seek::new(&spec.disk.unwrap().seek, 1_000)
}

fn table(points: &[(u32, f64)]) -> SeekCurve {
    SeekCurve::Table(points.to_vec())
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
fn write_settles_only_after_a_head_movement() {
    let with_settle = |ms| {
        seek(|spec| {
            spec.curve = table(&[(1, 0.5), (100, 5.0)]);
            spec.head_switch_ms = 0.8;
            spec.write_settle_ms = ms;
        })
    };
    let slow = with_settle(0.3);
    assert_eq!(slow.time(0, false, true), Nanos(0));
    assert_eq!(slow.time(0, true, true), Nanos(1_100_000));
    assert_eq!(slow.time(1, false, true), Nanos(800_000));
    assert_eq!(slow.time(100, true, true), Nanos(5_300_000));
    let fast = with_settle(-0.6);
    assert_eq!(fast.time(1, false, true), Nanos(0), "no time below zero");
    assert_eq!(fast.time(100, false, true), Nanos(4_400_000));
    assert_eq!(fast.time(0, false, true), Nanos(0));
}
