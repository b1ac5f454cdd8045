//! The store of Tonearm's contenders, and the databases of a sample.

use crate::contender::{Contender, STORE};
use crate::disk_io::Counters;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tonearm_bench::{folder, process};
use tonearm_store::files::{Files, LocalFiles};
use tonearm_store::{Store, StoreOptions};

/// The folder of the databases and of the store.
pub struct Target {
    dir: PathBuf,
}

/// The store while a sample is taken. It is open only for a contender that uses it.
pub struct Held(Option<Store>);

impl Target {
    /// Creates the store and registers the VFS.
    ///
    /// # Errors
    /// When `tonearm create` fails.
    pub fn create(dir: &Path, tonearm: &Path, log_size: &str) -> anyhow::Result<Self> {
        let tonearm = process::tonearm(tonearm)?;
        tonearm_sqlite::register(false)?;
        let store = dir.join(STORE);
        let mut create = Command::new(&tonearm);
        create.arg("create").arg(&store);
        create.args(["--size", "2GiB", "--preallocate", "--force"]);
        process::run(create.args(["--log-size", log_size]))?;
        // The volume of a new store takes all of its space.
        let mut delete = Command::new(&tonearm);
        process::run(delete.args(["volume", "delete"]).arg(&store).arg("main"))?;
        Ok(Self {
            dir: dir.to_owned(),
        })
    }

    fn open(&self) -> anyhow::Result<(Store, LocalFiles)> {
        let store = Store::open(&self.dir.join(STORE), StoreOptions::default())?;
        let files = LocalFiles::new(&store)?;
        Ok((store, files))
    }

    /// Removes databases of an earlier sample, and opens what the next sample needs.
    ///
    /// # Errors
    /// When a database cannot be removed, or the store cannot be opened.
    pub fn hold(&self, contender: &Contender, names: &[String]) -> anyhow::Result<Held> {
        if !contender.is_ours() {
            for name in names {
                for suffix in ["", "-journal", "-wal", "-shm"] {
                    folder::remove(&self.dir.join(format!("{name}{suffix}")))?;
                }
            }
            return Ok(Held(None));
        }
        let (store, files) = self.open()?;
        for name in names {
            if files.exists(name)? {
                files.delete(name)?;
            }
        }
        tonearm_sqlite::provide(PROVIDED, Arc::new(files));
        Ok(Held(Some(store)))
    }
}

/// Name of the store in URIs. The store is already open in this process.
pub const PROVIDED: &str = "bench";

impl Held {
    /// The store, when it is open.
    pub fn store(&self) -> Option<&Store> {
        self.0.as_ref()
    }

    /// Bytes and flushes of the log so far, or none when the store is not open.
    ///
    /// # Errors
    /// When the store has failed.
    pub fn log(&self) -> anyhow::Result<Option<Counters>> {
        let Some(store) = &self.0 else {
            return Ok(None);
        };
        let stats = store.stats()?;
        Ok(Some(Counters {
            written_bytes: stats.log_bytes,
            // An FUA write counts as a flush of its own.
            flushes: stats.log_flushes + stats.log_durable_writes,
        }))
    }

    /// Closes the store.
    ///
    /// # Errors
    /// When the store cannot be closed in order.
    pub fn end(self) -> anyhow::Result<()> {
        if let Some(store) = self.0 {
            tonearm_sqlite::withdraw(PROVIDED);
            store.close()?;
        }
        Ok(())
    }
}
