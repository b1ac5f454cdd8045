//! The requests under way, and since when the oldest of them is.
//!
//! They are a list in the order of their beginnings, in slots that are used again. So beginning and ending take constant
//! time, and memory is that of the most requests that were ever under way at once.

use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::Nanos;

/// The requests under way of all front ends of an engine. Clones are handles on the same.
#[derive(Clone, Default)]
pub struct UnderWay(Rc<RefCell<List>>);

/// A request under way; it ends when this is dropped.
pub struct Begun {
    list: UnderWay,
    slot: usize,
}

#[derive(Default)]
struct List {
    slots: Vec<Slot>,
    free: Vec<usize>,
    first: Option<usize>,
    last: Option<usize>,
}

#[derive(Clone, Copy)]
struct Slot {
    arrived: Nanos,
    before: Option<usize>,
    after: Option<usize>,
}

impl UnderWay {
    /// A request that has arrived at this time is under way from now on. It comes after those that began earlier.
    pub fn begin(&self, arrived: Nanos) -> Begun {
        let mut list = self.0.borrow_mut();
        let slot = Slot {
            arrived,
            before: list.last,
            after: None,
        };
        let at = match list.free.pop() {
            Some(at) => {
                list.slots[at] = slot;
                at
            }
            None => {
                list.slots.push(slot);
                list.slots.len() - 1
            }
        };
        match slot.before {
            Some(before) => list.slots[before].after = Some(at),
            None => list.first = Some(at),
        }
        list.last = Some(at);
        drop(list);
        Begun {
            list: self.clone(),
            slot: at,
        }
    }

    /// Their number.
    pub fn count(&self) -> usize {
        let list = self.0.borrow();
        list.slots.len() - list.free.len()
    }

    /// When the one that has begun first has arrived.
    pub fn oldest(&self) -> Option<Nanos> {
        let list = self.0.borrow();
        list.first.map(|first| list.slots[first].arrived)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut list = self.list.0.borrow_mut();
        let Slot { before, after, .. } = list.slots[self.slot];
        match before {
            Some(before) => list.slots[before].after = after,
            None => list.first = after,
        }
        match after {
            Some(after) => list.slots[after].before = before,
            None => list.last = before,
        }
        list.free.push(self.slot);
    }
}

#[cfg(test)]
#[path = "under_way_test.rs"]
mod under_way_test;
