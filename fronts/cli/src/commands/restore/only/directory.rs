//! A directory of an archive, as a directory: everything below it.
//!
//! The blocks of all files are made in one pass, as if they were one file: each file has a part of its bytes. The directory that
//! is made is of this user alone, so what is in it keeps the permissions that it had, as with `files get -r`.

use super::plain::Plain;
use super::tree::CommitTree;
use anyhow::Context;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tonearm_archive::{Content, Extract, Plan, VolumeTable};
use tonearm_format::Inode;
use tonearm_fs::{OfflineError, path_text};

/// Files that are open at the same time.
const OPEN: usize = 64;
/// Type of an inode, and the types that are made.
const TYPE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
/// Permissions that are kept: what is made has another owner, for whom set-user-ID and set-group-ID would mean something else.
const FILE_BITS: u32 = 0o777;
const DIRECTORY_BITS: u32 = 0o1777;

/// A directory that is to be made.
pub(super) struct Directory {
    directories: Vec<(PathBuf, Inode)>,
    files: Vec<(PathBuf, Inode)>,
    /// The first byte of each of the files, when all are one.
    starts: Vec<u64>,
    /// Further names of files.
    names: Vec<(PathBuf, PathBuf)>,
    links: Vec<(PathBuf, Vec<u8>)>,
    /// Devices, FIFOs and sockets, which are left out.
    pub(super) skipped: u64,
}

impl Directory {
    /// Finds everything below directory `dir`, and the blocks that are to be made.
    pub(super) fn find(
        plan: &Plan,
        url: &str,
        table: &VolumeTable,
        tree: &mut CommitTree,
        dir: u64,
    ) -> anyhow::Result<(Self, Extract)> {
        let mut found = Self {
            directories: Vec::new(),
            files: Vec::new(),
            starts: Vec::new(),
            names: Vec::new(),
            links: Vec::new(),
            skipped: 0,
        };
        let (mut inos, mut links) = (Vec::new(), Vec::new());
        let mut first_names: BTreeMap<u64, PathBuf> = BTreeMap::new();
        tree.below(dir, |path, attr| {
            let path = local(path)?;
            match attr.inode.mode & TYPE {
                DIRECTORY => found.directories.push((path, attr.inode)),
                SYMLINK => links.push((path, attr.ino)),
                REGULAR => {
                    if attr.inode.nlink > 1
                        && let Some(first) = first_names.get(&attr.ino)
                    {
                        found.names.push((first.clone(), path));
                        return Ok(());
                    }
                    if attr.inode.nlink > 1 {
                        first_names.insert(attr.ino, path.clone());
                    }
                    inos.push(attr.ino);
                    found.files.push((path, attr.inode));
                }
                _ => found.skipped += 1,
            }
            Ok::<_, OfflineError>(())
        })?;
        for (path, ino) in links {
            found.links.push((path, tree.target(ino)?));
        }
        let (mut places, mut failed) = (Vec::new(), None);
        let (mut at, block_size) = (0u64, u64::from(plan.shape.block_size));
        for (ino, (path, inode)) in inos.iter().zip(&found.files) {
            let blocks = inode.size.div_ceil(block_size);
            found.starts.push(at * block_size);
            tree.extents(*ino, blocks, |within, extent| {
                match table.places(plan, url, at + within, extent) {
                    Ok(more) => places.extend(more),
                    Err(error) => failed = failed.take().or(Some(error)),
                }
            })?;
            let end = at
                .checked_add(blocks)
                .filter(|end| *end < u64::MAX / block_size);
            at = end.with_context(|| format!("{}: too large to be made", path.display()))?;
        }
        failed.map_or(Ok(()), Err)?;
        let extract = Extract::at_places(plan, url, places)?;
        Ok((found, extract))
    }

    /// Bytes of all files.
    pub(super) fn size_bytes(&self) -> u64 {
        self.files.iter().map(|(_, inode)| inode.size).sum()
    }

    /// How many files it has.
    pub(super) fn count(&self) -> usize {
        self.files.len() + self.names.len() + self.links.len()
    }

    /// Makes the directory, empty.
    pub(super) fn create(path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }

