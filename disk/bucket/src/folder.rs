//! An archive in a folder.
//!
//! The disk under the folder may go away and come back: a stick is pulled, a share is mounted late. Then the path still names
//! a folder, that of the mount point, or one that another disk has. So:
//!
//! 1. No descriptor is kept between two operations; it would keep the disk from being unmounted. Each operation opens the
//!    folder again, and does all that it does below that descriptor.
//! 2. A folder with another device or inode than the one before is used only when it has the object that this process put
//!    last.
//! 3. The folder is made at the first start of the archive alone, and its parents never. A note next to the store says where
//!    its archives have been. With such a note, a folder that is missing or empty is waited for.
//!
//! An object gets its name when its content is durable, by renameat2(2) with RENAME_NOREPLACE, or by link(2): both succeed only
//! where there is none. A place with neither is refused.

use crate::bucket::Making;
use crate::own_mounts::OwnMounts;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Advice, AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tonearm_archive::BucketError;

/// The object that each start of an archive puts, and that nobody deletes.
const FIRST: &str = "probe";
/// Bytes that are written at once.
const STEP: usize = 1 << 20;
/// Most bytes for which there is memory before there is content.
const ROOM_BYTES: u64 = 32 << 20;
/// From so many objects on their heads are read by several threads.
const MANY: usize = 64;
const READERS: usize = 16;

type Result<T> = std::result::Result<T, BucketError>;
/// Gives a durable object its name, where there is none.
type Publish = fn(&OwnedFd, &str, &str) -> std::result::Result<(), Errno>;

/// Makes a file or folder durable.
type MakeDurable = fn(BorrowedFd<'_>) -> std::result::Result<(), Errno>;

/// The ways of [`Publish`] that are tried, each once the one before is not supported.
const WAYS: [Publish; 2] = [
    |root, from, to| rustix::fs::renameat_with(root, from, root, to, RenameFlags::NOREPLACE),
    |root, from, to| {
        rustix::fs::linkat(root, from, root, to, AtFlags::empty())?;
        // Both names are the same object. Lists leave this one out.
        let _ = rustix::fs::unlinkat(root, from, AtFlags::empty());
        Ok(())
    },
];

/// Who uses a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum User {
    /// A reader: the folder is there.
    Reader,
    /// The writer of an archive.
    Writer(Making),
}

/// A folder.
pub(crate) struct Folder {
    url: String,
    path: PathBuf,
    user: User,
    /// An archive on a mount of the store itself would feed itself.
    own_mounts: OwnMounts,
    known: Mutex<Known>,
    /// Part of the names of objects that are being written.
    writing: AtomicU64,
    ways: Vec<Publish>,
    sync: MakeDurable,
}

/// What is known of the folder.
#[derive(Default)]
struct Known {
    /// Its device and inode.
    identity: Option<(u64, u64)>,
    /// The last object that was put.
    witness: Option<String>,
    /// The note has the address.
    is_noted: bool,
}

impl Folder {
    pub(crate) fn new(url: &str, path: PathBuf, user: User) -> Self {
        Self {
            url: url.to_string(),
            path,
            user,
            own_mounts: OwnMounts::default(),
            known: Mutex::default(),
            writing: AtomicU64::new(0),
            ways: WAYS.to_vec(),
            sync: |file| rustix::fs::fsync(file),
        }
    }

