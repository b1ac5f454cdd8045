use super::*;

const HOUR_MS: u64 = 3_600_000;
const YEAR_MS: u64 = 365 * 24 * HOUR_MS;
const NOW_MS: u64 = 1_700_000_000_000;

fn end(number: u64, unix_ms: u64) -> ArchiveHeader {
    ArchiveHeader {
        kind: tonearm_format::ArchiveKind::Opening,
        store: [0; 16],
        number,
        epoch: 1,
        first: 1,
        last: 1,
        inexact_from: 0,
        exact_from: 0,
        unix_ms,
        raw_bytes: 0,
        stored_bytes: 0,
        payload_crc: 0,
        digest: 0,
        previous_crc: 0,
        base: 0,
        encrypted: false,
        spares_table: false,
        level: 0,
    }
}

#[test]
fn object_of_this_opening_ages_by_the_clock_that_cannot_be_set() {
    let mut ages = Ages::default();
    ages.open(Nanos::from_secs(100), NOW_MS, None);
    ages.note(1, Nanos::from_secs(101));
    ages.note(2, Nanos::from_secs(105));
    let now = Nanos::from_secs(110);
    for stamp_ms in [0, NOW_MS, NOW_MS + YEAR_MS] {
        assert_eq!(ages.of(1, stamp_ms, now), 9_000);
        assert_eq!(ages.of(2, stamp_ms, now), 5_000);
        // It has not been put yet.
        assert_eq!(ages.of(3, stamp_ms, now), 0);
    }
}

#[test]
fn earlier_object_ages_by_the_stamps_of_later_ones() {
    let mut ages = Ages::default();
    let last = end(9, NOW_MS + HOUR_MS);
    // The clock says that a year has passed since.
    ages.open(Nanos::from_secs(5), NOW_MS + YEAR_MS, Some(&last));
    let now = Nanos::from_secs(7);
    assert_eq!(ages.of(9, NOW_MS + HOUR_MS, now), 2_000);
    assert_eq!(ages.of(3, NOW_MS, now), HOUR_MS + 2_000);
    // An end in the future: the clock was a year ahead when it was put.
    ages.open(
        Nanos::from_secs(5),
        NOW_MS + 1_000,
        Some(&end(9, NOW_MS + YEAR_MS)),
    );
    assert_eq!(ages.of(3, NOW_MS, now), 3_000);
    assert_eq!(ages.of(9, NOW_MS + YEAR_MS, now), 2_000);
}

#[test]
fn many_notes_take_little_memory_and_make_nothing_older() {
    let mut ages = Ages::default();
    ages.open(Nanos(0), NOW_MS, None);
    let count = 3 * NOTES_MAX as u64;
    for number in 1..=count {
        ages.note(number, Nanos::from_millis(20 * number));
    }
    assert!(ages.put.len() <= NOTES_MAX);
    let now = Nanos::from_millis(20 * count);
    for number in (1..=count).step_by(1001) {
        let age = ages.of(number, 0, now);
        assert!(age <= 20 * (count - number), "{number}: {age}");
        assert!(age + 200 >= 20 * (count - number), "{number}: {age}");
    }
}

#[test]
fn jump_is_what_one_clock_has_more_than_the_other() {
    let mut ages = Ages::default();
    assert_eq!(ages.jump(Nanos::from_secs(1), NOW_MS), None);
    assert_eq!(ages.jump(Nanos::from_secs(11), NOW_MS + 10_500), None);
    assert_eq!(
        ages.jump(Nanos::from_secs(12), NOW_MS + 11_500 + HOUR_MS),
        Some(HOUR_MS as i64)
    );
    assert_eq!(
        ages.jump(Nanos::from_secs(13), NOW_MS + 12_500),
        Some(-(HOUR_MS as i64))
    );
}
