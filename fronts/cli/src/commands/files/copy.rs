//! Copies between files of a store and streams, in steps, with a bar; a signal ends them in order.

use super::place::Target;
use super::tree;
use anyhow::{Context, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tonearm_store::files::{
    AruId, FileId, Files, FilesError, FilesErrorKind, Level, NewAttr, Open,
};
use tonearm_terminal::progress::{Progress, Unit};

/// Bytes at a time.
pub const STEP_BYTES: usize = 1 << 20;
/// Ranges of zeroes that are aligned to this and at least as long become holes in the store.
const HOLE_BYTES: usize = 64 << 10;

/// A bar over the bytes of one or more copies.
pub struct Bar {
    progress: Progress,
    done: u64,
    total: u64,
}

impl Bar {
    /// Nothing of `total` bytes is copied yet.
    pub fn new(total: u64) -> Self {
        Self {
            progress: Progress::new("copying", Unit::Bytes),
            done: 0,
            total,
        }
    }

    /// So many more bytes are copied.
    pub fn add(&mut self, bytes: u64) {
        self.done += bytes;
        // Input may become longer, and its length may be unknown.
        self.progress.at(self.done, self.total.max(self.done));
    }
}

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
        if self.has_come() {
            bail!("interrupted; nothing was changed")
        } else {
            Ok(())
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
            let text = format!("{name} is in use by another program; close it there, or try again");
            return Err(FilesError::new(FilesErrorKind::Busy, text).into());
        }
    }
    Ok(())
}

/// Opens the file `name` so that no other session changes it meanwhile.
///
/// # Errors
/// When there is no such file, or another session is writing to it.
pub fn open_shared(files: &dyn Files, name: &str) -> anyhow::Result<FileId> {
    open_locked(files, name, Level::Shared)
}

/// Opens the file `name` with a lock.
///
/// # Errors
/// When there is no such file, or others are in the way.
pub fn open_locked(files: &dyn Files, name: &str, level: Level) -> anyhow::Result<FileId> {
    let file = files.open(name, Open::default())?;
    let locked = lock(files, file, name, level);
    if locked.is_err() {
        files.close(file);
    }
    locked.map(|()| file)
}

/// Copies the whole of an open file to `target`. Holes stay holes. Returns the number of bytes.
///
/// # Errors
/// When it cannot be read, or `target` not written.
pub fn read(
    files: &dyn Files,
    file: FileId,
    name: &str,
    target: &mut Target,
    stop: &Stop,
    bar: &mut Bar,
) -> anyhow::Result<u64> {
    let shorter = || format!("{name} became shorter while it was copied; try again");
    let total = files.size(file, None)?;
    let mut step = vec![0; (STEP_BYTES as u64).min(total) as usize];
    let mut at = 0;
    while at < total {
        let runs = files.status(file, at, total - at)?;
        if runs.iter().all(|(bytes, _)| *bytes == 0) {
            bail!(
                "the store does not tell what {name} holds at byte {at}; check it with `tonearm check`"
            );
        }
        for (bytes, is_data) in runs {
            let end = at + bytes;
            while at < end {
                stop.check()?;
                let mut got = end - at;
                if is_data {
                    let wanted = got.min(step.len() as u64) as usize;
                    got = files.read(file, None, at, &mut step[..wanted])? as u64;
                    if got == 0 {
                        bail!(shorter());
                    }
                    target.write_all(&step[..got as usize])?;
                } else {
                    target.skip(got)?;
                }
                at += got;
                bar.add(got);
            }
        }
    }
    // A hole says nothing of the end.
    if files.size(file, None)? < total {
        bail!(shorter());
    }
    Ok(total)
}