    /// The same, which refuses to lie on one of these mount points.
    pub(crate) fn outside(mut self, mounts: OwnMounts) -> Self {
        self.own_mounts = mounts;
        self
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the folder, and makes sure that it is the right one.
    fn root(&self) -> Result<OwnedFd> {
        let mut known = self.known();
        let folder = match open_folder(&self.path) {
            Err(Errno::NOENT) if known.identity.is_none() && self.may_make()? => {
                self.make()?;
                open_folder(&self.path)
            }
            other => other,
        };
        let folder = folder.map_err(|error| self.away(error))?;
        let stat = rustix::fs::fstat(&folder).map_err(|error| self.away(error))?;
        let identity = (stat.st_dev, stat.st_ino);
        if known.identity != Some(identity) {
            self.verify(&folder, identity.0, &known)?;
            known.identity = Some(identity);
        }
        Ok(folder)
    }

    fn away(&self, error: Errno) -> BucketError {
        let folder = self.path.display();
        match error {
            Errno::NOENT => BucketError::Transient(format!(
                "the folder {folder} is not there: is its disk mounted? {}",
                self.advice()
            )),
            Errno::NOTDIR => BucketError::Refused(format!("{folder} is no folder")),
            other => failed(&format!("the folder {folder}"), other),
        }
    }

    /// What to do when the archive is not away, but gone.
    fn advice(&self) -> String {
        match &self.user {
            User::Writer(Making::Noted(note)) => format!(
                "To begin a new archive there, stop this one, and delete the address from {}",
                note.display()
            ),
            _ => "If there never was one, make it".into(),
        }
    }

    /// True when the folder may be made: the store was never archived there.
    fn may_make(&self) -> Result<bool> {
        Ok(match &self.user {
            User::Reader | User::Writer(Making::Never) => false,
            User::Writer(Making::Noted(note)) => !self.is_noted(note)?,
        })
    }

    fn make(&self) -> Result<()> {
        let folder = self.path.display();
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        self.check_own_mounts(parent, None)?;
        let mode = Mode::RWXU;
        match rustix::fs::mkdir(&self.path, mode) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(Errno::NOENT | Errno::NOTDIR) => {
                return Err(BucketError::Refused(format!(
                    "the folder {folder} cannot be made, because {} is not there; make it, or mount its disk, or check the \
                     address",
                    parent.display()
                )));
            }
            Err(error) => {
                return Err(failed(
                    &format!("the folder {folder} cannot be made"),
                    error,
                ));
            }
        }
        let synced = open_folder(parent).and_then(|parent| (self.sync)(parent.as_fd()));
        synced.map_err(|error| failed(&parent.display().to_string(), error))
    }

    /// Finds out whether `folder`, which is another one than before, is the right one.
    fn verify(&self, folder: &OwnedFd, device: u64, known: &Known) -> Result<()> {
        self.check_own_mounts(&self.path, Some(device))?;
        let was_here = match &self.user {
            User::Reader => return Ok(()),
            User::Writer(Making::Noted(note)) => self.is_noted(note)?,
            User::Writer(_) => false,
        };
        let witness = match &known.witness {
            Some(object) => Some(object.as_str()),
            None => (was_here || known.identity.is_some()).then_some(FIRST),
        };
        if let Some(object) = witness
            && let Err(error) = rustix::fs::statat(folder, object, AtFlags::SYMLINK_NOFOLLOW)
        {
            return Err(match error {
                Errno::NOENT | Errno::NOTDIR => BucketError::Transient(format!(
                    "{} is not the folder where the archive was, because object {object} is not there: is its disk \
                     mounted? {}",
                    self.path.display(),
                    self.advice()
                )),
                other => failed(object, other),
            });
        }
        Ok(())
    }

    /// Refuses a folder on a mount of the store itself. `path` is the folder, or its parent.
    fn check_own_mounts(&self, path: &Path, device: Option<u64>) -> Result<()> {
        match self.own_mounts.holding(path, device) {
            None => Ok(()),
            Some(mount) => Err(BucketError::Refused(format!(
                "the folder {} is on the store's own mount at {}, so each object would change the store; choose a folder on \
                 another disk",
                self.path.display(),
                mount.display()
            ))),
        }
    }

    fn is_noted(&self, note: &Path) -> Result<bool> {
        Ok(self.notes(note)?.lines().any(|line| line == self.line()))
    }

    fn line(&self) -> &str {
        self.url.trim_end_matches('/')
    }

