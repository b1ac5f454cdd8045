//! Opening and making the files and block devices that a store lives on.
//!
//! Invariants:
//! 1. Nothing is written to, or cut from, a file before its lock is held.
//! 2. What exists is overwritten only when the caller said so; what could not be made in full is
//!    removed again.
//! 3. A file that was made, and its name, are on stable storage when it is handed over.
//! 4. What is read of a member that another process has written is what the medium has, as far as the kernel lets one:
//!    where reads go through the page cache, that is emptied at the opening ([`empty_cache`]).

use crate::lock::{Lock, LockFailure, take};
use rustix::fs::{Advice, AtFlags, FileType, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tonearm_base::{ALIGN, BufPool};

/// Bytes of one write while a file is filled.
const FILL_BYTES: usize = 1 << 20;

/// How to open a member. The default opens what exists, for reading and writing, with direct I/O and
/// an exclusive lock.
pub struct MemberOptions<'a> {
    /// Make it first.
    pub create: Option<Create<'a>>,
    /// Open for reading alone.
    pub read_only: bool,
    /// Bypass the page cache where the file system can.
    pub direct: bool,
    /// Whom to keep out.
    pub lock: Lock,
}

/// What to make. A block device is not made but taken as it is, which needs `force`.
pub struct Create<'a> {
    /// Size of the file, a multiple of 4096; a block device must have at least as much.
    pub size_bytes: u64,
    /// Bytes to be written with zeroes, within the size: later writes find their space there, and the file system has to
    /// change nothing of its own for them. (After `fallocate` it does, at the first write to each place.)
    pub written: Range<u64>,
    /// Overwrite what is there.
    pub force: bool,
    /// Told the bytes filled so far and in all.
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

/// What a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberKind {
    /// A regular file.
    File,
    /// A block device.
    BlockDevice,
}

/// An open member; its lock lasts as long as `fd` and its duplicates.
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
    /// As given.
    pub path: PathBuf,
}

/// Why a member could not be opened or made. Each message names the path and what to do.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum MemberError {
    #[error("{path} is in use by {}; stop it first, or wait until it has ended", holder_text(*.holder))]
    InUse { path: PathText, holder: Option<u32> },
    #[error("{path} is mounted or otherwise used by the kernel; unmount it first")]
    DeviceBusy { path: PathText },
    #[error("{path} does not exist; check the path, or create the store first")]
    NotFound { path: PathText },
    #[error("{path} exists already; choose another path, or use --force to overwrite it")]
    Exists { path: PathText },
    #[error(
        "{path} is a block device, and all that is on it would be lost; use --force if you mean it"
    )]
    DeviceNeedsForce { path: PathText },
    #[error("{path} is neither a regular file nor a block device; choose another path")]
    WrongKind { path: PathText },
    #[error(
        "{path}: no permission; run as a user who may read and write it, or change its owner or mode"
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

/// A path, printed as it is.
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

/// Opens, or first makes, the member at `path`.
///
/// # Errors
/// See [`MemberError`]; nothing is left behind then.
pub fn open_member(path: &Path, options: MemberOptions<'_>) -> Result<Member, MemberError> {
    let at = At(path);
    let found = match rustix::fs::stat(path) {
        Ok(stat) => Some(FileType::from_raw_mode(stat.st_mode)),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(at.error("look at it", error)),
    };
    let (kind, make_new) = match (found, &options.create) {
        (None, None) => return Err(MemberError::NotFound { path: at.text() }),
        (None, Some(_)) => (MemberKind::File, true),
        (Some(FileType::RegularFile), create) => {
            if create.as_ref().is_some_and(|create| !create.force) {
                return Err(MemberError::Exists { path: at.text() });
            }
            (MemberKind::File, false)
        }
        (Some(FileType::BlockDevice), create) => {
            if create.as_ref().is_some_and(|create| !create.force) {
                return Err(MemberError::DeviceNeedsForce { path: at.text() });
            }
            (MemberKind::BlockDevice, false)
        }
        _ => return Err(MemberError::WrongKind { path: at.text() }),
    };
    if let Some(create) = &options.create {
        at.check_size(create, make_new)?;
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
            if let Err(error) = at.make(&fd, create) {
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
    // Whoever only looks may look at what another process has in use.
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
        path: path.to_path_buf(),
    })
}

/// Has the kernel write what it still holds, and then drop what it holds. After a failed flush it keeps pages that have
/// never reached the medium, calls them clean, and lets reads have them: they would be taken for the tail of a log.
pub(crate) fn empty_cache(
    sync: impl FnOnce() -> rustix::io::Result<()>,
    drop_pages: impl FnOnce() -> rustix::io::Result<()>,
) {
    // An error here is that of writes which nobody was told are durable: they are gone from the cache then, and from
    // what is read. A page that is still to be written cannot be dropped, so this comes first.
    let _ = sync();
    // It is advice: where it is not taken, things are as they were.
    let _ = drop_pages();
}

/// The path under work, for the errors.
struct At<'a>(&'a Path);

impl At<'_> {
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

    /// Refuses what cannot be made, before anything is.
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

    /// Opens without changing what is there. The flag tells whether direct I/O was granted.
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
            // On a block device, without CREATE: fails when the kernel itself uses it.
            flags |= OFlags::EXCL;
        }
        let mode = Mode::RUSR | Mode::WUSR;
        let open = |flags| rustix::fs::open(self.0, flags, mode);
        let mut direct = options.direct;
        let mut opened = open(flags | direct_flag(direct));
        if opened.as_ref().err() == Some(&Errno::INVAL) && direct {
            // The file system has no direct I/O. Some refuse only after they have made the file.
            direct = false;
            opened = match open(flags) {
                Err(Errno::EXIST) if make_new => open(flags - OFlags::EXCL),
                other => other,
            };
        }
        let fd = opened.map_err(|errno| match errno {
            Errno::BUSY if kind == MemberKind::BlockDevice => self.busy_device(),
            Errno::EXIST => MemberError::Exists { path: self.text() },
            Errno::NOENT => MemberError::NotFound {
                path: PathText(self.directory().to_path_buf()),
            },
            _ => self.error("open it", errno),
        })?;
        Ok((fd, direct))
    }

    /// A block device is taken: by a process that has it open as we would, or by the kernel.
    fn busy_device(&self) -> MemberError {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let probe = rustix::fs::open(self.0, flags, Mode::empty());
        let path = self.text();
        match probe.map(|fd| take(&fd, Lock::Shared, true)) {
            Ok(Err(LockFailure::Held(holder))) => MemberError::InUse { path, holder },
            _ => MemberError::DeviceBusy { path },
        }
    }

    /// Gives a new or emptied file its size, its space and a durable name.
    fn make(&self, fd: &OwnedFd, create: Create<'_>) -> Result<(), MemberError> {
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

    /// Some file systems grant direct I/O at the opening and refuse it later: one read tells.
    fn direct_works(&self, fd: &OwnedFd) -> Result<bool, MemberError> {
        let mut block = BufPool::new(0).alloc(ALIGN);
        match rustix::io::pread(fd, &mut block[..], 0) {
            Err(Errno::INVAL) => self.clear_direct(fd).map(|_| false),
            // Any other failure is told by the one who reads in earnest.
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
