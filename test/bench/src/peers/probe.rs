//! How long the disk itself takes at worst during a load: a thread writes one block again and again, each durably.

use anyhow::{Context, anyhow};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pause between two writes: short compared with the waits that matter, and little work for the disk.
const PAUSE: Duration = Duration::from_millis(10);

/// The thread, until [`Probe::end`].
pub struct Probe {
    path: PathBuf,
    stop: Sender<()>,
    thread: JoinHandle<std::io::Result<Duration>>,
}

impl Probe {
    /// Starts on a file of its own in `dir`.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn start(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join("probe");
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            // The first write allocates the block.
            write(&file)?;
            let mut longest = Duration::ZERO;
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                let began = Instant::now();
                write(&file)?;
                longest = longest.max(began.elapsed());
            }
            Ok(longest)
        });
        Ok(Self { path, stop, thread })
    }

    /// Stops. The longest time of a write and its flush, in milliseconds.
    ///
    /// # Errors
    /// When a write failed.
    pub fn end(self) -> anyhow::Result<f64> {
        // The thread has ended already if a write failed.
        let _ = self.stop.send(());
        let longest = self.thread.join();
        std::fs::remove_file(&self.path)?;
        let longest = longest.map_err(|_| anyhow!("the probe of the disk panicked"))?;
        Ok(longest?.as_secs_f64() * 1e3)
    }
}

fn write(file: &File) -> std::io::Result<()> {
    file.write_all_at(&[0x5a; 4096], 0)?;
    file.sync_data()
}
