//! Real SQLite on a simulated store. The power is cut at every I/O of a seeded workload, the store recovers, and SQLite
//! reads its databases through the same VFS. The databases must be valid, in exactly the state after some transaction,
//! and that transaction must not be older than the last durable one.

use crate::bank::{Databases, Found, Ledger, Setup};
use crate::campaign::{Failure, Outcome};
use crate::cut::{self, cache};
use crate::cuts::Cuts;
use crate::generate::Size;
use crate::runtime::within_time;
use crate::store::{Heads, SEPARATION_INTERVAL, Shape, StoreImage};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tonearm_base::Nanos;
use tonearm_disk::OpenOptions;
use tonearm_rt::Rt;
use tonearm_store::Store;
use tonearm_store::files::{Files, Open};
use tonearm_world::SimWorld;

/// Names and contents of all files.
type Contents = Vec<(String, Vec<u8>)>;

/// Number of contents whose findings are cached. Most cuts leave the same contents as the cut before.
const REMEMBERED_MAX: usize = 64;

/// A registration of a store with the VFS, which ends when this value is dropped.
struct Mounted(String);

impl Mounted {
    fn new(files: Arc<dyn Files>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("simulated-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        tonearm_sqlite::provide(&name, files);
        Self(name)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        tonearm_sqlite::withdraw(&self.0);
    }
}

/// Runs one seed.
///
/// # Errors
/// The first promise that does not hold.
pub fn run(seed: u64, size: Size) -> Result<Outcome, Failure> {
    let fail = |step: u64, cut: u64, what: String| Failure::at(seed, 0, (step, cut, what));
    tonearm_sqlite::register(false).map_err(|error| fail(0, 0, error.to_string()))?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let shape = Shape {
        block_size: 4096,
        track_bytes: 64 << 10,
        tracks: 24 + rng.next_u64() % 40,
        blocks: 1024,
        split: rng.next_u32().is_multiple_of(3),
        heads: Heads::None,
        home: size.home(seed, 4096),
    };
    let ordered = rng.next_u32().is_multiple_of(5);
    let options = OpenOptions {
        memory_bytes: [1 << 20, 8 << 20][rng.next_u32() as usize % 2],
        map_cache_bytes: 32 << 10,
        separation_interval: SEPARATION_INTERVAL,
        write_cache: cache(ordered),
        write_back_after: Nanos::from_millis([1, 20, 1000][rng.next_u32() as usize % 3]),
        commit_delay: size.commit_delay(seed),
        large_commit_bytes: Size::large_commit_bytes(seed),
        large_commit_quiet: Nanos(0),
        ..OpenOptions::default()
    };
    let setup = Setup::new(&mut rng);
    let mut image = shape.create();
    make_room(&mut image).map_err(|what| fail(0, 0, what))?;
    let (world, rt) = image.start(seed);
    let store = open(&rt, &image, options).map_err(|what| fail(0, 0, what))?;
    let ledger = Rc::new(RefCell::new(Ledger::default()));
    let cuts = watch(&world, &image, &ledger, (seed, ordered, setup.attached));
    let mounted = Mounted::new(session(&store).map_err(|what| fail(0, 0, what))?);
    let databases = Databases { store: &mounted.0 };
    let ran = databases.run(&setup, &ledger, &mut rng, size.operations / 4);
    drop(mounted);
    // Dropping the store closes it. The power may be cut during that too.
    drop(store);
    let ran = ran.map_err(|error| format!("{error}; {}", tonearm_sqlite::last_error()));
    let mut outcome = Outcome::default();
    let ended = cuts.end(&rt, ran, &mut outcome);
    ended.map_err(|(step, cut, what)| fail(step, cut, format!("{setup:?}: {what}")))?;
    Ok(outcome)
}

fn open(rt: &Rt, image: &StoreImage, options: OpenOptions) -> Result<Store, String> {
    let (rt2, image) = (rt.clone(), image.clone());
    let opened = within_time(rt, Rc::default(), async move {
        let opened = image.open_disk(&rt2, options).await;
        opened.map_err(|error| error.to_string())
    });
    Ok(Store::over(rt.clone(), opened?))
}

/// Deletes the volume of the new store, which would leave no space for files.
fn make_room(image: &mut StoreImage) -> Result<(), String> {
    let (world, rt) = image.start(0);
    let store = open(&rt, image, OpenOptions::default())?;
    let delete = || {
        let mut unit = store.begin()?;
        unit.delete("main")?;
        unit.end()
    };
    delete().map_err(|error: tonearm_store::StoreError| error.to_string())?;
    store.close().map_err(|error| error.to_string())?;
    image.disks = world.images();
    drop(store);
    rt.shut_down();
    Ok(())
}

/// Cuts the power at every step of the world's I/O.
fn watch(
    world: &SimWorld,
    image: &StoreImage,
    ledger: &Rc<RefCell<Ledger>>,
    (seed, ordered, attached): (u64, bool, bool),
) -> Cuts<()> {
    let (image, ledger) = (image.clone(), ledger.clone());
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0xc0ffee);
    let mut known = BTreeMap::new();
    Cuts::watch(
        world,
        move |_| (rng.next_u64(), false),
        || (),
        move |crash, cut, outcome| {
            let left = image.with(cut::images(crash, cut, ordered));
            let ledger = ledger.borrow();
            let found = recover(&left, cut, ordered, attached, &mut known)?;
            let number = ledger.judge(&found)?;
            // State 1 is that of the new bank, and state 0 that without one.
            outcome.recovered(number.max(1), ledger.last());
            Ok(())
        },
    )
}

/// Recovers a store after a cut, and reads the bank with SQLite.
fn recover(
    image: &StoreImage,
    cut: u64,
    ordered: bool,
    attached: bool,
    known: &mut BTreeMap<Contents, Result<Found, String>>,
) -> Result<Found, String> {
    let (_, rt) = image.start(cut);
    let options = OpenOptions {
        write_cache: cache(ordered),
        write_back_on_recovery: cut.is_multiple_of(2),
        ..OpenOptions::default()
    };
    let store = open(&rt, image, options)?;
    let files = session(&store)?;
    let contents = read_all(&*files)?;
    let found = match known.get(&contents) {
        Some(found) => found.clone(),
        None => {
            let mounted = Mounted::new(files.clone());
            let found = Databases { store: &mounted.0 }.look(attached);
            if known.len() >= REMEMBERED_MAX {
                known.clear();
            }
            known.insert(contents, found.clone());
            found
        }
    };
    drop(files);
    drop(store);
    rt.shut_down();
    found
}

fn session(store: &Store) -> Result<Arc<dyn Files>, String> {
    let files = store.files().map_err(|error| error.to_string())?;
    Ok(Arc::new(files))
}

fn read_all(files: &dyn Files) -> Result<Contents, String> {
    let read = || {
        let mut contents = Vec::new();
        for info in files.list_all("")? {
            let file = files.open(&info.name, Open::default())?;
            let mut bytes = vec![0; info.size_bytes as usize];
            let count = files.read(file, None, 0, &mut bytes)?;
            bytes.truncate(count);
            files.close(file);
            contents.push((info.name, bytes));
        }
        Ok(contents)
    };
    read().map_err(|error: tonearm_store::files::FilesError| error.to_string())
}
