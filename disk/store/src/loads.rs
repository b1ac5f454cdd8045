//! How many requests the members of the stores of an executor have had, how long they took, and whether one of them
//! completes none any more.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use tonearm_base::Nanos;
use tonearm_device::DeviceIo;
use tonearm_rt::{DeviceId, Rt};

/// The members that are open; clones are handles on the same.
#[derive(Clone, Default)]
pub struct Loads(Rc<RefCell<Vec<Weak<Load>>>>);

/// The requests of one member.
pub(crate) struct Load {
    rt: Rt,
    id: DeviceId,
    path: String,
    ended: Cell<u64>,
    time: Cell<u64>,
    under_way: Cell<u64>,
    /// When the last request has ended, or the first of those under way has begun if that is later.
    moved: Cell<Nanos>,
}

/// A snapshot of the requests of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberLoad {
    /// Its path.
    pub path: String,
    /// Requests that have ended.
    pub requests: u64,
    /// Sum of the times that they took.
    pub time: Nanos,
    /// Requests under way.
    pub under_way: u64,
    /// For how long there have been some and none of them has ended.
    pub stalled: Nanos,
}

impl Loads {
    /// A member that has had no requests yet.
    pub(crate) fn add(&self, rt: &Rt, id: DeviceId, path: &str) -> Rc<Load> {
        let load = Rc::new(Load {
            rt: rt.clone(),
            id,
            path: path.to_string(),
            ended: Cell::new(0),
            time: Cell::new(0),
            under_way: Cell::new(0),
            moved: Cell::new(Nanos(0)),
        });
        let mut loads = self.0.borrow_mut();
        loads.retain(|load| load.strong_count() > 0);
        loads.push(Rc::downgrade(&load));
        load
    }

    /// The members that are open, as the driver knows them.
    pub(crate) fn ids(&self) -> Vec<DeviceId> {
        let loads = self.0.borrow();
        let open = loads.iter().filter_map(Weak::upgrade);
        open.map(|load| load.id).collect()
    }

    /// The members that are open, in the order in which they were opened.
    pub fn list(&self) -> Vec<MemberLoad> {
        let loads = self.0.borrow();
        loads
            .iter()
            .filter_map(|load| Some(load.upgrade()?.now()))
            .collect()
    }
}

impl Load {
    /// Measures a request from now to its end.
    pub fn measured(self: &Rc<Self>, io: DeviceIo) -> DeviceIo {
        let begun = self.rt.now();
        if self.under_way.get() == 0 {
            self.moved.set(begun);
        }
        self.under_way.set(self.under_way.get() + 1);
        let load = self.clone();
        Box::pin(async move {
            let ended = io.await;
            let now = load.rt.now();
            load.ended.set(load.ended.get() + 1);
            load.time.set(load.time.get() + now.since(begun).0);
            load.under_way.set(load.under_way.get() - 1);
            load.moved.set(now);
            ended
        })
    }

    fn now(&self) -> MemberLoad {
        let under_way = self.under_way.get();
        let stalled = match under_way {
            0 => Nanos(0),
            _ => self.rt.now().since(self.moved.get()),
        };
        MemberLoad {
            path: self.path.clone(),
            requests: self.ended.get(),
            time: Nanos(self.time.get()),
            under_way,
            stalled,
        }
    }
}
