//! Ranges of an archive are merged as they grow old.

use super::*;
use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use tonearm_archive::{Bytes, MarkRequest, MergeLevel, Source};
use tonearm_format::ArchiveHeader;

/// Requests of an archiver that have been made: `put`, `get`, `heads`, `list` or `delete`, and the name.
pub(super) type Requests = Rc<RefCell<Vec<(&'static str, String)>>>;

pub(super) type Holds = dyn Fn(&str, &str, &Requests) -> bool;

pub(super) type Refuses = dyn Fn(&str) -> Option<BucketError>;

/// A bucket whose requests are noted, and held or refused where a test says so.
pub(super) struct Gate {
    pub(super) inner: SimBucket,
    /// Every object that was ever put.
    all: Objects,
    requests: Requests,
    /// Returns at each request whether it is held from then on, until the gate is opened.
    pub(super) holds: Box<Holds>,
    /// Returns what is answered to requests of a kind, in place of carrying them out.
    pub(super) refuses: Box<Refuses>,
    /// Returns whether an object is answered as absent.
    pub(super) hides: Box<dyn Fn(&str) -> bool>,
    pub(super) is_open: Rc<Cell<bool>>,
    pub(super) is_held: Rc<Cell<bool>>,
}

impl Gate {
    pub(super) fn new(inner: SimBucket) -> Self {
        Self {
            inner,
            all: Objects::default(),
            requests: Requests::default(),
            holds: Box::new(|_, _, _| false),
            refuses: Box::new(|_| None),
            hides: Box::new(|_| false),
            is_open: Rc::default(),
            is_held: Rc::default(),
        }
    }

    fn keep(&self, name: &str, object: &Bytes) {
        let mut all = self.all.borrow_mut();
        all.entry(name.to_string())
            .or_insert_with(|| object.clone());
    }

    async fn pass(&self, kind: &'static str, name: &str) -> Result<(), BucketError> {
        if !self.is_open.get() && (self.holds)(kind, name, &self.requests) {
            self.is_held.set(true);
            while !self.is_open.get() {
                self.inner.rt.sleep(Nanos::from_millis(1)).await;
            }
        }
        self.requests.borrow_mut().push((kind, name.to_string()));
        (self.refuses)(kind).map_or(Ok(()), Err)
    }
}

impl Bucket for Gate {
    fn put_new<'a>(&'a self, name: &'a str, object: Bytes) -> Boxed<'a, Result<bool, BucketError>> {
        Box::pin(async move {
            self.pass("put", name).await?;
            self.keep(name, &object);
            self.inner.put_new(name, object).await
        })
    }

    fn get<'a>(
        &'a self,
        name: &'a str,
        most: u64,
    ) -> Boxed<'a, Result<Option<Vec<u8>>, BucketError>> {
        Box::pin(async move {
            self.pass("get", name).await?;
            let found = self.inner.get(name, most).await?;
            Ok(found.filter(|_| !(self.hides)(name)))
        })
    }

    fn heads<'a>(
        &'a self,
        names: &'a [String],
        bytes: usize,
    ) -> Boxed<'a, Result<Vec<Option<Vec<u8>>>, BucketError>> {
        Box::pin(async move {
            let first = names.first().map_or("", |name| name);
            self.pass("heads", first).await?;
            let mut heads = self.inner.heads(names, bytes).await?;
            for (head, name) in heads.iter_mut().zip(names) {
                head.take_if(|_| (self.hides)(name));
            }
            Ok(heads)
        })
    }

    fn list<'a>(&'a self, folder: &'a str) -> Boxed<'a, Result<Vec<String>, BucketError>> {
        Box::pin(async move {
            self.pass("list", folder).await?;
            self.inner.list(folder).await
        })
    }

    fn delete<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<(), BucketError>> {
        Box::pin(async move {
            self.pass("delete", name).await?;
            self.inner.delete(name).await
        })
    }

    fn url(&self) -> String {
        self.inner.url()
    }
}

/// For how long every commit is kept, in milliseconds.
const KEEP_MS: u64 = 20;

