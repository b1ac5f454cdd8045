//! Files of a tree that is not open, for instance of one whose pages were taken out of an archive. Nothing here waits: a
//! closure reads the pages.
//!
//! Memory: [`CACHED`] pages; the names that [`OfflineTree::files`] keeps, [`NAMES_MAX`] of at most 256 bytes each; and for each
//! directory on the way to the present file its last name.

use crate::meta::{entry_key, extent_key, inode_key, places};
use crate::tree::{Key, Pages, Tree, TreeError, TreeHeader, Wait};
use crate::types::{Attr, DIRECTORY, Number, REGULAR, SYMLINK, TYPE};
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use tonearm_format::{DirEntry, FileExtent, FormatError, Inode, ROOT_INO, TARGET_MAX, item};

/// Pages that are kept in memory.
const CACHED: usize = 256;
/// Names of directories that a listing keeps in memory, of all directories together.
const NAMES_MAX: usize = 1 << 16;

/// Why a file of a tree cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// No file has this path.
    #[error("there is no file {0}")]
    NotFound(String),
    /// A directory has no content.
    #[error("{0} is a directory; name a file")]
    IsDirectory(String),
    /// Only a directory has names.
    #[error("{0} is not a directory, so no file is in it")]
    NotDirectory(String),
    /// A symbolic link is not followed.
    #[error(
        "{path} is a symbolic link, which is not followed; name the file that it leads to ({target})"
    )]
    SymbolicLink {
        /// The link.
        path: String,
        /// Where it leads.
        target: String,
    },
    /// A device, a FIFO or a socket has no content.
    #[error("{0} is a device, a FIFO or a socket, which has no content; name a file")]
    Special(String),
    /// The pages contradict each other.
    #[error("the tree of files is damaged: {0}")]
    Damaged(String),
    /// A page cannot be read.
    #[error("a page of the tree of files cannot be read: {0}")]
    Page(#[from] io::Error),
}

impl From<FormatError> for OfflineError {
    fn from(error: FormatError) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// A path for people. Bytes that are not UTF-8, and control characters, are escaped.
pub fn path_text(path: &[u8]) -> String {
    match std::str::from_utf8(path) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_string(),
        _ => path.escape_ascii().to_string(),
    }
}

/// A tree whose pages `R` reads: the page of a number into a buffer of the length of a page.
pub struct OfflineTree<R> {
    pages: ReadPages<R>,
    hash_key: (u64, u64),
}

/// What is at a path.
enum Found {
    File(u64, Inode),
    /// The directory of this number and path does not have the next name of the path.
    Missing(u64, Vec<u8>),
}

impl<R: FnMut(u64, &mut [u8]) -> io::Result<()>> OfflineTree<R> {
    /// A tree of `count` pages of `page_bytes` bytes. `None` when the tree has not been made yet: its space is there first.
    ///
    /// # Errors
    /// When the header page cannot be read, or is damaged.
    pub fn open(page_bytes: usize, count: u64, read: R) -> Result<Option<Self>, OfflineError> {
        let mut tree = Self {
            pages: ReadPages::new(page_bytes, count, read),
            hash_key: (0, 0),
        };
        if count == 0 || tree.is_blank()? {
            return Ok(None);
        }
        let owner = tree.header()?.owner;
        let number = |number: Number| owner[number as usize];
        tree.hash_key = (number(Number::HashKey), number(Number::HashKey1));
        Ok(Some(tree))
    }

    /// The regular file at `path`, whose names are separated by slashes. It may begin with one. Symbolic links are not followed.
    ///
    /// # Errors
    /// When there is no such file or it is not a regular one, and when a page cannot be read or is damaged.
    pub fn find(&mut self, path: &[u8]) -> Result<Attr, OfflineError> {
        let (ino, inode) = match self.walk(path)? {
            Found::File(ino, inode) => (ino, inode),
            Found::Missing(..) => return Err(OfflineError::NotFound(path_text(path))),
        };
        match inode.mode & TYPE {
            REGULAR => Ok(Attr { ino, inode }),
            DIRECTORY => Err(OfflineError::IsDirectory(path_text(path))),
            SYMLINK => Err(self.link(path, ino)?),
            _ => Err(OfflineError::Special(path_text(path))),
        }
    }

    /// The paths, without a leading slash, of what is in the directory where the way to `path` ends. Those of directories end with
    /// a slash. In no order.
    ///
    /// # Errors
    /// When a page cannot be read or is damaged.
    pub fn siblings(
        &mut self,
        path: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), OfflineError> {
        let Found::Missing(dir, mut path) = self.walk(path)? else {
            return Ok(());
        };
        let above = path.len();
        self.entries(dir, |entry| {
            path.truncate(above);
            path.extend(sort_key(entry));
            each(&path);
        })
    }

