//! Open files as SQLite holds them, and the dispatch of its calls to a [`Handle`].

use crate::api::Host;
use crate::failure::{self, Failure, Result};
use crate::ffi::{self, File, IoMethods};
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{Ordering, fence};

/// An open file of any kind. Offsets and sizes are in bytes.
pub trait Handle {
    /// Reads into `buf`. Returns the number of bytes, fewer only at the end of the file.
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize>;
    fn write(&mut self, data: &[u8], offset: u64) -> Result<()>;
    fn truncate(&mut self, size: u64) -> Result<()>;
    fn sync(&mut self) -> Result<()>;
    fn size(&mut self) -> Result<u64>;
    fn lock(&mut self, _level: c_int) -> Result<()> {
        Ok(())
    }
    fn unlock(&mut self, _level: c_int) -> Result<()> {
        Ok(())
    }
    fn check_reserved_lock(&mut self) -> Result<bool> {
        Ok(false)
    }
    /// Carries out a file control; false when the operation is not known.
    ///
    /// # Safety
    /// `argument` points to what SQLite's documentation names for `operation`.
    unsafe fn control(&mut self, _operation: c_int, _argument: *mut c_void) -> Result<bool> {
        Ok(false)
    }
    fn shm_map(&mut self, _index: usize, _bytes: usize, _extend: bool) -> Result<*mut c_void> {
        Err(no_shm())
    }
    fn shm_lock(&mut self, _first: usize, _count: usize, _flags: c_int) -> Result<()> {
        Err(no_shm())
    }
    fn shm_unmap(&mut self) {}
}

fn no_shm() -> Failure {
    Failure::new(ffi::IOERR_SHMMAP, "only a main database has shared memory")
}

/// The memory that SQLite allocates for a file of this VFS.
#[repr(C)]
pub struct OsFile {
    base: File,
    host: &'static Host,
    handle: *mut Box<dyn Handle>,
    /// SQLite may use batch atomic writes.
    batches: bool,
    /// The process that opened the file. Its children must not use it.
    forks: u32,
}

impl OsFile {
    /// Makes `file` an open file. Without `shm` SQLite offers write-ahead logs only to connections with the exclusive
    /// locking mode.
    ///
    /// # Safety
    /// `file` has room for an `OsFile`.
    pub unsafe fn open(
        file: *mut File,
        host: &'static Host,
        handle: Box<dyn Handle>,
        shm: bool,
        batches: bool,
    ) {
        let methods = if shm { &WITH_SHM } else { &WITHOUT_SHM };
        let open = Self {
            base: File { methods },
            host,
            handle: Box::into_raw(Box::new(handle)),
            batches,
            forks: tonearm_store::forks(),
        };
        // SAFETY: the caller has room for it, and nothing that needs to be dropped is there.
        unsafe { file.cast::<Self>().write(open) };
    }
}

/// Properties of the store: a write is atomic, in order, and damages nothing next to it. Files
/// can be deleted while they are open.
const CHARACTERISTICS: c_int = ffi::IOCAP_ATOMIC
    | ffi::IOCAP_SAFE_APPEND
    | ffi::IOCAP_SEQUENTIAL
    | ffi::IOCAP_POWERSAFE_OVERWRITE;

/// Bytes that the store writes at once in any case.
const SECTOR_BYTES: c_int = 4096;

static WITH_SHM: IoMethods = IoMethods {
    version: 2,
    close,
    read,
    write,
    truncate,
    sync,
    file_size,
    lock,
    unlock,
    check_reserved_lock,
    file_control,
    sector_size,
    device_characteristics,
    shm_map: Some(shm_map),
    shm_lock: Some(shm_lock),
    shm_barrier: Some(shm_barrier),
    shm_unmap: Some(shm_unmap),
};

static WITHOUT_SHM: IoMethods = IoMethods {
    version: 1,
    shm_map: None,
    shm_lock: None,
    shm_barrier: None,
    shm_unmap: None,
    ..WITH_SHM
};

/// Runs a method and returns its result code. A panic becomes an I/O error with a text.
pub fn guarded(host: &Host, work: impl FnOnce() -> Result<c_int>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(work));
    let result = result.unwrap_or_else(|_| {
        Err(Failure::new(
            ffi::IOERR,
            "a bug: the VFS has panicked; please report it",
        ))
    });
    result.unwrap_or_else(|failure| {
        failure::report(host, &failure);
        failure.code
    })
}

/// Runs a method of an open file.
///
/// # Safety
/// `file` was opened by [`OsFile::open`] and is not closed; no other thread uses it now.
unsafe fn with(file: *mut File, work: impl FnOnce(&mut dyn Handle) -> Result<c_int>) -> c_int {
    // SAFETY: as the caller says; SQLite calls the methods of one file one at a time.
    let (host, handle, forks) = unsafe {
        let file = &*file.cast::<OsFile>();
        (file.host, &mut *file.handle, file.forks)
    };
    guarded(host, || match forks == tonearm_store::forks() {
        true => work(handle.as_mut()),
        false => Err(Failure::new(
            ffi::IOERR,
            "the connection belongs to the process that this one was forked from; open one after the fork",
        )),
    })
}

fn done<T>(_: T) -> c_int {
    ffi::OK
}

