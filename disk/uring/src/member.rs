//! Opens and creates the files and block devices of a store.
//!
//! Invariants:
//! 1. A file is neither written nor truncated before its lock is held.
//! 2. Existing content is overwritten only if the caller says so. A file that could not be created in full is removed.
//! 3. A created file and its name are on stable storage when it is returned.
//! 4. No file is made among the devices ([`Medium::Devices`]).
//! 5. Reads return what the medium has, even if another process wrote the member, as far as the kernel allows: if
//!    reads use the page cache, the opening empties it ([`empty_cache`]).

use crate::lock::{Lock, LockFailure, take};
use crate::medium::{Medium, refuse_devices, set_in_place};
use rustix::fs::{Advice, AtFlags, FileType, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tonearm_base::{ALIGN, BufPool};

/// Bytes of one write while a file is filled.
const FILL_BYTES: usize = 1 << 20;

/// How to open a member. By default: an existing one, for reading and writing, with direct I/O and an exclusive lock.
pub struct MemberOptions<'a> {
    /// Create it first.
    pub create: Option<Create<'a>>,
    /// Open it only for reading.
    pub read_only: bool,
    /// Bypass the page cache if the file system can.
    pub direct: bool,
    /// Whom the lock excludes.
    pub lock: Lock,
}

/// What to create. A block device keeps its size, and its use needs `force`.
pub struct Create<'a> {
    /// Size of the file, a multiple of 4096. A block device must have at least this size.
    pub size_bytes: u64,
    /// Range to fill with zeroes, within the size. Later writes there need no change of the file system's metadata.
    /// (After `fallocate`, the first write to each place changes them.)
    pub written: Range<u64>,
    /// Overwrite existing content.
    pub force: bool,
    /// Called with the bytes filled so far and in all.
    pub progress: Option<&'a mut dyn FnMut(u64, u64)>,
}

impl Default for MemberOptions<'_> {
    fn default() -> Self {
        Self {
            create: None,
            read_only: false,
            direct: true,
            lock: Lock::Exclusive,
        }
    }
}

/// Kind of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberKind {
    /// A regular file.
    File,
    /// A block device.
    BlockDevice,
}

/// An open member. Its lock lasts as long as `fd` and its duplicates.
#[derive(Debug)]
pub struct Member {
    /// For `UringHandle::add_file`.
    pub fd: OwnedFd,
    /// Size in bytes.
    pub size_bytes: u64,
    /// File or device.
    pub kind: MemberKind,
    /// Offsets and lengths of I/O must be multiples of it, in bytes.
    pub logical_block_size: u32,
    /// True when I/O bypasses the page cache.
    pub direct: bool,
    /// What is below a file that was made. A file system that overwrites it in place because of an attribute is plain.
    pub medium: Medium,
    /// As given.
    pub path: PathBuf,
}

/// Why a member could not be opened or created. Each message names the path and what to do.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum MemberError {
    #[error("{path} is in use by {}; stop it first, or wait until it has ended", holder_text(*.holder))]
    InUse { path: PathText, holder: Option<u32> },
    #[error("{path} is mounted or otherwise used by the kernel; unmount it first")]
    DeviceBusy { path: PathText },
    #[error("{path} does not exist; check the path, or create the store first")]
    NotFound { path: PathText },
    #[error("{path}: the folder {folder} does not exist; make it first: mkdir -p {folder}")]
    NoFolder { path: PathText, folder: PathText },
    #[error(
        "{path} is no block device, and a file below /dev lies in memory: the next start of the machine would lose it; \
         check the name of the device (lsblk shows all)"
    )]
    AmongDevices { path: PathText },
    #[error("{path} exists already; choose another path, or use --force to overwrite it")]
    Exists { path: PathText },
    #[error(
        "{path} is a block device, and all that is on it would be lost; use --force if you mean it"
    )]
    DeviceNeedsForce { path: PathText },
    #[error("{path} is neither a regular file nor a block device; choose another path")]
    WrongKind { path: PathText },
    #[error(
        "{path}: no permission; run as a user with read and write permission, or change its owner or mode"
    )]
    Permission { path: PathText },
    #[error("{path}: no room for {size_bytes} bytes{}; free some space, or choose a smaller size", available_text(*.available_bytes))]
    NoSpace {
        path: PathText,
        size_bytes: u64,
        available_bytes: Option<u64>,
    },
    #[error(
        "{path}: this file system does not allow a file of {size_bytes} bytes; choose a smaller size, or another file system"
    )]
    TooLarge { path: PathText, size_bytes: u64 },
    #[error(
        "{path} has {size_bytes} bytes, but {wanted_bytes} are wanted; choose a smaller size, or another device"
    )]
    DeviceTooSmall {
        path: PathText,
        size_bytes: u64,
        wanted_bytes: u64,
    },
    #[error(
        "{path}: a size of {size_bytes} bytes is not a multiple of 4096; choose one that is, and not 0"
    )]
    OddSize { path: PathText, size_bytes: u64 },
    #[error("{path}: cannot {action}: {source}")]
    Io {
        path: PathText,
        action: &'static str,
        #[source]
        source: io::Error,
    },
}