    fn notes(&self, note: &Path) -> Result<String> {
        match std::fs::read_to_string(note) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(BucketError::Transient(format!(
                "{}: {error}",
                note.display()
            ))),
        }
    }

    /// Notes durably that the store is archived here, now that an object is here: an empty folder is the right one until then.
    fn take_note(&self) -> Result<()> {
        let User::Writer(Making::Noted(note)) = &self.user else {
            return Ok(());
        };
        if self.known().is_noted || self.is_noted(note)? {
            self.known().is_noted = true;
            return Ok(());
        }
        let text = format!("{}{}\n", self.notes(note)?, self.line());
        let folder = match note.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut partial = note.as_os_str().to_owned();
        partial.push(".partial");
        let write = || {
            let _ = std::fs::remove_file(&partial);
            let file = rustix::fs::open(
                Path::new(&partial),
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC,
                Mode::RUSR | Mode::WUSR,
            )?;
            let mut file = File::from(file);
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&partial, note)?;
            Ok::<_, std::io::Error>(rustix::fs::fsync(open_folder(folder)?)?)
        };
        let written = write().map_err(|error| {
            let note = note.display();
            BucketError::Transient(format!("the note {note} cannot be written: {error}"))
        });
        self.known().is_noted = written.is_ok();
        written
    }

    /// Puts an object where there is none; false when there is one. `beat` is called as it goes forward.
    pub(crate) fn put_new(&self, name: &str, object: &[u8], beat: &dyn Fn()) -> Result<bool> {
        let root = self.root()?;
        let wrong = |error| failed(name, error);
        let folder = make_folders(&root, name, self.sync).map_err(wrong)?;
        if is_object(&root, name).map_err(wrong)? {
            // The put that has made it may have failed since, when its name was to be durable.
            (self.sync)(folder.as_fd()).map_err(wrong)?;
            self.take_note()?;
            return Ok(false);
        }
        let number = self.writing.fetch_add(1, Ordering::Relaxed);
        let partial = format!("{name}#{}-{number}", std::process::id());
        let put = self.write(&root, &partial, object, beat).and_then(|()| {
            beat();
            let put = self.publish(&root, &partial, name)?;
            (self.sync)(folder.as_fd()).map_err(wrong)?;
            Ok(put)
        });
        match put {
            Ok(true) => self.known().witness = Some(name.to_string()),
            // What is left of it is no object.
            _ => drop(rustix::fs::unlinkat(&root, &partial, AtFlags::empty())),
        }
        let put = put?;
        self.take_note()?;
        Ok(put)
    }

    fn write(&self, root: &OwnedFd, name: &str, object: &[u8], beat: &dyn Fn()) -> Result<()> {
        let wrong = |error| failed(name, error);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(root, name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(file.map_err(wrong)?);
        for part in object.chunks(STEP) {
            file.write_all(part).map_err(|error| wrong(errno(&error)))?;
            beat();
        }
        (self.sync)(file.as_fd()).map_err(wrong)?;
        // Nobody reads a new object soon, so the host can use the memory for something else. The kernel also writes the next
        // object faster into pages that it has just used.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
        Ok(())
    }

    /// Gives an object its name; false when there is one.
    fn publish(&self, root: &OwnedFd, partial: &str, name: &str) -> Result<bool> {
        let mut last = Errno::NOSYS;
        for way in &self.ways {
            match way(root, partial, name) {
                Ok(()) => return Ok(true),
                Err(Errno::EXIST) => return Ok(false),
                Err(
                    error @ (Errno::PERM
                    | Errno::OPNOTSUPP
                    | Errno::MLINK
                    | Errno::NOSYS
                    | Errno::INVAL),
                ) => {
                    last = error;
                }
                Err(error) => return Err(failed(name, error)),
            }
        }
        Err(BucketError::Refused(format!(
            "the file system of {} neither renames a file only where there is none (renameat2) nor makes hard links \
             ({last}), so two servers could write one archive; use a folder on another file system",
            self.path.display()
        )))
    }

    /// The object, of a longer one the first `most` + 1 bytes; none when there is none.
    pub(crate) fn get(&self, name: &str, most: u64, beat: &dyn Fn()) -> Result<Option<Vec<u8>>> {
        let root = self.root()?;
        let Some((mut file, bytes)) = open_object(&root, name)? else {
            return Ok(None);
        };
        // A sparse file may have any size. Memory is taken as the content comes.
        let room = bytes.min(most).min(ROOM_BYTES) + 1;
        let mut object = Vec::with_capacity(room as usize);
        loop {
            let left = most.saturating_add(1) - object.len() as u64;
            let read = (&mut file)
                .take(left.min(STEP as u64))
                .read_to_end(&mut object);
            match read.map_err(|error| failed(name, errno(&error)))? {
                0 => return Ok(Some(object)),
                _ => beat(),
            }
        }
    }

    /// The first `bytes` bytes of each of the objects that are there and so long.
    pub(crate) fn heads(
        &self,
        names: &[String],
        bytes: usize,
        beat: &(dyn Fn() + Sync),
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let root = self.root()?;
        let head = |name: &String| {
            beat();
            let Some((file, _)) = open_object(&root, name)? else {
                return Ok(None);
            };
            let mut head = vec![0; bytes];
            match file.read_exact_at(&mut head, 0) {
                Ok(()) => Ok(Some(head)),
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
                Err(error) => Err(failed(name, errno(&error))),
            }
        };
        if names.len() < MANY {
            return names.iter().map(head).collect();
        }
        let parts = std::thread::scope(|scope| {
            let part = |names: &'_ [String]| names.iter().map(head).collect::<Result<Vec<_>>>();
            let threads = names.chunks(names.len().div_ceil(READERS));
            let threads: Vec<_> = threads
                .map(|names| scope.spawn(move || part(names)))
                .collect();
            let ended = threads.into_iter().map(|thread| {
                let ended = thread.join();
                ended
                    .unwrap_or_else(|_| Err(BucketError::Transient("a reader has panicked".into())))
            });
            ended.collect::<Result<Vec<_>>>()
        });
        Ok(parts?.into_iter().flatten().collect())
    }

    /// The names of the objects below `folder`.
    pub(crate) fn list(&self, folder: &str, beat: &dyn Fn()) -> Result<Vec<String>> {
        let root = self.root()?;
        let mut names = Vec::new();
        let mut left = BTreeSet::from([folder.to_string()]);
        while let Some(folder) = left.pop_first() {
            beat();
            let wrong = |error| failed(&folder, error);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = match rustix::fs::openat(&root, &*folder, flags, Mode::empty()) {
                Err(Errno::NOENT) => continue,
                other => other.map_err(wrong)?,
            };
            for entry in Dir::read_from(&opened).map_err(wrong)? {
                // A folder may have many entries, and its disk may be slow.
                beat();
                let entry = entry.map_err(wrong)?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                // No object has such a name, and none that is being written counts.
                let Some(name) = name.to_str().filter(|name| !name.contains('#')) else {
                    continue;
                };
                if matches!(name, "." | "..") {
                    continue;
                }
                let path = format!("{folder}/{name}");
                let kind = match entry.file_type() {
                    FileType::Unknown => kind_of(&root, &path).map_err(wrong)?,
                    known => Some(known),
                };
                match kind {
                    Some(FileType::Directory) => drop(left.insert(path)),
                    Some(FileType::RegularFile) => names.push(path),
                    _ => {}
                }
            }
        }
        Ok(names)
    }

    /// Deletes an object, if there is one.
    pub(crate) fn delete(&self, name: &str) -> Result<()> {
        let root = self.root()?;
        let mut known = self.known();
        if known.witness.as_deref() == Some(name) {
            known.witness = None;
        }
        drop(known);
        match rustix::fs::unlinkat(&root, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(error) => Err(failed(name, error)),
        }
    }
}

