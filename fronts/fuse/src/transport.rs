//! The protocol between the kernel and the server, by `fuser` over /dev/fuse. Everything that knows `fuser`'s requests is in this
//! file, and its replies in `reply.rs`, so that another transport can take their place.
//!
//! Each method makes a [`Request`] of what it gets and sends it to the engine, which answers it. `forget` needs
//! nothing: no state belongs to numbers of inodes. Operations without a method are answered
//! ENOSYS by `fuser`, and the kernel does not ask again: flush, access, locks, poll.

use crate::ioctl;
use crate::message::{
    Caller, Changes, Create, Make, Operation, Read, Request, When, Write, WriteKind,
};
use crate::notices::Notice;
use crate::operations::WITHOUT_EFFECT;
use crate::queue::Requests;
use crate::reply::{Reply, To};
use crate::translate::{DIRECTORY, REGULAR, TYPE, requested_time};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno as Code, FileHandle, Filesystem, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, TimeOrNow, WriteFlags,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::SystemTime;
use tonearm_fs::{Allocate, Rename, Seek, SetXattr};

/// Most bytes of one write. The kernel splits larger ones.
pub(crate) const WRITE_MAX: u32 = 1 << 20;
/// Requests that the kernel sends ahead: read-ahead and direct I/O.
const BACKGROUND_MAX: u16 = 64;
/// Most bytes of one copy, so that others are served meanwhile.
const COPY_MAX: u64 = 64 << 20;
/// Flags of open(2): O_DSYNC, which O_SYNC contains.
const O_DSYNC: i32 = 0o10_000;
const O_EXCL: i32 = 0o200;
const O_APPEND: i32 = 0o2000;
const O_DIRECT: i32 = 0o40_000;
/// Flags of fallocate(2).
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 0x10;
/// Origins of lseek(2).
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// What the kernel is asked for, if it can.
const CAPABILITIES: &[InitFlags] = &[
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_CACHE_SYMLINKS,
    // Without it the kernel asks for an attribute before each write.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    // The kernel checks lists of access control. New files get them here, and with them the umask.
    InitFlags::FUSE_POSIX_ACL,
    InitFlags::FUSE_DONT_MASK,
    // Files that are open without the page cache can be mapped nevertheless.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    // Handles of files are valid for as long as the file is there (NFS, open_by_handle_at). The kernel looks up `.` of them.
    InitFlags::FUSE_EXPORT_SUPPORT,
];

/// Sends requests to the engine.
pub(crate) struct Transport {
    requests: Requests,
    /// Of the store.
    block_size: u32,
    /// Files are open without the kernel's page cache.
    direct_io: bool,
    /// The number of the last handle.
    last_handle: AtomicU64,
}

impl Transport {
    /// Requests go to `requests`. Blocks have `block_size` bytes.
    pub fn new(requests: Requests, block_size: u32, direct_io: bool) -> Self {
        Self {
            requests,
            block_size,
            direct_io,
            last_handle: AtomicU64::new(0),
        }
    }

    fn send(&self, by: &fuser::Request, operation: Operation, to: To) {
        self.send_on(by, FileHandle(0), operation, to);
    }

    fn send_on(&self, by: &fuser::Request, handle: FileHandle, operation: Operation, to: To) {
        let member = if handle.0 != 0 && operation.is_of_handle() {
            None
        } else {
            let members = &self.requests.shared.members;
            members.unit_of(by.pid(), (by.uid(), by.gid()))
        };
        self.requests.send(Request {
            caller: Caller {
                uid: by.uid(),
                gid: by.gid(),
                thread: by.pid(),
            },
            member,
            handle: handle.0,
            operation,
            reply: Box::new(Reply {
                to,
                block_size: self.block_size,
                direct_io: self.direct_io,
                handle,
            }),
        });
    }

    /// Sends the opening of a handle.
    fn send_open(&self, by: &fuser::Request, operation: Operation, to: To) {
        let handle = self.last_handle.fetch_add(1, Ordering::Relaxed) + 1;
        self.send_on(by, FileHandle(handle), operation, to);
    }
}

/// Tells the kernel everything that comes. Errors mean that it keeps nothing of the kind, or is gone.
pub(crate) fn send_notices(
    notices: &Receiver<Notice>,
    requests: &Requests,
    kernel: &fuser::Notifier,
) {
    while let Ok(notice) = notices.recv() {
        for (dir, name) in &notice.names {
            let _ = kernel.inval_entry(INodeNo(*dir), OsStr::from_bytes(name));
        }
        for ino in notice.files {
            let _ = kernel.inval_inode(INodeNo(ino), 0, 0);
        }
        requests.follow(notice.then);
    }
}

fn bytes(name: &OsStr) -> Vec<u8> {
    name.as_bytes().to_vec()
}

fn when(time: TimeOrNow) -> When {
    match time {
        TimeOrNow::Now => When::Now,
        TimeOrNow::SpecificTime(time) => When::At(requested_time(time)),
    }
}

