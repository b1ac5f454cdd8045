//! Power cuts under recovery units. Concurrent clients run units over a volume, files and lists, end or abort them,
//! flush, and make simple operations between them. After each cut the store must be in the state after some end that is
//! not before the last durable one: all of each unit or nothing, in the order of the ends. Whatever units that never
//! ended had allocated is free again.

mod client;
mod client_lists;
mod client_volumes;
mod content;
mod lists;
mod model;

use self::client::Client;
use self::model::{Model, State};
use crate::blame::Blame;
use crate::campaign::{Failure, Outcome, options_of, shape_of};
use crate::cut;
use crate::cuts::{self, Cuts};
use crate::drives;
use crate::generate::Size;
use crate::store::StoreImage;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_disk::{Disk, DiskError, ErrorKind};

/// Number of concurrent clients.
const CLIENTS: u64 = 4;
/// After every eighth cut the offline check examines the store, and all free space is allocated after recovery.
const CHECK_EVERY: u64 = 8;

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
        options.commit_delay = size.commit_delay(world_seed);
        options.large_commit_bytes = Size::large_commit_bytes(world_seed);
        options.large_commit_quiet = Nanos(0);
        let fail = |at| Failure::at(seed, generation, at);
        let world = drives::world_of(None, world_seed, image.disks.clone()).map_err(fail)?;
        let shared = Rc::new(RefCell::new(model.clone()));
        let (own, model2, state) = (image.clone(), shared.clone(), shared.clone());
        let cuts = Cuts::watch(
            &world,
            cuts::any(world_seed),
            move || state.borrow().clone(),
            move |crash, cut, outcome| {
                let model = model2.borrow();
                let left = own.with(cut::images(crash, cut, ordered));
                let number = recover(left, &model, cut, ordered)?;
                outcome.recovered(number, model.states.last());
                Ok(())
            },
        );
        let (image2, model2) = (image.clone(), shared.clone());
        let orderly = rng.next_u32().is_multiple_of(4);
        let operations = size.operations / CLIENTS + 1;
        let next = cuts.run(orderly, &mut outcome, async move |rt, opened| {
            let disk = image2.open_disk(&rt, options).await;
            let disk = disk.map_err(|error| format!("the opening fails: {error}"))?;
            *opened.borrow_mut() = Some(disk.engine().clone());
            let client = |index| Client::new(&rt, &disk, &model2, world_seed ^ (index << 48));
            let clients: Vec<_> = (0..CLIENTS)
                .map(|index| rt.spawn(client(index).run(operations)))
                .collect();
            for client in clients {
                client.await?;
            }
            if orderly {
                let last = model2.borrow().states.last();
                disk.close().await.map_err(|error| error.to_string())?;
                model2.borrow_mut().states.acknowledge(last);
            }
            Ok(())
        });
        outcome.met.add(&shared.borrow().counts);
        let next = next.map_err(fail)?;
        let cut = next.cut;
        image.disks = cut::images(&next.crash, cut, ordered);
        model = next.state;
        let prefix = recover(image.clone(), &model, cut, ordered);
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

/// Opens a store after a power cut, and finds the prefix of the ends that it contains.
fn recover(image: StoreImage, model: &Model, cut: u64, ordered: bool) -> Result<u64, String> {
    let checked = cut.is_multiple_of(CHECK_EVERY);
    if checked {
        cut::inspect(&image, cut, Blame::default())?;
    }
    let options = cut::options(cut, ordered);
    let (found, _) = image.within_time(cut, |_, rt, image| async move {
        let disk = image.open_disk(&rt, options).await;
        let disk = disk.map_err(|error| format!("the opening is refused: {error}"))?;
        let found = State::read(&disk).await?;
        if checked {
            lists::check(&disk, &found).await?;
            take_all(&disk).await?;
        }
        Ok(found)
    });
    model.states.judge(&found?)
}

/// Allocates all space that the store reports free. This must succeed, whatever units had allocated before.
async fn take_all(disk: &Disk) -> Result<(), String> {
    let free = disk.free_bytes();
    if free == 0 {
        return Ok(());
    }
    let mut aru = disk.begin();
    let taken = async {
        aru.create_volume("all", free, [9; 16], 0).await?;
        aru.end().await.map(drop)
    };
    match taken.await {
        Ok(()) if disk.free_bytes() == 0 => Ok(()),
        Ok(()) => Err("the store reports free space after all of it was allocated".into()),
        // One volume cannot have as many extents as that.
        Err(DiskError::Fragmented) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NoSpace => Err(format!(
            "{free} bytes are free and cannot be allocated: {error}"
        )),
        Err(error) => Err(error.to_string()),
    }
}
