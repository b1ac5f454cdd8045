//! The file system of a store, `disk/fs`, as a file system under a load.

use super::files::{Files, LoadError};
use crate::harness::{Machine, SimStore};
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_disk::{Disk, OpenOptions};
use tonearm_fs::{Fs, NewInode, ROOT_INO, Time};
use tonearm_rt::Rt;

const FILE: NewInode = NewInode {
    mode: 0o100_644,
    uid: 1000,
    gid: 1000,
    rdev: 0,
};
const DIRECTORY: NewInode = NewInode {
    mode: 0o040_755,
    ..FILE
};
/// The time of day at time 0 of the world, in seconds.
const START_S: i64 = 800_000_000;
/// In this time memory is written home, and the cleaner has done its work.
pub const SETTLED: Nanos = Nanos::from_secs(60);

/// Nobody waits for the durability of an operation but the flush at the end of a phase, as in ARU 5.2. So the log may wait for
/// more to write.
pub const COMMIT_DELAY: Nanos = Nanos::from_millis(100);

/// The file system of a store.
#[derive(Clone)]
pub struct Tonearm {
    rt: Rt,
    disk: Disk,
    fs: Fs,
    /// Writes that were done again, because they ended in a conflict.
    conflicts: Rc<Cell<u64>>,
}

impl Tonearm {
    /// Opens the file system of a store of `machine`.
    pub async fn open(machine: &Machine, store: &SimStore) -> Result<Self, LoadError> {
        let rt = machine.rt.clone();
        let disk = store
            .open_with(OpenOptions {
                commit_delay: COMMIT_DELAY,
                ..OpenOptions::default()
            })
            .await?;
        let clock = rt.clone();
        let fs = Fs::open(&disk, &rt, move || {
            let now = clock.now().0;
            Time {
                s: START_S + (now / 1_000_000_000) as i64,
                ns: (now % 1_000_000_000) as u32,
            }
        });
        let fs = fs.await?;
        Ok(Self {
            rt,
            disk,
            fs,
            conflicts: Rc::default(),
        })
    }

    /// Closes the store.
    pub async fn close(self) -> Result<(), LoadError> {
        Ok(self.disk.close().await?)
    }
}

impl Files for Tonearm {
    async fn make_directory(&self, name: &str) -> Result<u64, LoadError> {
        let made = self.fs.make(ROOT_INO, name.as_bytes(), DIRECTORY).await?;
        Ok(made.ino)
    }

    async fn make(&self, directory: u64, name: &str) -> Result<u64, LoadError> {
        Ok(self.fs.make(directory, name.as_bytes(), FILE).await?.ino)
    }

    async fn look_up(&self, directory: u64, name: &str) -> Result<u64, LoadError> {
        Ok(self.fs.look_up(directory, name.as_bytes()).await?.ino)
    }

    async fn delete(&self, directory: u64, name: &str) -> Result<(), LoadError> {
        Ok(self.fs.unlink(directory, name.as_bytes()).await?)
    }

    async fn write(&self, file: u64, offset: u64, data: &[u8]) -> Result<(), LoadError> {
        loop {
            match self.fs.write(file, offset, data).await {
                Err(error) if error.is_conflict() => self.conflicts.set(self.conflicts.get() + 1),
                written => return Ok(written.map(drop)?),
            }
        }
    }

    async fn read(&self, file: u64, offset: u64, len: u64) -> Result<Vec<u8>, LoadError> {
        let pieces = self.fs.read(file, offset, len).await?;
        let mut data = Vec::with_capacity(len as usize);
        for piece in pieces {
            piece.append_to(&mut data);
        }
        Ok(data)
    }

    async fn sync(&self) -> Result<(), LoadError> {
        Ok(self.fs.sync(None).await?)
    }

    async fn sync_all(&self) -> Result<(), LoadError> {
        self.rt.sleep(SETTLED).await;
        Ok(())
    }

    fn conflicts(&self) -> u64 {
        self.conflicts.get()
    }

    fn log_bytes(&self) -> u64 {
        self.disk.stats().log_bytes
    }
}
