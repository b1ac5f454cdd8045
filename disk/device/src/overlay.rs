//! A device that keeps in memory what is written to it. The device below stays as it is, so that a store can be recovered and
//! looked at without a change of the medium.
//!
//! Invariant: parts do not overlap. What they do not cover is as below.

use crate::device::{Device, DeviceIo, allows, at_once, span};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use tonearm_rt::{Data, IoError, Op};

/// A device over one that is only read. It has no redundancy: nothing below changes.
pub struct Overlay {
    inner: Rc<dyn Device>,
    parts: Rc<RefCell<Parts>>,
}

/// What was written, by the offset of its first byte.
struct Parts {
    parts: BTreeMap<u64, Part>,
    /// Bytes that further writes may take. Overwritten ones count, too: their memory may still be held.
    left: u64,
    /// One was refused.
    is_full: bool,
}

#[derive(Clone)]
struct Part {
    /// The offset after its last byte.
    end: u64,
    /// Its bytes, and where in them it begins; `None` for zeroes.
    bytes: Option<(Rc<[u8]>, usize)>,
}

impl Overlay {
    /// Nothing is written yet. All writes together may have `bytes_max` bytes. Further ones end with `EIO`, because no caller waits for
    /// space.
    pub fn new(inner: Rc<dyn Device>, bytes_max: u64) -> Self {
        let parts = Parts {
            parts: BTreeMap::new(),
            left: bytes_max,
            is_full: false,
        };
        Self {
            inner,
            parts: Rc::new(RefCell::new(parts)),
        }
    }

    /// True when a write was refused because it would have been too much.
    pub fn is_full(&self) -> bool {
        self.parts.borrow().is_full
    }
}

impl Part {
    /// The same without its first `count` bytes.
    fn without_first(&self, count: u64) -> Self {
        let bytes = self.bytes.clone();
        Self {
            end: self.end,
            bytes: bytes.map(|(bytes, from)| (bytes, from + count as usize)),
        }
    }
}

impl Parts {
    /// Replaces what `range` has.
    fn put(&mut self, range: Range<u64>, bytes: Option<Rc<[u8]>>) {
        if range.is_empty() {
            return;
        }
        if let Some((start, before)) = self.parts.range_mut(..range.start).next_back()
            && before.end > range.start
        {
            let rest = before.without_first(range.end.min(before.end) - start);
            before.end = range.start;
            if rest.end > range.end {
                self.parts.insert(range.end, rest);
            }
        }
        while let Some((&start, part)) = self.parts.range(range.clone()).next() {
            let rest = part.without_first(range.end.min(part.end) - start);
            self.parts.remove(&start);
            if rest.end > range.end {
                self.parts.insert(range.end, rest);
            }
        }
        let part = Part {
            end: range.end,
            bytes: bytes.map(|bytes| (bytes, 0)),
        };
        self.parts.insert(range.start, part);
    }

    /// Puts what was written over `data`, which was read at `offset`.
    fn cover(&self, offset: u64, data: &mut [u8]) {
        let end = offset + data.len() as u64;
        let before = self.parts.range(..offset).next_back();
        for (start, part) in before.into_iter().chain(self.parts.range(offset..end)) {
            let (from, to) = ((*start).max(offset), part.end.min(end));
            if from >= to {
                continue;
            }
            let target = &mut data[(from - offset) as usize..(to - offset) as usize];
            match &part.bytes {
                Some((bytes, at)) => {
                    let at = at + (from - start) as usize;
                    target.copy_from_slice(&bytes[at..at + target.len()]);
                }
                None => target.fill(0),
            }
        }
    }

    fn write(&mut self, offset: u64, data: &Data) -> Result<usize, IoError> {
        let len = data.len();
        let Some(left) = self.left.checked_sub(len as u64) else {
            self.is_full = true;
            return Err(IoError::EIO);
        };
        self.left = left;
        let mut bytes = Vec::with_capacity(len);
        match data {
            Data::None => {}
            Data::Buf(buf, range) => bytes.extend_from_slice(&buf[range.clone()]),
            Data::Slices(slices) => slices
                .iter()
                .for_each(|slice| bytes.extend_from_slice(slice)),
        }
        self.put(offset..offset + len as u64, Some(bytes.into()));
        Ok(len)
    }
}

impl Device for Overlay {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.inner.block_size()
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        if !allows(self, op, offset, span(op, len, &data)) {
            return at_once(Err(IoError::EINVAL), data);
        }
        let mut parts = self.parts.borrow_mut();
        match op {
            Op::Read => {
                let (io, parts) = (self.inner.io(op, offset, len, data), self.parts.clone());
                Box::pin(async move {
                    let (result, mut data) = io.await;
                    if let (Ok(read), Data::Buf(buf, range)) = (&result, &mut data) {
                        let read = range.start..range.start + read;
                        parts.borrow().cover(offset, &mut buf[read]);
                    }
                    (result, data)
                })
            }
            Op::Write | Op::WriteDurable => at_once(parts.write(offset, &data), data),
            Op::Punch | Op::Zero => {
                parts.put(offset..offset + len, None);
                at_once(Ok(0), data)
            }
            _ => at_once(Ok(0), data),
        }
    }

    fn release(&self) {
        self.inner.release();
    }
}
