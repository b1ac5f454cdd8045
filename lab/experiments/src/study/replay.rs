//! Replays a load on a volume of a store in virtual time, and measures.
//!
//! Invariants:
//! 1. A request of an open loop is due at its time, whatever the store does. Its response time counts from there, so a
//!    store that falls behind has long response times.
//! 2. At most [`IN_FLIGHT`] requests are under way. A store that cannot keep up therefore ends its replay late, and
//!    does not fill the memory.

use super::case::{BLOCK, Measured, Times};
use super::load::{Load, Request};
use crate::harness::SimStore;
use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use tonearm_base::{BufPool, Nanos, Slice};
use tonearm_disk::{Disk, DiskError, StoreStats, Volume};
use tonearm_rt::Semaphore;
use tonearm_trace::Op;

/// Requests under way at a time, as those of a few connections of a server.
pub const IN_FLIGHT: u64 = 256;
/// Bytes of one operation on the volume; larger requests are done in parts.
const STEP: u64 = 1 << 20;
/// Bytes of a write while the store is filled.
const FILL: u64 = 256 << 10;
/// Content of a block repeats so many bytes, which take little memory in a simulated drive.
const STAMP: usize = 16;
/// Longest response time that is distinguished from longer ones.
const RESPONSE_NS_MAX: u64 = 1_000_000_000_000_000;
/// A store that ends a replay later than this after the last arrival cannot keep up.
const LAG_NS_MAX: u64 = 1_000_000_000;

/// Called with the number of requests that were done since the last call.
pub type OnRequests = Arc<dyn Fn(u64) + Send + Sync>;

/// How a range of requests is replayed.
#[derive(Clone, Copy)]
pub struct How {
    /// How many times the trace's rate, or the clients of a closed loop.
    pub load: u64,
    /// Clients of a closed loop.
    pub clients: u64,
}

/// A load on a store.
pub struct Replay {
    store: Rc<SimStore>,
    disk: Disk,
    volume: Volume,
    pool: BufPool,
    load: Arc<Load>,
    /// Writes so far: no two have the same content.
    version: Cell<u64>,
    times: RefCell<[Histogram<u64>; 3]>,
    looks: RefCell<Vec<Look>>,
    requested: Cell<u64>,
    written: Cell<u64>,
    failure: RefCell<Option<DiskError>>,
    progress: OnRequests,
}

/// Histograms of [`Replay::times`].
const ALL: usize = 0;
const READS: usize = 1;
const DURABLE: usize = 2;

/// Counters at a moment.
struct Look {
    at: Nanos,
    stats: StoreStats,
    moved: (u64, u64),
    /// Bytes of the reads and writes that were sent.
    requested: u64,
    /// Bytes of the writes that were sent.
    written: u64,
}

impl Replay {
    /// A load on an open store, whose volume `main` takes it.
    ///
    /// # Errors
    /// When the store has no room for it.
    pub async fn new(
        store: Rc<SimStore>,
        disk: Disk,
        load: Arc<Load>,
        progress: OnRequests,
    ) -> Result<Rc<Self>, DiskError> {
        let bytes = load.blocks * BLOCK;
        if bytes > 1 << 20 {
            disk.resize_volume("main", bytes).await?;
        }
        let histogram = || {
            Histogram::new_with_bounds(1, RESPONSE_NS_MAX, 3).expect("three digits are possible")
        };
        Ok(Rc::new(Self {
            volume: disk.volume("main")?,
            store,
            disk,
            pool: BufPool::new(4 << 20),
            load,
            version: Cell::new(0),
            times: RefCell::new([histogram(), histogram(), histogram()]),
            looks: RefCell::new(Vec::new()),
            requested: Cell::new(0),
            written: Cell::new(0),
            failure: RefCell::new(None),
            progress,
        }))
    }

    /// Writes every block once, in ascending order, and waits until all are at home.
    ///
    /// # Errors
    /// The error of the engine.
    pub async fn fill(&self) -> Result<(), DiskError> {
        let end = self.load.blocks * BLOCK;
        for offset in (0..end).step_by(FILL as usize) {
            let data = self.content(FILL.min(end - offset));
            self.volume.write(offset, data, false).await?;
        }
        Ok(self.disk.engine().drain().await?)
    }

    /// Replays the requests `range` of the endless repetition, and measures from number `measured` on.
    ///
    /// # Errors
    /// The error of the engine.
    pub async fn run(
        self: &Rc<Self>,
        range: Range<u64>,
        measured: u64,
        how: How,
    ) -> Result<Measured, DiskError> {
        for times in self.times.borrow_mut().iter_mut() {
            times.reset();
        }
        self.looks.borrow_mut().clear();
        let last_due = if self.load.open {
            Some(self.open_loop(range.clone(), measured, how.load).await)
        } else {
            self.closed_loop(range.clone(), measured, how.clients * how.load)
                .await;
            None
        };
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        self.look();
        Ok(self.measured(range.end - measured, last_due))
    }

