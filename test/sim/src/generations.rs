//! Generations of one store: it is used, and the power is cut at each I/O. One of these cuts is where the next generation begins.

use crate::campaign::{Failure, Outcome};
use crate::cuts::{self, Cuts};
use crate::drives;
use crate::generate::Size;
use crate::store::StoreImage;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_rt::Rt;

/// One opening of the store.
#[derive(Clone, Copy)]
pub struct Opening {
    /// Its number, from 0 on.
    pub generation: u32,
    /// Seed of everything that is random in it.
    pub seed: u64,
    /// Operations.
    pub operations: u64,
    /// Time for which the log delays commits that are not awaited.
    pub commit_delay: Nanos,
    /// Bytes from which a commit is large.
    pub large_commit_bytes: u64,
    /// The store is closed at the end.
    pub in_order: bool,
}

/// Runs all generations of a seed. `live` opens and uses the store, and `check` checks what a cut has left. `S` is what a check
/// needs to know, and the next generation; a clone does not change with what it was made of.
///
/// # Errors
/// The first promise that does not hold.
pub fn run<S: Default + Clone + 'static, F: Future<Output = Result<(), String>> + 'static>(
    seed: u64,
    size: Size,
    mut random: ChaCha8Rng,
    mut image: StoreImage,
    live: impl Fn(Rt, StoreImage, Rc<RefCell<S>>, Opening) -> F,
    check: fn(&StoreImage, S, Opening, u64, &mut Outcome) -> Result<(), String>,
) -> Result<Outcome, Failure> {
    let (mut state, mut outcome) = (S::default(), Outcome::default());
    for generation in 0..size.generations {
        let world_seed = random.next_u64();
        let opening = Opening {
            generation,
            seed: world_seed,
            operations: size.operations,
            commit_delay: size.commit_delay(world_seed),
            large_commit_bytes: Size::large_commit_bytes(world_seed),
            in_order: random.next_u32().is_multiple_of(4),
        };
        let fail = |at| Failure::at(seed, generation, at);
        let world = drives::world_of(None, world_seed, image.disks.clone());
        let world = world.map_err(fail)?;
        let shared = Rc::new(RefCell::new(state));
        let (own, seen, kept) = (image.clone(), shared.clone(), shared.clone());
        let cuts = Cuts::watch(
            &world,
            cuts::any(world_seed),
            move || kept.borrow().clone(),
            move |crash, cut, outcome| {
                let left = own.with(crash.images(cut));
                let state = seen.borrow().clone();
                check(&left, state, opening, cut, outcome)
            },
        );
        let next = cuts.run(opening.in_order, &mut outcome, |rt, _| {
            live(rt, image.clone(), shared, opening)
        });
        let next = next.map_err(fail)?;
        image.disks = next.crash.images(next.cut);
        state = next.state;
    }
    Ok(outcome)
}
