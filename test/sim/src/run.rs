//! Runs a script: its generations in turn, with a power cut at every step of the I/O.

use crate::blame::{Blame, Faults};
use crate::campaign::{Failure, Outcome};
use crate::client::Client;
use crate::cut::{self, Ending};
use crate::cuts::{Broken, Cuts, Next, Opened};
use crate::drives;
use crate::generate::Size;
use crate::model::Model;
use crate::observer::Observer;
use crate::script::{End, Generation, Script};
use crate::store::{SEPARATION_INTERVAL, StoreImage};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_disk::{Ack, OpenOptions};
use tonearm_layout::Plugging;
use tonearm_rt::Rt;
use tonearm_world::{FaultKind, SimWorld, Struck};

/// What the next generation starts from, besides the drives.
type State = (Model, Vec<Struck>);

/// Runs `script`. `seed` appears only in the failure's text.
///
/// # Errors
/// The first promise that does not hold.
pub fn run_script(script: &Script, seed: u64) -> Result<Outcome, Failure> {
    let shape = script.shape;
    let mut image = shape.create();
    let block = u64::from(shape.block_size);
    let mut model = Model::new(block, shape.main_bytes(), script.has_lies());
    let mut outcome = Outcome::default();
    let ids = Rc::new(Cell::new(1));
    let mut struck = Vec::new();
    for (index, generation) in script.generations.iter().enumerate() {
        let fail = |at| Failure::at(seed, index as u32, at);
        let next = run_generation(
            script,
            generation,
            &image,
            model,
            &ids,
            &struck,
            &mut outcome,
        );
        let next = next.map_err(fail)?;
        let (cut, ordered) = (next.cut, script.ordered);
        (model, struck) = next.state;
        image.disks = cut::images(&next.crash, cut, ordered);
        let blame = Blame::of(&struck, &shape);
        let ending = cut::recover(image.clone(), &model, cut, ordered, blame);
        let ending = ending.map_err(|what| fail((u64::MAX, cut, what)))?;
        match ending {
            Ending::Whole(number) => model.go_on(number),
            // Such a store must be restored from a backup, so the run ends.
            _ => break,
        }
    }
    Ok(outcome)
}

fn run_generation(
    script: &Script,
    generation: &Generation,
    image: &StoreImage,
    model: Model,
    ids: &Rc<Cell<u64>>,
    before: &[Struck],
    outcome: &mut Outcome,
) -> Result<Next<State>, Broken> {
    let world = drives::world_of(script.model.as_ref(), generation.seed, image.disks.clone())?;
    world.plan(&generation.faults);
    let model = Rc::new(RefCell::new(model));
    let faults = Faults::new(before, &world);
    let cuts = watch(&world, &faults, image, &model, script, generation);
    let (ordered, ids) = (script.ordered, ids.clone());
    let (image, generation) = (image.clone(), generation.clone());
    cuts.run(false, outcome, |rt, opened| {
        live(rt, faults, image, generation, ordered, model, ids, opened)
    })
}

/// Opens the store, runs all clients, and closes it or leaves it open, as the generation says.
#[allow(clippy::too_many_arguments)]
async fn live(
    rt: Rt,
    faults: Faults,
    image: StoreImage,
    generation: Generation,
    ordered: bool,
    model: Rc<RefCell<Model>>,
    ids: Rc<Cell<u64>>,
    opened: Opened,
) -> Result<(), String> {
    let options = OpenOptions {
        memory_bytes: generation.memory_bytes,
        // With space for the whole map, or not: then nothing is plugged.
        map_cache_bytes: if generation.ack_write {
            64 << 10
        } else {
            32 << 10
        },
        separation_interval: SEPARATION_INTERVAL,
        plugging: Plugging::Always,
        ack: match generation.ack_write {
            true => Ack::Write,
            false => Ack::Flush,
        },
        write_cache: cut::cache(ordered),
        write_back_on_recovery: generation.write_back_on_recovery,
        write_back_after: generation.write_back_after,
        commit_delay: generation.commit_delay,
        large_commit_bytes: Size::large_commit_bytes(generation.seed),
        large_commit_quiet: Nanos(0),
        ..OpenOptions::default()
    };
    let blame = || Blame::of(&faults.struck(), &image.shape);
    let disk = match image.open_disk(&rt, options).await {
        Ok(disk) => disk,
        Err(_) if blame().errors => return Ok(()),
        Err(error) => return Err(format!("the opening fails without a fault: {error}")),
    };
    *opened.borrow_mut() = Some(disk.engine().clone());
    let client = Client {
        rt: rt.clone(),
        faults: faults.clone(),
        disk: disk.clone(),
        observer: Observer::new(&disk, &model),
        shape: image.shape,
        pool: BufPool::new(1 << 20),
        ids,
    };
    let clients = generation.clients.into_iter();
    let clients: Vec<_> = clients
        .map(|ops| rt.spawn(client.clone().run(ops)))
        .collect();
    for client in clients {
        client.await?;
    }
    if generation.end == End::Close {
        let last = model.borrow().last();
        match disk.close().await {
            Ok(()) => model.borrow_mut().acknowledge(last),
            Err(_) if blame().errors => {}
            Err(error) => return Err(format!("closing fails without a fault: {error}")),
        }
    }
    Ok(())
}

/// Cuts the power at every step of the world's I/O, recovers, and compares the result with the model at that time.
fn watch(
    world: &SimWorld,
    faults: &Faults,
    image: &StoreImage,
    model: &Rc<RefCell<Model>>,
    script: &Script,
    generation: &Generation,
) -> Cuts<State> {
    let (seed, end, ordered) = (generation.seed, generation.end, script.ordered);
    let (of_state, model2) = (faults.clone(), model.clone());
    let (image, model, faults) = (image.clone(), model.clone(), faults.clone());
    Cuts::watch(
        world,
        move |step| (mix(seed, step), end == End::Cut(step)),
        move || (model2.borrow().clone(), of_state.struck()),
        move |crash, cut, outcome| {
            let (model, struck) = (model.borrow(), faults.struck());
            let blame = Blame::of(&struck, &image.shape);
            let left = image.with(cut::images(crash, cut, ordered));
            let ending = cut::recover(left, &model, cut, ordered, blame)?;
            note(outcome, ending, model.last(), &struck);
            Ok(())
        },
    )
}

/// Adds a power cut to the outcome.
fn note(outcome: &mut Outcome, ending: Ending, last: u64, struck: &[Struck]) {
    match ending {
        Ending::Whole(number) => outcome.cut_short += u64::from(number < last),
        Ending::Damaged(number) => {
            outcome.cut_short += u64::from(number < last);
            outcome.damaged += 1;
        }
        Ending::Stale => outcome.stale += 1,
        Ending::Refused => outcome.refused += 1,
    }
    for (kind, points) in FaultKind::ALL.iter().zip(&mut outcome.points) {
        *points += u64::from(struck.iter().any(|one| one.fault.kind == *kind));
    }
    outcome.faultless += u64::from(struck.is_empty());
}

/// The seed of the power cut at a step.
fn mix(seed: u64, step: u64) -> u64 {
    let mixed =
        (seed ^ step.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 29)
}
