//! The queue of a data device: reads of clients go before the write-back (Trail 4.3).
//!
//! Trail's driver sorts its own queue. Here the drive has the requests, and takes them in an order of its own. So writes wait in
//! the host. While clients read, and for [`QUIET`] after that, a read finds little before it:
//! - few operations of the write-back and the cleaner are at the device ([`Queue::new`]), counted in units of [`UNIT_BYTES`];
//! - the device is flushed before its cache holds writes for more than [`FLUSH_MAX`], because a read waits while a drive empties its
//!   cache.
//!
//! Operations of the write-back and the cleaner start in the order in which they came.

use crate::error::HomeError;
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_device::Device;
use tonearm_rt::{Data, IoError, Notify, Op, Permit, Rt, Semaphore};

/// Reads at the device.
const READS_MAX: u64 = 64;
/// Writes at the device while no client reads. Measured on a virtual disk: 64 random 4-KiB writes give about 15 % more than 32.
const WRITES_MAX: u64 = 64;
/// Writes at the device while clients read, for callers that choose none.
pub const WRITES_WHILE_READING: u64 = 8;
/// An operation counts as one for each so many bytes.
const UNIT_BYTES: u64 = 32 << 10;
/// Time after a read in which another one is expected.
const QUIET: Nanos = Nanos::from_secs(1);
/// Longest wanted time of a flush while clients read.
const FLUSH_MAX: Nanos = Nanos::from_millis(400);
/// Most bytes of an operation while clients read.
const PART_BYTES: u64 = 256 << 10;
/// Fewest units before a flush for a mean time.
const MEASURED_MIN: u64 = 8;
/// Units between two flushes while none was measured.
const UNITS_UNMEASURED: u64 = 64;

/// For whom blocks are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// A client, whose reads go before the write-back.
    Client,
    /// The store itself: its write-back, a check, a scrub.
    Store,
}

/// The queue of one device.
pub(crate) struct Queue {
    rt: Rt,
    pub device: Rc<dyn Device>,
    reads: Semaphore,
    /// Held by the operation of the write-back or the cleaner that starts next.
    line: Semaphore,
    /// Units of these at the device while clients read.
    units_max: u64,
    under_way: Cell<u64>,
    units: Cell<u64>,
    /// One of these has ended.
    ended: Notify,
    /// Reads of clients under way.
    client_reads: Cell<u64>,
    /// When the last one ended.
    last_read: Cell<Option<Nanos>>,
    /// Units since the last flush.
    unflushed: Cell<u64>,
    pub flush_failures: Cell<u64>,
    /// Mean time of a flush for each unit before it.
    flush_time: Cell<Nanos>,
}

impl Queue {
    /// The queue of `device`. While clients read, at most `writes_while_reading` units of writes are there (1 to
    /// [`WRITES_MAX`]). With [`WRITES_MAX`] reads do not go first.
    pub fn new(rt: &Rt, device: Rc<dyn Device>, writes_while_reading: u64) -> Self {
        Self {
            rt: rt.clone(),
            device,
            reads: Semaphore::new(rt, READS_MAX),
            line: Semaphore::new(rt, 1),
            units_max: writes_while_reading.clamp(1, WRITES_MAX),
            under_way: Cell::new(0),
            units: Cell::new(0),
            ended: Notify::new(rt),
            client_reads: Cell::new(0),
            last_read: Cell::new(None),
            unflushed: Cell::new(0),
            flush_failures: Cell::new(0),
            flush_time: Cell::new(Nanos(FLUSH_MAX.0 / UNITS_UNMEASURED)),
        }
    }

    /// Notes that a client reads blocks of the device, until the result is dropped. The read holds writes back from the moment on at
    /// which it comes, also while it waits for a table.
    pub fn note_client_read(self: &Rc<Self>) -> ClientRead {
        self.client_reads.set(self.client_reads.get() + 1);
        ClientRead(self.clone())
    }

