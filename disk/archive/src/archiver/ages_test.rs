use super::*;

const HOUR_MS: u64 = 3_600_000;
const YEAR_MS: u64 = 365 * 24 * HOUR_MS;
const NOW_MS: u64 = 1_700_000_000_000;

fn link(number: u64, epoch: u64, unix_ms: u64) -> ArchiveHeader {
    ArchiveHeader {
        kind: tonearm_format::ArchiveKind::Opening,
        store: [0; 16],
        number,
        epoch,
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
fn own_objects_age_by_the_monotonic_clock() {
    let mut ages = Ages::default();
    ages.open(Nanos::from_secs(100), NOW_MS, None);
    ages.note(1, Nanos::from_secs(101));
    ages.note(2, Nanos::from_secs(105));
    let now = Nanos::from_secs(110);
    for stamp_ms in [0, NOW_MS, NOW_MS + YEAR_MS] {
        let links = [link(1, 1, stamp_ms), link(2, 1, NOW_MS)];
        let passed = ages.passed(links.iter());
        assert_eq!(ages.of(1, &passed, now), 9_000);
        assert_eq!(ages.of(2, &passed, now), 5_000);
        // It has not been put yet.
        assert_eq!(ages.of(3, &passed, now), 0);
    }
}

#[test]
fn earlier_object_ages_by_the_stamps_of_its_epoch() {
    let mut ages = Ages::default();
    let links = [
        link(1, 1, NOW_MS),
        link(2, 1, NOW_MS + HOUR_MS),
        // The clock was set ahead between two openings.
        link(3, 2, NOW_MS + YEAR_MS),
        link(4, 2, NOW_MS + YEAR_MS + HOUR_MS),
        // It was set back for a while, which makes nothing older.
        link(5, 2, NOW_MS),
        link(6, 2, NOW_MS + YEAR_MS + 2 * HOUR_MS),
        // It is right again.
        link(7, 3, NOW_MS + 3 * HOUR_MS),
    ];
    ages.open(Nanos::from_secs(5), NOW_MS + 2 * YEAR_MS, links.last());
    let (passed, now) = (ages.passed(links.iter()), Nanos::from_secs(7));
    let hours = [3, 2, 2, 1, 1, 0, 0];
    for (number, hours) in (1..).zip(hours) {
        let age = ages.of(number, &passed, now);
        assert_eq!(age, hours * HOUR_MS + 2_000, "{number}");
    }
    // One that is not known any more.
    assert_eq!(ages.of(0, &passed, now), 2_000);
}

#[test]
fn clock_that_was_set_begins_an_epoch() {
    let mut ages = Ages::default();
    ages.open(Nanos(0), NOW_MS, None);
    assert!(!ages.must_begin_epoch(NOW_MS, Nanos(0)));
    ages.note_epoch(NOW_MS, Nanos(0), false);
    let hour = Nanos::from_millis(HOUR_MS);
    // Commits may have been durable long before they are put.
    for stamp_ms in [NOW_MS, NOW_MS + HOUR_MS, NOW_MS + HOUR_MS + 1_500] {
        assert!(!ages.must_begin_epoch(stamp_ms, hour));
    }
    assert!(ages.must_begin_epoch(NOW_MS + HOUR_MS + 3_000, hour));
    assert!(ages.must_begin_epoch(NOW_MS - 3_000, hour));
    // Many small steps are a large one.
    let steps = (1..20).map(|step| (NOW_MS + 2_000 * step, Nanos::from_secs(step)));
    let mut begun = 0;
    for (stamp_ms, now) in steps {
        let begins = ages.must_begin_epoch(stamp_ms, now);
        ages.note_epoch(stamp_ms, now, begins);
        begun += u64::from(begins);
    }
    assert!(begun >= 5, "{begun}");
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
    let (now, passed) = (Nanos::from_millis(20 * count), ages.passed([].iter()));
    for number in (1..=count).step_by(1001) {
        let age = ages.of(number, &passed, now);
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
