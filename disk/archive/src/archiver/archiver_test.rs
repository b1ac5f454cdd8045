use super::rig_test::{Asked, Fate, Rig, options};
use super::*;
use crate::chain::{self, link_name};
use std::cell::RefCell;
use std::collections::BTreeMap;

const DAY_MS: u64 = 24 * 3_600_000;

/// Objects of merged ranges, and bases that are small beside the commits.
fn keeping(keep_ms: u64, keep_every_commit_ms: u64) -> ArchiverOptions {
    ArchiverOptions {
        keep_ms,
        keep_every_commit_ms,
        levels: [MergeLevel {
            after_ms: 0,
            span_ms: 4000,
        }; 3],
        ..options()
    }
}

/// Numbers that can be restored.
fn states(rig: &Rig) -> Vec<u64> {
    let catalog = rig.catalog();
    let parts = catalog.restorable();
    let all = parts.iter().flat_map(|part| part.first.0..=part.last.0);
    let can = |lsn: &u64| {
        let target = crate::Target::Lsn(Lsn(*lsn));
        crate::testing::now(crate::Plan::make(&rig.memory, &catalog, &target)).is_ok()
    };
    let states: std::collections::BTreeSet<u64> = all.filter(can).collect();
    states.into_iter().collect()
}

#[test]
fn wrong_clock_and_restarts_delete_and_merge_nothing_young() {
    // The history is of 610 s, in which there are two bases.
    for options in [keeping(1_000_000, 0), keeping(0, 1_000_000)] {
        for is_set_while_it_runs in [true, false] {
            let rig = Rig::new();
            if is_set_while_it_runs {
                rig.after(605_000, |rig| rig.ahead_ms.set(30 * DAY_MS));
            }
            rig.commits(610);
            rig.open(&options).unwrap();
            let before = states(&rig);
            for _ in 0..3 {
                rig.ahead_ms.set(rig.ahead_ms.get() + 30 * DAY_MS);
                rig.commits(20);
                rig.open(&options).unwrap();
            }
            let after = states(&rig);
            assert!(before.len() > 600 && after.starts_with(&before));
            assert_eq!(rig.names("merged/"), Vec::<String>::new());
        }
    }
}

#[test]
fn jumps_of_the_clock_are_reported_and_counted() {
    let rig = Rig::new();
    rig.after(3000, |rig| rig.ahead_ms.set(DAY_MS));
    rig.after(6000, |rig| rig.ahead_ms.set(0));
    rig.run(10).unwrap();
    let ahead = |info: &ArchiveInfo| {
        info.clock_jumps == 1
            && info
                .clock
                .as_ref()
                .is_some_and(|it| it.contains("ahead by 86400 s"))
    };
    assert!(rig.has_reported(ahead));
    let info = rig.info();
    assert_eq!(info.clock_jumps, 2);
    assert!(info.clock.unwrap().contains("set back by 86400 s"));
}

#[test]
fn archive_is_pruned_and_merged_after_restarts() {
    let (rig, keep) = (Rig::new(), keeping(100_000, 0));
    for _ in 0..4 {
        rig.commits(70);
        rig.open(&keep).unwrap();
    }
    assert!(!rig.names("chain/").contains(&link_name(1)));
    let (rig, keep) = (Rig::new(), keeping(0, 100_000));
    for _ in 0..4 {
        rig.commits(70);
        rig.open(&keep).unwrap();
    }
    assert!(rig.names("merged/").len() > 10);
}

#[test]
fn writer_whose_last_object_is_of_another_opening_is_fenced() {
    let rig = Rig::new();
    rig.after(3700, |rig| {
        // The chain went on to number 90 while this writer was stalled, and another stalled one has used its number.
        let names = rig.names("chain/");
        let last = names.last().unwrap();
        let header = rig.header(last);
        for name in &names {
            rig.remove(name);
        }
        for number in [header.number, 89, 90] {
            let other = ArchiveHeader {
                number,
                epoch: header.epoch + 7,
                previous_crc: 12345,
                ..header
            };
            rig.place(&link_name(number), other.encode().to_vec());
        }
    });
    let ended = rig.run(8);
    assert!(
        matches!(ended, Err(ArchiveError::Fenced { .. })),
        "{ended:?}"
    );
    assert!(rig.info().archived_lsn < 15);
}

