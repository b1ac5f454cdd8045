//! A filter that counts operations.

use std::cell::RefCell;
use std::rc::Rc;
use tonearm_device::{Device, DeviceIo, Filter, span};
use tonearm_rt::{Data, Op};

/// Operations of one kind that were started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpCount {
    /// Number of operations.
    pub started: u64,
    /// Bytes of the device that they concern.
    pub bytes: u64,
}

/// A device whose operations are counted.
pub struct Counted {
    inner: Rc<dyn Device>,
    counts: RefCell<Vec<(Op, OpCount)>>,
}

impl Counted {
    /// Counts the operations of `inner`.
    pub fn new(inner: Rc<dyn Device>) -> Self {
        Self {
            inner,
            counts: RefCell::default(),
        }
    }

    /// The operations of one kind so far.
    pub fn count(&self, op: Op) -> OpCount {
        let counts = self.counts.borrow();
        let own = counts.iter().find(|(kind, _)| *kind == op);
        own.map_or(OpCount::default(), |(_, count)| *count)
    }
}

impl Filter for Counted {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn filter_io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        let mut counts = self.counts.borrow_mut();
        let at = counts.iter().position(|(kind, _)| *kind == op);
        let at = at.unwrap_or_else(|| {
            counts.push((op, OpCount::default()));
            counts.len() - 1
        });
        counts[at].1.started += 1;
        counts[at].1.bytes += span(op, len, &data);
        drop(counts);
        self.inner.io(op, offset, len, data)
    }
}
