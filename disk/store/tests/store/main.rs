//! An open store and its threads.

#![allow(clippy::unwrap_used)]

mod ends;
mod files;
mod fork;
mod golden;
mod overtaken;
mod power_cuts;
mod remote;
mod rss;
mod seen;
mod threads;

use std::path::PathBuf;
use tempfile::TempDir;
use tonearm_store::{Context, CreateOptions, Store, StoreError, StoreOptions, create};

/// Jobs of the tests.
trait Jobs {
    /// [`Store::run_job`].
    fn run<T, F>(&self, job: impl FnOnce(Context) -> F + Send + 'static) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static;
}

impl Jobs for Store {
    fn run<T, F>(&self, job: impl FnOnce(Context) -> F + Send + 'static) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        // SAFETY: the jobs of these tests keep nothing of their context or thread.
        unsafe { self.run_job(job) }
    }
}

/// A new store in a folder of its own.
struct Place {
    _folder: TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        Self::with_log(16 << 20)
    }

    fn with_log(log_bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Self {
            path: folder.path().join("store.tn"),
            _folder: folder,
        };
        place.make(log_bytes);
        place
    }

    fn make(&self, log_bytes: u64) {
        let options = CreateOptions {
            size_bytes: 64 << 20,
            log_bytes: Some(log_bytes),
            ..CreateOptions::default()
        };
        create(&self.path, &options).unwrap();
    }

    fn open(&self) -> Store {
        Store::open(&self.path, StoreOptions::default()).unwrap()
    }
}
