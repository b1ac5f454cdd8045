//! Power cuts under recovery units. Concurrent clients run units over a volume, files and lists, end or abort them,
//! flush, and make simple operations between them. After each cut the store must be in the state after some end that is
//! not before the last durable one: all of each unit or nothing, in the order of the ends. Whatever units that never
//! ended had allocated is free again.

mod client;
mod client_lists;
mod client_volumes;
mod content;
mod counts;
mod lists;
mod model;

pub use self::counts::{Counts, Met};

use self::client::Client;
use self::model::{Model, State};
use crate::blame::Blame;
use crate::campaign::{Failure, Outcome, cut_images, options_of, shape_of, within_time};
use crate::cut;
use crate::drives;
use crate::generate::Size;
use crate::store::StoreImage;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_disk::{Disk, DiskError, ErrorKind, OpenOptions};
use tonearm_rt::Rt;
use tonearm_world::{Crash, DiskImage, SimOptions, SimWorld};

/// Number of concurrent clients.
const CLIENTS: u64 = 4;
/// After every eighth cut the offline check examines the store, and all free space is allocated after recovery.
const CHECK_EVERY: u64 = 8;

struct Tally {
    failure: Option<(u64, u64, String)>,
    outcome: Outcome,
    seen: u64,
    next: Option<(Crash, Model, u64)>,
}

/// Runs one seed.
///
/// # Errors
/// The first promise that does not hold.
pub fn run(seed: u64, size: Size) -> Result<Outcome, Failure> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0xa7a5);
    let mut shape = shape_of(&mut rng);
    shape.home = size.home(seed, shape.block_size);
    let ordered = rng.next_u32().is_multiple_of(5);
    let mut image = shape.create_with_spare(spare_blocks(&mut rng) * u64::from(shape.block_size));
    let mut model = Model::new(State::with_main(shape.main_bytes(), shape.block_size));
    let mut outcome = Outcome::default();
    for generation in 0..size.generations {
        let mut options = options_of(&mut rng, ordered);
        if rng.next_u32().is_multiple_of(2) {
            // Most units then exceed the memory that a unit may use.
            options.memory_bytes = 256 << 10;
        }
        let world_seed = rng.next_u64();
        options.linger = size.linger(world_seed);
        let fail = |(io, cut, what): (u64, u64, String)| Failure {
            seed,
            at: (generation, io, cut),
            what,
        };
        let world = drives::world_of(None, world_seed, image.disks.clone())
            .map_err(|what| fail((0, 0, what)))?;
        let shared = Rc::new(RefCell::new(model.clone()));
        let tally = Rc::new(RefCell::new(Tally {
            failure: None,
            outcome: Outcome::default(),
            seen: 0,
            next: None,
        }));
        watch(&world, &image, &shared, &tally, world_seed, ordered);
        let rt = Rt::new(world.driver());
        let (rt2, image2, model2) = (rt.clone(), image.clone(), shared.clone());
        let orderly = rng.next_u32().is_multiple_of(4);
        let operations = size.operations / CLIENTS + 1;
        let opened = Rc::new(RefCell::new(None));
        let shown = opened.clone();
        let result = within_time(&rt, opened, async move {
            let disk = image2.open_disk(&rt2, options).await;
            let disk = disk.map_err(|error| format!("the opening fails: {error}"))?;
            *shown.borrow_mut() = Some(disk.engine().clone());
            let client = |index| Client::new(&rt2, &disk, &model2, world_seed ^ (index << 48));
            let clients: Vec<_> = (0..CLIENTS)
                .map(|index| rt2.spawn(client(index).run(operations)))
                .collect();
            for client in clients {
                client.await?;
            }
            if orderly {
                let last = model2.borrow().last();
                disk.close().await.map_err(|error| error.to_string())?;
                model2.borrow_mut().acknowledge(last);
            }
            Ok(())
        });
        world.clear_hook();
        outcome.trace_hash = outcome.trace_hash.rotate_left(7) ^ world.trace_hash();
        rt.shut_down();
        outcome.met.add(&shared.borrow().counts);
        let mut tally = tally.borrow_mut();
        outcome.add(&tally.outcome);
        if let Some(failure) = tally.failure.take() {
            return Err(fail(failure));
        }
        result.map_err(|what| fail((world.ios(), 0, what)))?;
        // The next generation starts from one of the cuts or from the end.
        let (crash, then, cut) = match tally.next.take().filter(|_| !orderly) {
            Some(next) => next,
            None => (world.crash(), shared.borrow().clone(), 0),
        };
        image.disks = cut_images(&crash, cut, ordered);
        model = then;
        let disks = image.disks.clone();
        let prefix = recover(&image, disks, &model, cut, ordered);
        model.go_on(prefix.map_err(|what| fail((u64::MAX, cut, what)))?);
    }
    Ok(outcome)
}

