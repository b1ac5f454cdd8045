//! A filter that never believes a flush after one that has failed.
//!
//! A drive whose flush has failed may have thrown away what was in its cache, and says nothing of it when it
//! is flushed again. Several parties flush one device (the log and the home of a store on one drive): what
//! one of them is told holds for all. From the moment on at which any flush is seen to fail, every flush
//! fails with the same error, those under way too.

use crate::device::{Device, DeviceIo, Interrupted, Recovering, at_once};
use std::cell::Cell;
use std::rc::Rc;
use tonearm_rt::{Data, IoError, Op};

/// A device behind the fence.
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

impl Device for FlushFence {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.inner.block_size()
    }

    fn is_suspect(&self) -> bool {
        self.inner.is_suspect()
    }

    fn recover(&self, interrupted: Interrupted) -> Recovering {
        self.inner.recover(interrupted)
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
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
