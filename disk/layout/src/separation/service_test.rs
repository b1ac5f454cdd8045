use crate::separation::{Kind, ServiceTimes};
use tonearm_base::Nanos;

fn ms(at: u64) -> Nanos {
    Nanos::from_millis(at)
}

/// Fewer than 64 pages that are appended before a flush do not count.
fn new() -> ServiceTimes {
    ServiceTimes::new(64)
}

/// A drive that serves one operation at a time.
struct Drive {
    times: ServiceTimes,
    now: u64,
}

impl Drive {
    fn new() -> Self {
        Self {
            times: new(),
            now: 0,
        }
    }

    fn serves(&mut self, kind: Kind, pages: u64, millis: u64) {
        let began = self.now;
        self.now += millis;
        self.times.ended(kind, pages, ms(began), ms(self.now));
    }

    /// Serves it, with a flush that takes no time.
    fn serves_durably(&mut self, kind: Kind, pages: u64, millis: u64) {
        self.serves(kind, pages, millis);
        self.flushes(0);
    }

    fn flushes(&mut self, millis: u64) {
        let began = self.now;
        self.now += millis;
        self.times.flushed(ms(began), ms(self.now));
    }
}

#[test]
fn operations_one_after_the_other_give_their_own_times() {
    let mut drive = Drive::new();
    for _ in 0..200 {
        drive.serves_durably(Kind::Few, 1, 6);
        drive.serves_durably(Kind::Append, 128, 20);
    }
    drive.times.end_interval();
    assert_eq!(drive.times.page_nanos(Kind::Few), Some(6e6));
    let efficiency = drive.times.efficiency().unwrap();
    // 128 pages of 6 ms against 20 ms.
    assert!((efficiency.few - 38.4).abs() < 1e-9, "{efficiency:?}");
    assert_eq!(efficiency.few, efficiency.many, "nothing else was measured");
}

/// A cache takes all writes at once, and the flush takes the time.
#[test]
fn a_flush_counts_for_the_writes_before_it() {
    let mut drive = Drive::new();
    for _ in 0..10 {
        drive.serves(Kind::Append, 128, 1);
        drive.flushes(9);
        for _ in 0..16 {
            drive.serves(Kind::Few, 1, 0);
        }
        drive.flushes(64);
        for _ in 0..16 {
            drive.serves(Kind::Many, 1, 0);
        }
        drive.flushes(16);
    }
    drive.times.end_interval();
    assert_eq!(drive.times.page_nanos(Kind::Append), Some(10e6 / 128.0));
    assert_eq!(drive.times.page_nanos(Kind::Few), Some(4e6));
    assert_eq!(drive.times.page_nanos(Kind::Many), Some(1e6));
}

#[test]
fn writes_of_two_kinds_before_one_flush_do_not_count() {
    let mut drive = Drive::new();
    for others in [Kind::Append, Kind::Sweep, Kind::Many] {
        for _ in 0..40 {
            drive.serves(Kind::Few, 1, 3);
            drive.serves(others, 128, 3);
            drive.flushes(50);
        }
    }
    drive.times.end_interval();
    for kind in [Kind::Few, Kind::Many, Kind::Append] {
        assert_eq!(drive.times.page_nanos(kind), None, "{kind:?}");
    }
}

#[test]
fn operations_side_by_side_share_the_time() {
    let mut times = new();
    for round in 0..200 {
        for _ in 0..4 {
            times.ended(Kind::Few, 1, ms(8 * round), ms(8 * round + 8));
        }
        times.flushed(ms(8 * round + 8), ms(8 * round + 8));
    }
    times.end_interval();
    assert_eq!(times.page_nanos(Kind::Few), Some(2e6));
}

/// A drive that serves one operation at a time, with 14 reads in its queue at any time.
#[test]
fn writes_that_wait_for_reads_take_no_longer() {
    let (read, page_write, append) = (4_u64, 5, 30);
    let mut times = new();
    let mut now = 0;
    for _ in 0..200 {
        for (kind, pages, count, service) in [
            (Kind::Few, 1, 8, page_write),
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
            times.flushed(ms(now), ms(now));
        }
    }
    times.end_interval();
    assert_eq!(times.page_nanos(Kind::Few), Some(5e6));
    assert_eq!(times.page_nanos(Kind::Append), Some(30e6 / 128.0));
}

