//! Logs with unreadable tracks, and with records that a faulty or hostile program has written.

use super::fixture::{Setup, geometry, replay, replayed as replayed_all};
use crate::{
    Case, GivenUp, LogGeometry, RecoveredCommit, RecoveredTail, TrailError, unflushed_tracks_max,
};
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::{Lsn, RecordSeq};
use tonearm_device::Device;
use tonearm_format::{LogState, RecordHeader, SECTOR};
use tonearm_rt::{IoError, Op};
use tonearm_world::DiskImage;
use tonearm_world::filters::{Access, Effect, Fault, FaultPlan};

/// A log of `commits` commits of one block each, all durable, of which none is released.
fn logged(geometry: &LogGeometry, commits: u64) -> DiskImage {
    logged_and_kept(geometry, commits, commits)
}

/// A log of `commits` commits of one block each, all durable, of which the last `kept` are not released.
fn logged_and_kept(geometry: &LogGeometry, commits: u64, kept: u64) -> DiskImage {
    let mut setup = Setup::of(geometry.clone());
    setup.run(move |log| async move {
        for version in 0..commits {
            let lsn = log.write(version, 1, version).await;
            log.hold(lsn);
            // One record each.
            log.wait(lsn).await;
            if let Some(released) = (lsn.0).checked_sub(kept).filter(|lsn| *lsn > 0) {
                log.release(Lsn(released));
                log.advance();
            }
        }
    });
    setup.image()
}

/// What a replay in epoch 1 returns where those reads of the places `bad` fail for whose number `fails` returns true, and
/// the number of these reads.
fn replayed_where(
    image: &DiskImage,
    geometry: &LogGeometry,
    bad: Vec<u64>,
    mut fails: impl FnMut(u64) -> bool + 'static,
    lenient: bool,
) -> (Vec<RecoveredCommit>, Result<RecoveredTail, TrailError>, u64) {
    let (plan, reads) = (FaultPlan::new(), Rc::new(Cell::new(0)));
    let seen = reads.clone();
    let is_failing = move |access: &Access| {
        let is_bad = access.op == Op::Read && bad.iter().any(|place| access.touches(*place));
        seen.set(seen.get() + u64::from(is_bad));
        is_bad && fails(seen.get() - 1)
    };
    plan.on(is_failing, Effect::Fail(IoError::EIO));
    let (images, state) = (vec![image.clone()], LogState::default());
    let fault = |device| Rc::new(Fault::new(device, &plan)) as Rc<dyn Device>;
    let (commits, tail) = replay(images, geometry, (1, state), lenient, fault);
    (commits, tail, reads.get())
}

type Found = Result<(Vec<u64>, Case, Option<GivenUp>), TrailError>;

/// The commits that a replay finds where the tracks `bad` cannot be read.
fn replayed(image: &DiskImage, geometry: &LogGeometry, bad: &[u64], lenient: bool) -> Found {
    replayed_with_errors(image, geometry, bad, u64::MAX, lenient).1
}

/// The same where only the first `errors` reads of these tracks fail. The first commit that the replay has returned,
/// also if it ended with an error, and its result.
fn replayed_with_errors(
    image: &DiskImage,
    geometry: &LogGeometry,
    bad: &[u64],
    errors: u64,
    lenient: bool,
) -> (Option<u64>, Found) {
    let bad = bad.iter().map(|track| geometry.track_start(*track));
    let fails = move |read| read < errors;
    let (commits, tail, _) = replayed_where(image, geometry, bad.collect(), fails, lenient);
    let commits: Vec<u64> = commits.iter().map(|commit| commit.lsn.0).collect();
    let first = commits.first().copied();
    (first, tail.map(|tail| (commits, tail.case, tail.given_up)))
}