    /// Waits for the turn of a read. It lasts until the result is dropped.
    pub async fn read_turn(&self) -> Permit {
        self.reads.acquire(1).await
    }

    /// Waits for the turn of an operation of the write-back or the cleaner on `bytes`. It lasts until the result is dropped.
    ///
    /// # Errors
    /// When the device cannot be flushed: writes that have ended may be lost.
    pub async fn turn(self: &Rc<Self>, op: Op, bytes: u64) -> Result<Turn, HomeError> {
        let _first = self.line.acquire(1).await;
        let units = bytes.div_ceil(UNIT_BYTES).max(1);
        loop {
            let ended = self.ended.wait();
            if self.has_room(units) {
                break;
            }
            ended.await;
        }
        // An error of a flush is one of the writes before it, which a read must not hide.
        let flushed = match op != Op::Read && self.is_flush_due() {
            true => Some(self.flush().await?),
            false => None,
        };
        self.under_way.set(self.under_way.get() + 1);
        self.units.set(self.units.get() + units);
        if op != Op::Read {
            self.unflushed.set(self.unflushed.get() + units);
        }
        Ok(Turn {
            queue: self.clone(),
            units,
            flushed,
        })
    }

    /// Most bytes that an operation of the write-back or the cleaner should have now.
    pub fn part_bytes(&self) -> u64 {
        match self.is_reading() {
            true => PART_BYTES,
            false => u64::MAX,
        }
    }

    /// Flushes the device. Returns when the flush began and ended.
    ///
    /// # Errors
    /// When it fails.
    pub async fn flush(&self) -> Result<(Nanos, Nanos), HomeError> {
        // Those that are at the device may end after the flush has begun.
        let units = self.unflushed.replace(self.units.get());
        let began = self.rt.now();
        let (result, _) = self.device.io(Op::Flush, 0, 0, Data::None).await;
        let ended = self.rt.now();
        if let Err(error) = result {
            self.flush_failures.set(self.flush_failures.get() + 1);
            return Err(self.error(Op::Flush, 0, error));
        }
        if units >= MEASURED_MIN {
            let mean = ended.since(began).0 / units;
            self.flush_time
                .set(Nanos((self.flush_time.get().0 + mean) / 2));
        }
        Ok((began, ended))
    }

    /// The error of an operation on the device.
    pub fn error(&self, op: Op, offset: u64, error: IoError) -> HomeError {
        HomeError::of_device(op, self.device.name(), offset, error)
    }

    fn has_room(&self, units: u64) -> bool {
        match self.is_reading() {
            true => self.under_way.get() == 0 || self.units.get() + units <= self.units_max,
            false => self.under_way.get() < WRITES_MAX,
        }
    }

    fn is_flush_due(&self) -> bool {
        let time = self.unflushed.get().saturating_mul(self.flush_time.get().0);
        time > FLUSH_MAX.0 && self.is_reading()
    }

    /// True while clients read, unless reads do not go first.
    fn is_reading(&self) -> bool {
        let is_recent = |last: Nanos| self.rt.now().since(last) < QUIET;
        self.units_max < WRITES_MAX
            && (self.client_reads.get() > 0 || self.last_read.get().is_some_and(is_recent))
    }
}

/// A read of a client under way.
pub(crate) struct ClientRead(Rc<Queue>);

impl Drop for ClientRead {
    fn drop(&mut self) {
        let queue = &self.0;
        queue.client_reads.set(queue.client_reads.get() - 1);
        queue.last_read.set(Some(queue.rt.now()));
    }
}

/// The turn of an operation of the write-back or the cleaner.
pub(crate) struct Turn {
    queue: Rc<Queue>,
    units: u64,
    /// The flush that went before it: when it began and ended.
    pub flushed: Option<(Nanos, Nanos)>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let queue = &self.queue;
        queue.under_way.set(queue.under_way.get() - 1);
        queue.units.set(queue.units.get() - self.units);
        queue.ended.notify();
    }
}

#[cfg(test)]
#[path = "queue_test.rs"]
mod queue_test;