/// A path, printed without quotes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathText(pub PathBuf);

impl std::fmt::Display for PathText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.display().fmt(f)
    }
}

fn holder_text(holder: Option<u32>) -> String {
    match holder {
        Some(pid) => format!("process {pid}"),
        None => "another process (or this one, twice)".into(),
    }
}

fn available_text(available_bytes: Option<u64>) -> String {
    available_bytes.map_or(String::new(), |bytes| format!(", only for {bytes}"))
}

/// Opens the member at `path`, or creates it first.
///
/// # Errors
/// See [`MemberError`]. A file that was created is removed then.
pub fn open_member(path: &Path, options: MemberOptions<'_>) -> Result<Member, MemberError> {
    let at = At(path);
    let (kind, make_new) = at.kind(options.create.as_ref())?;
    let mut medium = Medium::Plain;
    if let Some(create) = &options.create {
        at.check_size(create, make_new)?;
        if kind == MemberKind::File {
            refuse_devices(path)?;
            medium = Medium::of(path);
        }
    }
    let (fd, direct) = at.open(&options, kind, make_new)?;
    take(&fd, options.lock, kind == MemberKind::BlockDevice).map_err(|failure| match failure {
        LockFailure::Held(holder) => MemberError::InUse {
            path: at.text(),
            holder,
        },
        LockFailure::Io(error) => {
            if make_new {
                let _ = rustix::fs::unlink(path);
            }
            at.error("lock it", error)
        }
    })?;
    let exists = options.create.is_none();
    match (kind, options.create) {
        (_, None) => {}
        (MemberKind::File, Some(create)) => {
            if let Err(error) = at.make(&fd, create, &mut medium) {
                let _ = rustix::fs::unlink(path);
                return Err(error);
            }
        }
        (MemberKind::BlockDevice, Some(create)) => {
            let size_bytes = at.size(&fd)?;
            if size_bytes < create.size_bytes {
                return Err(MemberError::DeviceTooSmall {
                    path: at.text(),
                    size_bytes,
                    wanted_bytes: create.size_bytes,
                });
            }
        }
    }
    let direct = direct && at.direct_works(&fd)?;
    // Without a lock another process may be using the member.
    if exists && !direct && options.lock != Lock::None {
        empty_cache(
            || rustix::fs::fdatasync(&fd),
            || rustix::fs::fadvise(&fd, 0, None, Advice::DontNeed),
        );
    }
    Ok(Member {
        size_bytes: at.size(&fd)?,
        logical_block_size: at.block_size(&fd, kind, direct),
        fd,
        kind,
        direct,
        medium,
        path: path.to_path_buf(),
    })
}

/// Has the kernel write the pages that it still holds, and then drop them. After a failed flush it keeps pages that
/// never reached the medium, marks them clean, and returns them to reads. Recovery would take them for the end of a log.
pub(crate) fn empty_cache(
    sync: impl FnOnce() -> rustix::io::Result<()>,
    drop_pages: impl FnOnce() -> rustix::io::Result<()>,
) {
    // A page that is still to be written cannot be dropped, so the flush comes first. An error here concerns writes that
    // were never reported durable; their pages are dropped then.
    let _ = sync();
    // The kernel may ignore this, which changes nothing.
    let _ = drop_pages();
}

/// The path, for error messages.
struct At<'a>(&'a Path);