#[test]
fn own_object_is_not_taken_for_another() {
    for folder in ["chain/", "base/", "mark/"] {
        for absent in [1, 2, 6] {
            let (rig, mut lost, mut left) = (Rig::new(), String::new(), absent);
            rig.fault(move |asked| match asked {
                Asked::Put(name) if name.starts_with(folder) && lost.is_empty() => {
                    lost = name.to_string();
                    Fate::AnswerLost
                }
                Asked::Head(name) | Asked::Get(name) if *name == lost && left > 0 => {
                    left -= 1;
                    Fate::Absent
                }
                _ => Fate::Sound,
            });
            let (sender, receiver) = std::sync::mpsc::channel();
            rig.after(3500, |rig| {
                let lsn = Lsn(rig.durable.get());
                let name = "named".to_string();
                let done = Box::new(move |result| sender.send(result).unwrap());
                rig.marks.borrow_mut().push(MarkRequest { name, lsn, done });
            });
            rig.run(6).unwrap();
            assert_eq!(receiver.recv(), Ok(Ok(())), "{folder} {absent}");
            assert_eq!(rig.restorable(), 16, "{folder} {absent}");
            assert_eq!(rig.names("base/").len(), 1, "{folder} {absent}");
        }
    }
}

/// Damages an object.
fn damage(rig: &Rig, name: &str) {
    let mut object = rig.object(name);
    object[60] ^= 1;
    rig.place(name, object);
}

