//! An open store and its threads.

#![allow(clippy::unwrap_used)]

mod archive;
mod creating;
mod ends;
mod files;
mod fork;
mod mounted;
mod overtaken;
mod power_cuts;
mod remote;
mod rss;
mod seen;
mod threads;

use std::path::PathBuf;
use tempfile::TempDir;
use tonearm_base::BufPool;
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

const UUID: [u8; 16] = [7; 16];

/// Makes the volume `name`.
fn make(store: &Store, name: &str, blocks: u64) {
    let name = name.to_string();
    let made = store.run(move |context| async move {
        let made = context.disk.create_volume(&name, blocks * 4096, UUID, 0);
        made.await
    });
    made.unwrap().unwrap();
}

/// Fills a block of the volume `name`.
async fn write(context: Context, name: String, block: u64, byte: u8, durable: bool) {
    let data = BufPool::new(0).copy_of(&[byte; 4096]).share();
    let volume = context.disk.volume(&name).unwrap();
    volume.write(block * 4096, data, durable).await.unwrap();
}

/// What a block of the volume `name` was filled with.
async fn read(context: Context, name: String, block: u64) -> u8 {
    let volume = context.disk.volume(&name).unwrap();
    let pieces = volume.read(block * 4096, 4096).await.unwrap();
    let mut seen = Vec::new();
    for piece in pieces {
        piece.append_to(&mut seen);
    }
    assert!(
        seen.len() == 4096 && seen.iter().all(|byte| *byte == seen[0]),
        "no torn block"
    );
    seen[0]
}
