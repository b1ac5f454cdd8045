//! The database: transactions over the buffer pool and the log, and the order of writes between both.
//!
//! A page reaches its device only when the log records of all of its changes are durable as far as the [`Rule`] knows
//! (5.2 of the paper).

use super::page::{PageState, STATE_BYTES};
use super::pool::{Found, Pool, Victim};
use super::record::{Boot, Change, SECTOR};
use super::recovery::{Damage, recover};
use super::wal::{Cause, Rule, Wal, WalCounts, write};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::Device;
use tonearm_rt::{Notify, Rt};
use tonearm_workload::Access;

/// Transactions wait for a checkpoint when this share of the log is needed.
const LOG_FULL: f64 = 0.75;

/// When a commit is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Commit {
    /// When the log has written its record.
    Written,
    /// At once. The log is written when its buffer of so many bytes, a multiple of a sector, is full (Trail 5.2, group commit).
    Buffered(usize),
}

/// The drives, or parts of them.
#[derive(Clone)]
pub struct Devices {
    /// All of it is the log.
    pub log: Rc<dyn Device>,
    /// The boot page and the pages.
    pub data: Rc<dyn Device>,
}

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Bytes of a page, a multiple of 512.
    pub page_bytes: u32,
    /// Pages that it may have.
    pub pages: u64,
    /// Pages that exist at the start. A later one is not read before its first change.
    pub loaded: u64,
    /// Pages in memory.
    pub pool_pages: usize,
    /// About the cache of the drives.
    pub rule: Rule,
    /// When commits are answered.
    pub commit: Commit,
    /// Bytes of a request of the log, all of which are sent at a time; `None` for one request for each write.
    pub log_request: Option<usize>,
    /// A checkpoint begins when this share of the log is needed, below 0.7.
    pub checkpoint_at: f64,
    /// Time of the only processor for a transaction.
    pub processor: Nanos,
}

/// What it has done.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Counts {
    /// Pages read.
    pub reads: u64,
    /// Pages written to make room in the pool.
    pub page_outs: u64,
    /// Pages written by checkpoints, and those writes: neighbours are written together.
    pub checkpoint_pages: u64,
    /// Writes of checkpoints.
    pub checkpoint_writes: u64,
    /// Checkpoints that have ended.
    pub checkpoints: u64,
    /// The log's.
    pub log: WalCounts,
}

/// An open database.
pub struct Database {
    pub(super) rt: Rt,
    pub(super) options: DatabaseOptions,
    pub(super) devices: Devices,
    pub(super) log: Wal,
    pub(super) pool: RefCell<Pool>,
    pub(super) memory: BufPool,
    /// A frame or a page has changed its state, or a checkpoint has ended.
    pub(super) changed: Notify,
    pub(super) counts: Cell<Counts>,
    pub(super) checkpointing: Cell<bool>,
    pub(super) epoch: u32,
    /// When the processor has done what it was given.
    processor: Cell<Nanos>,
    /// All changes in the order of their records: the model of what recovery must give.
    history: RefCell<Vec<(u64, u32)>>,
    /// The last record of a transaction that was answered.
    answered: Cell<u64>,
}

impl Database {
    /// Makes an empty database on drives that are zero.
    pub async fn create(rt: &Rt, devices: Devices, options: DatabaseOptions) -> Rc<Self> {
        let boot = Boot {
            epoch: 1,
            position: 0,
            first_lsn: 1,
            reaches: 0,
        };
        let database = Self::with(rt, devices, options, boot);
        database.begin(boot).await;
        database
    }

    /// Recovers a database.
    ///
    /// # Errors
    /// When it cannot be recovered.
    pub async fn open(
        rt: &Rt,
        devices: Devices,
        options: DatabaseOptions,
    ) -> Result<Rc<Self>, Damage> {
        let recovered = recover(&devices, options.page_bytes).await?;
        let end = recovered.boot;
        let database = Self::with(rt, devices, options, end);
        for (page, state) in recovered.redone {
            database.write_pages(&[(page, state)]).await;
        }
        database.begin(end).await;
        Ok(database)
    }