impl Filesystem for Transport {
    fn init(&mut self, _by: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        for capability in CAPABILITIES {
            // An older kernel does without.
            let _ = config.add_capabilities(*capability);
        }
        let limits = [
            config.set_max_write(WRITE_MAX).is_ok(),
            config.set_max_background(BACKGROUND_MAX).is_ok(),
        ];
        debug_assert_eq!(limits, [true; 2], "constants within fuser's limits");
        Ok(())
    }

    fn lookup(&self, by: &fuser::Request, dir: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (dir, name) = (dir.0, bytes(name));
        self.send(by, Operation::LookUp { dir, name }, To::Entry(reply));
    }

    fn getattr(
        &self,
        by: &fuser::Request,
        ino: INodeNo,
        handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let handle = handle.unwrap_or(FileHandle(0));
        self.send_on(by, handle, Operation::Attr { ino: ino.0 }, To::Attr(reply));
    }

    fn setattr(
        &self,
        by: &fuser::Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = Changes {
            mode,
            uid,
            gid,
            size,
            atime: atime.map(when),
            mtime: mtime.map(when),
            ctime: ctime.map(requested_time),
        };
        let (ino, handle) = (ino.0, handle.unwrap_or(FileHandle(0)));
        let set = Operation::SetAttr { ino, changes };
        self.send_on(by, handle, set, To::Attr(reply));
    }

    fn readlink(&self, by: &fuser::Request, ino: INodeNo, reply: ReplyData) {
        self.send(by, Operation::ReadLink { ino: ino.0 }, To::Data(reply));
    }

    fn mknod(
        &self,
        by: &fuser::Request,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let (dir, name) = (dir.0, bytes(name));
        let make = Operation::Make(Make {
            dir,
            name,
            mode,
            umask,
            rdev,
        });
        self.send(by, make, To::Entry(reply));
    }

    fn mkdir(
        &self,
        by: &fuser::Request,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let make = Operation::Make(Make {
            dir: dir.0,
            name: bytes(name),
            mode: mode & !TYPE | DIRECTORY,
            umask,
            rdev: 0,
        });
        self.send(by, make, To::Entry(reply));
    }

    fn unlink(&self, by: &fuser::Request, dir: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (dir, name) = (dir.0, bytes(name));
        self.send(by, Operation::Unlink { dir, name }, To::Empty(reply));
    }

    fn rmdir(&self, by: &fuser::Request, dir: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (dir, name) = (dir.0, bytes(name));
        self.send(by, Operation::RemoveDir { dir, name }, To::Empty(reply));
    }

    fn symlink(
        &self,
        by: &fuser::Request,
        dir: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let make = Operation::MakeLink {
            dir: dir.0,
            name: bytes(name),
            target: bytes(target.as_os_str()),
        };
        self.send(by, make, To::Entry(reply));
    }

    fn rename(
        &self,
        by: &fuser::Request,
        dir: INodeNo,
        name: &OsStr,
        new_dir: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let how = match flags {
            RenameFlags::RENAME_NOREPLACE => Rename::NoReplace,
            RenameFlags::RENAME_EXCHANGE => Rename::Exchange,
            RenameFlags::RENAME_WHITEOUT => Rename::Whiteout {
                uid: by.uid(),
                gid: by.gid(),
            },
            flags if flags.is_empty() => Rename::Replace,
            _ => return reply.error(Code::EINVAL),
        };
        let rename = Operation::Rename {
            from: (dir.0, bytes(name)),
            to: (new_dir.0, bytes(new_name)),
            how,
        };
        self.send(by, rename, To::Empty(reply));
    }

    fn link(
        &self,
        by: &fuser::Request,
        ino: INodeNo,
        dir: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let (ino, dir, name) = (ino.0, dir.0, bytes(name));
        self.send(by, Operation::Link { ino, dir, name }, To::Entry(reply));
    }

    fn open(&self, by: &fuser::Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let open = Operation::Open {
            ino: ino.0,
            direct: self.direct_io || flags.0 & O_DIRECT != 0,
        };
        self.send_open(by, open, To::Open(reply));
    }

    fn create(
        &self,
        by: &fuser::Request,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let create = Operation::Create(Create {
            dir: dir.0,
            name: bytes(name),
            mode: mode & !TYPE | REGULAR,
            umask,
            exclusive: flags & O_EXCL != 0,
            direct: self.direct_io || flags & O_DIRECT != 0,
        });
        self.send_open(by, create, To::Create(reply));
    }

    fn read(
        &self,
        by: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = Operation::Read(Read {
            ino: ino.0,
            offset,
            len: u64::from(size),
            // The kernel names the owner of the descriptor for reads past its page cache alone.
            cached: owner.is_none(),
        });
        self.send_on(by, handle, read, To::Data(reply));
    }

