//! A passthrough FUSE file system: each request becomes the same system call on a folder. It is what a FUSE file system costs that
//! does nothing itself. No Debian package has a compiled one (libfuse has the source of an example, `passthrough_hp`), so it
//! is here, on the library that Tonearm uses, with the same settings: large writes, several threads, and entries and attributes
//! that the kernel keeps. It has what the workloads use: regular files and directories.

use crate::passthrough_files::Files;
use anyhow::Context;
use fuser::{
    BsdFileFlags, Config, Errno as Code, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    ReplyXattr, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::{Errno, Result};
use rustix::process::{Resource, Rlimit, Signal};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Runs the server: `passthrough SOURCE PLACE`.
pub const COMMAND: &str = "passthrough";

/// The kernel may keep what it knows: nothing else changes the folder.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// As Tonearm's.
const WRITE_MAX: u32 = 1 << 20;
const BACKGROUND_MAX: u16 = 64;
/// As many as there are threads in a workload, because each waits in its system call.
const THREADS: usize = 16;

/// Serves the folder `source` on `place` until it is unmounted.
///
/// # Errors
/// When it cannot be mounted.
pub fn serve(source: &Path, place: &Path) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    rustix::process::umask(Mode::empty());
    // Each directory that the kernel knows is open.
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: maximum,
        maximum,
    };
    rustix::process::setrlimit(Resource::Nofile, limit).context("raising the number of files")?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(source, flags, Mode::empty()).context("opening the folder")?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("passthrough".into()),
        MountOption::DefaultPermissions,
    ];
    config.acl = SessionACL::All;
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    let session = Session::new(Passthrough(Files::new(root)), place, &config)?;
    println!("mounted {}", place.display());
    Ok(session.run()?)
}

struct Passthrough(Files);

fn code(error: Errno) -> Code {
    Code::from_i32(error.raw_os_error())
}

fn io_code(error: &io::Error) -> Code {
    Code::from_i32(error.raw_os_error().unwrap_or(5))
}

fn entry(result: Result<fuser::FileAttr>, reply: ReplyEntry) {
    match result {
        Ok(attr) => reply.entry(&KEPT, &attr, Generation(0)),
        Err(error) => reply.error(code(error)),
    }
}

fn empty(result: Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(code(error)),
    }
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        None => (0, UTIME_OMIT),
        Some(TimeOrNow::Now) => (0, UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => {
            let since = time.duration_since(SystemTime::UNIX_EPOCH);
            let since = since.unwrap_or_default();
            (since.as_secs() as i64, since.subsec_nanos().into())
        }
    };
    Timespec { tv_sec, tv_nsec }
}

impl Passthrough {
    fn create(
        &self,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> Result<(fuser::FileAttr, u64)> {
        let Self(files) = self;
        let flags = OFlags::from_bits_retain(flags as u32) | OFlags::CREATE | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let file = rustix::fs::openat(&*files.directory(dir)?, name, flags, mode)?;
        let attr = files.look_up(dir, name)?;
        Ok((attr, files.put(file.into())))
    }

    fn list(&self, dir: INodeNo, offset: u64, reply: &mut ReplyDirectory) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let dir = Dir::new(self.0.open(dir, flags)?)?;
        for (place, line) in (1..).zip(dir).skip(offset as usize) {
            let line = line?;
            let kind = match line.file_type() {
                rustix::fs::FileType::Directory => FileType::Directory,
                _ => FileType::RegularFile,
            };
            let name = OsStr::from_bytes(line.file_name().to_bytes());
            if reply.add(INodeNo(line.ino()), place, kind, name) {
                break;
            }
        }
        Ok(())
    }
}

impl Filesystem for Passthrough {
    fn init(&mut self, _by: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for capability in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            // An older kernel does without.
            let _ = config.add_capabilities(capability);
        }
        let _ = config.set_max_write(WRITE_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _by: &Request, dir: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(self.0.look_up(dir, name), reply);
    }

    fn forget(&self, _by: &Request, ino: INodeNo, count: u64) {
        self.0.forget(ino, count);
    }