    /// Makes everything durable that was written, then the boot page, by any rule.
    async fn begin(&self, boot: Boot) {
        let flush = || self.devices.data.flush();
        flush().await.expect("a simulated drive flushes");
        self.write_boot(boot).await;
        flush().await.expect("a simulated drive flushes");
    }

    fn with(rt: &Rt, devices: Devices, options: DatabaseOptions, boot: Boot) -> Rc<Self> {
        let log = Wal::new(
            rt,
            devices.log.clone(),
            options.rule,
            boot.epoch,
            boot.position,
            boot.first_lsn,
        );
        Rc::new(Self {
            log: log.in_requests(options.log_request),
            pool: RefCell::new(Pool::new(options.pool_pages, options.pages, options.loaded)),
            rt: rt.clone(),
            memory: BufPool::new(4 << 20),
            changed: Notify::new(rt),
            counts: Cell::default(),
            checkpointing: Cell::new(false),
            epoch: boot.epoch,
            processor: Cell::default(),
            history: RefCell::default(),
            answered: Cell::new(0),
            devices,
            options,
        })
    }

    /// Bytes of a data device for `pages` pages.
    pub fn data_bytes(page_bytes: u32, pages: u64) -> u64 {
        (pages + 1) * u64::from(page_bytes)
    }

    /// What it has done.
    pub fn counts(&self) -> Counts {
        Counts {
            log: self.log.counts(),
            ..self.counts.get()
        }
    }

    /// The last record of a transaction that was answered.
    pub fn answered(&self) -> u64 {
        self.answered.get()
    }

    /// The last record that a power cut cannot take.
    pub fn durable_lsn(&self) -> u64 {
        self.log.durable_lsn()
    }

    /// Up to this record the log is written.
    pub fn flush_lsn(&self) -> u64 {
        self.log.flush_lsn()
    }

    /// All changes so far: record and page.
    pub fn history(&self) -> Vec<(u64, u32)> {
        self.history.borrow().clone()
    }

    /// Does a transaction with these accesses, whose log records have `log_bytes` bytes. Returns its number in the log;
    /// 0 if it changes nothing.
    pub async fn transact(self: &Rc<Self>, accesses: &[Access], log_bytes: u64) -> u64 {
        while self.log.used() > LOG_FULL {
            self.changed.wait().await;
        }
        let mut pinned: Vec<(u32, u32)> = Vec::new();
        for access in accesses {
            let page = access.page as u32;
            if pinned.iter().any(|(_, known)| *known == page) {
                continue;
            }
            let frame = self.fetch(page).await;
            if access.write {
                self.pool.borrow_mut().pin(frame);
                pinned.push((frame, page));
            }
        }
        self.compute().await;
        if pinned.is_empty() {
            return 0;
        }
        let lsn = self.change(&pinned, log_bytes);
        if self.log.used() > self.options.checkpoint_at && !self.checkpointing.replace(true) {
            let own = self.clone();
            self.rt
                .spawn_detached(async move { own.checkpoint().await });
        }
        match (self.options.commit, self.options.rule) {
            (Commit::Buffered(bytes), _) => {
                self.log.write_full(bytes).await;
                return lsn;
            }
            (_, Rule::EachCommit) => self.log.make_durable(lsn, Cause::Commit).await,
            _ => self.log.force(lsn).await,
        }
        self.answered.set(self.answered.get().max(lsn));
        lsn
    }

    /// Changes the pages of pinned frames by one record, and unpins them.
    fn change(&self, pinned: &[(u32, u32)], log_bytes: u64) -> u64 {
        let mut pool = self.pool.borrow_mut();
        let changes = pinned.iter().map(|(frame, page)| Change {
            page: *page,
            before: pool.frame(*frame).state.lsn,
        });
        let changes: Vec<Change> = changes.collect();
        let lsn = self.log.append(&changes, log_bytes);
        for (frame, page) in pinned {
            pool.change(*frame, lsn);
            pool.unpin(*frame);
            self.history.borrow_mut().push((lsn, *page));
        }
        drop(pool);
        self.changed.notify();
        lsn
    }

