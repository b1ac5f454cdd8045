//! Copies between files of a store and streams, in steps, with a bar; a signal ends them in order.

use anyhow::{Context, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tonearm_store::files::{AruId, FileId, Files, FilesError, FilesErrorKind, Level, Open};
use tonearm_terminal::progress::{Progress, Unit};

/// Bytes at a time.
pub const STEP_BYTES: usize = 1 << 20;

/// Whether a signal has come; clones are handles on the same. A second signal ends the process at once: no half-done
/// change stays in a store.
#[derive(Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Catches signals from now on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn on_signals() -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())?;
            signal_hook::flag::register(signal, stop.clone())?;
        }
        Ok(Self(stop))
    }

    /// Whether one has come.
    pub fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// When one has come.
    pub fn check(&self) -> anyhow::Result<()> {
        match self.has_come() {
            true => bail!("interrupted; nothing was changed"),
            false => Ok(()),
        }
    }
}

/// Takes the lock `level` on an open file.
///
/// # Errors
/// When others are in the way.
pub fn lock(files: &dyn Files, file: FileId, name: &str, level: Level) -> anyhow::Result<()> {
    for step in [Level::Shared, Level::Exclusive] {
        if step <= level && !files.lock(file, step)? {
            bail!("{name} is in use by another program; close it there, or try again");
        }
    }
    Ok(())
}

/// Opens the file `name` so that no other session changes it meanwhile.
///
/// # Errors
/// When there is no such file, or another session is writing to it.
pub fn open_shared(files: &dyn Files, name: &str) -> anyhow::Result<FileId> {
    let file = files.open(name, Open::default())?;
    lock(files, file, name, Level::Shared)?;
    Ok(file)
}

/// Copies the whole of an open file to `target`. Returns the number of bytes.
///
/// # Errors
/// When it cannot be read, or `target` not written.
pub fn read(
    files: &dyn Files,
    file: FileId,
    name: &str,
    target: &mut impl Write,
    stop: &Stop,
) -> anyhow::Result<u64> {
    let total = files.size(file, None)?;
    let mut bar = Progress::new("copying", Unit::Bytes);
    let mut step = vec![0; STEP_BYTES];
    let mut done = 0;
    while done < total {
        stop.check()?;
        let wanted = (total - done).min(STEP_BYTES as u64) as usize;
        let got = files.read(file, None, done, &mut step[..wanted])?;
        if got == 0 {
            bail!("{name} became shorter while it was copied; try again");
        }
        target.write_all(&step[..got])?;
        done += got as u64;
        bar.at(done, total);
    }
    Ok(total)
}

/// A copy into the store.
pub struct Copying<'a> {
    /// Name in the store.
    pub name: &'a str,
    /// Bytes to copy, where they are known.
    pub total: Option<u64>,
    /// Whether a file of that name is replaced.
    pub replace: bool,
    /// The signal that ends the copy.
    pub stop: &'a Stop,
}

impl Copying<'_> {
    /// Makes all of `source` the content of the file, as one unit, durably. Returns the number of bytes.
    ///
    /// # Errors
    /// When the file exists and must not be replaced, or is in use; when `source` cannot be read or the store not
    /// written.
    pub fn write(&self, files: &dyn Files, mut source: impl Read) -> anyhow::Result<u64> {
        let unit = files.begin()?;
        let written = self.target(files, unit).and_then(|file| {
            files.truncate(file, Some(unit), 0)?;
            self.stream(&mut source, |offset, data| {
                files.write(file, Some(unit), offset, data)
            })
        });
        match written {
            Ok(bytes) => {
                files.end(unit, true)?;
                Ok(bytes)
            }
            Err(error) => {
                files.abort(unit);
                Err(error)
            }
        }
    }

    /// A new file, or the existing one, if no other session uses it.
    fn target(&self, files: &dyn Files, unit: AruId) -> anyhow::Result<FileId> {
        let name = self.name;
        match files.create(unit, name) {
            Err(error) if error.kind == FilesErrorKind::Exists => {}
            created => return Ok(created?),
        }
        if !files.exists(name)? {
            bail!("a volume has the name {name}; give the file another one with --name");
        }
        if !self.replace {
            bail!(
                "there is a file {name} already; --force replaces it, --name gives the new one another name"
            );
        }
        let file = files.open(name, Open::default())?;
        lock(files, file, name, Level::Exclusive)?;
        Ok(file)
    }

    fn stream(
        &self,
        source: &mut impl Read,
        write: impl Fn(u64, &[u8]) -> Result<(), FilesError>,
    ) -> anyhow::Result<u64> {
        let mut bar = Progress::new("copying", Unit::Bytes);
        let mut step = Vec::with_capacity(STEP_BYTES);
        let mut done = 0;
        loop {
            self.stop.check()?;
            step.clear();
            let taken = source.take(STEP_BYTES as u64).read_to_end(&mut step);
            let got = taken.with_context(|| format!("cannot read what is to be {}", self.name))?;
            if got == 0 {
                return Ok(done);
            }
            write(done, &step)?;
            done += got as u64;
            bar.at(done, self.total.unwrap_or(done).max(done));
        }
    }
}
