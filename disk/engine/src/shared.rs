//! State that the parts of an open store share, and whether the store still takes changes.

use crate::access::Access;
use crate::error::EngineError;
use crate::options::OpenOptions;
use crate::pinned::Pinned;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::{BufPool, Lsn};
use tonearm_device::raid::ArrayStatus;
use tonearm_device::{Device, Events, StoreEvent};
use tonearm_layout::{Home, HomeError, HomeShape};
use tonearm_rt::{Notify, Rt, Semaphore};
use tonearm_trail::Trail;

pub(crate) struct Shared {
    pub rt: Rt,
    pub pool: BufPool,
    pub options: OpenOptions,
    /// The members, in the superblock's order.
    pub members: Vec<Rc<dyn Device>>,
    pub home: Rc<dyn Home>,
    pub shape: Cell<HomeShape>,
    pub trail: Trail,
    /// The last commit before the opening.
    pub opened_at: Lsn,
    /// Payload in memory.
    pub memory: Semaphore,
    pub pinned: RefCell<Pinned>,
    pub access: Rc<Access>,
    pub life: RefCell<Life>,
    /// What has happened to the store and its drives.
    pub events: Events,
    /// The write-back has something to look at.
    pub work: Notify,
    /// The home is full, or the store has failed or is being closed: writers that wait for space get an error. Nothing
    /// else wakes them before their turn.
    pub refusals: Notify,
}

/// The stage of the store's life.
#[derive(Default)]
pub(crate) struct Life {
    /// The first failure.
    pub failed: Option<String>,
    /// No commit is taken any more.
    pub closing: bool,
    pub closed: bool,
}

impl Shared {
    /// # Errors
    /// When the store has failed or is closed.
    pub fn check_alive(&self) -> Result<(), EngineError> {
        let life = self.life.borrow();
        if life.closed {
            return Err(EngineError::Closed);
        }
        match &life.failed {
            Some(reason) => Err(EngineError::Failed(reason.clone())),
            None => Ok(()),
        }
    }

    /// # Errors
    /// When the store takes no changes.
    pub fn check_writable(&self) -> Result<(), EngineError> {
        if self.options.read_only {
            return Err(EngineError::OpenReadOnly);
        }
        self.check_alive()?;
        if self.life.borrow().closing {
            Err(EngineError::Closing)
        } else {
            Ok(())
        }
    }

    /// Callers stay within the store: each operation of a volume checks its range, and extents lie within the store.
    /// A range beyond the store must never reach the log, because every recovery would meet it.
    ///
    /// # Panics
    /// When the range goes beyond the store's end.
    pub fn assert_range(&self, first: u64, count: u64) {
        let end = first.checked_add(count);
        assert!(
            end.is_some_and(|end| end <= self.shape.get().size_blocks),
            "{count} blocks from block {first} on, beyond the store"
        );
    }

    /// Lets the home use the places again that no recovery reads any more. Recovery may have met places of commits up to the
    /// opening.
    pub fn release_indirect(&self) {
        let from = self.trail.replayed_from();
        if from > self.opened_at
            && let Some(home) = self.home.indirect()
        {
            home.release(from);
        }
    }

    /// The array that has the home blocks.
    pub fn array(&self) -> Option<ArrayStatus> {
        array_of(&self.members)
    }

    /// Makes the store read-only. The first failure stays the reason.
    pub fn fail(&self, error: EngineError) -> EngineError {
        // An operation on a lost array ends with an error that names no member.
        let reason = match self.array().and_then(|array| array.lost) {
            Some(lost) => format!("{error}: {lost}"),
            None => error.to_string(),
        };
        let first = {
            let failed = &mut self.life.borrow_mut().failed;
            let first = failed.is_none();
            failed.get_or_insert_with(|| reason.clone());
            first
        };
        if first {
            self.events.note(StoreEvent::ReadOnly {
                why: reason.clone(),
            });
        }
        self.trail.give_up(&reason);
        self.memory.close();
        self.work.notify();
        self.access.changed.notify();
        self.refusals.notify();
        error
    }

    /// Notes a read of the home that has failed.
    pub fn note_read(&self, error: &HomeError) {
        self.events.note(StoreEvent::ReadFailed {
            why: error.to_string(),
        });
    }

    /// Marks the store as closed.
    pub fn shut(&self) {
        self.life.borrow_mut().closed = true;
        self.memory.close();
        self.work.notify();
        self.access.changed.notify();
    }
}

/// Where the array among `members` notes events, or a list of its own for a store without one.
pub(crate) fn events_of(rt: &Rt, members: &[Rc<dyn Device>]) -> Events {
    let mut arrays = members.iter().filter_map(|member| member.redundancy());
    let events = arrays.find_map(|array| array.events());
    events.unwrap_or_else(|| Events::new(rt))
}

/// The array among the members of a store.
pub(crate) fn array_of(members: &[Rc<dyn Device>]) -> Option<ArrayStatus> {
    let mut arrays = members.iter().filter_map(|member| member.redundancy());
    arrays.find_map(|array| array.status())
}
