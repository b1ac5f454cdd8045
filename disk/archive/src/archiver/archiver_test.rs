use super::rig_test::{Asked, Fate, Rig, options};
use super::*;
use crate::chain::link_name;

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
fn what_is_old_is_deleted_and_merged_after_restarts() {
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
                let (name, done) = ("named".to_string(), sender);
                rig.marks.borrow_mut().push(MarkRequest { name, lsn, done });
            });
            rig.run(6).unwrap();
            assert_eq!(receiver.recv(), Ok(Ok(())), "{folder} {absent}");
            assert_eq!(rig.restorable(), 16, "{folder} {absent}");
            assert_eq!(rig.names("base/").len(), 1, "{folder} {absent}");
        }
    }
}