#[test]
fn opening_rejects_a_base_with_missing_objects() {
    type Harm<'a> = &'a dyn Fn(&Rig);
    let last = |names: Vec<String>| names.last().unwrap().clone();
    let bases = |rig: &Rig| rig.of_kind(ArchiveKind::Base)[0].clone();
    let cases: [(&str, Harm<'_>); 6] = [
        ("base", &|rig| rig.remove(&bases(rig))),
        ("damaged base", &|rig| damage(rig, &bases(rig))),
        ("part", &|rig| rig.remove(&last(rig.names("base/")))),
        ("damaged part", &|rig| {
            damage(rig, &last(rig.names("base/")))
        }),
        ("range", &|rig| {
            rig.remove(&rig.of_kind(ArchiveKind::Range)[1])
        }),
        ("damaged range", &|rig| {
            damage(rig, &rig.of_kind(ArchiveKind::Range)[2])
        }),
    ];
    for (what, harm) in cases {
        let rig = Rig::new();
        rig.run(6).unwrap();
        harm(&rig);
        rig.reports.borrow_mut().clear();
        rig.run(6).unwrap();
        assert_eq!(rig.info().gaps, 1, "{what}");
        assert!(rig.has_reported(|info| !info.restorable), "{what}");
        assert_eq!(rig.info().archived_lsn, 22, "{what}");
        assert_eq!(rig.restorable(), 22, "{what}");
        // With the new base all is right again.
        rig.run(2).unwrap();
        assert_eq!((rig.info().gaps, rig.restorable()), (0, 24), "{what}");
    }
}

#[test]
fn sound_archive_is_continued_without_a_new_base() {
    for options in [options(), keeping(20_000, 0), keeping(0, 5_000)] {
        let rig = Rig::new();
        for _ in 0..5 {
            rig.commits(20);
            rig.open(&options).unwrap();
            assert_eq!(rig.info().gaps, 0);
        }
        assert_eq!(rig.restorable(), 110);
        if options.keep_ms == 0 {
            assert_eq!(rig.of_kind(ArchiveKind::Base).len(), 1);
        }
    }
}

/// The number after the last one of the chain.
fn next_number(rig: &Rig) -> u64 {
    let names = rig.names("chain/");
    names
        .iter()
        .filter_map(|name| chain::link_number(name))
        .max()
        .unwrap()
        + 1
}

#[test]
fn invalid_objects_after_the_end_are_ignored() {
    type Object<'a> = &'a dyn Fn(&Rig, u64) -> Vec<u8>;
    let of_store = |rig: &Rig, store: Uuid, number: u64| {
        let header = rig.header(&link_name(3));
        let other = ArchiveHeader {
            store,
            number,
            ..header
        };
        other.encode().to_vec()
    };
    let cases: [(&str, u64, Object<'_>); 8] = [
        ("junk", 0xffff, &|_, _| vec![7; 400]),
        ("nothing", 0xffff, &|_, _| Vec::new()),
        ("another store", 0xffff, &|rig, number| {
            of_store(rig, [9; 16], number)
        }),
        ("a copy", 0xff, &|rig, _| rig.object(&link_name(3))),
        ("junk next", 0, &|_, _| vec![7; 400]),
        ("nothing next", 0, &|_, _| Vec::new()),
        ("another store next", 0, &|rig, number| {
            of_store(rig, [9; 16], number)
        }),
        ("a copy next", 0, &|rig, _| rig.object(&link_name(3))),
    ];
    for (what, number, object) in cases {
        // Before an opening, and while the archiver runs.
        let rig = Rig::new();
        rig.run(6).unwrap();
        let at = number.max(next_number(&rig));
        rig.place(&link_name(at), object(&rig, at));
        rig.asked.set(0);
        rig.run(6).unwrap();
        assert!(rig.asked.get() < 2000, "{what}: {}", rig.asked.get());
        assert_eq!(rig.info().archived_lsn, 22, "{what}");
        assert!(rig.info().notes.odd.is_some(), "{what}");
        assert_eq!(rig.info().gaps, 0, "{what}");
        let catalog = rig.catalog();
        assert_eq!(
            catalog.restorable().last().map(|part| part.last.0),
            Some(22),
            "{what}"
        );
        if number == 0 {
            rig.after(3200, |rig| {
                rig.place(&link_name(next_number(rig)), vec![7; 100]);
            });
        }
        rig.run(6).unwrap();
        assert_eq!(rig.info().archived_lsn, 28, "{what}");
    }
}

#[test]
fn object_of_a_later_version_is_not_passed_over() {
    let rig = Rig::new();
    rig.run(3).unwrap();
    let number = next_number(&rig);
    let mut later = rig.object(&link_name(number - 1));
    later[8] = 9;
    rig.place(&link_name(number), later);
    let ended = rig.run(3);
    assert!(
        matches!(ended, Err(ArchiveError::Object { .. })),
        "{ended:?}"
    );
}

#[test]
fn archive_of_another_store_is_refused() {
    let rig = Rig::new();
    rig.run(3).unwrap();
    rig.store.set([4; 16]);
    let ended = rig.run(3);
    assert!(
        matches!(ended, Err(ArchiveError::OtherStore { .. })),
        "{ended:?}"
    );
}

#[test]
fn listed_object_that_is_absent_for_seconds_is_waited_for() {
    let rig = Rig::new();
    rig.run(3).unwrap();
    let last = link_name(next_number(&rig) - 1);
    let (clock, until) = (rig.now.clone(), Nanos(rig.now.get().0 + 3_000_000_000));
    rig.fault(move |asked| match asked {
        Asked::Head(name) | Asked::Get(name) if *name == last && clock.get() < until => {
            Fate::Absent
        }
        _ => Fate::Sound,
    });
    rig.reports.borrow_mut().clear();
    rig.run(8).unwrap();
    assert!(rig.has_reported(|info| info.state == ArchiveState::Waiting));
    assert_eq!((rig.info().gaps, rig.restorable()), (0, 21));
}

#[test]
fn archive_goes_on_when_its_last_object_is_gone() {
    let rig = Rig::new();
    rig.after(4200, |rig| {
        let last = link_name(next_number(rig) - 1);
        rig.remove(&last);
    });
    rig.run(60).unwrap();
    assert!(rig.has_reported(|info| info.state == ArchiveState::Waiting));
    assert!(rig.has_reported(|info| info.gaps == 1 && !info.restorable));
    assert_eq!(
        (rig.info().gaps, rig.info().archived_lsn, rig.restorable()),
        (1, 70, 70)
    );
    rig.run(1).unwrap();
    assert_eq!((rig.info().gaps, rig.restorable()), (0, 71));
}

#[test]
fn damaged_block_of_the_store_ends_no_archive() {
    let (rig, keep) = (Rig::new(), keeping(400_000, 0));
    // The base of the middle of the time cannot be read.
    rig.after(100_000, |rig| rig.bad_block.set(true));
    rig.after(250_000, |rig| assert!(rig.info().notes.unbased.is_some()));
    rig.after(300_000, |rig| rig.bad_block.set(false));
    rig.commits(1000);
    rig.open(&keep).unwrap();
    assert_eq!((rig.info().gaps, rig.restorable()), (0, 1010));
    assert_eq!(rig.info().notes.unbased, None);
    assert!(rig.of_kind(ArchiveKind::Base).len() >= 2);
    // A first one that cannot be read.
    let rig = Rig::new();
    rig.bad_block.set(true);
    rig.after(100_000, |rig| {
        assert!(!rig.info().restorable && rig.info().notes.unbased.is_some());
        rig.bad_block.set(false);
    });
    rig.run(800).unwrap();
    assert_eq!((rig.info().gaps, rig.restorable()), (0, 810));
}

#[test]
fn commits_do_not_wait_for_deletes() {
    let (rig, keep) = (Rig::new(), keeping(100_000, 0));
    let deletes = std::rc::Rc::new(std::cell::Cell::new(0));
    let count = deletes.clone();
    rig.fault(move |asked| match asked {
        Asked::Delete => {
            count.set(count.get() + 1);
            Fate::Slow
        }
        _ => Fate::Sound,
    });
    rig.commits(600);
    rig.open(&keep).unwrap();
    assert!(deletes.get() > 100, "{}", deletes.get());
    // Each second there is a commit: a range for each few seconds, also while objects are deleted.
    let ranges = rig.of_kind(ArchiveKind::Range);
    let widths = ranges.iter().map(|name| {
        let header = rig.header(name);
        header.last - header.first
    });
    assert!(widths.max().unwrap() <= 5);
    assert_eq!(rig.restorable(), 610);
}

#[test]
fn invalid_object_after_the_end_does_not_stop_retention() {
    let (rig, keep) = (Rig::new(), keeping(100_000, 0));
    rig.after(1500, |rig| rig.place(&link_name(0xffff), vec![7; 400]));
    rig.commits(400);
    rig.open(&keep).unwrap();
    assert!(!rig.names("chain/").contains(&link_name(1)));
    assert_eq!(rig.info().notes.undeleted, None);
    // One that states need does.
    let rig = Rig::new();
    rig.after(90_000, |rig| damage(rig, &link_name(60)));
    rig.commits(120);
    rig.open(&keep).unwrap();
    assert!(rig.names("chain/").contains(&link_name(1)));
    let why = rig.info().notes.undeleted.unwrap();
    assert!(why.contains("cannot be used"), "{why}");
}

#[test]
fn damaged_merged_object_is_not_made_for_ever() {
    let (rig, keep) = (Rig::new(), keeping(0, 5_000));
    rig.after(15_000, |rig| {
        for first in 2..60 {
            for last in first + 1..60 {
                let name = format!("merged/{first:016x}-{last:016x}");
                if !rig.names("merged/").contains(&name) && first % 3 == 0 {
                    rig.place(&name, vec![0; 400]);
                }
            }
        }
    });
    let puts = std::rc::Rc::new(RefCell::new(BTreeMap::<String, u32>::new()));
    let counts = puts.clone();
    rig.fault(move |asked| {
        if let Asked::Put(name) = asked {
            *counts.borrow_mut().entry(name.to_string()).or_default() += 1;
        }
        Fate::Sound
    });
    rig.commits(120);
    rig.open(&keep).unwrap();
    let most = puts
        .borrow()
        .iter()
        .filter(|(name, _)| name.starts_with("merged/"))
        .map(|(_, puts)| *puts)
        .max();
    assert_eq!(most, Some(1));
    assert!(rig.info().unmerged.is_some());
    assert_eq!(rig.restorable(), 130);
}