/// Blocks besides `main`. A zone of the lists area takes 258 blocks of the smaller size, so that some stores have space
/// for files and spills besides lists, and some become full.
fn spare_blocks(rng: &mut ChaCha8Rng) -> u64 {
    match rng.next_u64() % 4 {
        0 => 20 + rng.next_u64() % 300,
        _ => 700 + rng.next_u64() % 3000,
    }
}

/// Cuts the power at every I/O of `world`, recovers, and compares the result with the model at that time.
fn watch(
    world: &SimWorld,
    image: &StoreImage,
    model: &Rc<RefCell<Model>>,
    tally: &Rc<RefCell<Tally>>,
    seed: u64,
    ordered: bool,
) {
    let (image, model, tally) = (image.clone(), model.clone(), tally.clone());
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0xc0ffee);
    world.on_io(move |io, crash| {
        let mut tally = tally.borrow_mut();
        if tally.failure.is_some() {
            return;
        }
        tally.seen += 1;
        let cut = rng.next_u64();
        let model = model.borrow();
        // Reservoir sampling with one slot: each cut is equally likely to start the next generation.
        if rng.next_u64().is_multiple_of(tally.seen) {
            tally.next = Some((crash.clone(), model.clone(), cut));
        }
        let disks = cut_images(crash, cut, ordered);
        match recover(&image, disks, &model, cut, ordered) {
            Ok(prefix) => {
                tally.outcome.crash_points += 1;
                tally.outcome.faultless += 1;
                tally.outcome.cut_short += u64::from(prefix < model.last());
            }
            Err(what) => tally.failure = Some((io, cut, what)),
        }
    });
}

/// Opens a store after a power cut, and finds the prefix of the ends that it contains.
fn recover(
    image: &StoreImage,
    disks: Vec<DiskImage>,
    model: &Model,
    cut: u64,
    ordered: bool,
) -> Result<u64, String> {
    let image = StoreImage {
        disks,
        shape: image.shape,
    };
    let checked = cut.is_multiple_of(CHECK_EVERY);
    if checked {
        cut::inspect(&image, cut, Blame::default())?;
    }
    let options = SimOptions {
        seed: cut,
        ..SimOptions::default()
    };
    let rt = Rt::new(SimWorld::new(options, image.disks.clone()).driver());
    let options = OpenOptions {
        write_cache: cut::cache(ordered),
        write_back_on_recovery: cut.is_multiple_of(2),
        memory_bytes: match cut.is_multiple_of(3) {
            true => 128 << 10,
            false => 64 << 20,
        },
        ..OpenOptions::default()
    };
    let rt2 = rt.clone();
    let found = within_time(&rt, Rc::default(), async move {
        let disk = image.open_disk(&rt2, options).await;
        let disk = disk.map_err(|error| format!("the opening is refused: {error}"))?;
        let found = State::read(&disk).await?;
        if checked {
            lists::check(&disk, &found).await?;
            take_all(&disk).await?;
        }
        Ok(found)
    });
    rt.shut_down();
    model.judge(&found?)
}

/// Allocates all space that the store reports free. This must succeed, whatever units had allocated before.
async fn take_all(disk: &Disk) -> Result<(), String> {
    let free = disk.free_bytes();
    if free == 0 {
        return Ok(());
    }
    let mut aru = disk.begin();
    let taken = async {
        let file = aru.create_file("all", [9; 16], 0).await?;
        aru.resize(&file, free).await?;
        aru.end().await.map(drop)
    };
    match taken.await {
        Ok(()) if disk.free_bytes() == 0 => Ok(()),
        Ok(()) => Err("the store reports free space after all of it was allocated".into()),
        // One file cannot have as many extents as that.
        Err(DiskError::Fragmented) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NoSpace => Err(format!(
            "{free} bytes are free and cannot be allocated: {error}"
        )),
        Err(error) => Err(error.to_string()),
    }
}
