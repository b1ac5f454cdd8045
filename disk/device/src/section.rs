//! A part of a device, as a device of its own. Ranges outside of the part are refused.

use crate::device::{Device, DeviceIo, allows, at_once, span};
use std::ops::Range;
use std::rc::Rc;
use tonearm_rt::{Data, IoError, Op};

/// Bytes `range` of a device. Its flush is that of the whole device.
pub struct Section {
    inner: Rc<dyn Device>,
    range: Range<u64>,
}

impl Section {
    /// Bytes `range` of `inner`.
    ///
    /// # Panics
    /// When the range is not of whole blocks within the device: the caller has compared the sizes.
    pub fn new(inner: Rc<dyn Device>, range: Range<u64>) -> Self {
        let block = u64::from(inner.block_size());
        assert!(
            range.start <= range.end && range.end <= inner.size_bytes(),
            "a section lies within its device"
        );
        assert!(
            range.start.is_multiple_of(block) && range.end.is_multiple_of(block),
            "a section has whole blocks"
        );
        Self { inner, range }
    }
}

impl Device for Section {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size_bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn block_size(&self) -> u32 {
        self.inner.block_size()
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        if op == Op::Flush {
            return self.inner.io(op, offset, len, data);
        }
        if !allows(self, op, offset, span(op, len, &data)) {
            return at_once(Err(IoError::EINVAL), data);
        }
        self.inner.io(op, self.range.start + offset, len, data)
    }
}
