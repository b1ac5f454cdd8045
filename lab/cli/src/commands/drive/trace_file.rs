//! Opens the trace's file, shows its progress, and adapts its requests to the drive.

use anyhow::{Context, bail};
use std::cell::Cell;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::rc::Rc;
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_trace::{Reader, Record};

/// The position of the reader in the file.
pub struct Position {
    bar: Progress,
    read: Rc<Cell<u64>>,
    bytes: u64,
}

impl Position {
    /// Shows it, once this takes a while.
    pub fn show(&mut self) {
        self.bar.at(self.read.get(), self.bytes);
    }
}

/// Opens a trace, and counts how much of it has been read.
///
/// # Errors
/// When there is no such file.
pub fn open_trace(
    path: &Path,
    format: tonearm_trace::Format,
) -> anyhow::Result<(Reader<'static>, Position)> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot open the trace {name}"))?;
    let about = file
        .metadata()
        .with_context(|| format!("cannot open the trace {name}"))?;
    if about.is_dir() {
        bail!("{name} is a folder, not a trace");
    }
    let read = Rc::new(Cell::new(0));
    let position = Position {
        bar: Progress::new("replaying", Unit::Bytes),
        read: read.clone(),
        bytes: about.len(),
    };
    let counted = Counted { file, read };
    let reader = Reader::new(&name, format, BufReader::with_capacity(1 << 16, counted));
    Ok((reader, position))
}

struct Counted {
    file: File,
    read: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

/// Whether requests fit the drive.
pub struct Fit<'a> {
    pub trace: String,
    pub drive: &'a str,
    pub sectors: u64,
    pub wrap: bool,
    pub wrapped: u64,
}

impl Fit<'_> {
    /// The request, moved to a place that the drive has if asked to.
    ///
    /// # Errors
    /// With file and line, when there is none.
    pub fn place(&mut self, mut record: Record) -> anyhow::Result<Record> {
        let length = u64::from(record.sectors);
        if record.sector + length <= self.sectors {
            return Ok(record);
        }
        let Self {
            trace,
            drive,
            sectors,
            ..
        } = self;
        let (line, first) = (record.line, record.sector);
        if length > *sectors {
            bail!("{trace}:{line}: the request has {length} sectors, {drive} has only {sectors}");
        }
        if !self.wrap {
            bail!(
                "{trace}:{line}: sectors {first} to {} lie beyond the end of {drive}, which has {sectors}; \
                 a larger drive, --device, or --wrap (folds requests onto the drive) may help",
                first + length - 1
            );
        }
        self.wrapped += 1;
        // A request that would cross the end is moved down to it.
        record.sector = (first % *sectors).min(*sectors - length);
        Ok(record)
    }
}