    /// Waits for the processor, and takes its time for a transaction.
    async fn compute(&self) {
        let end = self.processor.get().max(self.rt.now()).0 + self.options.processor.0;
        self.processor.set(Nanos(end));
        if self.options.processor.0 > 0 {
            self.rt.sleep_until(Nanos(end)).await;
        }
    }

    /// The frame of a page, which is read if it is not in memory.
    async fn fetch(&self, page: u32) -> u32 {
        let fresh = loop {
            let found = self.pool.borrow_mut().find(page);
            match found {
                Found::Here(frame) => return frame,
                Found::Coming => self.changed.wait().await,
                Found::Absent { fresh } => break fresh,
            }
        };
        let frame = self.free_frame().await;
        let state = if fresh {
            PageState::default()
        } else {
            self.count(|counts| counts.reads += 1);
            let buf = self.memory.alloc_zeroed(self.options.page_bytes as usize);
            let read = self.devices.data.read(self.offset(page), buf).await;
            PageState::decode(&read.expect("a simulated drive reads"))
        };
        self.pool.borrow_mut().install(frame, page, state);
        self.changed.notify();
        frame
    }

    /// A frame without a page. The page that it had is written if it must be.
    async fn free_frame(&self) -> u32 {
        loop {
            let victim = self.pool.borrow_mut().victim();
            match victim {
                Victim::Taken(frame) => return frame,
                Victim::None => self.changed.wait().await,
                Victim::Dirty(frame) => {
                    let written = self.pool.borrow_mut().begin_write(frame);
                    let (page, state) = written.expect("a victim is dirty and not busy");
                    self.count(|counts| counts.page_outs += 1);
                    self.write_home(&[(frame, page, state)], Cause::PageOut)
                        .await;
                    if self.pool.borrow_mut().take_written(frame) {
                        return frame;
                    }
                }
            }
        }
    }

    /// Writes neighbouring pages, each with its frame, when the log is durable as far as it must be.
    pub(super) async fn write_home(&self, run: &[(u32, u32, PageState)], cause: Cause) {
        let last = run.iter().map(|(_, _, state)| state.lsn).max();
        self.log
            .make_durable(last.expect("a run has pages"), cause)
            .await;
        let pages: Vec<(u32, PageState)> =
            run.iter().map(|(_, page, state)| (*page, *state)).collect();
        self.write_pages(&pages).await;
        for (frame, _, state) in run {
            self.pool.borrow_mut().written(*frame, *state);
        }
        self.changed.notify();
    }

    async fn write_pages(&self, pages: &[(u32, PageState)]) {
        let page_bytes = self.options.page_bytes as usize;
        let mut buf = self.memory.alloc_zeroed(pages.len() * page_bytes);
        for (bytes, (_, state)) in buf.chunks_exact_mut(page_bytes).zip(pages) {
            bytes[..STATE_BYTES].copy_from_slice(&state.encode());
        }
        write(
            &*self.devices.data,
            self.options.rule,
            self.offset(pages[0].0),
            buf,
        )
        .await;
    }

    /// Writes the boot page and makes it durable, as far as the rule does.
    pub(super) async fn write_boot(&self, boot: Boot) {
        let mut buf = self.memory.alloc_zeroed(SECTOR as usize);
        boot.encode(&mut buf);
        write(&*self.devices.data, self.options.rule, 0, buf).await;
        self.flush_data().await;
    }

    /// Flushes the cache of the data device, where the rule does.
    pub(super) async fn flush_data(&self) {
        if matches!(self.options.rule, Rule::Enforced | Rule::EachCommit) {
            let flushed = self.devices.data.flush().await;
            flushed.expect("a simulated drive flushes");
            self.log.count_flush(Cause::Checkpoint);
        }
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    fn offset(&self, page: u32) -> u64 {
        page_offset(page, self.options.page_bytes)
    }
}

/// Place of a page on the data device, after the boot page.
pub fn page_offset(page: u32, page_bytes: u32) -> u64 {
    (u64::from(page) + 1) * u64::from(page_bytes)
}
