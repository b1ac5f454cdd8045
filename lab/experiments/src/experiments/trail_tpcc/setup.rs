//! The database and its drives (Trail 5.2): one warehouse, the log on a drive of its own, the pages on two others.

use crate::harness::{Alternating, SimStore, StoreShape, VolumeDevice};
use crate::pagedb::{Commit, Database, DatabaseOptions, Machine, Measured, Rule, tpcc};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::Device;
use tonearm_disk::{Disk, DiskError, HomeParams, OpenOptions};
use tonearm_drive_file::{After, DriveFile};
use tonearm_format::HeadKind;
use tonearm_workload::tpcc::TpccOptions;
use tonearm_workload::{Tpcc, Workload};

const PAGE: u32 = 4096;
pub const KIB: usize = 1024;
const MIB: u64 = 1 << 20;
/// Bytes of each drive: of the log, which is never full, or for half of the pages.
const DRIVE_BYTES: u64 = 1400 * MIB;
/// Fitted: the paper's log has 44.8 MB for 10,000 transactions (Table 3, 448 commits of 100 KB); the generator's records have
/// 1.6 KB for one. The rest is in the headers of the records.
pub const RECORD_HEADER: u32 = 156;
/// Pages of the small database in memory, as a share of it when it is loaded.
pub const POOL: f64 = 0.15;
/// Bytes of a row of the large database besides its columns, and how full its pages are at first, in percent: it has over half a GB
/// then, and over 1 GB after 200,000 transactions. And the paper's memory.
const LARGE_ROW: u32 = 512;
const LARGE_FILL: u32 = 80;
const LARGE_POOL: u64 = 300 * MIB;
/// Memory of the store for blocks that are not at home yet.
const STAGING: u64 = 8 * MIB;
const PROCESSOR: Nanos = Nanos(2_000_000);
/// Bytes of the log's buffer of Table 2.
const GROUP: usize = 50 * KIB;
/// Blocks of a file system that requests each of them (Trail 5.1: it "tends to split" large writes), and the time of a command
/// that ends in the drive's cache.
const REQUEST: usize = KIB;
const COMMAND_MS: f64 = 1.3;

/// Where the log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Log {
    /// In a store with its log on the second drive.
    Trail,
    /// On a drive of its own, in place.
    InPlace,
    /// The same, with group commit.
    Grouped,
}

/// The size of the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// 98 MB, and a pool with which in place has the paper's transactions a minute.
    Small,
    /// Over half a GB at first, as the paper's, and its pool.
    Large,
}

/// A row of Table 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    pub log: Log,
    /// The log is written by requests of 1 KB, into the cache of a drive in place.
    pub by_requests: bool,
    pub size: Size,
    /// The drives of the pages have their caches on.
    pub data_cache: bool,
}

impl Way {
    /// Options for the transactions of `generator`.
    fn options(self, generator: &Tpcc) -> DatabaseOptions {
        let rule = match self.log {
            // A drive has a cache, and what completes counts as durable.
            Log::InPlace | Log::Grouped if self.by_requests || self.data_cache => Rule::Trusting,
            _ => Rule::Through,
        };
        let commit = match self.log {
            Log::Grouped => Commit::Buffered(GROUP),
            _ => Commit::Written,
        };
        DatabaseOptions {
            rule,
            commit,
            log_request: self.by_requests.then_some(REQUEST),
            ..options(self.size, generator)
        }
    }

    /// One terminal does `transactions`: those that warm the pool, those before the measurement, and those that are measured.
    pub fn measure(self, drives: &[DriveFile], transactions: [u64; 3], seed: u64) -> Measured {
        let generator = generator(self.size, transactions, seed);
        let options = self.options(&generator);
        let machine = match self.log {
            Log::Trail => {
                let mut drives = drives.to_vec();
                drives[0].spec.write_cache.enabled = self.data_cache;
                let trail = Trail::new(&drives, options.pages, OpenOptions::default(), seed);
                trail.expect("a store is made and opened").machine
            }
            _ => in_place(&drives[0], self.by_requests, self.data_cache, seed),
        };
        machine.measure(options, 1, transactions, tpcc(generator))
    }
}

/// The transactions.
pub fn generator(size: Size, transactions: [u64; 3], seed: u64) -> Tpcc {
    let base = match size {
        Size::Small => TpccOptions::default(),
        Size::Large => TpccOptions {
            row_overhead_bytes: LARGE_ROW,
            table_fill_percent: LARGE_FILL,
            index_fill_percent: LARGE_FILL,
            ..TpccOptions::default()
        },
    };
    let options = TpccOptions {
        warehouses: 1,
        transactions: transactions.iter().sum(),
        seed,
        page_bytes: PAGE,
        log_header_bytes: RECORD_HEADER,
        ..base
    };
    Tpcc::new(&options).expect("options within their limits")
}

