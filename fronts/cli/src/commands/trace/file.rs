//! The files of a trace: FILE, and the fuller ones before it as FILE.1, FILE.2 and so on.
//!
//! Invariants:
//! 1. Each file is a trace by itself: it begins as its format demands, and names the volumes that it has.
//! 2. A file ends with a whole line, also when the disk is full.
//! 3. A file that has a request is at most `max_bytes` long.

use crate::cli::TraceFormat;
use crate::control::TraceRequest;
use anyhow::{Context, bail};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Lines are written together from this many bytes on.
const BUFFER_BYTES: usize = 64 << 10;

/// Bytes that are kept for the comments at the end.
const END_BYTES: u64 = 1 << 10;

/// Where a trace goes, in which format, and how much of it is kept.
pub struct Place {
    /// FILE.
    pub path: PathBuf,
    /// The format of the files.
    pub format: TraceFormat,
    /// Largest size of a file.
    pub max_bytes: u64,
    /// How many files are kept.
    pub files: u32,
}

impl Place {
    /// Checks that there is room for a new trace.
    ///
    /// # Errors
    /// When a file is there and may not be overwritten, or is none that can be.
    pub fn check(&self, force: bool) -> anyhow::Result<()> {
        for number in 0..self.files {
            let path = self.numbered(number);
            match fs::metadata(&path) {
                Ok(about) if !about.is_file() => {
                    bail!("{} is not a regular file", path.display());
                }
                Ok(_) if !force => bail!(
                    "{} exists; choose another name, or overwrite it with --force",
                    path.display()
                ),
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).with_context(|| cannot_write(&path));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// FILE for 0, FILE.1 for 1.
    fn numbered(&self, number: u32) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        if number > 0 {
            path.push(format!(".{number}"));
        }
        path.into()
    }
}

/// The files while they are written.
pub struct TraceFiles {
    place: Place,
    /// The comments with which each file begins.
    about: String,
    file: File,
    /// Lines that are not yet written.
    buffer: Vec<u8>,
    /// Bytes of the present file that are written.
    written: u64,
    /// The present file has a request.
    has_requests: bool,
    /// Volumes that the present file has named.
    named: Vec<bool>,
    /// Files that are there.
    count: u32,
    /// Bytes of those that are complete, by age.
    older: Vec<u64>,
}

impl TraceFiles {
    /// Begins the first file. What earlier traces have left in its place is removed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(place: Place, about: String) -> anyhow::Result<Self> {
        for number in 1..place.files {
            let path = place.numbered(number);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).with_context(|| cannot_write(&path));
                }
                _ => {}
            }
        }
        if !place.path.exists() {
            tonearm_uring::refuse_devices(&place.path)?;
        }
        let file = File::create(&place.path).with_context(|| cannot_write(&place.path))?;
        let mut files = Self {
            place,
            about,
            file,
            buffer: Vec::with_capacity(2 * BUFFER_BYTES),
            written: 0,
            has_requests: false,
            named: Vec::new(),
            count: 1,
            older: Vec::new(),
        };
        files.begin();
        files.flush()?;
        Ok(files)
    }

    fn begin(&mut self) {
        self.place.format.begin(&mut self.buffer, &self.about);
    }

    /// Adds a request; false when there is no room for it, and there may be no further file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn request(&mut self, request: &TraceRequest, volumes: &[String]) -> anyhow::Result<bool> {
        let start = self.buffer.len();
        self.lines_of(request, volumes);
        let end = self.written + self.buffer.len() as u64 + END_BYTES;
        if self.has_requests && end > self.place.max_bytes {
            self.buffer.truncate(start);
            if self.place.files == 1 {
                return Ok(false);
            }
            self.rotate()?;
            self.lines_of(request, volumes);
        }
        self.has_requests = true;
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(true)
    }

    fn lines_of(&mut self, request: &TraceRequest, volumes: &[String]) {
        let format = self.place.format;
        let number = request.volume as usize;
        let name = volumes.get(number).map_or("", String::as_str);
        if self.named.len() <= number {
            self.named.resize(number + 1, false);
        }
        if !std::mem::replace(&mut self.named[number], true) {
            format.volume(&mut self.buffer, number, name, request.arrival_ns);
        }
        format.request(&mut self.buffer, request, name);
    }

    /// Adds a comment, if the format has any.
    pub fn comment(&mut self, text: &str) {
        self.place.format.comment(&mut self.buffer, text);
    }

    /// Writes the lines that were added.
    ///
    /// # Errors
    /// When the disk is full, or fails. What was written before stays.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        let written = self.file.write_all(&self.buffer);
        if written.is_err() {
            // A part of the lines may be there. A failure here leaves it, which readers report with its line.
            let _ = self.file.set_len(self.written);
        }
        written.with_context(|| cannot_write(&self.place.path))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn rotate(&mut self) -> anyhow::Result<()> {
        self.flush()?;
        self.older.insert(0, self.written);
        self.older.truncate(self.place.files as usize - 1);
        for number in (1..self.place.files).rev() {
            let (from, to) = (self.place.numbered(number - 1), self.place.numbered(number));
            match fs::rename(&from, &to) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).with_context(|| {
                        format!("cannot rename {} to {}", from.display(), to.display())
                    });
                }
                _ => {}
            }
        }
        let path = &self.place.path;
        self.file = File::create(path).with_context(|| cannot_write(path))?;
        (self.written, self.has_requests) = (0, false);
        self.named.clear();
        self.count = (self.count + 1).min(self.place.files);
        self.begin();
        Ok(())
    }

    /// Writes what is left, and makes it durable.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn end(&mut self) -> anyhow::Result<()> {
        self.flush()?;
        let synced = self.file.sync_all();
        synced.with_context(|| cannot_write(&self.place.path))
    }

    /// The names of the files, the newest first.
    pub fn names(&self) -> Vec<String> {
        let name = |number| self.place.numbered(number).display().to_string();
        (0..self.count).map(name).collect()
    }

    /// Bytes of the files that are kept.
    pub fn bytes(&self) -> u64 {
        self.older.iter().sum::<u64>() + self.written + self.buffer.len() as u64
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

#[cfg(test)]
#[path = "file_test.rs"]
mod file_test;
