//! The archive of a store that is written, cut off and opened again: the state of every archived commit is restored and
//! compared with what the store had then.

#![allow(clippy::unwrap_used)]

#[path = "archive/keys.rs"]
mod keys;
#[path = "archive/only.rs"]
mod only;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_archive::{
    ArchiveError, Archiver, ArchiverOptions, Bucket, BucketError, Catalog, EngineSource, Plan,
    Target,
};
use tonearm_base::{Lsn, Nanos};
use tonearm_engine::HomeParams;
use tonearm_format::ArchiveHeader;
use tonearm_rt::{Boxed, Rt};
use tonearm_sim::archives::{
    BLOCK, DELAY, During, Model, Objects, SPARE, START_MS, SimBucket, SimKeys, Step, archive,
    clock, digest, open_options, restorable, restore, restore_with, shape, with_bucket,
};
use tonearm_sim::{Layout, StoreImage, contents};
use tonearm_world::{DiskImage, SimWorld};

#[path = "archive/fence.rs"]
mod fence;
#[path = "archive/flushed.rs"]
mod flushed;
#[path = "archive/merging.rs"]
mod merging;
#[path = "archive/moved.rs"]
mod moved;
#[path = "archive/places.rs"]
mod places;
#[path = "archive/refusals.rs"]
mod refusals;
#[path = "archive/spilled.rs"]
mod spilled;
#[path = "archive/times.rs"]
mod times;

/// Longest pause between the steps of an ordinary run, in nanoseconds.
const PAUSE: u64 = 3_000_000;

/// What one run of a store does.
#[derive(Clone, Copy)]
struct Run {
    seed: u64,
    steps: u64,
    faults: u32,
    lag: usize,
    object_bytes: usize,
    /// Longest time of half a request, in nanoseconds.
    delay: u64,
    /// For how long old states are kept, in milliseconds; 0 for ever.
    keep_ms: u64,
    /// The archiver ends before the store does, or is cut off with it.
    in_order: bool,
    /// Longest pause after a step, in nanoseconds. After long ones everything is written back.
    pause: u64,
}

impl Run {
    /// An ordinary one.
    fn of(seed: u64, steps: u64) -> Self {
        Self {
            seed,
            steps,
            faults: 0,
            lag: 0,
            object_bytes: 16 << 20,
            delay: DELAY,
            keep_ms: 0,
            in_order: false,
            pause: PAUSE,
        }
    }
}

/// What a run has met.
#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    runs: u64,
    restored: u64,
    taken_back: u64,
    gaps: u64,
    bases: u64,
    inexact: u64,
}

/// Opens the store, archives while it is written, and cuts the power. Returns what is left.
fn run(
    image: &StoreImage,
    objects: &Objects,
    model: &Model,
    run: Run,
    counts: &mut Counts,
) -> Vec<DiskImage> {
    run_with_accepted(image, objects, model, run, counts).0
}

/// As [`run`]. Returns also what would be left if the drives had lost nothing that they had accepted.
fn run_with_accepted(
    image: &StoreImage,
    objects: &Objects,
    model: &Model,
    run: Run,
    counts: &mut Counts,
) -> (Vec<DiskImage>, Vec<DiskImage>) {
    let (objects, model) = (objects.clone(), model.clone());
    let (crash, accepted, gaps, bases, taken_back) =
        image.with_disk(run.seed, async move |world, rt, disk| {
            let engine = disk.engine().clone();
            let last = model.0.borrow().keys().next_back().copied().unwrap_or(0);
            let main = disk.volume("main").unwrap();
            let mut bytes = contents(&main).await.unwrap();
            let opened = engine.marks().appended;
            model.opened(opened, digest(&bytes), model.1.get());
            let taken_back = u64::from(opened.0 < last);
            let hours = run.seed * 3_600_000;
            let bucket = SimBucket {
                random: RefCell::new(ChaCha8Rng::seed_from_u64(run.seed)),
                faults: run.faults,
                lag: run.lag,
                delay: run.delay,
                // Every second opening encrypts. No archiver can decrypt.
                keys: SimKeys {
                    encrypts: run.seed.is_multiple_of(2),
                    decrypts: false,
                },
                ..SimBucket::sound(&rt, &objects)
            };
            let options = ArchiverOptions {
                interval: Nanos::from_millis(10),
                object_bytes: run.object_bytes,
                base_bytes_per_second: 0,
                keep_ms: run.keep_ms,
                ..ArchiverOptions::default()
            };
            let (source, archiver) = archive(&disk, &rt, START_MS + hours, bucket, options);
            let mut random = ChaCha8Rng::seed_from_u64(run.seed);
            for _ in 0..run.steps {
                let before = engine.marks().appended;
                Step::choose(&mut random).make(&disk).await.unwrap();
                let now = contents(&main).await.unwrap();
                if engine.marks().appended > before {
                    model.note(
                        before,
                        engine.marks().appended,
                        digest(&bytes),
                        digest(&now),
                    );
                }
                bytes = now;
                rt.sleep(Nanos(random.next_u64() % run.pause)).await;
            }
            if run.steps == 0 {
                // Time for a base of the store as it is.
                rt.sleep(Nanos::from_secs(1)).await;
            }
            if run.in_order {
                disk.flush().await.unwrap();
                let last = engine.marks().appended;
                source.end();
                archiver.await.unwrap();
                // Without a base nothing can be restored, and nothing is called archived.
                let has_base = engine.archive().unwrap().restorable;
                let archived = engine.archived();
                assert!(!has_base || archived == last, "{archived} of {last}");
            }
            // An archiver that has not reported yet is not known to the store.
            let info = engine.archive().unwrap_or_default();
            let (gaps, has_base) = (info.gaps, info.restorable);
            assert!(engine.archived() <= engine.marks().durable);
            assert!(
                has_base || gaps > 0 || engine.archived() == Lsn(0),
                "no base"
            );
            model.1.set(engine.marks().durable);
            let cut = world.crash();
            source.end();
            (cut, world.images(), gaps, u64::from(has_base), taken_back)
        });
    counts.runs += 1;
    counts.gaps += gaps;
    counts.bases += bases;
    counts.taken_back += taken_back;
    (crash.images(run.seed), accepted)
}

