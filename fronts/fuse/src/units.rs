//! Units that programs have begun, and which requests belong to them.
//!
//! A unit lives as long as the handle on which it was begun. To it belong the files that were enlisted, and, if it was begun for
//! processes, what these ask for and the files that they open. A handle belongs to one unit until that takes effect, then to
//! none; after a unit without effect it is of no use.
//!
//! The kernel keeps no names and attributes that an open unit has changed, so that it asks for each process. Files of a unit are
//! open without its page cache. So members see their unit, and others what is committed.

use crate::message::{Caller, Operation, Request};
use crate::queue::Shared;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tonearm_base::Nanos;
use tonearm_fs::{Fs, FsError, Unit};
use tonearm_rt::Rt;

/// The units of a mount.
pub(crate) struct Units {
    shared: Arc<Shared>,
    rt: Rt,
    last: Cell<u64>,
    open: RefCell<BTreeMap<u64, Open>>,
    /// Handles of files and the units to which they belong. A unit that is not open has had no effect.
    handles: RefCell<BTreeMap<u64, u64>>,
    /// Handles that do not use the page cache of the kernel.
    direct: RefCell<BTreeSet<u64>>,
    /// A task looks for units that are open for too long.
    watched: Cell<bool>,
}

/// An open unit.
struct Open {
    /// `None` once it was open for too long.
    unit: Option<Rc<Unit>>,
    /// The handle on which it was begun.
    handle: u64,
    uid: u32,
    until: Nanos,
}

/// Where an operation takes place.
#[derive(Clone)]
pub(crate) enum Place {
    /// In the committed state.
    Committed,
    /// In a unit.
    Unit(Rc<Unit>),
}

impl Place {
    /// The file system as it is seen there.
    pub fn fs<'a>(&'a self, committed: &'a Fs) -> &'a Fs {
        match self {
            Self::Committed => committed,
            Self::Unit(unit) => unit.fs(),
        }
    }
}

fn ended() -> FsError {
    FsError::UnitEnded("it had no effect, because it was aborted or open for too long")
}

impl Units {
    pub fn new(shared: Arc<Shared>, rt: &Rt) -> Self {
        Self {
            shared,
            rt: rt.clone(),
            last: Cell::new(0),
            open: RefCell::default(),
            handles: RefCell::default(),
            direct: RefCell::default(),
            watched: Cell::new(false),
        }
    }

    /// Where a request takes place: in the unit of its handle, or else of its process.
    pub fn place(&self, request: &Request) -> Result<Place, FsError> {
        let is_of_handle = request.operation.is_of_handle();
        self.place_of(request.handle, is_of_handle, request.member)
    }

    /// Where an operation on `handle` takes place, which a process of the unit `member` asks for.
    pub fn place_of(
        &self,
        handle: u64,
        is_of_handle: bool,
        member: Option<u64>,
    ) -> Result<Place, FsError> {
        let of_handle = self.handles.borrow().get(&handle).copied();
        // The content of a file that was opened outside of the unit stays outside.
        let member = member.filter(|_| handle == 0 || !is_of_handle);
        let Some(unit) = of_handle.or(member) else {
            return Ok(Place::Committed);
        };
        let open = self.open.borrow();
        let found = open.get(&unit).and_then(|open| open.unit.clone());
        found.map(Place::Unit).ok_or_else(ended)
    }

    /// Notes a handle that a process of the unit `member` opens.
    pub fn add_handle(&self, handle: u64, member: Option<u64>, is_direct: bool) {
        if let Some(unit) = member {
            self.handles.borrow_mut().insert(handle, unit);
        }
        if is_direct || member.is_some() {
            self.direct.borrow_mut().insert(handle);
        }
    }

    /// A handle is closed. Gives the unit that was begun on it, which must be dropped.
    pub fn close_handle(&self, handle: u64) -> Option<Rc<Unit>> {
        self.handles.borrow_mut().remove(&handle);
        self.direct.borrow_mut().remove(&handle);
        let unit = self.begun_on(handle)?;
        // Its processes may not know that, and go on.
        self.shared.members.end(unit, true);
        self.take(unit)
    }

