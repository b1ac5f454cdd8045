//! A device of the executor's driver: a file or block device in the real world, a simulated one else.
//!
//! It refuses what lies outside the device or is not of whole blocks, so that both worlds refuse
//! alike: the simulation takes any range, and a file would grow.

use crate::device::{Device, DeviceIo, at_once, span};
use tonearm_rt::{Data, DeviceId, IoError, Op, Request, Rt};

/// One of the driver's devices.
pub struct RawDevice {
    rt: Rt,
    id: DeviceId,
    size_bytes: u64,
    block_size: u32,
    name: String,
}

impl RawDevice {
    /// Device `id` of the driver behind `rt`; `size_bytes` is what the driver has there, and
    /// `block_size` the unit in bytes of its offsets and lengths.
    pub fn new(rt: &Rt, id: DeviceId, size_bytes: u64, block_size: u32, name: &str) -> Self {
        assert!(block_size > 0, "a block has at least one byte");
        Self {
            rt: rt.clone(),
            id,
            size_bytes,
            block_size,
            name: name.into(),
        }
    }

    fn allows(&self, op: Op, offset: u64, len: u64) -> bool {
        let block = u64::from(self.block_size);
        match op {
            Op::Flush => true,
            Op::Read | Op::Write | Op::WriteDurable | Op::Punch | Op::Zero => {
                offset.is_multiple_of(block)
                    && len.is_multiple_of(block)
                    && offset
                        .checked_add(len)
                        .is_some_and(|end| end <= self.size_bytes)
            }
            Op::Recv | Op::RecvAll | Op::Send | Op::Close => false,
        }
    }
}

impl Device for RawDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn block_size(&self) -> u32 {
        self.block_size
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        if !self.allows(op, offset, span(op, len, &data)) {
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
