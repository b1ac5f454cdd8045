//! The archive of a store that is written, cut off and opened again: the state of every archived commit is restored and
//! compared with what the store had then.

#![allow(clippy::unwrap_used)]

#[path = "archive/keys.rs"]
mod keys;
#[path = "archive/only.rs"]
mod only;

use self::keys::SimKeys;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_archive::{
    ArchiveError, Archiver, ArchiverOptions, Bucket, BucketError, Bytes, Catalog, EngineSource,
    Keys, Plan, Rebuild, Restorable, Target,
};
use tonearm_base::{BufPool, Lsn, Nanos, crc32c};
use tonearm_disk::{Disk, OpenOptions};
use tonearm_engine::{CreateParams, Engine, HomeParams, MemberSpace, NewMember, plan_create};
use tonearm_format::Roles;
use tonearm_rt::{Boxed, Rt};
use tonearm_sim::{Heads, Layout, Shape, StoreImage, contents};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

#[path = "archive/flushed.rs"]
mod flushed;
#[path = "archive/merging.rs"]
mod merging;
#[path = "archive/places.rs"]
mod places;
#[path = "archive/times.rs"]
mod times;

const BLOCK: u64 = 4096;
/// Bytes of the volume.
const MAIN: u64 = 96 * BLOCK;
/// Milliseconds since 1970 at which every opening begins, plus an hour for each.
const START_MS: u64 = 1_700_000_000_000;

/// Longest time of half a request to an ordinary bucket, in nanoseconds.
const DELAY: u64 = 3_000_000;

/// Longest pause between the steps of an ordinary run, in nanoseconds.
const PAUSE: u64 = 3_000_000;

type Objects = Rc<RefCell<BTreeMap<String, Vec<u8>>>>;

/// A bucket in memory. Requests take time, and some fail, before or after they have been carried out.
struct SimBucket {
    rt: Rt,
    objects: Objects,
    random: RefCell<ChaCha8Rng>,
    /// One of so many requests fails; 0 for none.
    faults: u32,
    /// The last so many objects are not listed.
    lag: usize,
    /// Longest time of half a request, in nanoseconds.
    delay: u64,
    /// A put replaces an object of its name.
    replaces: bool,
    keys: SimKeys,
}

impl SimBucket {
    /// A bucket without faults.
    fn sound(rt: &Rt, objects: &Objects) -> Self {
        Self {
            rt: rt.clone(),
            objects: objects.clone(),
            random: RefCell::new(ChaCha8Rng::seed_from_u64(1)),
            faults: 0,
            lag: 0,
            delay: DELAY,
            replaces: false,
            keys: SimKeys::READER,
        }
    }

    async fn delay(&self) {
        let nanos = self.random.borrow_mut().next_u64() % self.delay;
        self.rt.sleep(Nanos(nanos)).await;
    }

    fn strikes(&self) -> bool {
        self.faults > 0
            && self
                .random
                .borrow_mut()
                .next_u32()
                .is_multiple_of(self.faults)
    }

    /// Carries out `work` after a while, or fails before or after it.
    async fn request<T>(
        &self,
        work: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T,
    ) -> Result<T, BucketError> {
        self.delay().await;
        if self.strikes() {
            return Err(BucketError::Transient("the request was lost".into()));
        }
        let done = work(&mut self.objects.borrow_mut());
        self.delay().await;
        match self.strikes() {
            true => Err(BucketError::Transient("the answer was lost".into())),
            false => Ok(done),
        }
    }
}

impl Bucket for SimBucket {
    fn put_new<'a>(&'a self, name: &'a str, object: Bytes) -> Boxed<'a, Result<bool, BucketError>> {
        Box::pin(self.request(move |objects| {
            let is_new = self.replaces || !objects.contains_key(name);
            if is_new {
                objects.insert(name.to_string(), object.to_vec());
            }
            is_new
        }))
    }

    fn get<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<Option<Vec<u8>>, BucketError>> {
        Box::pin(self.request(move |objects| objects.get(name).cloned()))
    }