/// Restores every commit that can be restored, and compares.
fn check(objects: &Objects, model: &Model, counts: &mut Counts, home: HomeParams) {
    let mut commits = std::collections::BTreeSet::new();
    for part in &restorable(objects) {
        commits.extend(part.first.0..=part.last.0);
    }
    for lsn in commits {
        if !model.0.borrow().contains_key(&lsn) {
            continue;
        }
        match restore(objects, Target::Lsn(Lsn(lsn)), home) {
            Ok((made, found)) => {
                assert_eq!(made, Lsn(lsn));
                model.expects(Lsn(lsn), &found);
                counts.restored += 1;
            }
            Err(ArchiveError::NotRestorable { .. }) => counts.inexact += 1,
            Err(error) => panic!("commit {lsn}: {error}"),
        }
    }
}

#[test]
fn archived_commits_survive_power_cuts_and_lost_requests() {
    let mut counts = Counts::default();
    for seed in 0..12 {
        let layout = [Layout::Overwrite, Layout::Hylog, Layout::Segments][seed as usize % 3];
        let mut image = shape(layout, 32).create_with_spare(SPARE[seed as usize / 3 % 2]);
        let (objects, model) = (Objects::default(), Model::default());
        for generation in 0..5 {
            let one = Run {
                faults: [0, 7, 20][(seed + generation) as usize % 3],
                lag: (seed % 3) as usize,
                object_bytes: [1, 200 << 10, 16 << 20][generation as usize % 3],
                in_order: generation % 3 == 1,
                pause: [20_000_000, PAUSE][seed as usize % 2],
                ..Run::of(100 * seed + generation, 20 + 13 * (seed + generation) % 40)
            };
            image.disks = run(&image, &objects, &model, one, &mut counts);
        }
        let home = [Layout::Overwrite, Layout::Hylog][seed as usize % 2].home(BLOCK as u32, 10);
        check(&objects, &model, &mut counts, home);
    }
    println!("{counts:?}");
    assert!(counts.restored > 500 && counts.taken_back > 5, "{counts:?}");
    assert!(counts.inexact > 20, "{counts:?}");
}

/// A bucket that is slow, and a small log: the log wraps around before its commits are archived.
#[test]
fn overwritten_log_leaves_a_gap_and_later_commits_restore() {
    let mut counts = Counts::default();
    for seed in 0..6 {
        let mut image = shape(Layout::Overwrite, 10).create_with_spare(1 << 20);
        let (objects, model) = (Objects::default(), Model::default());
        for generation in 0..3 {
            let one = Run {
                delay: [DELAY, 40_000_000][generation as usize % 2],
                in_order: generation != 1,
                ..Run::of(1000 + 10 * seed + generation, 150)
            };
            image.disks = run(&image, &objects, &model, one, &mut counts);
        }
        let home = Layout::Overwrite.home(BLOCK as u32, 10);
        check(&objects, &model, &mut counts, home);
    }
    println!("{counts:?}");
    assert!(counts.gaps > 5 && counts.restored > 200, "{counts:?}");
}

