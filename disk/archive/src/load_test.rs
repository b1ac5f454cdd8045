//! Archives with objects that are gone, damaged, or chosen by somebody else.

use crate::chain::{link_name, object_name, part_name};
use crate::testing::{
    FIRST, FOLDER, LAST, MARK, MemoryBucket, SECOND_BASE, SECOND_FOLDER, START_MS, archive, now,
    read_all, sound, two_bases, written,
};
use crate::{ArchiveError, Catalog, Plan, Target};
use tonearm_base::Lsn;
use tonearm_format::{ArchiveHeader, ArchiveKind};

/// Values that are too small, too large, or at a limit.
const ODD: [u64; 4] = [0, 9, 1 << 40, u64::MAX];

fn plan(bucket: &MemoryBucket, target: Target) -> Result<Plan, ArchiveError> {
    let catalog = now(Catalog::load(bucket))?;
    now(Plan::make(bucket, &catalog, &target))
}

fn faults(bucket: &MemoryBucket) -> Vec<String> {
    now(Catalog::load(bucket)).expect("an archive").faults()
}

/// The commit of the latest state, whose content is right, or why there is none.
fn latest(bucket: &MemoryBucket) -> Result<u64, String> {
    let plan = plan(bucket, Target::Latest).map_err(|error| error.to_string())?;
    let found = written(bucket, &plan).map_err(|error| error.to_string())?;
    assert_eq!(u64::from(found), plan.lsn.0, "another state");
    Ok(plan.lsn.0)
}

