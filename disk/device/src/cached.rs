//! A file that is written through the kernel's page cache: a durable write is a write and a flush.
//!
//! A lack of space for the write itself passes. When the page cache cannot be written for lack of space, pages of other
//! writes may be gone, and only this operation reports it.

use crate::device::{Device, DeviceIo, Filter};
use std::rc::Rc;
use tonearm_rt::{Data, IoError, Op};

/// Passes everything on, except durable writes.
pub(crate) struct Cached(pub Rc<dyn Device>);

impl Filter for Cached {
    fn inner(&self) -> &dyn Device {
        &*self.0
    }

    fn filter_io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        if op != Op::WriteDurable {
            return self.0.io(op, offset, len, data);
        }
        let (device, write) = (self.0.clone(), self.0.io(Op::Write, offset, len, data));
        Box::pin(async move {
            let (written, data) = write.await;
            if written.is_err() {
                return (written, data);
            }
            let (flushed, _) = device.io(Op::Flush, 0, 0, Data::None).await;
            (flushed.and(written).map_err(|_| IoError::EIO), data)
        })
    }
}
