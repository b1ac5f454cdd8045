//! What all connections share: the executor, memory, limits, counters, and the watch over clients
//! that stall.

use super::link::Link;
use super::metrics::{Metrics, add};
use super::options::TransmissionOptions;
use base::{BufPool, Nanos, Slice};
use rt::{Notify, Rt, Semaphore};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

const ZEROES_BYTES: usize = 64 << 10;

pub(super) struct Shared {
    pub rt: Rt,
    pub pool: BufPool,
    pub options: TransmissionOptions,
    pub metrics: Metrics,
    /// Bytes of replies of all connections.
    pub budget: Semaphore,
    /// Bytes of large payloads in reception.
    pub large: Semaphore,
    pub zeroes: Slice,
    pub links: RefCell<BTreeMap<u64, Rc<Link>>>,
    /// A connection has gone.
    pub gone: Notify,
    watching: Cell<bool>,
    /// Itself, for the task that watches.
    this: std::rc::Weak<Shared>,
}

impl Shared {
    pub fn new(rt: &Rt, pool: &BufPool, options: TransmissionOptions) -> Rc<Self> {
        Rc::new_cyclic(|this| Self {
            rt: rt.clone(),
            pool: pool.clone(),
            options,
            metrics: Metrics::default(),
            budget: Semaphore::new(rt, options.total_reply_bytes_max),
            large: Semaphore::new(rt, options.large_payload_bytes_max),
            zeroes: pool.alloc_zeroed(ZEROES_BYTES).share(),
            links: RefCell::default(),
            gone: Notify::new(rt),
            watching: Cell::new(false),
            this: this.clone(),
        })
    }

    /// Sees to it that stalled connections are cut: one task for all of them, which ends when no
    /// client owes anything, so that an idle server has no timer.
    pub fn watch(&self) {
        if self.watching.replace(true) {
            return;
        }
        if let Some(shared) = self.this.upgrade() {
            self.rt.spawn(async move {
                while shared.cut_stalled() {
                    let quarter = shared.options.stall_timeout.0 / 4;
                    shared.rt.sleep(Nanos(quarter.max(1))).await;
                }
                shared.watching.set(false);
            });
        }
    }

    /// Cuts who stalls for too long; false when nobody owes anything.
    fn cut_stalled(&self) -> bool {
        let now = self.rt.now();
        let mut owing = false;
        for link in self.links.borrow().values() {
            let Some(since) = link.stalling_since() else {
                continue;
            };
            if link.is_closed() {
                continue;
            }
            if now.since(since) >= self.options.stall_timeout {
                add(&self.metrics.connections_stalled, 1);
                link.close();
            } else {
                owing = true;
            }
        }
        owing
    }
}
