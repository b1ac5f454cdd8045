//! Power cuts at every step of a world's I/O, for all kinds of runs.

use crate::campaign::Outcome;
use crate::runtime::within_time;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_engine::Engine;
use tonearm_rt::Rt;
use tonearm_world::{Crash, SimWorld};

/// A promise that does not hold: the step, the seed of the power cut (0 if there was none), and what is wrong.
pub type Broken = (u64, u64, String);

/// A cut from which the next generation may start.
pub struct Next<S> {
    pub crash: Crash,
    /// Seed of the cut.
    pub cut: u64,
    /// The model and whatever else the next generation needs, as of the cut.
    pub state: S,
}

struct Tally<S> {
    steps: u64,
    outcome: Outcome,
    failure: Option<Broken>,
    next: Option<Next<S>>,
}

/// The engine of a store in use, once it is open.
pub type Opened = Rc<RefCell<Option<Engine>>>;

/// The power cuts of one generation.
pub struct Cuts<S> {
    world: SimWorld,
    state: Rc<dyn Fn() -> S>,
    tally: Rc<RefCell<Tally<S>>>,
}

impl<S: 'static> Cuts<S> {
    /// Cuts the power at every step of the world's I/O until a promise does not hold. `choose` returns for each step the
    /// seed of its cut, and whether the next generation may start there, which replaces the last such cut. `state` is
    /// called for these cuts. `recover` opens the store after a cut and counts the result.
    pub fn watch(
        world: &SimWorld,
        mut choose: impl FnMut(u64) -> (u64, bool) + 'static,
        state: impl Fn() -> S + 'static,
        mut recover: impl FnMut(&Crash, u64, &mut Outcome) -> Result<(), String> + 'static,
    ) -> Self {
        let state: Rc<dyn Fn() -> S> = Rc::new(state);
        let tally = Rc::new(RefCell::new(Tally {
            steps: 0,
            outcome: Outcome::default(),
            failure: None,
            next: None,
        }));
        let (shared, of_cut) = (tally.clone(), state.clone());
        world.on_io(move |_, crash| {
            let mut tally = shared.borrow_mut();
            if tally.failure.is_some() {
                return;
            }
            tally.steps += 1;
            let (cut, keep) = choose(tally.steps);
            if keep {
                tally.next = Some(Next {
                    crash: crash.clone(),
                    cut,
                    state: of_cut(),
                });
            }
            match recover(crash, cut, &mut tally.outcome) {
                Ok(()) => tally.outcome.crash_points += 1,
                Err(what) => tally.failure = Some((tally.steps, cut, what)),
            }
        });
        Self {
            world: world.clone(),
            state,
            tally,
        }
    }

    /// Uses the store with `live` until that has ended, and adds the generation to `outcome`. Returns where the next one begins:
    /// at the cut that was chosen, or at the end, which is always so if this one ends `in_order`.
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub fn run<F: Future<Output = Result<(), String>> + 'static>(
        self,
        in_order: bool,
        outcome: &mut Outcome,
        live: impl FnOnce(Rt, Opened) -> F,
    ) -> Result<Next<S>, Broken> {
        let (rt, opened) = (Rt::new(self.world.driver()), Opened::default());
        let (world, state) = (self.world.clone(), self.state.clone());
        let result = within_time(&rt, opened.clone(), live(rt.clone(), opened.clone()));
        if let Some(engine) = opened.borrow().as_ref() {
            outcome.met.met_home(&engine.home().stats());
        }
        let next = self.end(&rt, result, outcome)?;
        Ok(next.filter(|_| !in_order).unwrap_or_else(|| Next {
            crash: world.crash(),
            cut: 0,
            state: state(),
        }))
    }

    /// Ends the generation, whose work ended with `result`, and adds it to `outcome`. Returns the cut that was chosen.
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub fn end<T>(
        self,
        rt: &Rt,
        result: Result<T, String>,
        outcome: &mut Outcome,
    ) -> Result<Option<Next<S>>, Broken> {
        self.world.clear_hook();
        outcome.trace_hash = outcome.trace_hash.rotate_left(7) ^ self.world.trace_hash();
        rt.shut_down();
        let mut tally = self.tally.borrow_mut();
        outcome.add(&tally.outcome);
        match (tally.failure.take(), result) {
            (Some(failure), _) => Err(failure),
            (None, Err(what)) => Err((tally.steps, 0, what)),
            (None, Ok(_)) => Ok(tally.next.take()),
        }
    }
}

/// Random cuts. Each is equally likely to be the one from which the next generation starts (reservoir sampling with one
/// slot).
pub fn any(seed: u64) -> impl FnMut(u64) -> (u64, bool) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0xc0ffee);
    move |step| (rng.next_u64(), rng.next_u64().is_multiple_of(step))
}