impl At<'_> {
    /// The kind of the member that is there or is to be made, and whether it is to be made.
    fn kind(&self, create: Option<&Create>) -> Result<(MemberKind, bool), MemberError> {
        let found = match rustix::fs::stat(self.0) {
            Ok(stat) => Some(FileType::from_raw_mode(stat.st_mode)),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(self.error("look at it", error)),
        };
        match (found, create) {
            (None, None) => Err(MemberError::NotFound { path: self.text() }),
            (None, Some(_)) => Ok((MemberKind::File, true)),
            (Some(FileType::RegularFile), create) => {
                if create.is_some_and(|create| !create.force) {
                    return Err(MemberError::Exists { path: self.text() });
                }
                Ok((MemberKind::File, false))
            }
            (Some(FileType::BlockDevice), create) => {
                if create.is_some_and(|create| !create.force) {
                    return Err(MemberError::DeviceNeedsForce { path: self.text() });
                }
                Ok((MemberKind::BlockDevice, false))
            }
            _ => Err(MemberError::WrongKind { path: self.text() }),
        }
    }

    fn text(&self) -> PathText {
        PathText(self.0.to_path_buf())
    }

    fn error(&self, action: &'static str, errno: Errno) -> MemberError {
        match errno {
            Errno::ACCESS | Errno::PERM => MemberError::Permission { path: self.text() },
            _ => MemberError::Io {
                path: self.text(),
                action,
                source: errno.into(),
            },
        }
    }

    fn directory(&self) -> &Path {
        match self.0.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// Refuses impossible sizes before anything is created.
    fn check_size(&self, create: &Create<'_>, make_new: bool) -> Result<(), MemberError> {
        let size_bytes = create.size_bytes;
        if size_bytes == 0 || !size_bytes.is_multiple_of(ALIGN as u64) {
            return Err(MemberError::OddSize {
                path: self.text(),
                size_bytes,
            });
        }
        if size_bytes > i64::MAX as u64 {
            return Err(MemberError::TooLarge {
                path: self.text(),
                size_bytes,
            });
        }
        let written_bytes = create.written.end - create.written.start;
        if written_bytes > 0
            && make_new
            && let Ok(stat) = rustix::fs::statvfs(self.directory())
        {
            let available_bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
            if available_bytes < written_bytes {
                return Err(MemberError::NoSpace {
                    path: self.text(),
                    size_bytes,
                    available_bytes: Some(available_bytes),
                });
            }
        }
        Ok(())
    }

    /// Opens the file without changing its content. The flag says whether direct I/O was granted.
    fn open(
        &self,
        options: &MemberOptions<'_>,
        kind: MemberKind,
        make_new: bool,
    ) -> Result<(OwnedFd, bool), MemberError> {
        let mut flags = OFlags::CLOEXEC | OFlags::NOCTTY;
        flags |= if options.read_only {
            OFlags::RDONLY
        } else {
            OFlags::RDWR
        };
        if make_new {
            flags |= OFlags::CREATE | OFlags::EXCL;
        }
        if kind == MemberKind::BlockDevice && options.lock == Lock::Exclusive {
            // On a block device, EXCL without CREATE fails when the kernel itself uses it.
            flags |= OFlags::EXCL;
        }
        let mode = Mode::RUSR | Mode::WUSR;
        let open = |flags| rustix::fs::open(self.0, flags, mode);
        let mut direct = options.direct;
        let mut opened = open(flags | direct_flag(direct));
        if opened.as_ref().err() == Some(&Errno::INVAL) && direct {
            // The file system has no direct I/O. Some refuse it only after they have created the file.
            direct = false;
            opened = match open(flags) {
                Err(Errno::EXIST) if make_new => open(flags - OFlags::EXCL),
                other => other,
            };
        }
        let fd = opened.map_err(|errno| match errno {
            Errno::BUSY if kind == MemberKind::BlockDevice => self.busy_device(),
            Errno::EXIST => MemberError::Exists { path: self.text() },
            Errno::NOENT => MemberError::NoFolder {
                path: self.text(),
                folder: PathText(self.directory().to_path_buf()),
            },
            _ => self.error("open it", errno),
        })?;
        Ok((fd, direct))
    }

    /// The error of a block device in use: by a process that has locked it, or by the kernel.
    fn busy_device(&self) -> MemberError {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let probe = rustix::fs::open(self.0, flags, Mode::empty());
        let path = self.text();
        match probe.map(|fd| take(&fd, Lock::Shared, true)) {
            Ok(Err(LockFailure::Held(holder))) => MemberError::InUse { path, holder },
            _ => MemberError::DeviceBusy { path },
        }
    }

    /// Gives a new file its size, its space and a durable name.
    fn make(
        &self,
        fd: &OwnedFd,
        create: Create<'_>,
        medium: &mut Medium,
    ) -> Result<(), MemberError> {
        let size_bytes = create.size_bytes;
        let refused = |action, errno| match errno {
            Errno::FBIG | Errno::INVAL if action == "set its size" => MemberError::TooLarge {
                path: self.text(),
                size_bytes,
            },
            Errno::NOSPC | Errno::DQUOT => MemberError::NoSpace {
                path: self.text(),
                size_bytes,
                available_bytes: None,
            },
            _ => self.error(action, errno),
        };
        rustix::fs::ftruncate(fd, 0).map_err(|errno| refused("empty it", errno))?;
        if matches!(medium, Medium::CopyOnWrite(_)) && set_in_place(fd) {
            *medium = Medium::Plain;
        }
        rustix::fs::ftruncate(fd, size_bytes).map_err(|errno| refused("set its size", errno))?;
        let Range { start, end } = create.written;
        let mut progress = create.progress;
        let zeroes = BufPool::new(0).alloc_zeroed(FILL_BYTES);
        let mut at = start;
        while at < end {
            let part = &zeroes[..(end - at).min(FILL_BYTES as u64) as usize];
            match rustix::io::pwrite(fd, part, at) {
                Ok(0) => return Err(refused("fill it", Errno::IO)),
                Ok(written) => at += written as u64,
                Err(Errno::INTR) => continue,
                Err(Errno::INVAL) if self.clear_direct(fd)? => continue,
                Err(errno) => return Err(refused("fill it", errno)),
            }
            if let Some(progress) = &mut progress {
                progress(at - start, end - start);
            }
        }
        rustix::fs::fsync(fd).map_err(|errno| refused("flush it", errno))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(self.directory(), flags, Mode::empty())
            .map_err(|errno| refused("open its directory", errno))?;
        rustix::fs::fsync(&directory).map_err(|errno| refused("flush its directory", errno))
    }

    /// Turns direct I/O off; false when it was off.
    fn clear_direct(&self, fd: &OwnedFd) -> Result<bool, MemberError> {
        let flags = rustix::fs::fcntl_getfl(fd).map_err(|errno| self.error("ask it", errno))?;
        if !flags.contains(OFlags::DIRECT) {
            return Ok(false);
        }
        rustix::fs::fcntl_setfl(fd, flags - OFlags::DIRECT)
            .map_err(|errno| self.error("turn direct I/O off", errno))?;
        Ok(true)
    }

    /// Tests direct I/O with one read: some file systems grant it at the opening and refuse it later.
    fn direct_works(&self, fd: &OwnedFd) -> Result<bool, MemberError> {
        let mut block = BufPool::new(0).alloc(ALIGN);
        match rustix::io::pread(fd, &mut block[..], 0) {
            Err(Errno::INVAL) => self.clear_direct(fd).map(|_| false),
            // Later reads report any other failure.
            _ => Ok(rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::DIRECT))),
        }
    }

    fn size(&self, fd: &OwnedFd) -> Result<u64, MemberError> {
        rustix::fs::seek(fd, SeekFrom::End(0)).map_err(|errno| self.error("find its size", errno))
    }

    fn block_size(&self, fd: &OwnedFd, kind: MemberKind, direct: bool) -> u32 {
        if kind == MemberKind::BlockDevice {
            return rustix::fs::ioctl_blksszget(fd).unwrap_or(ALIGN as u32);
        }
        if !direct {
            return 1;
        }
        match rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
            Ok(stat) if stat.stx_dio_offset_align > 0 => stat.stx_dio_offset_align,
            _ => ALIGN as u32,
        }
    }
}

fn direct_flag(direct: bool) -> OFlags {
    if direct {
        OFlags::DIRECT
    } else {
        OFlags::empty()
    }
}
