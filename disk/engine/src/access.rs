//! Reads and writes of the home that are under way. No read of the home meets a write of the same blocks.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_rt::{Notify, Rt};

/// Reads and spills that are under way.
pub(crate) struct Access {
    /// Reads: the first block, and the block after the last one. The write-back leaves these blocks out.
    reads: RefCell<BTreeMap<u64, (u64, u64)>>,
    next_read: Cell<u64>,
    /// Spills: the first block, and the block after the last one.
    spills: RefCell<Vec<(u64, u64)>>,
    /// A read, a round or a spill has ended, or the store has failed or is closed.
    pub changed: Notify,
}

impl Access {
    /// Nothing is under way.
    pub fn new(rt: &Rt) -> Self {
        Self {
            reads: RefCell::default(),
            next_read: Cell::new(0),
            spills: RefCell::default(),
            changed: Notify::new(rt),
        }
    }

    /// Keeps the write-back away from `count` blocks from `first` on while the guard lives.
    pub fn read(self: &Rc<Self>, first: u64, count: u64) -> ReadGuard {
        let id = self.next_read.get();
        self.next_read.set(id + 1);
        self.reads.borrow_mut().insert(id, (first, first + count));
        ReadGuard {
            access: self.clone(),
            id,
        }
    }

    /// True when one of the blocks from `first` to before `end` is being read.
    pub fn is_read(&self, first: u64, end: u64) -> bool {
        let reads = self.reads.borrow();
        let mut reads = reads.values();
        reads.any(|(start, stop)| first < *stop && *start < end)
    }

    /// True while anything is being read.
    pub fn has_read(&self) -> bool {
        !self.reads.borrow().is_empty()
    }

    /// All blocks that are being read.
    pub fn busy(&self) -> Busy {
        let mut busy: Vec<(u64, u64)> = Vec::new();
        let mut reads: Vec<(u64, u64)> = self.reads.borrow().values().copied().collect();
        reads.sort_unstable();
        for (first, end) in reads {
            match busy.last_mut() {
                Some(last) if first <= last.1 => last.1 = last.1.max(end),
                _ => busy.push((first, end)),
            }
        }
        Busy(busy)
    }

    /// A spill into the blocks from `first` to before `end` begins.
    pub fn begin_spill(&self, first: u64, end: u64) {
        self.spills.borrow_mut().push((first, end));
    }

    /// A spill into the blocks from `first` to before `end` has ended.
    pub fn end_spill(&self, first: u64, end: u64) {
        let mut spills = self.spills.borrow_mut();
        spills.retain(|range| *range != (first, end));
        drop(spills);
        self.changed.notify();
    }

    /// True while a spill into one of the blocks from `first` to before `end` is under way.
    pub fn is_spilled(&self, first: u64, end: u64) -> bool {
        let spills = self.spills.borrow();
        let mut spills = spills.iter();
        spills.any(|(start, stop)| first < *stop && *start < end)
    }

    /// True while a spill is under way.
    pub fn has_spill(&self) -> bool {
        !self.spills.borrow().is_empty()
    }
}

/// While it lives, nothing is written to its blocks at home.
pub(crate) struct ReadGuard {
    access: Rc<Access>,
    id: u64,
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        self.access.reads.borrow_mut().remove(&self.id);
        self.access.changed.notify();
    }
}

/// Blocks that are being read: ascending ranges that neither overlap nor touch.
pub(crate) struct Busy(Vec<(u64, u64)>);

impl Busy {
    /// True when `block` is one of them.
    pub fn contains(&self, block: u64) -> bool {
        let at = self.0.partition_point(|(first, _)| *first <= block);
        at > 0 && block < self.0[at - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonearm_rt::IdleDriver;

    #[test]
    fn blocks_are_busy_while_any_read_is_open() {
        let rt = Rt::new(Box::new(IdleDriver::default()));
        let access = Rc::new(Access::new(&rt));
        let (left, right) = (access.read(10, 5), access.read(12, 8));
        let inner = access.read(13, 1);
        let found = |access: &Access| {
            let busy = access.busy();
            (0..30)
                .filter(|block| busy.contains(*block))
                .collect::<Vec<_>>()
        };
        assert_eq!(found(&access), (10..20).collect::<Vec<_>>());
        assert!(access.is_read(19, 25) && access.is_read(0, 11));
        assert!(!access.is_read(20, 25) && !access.is_read(0, 10));
        drop(left);
        drop(inner);
        assert_eq!(found(&access), (12..20).collect::<Vec<_>>());
        drop(right);
        assert_eq!(found(&access), [0; 0]);
    }
}
