//! A device whose storage keeps order, by the administrator's word (Durable WAL 3): what is done is durable,
//! and a flush has nothing to do.

use std::rc::Rc;
use tonearm_device::{Device, DeviceIo, Interrupted, Recovering};
use tonearm_rt::{Data, Op};

/// Passes everything on but flushes.
pub(crate) struct Ordered(pub Rc<dyn Device>);

impl Device for Ordered {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.0.block_size()
    }

    fn is_suspect(&self) -> bool {
        self.0.is_suspect()
    }

    fn recover(&self, interrupted: Interrupted) -> Recovering {
        self.0.recover(interrupted)
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        match op {
            Op::Flush => Box::pin(std::future::ready((Ok(0), data))),
            Op::WriteDurable => self.0.io(Op::Write, offset, len, data),
            _ => self.0.io(op, offset, len, data),
        }
    }
}
