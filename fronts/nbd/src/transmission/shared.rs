//! What all connections share: memory, its bounds, and counters. Counters and latencies are plain cells of the engine thread,
//! which also exports them.

use super::budgets::{PartialPayloads, ReplyBudgets};
use super::options::TransmissionOptions;
use std::cell::Cell;
use tonearm_base::{BufPool, Slice};
use tonearm_requests::{Recorder, RequestMetrics};
use tonearm_rt::{Notify, Rt};

const ZEROES_BYTES: usize = 64 << 10;

/// State that all connections share.
pub(super) struct Shared {
    pub rt: Rt,
    pub pool: BufPool,
    pub options: TransmissionOptions,
    pub metrics: Metrics,
    pub recorder: Recorder,
    /// Bytes of replies of all connections.
    pub replies: ReplyBudgets,
    /// Bytes of large payloads that are being received.
    pub partial: PartialPayloads,
    pub zeroes: Slice,
    /// A client has the rest of a request or a reply to complete.
    pub owing: Notify,
}

impl Shared {
    pub fn new(rt: &Rt, pool: &BufPool, options: TransmissionOptions) -> Self {
        Self {
            rt: rt.clone(),
            pool: pool.clone(),
            options,
            metrics: Metrics::default(),
            recorder: Recorder::new(rt),
            replies: ReplyBudgets::new(rt, &options),
            partial: PartialPayloads::new(rt, options.partial_payload_bytes_max),
            zeroes: pool.alloc_zeroed(ZEROES_BYTES).share(),
            owing: Notify::new(rt),
        }
    }
}

/// Counters of all connections of one [`super::Connections`].
#[derive(Default)]
pub struct Metrics {
    /// Their requests, those of connections that are gone included.
    pub requests: RequestMetrics,
    /// Connections open now.
    pub connections_open: Cell<u64>,
    /// Connections ever added.
    pub connections_opened: Cell<u64>,
    /// Connections cut because the client stalled.
    pub connections_stalled: Cell<u64>,
    /// Connections ended because the client broke the protocol.
    pub connections_violated: Cell<u64>,
    /// `Send` operations: replies divided by it is the size of a batch.
    pub sends: Cell<u64>,
    /// `Recv` and `RecvAll` operations.
    pub receives: Cell<u64>,
}

pub(super) fn add(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get() + more);
}
