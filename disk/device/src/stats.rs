//! A filter that counts: operations, bytes and time, for each kind of operation.

use crate::device::{Device, DeviceIo, Interrupted, Recovering, span};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_rt::{Data, Op, Rt};

/// What one kind of operation has come to. Sums and counts only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpStats {
    /// Operations begun.
    pub begun: u64,
    /// Operations ended well, of those whose end was waited for.
    pub ended: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Bytes of the operations that ended well.
    pub bytes: u64,
    /// Time from begin to end, summed over all that ended or failed.
    pub latency_sum: Nanos,
    /// The longest of these times.
    pub latency_max: Nanos,
}

/// The counts of one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatsSnapshot {
    /// Reads.
    pub read: OpStats,
    /// Writes that a flush makes durable.
    pub write: OpStats,
    /// Durable writes.
    pub write_durable: OpStats,
    /// Flushes.
    pub flush: OpStats,
    /// Punches.
    pub punch: OpStats,
    /// Zeroings.
    pub zero: OpStats,
}

impl OpStats {
    /// Mean time of an operation that ended or failed; zero when there was none.
    pub fn latency_mean(&self) -> Nanos {
        Nanos(
            self.latency_sum
                .0
                .checked_div(self.ended + self.failed)
                .unwrap_or(0),
        )
    }
}

impl StatsSnapshot {
    fn of(&mut self, op: Op) -> Option<&mut OpStats> {
        match op {
            Op::Read => Some(&mut self.read),
            Op::Write => Some(&mut self.write),
            Op::WriteDurable => Some(&mut self.write_durable),
            Op::Flush => Some(&mut self.flush),
            Op::Punch => Some(&mut self.punch),
            Op::Zero => Some(&mut self.zero),
            Op::Recv | Op::RecvAll | Op::Send | Op::Close => None,
        }
    }
}

/// A device that counts what passes. An end is seen when the caller's task polls for it, and the end
/// of an operation that nobody waits for is not seen at all.
pub struct Stats {
    rt: Rt,
    inner: Rc<dyn Device>,
    counts: Rc<RefCell<StatsSnapshot>>,
}

impl Stats {
    /// Counts what passes to `inner`, with the clock of `rt`.
    pub fn new(rt: &Rt, inner: Rc<dyn Device>) -> Self {
        Self {
            rt: rt.clone(),
            inner,
            counts: Rc::default(),
        }
    }

    /// The counts now.
    pub fn snapshot(&self) -> StatsSnapshot {
        *self.counts.borrow()
    }
}

impl Device for Stats {
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
        let bytes = span(op, len, &data);
        if let Some(counts) = self.counts.borrow_mut().of(op) {
            counts.begun += 1;
        }
        let begun = self.rt.now();
        let io = self.inner.io(op, offset, len, data);
        let (rt, counts) = (self.rt.clone(), self.counts.clone());
        Box::pin(async move {
            let (result, data) = io.await;
            let latency = rt.now().since(begun);
            if let Some(counts) = counts.borrow_mut().of(op) {
                match result {
                    Ok(_) => {
                        counts.ended += 1;
                        counts.bytes += bytes;
                    }
                    Err(_) => counts.failed += 1,
                }
                counts.latency_sum += latency.0;
                counts.latency_max = counts.latency_max.max(latency);
            }
            (result, data)
        })
    }
}