unsafe extern "C" fn close(file: *mut File) -> c_int {
    // SAFETY: SQLite closes a file once, and does not use it afterwards.
    let (host, handle) = unsafe {
        let file = &mut *file.cast::<OsFile>();
        file.base.methods = std::ptr::null();
        if file.forks != tonearm_store::forks() {
            // The file belongs to the parent, with its locks, its session and its engine. The child must not touch any
            // of them.
            return ffi::OK;
        }
        (file.host, Box::from_raw(file.handle))
    };
    guarded(host, || {
        drop(handle);
        Ok(ffi::OK)
    })
}

unsafe extern "C" fn read(file: *mut File, buf: *mut c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite's buffer has `bytes` bytes.
    let buf = unsafe { std::slice::from_raw_parts_mut(buf.cast::<u8>(), bytes as usize) };
    let work = |handle: &mut dyn Handle| {
        let count = handle.read(buf, offset as u64)?;
        buf[count..].fill(0);
        match count == buf.len() {
            true => Ok(ffi::OK),
            false => Err(Failure::silent(ffi::IOERR_SHORT_READ)),
        }
    };
    // SAFETY: a method of an open file.
    unsafe { with(file, work) }
}

unsafe extern "C" fn write(
    file: *mut File,
    data: *const c_void,
    bytes: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite's buffer has `bytes` bytes; the file is open.
    unsafe {
        let data = std::slice::from_raw_parts(data.cast::<u8>(), bytes as usize);
        with(file, |handle| handle.write(data, offset as u64).map(done))
    }
}

unsafe extern "C" fn truncate(file: *mut File, size: i64) -> c_int {
    // SAFETY: a method of an open file.
    unsafe { with(file, |handle| handle.truncate(size as u64).map(done)) }
}

unsafe extern "C" fn sync(file: *mut File, _flags: c_int) -> c_int {
    // SAFETY: a method of an open file.
    unsafe { with(file, |handle| handle.sync().map(done)) }
}

unsafe extern "C" fn file_size(file: *mut File, size: *mut i64) -> c_int {
    let work = |handle: &mut dyn Handle| {
        let bytes = handle.size()?;
        // SAFETY: SQLite's variable for the answer.
        unsafe { *size = bytes as i64 };
        Ok(ffi::OK)
    };
    // SAFETY: a method of an open file.
    unsafe { with(file, work) }
}

unsafe extern "C" fn lock(file: *mut File, level: c_int) -> c_int {
    // SAFETY: a method of an open file.
    unsafe { with(file, |handle| handle.lock(level).map(done)) }
}

unsafe extern "C" fn unlock(file: *mut File, level: c_int) -> c_int {
    // SAFETY: a method of an open file.
    unsafe { with(file, |handle| handle.unlock(level).map(done)) }
}

unsafe extern "C" fn check_reserved_lock(file: *mut File, answer: *mut c_int) -> c_int {
    let work = |handle: &mut dyn Handle| {
        let reserved = handle.check_reserved_lock()?;
        // SAFETY: SQLite's variable for the answer.
        unsafe { *answer = c_int::from(reserved) };
        Ok(ffi::OK)
    };
    // SAFETY: a method of an open file.
    unsafe { with(file, work) }
}

unsafe extern "C" fn file_control(
    file: *mut File,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    let work = |handle: &mut dyn Handle| {
        // SAFETY: SQLite's argument for its operation.
        let known = unsafe { handle.control(operation, argument)? };
        Ok(if known { ffi::OK } else { ffi::NOTFOUND })
    };
    // SAFETY: a method of an open file.
    unsafe { with(file, work) }
}

unsafe extern "C" fn sector_size(_: *mut File) -> c_int {
    SECTOR_BYTES
}

unsafe extern "C" fn device_characteristics(file: *mut File) -> c_int {
    // SAFETY: SQLite calls with a file that `OsFile::open` has made.
    match unsafe { (*file.cast::<OsFile>()).batches } {
        true => CHARACTERISTICS | ffi::IOCAP_BATCH_ATOMIC,
        false => CHARACTERISTICS,
    }
}

unsafe extern "C" fn shm_map(
    file: *mut File,
    index: c_int,
    bytes: c_int,
    extend: c_int,
    answer: *mut *mut c_void,
) -> c_int {
    let work = |handle: &mut dyn Handle| {
        let region = handle.shm_map(index as usize, bytes as usize, extend != 0)?;
        // SAFETY: SQLite's variable for the answer.
        unsafe { *answer = region };
        Ok(ffi::OK)
    };
    // SAFETY: a method of an open file.
    unsafe { with(file, work) }
}

unsafe extern "C" fn shm_lock(file: *mut File, first: c_int, count: c_int, flags: c_int) -> c_int {
    // SAFETY: a method of an open file.
    unsafe {
        with(file, |handle| {
            handle
                .shm_lock(first as usize, count as usize, flags)
                .map(done)
        })
    }
}

unsafe extern "C" fn shm_barrier(_: *mut File) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut File, _delete: c_int) -> c_int {
    // SAFETY: a method of an open file.
    unsafe {
        with(file, |handle| {
            handle.shm_unmap();
            Ok(ffi::OK)
        })
    }
}
