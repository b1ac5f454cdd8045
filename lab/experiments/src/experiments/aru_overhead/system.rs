//! A new store with one of the Logical Disks of ARU, Table 1.

use crate::experiments::aru::setup::{SEGMENTS, stores};
use crate::harness::{Machine, SimStore, thread_cpu_ns};
use crate::minix_ld::{Deletion, LogicalDisk, Sequential, reserve_blocks};
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_disk::{Disk, DiskError, OpenOptions};
use tonearm_drive_file::DriveFile;

/// A version of the Logical Disk and of the deletion (ARU, Table 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// Its name.
    pub name: &'static str,
    /// One unit at a time, on the committed state.
    pub sequential: bool,
    /// How files or lists are deleted.
    pub deletion: Deletion,
}

/// What a span of work took.
#[derive(Clone, Copy, Default, Debug)]
pub struct Spent {
    /// Processor time in ns, with that of the simulated drive.
    pub cpu_ns: f64,
    /// Time of the drive in ns.
    pub drive_ns: f64,
    /// Bytes of log.
    pub log_bytes: f64,
    /// Commits.
    pub commits: f64,
}

/// Nobody waits for durability but the flush at the end of a span, as in ARU 5.2. So the log may wait for more to write.
const COMMIT_DELAY: Nanos = Nanos::from_millis(100);
/// In this time everything is written back.
const SETTLED: Nanos = Nanos::from_secs(60);

/// The drive with a store.
pub struct System {
    /// The drive and its executor.
    pub machine: Rc<Machine>,
    store: SimStore,
}

impl System {
    /// A new store, on a platter whose angle the seed gives.
    pub fn new(drive: &DriveFile, seed: u64) -> Result<Self, DiskError> {
        let (machine, mut stores) = stores(drive, SEGMENTS, 1, seed)?;
        let store = stores.remove(0);
        Ok(Self { machine, store })
    }

    /// Opens it, with room for `blocks` blocks on lists.
    pub async fn open(&self, blocks: u64, sequential: bool) -> Result<LogicalDisk, DiskError> {
        let disk = self.open_store().await?;
        reserve_blocks(&disk, blocks).await?;
        // The search for free identifiers begins at the first zone again.
        disk.close().await?;
        let disk = self.open_store().await?;
        Ok(match sequential {
            true => LogicalDisk::Sequential(Sequential::open(&disk).await?),
            false => LogicalDisk::Concurrent(disk),
        })
    }

    async fn open_store(&self) -> Result<Disk, DiskError> {
        let options = OpenOptions {
            commit_delay: COMMIT_DELAY,
            ..OpenOptions::default()
        };
        self.store.open_with(options).await
    }

    /// What `work` takes until it is durable. Before it everything is written back.
    pub async fn measure<E: From<DiskError>>(
        &self,
        disk: &Disk,
        work: impl Future<Output = Result<(), E>>,
    ) -> Result<Spent, E> {
        disk.flush().await?;
        self.machine.rt.sleep(SETTLED).await;
        let (before, time) = (disk.stats(), self.machine.rt.now());
        let began = thread_cpu_ns();
        work.await?;
        disk.flush().await?;
        let (cpu_ns, after) = (thread_cpu_ns() - began, disk.stats());
        Ok(Spent {
            cpu_ns: cpu_ns as f64,
            drive_ns: (self.machine.rt.now().0 - time.0) as f64,
            log_bytes: (after.log_bytes - before.log_bytes) as f64,
            commits: (after.commits - before.commits) as f64,
        })
    }
}
