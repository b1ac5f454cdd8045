//! Stand-ins for two traces of the HyLog paper that cannot be had here: Financial and Campus.
//!
//! They are synthesised. Sizes, page sizes, reads and writes are those of the paper's Table 4. The skews are our choice:
//! the paper says only that the updates of Financial are more skewed than those of Campus, and those more than those of
//! TPC-C. The skews of the writes are chosen so that this holds behind a pool of 400 MB, with TPC-C as generated here.
//! The pool takes the hottest 4 % of the pages. Of Knuth's distribution with a small exponent the density of what remains
//! is nearly 1/h, whatever the exponent. So the writes of Financial need a distribution with a steeper tail: Hill's.
//! The skews of the reads are chosen so that the ratio of reads to writes behind that pool comes near to Table 4. The
//! accesses are independent of each other: the real traces also have sequential runs, bursts, and hot pages that change.

use crate::skew::{Skew, SkewOptions};

/// A row of the paper's Table 4. 1 MB is 2^20 bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Published {
    /// The workload's name.
    pub name: &'static str,
    /// Data size, MB.
    pub megabytes: u64,
    /// Page size, bytes.
    pub page_bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Reads per write.
    pub logical_ratio: f64,
    /// Reads per write behind the buffer pool of 400 MB.
    pub physical_ratio: f64,
}

impl Published {
    /// TPC-C with 50 warehouses.
    pub const TPCC: Self = Self {
        name: "TPC-C",
        megabytes: 5088,
        page_bytes: 4096,
        reads: 176_270_000,
        writes: 31_170_000,
        logical_ratio: 5.66,
        physical_ratio: 1.37,
    };
    /// Online transactions of a financial institution: 20 of the 23 containers of the trace of the Storage Performance
    /// Council.
    pub const FINANCIAL: Self = Self {
        name: "Financial",
        megabytes: 10_645,
        page_bytes: 4096,
        reads: 970_000,
        writes: 3_410_000,
        logical_ratio: 0.28,
        physical_ratio: 0.13,
    };
    /// A day of an NFS server with e-mail at Harvard, October 2001.
    pub const CAMPUS: Self = Self {
        name: "Campus",
        megabytes: 9416,
        page_bytes: 8192,
        reads: 21_050_000,
        writes: 7_640_000,
        logical_ratio: 2.76,
        physical_ratio: 2.56,
    };

    /// Pages of the data.
    pub const fn pages(&self) -> u64 {
        (self.megabytes << 20) / self.page_bytes
    }

    fn options(&self, seed: u64, reads: Skew, writes: Skew) -> SkewOptions {
        SkewOptions {
            pages: self.pages(),
            accesses: self.reads + self.writes,
            write_share: self.writes as f64 / (self.reads + self.writes) as f64,
            reads,
            writes,
            seed,
        }
    }
}

/// The stand-in for Financial.
pub fn financial(seed: u64) -> SkewOptions {
    let (reads, writes) = (Skew::Knuth { p: 0.962 }, Skew::Hsu { p: 0.95 });
    Published::FINANCIAL.options(seed, reads, writes)
}

/// The stand-in for Campus.
pub fn campus(seed: u64) -> SkewOptions {
    let (reads, writes) = (Skew::Knuth { p: 0.915 }, Skew::Knuth { p: 0.92 });
    Published::CAMPUS.options(seed, reads, writes)
}