    /// Gives the time at which the last request was due.
    async fn open_loop(self: &Rc<Self>, range: Range<u64>, measured: u64, load: u64) -> Nanos {
        let rt = self.store.rt.clone();
        let in_flight = Semaphore::new(&rt, IN_FLIGHT);
        let (begun, first) = (rt.now(), self.load.due(range.start));
        let mut due = begun;
        for index in range.clone() {
            due = begun + (self.load.due(index) - first) / load;
            if rt.now() < due {
                rt.sleep_until(due).await;
            }
            let permit = in_flight.acquire(1).await;
            self.look_at(index, measured, range.end);
            if self.failure.borrow().is_some() {
                break;
            }
            let own = self.clone();
            rt.spawn_detached(async move {
                own.request(index, due, index >= measured).await;
                drop(permit);
            });
        }
        in_flight.acquire(IN_FLIGHT).await;
        due
    }

    async fn closed_loop(self: &Rc<Self>, range: Range<u64>, measured: u64, clients: u64) {
        let next = Rc::new(Cell::new(range.start));
        let clients = (0..clients).map(|_| {
            let (own, next, end) = (self.clone(), next.clone(), range.end);
            self.store.rt.spawn(async move {
                while next.get() < end && own.failure.borrow().is_none() {
                    let index = next.replace(next.get() + 1);
                    own.look_at(index, measured, end);
                    let think = own.load.request(index).time;
                    if think > 0 {
                        own.store.rt.sleep(Nanos(think)).await;
                    }
                    let since = own.store.rt.now();
                    own.request(index, since, index >= measured).await;
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await;
        }
    }

    /// Looks at the counters where the measurement begins and at half of it.
    fn look_at(&self, index: u64, measured: u64, end: u64) {
        let looks = self.looks.borrow().len();
        if looks == 0 && index >= measured || looks == 1 && index >= measured.midpoint(end) {
            self.look();
        }
    }

    fn look(&self) {
        self.looks.borrow_mut().push(Look {
            at: self.store.rt.now(),
            stats: self.disk.stats(),
            moved: self.store.moved(),
            requested: self.requested.get(),
            written: self.written.get(),
        });
    }

    async fn request(&self, index: u64, since: Nanos, measured: bool) {
        let request = *self.load.request(index);
        self.requested.set(self.requested.get() + request.bytes);
        if let Err(error) = self.perform(&request).await {
            self.failure.borrow_mut().get_or_insert(error);
            return;
        }
        (self.progress)(1);
        if !measured {
            return;
        }
        let took = self.store.rt.now().since(since).0;
        let mut times = self.times.borrow_mut();
        times[ALL].saturating_record(took);
        match request.op {
            Op::Read => times[READS].saturating_record(took),
            Op::Flush => times[DURABLE].saturating_record(took),
            Op::Write if request.durable => times[DURABLE].saturating_record(took),
            Op::Write => {}
        }
    }

    async fn perform(&self, request: &Request) -> Result<(), DiskError> {
        if request.op == Op::Flush {
            return self.volume.flush().await;
        }
        for at in (0..request.bytes).step_by(STEP as usize) {
            let (offset, bytes) = (request.offset + at, STEP.min(request.bytes - at));
            if request.op == Op::Read {
                self.volume.read(offset, bytes).await?;
                continue;
            }
            self.written.set(self.written.get() + bytes);
            let data = self.content(bytes);
            let last = at + bytes == request.bytes;
            self.volume
                .write(offset, data, request.durable && last)
                .await?;
        }
        Ok(())
    }

    /// New content, of which no word is as in any write before: the log keeps only words that change.
    fn content(&self, bytes: u64) -> Slice {
        let version = self.version.get() + 1;
        self.version.set(version);
        let first = version.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let second = (first ^ first >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1;
        let mut stamp = [0; STAMP];
        stamp[..8].copy_from_slice(&first.to_le_bytes());
        stamp[8..].copy_from_slice(&second.to_le_bytes());
        let mut buf = self.pool.alloc(bytes as usize);
        for part in buf.chunks_mut(STAMP) {
            part.copy_from_slice(&stamp[..part.len()]);
        }
        buf.share()
    }

    fn measured(&self, requests: u64, last_due: Option<Nanos>) -> Measured {
        let looks = self.looks.borrow();
        let (from, to) = (&looks[0], &looks[looks.len() - 1]);
        let span = to.at.since(from.at).0.max(1);
        let lag = last_due.map_or(0, |due| to.at.since(due).0);
        let saturated = lag > LAG_NS_MAX.max(span / 20);
        let halves: Vec<f64> = looks
            .windows(2)
            .filter_map(|two| write_cost(&two[0], &two[1]))
            .collect();
        let times = self.times.borrow();
        let times = |which: usize| (!saturated).then(|| Times::of(&times[which])).flatten();
        Measured {
            requests,
            seconds: span as f64 / 1e9,
            requests_per_s: requests as f64 * 1e9 / span as f64,
            saturated,
            response: times(ALL),
            reads: times(READS),
            durable_writes: times(DURABLE),
            write_cost: write_cost(from, to),
            write_cost_halves: halves,
            requested_bytes: to.requested - from.requested,
            read_bytes: to.moved.0 - from.moved.0,
            written_bytes: to.moved.1 - from.moved.1,
            log_bytes: to.stats.log_bytes - from.stats.log_bytes,
            hot_share_percent: (to.stats.hot_threshold > 0)
                .then_some(to.stats.hot_share_permille as f64 / 10.0),
        }
    }
}

/// Bytes written at home for each byte that the requests wrote; none without writes.
fn write_cost(from: &Look, to: &Look) -> Option<f64> {
    let home = to.stats.home_write_bytes - from.stats.home_write_bytes;
    let written = to.written - from.written;
    (written > 0).then(|| home as f64 / written as f64)
}
