//! A database in a file system of this machine: checks that it is a database, complete, and not in use.
//!
//! Sources: SQLite, "Database File Format" 1.3; "File Locking And Concurrency" 3 to 5; `os_unix.c` for the
//! bytes that are locked.

use anyhow::{Context, bail};
use rustix::fs::FlockOperation;
use rustix::process::{Flock, FlockOffsetType, FlockType};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of a database's header.
pub const HEADER_BYTES: usize = 100;
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// A database that no process can change as long as this value lives.
pub struct LocalDatabase {
    file: File,
    bytes: u64,
}

impl LocalDatabase {
    /// Opens the database at `path` and locks it.
    ///
    /// # Errors
    /// When it is not a database, is incomplete or in use, or has its last changes in a journal or log beside it.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        // SQLite keeps journals beside the file itself, not beside a link to it.
        let real = path.canonicalize();
        let real = real.with_context(|| format!("cannot read {shown}"))?;
        if !real.is_file() {
            bail!("{shown} is no SQLite database: it is not a regular file");
        }
        let file = open_and_lock(&real)?;
        let mut header = [0; HEADER_BYTES];
        let read = file.read_exact_at(&mut header, 0);
        match read {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
            read => read.with_context(|| format!("cannot read {shown}"))?,
        }
        let bytes = file.metadata()?.len();
        let got = bytes.min(HEADER_BYTES as u64) as usize;
        match Header::parse(&header[..got]) {
            Err(why) => bail!("{shown} {why}; `tonearm files put` takes any file"),
            Ok(header) => header.check_size(path, bytes)?,
        }
        if let Some(user) = log_user(&real)? {
            bail!("{}", in_use(&real, user));
        }
        check_journal(&real)?;
        check_log(&real)?;
        Ok(Self { file, bytes })
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its content from the beginning, to be read once.
    pub fn content(&self) -> impl Read + '_ {
        (&self.file).take(self.bytes)
    }
}

/// The contents of the header.
pub struct Header {
    page_bytes: u64,
    /// Size of the database; `None` when the header does not have it.
    pages: Option<u64>,
}

impl Header {
    /// Reads the first bytes of a file: [`HEADER_BYTES`], or fewer when the file is shorter.
    ///
    /// # Errors
    /// What the file is instead, as a text that follows its name.
    pub fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.is_empty() {
            return Err("is empty: there is no database in it yet");
        }
        if bytes.len() < HEADER_BYTES || bytes[..16] != MAGIC[..] {
            return Err("is no SQLite database, or an encrypted one");
        }
        let u32_at = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let page_bytes = match u64::from(u16::from_be_bytes([bytes[16], bytes[17]])) {
            1 => 65_536,
            size => size,
        };
        if !page_bytes.is_power_of_two() || page_bytes < 512 {
            return Err("is a damaged SQLite database: its page size is impossible");
        }
        // Versions before 3.7.0 do not keep the size in the header.
        let known = u32_at(28) > 0 && u32_at(24) == u32_at(92);
        Ok(Self {
            page_bytes,
            pages: known.then(|| u64::from(u32_at(28))),
        })
    }

    fn check_size(&self, path: &Path, bytes: u64) -> anyhow::Result<()> {
        let shown = path.display();
        let needed = self.pages.map_or(0, |pages| pages * self.page_bytes);
        if bytes < needed || !bytes.is_multiple_of(self.page_bytes) {
            bail!(
                "{shown} is damaged: it has {bytes} bytes, and its header tells of {} pages of {} bytes; restore a \
                 backup, or save what is left with sqlite3's .recover",
                needed / self.page_bytes,
                self.page_bytes
            );
        }
        Ok(())
    }
}

/// Opens the file, and locks it against SQLite in other processes: exclusively if this process may write to it,
/// otherwise shared, which keeps writers away.
fn open_and_lock(path: &Path) -> anyhow::Result<File> {
    let writable = File::options().read(true).write(true).open(path);
    let (file, how) = match writable {
        Ok(file) => (file, FlockOperation::NonBlockingLockExclusive),
        Err(_) => {
            let file = File::open(path);
            let cannot = || format!("cannot read {}", path.display());
            (
                file.with_context(cannot)?,
                FlockOperation::NonBlockingLockShared,
            )
        }
    };
    if let Some(user) = user_of(&file, 0, 0)? {
        bail!("{}", in_use(path, user));
    }
    match rustix::fs::fcntl_lock(&file, how) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
            bail!("{}", in_use(path, None))
        }
        Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}

/// Another process that has a lock, of whatever kind, on `length` bytes at `start` (0: all from there on). Returns its
/// process number where the system knows it.
fn user_of(file: &File, start: u64, length: u64) -> anyhow::Result<Option<Option<i32>>> {
    let wanted = Flock {
        start,
        length,
        pid: None,
        typ: FlockType::WriteLock,
        offset_type: FlockOffsetType::Set,
    };
    let found = rustix::process::fcntl_getlk(file, &wanted)?;
    Ok(found.map(|lock| lock.pid.map(|pid| pid.as_raw_nonzero().get())))
}

/// A process that has the database open in WAL mode: it holds locks on the shared memory all the time.
fn log_user(path: &Path) -> anyhow::Result<Option<Option<i32>>> {
    match File::open(sibling_path(path, "-shm")) {
        Ok(shm) => user_of(&shm, 0, 0),
        Err(_) => Ok(None),
    }
}

fn in_use(path: &Path, user: Option<i32>) -> String {
    let by = user.map_or(String::from("another program"), |pid| {
        format!("process {pid}")
    });
    format!(
        "{} is in use by {by}; close it there, or import a copy that sqlite3 makes: sqlite3 {} \".backup copy.db\"",
        path.display(),
        path.display()
    )
}

/// Refuses a journal that SQLite would roll back (`hasHotJournal` in `pager.c`).
fn check_journal(path: &Path) -> anyhow::Result<()> {
    let journal = sibling_path(path, "-journal");
    let mut first = [0];
    let hot = match File::open(&journal) {
        Ok(file) => file.read_at(&mut first, 0)? == 1 && first[0] != 0,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", journal.display()));
        }
    };
    if hot {
        bail!(
            "{} has a hot journal: a transaction was cut short and must be rolled back first; do that with: sqlite3 \
             {} 'SELECT count(*) FROM sqlite_schema'",
            path.display(),
            path.display()
        );
    }
    Ok(())
}

/// Refuses a write-ahead log with changes that may not be in the database yet.
fn check_log(path: &Path) -> anyhow::Result<()> {
    let log = sibling_path(path, "-wal");
    if log.metadata().is_ok_and(|about| about.len() > 0) {
        bail!(
            "{} holds changes that are not in the database yet; bring them there with: sqlite3 {} 'PRAGMA \
             wal_checkpoint(TRUNCATE)'",
            log.display(),
            path.display()
        );
    }
    Ok(())
}

fn sibling_path(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
#[path = "local_test.rs"]
mod local_test;
