//! What all connections share: the executor, memory, limits, counters, and the watch over clients
//! that stall.

use super::budgets::{Class, PartialPayloads, ReplyBudgets};
use super::link::Link;
use super::metrics::{Metrics, add};
use super::options::TransmissionOptions;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos, Slice};
use tonearm_rt::{Notify, Rt};

const ZEROES_BYTES: usize = 64 << 10;

pub(super) struct Shared {
    pub rt: Rt,
    pub pool: BufPool,
    pub options: TransmissionOptions,
    pub metrics: Metrics,
    /// Bytes of replies of all connections.
    pub replies: ReplyBudgets,
    /// Bytes of large payloads that are being received.
    pub partial: PartialPayloads,
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
            replies: ReplyBudgets::new(rt, &options),
            partial: PartialPayloads::new(rt, options.partial_payload_bytes_max),
            zeroes: pool.alloc_zeroed(ZEROES_BYTES).share(),
            links: RefCell::default(),
            gone: Notify::new(rt),
            watching: Cell::new(false),
            this: this.clone(),
        })
    }

    /// Starts the task that cuts stalled connections, unless it runs. It ends when no client owes anything, so that an
    /// idle server has no timer.
    pub fn watch(&self) {
        if self.watching.replace(true) {
            return;
        }
        if let Some(shared) = self.this.upgrade() {
            self.rt.spawn(async move {
                while shared.cut_stalled() {
                    let options = &shared.options;
                    let shortest = options.stall_timeout.min(options.shortage_timeout);
                    shared.rt.sleep(Nanos((shortest.0 / 4).max(1))).await;
                }
                shared.watching.set(false);
            });
        }
    }

    /// Cuts the connections that stall for too long; false when no client owes anything.
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
                self.cut(link);
            } else {
                owing = true;
            }
        }
        if owing {
            let links = self.links.borrow();
            let reserving = links.values().filter_map(|link| link.reserving_since.get());
            let patience = self.options.shortage_timeout;
            let starved = reserving
                .min()
                .is_some_and(|since| now.since(since) >= patience);
            drop(links);
            // Data that was written of late is sent from the memory that writes are charged for.
            self.make_room(now, u64::from(starved), Link::stalls_with_data);
            self.make_room(now, self.partial.missing(), Link::stalls_with_payload);
            for class in Class::ALL {
                self.make_room(now, self.replies.missing(class), |link| {
                    link.stalls_with_replies(class)
                });
            }
        }
        owing
    }

    /// Cuts connections that stall while others wait for `missing` bytes, until as much is free. `stalls` gives since
    /// when a connection has been stalling, and the bytes that it holds.
    fn make_room(&self, now: Nanos, missing: u64, stalls: impl Fn(&Link) -> Option<(Nanos, u64)>) {
        if missing == 0 {
            return;
        }
        let links = self.links.borrow();
        let open = links.values().filter(|link| !link.is_closed());
        let stalled =
            open.filter_map(|link| stalls(link).map(|(since, bytes)| (since, bytes, link)));
        let patience = self.options.shortage_timeout;
        let mut stalled: Vec<_> = stalled
            .filter(|(since, bytes, _)| *bytes > 0 && now.since(*since) >= patience)
            .collect();
        stalled.sort_by_key(|(since, ..)| *since);
        let mut freed = 0;
        for (_, bytes, link) in stalled {
            if freed >= missing {
                break;
            }
            freed += bytes;
            self.cut(link);
        }
    }

    fn cut(&self, link: &Link) {
        add(&self.metrics.connections_stalled, 1);
        link.close();
    }
}
