//! A target in memory that can be slow, small, full of errors, or gone.

use crate::proto::NbdErrno;
use crate::transmission::{Target, TargetError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos, Slice};
use tonearm_disk::Piece;
use tonearm_rt::{Permit, Rt, Semaphore};

/// Unit of allocation in bytes.
const BLOCK: usize = 512;

/// Data pieces of a read are cut at multiples of it.
const PIECE: usize = 4096;

/// Bytes in memory; clones are handles on the same.
#[derive(Clone)]
pub struct MemoryTarget(Rc<State>);

struct State {
    rt: Rt,
    pool: BufPool,
    bytes: RefCell<Vec<u8>>,
    allocated: RefCell<Vec<bool>>,
    memory: Semaphore,
    delay: Cell<Nanos>,
    random: Cell<u64>,
    read_only: Cell<bool>,
    /// Reads hold memory for payloads, as reads of recently written data do.
    pinned: Cell<bool>,
    /// Reads leave out their last piece.
    short: Cell<bool>,
    /// The next look at the size panics.
    panics: Cell<bool>,
    failure: RefCell<Option<TargetError>>,
    flushes: Cell<u64>,
    durable: Cell<u64>,
}

impl MemoryTarget {
    /// `size` zero bytes, none allocated; writes share `memory_bytes` of payload memory.
    pub fn new(rt: &Rt, pool: &BufPool, size: usize, memory_bytes: u64) -> Self {
        Self(Rc::new(State {
            rt: rt.clone(),
            pool: pool.clone(),
            bytes: RefCell::new(vec![0; size]),
            allocated: RefCell::new(vec![false; size.div_ceil(BLOCK)]),
            memory: Semaphore::new(rt, memory_bytes),
            delay: Cell::default(),
            random: Cell::new(1),
            read_only: Cell::default(),
            pinned: Cell::default(),
            short: Cell::default(),
            panics: Cell::default(),
            failure: RefCell::default(),
            flushes: Cell::default(),
            durable: Cell::default(),
        }))
    }

    /// Half of the calls wait for up to `delay` from now on, after their effect.
    pub fn set_delay(&self, delay: Nanos) {
        self.0.delay.set(delay);
    }

    /// Lets every call fail from now on, or none.
    pub fn set_failure(&self, failure: Option<TargetError>) {
        *self.0.failure.borrow_mut() = failure;
    }

    /// Lets the next look at the size panic, which the task of a connection makes beside the engine.
    pub fn set_panics(&self) {
        self.0.panics.set(true);
    }

    /// Refuses changes from now on.
    pub fn set_read_only(&self) {
        self.0.read_only.set(true);
    }

    /// Lets the data of reads lie in the memory for payloads from now on.
    pub fn set_pinned(&self) {
        self.0.pinned.set(true);
    }

    /// Lets reads give less than they are asked for, or all of it.
    pub fn set_short(&self, short: bool) {
        self.0.short.set(short);
    }

    /// Grows or shrinks.
    pub fn resize(&self, size: usize) {
        self.0.bytes.borrow_mut().resize(size, 0);
        let blocks = size.div_ceil(BLOCK);
        self.0.allocated.borrow_mut().resize(blocks, false);
    }

    /// The content.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.bytes.borrow().clone()
    }

    /// Memory for payloads, to look at or to take away.
    pub fn memory(&self) -> &Semaphore {
        &self.0.memory
    }

    /// Flushes so far.
    pub fn flushes(&self) -> u64 {
        self.0.flushes.get()
    }

    /// Changes so far that were to be durable.
    pub fn durable(&self) -> u64 {
        self.0.durable.get()
    }

    fn random(&self) -> u64 {
        let next = self
            .0
            .random
            .get()
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0.random.set(next);
        next >> 33
    }

    async fn pause(&self) {
        let delay = self.0.delay.get().0;
        if delay > 0 && self.random().is_multiple_of(2) {
            self.0.rt.sleep(Nanos(self.random() % delay)).await;
        }
    }

    fn check(&self, offset: u64, len: u64, durable: bool) -> Result<(), TargetError> {
        if let Some(failure) = &*self.0.failure.borrow() {
            return Err(failure.clone());
        }
        if offset + len > self.size_bytes() {
            return Err(TargetError::plain(NbdErrno::NoSpc));
        }
        self.0
            .durable
            .set(self.0.durable.get() + u64::from(durable));
        Ok(())
    }

    /// Zeroes, and forgets the whole blocks within unless `keep`.
    fn clear(&self, offset: usize, end: usize, keep: bool) {
        let whole = offset.div_ceil(BLOCK)..end / BLOCK;
        if !keep && whole.start < whole.end {
            self.0.allocated.borrow_mut()[whole].fill(false);
        }
        if offset < end {
            self.0.bytes.borrow_mut()[offset..end].fill(0);
        }
    }
}

