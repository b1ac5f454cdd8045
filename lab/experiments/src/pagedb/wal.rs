//! The write-ahead log: a ring of blocks on a device, with group commit.
//!
//! Invariants:
//! 1. `durable_lsn <= flush_lsn < next_lsn` (5.1 of the paper): the device has said that records up to `flush_lsn` are
//!    written; a power cut cannot take those up to `durable_lsn`.
//! 2. One write is under way at a time. Records that come meanwhile go into later ones. A write takes all records, or as many
//!    bytes of them as a buffer has.
//! 3. Blocks from `start` on are not overwritten.

use super::record::{Block, Change, HEADER, SECTOR, encode_record};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tonearm_base::{Buf, BufPool};
use tonearm_device::{Device, DeviceIo};
use tonearm_rt::{Data, Notify, Op, Rt};

/// What the database does about the drive's volatile cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Takes a completed write for durable, which it is not: A of the paper.
    Trusting,
    /// Flushes the drive's cache when the order of writes demands it (5.2): B of the paper.
    Enforced,
    /// The same, and each commit waits until it is durable.
    EachCommit,
    /// Every write is durable when it completes: C of the paper.
    Through,
}

/// Why the drive's cache was flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A commit waits until it is durable.
    Commit,
    /// A page is written to make room in the pool.
    PageOut,
    /// A checkpoint.
    Checkpoint,
}

/// What the log has done.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct WalCounts {
    /// Blocks that were written.
    pub writes: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time of these writes, in nanoseconds.
    pub write_nanos: u64,
    /// Flushes by [`Cause`].
    pub flushes: [u64; 3],
}

/// The log.
pub struct Wal {
    rt: Rt,
    device: Rc<dyn Device>,
    memory: BufPool,
    /// Size of the ring.
    ring: u64,
    /// Bytes of a request, if a block is not written by one: a file system requests each of its blocks, and then waits for all.
    request: Option<usize>,
    rule: Rule,
    state: RefCell<State>,
    changed: Notify,
    counts: Cell<WalCounts>,
}

struct State {
    epoch: u32,
    next_lsn: u64,
    flush_lsn: u64,
    durable_lsn: u64,
    /// The next block: its header, which is empty yet, and records.
    buffer: Vec<u8>,
    /// Where each record ends in it.
    ends: VecDeque<usize>,
    /// Bytes at its start of a record that began in the block before.
    continued: usize,
    /// Position of that block.
    position: u64,
    /// Position of the oldest block that is needed.
    start: u64,
    writing: bool,
    flushing: bool,
}

impl Wal {
    /// A log on all of `device` that goes on at `position` with record `next_lsn`.
    pub fn new(
        rt: &Rt,
        device: Rc<dyn Device>,
        rule: Rule,
        epoch: u32,
        position: u64,
        next_lsn: u64,
    ) -> Self {
        Self {
            rt: rt.clone(),
            ring: device.size_bytes(),
            device,
            memory: BufPool::new(1 << 20),
            request: None,
            rule,
            state: RefCell::new(State {
                epoch,
                next_lsn,
                flush_lsn: next_lsn - 1,
                // Not known before the first flush (5.3).
                durable_lsn: 0,
                buffer: vec![0; HEADER],
                ends: VecDeque::new(),
                continued: 0,
                position,
                start: position,
                writing: false,
                flushing: false,
            }),
            changed: Notify::new(rt),
            counts: Cell::default(),
        }
    }

    /// The same, with a block written by requests of `bytes`, all at a time.
    #[must_use]
    pub fn in_requests(mut self, bytes: Option<usize>) -> Self {
        self.request = bytes;
        self
    }

    /// What it has done.
    pub fn counts(&self) -> WalCounts {
        self.counts.get()
    }

    /// Up to this record the device has completed the writes.
    pub fn flush_lsn(&self) -> u64 {
        self.state.borrow().flush_lsn
    }

    /// Up to this record a power cut can take nothing.
    pub fn durable_lsn(&self) -> u64 {
        self.state.borrow().durable_lsn
    }

    /// Share of the ring that is needed.
    pub fn used(&self) -> f64 {
        let state = self.state.borrow();
        let end = state.position + state.buffer.len() as u64;
        (end - state.start) as f64 / self.ring as f64
    }

    /// Where a record that is appended now will be, at this position or in the same block after it; and its number.
    pub fn next(&self) -> (u64, u64) {
        let state = self.state.borrow();
        (state.position, state.next_lsn)
    }

    /// Appends a record of at least `bytes` bytes. Returns its number.
    pub fn append(&self, changes: &[Change], bytes: u64) -> u64 {
        let mut state = self.state.borrow_mut();
        encode_record(changes, bytes, &mut state.buffer);
        let end = state.buffer.len();
        state.ends.push_back(end);
        state.next_lsn += 1;
        state.next_lsn - 1
    }