#[test]
fn few_operations_give_no_estimate() {
    let mut drive = Drive::new();
    for _ in 0..3 {
        drive.serves_durably(Kind::Append, 128, 9);
    }
    // Notes alone take a whole turn of the disk for a few pages.
    for _ in 0..100 {
        drive.serves_durably(Kind::Append, 3, 9);
    }
    for _ in 0..31 {
        drive.serves_durably(Kind::Few, 1, 9);
    }
    assert!(drive.times.wants_appended(128) && !drive.times.wants_appended(3));
    drive.times.end_interval();
    for kind in [Kind::Few, Kind::Append] {
        assert_eq!(drive.times.page_nanos(kind), None, "{kind:?}");
    }
    for _ in 0..4 {
        assert!(drive.times.wants_appended(128));
        drive.serves_durably(Kind::Append, 128, 9);
    }
    assert!(!drive.times.wants_appended(128));
}

#[test]
fn old_operations_count_less() {
    let mut drive = Drive::new();
    for length in [4, 8] {
        for _ in 0..200 {
            drive.serves_durably(Kind::Few, 1, length);
        }
        drive.times.end_interval();
    }
    assert_eq!(drive.times.page_nanos(Kind::Few), Some(6e6));
    // An interval without any changes nothing.
    drive.times.end_interval();
    assert_eq!(drive.times.page_nanos(Kind::Few), Some(6e6));
}

/// Each round brings 100 pages home and copies as many, for which the cleaner reads 200.
#[test]
fn appending_costs_what_the_cleaner_needs_for_it() {
    let round = |drive: &mut Drive, cleaned| {
        drive.serves(Kind::Clean, cleaned, 6);
        drive.serves(Kind::Append, 100, 1);
        drive.serves(Kind::Append, 100, 1);
        drive.times.written_back(100);
        drive.flushes(2);
    };
    for (cleaned, expected) in [(200, Some(5.0)), (150, None)] {
        let mut drive = Drive::new();
        for _ in 0..50 {
            round(&mut drive, cleaned);
        }
        // Rounds that overwrite do not count.
        for _ in 0..50 {
            drive.serves(Kind::Sweep, 10, 500);
            round(&mut drive, cleaned);
        }
        drive.times.end_interval();
        // 10 ms for 100 pages that came home, and 4 ms for 200 that were appended.
        assert_eq!(drive.times.appending_cost(), expected, "{cleaned} cleaned");
    }
}

#[test]
fn plugging_efficiency_follows_the_recent_holes() {
    let mut drive = Drive::new();
    assert_eq!(drive.times.plugging_efficiency(), None);
    for _ in 0..100 {
        drive.serves_durably(Kind::Append, 128, 20);
        drive.serves(Kind::Clean, 256, 50);
        drive.serves(Kind::Plug, 64, 100);
        drive.flushes(28);
    }
    // 2 ms against 20 ms / 128; reads of the cleaner belong to neither.
    let known = drive.times.plugging_efficiency().unwrap();
    assert!((known - 12.8).abs() < 1e-9, "{known}");
    assert_eq!(
        drive.times.efficiency(),
        None,
        "holes say nothing of sweeps"
    );
    for _ in 0..1000 {
        drive.serves_durably(Kind::Plug, 64, 16);
    }
    let now = drive.times.plugging_efficiency().unwrap();
    assert!((now - 1.6).abs() < 0.01, "{now}");
}

#[test]
fn holes_that_are_written_beside_appended_pages_do_not_count() {
    let mut drive = Drive::new();
    for _ in 0..100 {
        drive.serves_durably(Kind::Append, 128, 20);
        drive.serves(Kind::Plug, 64, 128);
        drive.serves_durably(Kind::Append, 128, 20);
    }
    assert_eq!(drive.times.plugging_efficiency(), None);
}