    fn heads<'a>(
        &'a self,
        names: &'a [String],
        bytes: usize,
    ) -> Boxed<'a, Result<Vec<Option<Vec<u8>>>, BucketError>> {
        Box::pin(self.request(move |objects| {
            let heads = names.iter().map(|name| {
                let object = objects.get(name)?;
                object.get(..bytes).map(<[u8]>::to_vec)
            });
            heads.collect()
        }))
    }

    fn list<'a>(&'a self, folder: &'a str) -> Boxed<'a, Result<Vec<String>, BucketError>> {
        let lag = self.lag;
        Box::pin(self.request(move |objects| {
            let prefix = format!("{folder}/");
            let names = objects.keys().filter(|name| name.starts_with(&prefix));
            let mut names: Vec<String> = names.cloned().collect();
            names.truncate(names.len().saturating_sub(lag));
            names
        }))
    }

    fn delete<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<(), BucketError>> {
        Box::pin(self.request(move |objects| {
            objects.remove(name);
        }))
    }

    fn url(&self) -> String {
        "sim://archive".into()
    }

    fn keys(&self) -> &dyn Keys {
        &self.keys
    }
}

/// CRC-32C of each block.
type Content = Rc<Vec<u32>>;

fn digest(bytes: &[u8]) -> Content {
    Rc::new(bytes.chunks(BLOCK as usize).map(crc32c).collect())
}

/// States of the volume by commit; those of an operation of several commits may be the one before or behind it.
#[derive(Clone, Default)]
struct Model(Rc<RefCell<BTreeMap<u64, Vec<Content>>>>, Rc<Cell<Lsn>>);

impl Model {
    fn note(&self, before: Lsn, after: Lsn, old: Content, new: Content) {
        let mut states = self.0.borrow_mut();
        for lsn in before.0 + 1..after.0 {
            states.insert(lsn, vec![old.clone(), new.clone()]);
        }
        states.insert(after.0, vec![new]);
    }

    fn expects(&self, lsn: Lsn, found: &Content) {
        let states = &self.0.borrow()[&lsn.0];
        let differences = |state: &Content| -> Vec<usize> {
            (0..found.len())
                .filter(|block| state[*block] != found[*block])
                .collect()
        };
        assert!(
            states.contains(found),
            "commit {lsn}: other blocks than there were: {:?}",
            states.iter().map(differences).collect::<Vec<_>>()
        );
    }

    /// An opening has found this state. The last commits up to `last` may be its own: it frees what a unit had spilled.
    /// What was known to be durable is there.
    fn opened(&self, last: Lsn, found: Content, durable: Lsn) {
        let mut states = self.0.borrow_mut();
        states.retain(|lsn, _| *lsn <= last.0);
        let fits = |(_, states): &(&u64, &Vec<Content>)| states.contains(&found);
        let recovered = states.iter().rev().find(fits).map_or(0, |(lsn, _)| *lsn);
        assert!(recovered >= durable.0, "recovery has lost commits");
        states.retain(|lsn, _| *lsn <= recovered);
        states.extend((recovered + 1..=last.0).map(|lsn| (lsn, vec![found.clone()])));
    }
}

fn shape(layout: Layout, tracks: u64) -> Shape {
    Shape {
        block_size: BLOCK as u32,
        track_bytes: 64 << 10,
        tracks,
        blocks: MAIN / BLOCK,
        split: false,
        heads: Heads::None,
        home: layout.home(BLOCK as u32, 10),
    }
}

fn open_options() -> OpenOptions {
    OpenOptions {
        memory_bytes: 512 << 10,
        write_back_after: Nanos::from_millis(20),
        separation_interval: Nanos::from_millis(50),
        ..OpenOptions::default()
    }
}

