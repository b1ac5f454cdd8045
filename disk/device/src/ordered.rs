//! A device whose storage keeps the order of writes, by the administrator's word (Durable WAL 3): a write that has
//! completed is durable, and a flush has nothing to do.

use crate::device::{Device, DeviceIo, Filter, at_once};
use std::rc::Rc;
use tonearm_rt::{Data, Op};

/// Passes everything on, except flushes.
pub(crate) struct Ordered(pub Rc<dyn Device>);

impl Filter for Ordered {
    fn inner(&self) -> &dyn Device {
        &*self.0
    }

    fn filter_io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        match op {
            Op::Flush => at_once(Ok(0), data),
            Op::WriteDurable => self.0.io(Op::Write, offset, len, data),
            _ => self.0.io(op, offset, len, data),
        }
    }
}