/// Levels for runs of less than a second.
const LEVELS: [MergeLevel; 3] = [
    MergeLevel {
        after_ms: 0,
        span_ms: 10,
    },
    MergeLevel {
        after_ms: 60,
        span_ms: 40,
    },
    MergeLevel {
        after_ms: 200,
        span_ms: 160,
    },
];

fn options(keep_every_commit_ms: u64) -> ArchiverOptions {
    ArchiverOptions {
        interval: Nanos::from_millis(2),
        base_bytes_per_second: 0,
        keep_every_commit_ms,
        levels: LEVELS,
        ..ArchiverOptions::default()
    }
}

/// What one opening of a store does.
struct Opening {
    /// Of its options those of the archiver are in `options`.
    run: Run,
    options: ArchiverOptions,
    /// The archiver is held before its n-th deletion of a range, and is cut off there.
    cut_at_delete: Option<usize>,
    /// Some commits get names. Large units are left out, because states near them may be missing anyway.
    marks: bool,
}

impl Opening {
    /// An ordinary one.
    fn of(run: Run, options: ArchiverOptions) -> Self {
        Self {
            run: Run {
                in_order: true,
                delay: 200_000,
                ..run
            },
            options,
            cut_at_delete: None,
            marks: false,
        }
    }
}

/// What is known of an archive.
#[derive(Default)]
struct Known {
    objects: Objects,
    model: Model,
    marks: Rc<RefCell<Vec<(String, Lsn)>>>,
    /// Times, in milliseconds since 1970, and what was durable then.
    times: Rc<RefCell<Vec<(u64, Lsn)>>>,
    /// All objects that were ever put.
    all: Objects,
    merged: u64,
    bases: u64,
    gaps: u64,
}

impl Known {
    /// Opens the store, archives while it is written, and cuts the power.
    fn open(&mut self, image: &mut StoreImage, opening: Opening) {
        let (objects, model) = (self.objects.clone(), self.model.clone());
        let (marks, times, all) = (self.marks.clone(), self.times.clone(), self.all.clone());
        let run = opening.run;
        let (seed, start_ms) = (run.seed, START_MS + run.seed * 3_600_000);
        let (crash, info) = image.with_disk(seed, async move |world, rt, disk| {
            let engine = disk.engine().clone();
            let main = disk.volume("main").unwrap();
            let mut bytes = contents(&main).await.unwrap();
            model.opened(engine.marks().appended, digest(&bytes), model.1.get());
            let mut gate = Gate::new(SimBucket {
                random: RefCell::new(ChaCha8Rng::seed_from_u64(seed)),
                faults: run.faults,
                lag: run.lag,
                delay: run.delay,
                ..SimBucket::sound(&rt, &objects)
            });
            gate.all = all;
            if let Some(count) = opening.cut_at_delete {
                gate.holds = Box::new(move |kind, name, requests| {
                    let is_range = |name: &str| !name.starts_with("base/");
                    let requests = requests.borrow();
                    let deleted = requests.iter();
                    let deleted =
                        deleted.filter(|(kind, name)| *kind == "delete" && is_range(name));
                    kind == "delete" && is_range(name) && deleted.count() >= count
                });
            }
            let (source, archiver) = archive(&disk, &rt, start_ms, gate, opening.options);
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let (mut wishes, mut noted) = (Vec::new(), engine.marks().appended);
            for number in 0..run.steps {
                let mut peek = random.clone();
                let _first = peek.next_u64();
                if opening.marks && peek.next_u32() % 40 == 35 {
                    random = peek;
                    continue;
                }
                Step::choose(&mut random).make(&disk).await.unwrap();
                if random.next_u32().is_multiple_of(3) {
                    disk.flush().await.unwrap();
                }
                let now = contents(&main).await.unwrap();
                let after = engine.marks().appended;
                // The store makes commits of its own, too.
                if after > noted {
                    model.note(noted, after, digest(&bytes), digest(&now));
                }
                (bytes, noted) = (now, after);
                if opening.marks && random.next_u32().is_multiple_of(12) {
                    let (sender, result) = channel();
                    let done = Box::new(move |marked| drop(sender.send(marked)));
                    let name = format!("mark-{seed}-{number}");
                    source.mark(MarkRequest {
                        name: name.clone(),
                        lsn: after,
                        done,
                    });
                    wishes.push((name, after, result));
                } else {
                    rt.sleep(Nanos(random.next_u64() % run.pause)).await;
                }
                if random.next_u32().is_multiple_of(8) {
                    // In this millisecond more may become durable.
                    let before_ms = source.unix_ms() - 1;
                    times.borrow_mut().push((before_ms, engine.marks().durable));
                }
            }
            if run.in_order {
                disk.flush().await.unwrap();
                source.end();
                archiver.await.unwrap();
                let has_base = engine.archive().unwrap().restorable;
                assert!(!has_base || engine.archived() == engine.marks().appended);
            }
            for (name, lsn, result) in wishes {
                if let Ok(Ok(())) = result.try_recv() {
                    marks.borrow_mut().push((name, lsn));
                }
            }
            let info = engine.archive();
            if engine.marks().appended > noted {
                let same = digest(&bytes);
                model.note(noted, engine.marks().appended, same.clone(), same);
            }
            model.1.set(engine.marks().durable);
            let cut = world.crash();
            source.end();
            (cut, info)
        });
        if let Some(info) = info {
            assert_eq!(info.unmerged, None);
            self.merged += info.merged;
            self.gaps += info.gaps;
            self.bases += u64::from(info.restorable);
        }
        image.disks = crash.images(seed);
    }