/// What an error means. A user who may not use a folder may be allowed to later; a disk that is full or fails may be replaced.
fn failed(what: &str, error: Errno) -> BucketError {
    let text = format!("{what}: {}", std::io::Error::from(error));
    match error {
        Errno::ACCESS | Errno::PERM | Errno::ROFS => BucketError::Denied(text),
        _ => BucketError::Transient(text),
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn open_folder(path: &Path) -> std::result::Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

fn kind_of(root: &OwnedFd, path: &str) -> std::result::Result<Option<FileType>, Errno> {
    match rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_object(root: &OwnedFd, name: &str) -> std::result::Result<bool, Errno> {
    Ok(kind_of(root, name)?.is_some())
}

/// Opens a plain file below `root`, with its size.
fn open_object(root: &OwnedFd, name: &str) -> Result<Option<(File, u64)>> {
    // A pipe of that name must not hold the reader.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::openat(root, name, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        other => other.map_err(|error| failed(name, error))?,
    };
    let stat = rustix::fs::fstat(&file).map_err(|error| failed(name, error))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Some((File::from(file), stat.st_size as u64))),
        _ => Ok(None),
    }
}

/// Makes the folders in `name` below `root` durably. Returns the last one.
fn make_folders(
    root: &OwnedFd,
    name: &str,
    sync: MakeDurable,
) -> std::result::Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = rustix::io::fcntl_dupfd_cloexec(root.as_fd(), 0)?;
    let parts: Vec<&str> = name.split('/').collect();
    for part in &parts[..parts.len() - 1] {
        match rustix::fs::mkdirat(&folder, *part, Mode::RWXU) {
            Ok(()) => sync(folder.as_fd())?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        folder = rustix::fs::openat(&folder, *part, flags, Mode::empty())?;
    }
    Ok(folder)
}

#[cfg(test)]
#[path = "folder_test.rs"]
mod folder_test;