    /// The extents of a file with blocks before block `end`, cut off there, by their first block in the file.
    ///
    /// # Errors
    /// When a page cannot be read or is damaged.
    pub fn extents(
        &mut self,
        ino: u64,
        end: u64,
        mut each: impl FnMut(u64, FileExtent),
    ) -> Result<(), OfflineError> {
        let (mut next, mut failed) = (0, None);
        self.scan(extent_key(ino, 0), |key, value| {
            if (key.ino, key.kind) != (ino, item::EXTENT) || key.at >= end {
                return false;
            }
            match FileExtent::decode(key.at, value) {
                Ok(extent) if key.at >= next => {
                    let count = u64::from(extent.count).min(end - key.at);
                    next = key.at + count;
                    let count = count as u32;
                    each(key.at, FileExtent { count, ..extent });
                }
                Ok(_) => failed = Some(twice(ino)),
                Err(error) => failed = Some(error.into()),
            }
            failed.is_none()
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Calls `each` for the regular files, with path and inode, in the order of the bytes of their paths, which have no leading slash.
    /// A file with several names is listed with each of them.
    ///
    /// A directory with more names than are kept in memory is read several times.
    ///
    /// # Errors
    /// When a page cannot be read or is damaged, and those of `each`.
    pub fn files<E: From<OfflineError>>(
        &mut self,
        each: impl FnMut(&[u8], &Inode) -> Result<(), E>,
    ) -> Result<(), E> {
        self.files_within(NAMES_MAX, each)
    }

    /// The same, with at most `names_max` names in memory, at least 2.
    pub(crate) fn files_within<E: From<OfflineError>>(
        &mut self,
        names_max: usize,
        mut each: impl FnMut(&[u8], &Inode) -> Result<(), E>,
    ) -> Result<(), E> {
        self.visit(ROOT_INO, names_max, |path, attr| {
            match attr.inode.mode & TYPE {
                REGULAR => each(path, &attr.inode),
                _ => Ok(()),
            }
        })
    }

    /// The directory at `path`; `None` when something else is there, or nothing.
    ///
    /// # Errors
    /// When a page cannot be read or is damaged.
    pub fn directory(&mut self, path: &[u8]) -> Result<Option<Attr>, OfflineError> {
        let found = match self.walk(path) {
            Ok(Found::File(ino, inode)) => Attr { ino, inode },
            Ok(Found::Missing(..)) => return Ok(None),
            Err(error @ (OfflineError::Damaged(_) | OfflineError::Page(_))) => return Err(error),
            Err(_) => return Ok(None),
        };
        Ok((found.inode.mode & TYPE == DIRECTORY).then_some(found))
    }

    /// Calls `each` for everything below directory `dir`, with the path from there, in the order of the bytes of the paths. That
    /// of a directory ends with a slash; it comes before what is in it.
    ///
    /// # Errors
    /// When a page cannot be read or is damaged, and those of `each`.
    pub fn below<E: From<OfflineError>>(
        &mut self,
        dir: u64,
        each: impl FnMut(&[u8], Attr) -> Result<(), E>,
    ) -> Result<(), E> {
        self.visit(dir, NAMES_MAX, each)
    }

    fn visit<E: From<OfflineError>>(
        &mut self,
        dir: u64,
        names_max: usize,
        mut each: impl FnMut(&[u8], Attr) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut path = Vec::new();
        let mut levels = vec![Level::new(dir, 0)];
        let (mut kept, mut met, most) = (0, 0, self.header()?.items);
        while let Some(level) = levels.last_mut() {
            path.truncate(level.path_len);
            let Some(name) = level.names.pop_front() else {
                if level.is_complete {
                    levels.pop();
                    continue;
                }
                // The other half is for the directories above, which are gone on with later.
                (level.names, level.is_complete) =
                    self.smallest(level.dir, &level.last, names_max / 2)?;
                kept += level.names.len();
                forget_names(&mut levels, &mut kept, names_max);
                continue;
            };
            kept -= 1;
            // Each name is an item. A directory with two names would be met with all that is below it twice.
            met += 1;
            if met > most {
                return Err(damaged(&path, "has a directory with several names").into());
            }
            level.last.clone_from(&name.key);
            path.extend(&name.key);
            let (dir, inode) = (level.dir, self.inode(name.ino)?);
            if (inode.mode >> 12) as u8 != name.kind {
                return Err(damaged(&path, "has another type in its directory").into());
            }
            match inode.mode & TYPE {
                // Each directory has one parent, so no directory is met below itself.
                DIRECTORY if inode.parent != dir || name.ino == ROOT_INO => {
                    return Err(damaged(&path, "is in another directory than it tells").into());
                }
                DIRECTORY => levels.push(Level::new(name.ino, path.len())),
                _ => {}
            }
            let ino = name.ino;
            each(&path, Attr { ino, inode })?;
        }
        Ok(())
    }

    /// The way along `path`.
    fn walk(&mut self, path: &[u8]) -> Result<Found, OfflineError> {
        let (mut ino, mut inode) = (ROOT_INO, self.inode(ROOT_INO)?);
        let mut walked = Vec::new();
        let names = path.split(|byte| *byte == b'/');
        for name in names.filter(|name| !matches!(*name, b"" | b".")) {
            match inode.mode & TYPE {
                DIRECTORY => {}
                SYMLINK => return Err(self.link(&walked, ino)?),
                _ => return Err(OfflineError::NotDirectory(path_text(&walked))),
            }
            if ino != ROOT_INO {
                walked.push(b'/');
            }
            let Some(entry) = self.entry(ino, name)? else {
                return Ok(Found::Missing(ino, walked));
            };
            walked.extend(name);
            (ino, inode) = (entry.ino, self.inode(entry.ino)?);
        }
        Ok(Found::File(ino, inode))
    }

    /// The error for a symbolic link.
    fn link(&mut self, path: &[u8], ino: u64) -> Result<OfflineError, OfflineError> {
        let target = self.target(ino)?;
        Ok(OfflineError::SymbolicLink {
            path: path_text(path),
            target: path_text(&target),
        })
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// When a page cannot be read or is damaged.
    pub fn target(&mut self, ino: u64) -> Result<Vec<u8>, OfflineError> {
        let mut target = Vec::new();
        let first = Key {
            kind: item::TARGET,
            ..inode_key(ino)
        };
        self.scan(first, |key, value| {
            let is_own = (key.ino, key.kind) == (ino, item::TARGET) && target.len() < TARGET_MAX;
            target.extend(value.iter().filter(|_| is_own));
            is_own
        })?;
        Ok(target)
    }

    /// The `most` smallest names of a directory that are greater than `after`, in order, and whether these are all.
    fn smallest(
        &mut self,
        dir: u64,
        after: &[u8],
        most: usize,
    ) -> Result<(VecDeque<Name>, bool), OfflineError> {
        let (mut names, mut is_complete) = (BinaryHeap::new(), true);
        self.entries(dir, |entry| {
            let key = sort_key(entry);
            if key.as_slice() <= after {
                return;
            }
            let (ino, kind) = (entry.ino, entry.kind);
            names.push(Name { key, ino, kind });
            if names.len() > most {
                names.pop();
                is_complete = false;
            }
        })?;
        Ok((names.into_sorted_vec().into(), is_complete))
    }

    fn entry(&mut self, dir: u64, name: &[u8]) -> Result<Option<DirEntry>, OfflineError> {
        let places = places(self.hash_key, name);
        let (mut found, mut failed) = (None, None);
        self.scan(entry_key(dir, *places.start()), |key, value| {
            if (key.ino, key.kind) != (dir, item::ENTRY) || !places.contains(&key.at) {
                return false;
            }
            match DirEntry::decode(key.at, value) {
                Ok(entry) => found = Some(entry).filter(|entry| entry.name == name),
                Err(error) => failed = Some(error),
            }
            found.is_none() && failed.is_none()
        })?;
        failed.map_or(Ok(found), |error| Err(error.into()))
    }

    /// The entries of a directory, in the order of the hashes of their names.
    fn entries(&mut self, dir: u64, mut each: impl FnMut(&DirEntry)) -> Result<(), OfflineError> {
        let mut failed = None;
        self.scan(entry_key(dir, 0), |key, value| {
            if (key.ino, key.kind) != (dir, item::ENTRY) {
                return false;
            }
            match DirEntry::decode(key.at, value) {
                Ok(entry) => each(&entry),
                Err(error) => failed = Some(error),
            }
            failed.is_none()
        })?;
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    fn inode(&mut self, ino: u64) -> Result<Inode, OfflineError> {
        let found = self.run(|tree| tree.get(inode_key(ino)))?;
        let found = found.ok_or_else(|| {
            OfflineError::Damaged(format!("inode {ino} is named, and there is none"))
        })?;
        Ok(Inode::decode(&found)?)
    }

    fn scan(
        &mut self,
        from: Key,
        each: impl FnMut(Key, &[u8]) -> bool,
    ) -> Result<(), OfflineError> {
        self.run(|tree| tree.scan(from, each))
    }

    fn run<T>(
        &mut self,
        operation: impl FnOnce(&mut Tree<'_, ReadPages<R>>) -> Result<T, TreeError>,
    ) -> Result<T, OfflineError> {
        let done = operation(&mut Tree(&mut self.pages));
        done.map_err(|error| self.pages.reason(error))
    }

    fn header(&mut self) -> Result<TreeHeader, OfflineError> {
        self.run(|tree| tree.header())
    }

    /// True when nothing was ever written to the header page.
    fn is_blank(&mut self) -> Result<bool, OfflineError> {
        match self.pages.page(0) {
            Ok(page) => Ok(page.iter().all(|byte| *byte == 0)),
            Err(wait) => Err(self.pages.reason(wait.into())),
        }
    }
}

/// A name of a directory.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    key: Vec<u8>,
    ino: u64,
    kind: u8,
}

/// A directory on the way to the present file.
struct Level {
    dir: u64,
    /// Bytes of its path.
    path_len: usize,
    /// Names that are next.
    names: VecDeque<Name>,
    /// No names follow those.
    is_complete: bool,
    /// The last name so far.
    last: Vec<u8>,
}

impl Level {
    fn new(dir: u64, path_len: usize) -> Self {
        Self {
            dir,
            path_len,
            names: VecDeque::new(),
            is_complete: false,
            last: Vec::new(),
        }
    }
}

/// Forgets names of the uppermost directories until at most `most` are kept: these are gone on with last.
fn forget_names(levels: &mut [Level], kept: &mut usize, most: usize) {
    let Some((_, above)) = levels.split_last_mut() else {
        return;
    };
    for level in above {
        if *kept <= most {
            return;
        }
        if !level.names.is_empty() {
            *kept -= level.names.len();
            level.names = VecDeque::new();
            level.is_complete = false;
        }
    }
}

/// In the order of these, paths are in the order of their bytes.
fn sort_key(entry: &DirEntry) -> Vec<u8> {
    let mut key = entry.name.clone();
    if u32::from(entry.kind) << 12 == DIRECTORY {
        key.push(b'/');
    }
    key
}

fn damaged(path: &[u8], what: &str) -> OfflineError {
    OfflineError::Damaged(format!("{} {what}", path_text(path)))
}

fn twice(ino: u64) -> OfflineError {
    OfflineError::Damaged(format!("inode {ino} has a block twice"))
}

/// Pages that a closure reads. They cannot be changed.
struct ReadPages<R> {
    read: R,
    page_bytes: usize,
    count: u64,
    /// Page `n` is at place `n` modulo [`CACHED`].
    cache: Vec<Cached>,
    failed: Option<io::Error>,
}

struct Cached {
    /// The page, if there is one.
    number: Option<u64>,
    bytes: Vec<u8>,
}

impl<R> ReadPages<R> {
    fn new(page_bytes: usize, count: u64, read: R) -> Self {
        let cached = || Cached {
            number: None,
            bytes: Vec::new(),
        };
        Self {
            read,
            page_bytes,
            count,
            cache: std::iter::repeat_with(cached).take(CACHED).collect(),
            failed: None,
        }
    }

    /// Why an operation has ended.
    fn reason(&mut self, error: TreeError) -> OfflineError {
        match self.failed.take() {
            Some(error) => OfflineError::Page(error),
            None => OfflineError::Damaged(match error {
                TreeError::Damaged(why) => why,
                other => other.to_string(),
            }),
        }
    }
}

impl<R: FnMut(u64, &mut [u8]) -> io::Result<()>> Pages for ReadPages<R> {
    fn page(&mut self, page: u64) -> Result<&[u8], Wait> {
        let cached = &mut self.cache[(page % CACHED as u64) as usize];
        if cached.number != Some(page) {
            cached.number = None;
            cached.bytes.resize(self.page_bytes, 0);
            if let Err(error) = (self.read)(page, &mut cached.bytes) {
                self.failed = Some(error);
                return Err(Wait::Missing(page));
            }
            cached.number = Some(page);
        }
        Ok(&cached.bytes)
    }

    fn page_mut(&mut self, _: u64) -> Result<&mut [u8], Wait> {
        Err(Wait::Full)
    }

    fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
#[path = "offline_test.rs"]
mod offline_test;