    /// What the archive would be without merging.
    fn unmerged(&self) -> Objects {
        let all = self.all.borrow().clone().into_iter();
        let all = all.filter(|(name, _)| !is_merged(name));
        Rc::new(RefCell::new(all.collect()))
    }

    /// Levels of the merged objects that are there.
    fn levels(&self) -> Vec<u8> {
        let objects = self.objects.borrow();
        let merged = objects.iter().filter(|(name, _)| is_merged(name));
        merged
            .map(|(_, object)| ArchiveHeader::decode(object).unwrap().level)
            .collect()
    }
}

pub(super) fn is_link(name: &str) -> bool {
    name.starts_with("chain/")
}

fn is_merged(name: &str) -> bool {
    name.starts_with("merged/")
}

fn overwrite() -> HomeParams {
    Layout::Overwrite.home(BLOCK as u32, 10)
}

/// What a reader whose lists lag finds, and its plans for all commits that it thinks can be restored.
fn read(objects: &Objects, lag: usize) -> (Catalog, BTreeMap<u64, Plan>) {
    with_bucket(objects, async move |mut bucket| {
        bucket.lag = lag;
        let catalog = Catalog::load(&bucket).await.unwrap();
        let mut plans = BTreeMap::new();
        for part in catalog.restorable() {
            for lsn in part.first.0..=part.last.0 {
                let plan = Plan::make(&bucket, &catalog, &Target::Lsn(Lsn(lsn))).await;
                match plan {
                    Ok(plan) => drop(plans.insert(lsn, plan)),
                    // At both ends there must be a state.
                    Err(error) => assert!(
                        lsn != part.first.0 && lsn != part.last.0,
                        "commit {lsn}: {error}"
                    ),
                }
            }
        }
        (catalog, plans)
    })
}