async fn step(disk: &Disk, random: &mut ChaCha8Rng) {
    let main = disk.volume("main").unwrap();
    let blocks = MAIN / BLOCK;
    let first = random.next_u64() % (blocks - 8);
    let data = |random: &mut ChaCha8Rng, bytes: u64| {
        let mut content = vec![0; bytes as usize];
        random.fill_bytes(&mut content);
        BufPool::new(0).copy_of(&content).share()
    };
    match random.next_u32() % 40 {
        0..16 => {
            let count = 1 + random.next_u64() % 8;
            let data = data(random, count * BLOCK);
            main.write(first * BLOCK, data, false).await.unwrap();
        }
        16..28 => {
            // A few words of a block that was written just before: a patch.
            let hot = random.next_u64() % 4 * BLOCK;
            let at = hot + random.next_u64() % 500 * 8;
            main.write(at, data(random, 8), false).await.unwrap();
        }
        28..31 => main.trim(first * BLOCK, 3 * BLOCK, false).await.unwrap(),
        31..33 => main
            .write_zeroes(first * BLOCK, 5 * BLOCK, true, false)
            .await
            .unwrap(),
        33..35 => disk.flush().await.unwrap(),
        35 => {
            // Too large for memory: its content is spilled, and moved by the commit.
            let mut unit = disk.begin();
            let volume = disk.volume("main").unwrap();
            for block in 0..blocks {
                if random.next_u32().is_multiple_of(2) {
                    let mut content = vec![0; BLOCK as usize];
                    random.fill_bytes(&mut content);
                    unit.write(&volume, block * BLOCK, &content).await.unwrap();
                }
            }
            unit.end().await.unwrap();
        }
        _ => {
            let mut unit = disk.begin();
            let volume = disk.volume("main").unwrap();
            for _ in 0..3 {
                let at = random.next_u64() % (MAIN - 2000);
                let mut content = vec![0; 1 + random.next_u32() as usize % 1999];
                random.fill_bytes(&mut content);
                unit.write(&volume, at, &content).await.unwrap();
            }
            unit.end().await.unwrap();
        }
    }
}

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
    /// Longest pause behind a step, in nanoseconds. Behind long ones everything comes home.
    pause: u64,
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
    run_beside(image, objects, model, run, counts).0
}

/// As [`run`]. Returns also what would be left if the drives had lost nothing that they had accepted.
fn run_beside(
    image: &StoreImage,
    objects: &Objects,
    model: &Model,
    run: Run,
    counts: &mut Counts,
) -> (Vec<DiskImage>, Vec<DiskImage>) {
    let (objects, model) = (objects.clone(), model.clone());
    let ((crash, accepted, gaps, bases, taken_back), _) = image.run(
        run.seed,
        move |world: SimWorld, rt: Rt, image: StoreImage| async move {
            let disk = image.open_disk(&rt, open_options()).await.unwrap();
            let engine = disk.engine().clone();
            let last = model.0.borrow().keys().next_back().copied().unwrap_or(0);
            let main = disk.volume("main").unwrap();
            let mut bytes = contents(&main).await.unwrap();
            let opened = engine.marks().appended;
            model.opened(opened, digest(&bytes), model.1.get());
            let taken_back = u64::from(opened.0 < last);
            let hours = run.seed * 3_600_000;
            let source = EngineSource::new(&engine, &rt, START_MS + hours);
            let (own, clock) = (source.clone(), rt.clone());
            let archiver = rt.spawn(async move {
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
                    ..SimBucket::sound(&clock, &objects)
                };
                let options = ArchiverOptions {
                    interval: Nanos::from_millis(10),
                    object_bytes: run.object_bytes,
                    base_bytes_per_second: 0,
                    keep_ms: run.keep_ms,
                    ..ArchiverOptions::default()
                };
                Archiver::new(&bucket, &own, options).run().await
            });
            let mut random = ChaCha8Rng::seed_from_u64(run.seed);
            for _ in 0..run.steps {
                let before = engine.marks().appended;
                step(&disk, &mut random).await;
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
        },
    );
    counts.runs += 1;
    counts.gaps += gaps;
    counts.bases += bases;
    counts.taken_back += taken_back;
    (crash.images(run.seed), accepted)
}

/// Restores a state into a new store. Returns its commit and the digest of its volume.
fn restore(
    objects: &Objects,
    target: Target,
    home: HomeParams,
) -> Result<(Lsn, Content), ArchiveError> {
    restore_with(objects, target, home, Beside::default())
}

/// What happens beside a restore.
#[derive(Default)]
struct Beside {
    /// The bucket does not list the last so many objects of each folder.
    lag: usize,
    /// When so many objects have been applied, the bucket changes to another one.
    change: Option<(usize, Objects)>,
    /// Entries that are applied after all objects, up to a commit.
    more: Option<(Vec<u8>, Lsn)>,
}