    /// Begins a unit on a handle, for the processes from that of a thread down if there is one. Gives its number.
    pub fn begin(
        self: &Rc<Self>,
        fs: &Fs,
        handle: u64,
        by: Caller,
        processes: Option<u32>,
    ) -> Result<u64, FsError> {
        if self.begun_on(handle).is_some() || self.handles.borrow().contains_key(&handle) {
            return Err(FsError::Invalid("the descriptor has a unit already"));
        }
        let unit = Rc::new(fs.for_user(by.user()).begin()?);
        let number = self.last.get() + 1;
        self.last.set(number);
        if let Some(thread) = processes
            && !self.shared.members.begin(thread, number, (by.uid, by.gid))
        {
            return Err(FsError::Invalid(
                "the calling process is not in sight of the server",
            ));
        }
        let life_s = self.shared.unit_time_s.load(Ordering::Relaxed);
        let life = Nanos(life_s.saturating_mul(1_000_000_000));
        let until = Nanos(self.rt.now().0.saturating_add(life.0));
        let open = Open {
            unit: Some(unit),
            handle,
            uid: by.uid,
            until,
        };
        self.open.borrow_mut().insert(number, open);
        if !self.watched.replace(true) {
            self.rt.spawn_detached(self.clone().watch());
        }
        Ok(number)
    }

    /// Makes a handle of a regular file belong to a unit.
    pub fn enlist(&self, handle: u64, unit: u64, uid: u32) -> Result<(), FsError> {
        match self.open.borrow().get(&unit) {
            Some(open) if open.unit.is_none() => return Err(ended()),
            Some(open) if open.uid == uid || uid == 0 => {}
            _ => return Err(FsError::NotFound),
        }
        if !self.direct.borrow().contains(&handle) {
            return Err(FsError::Invalid("a file of a unit is opened with O_DIRECT"));
        }
        let mut handles = self.handles.borrow_mut();
        match handles.get(&handle) {
            Some(other) if *other != unit => Err(FsError::Exists),
            _ => {
                handles.insert(handle, unit);
                Ok(())
            }
        }
    }

    /// The unit that was begun on a handle.
    pub fn find(&self, handle: u64) -> Result<Rc<Unit>, FsError> {
        let number = self.begun_on(handle).ok_or_else(ended)?;
        self.open.borrow()[&number].unit.clone().ok_or_else(ended)
    }

    /// Takes the unit that was begun on a handle, to end it. Its processes belong to it no more.
    pub fn take_begun(&self, handle: u64) -> Result<(u64, Rc<Unit>), FsError> {
        let number = self.begun_on(handle).ok_or_else(ended)?;
        self.shared.members.end(number, false);
        let unit = self.take(number).ok_or_else(ended)?;
        Ok((number, unit))
    }

    /// The unit has taken effect: its handles are like others.
    pub fn release_handles(&self, unit: u64) {
        self.handles.borrow_mut().retain(|_, of| *of != unit);
    }

    /// Takes all units, to abort them.
    pub fn take_all(&self) -> Vec<Rc<Unit>> {
        let open = self.open.take();
        open.into_values().filter_map(|open| open.unit).collect()
    }

    fn begun_on(&self, handle: u64) -> Option<u64> {
        let open = self.open.borrow();
        let mut open = open.iter();
        open.find_map(|(number, open)| (open.handle == handle).then_some(*number))
    }

    fn take(&self, unit: u64) -> Option<Rc<Unit>> {
        self.open.borrow_mut().remove(&unit)?.unit
    }

    /// Aborts units that are open for too long. Their processes get errors until the descriptor is closed.
    async fn watch(self: Rc<Self>) {
        loop {
            let until = {
                let open = self.open.borrow();
                let units = open.values().filter(|open| open.unit.is_some());
                units.map(|open| open.until).min()
            };
            let Some(until) = until else {
                self.watched.set(false);
                return;
            };
            let now = self.rt.now();
            if until > now {
                self.rt.sleep(until.since(now)).await;
                continue;
            }
            let aborted: Vec<Option<Rc<Unit>>> = {
                let mut open = self.open.borrow_mut();
                let late = open.values_mut().filter(|open| open.until <= now);
                late.map(|open| open.unit.take()).collect()
            };
            drop(aborted);
        }
    }
}

impl Operation {
    /// It concerns the content of an open file.
    pub fn is_of_handle(&self) -> bool {
        matches!(
            self,
            Self::Read { .. }
                | Self::Write { .. }
                | Self::Allocate { .. }
                | Self::Seek { .. }
                | Self::Sync { .. }
                | Self::Close { .. }
                | Self::SetAttr { .. }
                | Self::Copy { .. }
        )
    }
}
