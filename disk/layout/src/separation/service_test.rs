use crate::separation::{Kind, ServiceTimes};
use tonearm_base::Nanos;

fn ms(at: u64) -> Nanos {
    Nanos::from_millis(at)
}

#[test]
fn operations_one_after_the_other_give_their_own_times() {
    let mut times = ServiceTimes::default();
    let mut at = 0;
    for _ in 0..200 {
        times.begin(Kind::PageWrite, ms(at));
        times.end(Kind::PageWrite, 1, ms(at + 6));
        times.begin(Kind::Append, ms(at + 6));
        times.end(Kind::Append, 128, ms(at + 26));
        at += 40;
    }
    assert_eq!(times.page_nanos(Kind::PageWrite), Some(6e6));
    let efficiency = times.efficiency().unwrap();
    // 128 pages of 6 ms against 20 ms.
    assert!((efficiency - 38.4).abs() < 1e-9, "{efficiency}");
    assert!(
        (times.idle() - 14.0 / 40.0).abs() < 0.01,
        "{}",
        times.idle()
    );
}

#[test]
fn operations_side_by_side_share_the_time() {
    let mut times = ServiceTimes::default();
    for round in 0..200 {
        for _ in 0..4 {
            times.begin(Kind::PageWrite, ms(8 * round));
        }
        for _ in 0..4 {
            times.end(Kind::PageWrite, 1, ms(8 * round + 8));
        }
    }
    assert_eq!(times.page_nanos(Kind::PageWrite), Some(2e6));
    assert_eq!(times.idle(), 0.0);
}

#[test]
fn a_few_operations_tell_nothing() {
    let mut times = ServiceTimes::default();
    let mut run = |kind, count, length: u64| {
        for at in 0..count {
            let now = Nanos(1 + at * 1_000_000);
            times.begin(kind, now);
            times.end(kind, 1, Nanos(now.0 + length));
        }
        times.efficiency()
    };
    assert_eq!(run(Kind::Append, 150, 1000), None);
    assert_eq!(run(Kind::PageWrite, 99, 5000), None);
    assert!(run(Kind::PageWrite, 1, 5000).is_some_and(|e| (4.9..5.1).contains(&e)));
}

#[test]
fn old_operations_count_less() {
    let mut times = ServiceTimes::default();
    let mut at = 0;
    for length in [1000_u64, 3000] {
        for _ in 0..50_000 {
            times.begin(Kind::PageWrite, Nanos(at));
            times.end(Kind::PageWrite, 1, Nanos(at + length));
            at += length;
        }
    }
    let mean = times.page_nanos(Kind::PageWrite).unwrap();
    assert!((2990.0..=3000.0).contains(&mean), "{mean}");
}
