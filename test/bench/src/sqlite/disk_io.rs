//! Writes and flushes of the block device, as the kernel counts them for all programs.
//!
//! The counters of a process are not sufficient. They count pages when they become dirty, not when they are written,
//! and they include neither the file system's own blocks nor flushes. On a quiet machine the device's counters are
//! those of the sample.

use anyhow::{Context, ensure};
use rustix::fs::{major, minor, stat};
use std::fs;
use std::path::{Path, PathBuf};

/// The block device below a folder.
pub struct BlockDevice {
    stat: PathBuf,
}

/// Counters since the system started.
#[derive(Clone, Copy)]
pub struct Counters {
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes of the device's cache.
    pub flushes: u64,
}

/// Size of a sector in the kernel's counters.
const SECTOR: u64 = 512;

impl BlockDevice {
    /// The device on which `dir` lies, or none if its file system has no block device of its own.
    ///
    /// # Errors
    /// When `dir` cannot be examined.
    pub fn below(dir: &Path) -> anyhow::Result<Option<Self>> {
        let device = stat(dir)?.st_dev;
        let sys = format!("/sys/dev/block/{}:{}", major(device), minor(device));
        let Ok(mut sys) = fs::canonicalize(sys) else {
            return Ok(None);
        };
        // The kernel counts flushes for whole disks only, not for partitions.
        if sys.join("partition").exists() {
            sys.pop();
        }
        let stat = sys.join("stat");
        Ok(stat.exists().then_some(Self { stat }))
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// When the kernel does not count flushes (before Linux 5.5).
    pub fn counters(&self) -> anyhow::Result<Counters> {
        let text = fs::read_to_string(&self.stat)
            .with_context(|| format!("cannot read {}", self.stat.display()))?;
        let fields = text.split_whitespace().map(str::parse);
        let fields: Vec<u64> = fields.collect::<Result<_, _>>()?;
        ensure!(
            fields.len() > 15,
            "{} has no count of flushes",
            self.stat.display()
        );
        Ok(Counters {
            written_bytes: fields[6] * SECTOR,
            flushes: fields[15],
        })
    }
}