impl Target for MemoryTarget {
    fn size_bytes(&self) -> u64 {
        assert!(!self.0.panics.replace(false), "a fault of the connection");
        self.0.bytes.borrow().len() as u64
    }

    fn read_only(&self) -> bool {
        self.0.read_only.get()
    }

    async fn reserve(&self, bytes: u64) -> Result<Permit, TargetError> {
        Ok(self.0.memory.acquire(bytes).await)
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Vec<Piece>, TargetError> {
        self.check(offset, len, false)?;
        let lease = if self.0.pinned.get() {
            Some(Rc::new(self.0.memory.acquire(len).await))
        } else {
            None
        };
        let mut pieces = Vec::new();
        let (mut at, end) = (offset as usize, (offset + len) as usize);
        while at < end {
            let allocated = self.0.allocated.borrow()[at / BLOCK];
            let to = end.min((at / BLOCK + 1) * BLOCK);
            match pieces.last_mut() {
                Some(Piece::Zero(bytes)) if !allocated => *bytes += to - at,
                _ if !allocated => pieces.push(Piece::Zero(to - at)),
                _ => {
                    let mut to = end.min((at / PIECE + 1) * PIECE);
                    let allocated = self.0.allocated.borrow();
                    if let Some(hole) =
                        (at / BLOCK..to.div_ceil(BLOCK)).find(|block| !allocated[*block])
                    {
                        to = hole * BLOCK;
                    }
                    let mut data = self.0.pool.copy_of(&self.0.bytes.borrow()[at..to]);
                    if let Some(lease) = &lease {
                        data.attach(lease.clone());
                    }
                    pieces.push(Piece::Data(data.share()));
                    at = to;
                    continue;
                }
            }
            at = to;
        }
        if self.0.short.get() {
            pieces.pop();
        }
        self.pause().await;
        Ok(pieces)
    }

    async fn write(&self, offset: u64, data: Slice, durable: bool) -> Result<(), TargetError> {
        self.check(offset, data.len() as u64, durable)?;
        let (at, end) = (offset as usize, offset as usize + data.len());
        self.0.bytes.borrow_mut()[at..end].copy_from_slice(&data);
        self.0.allocated.borrow_mut()[at / BLOCK..end.div_ceil(BLOCK)].fill(true);
        self.pause().await;
        Ok(())
    }

    async fn trim(&self, offset: u64, len: u64, durable: bool) -> Result<(), TargetError> {
        self.check(offset, len, durable)?;
        let at = (offset as usize).next_multiple_of(BLOCK);
        let end = (offset + len) as usize / BLOCK * BLOCK;
        self.clear(at, end.max(at), false);
        self.pause().await;
        Ok(())
    }

    async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        keep_space: bool,
        durable: bool,
    ) -> Result<(), TargetError> {
        self.check(offset, len, durable)?;
        self.clear(offset as usize, (offset + len) as usize, keep_space);
        self.pause().await;
        Ok(())
    }

    async fn flush(&self) -> Result<(), TargetError> {
        self.check(0, 0, false)?;
        self.0.flushes.set(self.0.flushes.get() + 1);
        self.pause().await;
        Ok(())
    }

    async fn cache(&self, offset: u64, len: u64) -> Result<(), TargetError> {
        self.check(offset, len, false)?;
        self.pause().await;
        Ok(())
    }

    async fn status(&self, offset: u64, len: u64) -> Result<Vec<(u64, bool)>, TargetError> {
        self.check(offset, len, false)?;
        let mut runs = Vec::new();
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let block = at / BLOCK as u64;
            let to = end.min((block + 1) * BLOCK as u64);
            runs.push((to - at, self.0.allocated.borrow()[block as usize]));
            at = to;
        }
        self.pause().await;
        Ok(runs)
    }
}