    fn getattr(&self, _by: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.attributes(ino) {
            Ok(attr) => reply.attr(&KEPT, &attr),
            Err(error) => reply.error(code(error)),
        }
    }

    fn setattr(
        &self,
        _by: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let Self(files) = self;
        let set = || {
            if let Some(size) = size {
                rustix::fs::ftruncate(files.open(ino, OFlags::RDWR)?, size)?;
            }
            if atime.is_some() || mtime.is_some() {
                let times = Timestamps {
                    last_access: timespec(atime),
                    last_modification: timespec(mtime),
                };
                files.set_times(ino, &times)?;
            }
            files.attributes(ino)
        };
        match set() {
            Ok(attr) => reply.attr(&KEPT, &attr),
            Err(error) => reply.error(code(error)),
        }
    }

    fn mkdir(
        &self,
        _by: &Request,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let make = || {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            rustix::fs::mkdirat(&*self.0.directory(dir)?, name, mode)?;
            self.0.look_up(dir, name)
        };
        entry(make(), reply);
    }

    fn unlink(&self, _by: &Request, dir: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = || rustix::fs::unlinkat(&*self.0.directory(dir)?, name, AtFlags::empty());
        empty(remove(), reply);
    }

    fn rmdir(&self, _by: &Request, dir: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = || rustix::fs::unlinkat(&*self.0.directory(dir)?, name, AtFlags::REMOVEDIR);
        empty(remove(), reply);
    }

    fn rename(
        &self,
        _by: &Request,
        dir: INodeNo,
        name: &OsStr,
        new_dir: INodeNo,
        new_name: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let rename = || {
            let (from, to) = (self.0.directory(dir)?, self.0.directory(new_dir)?);
            rustix::fs::renameat(&*from, name, &*to, new_name)
        };
        empty(rename(), reply);
    }

    fn open(&self, _by: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        // The kernel places appended bytes itself.
        let flags = OFlags::from_bits_retain(flags.0 as u32) - OFlags::APPEND;
        match self.0.open(ino, flags) {
            Ok(file) => reply.opened(FileHandle(self.0.put(file)), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(code(error)),
        }
    }

    fn create(
        &self,
        _by: &Request,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.create(dir, name, mode, flags) {
            Ok((attr, handle)) => {
                let keep = FopenFlags::FOPEN_KEEP_CACHE;
                reply.created(&KEPT, &attr, Generation(0), FileHandle(handle), keep);
            }
            Err(error) => reply.error(code(error)),
        }
    }

    fn read(
        &self,
        _by: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = match self.0.get(handle.0) {
            Ok(file) => file,
            Err(error) => return reply.error(code(error)),
        };
        let mut bytes = vec![0; size as usize];
        match file.read_at(&mut bytes, offset) {
            Ok(length) => reply.data(&bytes[..length]),
            Err(error) => reply.error(io_code(&error)),
        }
    }

    fn write(
        &self,
        _by: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let file = match self.0.get(handle.0) {
            Ok(file) => file,
            Err(error) => return reply.error(code(error)),
        };
        match file.write_all_at(data, offset) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(io_code(&error)),
        }
    }

    fn release(
        &self,
        _by: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.0.close(handle.0);
        reply.ok();
    }

    fn fsync(
        &self,
        _by: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        let sync = || rustix::fs::fsync(&*self.0.get(handle.0)?);
        empty(sync(), reply);
    }

    fn fsyncdir(
        &self,
        _by: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        let sync = || rustix::fs::fsync(self.0.open(ino, OFlags::RDONLY | OFlags::DIRECTORY)?);
        empty(sync(), reply);
    }

    /// The kernel asks for `security.capability` at the first write of each file.
    fn getxattr(&self, _by: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let mut value = vec![0; size as usize];
        match self.0.xattr(ino, name, &mut value) {
            Ok(length) if size == 0 => reply.size(length as u32),
            Ok(length) => reply.data(&value[..length]),
            Err(error) => reply.error(code(error)),
        }
    }

    fn readdir(
        &self,
        _by: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.list(ino, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(code(error)),
        }
    }
}
