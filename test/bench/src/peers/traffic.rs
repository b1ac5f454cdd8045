//! A program that reads and writes as many bytes as an archive, and does nothing with them. What a load loses next to it, the
//! disk takes.

use crate::sample::Bench;
use crate::server::Kind;
use anyhow::{Context, anyhow};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tonearm_base::BufPool;

/// As often an archive puts an object.
const INTERVAL: Duration = Duration::from_secs(1);
const CHUNK: usize = 1 << 20;

/// Bytes for each second.
#[derive(Clone, Copy)]
pub struct Rates {
    /// Read from the store's file, past the page cache, as the log is.
    pub read: u64,
    /// Written to files next to the archive, one a second, each synced.
    pub written: u64,
}

fn run(store: &Path, folder: &Path, rates: Rates, ending: &AtomicBool) -> anyhow::Result<()> {
    let direct = OFlags::DIRECT.bits() as i32;
    let mut store = OpenOptions::new()
        .read(true)
        .custom_flags(direct)
        .open(store)?;
    let mut buffer = BufPool::new(0).alloc_zeroed(CHUNK);
    // What cannot be compressed, because the objects are that already.
    ChaCha8Rng::seed_from_u64(1).fill_bytes(&mut buffer);
    let objects = buffer.to_vec();
    let mut next = Instant::now() + INTERVAL;
    for number in 0_u64.. {
        while Instant::now() < next {
            if ending.load(Ordering::Relaxed) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(5));
        }
        next += INTERVAL;
        let mut left = rates.read;
        while left > 0 {
            let got = store.read(&mut buffer).context("the store")? as u64;
            if got == 0 {
                store.seek(SeekFrom::Start(0))?;
            }
            left = left.saturating_sub(got);
        }
        let mut object = File::create(folder.join(number.to_string()))?;
        let mut left = rates.written as usize;
        while left > 0 {
            let part = left.min(CHUNK);
            object.write_all(&objects[..part])?;
            left -= part;
        }
        object.sync_all()?;
    }
    Ok(())
}

/// The traffic; it ends when this is dropped.
pub struct Traffic {
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
    folder: PathBuf,
}

impl Traffic {
    /// Begins to read the store, and to write in the folder of archives.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn start(bench: &Bench, rates: Rates) -> anyhow::Result<Self> {
        let folder = bench.archive_dir.join("tonearm-bench-traffic");
        fs::create_dir_all(&folder)?;
        let ending = Arc::new(AtomicBool::new(false));
        let (own, store, at) = (ending.clone(), bench.target(Kind::Tonearm), folder.clone());
        let thread = thread::spawn(move || run(&store, &at, rates, &own));
        Ok(Self {
            ending,
            thread: Some(thread),
            folder,
        })
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        let failed = match ended {
            Some(Ok(result)) => result.err(),
            _ => Some(anyhow!("it has panicked")),
        };
        if let Some(error) = failed {
            panic!("the traffic during a load: {error:#}");
        }
        let removed = fs::remove_dir_all(&self.folder);
        removed.expect("the files of the traffic are removed");
    }
}