    /// Makes the directories below it, and the files without content.
    pub(super) fn begin(&self, base: &Path, block_size: u64) -> anyhow::Result<Parts> {
        for (path, _) in &self.directories {
            let path = base.join(path);
            Self::create(&path).with_context(|| path.display().to_string())?;
        }
        for (path, inode) in &self.files {
            let path = base.join(path);
            let shown = || path.display().to_string();
            let mut options = OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o600).open(&path);
            // Blocks are made whole.
            let bytes = inode.size.div_ceil(block_size) * block_size;
            file.with_context(shown)?
                .set_len(bytes)
                .with_context(shown)?;
        }
        Ok(Parts {
            paths: self.files.iter().map(|(path, _)| base.join(path)).collect(),
            starts: self.starts.clone(),
            open: RefCell::default(),
        })
    }

    /// Gives everything its length, names, permissions and times, and makes it durable.
    pub(super) fn finish(&self, base: &Path) -> anyhow::Result<()> {
        for (path, inode) in &self.files {
            let path = base.join(path);
            let finished = (|| {
                let file = OpenOptions::new().write(true).open(&path)?;
                file.set_len(inode.size)?;
                file.set_permissions(Permissions::from_mode(inode.mode & FILE_BITS))?;
                file.set_modified(time(inode))
            })();
            finished.with_context(|| path.display().to_string())?;
        }
        for (first, path) in &self.names {
            let path = base.join(path);
            std::fs::hard_link(base.join(first), &path)
                .with_context(|| path.display().to_string())?;
        }
        for (path, target) in &self.links {
            let path = base.join(path);
            symlink(OsStr::from_bytes(target), &path)
                .with_context(|| path.display().to_string())?;
        }
        // Those in a directory come after it.
        for (path, inode) in self.directories.iter().rev() {
            let path = base.join(path);
            let finished = (|| {
                let directory = File::open(&path)?;
                directory.set_modified(time(inode))?;
                directory.set_permissions(Permissions::from_mode(inode.mode & DIRECTORY_BITS))
            })();
            finished.with_context(|| path.display().to_string())?;
        }
        Ok(rustix::fs::syncfs(File::open(base)?)?)
    }
}

/// The bytes of files as those of one.
pub(super) struct Parts {
    paths: Vec<PathBuf>,
    starts: Vec<u64>,
    /// Those that were used last.
    open: RefCell<VecDeque<(usize, Rc<Plain>)>>,
}

impl Parts {
    /// The file that has byte `at`, and which of its bytes that is.
    fn part(&self, at: u64) -> io::Result<(Rc<Plain>, u64)> {
        let after = self.starts.partition_point(|start| *start <= at);
        let index = after - 1;
        let mut open = self.open.borrow_mut();
        let known = open.iter().position(|(known, _)| *known == index);
        let file = match known.and_then(|known| open.remove(known)) {
            Some((_, file)) => file,
            None => {
                let mut options = OpenOptions::new();
                let file = options.read(true).write(true).open(&self.paths[index])?;
                open.truncate(OPEN - 1);
                Rc::new(Plain(file))
            }
        };
        open.push_front((index, file.clone()));
        Ok((file, at - self.starts[index]))
    }
}

impl Content for Parts {
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let (file, at) = self.part(at)?;
        file.read(at, bytes)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (file, at) = self.part(at)?;
        file.0.write_all_at(bytes, at)
    }

    fn zero(&mut self, at: u64, count: u64) -> io::Result<()> {
        let (file, at) = self.part(at)?;
        file.zero_at(at, count)
    }
}

fn time(inode: &Inode) -> SystemTime {
    let seconds = Duration::from_secs(inode.mtime.s.unsigned_abs());
    let whole = if inode.mtime.s < 0 {
        UNIX_EPOCH.checked_sub(seconds)
    } else {
        UNIX_EPOCH.checked_add(seconds)
    };
    let time = whole.and_then(|at| at.checked_add(Duration::from_nanos(inode.mtime.ns.into())));
    time.unwrap_or(UNIX_EPOCH)
}

/// The path below the directory that is made. An archive is not trusted: no name may lead out of it.
fn local(path: &[u8]) -> Result<PathBuf, OfflineError> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let mut names = path.split(|byte| *byte == b'/');
    if names.any(|name| matches!(name, b"" | b"." | b"..") || name.contains(&0)) {
        let text = format!("{} has a name that no file can have", path_text(path));
        return Err(OfflineError::Damaged(text));
    }
    Ok(PathBuf::from(OsStr::from_bytes(path)))
}