/// A recovery writes home what it replays. A later one that begins at another log start does not write the same blocks.
/// So no error, however long it lasts, may make a replay begin earlier or later than one without errors.
#[test]
fn read_errors_do_not_change_the_log_start() {
    let geometry = geometry(16, 16);
    let (mut whole_logs, mut refused) = (0, 0);
    for commits in [27, 200, 260] {
        let image = logged_and_kept(&geometry, commits, 20);
        let (whole, ..) = replayed(&image, &geometry, &[], false).unwrap();
        let first = whole.first().copied();
        for (bad, width) in (0..16).flat_map(|bad| [(bad, 1), (bad, 3), (bad, 12)]) {
            let tracks = Vec::from_iter((bad..bad + width).map(|track| track % 16));
            for errors in [1, 2, 6, 12, 16, 24] {
                let (begun, found) =
                    replayed_with_errors(&image, &geometry, &tracks, errors, false);
                assert!(
                    begun.is_none() || begun == first,
                    "{commits} commits, {errors} errors on {tracks:?}: {begun:?}, not {first:?}"
                );
                match found {
                    Ok((found, case, _)) => {
                        assert_eq!((&found, case), (&whole, Case::End), "{tracks:?}");
                        whole_logs += 1;
                    }
                    Err(error) => {
                        assert!(matches!(error, TrailError::Damaged { .. }), "{error}");
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(whole_logs > 200 && refused > 50, "{whole_logs} {refused}");
}

/// `commits` commits, 7 on each track, of which those from track `torn` on were not durable, and that track is torn.
fn torn_at(geometry: &LogGeometry, commits: u64, torn: u64) -> DiskImage {
    let image = logged_and_kept(geometry, commits, 20);
    let mut image = crafted(&image, geometry, |header| {
        if header.seq > RecordSeq(torn * 7) {
            header.durable_seq = RecordSeq(torn * 7);
        }
    });
    image.zero(
        geometry.track_start(torn),
        geometry.track_bytes(torn) as u64,
    );
    image
}

/// The last track of a torn tail names a later log start than the tracks before it. Whether the search meets this track
/// depends on where it lies, and must not depend on errors.
#[test]
fn read_errors_in_a_torn_tail_do_not_change_the_log_start() {
    let geometry = geometry(16, 16);
    // The search meets track 14 before track 13, and never track 15 after track 14.
    for (commits, torn, is_met) in [(102, 13, true), (109, 14, false)] {
        let image = torn_at(&geometry, commits, torn);
        let (whole, case, _) = replayed(&image, &geometry, &[], false).unwrap();
        assert_eq!((whole.last(), case), (Some(&(torn * 7)), Case::TornTail));
        let mut without_tail = image.clone();
        without_tail.zero(
            geometry.track_start(torn + 1),
            geometry.track_bytes(torn + 1) as u64,
        );
        let (earlier, ..) = replayed(&without_tail, &geometry, &[], false).unwrap();
        assert_eq!(earlier[0] < whole[0], is_met, "{} {}", earlier[0], whole[0]);
        let mut met = 0;
        for bad in 0..16 {
            for errors in [1, 2, 3] {
                let (begun, found) = replayed_with_errors(&image, &geometry, &[bad], errors, false);
                let expected = begun.is_none() || begun == Some(whole[0]);
                assert!(expected, "{errors} errors on track {bad}: {begun:?}");
                met += u64::from(found.is_ok());
            }
        }
        assert!(met > 30, "{met}");
    }
}

#[test]
fn an_unreadable_track_without_live_records_changes_nothing() {
    // 16 tracks of 7 records each; the log is on the first four.
    let geometry = geometry(16, 16);
    let image = logged(&geometry, 27);
    for bad in 5..16 {
        for lenient in [false, true] {
            let found = replayed(&image, &geometry, &[bad], lenient);
            match found {
                Err(error) => assert!(!lenient && is_hidden(&geometry, bad, 3), "{error}"),
                Ok((commits, case, given_up)) => {
                    assert_eq!(commits, Vec::from_iter(1..=27), "track {bad}");
                    let lost = given_up.map_or(0, |given_up| given_up.commits());
                    assert!(case == Case::End || lenient && lost == 0, "track {bad}");
                }
            }
        }
    }
}

/// True when track `bad` may hold records that were written after the last flush of a log that ends on track `end`. If
/// the search needs such a track, it may hold a record that names a later log start.
fn is_hidden(geometry: &LogGeometry, bad: u64, end: u64) -> bool {
    (bad + geometry.tracks - end - 1) % geometry.tracks <= unflushed_tracks_max(geometry.tracks)
}

/// The log has wrapped: younger records lie where the epoch began, and the youngest one names the log start.
#[test]
fn an_unreadable_track_that_is_free_again_hides_no_commit() {
    let geometry = geometry(16, 16);
    for commits in [200, 230, 260] {
        let image = logged_and_kept(&geometry, commits, 20);
        let (whole, ..) = replayed(&image, &geometry, &[], false).unwrap();
        let first = whole[0];
        assert_eq!(whole, Vec::from_iter(first..=commits));
        assert!(first > commits - 40, "{first} of {commits}");
        // 7 records on each track, from track 0 on. The track after the tail may hold what comes next.
        let track = |lsn: u64| (lsn - 1) / 7;
        for bad in track(commits) + 2..track(first) + 16 {
            let whole = (whole.clone(), Case::End, None);
            match replayed(&image, &geometry, &[bad % 16], false) {
                Err(error) => assert!(is_hidden(&geometry, bad, track(commits)), "{error}"),
                found => assert_eq!(found, Ok(whole), "{commits} commits, track {}", bad % 16),
            }
        }
    }
}

#[test]
fn unreadable_log_track_is_refused_unless_repairing() {
    let geometry = geometry(16, 16);
    let image = logged(&geometry, 27);
    let (whole, ..) = replayed(&image, &geometry, &[], false).unwrap();
    assert_eq!(whole, Vec::from_iter(1..=27));
    for bad in 0..=4 {
        let error = replayed(&image, &geometry, &[bad], false).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("tonearm check --repair"),
            "track {bad}: {text}"
        );
        let (commits, case, given_up) = replayed(&image, &geometry, &[bad], true).unwrap();
        assert_eq!(case, Case::Unreadable, "track {bad}");
        let kept = commits.len() as u64;
        assert_eq!(commits, Vec::from_iter(1..=kept), "a prefix, track {bad}");
        // All commits before the track are kept.
        assert_eq!(kept, (bad * 7).min(27), "track {bad}");
        let given_up = given_up.unwrap();
        let readable = if bad < 3 { 27 - kept - 7 } else { 0 };
        assert_eq!(given_up.records, readable, "track {bad}");
        let lost = if bad < 3 { 27 - kept } else { 0 };
        assert_eq!(
            (given_up.first, given_up.commits()),
            (Lsn(kept + 1), lost),
            "track {bad}"
        );
    }
}

#[test]
fn an_unreadable_log_is_given_up_as_a_whole() {
    let geometry = geometry(16, 16);
    let image = logged(&geometry, 27);
    let all = Vec::from_iter(0..16);
    assert!(replayed(&image, &geometry, &all, false).is_err());
    let (commits, case, given_up) = replayed(&image, &geometry, &all, true).unwrap();
    assert_eq!((commits, case), (Vec::new(), Case::Unreadable));
    assert_eq!(given_up.map(|given_up| given_up.commits()), Some(0));
}

/// `image` with its records changed, each with the right checksum.
fn crafted(
    image: &DiskImage,
    geometry: &LogGeometry,
    mut change: impl FnMut(&mut RecordHeader),
) -> DiskImage {
    let mut image = image.clone();
    for at in (0..geometry.bytes()).step_by(SECTOR) {
        let (mut sector, at) = (vec![0; SECTOR], geometry.track_start(0) + at);
        image.read(at, &mut sector);
        if let Ok((mut header, displaced)) = RecordHeader::decode(&sector) {
            change(&mut header);
            let payload = header.payload_sectors as usize;
            header.encode(&displaced[..payload], &mut sector);
            image.write(at, &sector);
        }
    }
    image
}

#[test]
fn record_with_log_start_outside_the_log_is_ignored() {
    let geometry = geometry(16, 16);
    let image = logged(&geometry, 27);
    let end = 16 * 16;
    for log_start in [end, end + 1, u64::MAX] {
        let image = crafted(&image, &geometry, |header| {
            if header.seq == RecordSeq(27) {
                header.log_start_sector = log_start;
            }
        });
        // The record does not count then, and the log ends before it.
        let (commits, case, _) = replayed(&image, &geometry, &[], false).unwrap();
        assert_eq!(
            (commits, case),
            (Vec::from_iter(1..=26), Case::End),
            "{log_start}"
        );
    }
}

#[test]
fn the_number_of_a_record_without_entries_is_ignored() {
    let geometry = geometry(16, 16);
    let image = logged(&geometry, 3);
    let image = crafted(&image, &geometry, |header| match header.seq {
        RecordSeq(1) => {
            header.entries.clear();
            header.payload_sectors = 0;
        }
        _ => header.first_lsn = Lsn(header.first_lsn.0 + (1 << 50)),
    });
    let (places, last) = places(&image, &geometry);
    assert_eq!(last, Lsn((1 << 50) + 3));
    for (index, first) in places.into_iter().enumerate() {
        let least = Lsn((1 << 50) + 2);
        assert!(
            (least..=last).contains(&first),
            "record {index} from {first:?}"
        );
    }
}

#[test]
fn record_without_entries_belongs_to_no_commit() {
    let geometry = geometry(16, 16);
    let image = logged(&geometry, 3);
    for number in [1, 2, 7, 1 << 40] {
        let image = crafted(&image, &geometry, |header| match header.seq {
            RecordSeq(2) => {
                header.entries.clear();
                (header.payload_sectors, header.first_lsn) = (0, Lsn(number));
            }
            RecordSeq(3) => header.first_lsn = Lsn(2),
            _ => {}
        });
        let (places, last) = places(&image, &geometry);
        assert_eq!((places, last), (vec![Lsn(1), Lsn(2), Lsn(2)], Lsn(2)));
    }
}

/// `image` without record `lost` and with the records after it naming it as the log start, as they do when everything before it was
/// released and it was lost with the tail.
fn without_log_start(image: &DiskImage, geometry: &LogGeometry, lost: u64) -> DiskImage {
    let mut sector = None;
    crafted(image, geometry, |header| {
        if header.seq == RecordSeq(lost + 1) {
            sector = Some(header.prev_sector);
        }
    });
    let sector = sector.expect("a record follows it");
    let mut image = crafted(image, geometry, |header| {
        if header.seq > RecordSeq(lost) {
            (header.log_start_sector, header.log_start_seq) = (sector, RecordSeq(lost));
            header.durable_seq = RecordSeq(lost - 1);
        }
    });
    image.zero(geometry.byte_of(sector), SECTOR as u64);
    image
}

/// The state after a replay where those reads of track `bad` fail for whose number `fails` returns true, and the number of
/// these reads.
fn state_after(
    image: &DiskImage,
    geometry: &LogGeometry,
    bad: u64,
    fails: impl FnMut(u64) -> bool + 'static,
    lenient: bool,
) -> (Result<LogState, TrailError>, u64) {
    let bad = vec![geometry.track_start(bad)];
    let (commits, tail, reads) = replayed_where(image, geometry, bad, fails, lenient);
    assert!(
        lenient || commits.is_empty(),
        "{:?} was released",
        commits[0].lsn
    );
    (tail.map(|tail| tail.state), reads)
}

/// Where the record at the log start was lost with the tail, the record before it alone has the numbers that are used up. New records
/// and commits with the numbers of those at home would be taken for them. So the log ends after that record, or is refused when its
/// track cannot be read: at once, or only by the last one who looks at it.
#[test]
fn numbers_continue_past_a_lost_log_start_or_open_fails() {
    let geometry = geometry(16, 16);
    let never = |_| false;
    // 7 records on each track. The lost record is the first one of a track, of the first track in the second lap, and one of the middle.
    for (commits, lost, track) in [(25, 22, 2), (115, 113, 15), (27, 24, 3)] {
        let image = without_log_start(&logged_and_kept(&geometry, commits, 20), &geometry, lost);
        let ended = |state: &LogState| (state.log_end_seq, state.log_end_lsn);
        let expected = (lost - 1, lost - 1);
        let (state, reads) = state_after(&image, &geometry, track, never, false);
        assert_eq!(ended(&state.unwrap()), expected, "{commits} commits");
        for from in 0..reads {
            let failing = move |read| read >= from;
            let (state, _) = state_after(&image, &geometry, track, failing, false);
            let refused = matches!(state, Err(TrailError::Damaged { .. }));
            assert!(refused, "{commits} commits, from read {from} on: {state:?}");
            let (state, _) = state_after(&image, &geometry, track, failing, true);
            assert!(state.is_ok(), "a repair goes on: {state:?}");
        }
        let (mut right, mut refused) = (0, 0);
        for bad in 0..16 {
            for read in 0..4 {
                let once = move |number| number == read;
                match state_after(&image, &geometry, bad, once, false).0 {
                    Ok(state) => {
                        assert_eq!(ended(&state), expected, "read {read} of track {bad}");
                        right += 1;
                    }
                    Err(error) => {
                        assert!(matches!(error, TrailError::Damaged { .. }), "{error}");
                        refused += 1;
                    }
                }
            }
        }
        println!("{reads} reads, {right} right, {refused} refused");
        assert!(right > 30 && refused > 0, "{right} {refused}");
    }
}

/// First commits of the records that a replay keeps, and the last commit.
fn places(image: &DiskImage, geometry: &LogGeometry) -> (Vec<Lsn>, Lsn) {
    let (_, tail) = replayed_all(vec![image.clone()], geometry, 1, LogState::default());
    let places = tail.records.iter().map(|place| place.first_lsn);
    (places.collect(), Lsn(tail.state.log_end_lsn))
}
