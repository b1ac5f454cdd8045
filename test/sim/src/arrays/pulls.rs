//! Drives that fail from a request of the world on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use tonearm_rt::{DeviceId, IoError, Op};
use tonearm_world::SimWorld;

/// A drive that fails.
#[derive(Clone, Copy)]
pub struct Pull {
    /// The drive.
    pub drive: usize,
    /// The request of the world, counted from 0 over all drives, from which on it fails.
    pub from: u64,
    /// The request from which on it works again.
    pub to: u64,
    /// Its reads fail, too.
    pub reads: bool,
}

/// The drives that have failed in a world.
#[derive(Clone, Default)]
pub struct Pulled(Rc<State>);

#[derive(Default)]
struct State {
    requests: Cell<u64>,
    failed: RefCell<BTreeSet<usize>>,
}

impl Pulled {
    /// Lets drives of `world` fail as `pulls` say.
    pub fn of(world: &SimWorld, pulls: &[Pull]) -> Self {
        let (own, pulls) = (Self::default(), pulls.to_vec());
        let state = own.0.clone();
        world.set_fault(move |request| {
            let now = state.requests.get();
            state.requests.set(now + 1);
            let of = |pull: &&Pull| {
                request.device == DeviceId(pull.drive as u32)
                    && (pull.from..pull.to).contains(&now)
                    && (pull.reads || request.op != Op::Read)
            };
            let pull = pulls.iter().find(of)?;
            state.failed.borrow_mut().insert(pull.drive);
            Some(IoError::EIO)
        });
        own
    }

    /// The drives that have failed a request.
    pub fn failed(&self) -> BTreeSet<usize> {
        self.0.failed.borrow().clone()
    }
}
