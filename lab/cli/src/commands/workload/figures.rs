//! The figures of a load.

use serde::Serialize;
use tonearm_workload::Published;

/// The figures of a load.
#[derive(Serialize)]
pub struct Report {
    pub workload: String,
    pub seed: Option<u64>,
    pub page_bytes: u64,
    /// Pages of the data at the end.
    pub pages: u64,
    pub size_bytes: u64,
    pub accesses: Flow,
    pub pool_bytes: Option<u64>,
    pub behind_pool: Option<Flow>,
    pub accesses_per_cpu_second: f64,
    #[serde(flatten)]
    pub more: More,
}

/// What only some loads have.
#[derive(Serialize)]
#[serde(untagged)]
pub enum More {
    Skew {
        reads_skew: String,
        writes_skew: String,
    },
    StandIn {
        synthesised: bool,
        reads_skew: String,
        writes_skew: String,
        published: Paper,
    },
    Trace {
        skipped: u64,
        /// Time from the first to the last access, if the trace has times.
        seconds: Option<f64>,
    },
    Tpcc(TpccFigures),
}

/// The row of the paper's Table 4.
#[derive(Serialize)]
pub struct Paper {
    pub megabytes: u64,
    pub page_bytes: u64,
    pub reads: u64,
    pub writes: u64,
    pub reads_per_write: f64,
    pub reads_per_write_behind_400_mb: f64,
}

impl From<Published> for Paper {
    fn from(published: Published) -> Self {
        Self {
            megabytes: published.megabytes,
            page_bytes: published.page_bytes,
            reads: published.reads,
            writes: published.writes,
            reads_per_write: published.logical_ratio,
            reads_per_write_behind_400_mb: published.physical_ratio,
        }
    }
}

/// Figures of a stream of accesses.
#[derive(Serialize, Clone)]
pub struct Flow {
    pub reads: u64,
    pub writes: u64,
    /// None without a write.
    pub reads_per_write: Option<f64>,
    /// Share of the writes that the hottest 10, 20 and 50 % of all pages got.
    pub writes_to_top_10_percent: f64,
    pub writes_to_top_20_percent: f64,
    pub writes_to_top_50_percent: f64,
}

/// What only TPC-C has.
#[derive(Serialize)]
pub struct TpccFigures {
    pub warehouses: u32,
    pub transactions: u64,
    pub loaded_bytes: u64,
    pub mix: Vec<Mix>,
    pub objects: Vec<Object>,
    pub log_bytes_per_transaction: f64,
    /// The trace of the paper: 50 warehouses on pages of 4 KiB.
    pub published: Paper,
}

/// A kind of transaction; means for each of them.
#[derive(Serialize, Default, Clone)]
pub struct Mix {
    pub kind: &'static str,
    pub count: u64,
    pub share_percent: f64,
    pub rolled_back: u64,
    pub reads: f64,
    pub writes: f64,
    pub rows_changed: f64,
    pub pages_changed: f64,
    pub log_records: f64,
    pub log_bytes: f64,
}

/// A table or an index at the end.
#[derive(Serialize)]
pub struct Object {
    pub name: &'static str,
    pub rows: u64,
    pub pages: u64,
    /// Levels of an index, none for a table.
    pub levels: Option<u32>,
    pub reads: u64,
    pub writes: u64,
    pub pool_reads: Option<u64>,
    pub pool_writes: Option<u64>,
}