    fn write(
        &self,
        by: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let kind = match (write_flags, flags.0) {
            (how, _) if how.contains(WriteFlags::FUSE_WRITE_CACHE) => WriteKind::Mapped,
            (how, _) if how.contains(WriteFlags::FUSE_WRITE_LOCKOWNER) => WriteKind::Direct,
            _ => WriteKind::Buffered,
        };
        let write = Operation::Write(Write {
            ino: ino.0,
            offset,
            data: data.to_vec(),
            kill_suid: write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
            durable: flags.0 & O_DSYNC != 0,
            append: flags.0 & O_APPEND != 0 && kind != WriteKind::Mapped,
            kind,
        });
        self.send_on(by, handle, write, To::Write(reply));
    }

    fn release(
        &self,
        by: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.send_on(
            by,
            handle,
            Operation::Close { ino: ino.0 },
            To::Empty(reply),
        );
    }

    fn fsync(
        &self,
        by: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.send_on(by, handle, Operation::Sync { ino: ino.0 }, To::Empty(reply));
    }

    fn opendir(&self, by: &fuser::Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let (ino, direct) = (ino.0, false);
        self.send_open(
            by,
            Operation::Open { ino, direct },
            To::OpenDirectory(reply),
        );
    }

    fn readdir(
        &self,
        by: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let (dir, after) = (ino.0, offset);
        self.send_on(
            by,
            handle,
            Operation::List { dir, after },
            To::Directory(reply),
        );
    }

    fn readdirplus(
        &self,
        by: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let list = Operation::ListWithAttrs {
            dir: ino.0,
            after: offset,
        };
        self.send_on(by, handle, list, To::DirectoryPlus(reply));
    }

    fn releasedir(
        &self,
        by: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.send_on(
            by,
            handle,
            Operation::Close { ino: ino.0 },
            To::Empty(reply),
        );
    }

    fn fsyncdir(
        &self,
        by: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.send_on(by, handle, Operation::Sync { ino: ino.0 }, To::Empty(reply));
    }

    fn statfs(&self, by: &fuser::Request, _ino: INodeNo, reply: ReplyStatfs) {
        self.send(by, Operation::Space, To::Space(reply));
    }

    fn setxattr(
        &self,
        by: &fuser::Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let how = match flags {
            0 => SetXattr::Any,
            1 => SetXattr::Create,
            2 => SetXattr::Replace,
            _ => return reply.error(Code::EINVAL),
        };
        let set = Operation::SetXattr {
            ino: ino.0,
            name: bytes(name),
            value: value.to_vec(),
            how,
        };
        self.send(by, set, To::Empty(reply));
    }

    fn getxattr(
        &self,
        by: &fuser::Request,
        ino: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        // No file has them (see `WITHOUT_EFFECT`). The kernel asks for one at the first write of each file.
        if WITHOUT_EFFECT.contains(&name.as_bytes()) {
            return reply.error(Code::from_i32(Errno::NODATA.raw_os_error()));
        }
        let (ino, name) = (ino.0, bytes(name));
        self.send(by, Operation::Xattr { ino, name }, To::Xattr(reply, size));
    }

    fn listxattr(&self, by: &fuser::Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.send(by, Operation::Xattrs { ino: ino.0 }, To::Xattr(reply, size));
    }

    fn removexattr(&self, by: &fuser::Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (ino, name) = (ino.0, bytes(name));
        self.send(by, Operation::RemoveXattr { ino, name }, To::Empty(reply));
    }

    fn fallocate(
        &self,
        by: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const PUNCH: i32 = PUNCH_HOLE | KEEP_SIZE;
        const ZERO_KEEP: i32 = ZERO_RANGE | KEEP_SIZE;
        let how = match mode {
            0 => Allocate::Grow,
            KEEP_SIZE => Allocate::KeepSize,
            PUNCH => Allocate::Punch,
            ZERO_RANGE => Allocate::Zero,
            ZERO_KEEP => Allocate::ZeroKeepSize,
            _ => return reply.error(Code::EOPNOTSUPP),
        };
        let allocate = Operation::Allocate {
            ino: ino.0,
            offset,
            len: length,
            how,
        };
        self.send_on(by, handle, allocate, To::Empty(reply));
    }

    fn lseek(
        &self,
        by: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let what = match whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return reply.error(Code::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else {
            return reply.error(Code::ENXIO);
        };
        let ino = ino.0;
        let seek = Operation::Seek { ino, offset, what };
        self.send_on(by, handle, seek, To::Seek(reply));
    }

    fn copy_file_range(
        &self,
        by: &fuser::Request,
        from: INodeNo,
        from_handle: FileHandle,
        from_offset: u64,
        to: INodeNo,
        to_handle: FileHandle,
        to_offset: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let copy = Operation::Copy {
            from: (from.0, from_offset),
            from_handle: from_handle.0,
            to: (to.0, to_offset),
            len: len.min(COPY_MAX),
        };
        self.send_on(by, to_handle, copy, To::Write(reply));
    }

    fn ioctl(
        &self,
        by: &fuser::Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: IoctlFlags,
        request: u32,
        argument: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        match ioctl::operation(request, argument, by.pid()) {
            Ok(operation) => self.send_on(by, handle, operation, To::Ioctl(reply)),
            Err(error) => reply.error(Code::from_i32(error.raw_os_error())),
        }
    }
}
