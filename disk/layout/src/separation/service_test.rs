use crate::separation::{Kind, ServiceTimes};
use tonearm_base::Nanos;

fn ms(at: u64) -> Nanos {
    Nanos::from_millis(at)
}

#[test]
fn operations_one_after_the_other_give_their_own_times() {
    let mut times = ServiceTimes::default();
    for at in (0..200).map(|round| 40 * round) {
        times.ended(Kind::PageWrite, 1, ms(at), ms(at + 6));
        times.ended(Kind::Append, 128, ms(at + 6), ms(at + 26));
    }
    assert_eq!(times.page_nanos(Kind::PageWrite), Some(6e6));
    let efficiency = times.efficiency().unwrap();
    // 128 pages of 6 ms against 20 ms.
    assert!((efficiency - 38.4).abs() < 1e-9, "{efficiency}");
}

#[test]
fn operations_side_by_side_share_the_time() {
    let mut times = ServiceTimes::default();
    for round in 0..200 {
        for _ in 0..4 {
            times.ended(Kind::PageWrite, 1, ms(8 * round), ms(8 * round + 8));
        }
    }
    assert_eq!(times.page_nanos(Kind::PageWrite), Some(2e6));
}

/// A drive that serves one operation at a time, with 14 reads in its queue at any time.
#[test]
fn writes_that_wait_for_reads_take_no_longer() {
    let (read, page_write, append) = (4_u64, 5, 30);
    let mut times = ServiceTimes::default();
    let mut now = 0;
    for _ in 0..200 {
        for (kind, pages, count, service) in [
            (Kind::PageWrite, 1, 8, page_write),
            (Kind::Append, 128, 1, append),
        ] {
            let began = now;
            for _ in 0..14 {
                now += read;
                times.ended(Kind::Read, 1, ms(now.saturating_sub(14 * read)), ms(now));
            }
            for _ in 0..count {
                now += service;
                times.ended(kind, pages, ms(began), ms(now));
            }
        }
    }
    assert_eq!(times.page_nanos(Kind::PageWrite), Some(5e6));
    assert_eq!(times.page_nanos(Kind::Append), Some(30e6 / 128.0));
}

#[test]
fn a_few_operations_tell_nothing() {
    let mut times = ServiceTimes::default();
    let mut run = |kind, count, length: u64| {
        for at in 0..count {
            let now = Nanos(1 + at * 1_000_000);
            times.ended(kind, 1, now, Nanos(now.0 + length));
        }
        times.efficiency()
    };
    assert_eq!(run(Kind::Append, 150, 1000), None);
    assert_eq!(run(Kind::PageWrite, 99, 5000), None);
    let last = 150_000_000;
    times.ended(Kind::PageWrite, 1, Nanos(last), Nanos(last + 5000));
    assert!(times.efficiency().is_some(), "{times:?}");
}

#[test]
fn old_operations_count_less() {
    let mut times = ServiceTimes::default();
    let mut at = 0;
    for length in [1000_u64, 3000] {
        for _ in 0..200 {
            times.ended(Kind::PageWrite, 1, Nanos(at), Nanos(at + length));
            at += length;
        }
        times.halve();
    }
    // 50 of the first 200 and 100 of the others.
    let mean = times.page_nanos(Kind::PageWrite).unwrap();
    assert!((mean - 7000.0 / 3.0).abs() < 1e-6, "{mean}");
}
