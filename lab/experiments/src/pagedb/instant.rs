//! A device that can be made to take no time, to warm a buffer pool.

use std::cell::Cell;
use std::rc::Rc;
use tonearm_device::{Device, DeviceIo, Filter, at_once, span};
use tonearm_rt::{Data, Op};

/// While the switch is on, operations end at once and do not reach the device: reads change nothing in their memory. That
/// suits timed runs, in which nothing depends on the content of pages.
pub struct Instant {
    inner: Rc<dyn Device>,
    on: Rc<Cell<bool>>,
}

impl Instant {
    /// `inner` behind the switch `on`.
    pub fn new(inner: Rc<dyn Device>, on: Rc<Cell<bool>>) -> Self {
        Self { inner, on }
    }
}

impl Filter for Instant {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn filter_io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        if self.on.get() {
            let bytes = span(op, len, &data) as usize;
            return at_once(Ok(bytes), data);
        }
        self.inner.io(op, offset, len, data)
    }
}