#[test]
fn merged_ranges_give_the_states_that_are_left() {
    let (mut counts, mut levels) = (Counts::default(), [0; 4]);
    let (mut put, mut left, mut merged, mut bases, mut gaps) = (0, 0, 0, 0, 0);
    for seed in 0..9u64 {
        let layout = [Layout::Overwrite, Layout::Hylog, Layout::Segments][seed as usize % 3];
        let mut image = shape(layout, 32).create_with_spare(1 << 20);
        let (mut known, mut old) = (Known::default(), Vec::new());
        for generation in 0..5 {
            // Time to merge what the others have left.
            let is_last = generation == 4;
            if is_last {
                old = known
                    .unmerged()
                    .borrow()
                    .keys()
                    .filter(|name| is_link(name))
                    .cloned()
                    .collect();
            }
            let at = (seed + generation) as usize;
            let options = ArchiverOptions {
                object_bytes: [60 << 10, 120 << 10, 16 << 20][(seed + generation / 2) as usize % 3],
                // A slow base: ranges are merged before it is complete.
                base_bytes_per_second: [0, 32 << 20][at % 2],
                // A merged object that is not listed is deleted later.
                keep_ms: [3_600_000, 0, 0][seed as usize % 3],
                ..options(KEEP_MS)
            };
            let run = Run {
                faults: [0, 9, 25][at % 3],
                lag: (seed % 3) as usize,
                pause: [PAUSE, 40_000_000][usize::from(is_last)],
                ..Run::of(
                    5000 + 10 * seed + generation,
                    150 + 13 * (seed + generation) % 100,
                )
            };
            let mut opening = Opening::of(run, options);
            opening.run.in_order = generation % 2 == 1;
            opening.cut_at_delete = (generation % 2 == 0 && !is_last).then_some(at * 2);
            known.open(&mut image, opening);
            if known.objects.borrow().keys().any(|name| is_link(name)) {
                let lag = (seed % 3) as usize;
                let (catalog, plans) = read(&known.objects, lag);
                assert_eq!((catalog.missing, catalog.unlinked), (vec![], vec![]));
                let some = plans.keys().step_by(11);
                for lsn in some.filter(|lsn| known.model.0.borrow().contains_key(lsn)) {
                    let target = Target::Lsn(Lsn(*lsn));
                    let during = During {
                        lag,
                        ..During::default()
                    };
                    let (_, found) =
                        restore_with(&known.objects, target, overwrite(), during).unwrap();
                    known.model.expects(Lsn(*lsn), &found);
                }
            }
        }
        check(&known.objects, &known.model, &mut counts, overwrite());
        for level in known.levels() {
            levels[level as usize] += 1;
        }
        put += old.len();
        let objects = known.objects.borrow();
        left += old
            .iter()
            .filter(|name| objects.contains_key(*name))
            .count();
        left += objects.keys().filter(|name| is_merged(name)).count();
        drop(objects);
        (merged, bases, gaps) = (
            merged + known.merged,
            bases + known.bases,
            gaps + known.gaps,
        );
    }
    println!(
        "{counts:?}, {levels:?}, {put} put, {left} left, {merged} merged, {bases} bases, {gaps} gaps"
    );
    assert!(counts.restored > 300, "{counts:?}");
    assert!(levels[1..].iter().all(|count| *count > 5), "{levels:?}");
    // Sizes and pauses of many runs leave little to merge.
    assert!(4 * left < 3 * put, "{left} of {put} objects are left");
}

/// Names of commits last, also when the list of names lags. A time gives the last state that is left of those before.
#[test]
fn marks_and_times_are_right_when_ranges_are_merged() {
    let (mut marks, mut times, mut merged) = (0, 0, 0);
    for seed in 0..4u64 {
        let mut image = shape(Layout::Overwrite, 32).create_with_spare(1 << 20);
        let mut known = Known::default();
        for generation in 0..3 {
            let run = Run {
                lag: seed as usize % 3,
                ..Run::of(6000 + 10 * seed + generation, 150)
            };
            let opening = Opening {
                marks: true,
                ..Opening::of(run, options(KEEP_MS))
            };
            known.open(&mut image, opening);
        }
        for (name, lsn) in &*known.marks.borrow() {
            let target = Target::Mark(name.clone());
            let (made, found) = restore(&known.objects, target, overwrite()).unwrap();
            assert_eq!(made, *lsn);
            known.model.expects(made, &found);
            marks += 1;
        }
        let (_, plans) = read(&known.objects, 0);
        for (unix_ms, durable) in &*known.times.borrow() {
            let unmerged = plan(&known.unmerged(), Target::Time(*unix_ms));
            let left = plan(&known.objects, Target::Time(*unix_ms));
            let (Ok(unmerged), Ok(left)) = (unmerged, left) else {
                continue;
            };
            assert!(unmerged.lsn <= *durable);
            let last = plans.range(..=unmerged.lsn.0).next_back();
            assert_eq!(last, Some((&left.lsn.0, &left)), "at {unix_ms}");
            times += 1;
        }
        merged += known.merged;
    }
    println!("{marks} marks, {times} times, {merged} merged");
    assert!(marks > 20 && times > 100 && merged > 100);
}

