//! A filter that fails every flush after the first failed one.
//!
//! A drive whose flush has failed may have dropped the content of its cache, and a later flush succeeds all the same.
//! The log and the home of a store flush the same drive independently, so a failure seen by one of them must hold for
//! both. Once a flush is seen to fail, every flush fails with the same error, including flushes under way.

use crate::device::{Device, DeviceIo, Filter, at_once};
use std::cell::Cell;
use std::rc::Rc;
use tonearm_rt::{Data, IoError, Op};

/// A device whose flushes are guarded.
pub struct FlushFence {
    inner: Rc<dyn Device>,
    failed: Rc<Cell<Option<IoError>>>,
}

impl FlushFence {
    /// Guards the flushes of `inner`.
    pub fn new(inner: Rc<dyn Device>) -> Self {
        Self {
            inner,
            failed: Rc::default(),
        }
    }
}

impl Filter for FlushFence {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn filter_io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        if op != Op::Flush {
            return self.inner.io(op, offset, len, data);
        }
        if let Some(error) = self.failed.get() {
            return at_once(Err(error), data);
        }
        let (io, failed) = (self.inner.io(op, offset, len, data), self.failed.clone());
        Box::pin(async move {
            let (result, data) = io.await;
            if let Err(error) = result {
                failed.set(failed.get().or(Some(error)));
            }
            (failed.get().map_or(result, Err), data)
        })
    }
}
