//! What reaches the disk, as the kernel counts it for the whole device, from whoever it comes.
//!
//! The counters of a process do not tell: they count pages as they become dirty, not what is written, and
//! neither the file system's own blocks nor flushes. On a quiet machine the device's counters are those of
//! the sample.

use anyhow::{Context, ensure};
use rustix::fs::{major, minor, stat};
use std::fs;
use std::path::{Path, PathBuf};

/// The block device below a folder.
pub struct BlockDevice {
    stat: PathBuf,
}

/// Its counters since the start of the system.
#[derive(Clone, Copy)]
pub struct Counters {
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes of its cache.
    pub flushes: u64,
}

/// Bytes of a sector, in the units of the kernel's counters.
const SECTOR: u64 = 512;

impl BlockDevice {
    /// The one that `dir` lies on; none when its file system has none of its own.
    ///
    /// # Errors
    /// When `dir` cannot be looked at.
    pub fn below(dir: &Path) -> anyhow::Result<Option<Self>> {
        let device = stat(dir)?.st_dev;
        let sys = format!("/sys/dev/block/{}:{}", major(device), minor(device));
        let Ok(mut sys) = fs::canonicalize(sys) else {
            return Ok(None);
        };
        // Flushes are those of the whole disk, not of a partition.
        if sys.join("partition").exists() {
            sys.pop();
        }
        let stat = sys.join("stat");
        Ok(stat.exists().then_some(Self { stat }))
    }

    /// Its counters now.
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
