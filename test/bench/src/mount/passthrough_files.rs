//! The files of the passthrough file system that the kernel knows, and those that are open.

use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::{AtFlags, Mode, OFlags, Stat, Timestamps, openat, statat};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};

/// Number of the root in the protocol.
const ROOT: u64 = 1;

/// Where a file is. Only directories stay open: there may be more files than the system lets a process have open.
#[derive(Clone)]
struct Place {
    directory: Arc<OwnedFd>,
    /// In this directory; "." for the directory itself.
    name: OsString,
}

struct Known {
    place: Place,
    /// Lookups that the kernel has not forgotten.
    lookups: u64,
}

/// What the kernel knows, and what is open.
pub struct Files {
    known: RwLock<HashMap<u64, Known>>,
    open: RwLock<(u64, HashMap<u64, Arc<File>>)>,
}

impl Files {
    /// A file system whose root is the folder `root`.
    pub fn new(root: OwnedFd) -> Self {
        let place = Place {
            directory: Arc::new(root),
            name: ".".into(),
        };
        Self {
            known: RwLock::new(HashMap::from([(ROOT, Known { place, lookups: 1 })])),
            open: RwLock::default(),
        }
    }

    fn place(&self, ino: INodeNo) -> Result<Place> {
        let known = self.known.read().expect("no panic");
        known
            .get(&ino.0)
            .map(|it| it.place.clone())
            .ok_or(Errno::STALE)
    }

    /// A directory that the kernel knows.
    pub fn directory(&self, ino: INodeNo) -> Result<Arc<OwnedFd>> {
        Ok(self.place(ino)?.directory)
    }

    /// Looks up the file `name` in `parent`. Its number is that of the file system below.
    pub fn look_up(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr> {
        let parent = self.directory(parent)?;
        let stat = statat(&*parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let attr = attributes(&stat);
        let place = match attr.kind {
            FileType::Directory => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let directory = openat(&*parent, name, flags, Mode::empty())?;
                Place {
                    directory: Arc::new(directory),
                    name: ".".into(),
                }
            }
            _ => Place {
                directory: parent,
                name: name.to_owned(),
            },
        };
        let mut known = self.known.write().expect("no panic");
        let lookups = known.get(&stat.st_ino).map_or(0, |it| it.lookups) + 1;
        // The number may be that of a deleted file that the kernel has not forgotten yet.
        known.insert(stat.st_ino, Known { place, lookups });
        Ok(attr)
    }

    /// The kernel has forgotten `count` lookups.
    pub fn forget(&self, ino: INodeNo, count: u64) {
        let mut known = self.known.write().expect("no panic");
        if let Some(file) = known.get_mut(&ino.0) {
            file.lookups -= count.min(file.lookups);
            if file.lookups == 0 && ino.0 != ROOT {
                known.remove(&ino.0);
            }
        }
    }

    /// Attributes of a file.
    pub fn attributes(&self, ino: INodeNo) -> Result<FileAttr> {
        let Place { directory, name } = self.place(ino)?;
        let stat = statat(&*directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(attributes(&stat))
    }

    /// Opens a file that the kernel knows.
    pub fn open(&self, ino: INodeNo, flags: OFlags) -> Result<File> {
        let Place { directory, name } = self.place(ino)?;
        let flags = flags | OFlags::CLOEXEC;
        openat(&*directory, name, flags, Mode::empty()).map(File::from)
    }

    /// Gives an open file a handle.
    pub fn put(&self, file: File) -> u64 {
        let (next, open) = &mut *self.open.write().expect("no panic");
        *next += 1;
        open.insert(*next, Arc::new(file));
        *next
    }

    /// The file of a handle.
    pub fn get(&self, handle: u64) -> Result<Arc<File>> {
        let open = self.open.read().expect("no panic");
        open.1.get(&handle).cloned().ok_or(Errno::BADF)
    }

    /// Closes a handle.
    pub fn close(&self, handle: u64) {
        self.open.write().expect("no panic").1.remove(&handle);
    }

    /// Reads an extended attribute. Returns its length.
    pub fn xattr(&self, ino: INodeNo, attribute: &OsStr, value: &mut [u8]) -> Result<usize> {
        let Place { directory, name } = self.place(ino)?;
        let folder = format!("/proc/self/fd/{}", directory.as_raw_fd());
        rustix::fs::lgetxattr(Path::new(&folder).join(name), attribute, value)
    }

    /// Sets the times of a file.
    pub fn set_times(&self, ino: INodeNo, times: &Timestamps) -> Result<()> {
        let Place { directory, name } = self.place(ino)?;
        rustix::fs::utimensat(&*directory, name, times, AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Attributes as the protocol has them.
pub fn attributes(stat: &Stat) -> FileAttr {
    let time = |seconds: i64, nanos: u64| {
        let seconds = Duration::from_secs(seconds.max(0) as u64);
        SystemTime::UNIX_EPOCH + seconds + Duration::from_nanos(nanos)
    };
    FileAttr {
        ino: INodeNo(stat.st_ino),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: SystemTime::UNIX_EPOCH,
        kind: match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
            rustix::fs::FileType::Directory => FileType::Directory,
            _ => FileType::RegularFile,
        },
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: 0,
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}