/// As [`restore`], with something beside it.
fn restore_with(
    objects: &Objects,
    target: Target,
    home: HomeParams,
    beside: Beside,
) -> Result<(Lsn, Content), ArchiveError> {
    let Beside { lag, change, more } = beside;
    let size = 4 << 20;
    let world = SimWorld::new(SimOptions::default(), vec![DiskImage::new(16 << 20)]);
    let rt = Rt::new(world.driver());
    let (own, objects) = (rt.clone(), objects.clone());
    let result = rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let mut bucket = SimBucket {
            lag,
            ..SimBucket::sound(&own, &objects)
        };
        let catalog = Catalog::load(&bucket).await?;
        let mut plan = Plan::make(&bucket, &catalog, &target).await?;
        let params = CreateParams {
            size_bytes: (plan.shape.size_blocks - tonearm_format::SYSTEM_BLOCKS) * BLOCK,
            log_bytes: Some(2 << 20),
            track_bytes: None,
            block_size: plan.shape.block_size,
            head: None,
            home,
            store: [8; 16],
            created_unix_s: 0,
        };
        assert!(params.size_bytes < size);
        let space = MemberSpace {
            roles: Roles {
                log: true,
                data: true,
            },
            available_bytes: None,
            uuid: [9; 16],
            path: String::new(),
        };
        let mut create = plan_create(&params, &[space]).unwrap();
        create.begin_behind(plan.lsn);
        let members = || tonearm_sim::members(&own, [16 << 20].into_iter(), 4096);
        let device = members().remove(0).device;
        let member = NewMember {
            device,
            blank: true,
            log_written: true,
        };
        tonearm_engine::create(&own, &pool, &create, &[member], |_, _| {}).await?;
        let engine = Engine::open(&own, &pool, members(), open_options(), |_| {}).await?;
        let mut rebuild = Rebuild::new(engine.home(), &pool, plan.lsn);
        let mut done = 0;
        while let Some(object) = plan.objects.get(done) {
            if let Some((at, objects)) = &change
                && done == *at
            {
                bucket.objects = objects.clone();
            }
            match object.fetch(&bucket).await {
                Ok(payload) => {
                    rebuild
                        .apply(&payload, "sim://archive", &object.name)
                        .await?;
                    done += 1;
                }
                Err(ArchiveError::Missing { .. }) if change.is_some() => {
                    let catalog = Catalog::load(&bucket).await?;
                    let now = Plan::make(&bucket, &catalog, &Target::Lsn(plan.lsn)).await?;
                    done = now.done_after(&plan, done);
                    plan = now;
                }
                Err(error) => return Err(error),
            }
        }
        rebuild.flush().await?;
        if let Some((entries, until)) = more {
            let mut rebuild = Rebuild::new(engine.home(), &pool, until);
            rebuild.apply(&entries, "sim://archive", "more").await?;
            rebuild.flush().await?;
        }
        engine.close().await?;
        let disk = Disk::open(&own, &pool, members(), open_options(), |_| {}).await;
        let disk = disk.unwrap();
        assert!(
            disk.engine().marks().appended >= plan.lsn,
            "numbers go back"
        );
        let main = disk.volume("main").unwrap();
        Ok((plan.lsn, digest(&contents(&main).await.unwrap())))
    });
    rt.shut_down();
    result
}