fn plan(objects: &Objects, target: Target) -> Result<Plan, ArchiveError> {
    with_bucket(objects, async move |bucket| {
        let catalog = Catalog::load(&bucket).await?;
        Plan::make(&bucket, &catalog, &target).await
    })
}

/// A restore has planned, and then ranges that it needs are merged and deleted.
#[test]
fn a_restore_goes_on_when_its_objects_are_merged_meanwhile() {
    let (mut over, mut refused) = (0, 0);
    for seed in 0..8u64 {
        let mut image = shape(Layout::Overwrite, 32).create_with_spare(1 << 20);
        let mut known = Known::default();
        let mut before = Objects::default();
        for generation in 0..2 {
            before = Rc::new(RefCell::new(known.objects.borrow().clone()));
            let options = options([0, KEEP_MS][generation as usize]);
            let run = Run::of(7000 + 10 * seed + generation, 120);
            known.open(&mut image, Opening::of(run, options));
        }
        let (_, plans) = read(&before, 0);
        for (lsn, plan) in plans.iter().step_by(2) {
            let during = During {
                change: Some((*lsn as usize % plan.objects.len(), known.objects.clone())),
                ..During::default()
            };
            match restore_with(&before, Target::Lsn(Lsn(*lsn)), overwrite(), during) {
                Ok((made, found)) => {
                    assert_eq!(made, Lsn(*lsn));
                    known.model.expects(made, &found);
                    over += 1;
                }
                Err(ArchiveError::NotRestorable { what, .. }) => {
                    // Merged ranges after the base may have no state before their end.
                    let none = what == format!("commit {lsn} cannot be restored");
                    let merged = what.contains("only the last state is kept; restore commit ");
                    assert!(none || merged, "{what}");
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    println!("{over} restored, {refused} refused");
    assert!(over > 10 && refused > 10, "{over}, {refused}");
}

/// Another opening takes the place of an archiver that stands still while it merges. The new one keeps every commit. The old
/// one neither deletes ranges nor puts a merged one when it goes on.
#[test]
fn replaced_writer_deletes_nothing_while_merging() {
    // It stands still before it reads a range, or when it has put a merged one.
    for is_put in [false, true] {
        let image = shape(Layout::Overwrite, 32).create_with_spare(1 << 20);
        let objects = Objects::default();
        let shared = objects.clone();
        image.with_disk(8, async move |_, rt, disk| {
            let archive = |gate, keep| archive(&disk, &rt, START_MS, gate, options(keep));
            let mut old = Gate::new(SimBucket::sound(&rt, &shared));
            old.holds = Box::new(move |kind, name, requests| {
                let requests = requests.borrow();
                let has_put = requests
                    .iter()
                    .any(|(kind, name)| *kind == "put" && is_merged(name));
                match is_put {
                    true => has_put && (kind, name) == ("list", "merged"),
                    false => kind == "get" && is_link(name),
                }
            });
            let (requests, is_open, is_held) = (
                old.requests.clone(),
                old.is_open.clone(),
                old.is_held.clone(),
            );
            let (old_source, old_run) = archive(old, KEEP_MS);
            let mut random = ChaCha8Rng::seed_from_u64(8);
            for _ in 0..400 {
                if is_held.get() {
                    break;
                }
                Step::choose(&mut random).make(&disk).await.unwrap();
                rt.sleep(Nanos::from_millis(2)).await;
            }
            assert!(is_held.get());
            let (source, new_run) = archive(Gate::new(SimBucket::sound(&rt, &shared)), 0);
            rt.sleep(Nanos::from_millis(300)).await;
            source.end();
            new_run.await.unwrap();
            let before = shared.borrow().clone();
            let made = requests.borrow().len();
            is_open.set(true);
            let ended = old_run.await;
            assert!(
                matches!(ended, Err(ArchiveError::Fenced { .. })),
                "{ended:?}"
            );
            assert!(*shared.borrow() == before, "it has changed the archive");
            assert!(requests.borrow().len() > made);
            old_source.end();
        });
        let (catalog, _) = read(&objects, 0);
        assert_eq!((catalog.missing, catalog.unlinked), (vec![], vec![]));
    }
}