/// A log that writes each commit.
pub fn options(size: Size, generator: &Tpcc) -> DatabaseOptions {
    let loaded = generator.allocated();
    DatabaseOptions {
        page_bytes: PAGE,
        pages: generator.pages(),
        loaded,
        pool_pages: match size {
            Size::Small => (loaded as f64 * POOL) as usize,
            Size::Large => (LARGE_POOL / u64::from(PAGE)) as usize,
        },
        rule: Rule::Through,
        commit: Commit::Written,
        log_request: None,
        checkpoint_at: 0.7,
        processor: PROCESSOR,
    }
}

/// The log on one drive, the pages on two others, as in the paper.
fn in_place(drive: &DriveFile, cached: bool, data_cache: bool, seed: u64) -> Machine {
    let mut log = drive.clone();
    if let Some(disk) = log.spec.disk.as_mut().filter(|_| cached) {
        disk.overhead.write_hit_ms = After {
            read: COMMAND_MS,
            write: COMMAND_MS,
        };
    }
    let data = (drive, DRIVE_BYTES, data_cache);
    let (rt, devices) = Machine::drives(&[(&log, DRIVE_BYTES, cached), data, data], seed);
    let [log, one, other] = &devices[..] else {
        unreachable!("three drives");
    };
    let tables = Alternating::new([one.clone(), other.clone()], u64::from(PAGE));
    Machine::new(rt, log.clone(), Rc::new(tables))
}

/// A database on a store.
pub struct Trail {
    pub machine: Machine,
    pub disk: Disk,
}

impl Trail {
    /// Three of the first of `drives` as the home of a store, whose own log is on the second. All of the `pages` pages are at
    /// home.
    ///
    /// # Errors
    /// The error of the engine.
    pub fn new(
        drives: &[DriveFile],
        pages: u64,
        options: OpenOptions,
        seed: u64,
    ) -> Result<Self, DiskError> {
        let half = Database::data_bytes(PAGE, pages).div_ceil(2);
        let half = half.next_multiple_of(MIB);
        let all = 3 * DRIVE_BYTES;
        let shape = StoreShape {
            disks: 3,
            log_drive: Some(&drives[1]),
            log_bytes: Some(256 * MIB),
            memory_bytes: STAGING,
            head: HeadKind::Online,
            ..StoreShape::new(&drives[0], HomeParams::Overwrite, all + 2 * MIB)
        };
        let store = Rc::new(SimStore::create(&shape, seed)?);
        let (rt, own) = (store.rt.clone(), store.clone());
        let disk = rt.block_on(async move {
            let disk = own.open().await?;
            disk.resize_volume("main", all).await?;
            let volume = disk.volume("main")?;
            let memory = BufPool::new(MIB as usize);
            let halves = [DRIVE_BYTES, 2 * DRIVE_BYTES]
                .map(|start| (start..start + half).step_by(MIB as usize));
            for at in halves.into_iter().flatten() {
                let mut pages = memory.alloc_zeroed(MIB as usize);
                // A block that is zero would take no space, and no time to be read.
                for page in pages.chunks_mut(PAGE as usize) {
                    page[8] = 1;
                }
                volume.write(at, pages.share(), false).await?;
            }
            disk.close().await?;
            own.open_with(options).await
        })?;
        let volume = Rc::new(disk.volume("main")?);
        let part = |drive: u64| {
            let part = VolumeDevice::new(&rt, volume.clone(), drive * DRIVE_BYTES, DRIVE_BYTES);
            Rc::new(part) as Rc<dyn Device>
        };
        let tables = Alternating::new([part(1), part(2)], u64::from(PAGE));
        let machine = Machine::new(rt.clone(), part(0), Rc::new(tables));
        Ok(Self { machine, disk })
    }
}

/// The writes of the log in `transactions` transactions of four terminals with a buffer of so many bytes. They depend on no drive.
pub fn group_commits(drive: &DriveFile, buffer: usize, transactions: u64, seed: u64) -> f64 {
    let generator = generator(Size::Small, [0, 0, transactions], seed);
    let pages = generator.pages();
    let options = DatabaseOptions {
        commit: Commit::Buffered(buffer),
        pool_pages: pages as usize,
        ..options(Size::Small, &generator)
    };
    let machine = in_place(drive, false, false, seed);
    machine.instant.set(true);
    let measured = machine.measure(options, 4, [transactions, 0, 0], tpcc(generator));
    measured.after.log.writes as f64
}