    /// Waits until the device has completed the writes up to record `lsn`.
    pub async fn force(&self, lsn: u64) {
        while self.flush_lsn() < lsn {
            if self.state.borrow().writing {
                self.changed.wait().await;
            } else {
                self.write_block(usize::MAX).await;
            }
        }
    }

    /// Writes blocks of `bytes` bytes as long as there are records for one. The last record may continue in the next block.
    pub async fn write_full(&self, bytes: usize) {
        while self.state.borrow().buffer.len() >= bytes {
            if self.state.borrow().writing {
                self.changed.wait().await;
            } else {
                self.write_block(bytes).await;
            }
        }
    }

    /// Makes the log durable up to record `lsn`, by the rule of 5.2.
    pub async fn make_durable(&self, lsn: u64, cause: Cause) {
        if lsn <= self.durable_lsn() {
            return;
        }
        self.force(lsn).await;
        if matches!(self.rule, Rule::Trusting | Rule::Through) {
            return;
        }
        while self.durable_lsn() < lsn {
            if self.state.borrow().flushing {
                self.changed.wait().await;
                continue;
            }
            let before = {
                let mut state = self.state.borrow_mut();
                state.flushing = true;
                state.flush_lsn
            };
            self.flush(cause).await;
            let mut state = self.state.borrow_mut();
            state.flushing = false;
            state.durable_lsn = before;
            drop(state);
            self.changed.notify();
        }
    }

    async fn flush(&self, cause: Cause) {
        self.device
            .flush()
            .await
            .expect("a simulated drive flushes");
        self.count_flush(cause);
    }

    /// Counts a flush that the database has made.
    pub fn count_flush(&self, cause: Cause) {
        let mut counts = self.counts.get();
        counts.flushes[cause as usize] += 1;
        self.counts.set(counts);
    }

    /// Blocks before `position` are not needed any more.
    pub fn truncate(&self, position: u64) {
        self.state.borrow_mut().start = position;
        self.changed.notify();
    }

    async fn write_block(&self, most: usize) {
        let (block, bytes) = self.state.borrow_mut().take_block(most, self.ring);
        let begun = self.rt.now();
        let (mut at, mut requests) = (0, Vec::new());
        while at < bytes.len() {
            let offset = (block.position + at as u64) % self.ring;
            let left = (self.ring - offset).min((bytes.len() - at) as u64) as usize;
            let part = left.min(self.request.unwrap_or(left));
            let buf = self.memory.copy_of(&bytes[at..at + part]);
            requests.push(start_write(&*self.device, self.rule, offset, buf));
            at += part;
        }
        for request in requests {
            let (result, _) = request.await;
            result.expect("a simulated drive writes");
        }
        let mut counts = self.counts.get();
        counts.writes += 1;
        counts.bytes += block.bytes();
        counts.write_nanos += self.rt.now().since(begun).0;
        self.counts.set(counts);
        let mut state = self.state.borrow_mut();
        state.writing = false;
        state.flush_lsn = block.last_lsn();
        if self.rule == Rule::Through {
            state.durable_lsn = state.flush_lsn;
        }
        drop(state);
        self.changed.notify();
    }
}

impl State {
    /// Takes the next block of at most `most` bytes off the buffer.
    fn take_block(&mut self, most: usize, ring: u64) -> (Block, Vec<u8>) {
        self.writing = true;
        let mut bytes = std::mem::replace(&mut self.buffer, vec![0; HEADER]);
        let cut = bytes.len().min(most);
        self.buffer.extend(bytes.drain(cut..));
        let records = self.ends.partition_point(|end| *end <= cut);
        let last = self.ends.drain(..records).next_back();
        let block = Block {
            epoch: self.epoch,
            position: self.position,
            first_lsn: self.flush_lsn + 1,
            records: records as u32,
            record_bytes: (cut - HEADER) as u32,
            continued_bytes: self.continued.min(cut - HEADER) as u32,
        };
        for end in &mut self.ends {
            *end = *end - cut + HEADER;
        }
        let is_whole = last == Some(cut);
        self.continued = match self.ends.front() {
            Some(end) if !is_whole => end - HEADER,
            _ => 0,
        };
        bytes.resize(block.bytes() as usize, 0);
        block.seal(&mut bytes);
        self.position += block.bytes();
        assert!(
            self.position - self.start <= ring,
            "transactions wait for room before they begin"
        );
        (block, bytes)
    }
}

/// Writes to a device: durably where every write is, so that a device with a cache bypasses it.
pub async fn write(device: &dyn Device, rule: Rule, offset: u64, buf: Buf) {
    let (result, _) = start_write(device, rule, offset, buf).await;
    result.expect("a simulated drive writes");
}

fn start_write(device: &dyn Device, rule: Rule, offset: u64, buf: Buf) -> DeviceIo {
    debug_assert!((buf.len() as u64).is_multiple_of(SECTOR));
    let op = match rule {
        Rule::Through => Op::WriteDurable,
        Rule::Trusting | Rule::Enforced | Rule::EachCommit => Op::Write,
    };
    device.io(op, offset, 0, Data::whole(buf))
}
