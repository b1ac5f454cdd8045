//! A new store with one of the Logical Disks of ARU, Table 1.

use crate::experiments::aru::on_lists::open_lists;
use crate::experiments::aru::setup::{SEGMENTS, store};
use crate::experiments::aru::tonearm::SETTLED;
use crate::harness::{Machine, SimStore, thread_cpu_ns};
use crate::minix_ld::{Deletion, LogicalDisk};
use std::rc::Rc;
use tonearm_disk::{Disk, DiskError};
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

/// The drive with a store.
pub struct System {
    /// The drive and its executor.
    pub machine: Rc<Machine>,
    store: SimStore,
}

impl System {
    /// A new store, on a platter whose angle the seed gives.
    pub fn new(drive: &DriveFile, seed: u64) -> Result<Self, DiskError> {
        let (machine, store) = store(drive, SEGMENTS, seed)?;
        Ok(Self { machine, store })
    }

    /// Opens it, with room for `blocks` blocks on lists.
    pub async fn open(&self, blocks: u64, sequential: bool) -> Result<LogicalDisk, DiskError> {
        open_lists(&self.store, blocks, sequential).await
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
