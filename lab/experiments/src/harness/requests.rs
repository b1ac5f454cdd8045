//! Requests of a workload in memory, so that several simulations have the same ones and they are made once.

use std::sync::{Mutex, OnceLock};
use tonearm_workload::tpcc::TpccOptions;
use tonearm_workload::{Access, PageCounts, Pool, Pooled, Tpcc, Workload, WorkloadError};

/// The paper's workload: TPC-C behind a buffer pool (HyLog, Tables 4 and 6), or a part of it with the same part of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Oltp {
    /// Warehouses; the paper's database has 50.
    pub warehouses: u32,
    /// The paper's store has so many times the size.
    pub part: u64,
    /// Page requests behind the pool.
    pub requests: u64,
}

/// Bytes of the paper's buffer pool, and of a page (HyLog, Tables 4 and 6).
const POOL_BYTES: u64 = 400 << 20;
const PAGE_BYTES: u64 = 4096;

/// Requests that have been made, by workload and seed.
static MADE: Mutex<Vec<(Oltp, u64, &OnceLock<Requests>)>> = Mutex::new(Vec::new());

impl Oltp {
    /// The paper's workload.
    pub const FULL: Self = Self {
        warehouses: 50,
        part: 1,
        requests: 17_000_000,
    };
    /// A fourth, for one of the paper's four drives with its users and data.
    pub const FOURTH: Self = Self {
        warehouses: 12,
        part: 4,
        requests: 4_000_000,
    };
    /// An eighth, for quick runs.
    pub const EIGHTH: Self = Self {
        warehouses: 6,
        part: 8,
        requests: 1_500_000,
    };

    /// Its requests, which are made once in a process.
    ///
    /// # Panics
    /// When the transactions do not suffice.
    pub fn requests(&self, seed: u64) -> &'static Requests {
        let cell = {
            let mut made = MADE.lock().expect("nobody panics with the list");
            let known = made
                .iter()
                .find(|(oltp, of, _)| oltp == self && *of == seed);
            match known {
                Some((.., cell)) => *cell,
                None => {
                    let cell = &*Box::leak(Box::default());
                    made.push((*self, seed, cell));
                    cell
                }
            }
        };
        cell.get_or_init(|| self.record(seed))
    }

    fn record(&self, seed: u64) -> Requests {
        let options = TpccOptions {
            warehouses: self.warehouses,
            // Each has about 11 requests behind the pool.
            transactions: self.requests / 10,
            seed,
            ..TpccOptions::default()
        };
        let database = Tpcc::new(&options).expect("options within their limits");
        let pool = Pool::new(POOL_BYTES / PAGE_BYTES / self.part);
        let requests = Requests::record(Pooled::new(database, pool), self.requests);
        assert_eq!(
            requests.all.len() as u64,
            self.requests,
            "transactions enough"
        );
        requests
    }
}

/// The first requests of a workload. Each takes 4 bytes.
pub struct Requests {
    pages: u64,
    /// The page times two, and one more for a write.
    all: Vec<u32>,
}

/// The requests again and again.
pub struct Replay<'a> {
    pages: u64,
    left: std::iter::Cycle<std::slice::Iter<'a, u32>>,
}

impl Requests {
    /// The first `count` requests of `workload`, or all if it has fewer.
    ///
    /// # Panics
    /// When the workload fails, or has 2^31 pages or more.
    pub fn record<W: Workload>(mut workload: W, count: u64) -> Self {
        let pages = workload.pages();
        assert!(pages < 1 << 31, "31 bits number the pages");
        let mut next = || {
            workload
                .next_access()
                .expect("a generated workload goes on")
        };
        let all = (0..count).map_while(|_| next());
        let all = all.map(|access| (access.page as u32) << 1 | u32::from(access.write));
        Self {
            pages,
            all: all.collect(),
        }
    }

    /// Pages of the workload.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Share of the writes among the requests.
    pub fn write_share(&self) -> f64 {
        let writes = self.all.iter().filter(|request| *request & 1 == 1);
        writes.count() as f64 / self.all.len().max(1) as f64
    }

    /// The same requests from the first one on. After the last one the first one follows.
    pub fn replay(&self) -> Replay<'_> {
        Replay {
            pages: self.pages,
            left: self.all.iter().cycle(),
        }
    }

    /// The share of the writes that goes to the share `top` of the pages: those with the most writes.
    pub fn share_of_writes(&self, top: f64) -> f64 {
        let mut counts = PageCounts::default();
        let writes = self.all.iter().filter(|request| *request & 1 == 1);
        writes.for_each(|write| counts.add(u64::from(write >> 1)));
        counts.shares(self.pages, &[top])[0]
    }
}

impl Workload for Replay<'_> {
    fn pages(&self) -> u64 {
        self.pages
    }

    #[inline]
    fn next_access(&mut self) -> Result<Option<Access>, WorkloadError> {
        Ok(self.left.next().map(|request| Access {
            page: u64::from(request >> 1),
            write: request & 1 == 1,
            at: None,
        }))
    }
}
