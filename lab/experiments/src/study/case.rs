//! What is measured, and the figures of a measurement.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Bytes of a block of the stores.
pub const BLOCK: u64 = 4096;
/// Most bytes of blocks that a trace may touch.
pub const FOOTPRINT_BYTES_MAX: u64 = 64 << 30;
/// Loads, in multiples of the trace's.
pub const LOADS: [u64; 2] = [1, 2];
/// A write cost that differs by more between the halves of a measurement is not steady.
const STEADY: f64 = 0.1;

/// The layout of a case.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Each block has one place.
    Overwrite,
    /// Blocks are appended to segments.
    Segments,
    /// They are, in the order of how often they are written.
    Wolf,
    /// Hot blocks are appended, cold ones overwritten.
    Hylog,
}

/// One measurement.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Case {
    /// The layout.
    pub layout: Layout,
    /// Share of the segments that hold live blocks; none for overwrite, which has no spare space.
    pub utilisation_percent: Option<u64>,
    /// True when the log has a drive of its own.
    pub log_drive: bool,
    /// How many times the trace's rate, or the clients.
    pub load: u64,
    /// The figures.
    #[serde(flatten)]
    pub measured: Measured,
}

/// Figures of a measurement.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Measured {
    /// Requests.
    pub requests: u64,
    /// Virtual time.
    pub seconds: f64,
    /// Requests done per second.
    pub requests_per_s: f64,
    /// True when the store did not keep up with the arrivals. Response times are meaningless then, and left out.
    pub saturated: bool,
    /// Response times of all requests.
    pub response: Option<Times>,
    /// Those of reads.
    pub reads: Option<Times>,
    /// Those of durable writes and flushes.
    pub durable_writes: Option<Times>,
    /// Bytes written at home for each byte that the requests wrote.
    pub write_cost: Option<f64>,
    /// The same for both halves of the measurement.
    pub write_cost_halves: Vec<f64>,
    /// Bytes of the requests.
    pub requested_bytes: u64,
    /// Bytes that the drives read.
    pub read_bytes: u64,
    /// Bytes that the drives wrote, those of log and parity among them.
    pub written_bytes: u64,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Share of the blocks that wolf or hylog take for hot.
    pub hot_share_percent: Option<f64>,
}

/// Response times.
#[derive(Serialize, Clone, Copy, PartialEq, Debug)]
pub struct Times {
    /// Number of requests.
    pub count: u64,
    /// Their mean.
    pub mean_ms: f64,
    /// Their median.
    pub p50_ms: f64,
    /// The time that 99 % do not exceed.
    pub p99_ms: f64,
    /// The longest one.
    pub max_ms: f64,
}

impl Layout {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Overwrite, Self::Segments, Self::Wolf, Self::Hylog];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overwrite => "overwrite",
            Self::Segments => "segments",
            Self::Wolf => "wolf",
            Self::Hylog => "hylog",
        }
    }
}

impl Times {
    /// Those of a measurement; none without requests.
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let ms = |ns: u64| ns as f64 / 1e6;
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            mean_ms: histogram.mean() / 1e6,
            p50_ms: ms(histogram.value_at_quantile(0.5)),
            p99_ms: ms(histogram.value_at_quantile(0.99)),
            max_ms: ms(histogram.max()),
        })
    }
}

impl Case {
    /// What it is, in words.
    pub fn name(&self) -> String {
        let store = Store {
            layout: self.layout,
            percent: self.utilisation_percent,
            log_drive: self.log_drive,
        };
        format!("{}, load x{}", store.name(), self.load)
    }

    /// True when the write cost is about the same in both halves of the measurement.
    pub fn is_steady(&self) -> bool {
        match self.measured.write_cost_halves[..] {
            [first, second] => (second - first).abs() <= STEADY * first.max(second),
            _ => true,
        }
    }
}

/// One store, which is measured at each load.
#[derive(Clone, Copy)]
pub struct Store {
    /// The layout.
    pub layout: Layout,
    /// Share of the segments that hold live blocks; none for overwrite.
    pub percent: Option<u64>,
    /// True when the log has a drive of its own.
    pub log_drive: bool,
}

impl Store {
    /// What it is, in words.
    pub fn name(&self) -> String {
        let percent = self.percent.map(|percent| format!(" at {percent} %"));
        let log = ["", ", log drive"][usize::from(self.log_drive)];
        format!("{}{}{log}", self.layout.name(), percent.unwrap_or_default())
    }
}