/// The commits that can be restored.
fn restorable(objects: &Objects) -> Vec<Restorable> {
    let world = SimWorld::new(SimOptions::default(), Vec::new());
    let rt = Rt::new(world.driver());
    let (own, shared) = (rt.clone(), objects.clone());
    rt.block_on(async move {
        let bucket = SimBucket::sound(&own, &shared);
        let catalog = Catalog::load(&bucket).await.unwrap();
        assert!(catalog.missing.is_empty() && catalog.unlinked.is_empty());
        catalog.restorable()
    })
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
fn every_archived_commit_is_restored_after_power_cuts_and_lost_requests() {
    let mut counts = Counts::default();
    for seed in 0..12 {
        let layout = [Layout::Overwrite, Layout::Hylog, Layout::Segments][seed as usize % 3];
        let mut image = shape(layout, 32).create_with_spare(1 << 20);
        let (objects, model) = (Objects::default(), Model::default());
        for generation in 0..5 {
            let one = Run {
                seed: 100 * seed + generation,
                steps: 20 + 13 * (seed + generation) % 40,
                faults: [0, 7, 20][(seed + generation) as usize % 3],
                lag: (seed % 3) as usize,
                delay: DELAY,
                keep_ms: 0,
                object_bytes: [1, 200 << 10, 16 << 20][generation as usize % 3],
                in_order: generation % 3 == 1,
                pause: [20_000_000, PAUSE][seed as usize % 2],
            };
            image.disks = run(&image, &objects, &model, one, &mut counts);
        }
        let home = [Layout::Overwrite, Layout::Hylog][seed as usize % 2].home(BLOCK as u32, 10);
        check(&objects, &model, &mut counts, home);
    }
    println!("{counts:?}");
    assert!(counts.restored > 500 && counts.taken_back > 5, "{counts:?}");
}

/// A bucket that is slow, beside a small log: the log goes round before its commits are archived.
#[test]
fn commits_that_the_log_has_lost_are_missed_and_what_comes_later_is_restored() {
    let mut counts = Counts::default();
    for seed in 0..6 {
        let mut image = shape(Layout::Overwrite, 10).create_with_spare(1 << 20);
        let (objects, model) = (Objects::default(), Model::default());
        for generation in 0..3 {
            let one = Run {
                seed: 1000 + 10 * seed + generation,
                steps: 150,
                faults: 0,
                lag: 0,
                delay: [DELAY, 40_000_000][generation as usize % 2],
                object_bytes: 16 << 20,
                keep_ms: 0,
                in_order: generation != 1,
                pause: PAUSE,
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
    let objects = Objects::default();
    let shared = objects.clone();
    image.run(5, move |_, rt: Rt, image: StoreImage| async move {
        let disk = image.open_disk(&rt, open_options()).await.unwrap();
        let source = EngineSource::new(disk.engine(), &rt, START_MS);
        let (own, clock, objects) = (source.clone(), rt.clone(), shared.clone());
        let archiver = rt.spawn(async move {
            let bucket = SimBucket::sound(&clock, &objects);
            let options = ArchiverOptions {
                interval: Nanos::from_millis(10),
                ..ArchiverOptions::default()
            };
            Archiver::new(&bucket, &own, options).run().await
        });
        let mut random = ChaCha8Rng::seed_from_u64(5);
        for _ in 0..10 {
            step(&disk, &mut random).await;
            rt.sleep(Nanos::from_millis(30)).await;
        }
        let archived = disk.engine().archived();
        {
            let mut objects = shared.borrow_mut();
            let opening = objects["chain/0000000000000001"].clone();
            let last = objects.keys().rfind(|name| name.starts_with("chain/"));
            let number = u64::from_str_radix(&last.unwrap()[6..], 16).unwrap();
            objects.insert(format!("chain/{:016x}", number + 1), opening);
        }
        for _ in 0..10 {
            step(&disk, &mut random).await;
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
fn a_base_has_nothing_that_a_power_cut_takes_back() {
    let mut counts = Counts::default();
    for seed in 0..80 {
        let mut image = shape(Layout::Overwrite, 32).create_with_spare(1 << 20);
        let (objects, model) = (Objects::default(), Model::default());
        for generation in 0..2 {
            let one = Run {
                seed: 2000 + 10 * seed + generation,
                steps: [3 + seed / 2, 60][generation as usize],
                faults: 0,
                lag: 0,
                delay: DELAY,
                object_bytes: 16 << 20,
                keep_ms: 0,
                in_order: generation == 1,
                pause: PAUSE,
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
fn what_is_kept_is_whole_when_old_states_are_deleted() {
    let (mut counts, mut deletions) = (Counts::default(), 0);
    for seed in 0..3 {
        let mut image = shape(Layout::Hylog, 32).create_with_spare(1 << 20);
        let (objects, model) = (Objects::default(), Model::default());
        let (mut firsts, mut kept) = (Vec::new(), Lsn(0));
        for generation in 0..8 {
            let one = Run {
                // An hour later each time.
                seed: 3000 + 10 * seed + generation,
                steps: 60,
                faults: 0,
                lag: 0,
                delay: DELAY,
                object_bytes: 100 << 10,
                keep_ms: 2 * 3_600_000,
                in_order: generation % 2 == 0,
                pause: PAUSE,
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
        // The last opening began less than two hours after that commit.
        let mut restorable = restorable(&objects).into_iter();
        assert!(
            restorable.any(|part| part.first <= kept),
            "a state of less than two hours is deleted"
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
