//! The Minix file system over the Logical Disk (`minix_ld`), as a file system under a load.

use super::files::{Files, LoadError};
use super::tonearm::{COMMIT_DELAY, SETTLED};
use crate::harness::SimStore;
use crate::minix_ld::{Deletion, FileSystem, LogicalDisk, ROOT, Sequential, reserve_blocks};
use tonearm_disk::{Disk, DiskError, OpenOptions};
use tonearm_rt::Rt;

/// Opens the Logical Disk of a new store, with room for `blocks` blocks on lists.
pub async fn open_lists(
    store: &SimStore,
    blocks: u64,
    sequential: bool,
) -> Result<LogicalDisk, DiskError> {
    let disk = open_store(store).await?;
    reserve_blocks(&disk, blocks).await?;
    // The search for free identifiers begins at the first zone again.
    disk.close().await?;
    let disk = open_store(store).await?;
    Ok(match sequential {
        true => LogicalDisk::Sequential(Sequential::open(&disk).await?),
        false => LogicalDisk::Concurrent(disk),
    })
}

async fn open_store(store: &SimStore) -> Result<Disk, DiskError> {
    let options = OpenOptions {
        commit_delay: COMMIT_DELAY,
        ..OpenOptions::default()
    };
    store.open_with(options).await
}

/// One of the file systems of a Logical Disk.
#[derive(Clone)]
pub struct OnLists {
    rt: Rt,
    system: FileSystem,
    /// How many file systems the disk has.
    count: u64,
}

impl OnLists {
    /// Makes `count` file systems on a disk.
    pub async fn format(
        disk: &LogicalDisk,
        rt: &Rt,
        deletion: Deletion,
        count: usize,
    ) -> Result<Vec<Self>, LoadError> {
        let mut systems = Vec::new();
        for _ in 0..count {
            systems.push(Self {
                rt: rt.clone(),
                system: FileSystem::format(disk, rt, deletion).await?,
                count: count as u64,
            });
        }
        Ok(systems)
    }
}

impl Files for OnLists {
    async fn make_directory(&self, name: &str) -> Result<u64, LoadError> {
        Ok(self.system.make_directory(ROOT, name).await?)
    }

    async fn make(&self, directory: u64, name: &str) -> Result<u64, LoadError> {
        Ok(self.system.make(directory, name).await?)
    }

    async fn look_up(&self, directory: u64, name: &str) -> Result<u64, LoadError> {
        Ok(self.system.look_up(directory, name).await?)
    }

    async fn delete(&self, directory: u64, name: &str) -> Result<(), LoadError> {
        Ok(self.system.delete(directory, name).await?)
    }

    async fn write(&self, file: u64, offset: u64, data: &[u8]) -> Result<(), LoadError> {
        Ok(self.system.write(file, offset, data).await?)
    }

    async fn read(&self, file: u64, offset: u64, len: u64) -> Result<Vec<u8>, LoadError> {
        Ok(self.system.read(file, offset, len).await?)
    }

    async fn sync(&self) -> Result<(), LoadError> {
        Ok(self.system.disk().store().flush().await?)
    }

    async fn sync_all(&self) -> Result<(), LoadError> {
        self.rt.sleep(SETTLED).await;
        Ok(())
    }

    fn conflicts(&self) -> u64 {
        0
    }

    /// Its part of the disk's log.
    fn log_bytes(&self) -> u64 {
        self.system.disk().store().stats().log_bytes / self.count
    }
}
