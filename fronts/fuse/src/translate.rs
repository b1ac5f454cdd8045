//! Translates between the file system and the protocol: attributes, times, errors.

use fuser::{FileAttr, FileType, Generation, INodeNo};
use rustix::io::Errno;
use std::time::{Duration, SystemTime};
use tonearm_fs::{Attr, FsError, ROOT_INO, Time};

/// Bits of the type in a mode.
pub(crate) const TYPE: u32 = 0o170_000;
/// The type of a regular file.
pub(crate) const REGULAR: u32 = 0o100_000;
/// The type of a directory.
pub(crate) const DIRECTORY: u32 = 0o040_000;
const SET_UID: u32 = 0o4000;
pub(crate) const SET_GID: u32 = 0o2000;
const GROUP_EXECUTES: u32 = 0o0010;

/// The unit of `st_blocks`, in bytes.
const STAT_BLOCK: u64 = 512;

/// The error number of a failed operation. What concerns the medium is EIO for this operation alone.
pub(crate) fn errno(error: &FsError) -> Errno {
    match error {
        FsError::NotFound => Errno::NOENT,
        FsError::Exists => Errno::EXIST,
        FsError::NotDirectory => Errno::NOTDIR,
        FsError::IsDirectory => Errno::ISDIR,
        FsError::NotEmpty => Errno::NOTEMPTY,
        FsError::NameTooLong => Errno::NAMETOOLONG,
        FsError::Invalid(_) => Errno::INVAL,
        FsError::NotPermitted(_) | FsError::NotOwner => Errno::PERM,
        FsError::TooManyLinks => Errno::MLINK,
        FsError::TooLarge => Errno::FBIG,
        FsError::NoAttribute => Errno::NODATA,
        FsError::AttributeTooLarge(_) | FsError::TooManyAttributes | FsError::NoSpaceBelow => {
            Errno::NOSPC
        }
        FsError::NothingBehind => Errno::NXIO,
        FsError::Unsupported(_) => Errno::OPNOTSUPP,
        FsError::Conflict(_) | FsError::UnitEnded(_) => Errno::CANCELED,
        FsError::UnitTooLarge => Errno::NOSPC,
        FsError::TooManyUnits(_) => Errno::AGAIN,
        FsError::Busy(_) => Errno::BUSY,
        FsError::Damaged(_) => Errno::IO,
        FsError::Disk(_) if error.is_full() => Errno::NOSPC,
        FsError::Disk(_) if error.is_read_only() => Errno::ROFS,
        FsError::Disk(_) if error.is_conflict() => Errno::CANCELED,
        FsError::Disk(_) => Errno::IO,
    }
}

/// `st_mode` without the bits that a change of content or owner takes: set-user-id, and set-group-id where the group may
/// execute. Elsewhere set-group-id is no privilege.
pub(crate) fn without_privilege(mode: u32) -> u32 {
    if mode & TYPE == DIRECTORY {
        return mode;
    }
    let group = match mode & GROUP_EXECUTES {
        0 => 0,
        _ => SET_GID,
    };
    mode & !(SET_UID | group)
}

/// Attributes as the protocol has them. `block_size` is that of the store.
pub(crate) fn attributes(attr: &Attr, block_size: u32) -> FileAttr {
    let inode = &attr.inode;
    FileAttr {
        ino: INodeNo(attr.ino),
        size: inode.size,
        blocks: inode.blocks * (u64::from(block_size) / STAT_BLOCK),
        atime: system_time(inode.atime),
        mtime: system_time(inode.mtime),
        ctime: system_time(inode.ctime),
        crtime: system_time(inode.btime),
        kind: file_type((inode.mode >> 12) as u8),
        perm: (inode.mode & !TYPE) as u16,
        nlink: inode.nlink,
        uid: inode.uid,
        gid: inode.gid,
        rdev: inode.rdev,
        blksize: block_size,
        flags: 0,
    }
}

/// What distinguishes files that have had one number: that of a file which a crash or an aborted unit has taken back is given again.
/// The root is always the same, and the kernel takes it for 0.
pub(crate) fn generation(attr: &Attr) -> Generation {
    let Time { s, ns } = attr.inode.btime;
    let nanoseconds = s.wrapping_mul(1_000_000_000).wrapping_add(ns.into());
    // The kernel keeps 32 bits.
    Generation(match attr.ino {
        ROOT_INO => 0,
        _ => (nanoseconds as u64) & u64::from(u32::MAX),
    })
}

/// The kind of a file from the upper four bits of its mode.
pub(crate) fn file_type(kind: u8) -> FileType {
    match kind {
        0o01 => FileType::NamedPipe,
        0o02 => FileType::CharDevice,
        0o04 => FileType::Directory,
        0o06 => FileType::BlockDevice,
        0o12 => FileType::Symlink,
        0o14 => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

fn system_time(time: Time) -> SystemTime {
    let whole = Duration::from_secs(time.s.unsigned_abs());
    let second = match time.s {
        0.. => SystemTime::UNIX_EPOCH + whole,
        _ => SystemTime::UNIX_EPOCH - whole,
    };
    second + Duration::from_nanos(u64::from(time.ns))
}

/// A moment of a request. fuser makes `-s - ns` of a moment before 1970 that is `-s + ns`.
pub(crate) fn requested_time(time: SystemTime) -> Time {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => Time {
            s: after.as_secs() as i64,
            ns: after.subsec_nanos(),
        },
        Err(before) => Time {
            s: 0i64.wrapping_sub_unsigned(before.duration().as_secs()),
            ns: before.duration().subsec_nanos(),
        },
    }
}
