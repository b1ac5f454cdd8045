//! The disk itself: FUA writes of single blocks, one after the other. The time of such a write is the least latency of
//! a durable commit.

use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};
use tonearm_base::BufPool;
use tonearm_bench::Quantiles;

const BLOCK: usize = 4096;
/// Blocks of the file. The file is written once before the measurement, so that no measured write allocates.
const BLOCKS: u64 = 16_384;
const NAME: &str = "bare";

/// Result of a measurement.
#[derive(Serialize)]
pub struct Bare {
    /// Number of the round.
    pub round: usize,
    /// Times of writes.
    #[serde(flatten)]
    pub times: Quantiles,
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
        let mut times = Quantiles::histogram();
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
        let times = Quantiles::of(&times);
        Ok(Self { round, times })
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