/// A copy into the store.
pub struct Copying<'a> {
    /// Path in the store.
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
    pub fn write(&self, files: &dyn Files, source: impl Read) -> anyhow::Result<u64> {
        let mut bar = Bar::new(self.total.unwrap_or_default());
        self.write_in(files, source, NewAttr::default(), true, &mut bar)
    }

    /// As [`Copying::write`], with attributes in the same unit, and durably only on demand.
    ///
    /// # Errors
    /// As for [`Copying::write`].
    pub fn write_in(
        &self,
        files: &dyn Files,
        mut source: impl Read,
        set: NewAttr,
        durable: bool,
        bar: &mut Bar,
    ) -> anyhow::Result<u64> {
        let unit = files.begin()?;
        let mut open = None;
        let written = self.target(files, unit).and_then(|file| {
            open = Some(file);
            files.truncate(file, Some(unit), 0)?;
            let bytes = self.stream(&mut source, bar, |offset, data| {
                files.write(file, Some(unit), offset, data)
            })?;
            files.truncate(file, Some(unit), bytes)?;
            if set != NewAttr::default() {
                files.set_attr(self.name, Some(unit), set)?;
            }
            Ok(bytes)
        });
        let ended = match written {
            Ok(bytes) => files
                .end(unit, durable)
                .map(|_| bytes)
                .map_err(anyhow::Error::from),
            Err(error) => {
                files.abort(unit);
                Err(error)
            }
        };
        if let Some(file) = open {
            files.close(file);
        }
        ended
    }

    /// A new file, or the existing one, if no other session uses it.
    fn target(&self, files: &dyn Files, unit: AruId) -> anyhow::Result<FileId> {
        let name = self.name;
        match files.create(unit, name) {
            Ok(file) => return Ok(file),
            Err(error) if error.kind == FilesErrorKind::Exists => {}
            Err(error) if error.kind == FilesErrorKind::NotFound => {
                bail!(tree::no_directory(tree::parent(name)))
            }
            Err(error) => return Err(error.into()),
        }
        match tree::find(files, name)? {
            Some(info) if info.is_file() => {}
            Some(info) => bail!(
                "{name} is {} in the store; --name gives the new file another name",
                tree::kind(info.mode)
            ),
            None => {
                bail!("a volume has the name {name}; give the file another one with --name")
            }
        }
        if !self.replace {
            bail!(
                "there is a file {name} already; --force replaces it, --name gives the new one another name"
            );
        }
        open_locked(files, name, Level::Exclusive)
    }

    fn stream(
        &self,
        source: &mut impl Read,
        bar: &mut Bar,
        write: impl Fn(u64, &[u8]) -> Result<(), FilesError>,
    ) -> anyhow::Result<u64> {
        let mut step = Vec::with_capacity(STEP_BYTES);
        let mut done = 0;
        loop {
            step.clear();
            let taken = source.take(STEP_BYTES as u64).read_to_end(&mut step);
            let got = taken.with_context(|| format!("cannot read what is to be {}", self.name))?;
            // The signal may also have ended the program that wrote the input.
            self.stop.check()?;
            if got == 0 {
                return Ok(done);
            }
            for (offset, data) in data_runs(&step) {
                write(done + offset as u64, data)?;
            }
            done += got as u64;
            bar.add(got as u64);
        }
    }
}

/// The runs of a step that are not zero, each with its offset in the step.
fn data_runs(step: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let is_zero = |piece: &[u8]| piece.iter().all(|byte| *byte == 0);
    let mut at = 0;
    std::iter::from_fn(move || {
        at += step[at..]
            .chunks(HOLE_BYTES)
            .take_while(|piece| piece.len() == HOLE_BYTES && is_zero(piece))
            .map(<[u8]>::len)
            .sum::<usize>();
        let pieces = step[at..].chunks(HOLE_BYTES);
        let len: usize = pieces
            .take_while(|piece| piece.len() < HOLE_BYTES || !is_zero(piece))
            .map(<[u8]>::len)
            .sum();
        let run = (at, &step[at..at + len]);
        at += len;
        (len > 0).then_some(run)
    })
}
