//! The store that Tonearm's contenders use, and the databases of a sample.

use crate::contender::{Contender, STORE};
use crate::disk_io::Counters;
use anyhow::{Context, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where databases are made.
pub struct Target {
    dir: PathBuf,
}

/// What is kept open while a sample is taken.
pub struct Held {}

impl Target {
    /// Makes the store.
    ///
    /// # Errors
    /// When `tonearm create` fails.
    pub fn create(dir: &Path, tonearm: &Path, log_size: &str) -> anyhow::Result<Self> {
        if !tonearm.exists() {
            let path = tonearm.display();
            bail!("{path} is missing: cargo build --release -p tonearm");
        }
        let status = Command::new(tonearm)
            .arg("create")
            .arg(dir.join(STORE))
            .args(["--size", "2GiB", "--preallocate", "--force"])
            .args(["--log-size", log_size])
            .stdout(Stdio::null())
            .status()?;
        if !status.success() {
            bail!("tonearm create: {status}");
        }
        Ok(Self {
            dir: dir.to_owned(),
        })
    }

    /// Removes databases of an earlier sample, with their journals.
    ///
    /// # Errors
    /// When one is there and cannot be removed.
    pub fn remove(&self, contender: &Contender, names: &[String]) -> anyhow::Result<()> {
        for name in names {
            for suffix in ["", "-journal", "-wal", "-shm"] {
                let name = format!("{name}{suffix}");
                if contender.is_ours() {
                    continue;
                }
                match fs::remove_file(self.dir.join(&name)) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(error).context(name);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Opens what a sample needs.
    ///
    /// # Errors
    /// When the store cannot be opened.
    pub fn hold(&self, _contender: &Contender) -> anyhow::Result<Held> {
        Ok(Held {})
    }
}

impl Held {
    /// What the log has written and flushed so far; none when there is no log.
    ///
    /// # Errors
    /// When the store has failed.
    pub fn log(&self) -> anyhow::Result<Option<Counters>> {
        Ok(None)
    }
}
