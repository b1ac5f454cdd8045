//! The open recovery units of a store: those of threads, and those of sessions with its files.
//!
//! Invariants:
//! 1. A unit is in the table, or an operation that uses it has it ([`Taken`]).
//! 2. An operation that panics aborts its unit.
//! 3. A unit that is removed while an operation uses it is aborted when the operation ends.

use crate::open_unit::OpenUnit;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Names an open unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct UnitId {
    /// 0 for a unit of no session.
    pub session: u64,
    /// Chosen by the session's client, or counted up.
    pub number: u64,
}

/// Why a unit cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotAvailable {
    NotOpen,
    /// Another operation uses it.
    InUse,
}

/// The table; clones are handles on the same. `A` is the unit, another type in tests.
pub(crate) struct Units<A = OpenUnit>(Rc<State<A>>);

struct State<A> {
    /// `None` while an operation has it.
    open: RefCell<BTreeMap<UnitId, Option<A>>>,
    next: Cell<u64>,
    /// No more units are opened.
    closed: Cell<bool>,
}

impl<A> Clone for Units<A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<A> Default for Units<A> {
    fn default() -> Self {
        Self(Rc::new(State {
            open: RefCell::default(),
            next: Cell::new(0),
            closed: Cell::new(false),
        }))
    }
}

impl<A> Units<A> {
    /// Opens a unit of no session.
    pub fn open(&self, aru: A) -> UnitId {
        let id = UnitId {
            session: 0,
            number: self.0.next.replace(self.0.next.get() + 1),
        };
        self.insert(id, aru);
        id
    }

    /// Opens a unit. Once the store is being closed, the unit is aborted instead.
    pub fn insert(&self, id: UnitId, aru: A) {
        if !self.0.closed.get() {
            self.0.open.borrow_mut().insert(id, Some(aru));
        }
    }

    /// Whether the unit is open.
    pub fn contains(&self, id: UnitId) -> bool {
        self.0.open.borrow().contains_key(&id)
    }

    /// Open units of a session.
    pub fn count(&self, session: u64) -> usize {
        self.0.open.borrow().range(of(session)).count()
    }

    /// Takes a unit for an operation.
    ///
    /// # Errors
    /// When it is not open, or another operation has it.
    pub fn take(&self, id: UnitId) -> Result<Taken<A>, NotAvailable> {
        let mut open = self.0.open.borrow_mut();
        let place = open.get_mut(&id).ok_or(NotAvailable::NotOpen)?;
        let aru = place.take().ok_or(NotAvailable::InUse)?;
        Ok(Taken {
            units: self.clone(),
            id,
            aru: Some(aru),
        })
    }

    /// Uses a unit.
    ///
    /// # Errors
    /// As for [`Units::take`].
    pub async fn with<T>(
        &self,
        id: UnitId,
        operation: impl AsyncFnOnce(&mut A) -> T,
    ) -> Result<T, NotAvailable> {
        let mut taken = self.take(id)?;
        let result = operation(taken.aru()).await;
        taken.put_back();
        Ok(result)
    }

    /// Aborts a unit, if it is open.
    pub fn abort(&self, id: UnitId) {
        let aru = self.0.open.borrow_mut().remove(&id);
        drop(aru);
    }

    /// Aborts all units of a session.
    pub fn end_session(&self, session: u64) {
        let of_session = {
            let mut open = self.0.open.borrow_mut();
            let ids: Vec<_> = open.range(of(session)).map(|(id, _)| *id).collect();
            let removed = ids.iter().map(|id| open.remove(id));
            removed.collect::<Vec<_>>()
        };
        drop(of_session);
    }

    /// Aborts all units, since the store is being closed.
    pub fn close(&self) {
        self.0.closed.set(true);
        let open = std::mem::take(&mut *self.0.open.borrow_mut());
        drop(open);
    }

    /// Whether the store is being closed.
    pub fn is_closed(&self) -> bool {
        self.0.closed.get()
    }
}

fn of(session: u64) -> std::ops::RangeInclusive<UnitId> {
    let id = |number| UnitId { session, number };
    id(0)..=id(u64::MAX)
}

/// A unit that an operation uses.
pub(crate) struct Taken<A = OpenUnit> {
    units: Units<A>,
    id: UnitId,
    aru: Option<A>,
}

impl<A> Taken<A> {
    pub fn aru(&mut self) -> &mut A {
        self.aru
            .as_mut()
            .expect("it is there until it is put back or kept")
    }

    /// Puts the unit back at the end of the operation.
    pub fn put_back(mut self) {
        let aru = self.aru.take();
        let mut open = self.units.0.open.borrow_mut();
        match open.get_mut(&self.id) {
            Some(place) => *place = aru,
            // It was aborted meanwhile.
            None => {
                drop(open);
                drop(aru);
            }
        }
    }

    /// Takes the unit out of the table.
    pub fn keep(mut self) -> A {
        self.aru
            .take()
            .expect("it is there until it is put back or kept")
    }
}

impl<A> Drop for Taken<A> {
    fn drop(&mut self) {
        let mut open = self.units.0.open.borrow_mut();
        // The unit is still in use by this operation.
        if let Some(None) = open.get(&self.id) {
            open.remove(&self.id);
        }
        drop(open);
        drop(self.aru.take());
    }
}

#[cfg(test)]
#[path = "units_test.rs"]
mod units_test;
