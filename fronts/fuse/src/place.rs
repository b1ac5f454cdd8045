//! The directory that a store is to be mounted on.

use crate::error::MountError;
use crate::mounting::detach;
use rustix::io::Errno;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The type of our mounts in the list of mounts.
pub(crate) const FS_TYPE: &str = "fuse.tonearm";
/// The list of mounts of this process.
const MOUNTS: &str = "/proc/self/mountinfo";

/// A directory on which nothing is mounted.
#[derive(Debug)]
pub struct Mountable {
    pub(crate) path: PathBuf,
    /// What was mounted there by a server that has ended, and has been detached.
    pub detached: Option<String>,
}

/// One line of the list of mounts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MountEntry {
    pub place: PathBuf,
    pub fs_type: String,
    pub source: String,
}

impl Mountable {
    /// Looks at the directory. A mount of ours whose server has ended is detached first.
    ///
    /// # Errors
    /// When it is not there, no directory, or something is mounted on it.
    pub fn find(place: &Path) -> Result<Self, MountError> {
        let absolute = std::path::absolute(place).map_err(|error| io_error(place, error))?;
        let mut detached = None;
        loop {
            let path = resolve(place, &absolute)?;
            let listed = mounted_on(&path).map_err(|error| io_error(&path, error))?;
            let Some(listed) = listed else {
                return Ok(Self { path, detached });
            };
            let source_text = listed.text();
            match (lacks_server(&path, &listed), listed.fs_type == FS_TYPE) {
                (true, true) => detach(&path)?,
                (true, false) => {
                    return Err(MountError::DeadOther {
                        place: path,
                        source_text,
                    });
                }
                (false, _) => {
                    return Err(MountError::Busy {
                        place: path,
                        source_text,
                    });
                }
            }
            detached = Some(listed.source);
        }
    }
}

/// The directory's path without symbolic links. That of a mount without its server is resolved only up to its folder.
fn resolve(place: &Path, absolute: &Path) -> Result<PathBuf, MountError> {
    let found = absolute.canonicalize().and_then(|path| {
        let is_directory = std::fs::metadata(&path)?.is_dir();
        Ok((path, is_directory))
    });
    match found {
        Ok((path, true)) => Ok(path),
        Ok((path, false)) => Err(MountError::NotDirectory(path)),
        Err(error) if is_disconnected(&error) => {
            let folder = absolute.parent().unwrap_or(absolute).canonicalize();
            let folder = folder.map_err(|error| io_error(place, error))?;
            Ok(folder.join(absolute.file_name().unwrap_or_default()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(MountError::NoDirectory(place.to_path_buf()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(MountError::NotDirectory(place.to_path_buf()))
        }
        Err(error) => Err(io_error(place, error)),
    }
}

/// True when a mount of FUSE has no server any more. Attributes may still come from the kernel's cache, but statfs(2) asks the
/// server each time.
fn lacks_server(path: &Path, listed: &MountEntry) -> bool {
    let is_fuse = listed.fs_type.starts_with("fuse");
    is_fuse && rustix::fs::statfs(path).err() == Some(Errno::NOTCONN)
}

fn is_disconnected(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::NOTCONN)
}

impl Mountable {
    /// Its path without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn io_error(place: &Path, error: io::Error) -> MountError {
    MountError::Io {
        what: "look at",
        place: place.to_path_buf(),
        error,
    }
}

/// What is mounted on `path`; the uppermost, if there are several.
fn mounted_on(path: &Path) -> io::Result<Option<MountEntry>> {
    let mounts = std::fs::read(MOUNTS)?;
    let last_first = mounts.rsplit(|byte| *byte == b'\n');
    let mut lines = last_first.filter_map(MountEntry::parse);
    Ok(lines.find(|listed| listed.place == path))
}

impl MountEntry {
    /// A line of `mountinfo`: `ID PARENT DEVICE ROOT PLACE OPTIONS [TAGS] - TYPE SOURCE OPTIONS`.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let dash = fields.iter().position(|field| *field == b"-")?;
        let text = |field: &[u8]| String::from_utf8_lossy(&plain(field)).into_owned();
        Some(Self {
            place: PathBuf::from(OsString::from_vec(plain(fields.get(4)?))),
            fs_type: text(fields.get(dash + 1)?),
            source: text(fields.get(dash + 2)?),
        })
    }

    fn text(&self) -> String {
        format!("{} ({})", self.source, self.fs_type)
    }
}

/// The bytes of a field: the kernel writes blanks and backslashes as `\040`.
fn plain(field: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(field.len()), field);
    while let Some((first, others)) = rest.split_first() {
        let digits = (*first == b'\\').then(|| others.get(..3)).flatten();
        let octal = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &others[3..];
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    bytes
}

/// True when `path`, without symbolic links, is a mount of ours.
pub(crate) fn is_ours(path: &Path) -> bool {
    let listed = mounted_on(path).ok().flatten();
    listed.is_some_and(|listed| listed.fs_type == FS_TYPE)
}