/// Another opening takes the next place of the chain. The archiver ends, and has not called anything archived since.
#[test]
fn a_writer_whose_place_is_taken_ends() {
    let image = shape(Layout::Overwrite, 32).create_with_spare(1 << 20);
    image.with_disk(5, async |_, rt, disk| {
        let objects = Objects::default();
        let options = ArchiverOptions {
            interval: Nanos::from_millis(10),
            ..ArchiverOptions::default()
        };
        let bucket = SimBucket::sound(&rt, &objects);
        let (source, archiver) = archive(&disk, &rt, START_MS, bucket, options);
        let mut random = ChaCha8Rng::seed_from_u64(5);
        for _ in 0..10 {
            Step::choose(&mut random).make(&disk).await.unwrap();
            rt.sleep(Nanos::from_millis(30)).await;
        }
        let archived = disk.engine().archived();
        {
            let mut objects = objects.borrow_mut();
            let mut opening = objects["chain/0000000000000001"].to_vec();
            let last = objects.keys().rfind(|name| name.starts_with("chain/"));
            let number = u64::from_str_radix(&last.unwrap()[6..], 16).unwrap() + 1;
            let header = ArchiveHeader::decode(&opening).unwrap();
            let header = ArchiveHeader { number, ..header }.encode();
            opening[..header.len()].copy_from_slice(&header);
            objects.insert(format!("chain/{number:016x}"), opening.into());
        }
        for _ in 0..10 {
            Step::choose(&mut random).make(&disk).await.unwrap();
        }
        disk.flush().await.unwrap();
        let mut ended = None;
        for _ in 0..100 {
            rt.sleep(Nanos::from_millis(100)).await;
            ended = ended.or_else(|| archiver.take());
        }
        let ended = ended.expect("it ends");
        assert!(
            matches!(ended, Err(ArchiveError::Fenced { .. })),
            "{ended:?}"
        );
        let engine = disk.engine();
        assert!(engine.archived() <= archived + 1);
        let waited = engine.wait_archived(engine.marks().durable, None).await;
        assert!(waited.unwrap_err().to_string().contains("has taken over"));
        source.end();
    });
}

/// The power is cut while the first base is read or completed. Its blocks may have commits that the cut takes back.
#[test]
fn base_contains_no_commit_undone_by_a_power_cut() {
    let mut counts = Counts::default();
    for seed in 0..80 {
        let mut image = shape(Layout::Overwrite, 32).create_with_spare(SPARE[seed as usize % 2]);
        let (objects, model) = (Objects::default(), Model::default());
        for generation in 0..2 {
            let one = Run {
                in_order: generation == 1,
                ..Run::of(
                    2000 + 10 * seed + generation,
                    [3 + seed / 2, 60][generation as usize],
                )
            };
            image.disks = run(&image, &objects, &model, one, &mut counts);
        }
        let home = Layout::Overwrite.home(BLOCK as u32, 10);
        check(&objects, &model, &mut counts, home);
    }
    println!("{counts:?}");
    assert!(
        counts.taken_back > 40 && counts.restored > 2000,
        "{counts:?}"
    );
}

/// Objects that only old states need are deleted. What is left has no hole, and can be restored.
#[test]
fn retained_states_stay_restorable_after_deletion() {
    let (mut counts, mut deletions) = (Counts::default(), 0);
    for seed in 0..3 {
        let mut image = shape(Layout::Hylog, 32).create_with_spare(1 << 20);
        let (objects, model) = (Objects::default(), Model::default());
        let (mut firsts, mut kept) = (Vec::new(), Lsn(0));
        for generation in 0..8 {
            let one = Run {
                // A new base is complete before the run ends.
                delay: DELAY / 4,
                object_bytes: 100 << 10,
                // A run takes twelve seconds.
                keep_ms: 30_000,
                in_order: generation % 2 == 0,
                pause: 400_000_000,
                // An hour later each time, which only the clock could show. So it does not count.
                ..Run::of(3000 + 10 * seed + generation, 60)
            };
            image.disks = run(&image, &objects, &model, one, &mut counts);
            let first = objects
                .borrow()
                .keys()
                .find(|name| name.starts_with("chain/"))
                .cloned();
            firsts.push(first);
            if generation == 5 {
                kept = model.1.get();
            }
        }
        let home = Layout::Overwrite.home(BLOCK as u32, 10);
        check(&objects, &model, &mut counts, home);
        // Two runs have passed since that commit.
        let mut restorable = restorable(&objects).into_iter();
        assert!(
            restorable.any(|part| part.first <= kept),
            "a state that is young enough is deleted"
        );
        firsts.dedup();
        deletions += firsts.len() - 1;
        let objects = objects.borrow();
        let folders: std::collections::BTreeSet<&str> = objects
            .keys()
            .filter_map(|name| name.strip_prefix("base/"))
            .map(|part| &part[..16])
            .collect();
        assert!(
            folders.len() <= 4,
            "parts of old bases are left: {folders:?}"
        );
    }
    println!("{counts:?}, {deletions} deletions");
    assert!(
        counts.restored > 200 && deletions > 3,
        "{counts:?}, {deletions}"
    );
}