#[track_caller]
fn refused(bucket: &MemoryBucket, parts: &[&str]) {
    let error = latest(bucket).expect_err("it is not the latest state");
    for part in parts {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// What is to be expected when object `number` of the chain cannot be used: the flag that takes the last state that can be
/// had, or none where the latest state does not need the object.
fn flag(number: u64) -> Option<&'static str> {
    match number {
        2 | 3 => Some("nothing can be restored without a base"),
        4 => Some("take it with --to-lsn 12"),
        6 => Some("take it with --to-lsn 14"),
        8 => Some("take it with --to-lsn 16"),
        _ => None,
    }
}

#[test]
fn latest_is_never_an_older_state_when_an_object_is_gone() {
    assert_eq!(latest(&sound()), Ok(LAST));
    assert_eq!(faults(&sound()), Vec::<String>::new());
    // Nothing refers to the last one.
    for number in 1..8 {
        let bucket = sound();
        bucket.objects.borrow_mut().remove(&link_name(number));
        let name = format!("object {number:016x} of the chain is missing");
        assert_eq!(faults(&bucket), [name], "{number}");
        match flag(number) {
            None => assert_eq!(latest(&bucket), Ok(LAST), "{number}"),
            Some(part) => refused(&bucket, &[part]),
        }
    }
}

#[test]
fn objects_before_those_that_a_base_keeps_are_not_missing() {
    for (kept_from, fault) in [
        (2, None),
        (3, None),
        (1, Some("object 0000000000000001 of the chain is missing")),
    ] {
        let bucket = archive(&mut |_, header, _| {
            if header.kind == ArchiveKind::Base {
                header.inexact_from = kept_from;
            }
        });
        bucket.objects.borrow_mut().remove(&link_name(1));
        let found = faults(&bucket);
        assert_eq!(found.first().map(String::as_str), fault, "{kept_from}");
        assert_eq!(latest(&bucket), Ok(LAST));
    }
}

#[test]
fn damaged_header_blocks_only_states_that_need_the_object() {
    for number in 1..=8 {
        let (bucket, name) = (sound(), link_name(number));
        bucket.objects.borrow_mut().get_mut(&name).expect("one")[72] ^= 1;
        let faults = faults(&bucket);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(
            faults[0].starts_with(&format!("object {name}: ")),
            "{faults:?}"
        );
        match flag(number) {
            None => assert_eq!(latest(&bucket), Ok(LAST), "{number}"),
            Some(part) => refused(&bucket, &[part]),
        }
    }
}

#[test]
fn object_that_is_cut_off_counts_as_damaged() {
    for bytes in [0, 127] {
        let (bucket, name) = (sound(), link_name(8));
        bucket
            .objects
            .borrow_mut()
            .get_mut(&name)
            .expect("one")
            .truncate(bytes);
        refused(&bucket, &["take it with --to-lsn 16"]);
        assert!(faults(&bucket)[0].contains(&name));
    }
}

#[test]
fn missing_listed_object_is_requested_again() {
    let names: Vec<String> = sound().objects.borrow().keys().cloned().collect();
    for name in &names {
        for times in 1..3 {
            let bucket = sound();
            bucket.misses.borrow_mut().insert(name.clone(), times);
            assert_eq!(faults(&bucket), Vec::<String>::new(), "{name}");
            bucket.misses.borrow_mut().insert(name.clone(), times);
            let plan = plan(&bucket, Target::Mark(MARK.0.into()));
            assert_eq!(plan.expect("a plan").lsn, Lsn(MARK.1), "{name}");
        }
        let bucket = sound();
        bucket.misses.borrow_mut().insert(name.clone(), 1);
        assert_eq!(latest(&bucket), Ok(LAST), "{name}");
    }
}

#[test]
fn foreign_names_are_ignored_and_reported() {
    let strays = [
        "chain/.DS_Store",
        "chain/0000000000000009 (copy)",
        "chain/00000000000000AB",
        "chain/copy-10",
        "chain/ffffffffffffffff",
        "chain/folder/0000000000000009",
        "merged/.DS_Store",
        "merged/0000000000000004",
        "merged/ffffffffffffffff-ffffffffffffffff",
        "mark/.DS_Store",
        "mark/\u{1b}[2J",
    ];
    let bucket = sound();
    for name in strays {
        bucket
            .objects
            .borrow_mut()
            .insert(name.into(), b"no object".repeat(99));
    }
    let catalog = now(Catalog::load(&bucket)).expect("an archive");
    let mut reported = catalog.strays.clone();
    reported.sort();
    let mut wanted = strays.map(String::from);
    wanted.sort();
    assert_eq!(reported, wanted);
    assert_eq!(catalog.faults(), Vec::<String>::new());
    assert_eq!(latest(&bucket), Ok(LAST));
}

#[test]
fn commits_that_are_in_no_object_end_the_ranges() {
    let bucket = archive(&mut |name, header, _| {
        if *name == link_name(6) {
            header.first += 1;
        }
    });
    refused(&bucket, &["commits up to 18", "take it with --to-lsn 14"]);
}

#[test]
fn objects_of_another_store_do_not_count() {
    let theirs = archive(&mut |_, header, _| header.store = [9; 16]);
    for number in [1, 5, 7, 8, 9] {
        let (bucket, name) = (sound(), link_name(number));
        let other = theirs.objects.borrow()[&link_name(number.min(8))].clone();
        bucket.objects.borrow_mut().insert(name, other);
        match number {
            8 => refused(&bucket, &["take it with --to-lsn 16"]),
            9 => refused(&bucket, &["take it with --to-lsn 18"]),
            _ => assert_eq!(latest(&bucket), Ok(LAST), "{number}"),
        }
        assert_eq!(faults(&bucket).len(), 1, "{number}: {:?}", faults(&bucket));
    }
}

#[test]
fn object_of_a_stalled_writer_before_the_base_is_not_used() {
    // The numbers before the base's first range were free again.
    let bucket = sound();
    bucket.objects.borrow_mut().remove(&link_name(1));
    let stalled = archive(&mut |name, header, _| {
        if *name == link_name(4) {
            (header.number, header.first, header.last) = (1, 11, 13);
        }
    });
    let object = stalled.objects.borrow()[&link_name(4)].clone();
    bucket.objects.borrow_mut().insert(link_name(1), object);
    assert_eq!(latest(&bucket), Ok(LAST));
}

#[test]
fn first_commit_after_a_time_ends_the_search() {
    // The clock is set back by a minute: before the last range, or within it.
    for within in [false, true] {
        let bucket = archive(&mut |name, header, payload| {
            if *name != link_name(8) {
                return;
            }
            header.unix_ms -= 60_000;
            // The times of the commits, with the kind of the entry before them.
            let times = [17, 18].map(|lsn| (START_MS + 1000 * lsn, lsn));
            for (at, _) in times.iter().filter(|(_, lsn)| *lsn == 18 || !within) {
                let bytes = [&[6][..], &at.to_le_bytes()].concat();
                let found = payload.windows(9).position(|window| window == bytes);
                let found = found.expect("a time");
                payload[found + 1..found + 9].copy_from_slice(&(at - 60_000).to_le_bytes());
            }
        });
        for (second, wanted) in [(11, None), (12, Some(12)), (14, Some(14)), (15, Some(15))] {
            let at = START_MS + 1000 * second + 500;
            let found = plan(&bucket, Target::Time(at)).map(|plan| plan.lsn.0);
            assert_eq!(found.ok(), wanted, "{within} {second}");
        }
        let found = plan(&bucket, Target::Time(START_MS + 16_500)).expect("a plan");
        let wanted = if within { 16 } else { 18 };
        assert_eq!(found.lsn.0, wanted, "{within}");
    }
}

#[test]
fn errors_of_a_time_target_name_restorable_times() {
    let error = plan(&sound(), Target::Time(START_MS)).expect_err("before all");
    assert_eq!(
        error.to_string(),
        "archive sim://archive: the state at 2023-11-14T22:13:20Z cannot be restored: nothing that was durable then is kept; \
         times that can be restored: 2023-11-14T22:13:32Z to 2023-11-14T22:13:38Z"
    );
    let bucket = sound();
    bucket.objects.borrow_mut().remove(&link_name(4));
    let at = |seconds: u64| Target::Time(START_MS + 1000 * seconds + 500);
    assert_eq!(plan(&bucket, at(12)).expect("a plan").lsn.0, FIRST);
    let error = plan(&bucket, at(16))
        .expect_err("it is not that state")
        .to_string();
    assert!(error.contains("take it with --to-lsn 12; times"), "{error}");
}

#[test]
fn hostile_headers_and_payloads_are_refused_or_read() {
    let names: Vec<String> = sound().objects.borrow().keys().cloned().collect();
    let fields: [fn(&mut ArchiveHeader) -> &mut u64; 10] = [
        |header| &mut header.number,
        |header| &mut header.epoch,
        |header| &mut header.first,
        |header| &mut header.last,
        |header| &mut header.inexact_from,
        |header| &mut header.exact_from,
        |header| &mut header.unix_ms,
        |header| &mut header.raw_bytes,
        |header| &mut header.stored_bytes,
        |header| &mut header.base,
    ];
    let kinds = [
        ArchiveKind::Opening,
        ArchiveKind::Range,
        ArchiveKind::Base,
        ArchiveKind::BasePart,
        ArchiveKind::Mark,
        ArchiveKind::Merged,
    ];
    let changed = |name: &str, change: &dyn Fn(&mut ArchiveHeader, &mut Vec<u8>)| {
        let mut own = None;
        let bucket = archive(&mut |at, header, payload| {
            if at == name {
                change(header, payload);
                own = Some(object_name(header));
            }
        });
        read_all(&bucket);
        // The same under the name that its header gives it.
        let object = bucket.objects.borrow()[name].clone();
        let own = own.expect("it is there");
        if own != name {
            bucket.objects.borrow_mut().insert(own, object);
            read_all(&bucket);
        }
    };
    for name in &names {
        for value in ODD {
            for field in fields {
                changed(name, &|header, _| *field(header) = value);
                if *name == link_name(6) {
                    changed(name, &|header, _| {
                        header.kind = ArchiveKind::Merged;
                        *field(header) = value;
                    });
                }
            }
            for at in 0..4 {
                changed(name, &|_, payload| {
                    let at = (at * 8 + at / 2).min(payload.len().saturating_sub(8));
                    let end = payload.len().min(at + 8);
                    payload[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
                });
            }
        }
        for kind in kinds {
            changed(name, &|header, _| header.kind = kind);
        }
        changed(name, &|header, _| header.encrypted = true);
        changed(name, &|_, payload| payload.truncate(payload.len() / 2));
    }
    assert_eq!(read_all(&sound()), Some(Lsn(LAST)));
}

#[test]
fn plan_digest_distinguishes_objects_of_equal_names() {
    let plan_of = |bucket: &MemoryBucket| {
        let catalog = now(Catalog::load(bucket)).unwrap();
        now(Plan::make(bucket, &catalog, &Target::Latest)).unwrap()
    };
    let own = plan_of(&sound());
    let other = archive(&mut |name, header, _| {
        header.unix_ms += u64::from(name == "chain/0000000000000004");
    });
    let other = plan_of(&other);
    let names = |plan: &Plan| -> Vec<String> {
        let objects = plan.objects.iter();
        objects.map(|object| object.name.clone()).collect()
    };
    assert_eq!(names(&own), names(&other));
    let count = own.objects.len();
    assert_eq!(own.digest_of(0), other.digest_of(0));
    assert_ne!(own.digest_of(count), other.digest_of(count));
    assert_eq!(own.digest_of(count), plan_of(&sound()).digest_of(count));
    assert_eq!(own.digest_of(count + 1), None);
}

/// Damages the last byte of an object, which is one of its payload.
fn damage(bucket: &MemoryBucket, name: &str) {
    let mut objects = bucket.objects.borrow_mut();
    *objects.get_mut(name).unwrap().last_mut().unwrap() ^= 1;
}

#[test]
fn damaged_base_is_replaced_by_an_older_one() {
    for lacks in [false, true] {
        let bucket = two_bases();
        let sound = plan(&bucket, Target::Latest).unwrap();
        assert_eq!((sound.lsn.0, sound.base), (LAST, 7));
        if lacks {
            drop(bucket.objects.borrow_mut().remove(SECOND_BASE));
        } else {
            damage(&bucket, SECOND_BASE);
        }
        let catalog = if lacks {
            // It goes after the catalog was read.
            now(Catalog::load(&two_bases())).unwrap()
        } else {
            now(Catalog::load(&bucket)).unwrap()
        };
        let plan = now(Plan::make(&bucket, &catalog, &Target::Latest)).unwrap();
        assert_eq!((plan.lsn.0, plan.base), (LAST, 3));
        assert_eq!(plan.left_out.len(), 1);
        assert_eq!(plan.left_out[0].0, 7);
        assert!(plan.left_out[0].1.contains(SECOND_BASE));
        assert_eq!(u64::from(written(&bucket, &plan).unwrap()), LAST);
    }
}

#[test]
fn base_with_a_damaged_part_is_known_and_can_be_left_out() {
    let bucket = two_bases();
    damage(&bucket, &part_name(SECOND_FOLDER, 0));
    let mut catalog = now(Catalog::load(&bucket)).unwrap();
    let make = |catalog: &Catalog| now(Plan::make(&bucket, catalog, &Target::Latest));
    let plan = make(&catalog).unwrap();
    let error = written(&bucket, &plan).expect_err("its part is damaged");
    assert_eq!(plan.damaged_base(&error), Some(7));
    catalog.leave_out(7);
    let older = make(&catalog).unwrap();
    assert_eq!((older.lsn, older.base), (plan.lsn, 3));
    assert_eq!(u64::from(written(&bucket, &older).unwrap()), LAST);
    assert_eq!(older.damaged_base(&error), None);
    // With none left there is no state.
    catalog.leave_out(3);
    let none = make(&catalog).expect_err("no base is left");
    assert!(matches!(none, ArchiveError::NotRestorable { .. }), "{none}");
}

#[test]
fn only_damaged_base_is_an_error() {
    let bucket = sound();
    damage(&bucket, &link_name(3));
    let error = plan(&bucket, Target::Latest).expect_err("there is no other base");
    assert_eq!(error.damaged_object(), Some(&*link_name(3)), "{error}");
}

#[test]
fn object_longer_than_its_header_is_damaged() {
    for name in [link_name(4), part_name(FOLDER, 0)] {
        let bucket = sound();
        let plan = plan(&bucket, Target::Latest).unwrap();
        let mut objects = bucket.objects.borrow_mut();
        objects.get_mut(&name).unwrap().extend([0; 9999]);
        drop(objects);
        let error = written(&bucket, &plan).expect_err("it is too long");
        assert!(error.to_string().contains("not as long as"), "{error}");
        // No more of it was read than is needed to know that.
        let most = bucket.most.borrow();
        assert!(most[&name] < 4096, "{}", most[&name]);
    }
}
