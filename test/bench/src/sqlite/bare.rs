//! The disk itself: FUA writes of single blocks, one after the other. The time of such a write is the least latency of
//! a durable commit.

use hdrhistogram::Histogram;
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};
use tonearm_base::BufPool;

const BLOCK: usize = 4096;
/// Blocks of the file. The file is written once before the measurement, so that no measured write allocates.
const BLOCKS: u64 = 16_384;
const NAME: &str = "bare";

/// Result of a measurement.
#[derive(Serialize)]
pub struct Bare {
    /// Number of the round.
    pub round: usize,
    /// Median time of a write in us.
    pub p50_us: f64,
    /// 99th percentile in us.
    pub p99_us: f64,
    /// 99.9th percentile in us.
    pub p999_us: f64,
    /// The longest time in us.
    pub max_us: f64,
}

impl Bare {
    /// Writes for `span` to a file in `dir`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn measure(dir: &Path, round: usize, span: Duration) -> anyhow::Result<Self> {
        let path = dir.join(NAME);
        let file = open(&path)?;
        let mut block = BufPool::new(0).alloc(BLOCK);
        let mut times = Histogram::<u64>::new_with_bounds(100, 60_000_000_000, 3)?;
        let began = Instant::now();
        let mut written: u64 = 0;
        while began.elapsed() < span {
            block.fill(written as u8);
            let start = Instant::now();
            file.write_all_at(&block, written % BLOCKS * BLOCK as u64)?;
            times.saturating_record(start.elapsed().as_nanos() as u64);
            written += 1;
        }
        drop(file);
        std::fs::remove_file(&path)?;
        let quantile = |share| times.value_at_quantile(share) as f64 / 1e3;
        Ok(Self {
            round,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: times.max() as f64 / 1e3,
        })
    }

    /// The line that a run prints for this measurement.
    pub fn line(&self, round: usize, rounds: usize) -> String {
        let Self {
            p50_us,
            p99_us,
            p999_us,
            ..
        } = self;
        format!(
            "round {round}/{rounds} bare writes of 4 KiB{:21}  p50 {p50_us:6.0} p99 {p99_us:6.0} p99.9 {p999_us:6.0} us",
            ""
        )
    }
}

/// Creates a fully written file and opens it with O_DSYNC, and with O_DIRECT where the file system supports it.
fn open(path: &Path) -> anyhow::Result<File> {
    let plain = File::create(path)?;
    let part = vec![1; 1 << 20];
    for at in (0..BLOCKS * BLOCK as u64).step_by(part.len()) {
        plain.write_all_at(&part, at)?;
    }
    plain.sync_all()?;
    let through = |flags: OFlags| {
        let flags = (flags | OFlags::DSYNC).bits() as i32;
        OpenOptions::new()
            .write(true)
            .custom_flags(flags)
            .open(path)
    };
    match through(OFlags::DIRECT) {
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            Ok(through(OFlags::empty())?)
        }
        opened => Ok(opened?),
    }
}
