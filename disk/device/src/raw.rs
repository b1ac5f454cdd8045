//! A device of the executor's driver: a file or block device in the real world, or a simulated one.
//!
//! It refuses ranges outside of the device and parts of blocks. So both worlds refuse the same operations: the
//! simulation would take any range, and a file would grow.

use crate::device::{Device, DeviceIo, allows, at_once, span};
use std::cell::Cell;
use tonearm_rt::{Data, DeviceId, IoError, Op, Request, Rt};

/// One of the driver's devices.
pub struct RawDevice {
    rt: Rt,
    id: DeviceId,
    size_bytes: Cell<u64>,
    block_size: u32,
    name: String,
}

impl RawDevice {
    /// Device `id` of the driver behind `rt`, with its size. Offsets and lengths must be multiples of `block_size`
    /// bytes.
    pub fn new(rt: &Rt, id: DeviceId, size_bytes: u64, block_size: u32, name: &str) -> Self {
        assert!(block_size > 0, "a block has at least one byte");
        Self {
            rt: rt.clone(),
            id,
            size_bytes: Cell::new(size_bytes),
            block_size,
            name: name.into(),
        }
    }
}

impl Device for RawDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes.get()
    }

    fn set_size_bytes(&self, size_bytes: u64) -> bool {
        self.size_bytes.set(size_bytes);
        true
    }

    fn block_size(&self) -> u32 {
        self.block_size
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        if !allows(self, op, offset, span(op, len, &data)) {
            return at_once(Err(IoError::EINVAL), data);
        }
        Box::pin(self.rt.io(Request {
            device: self.id,
            op,
            offset,
            len,
            data,
        }))
    }
}
