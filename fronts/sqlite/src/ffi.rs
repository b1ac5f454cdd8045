//! SQLite's C interface, as far as a VFS needs it (sqlite3.h and sqlite3ext.h). These are own declarations, because the
//! extension serves hosts from 3.32 on, which are older than binding crates accept.

use std::ffi::{c_char, c_double, c_int, c_void};

pub const OK: c_int = 0;
pub const ERROR: c_int = 1;
pub const BUSY: c_int = 5;
pub const READONLY: c_int = 8;
pub const IOERR: c_int = 10;
pub const NOTFOUND: c_int = 12;
pub const FULL: c_int = 13;
pub const CANTOPEN: c_int = 14;
pub const OK_LOAD_PERMANENTLY: c_int = 1 << 8;

pub const IOERR_READ: c_int = IOERR | 1 << 8;
pub const IOERR_SHORT_READ: c_int = IOERR | 2 << 8;
pub const IOERR_WRITE: c_int = IOERR | 3 << 8;
pub const IOERR_FSYNC: c_int = IOERR | 4 << 8;
pub const IOERR_TRUNCATE: c_int = IOERR | 6 << 8;
pub const IOERR_FSTAT: c_int = IOERR | 7 << 8;
pub const IOERR_UNLOCK: c_int = IOERR | 8 << 8;
pub const IOERR_DELETE: c_int = IOERR | 10 << 8;
pub const IOERR_ACCESS: c_int = IOERR | 13 << 8;
pub const IOERR_CHECKRESERVEDLOCK: c_int = IOERR | 14 << 8;
pub const IOERR_LOCK: c_int = IOERR | 15 << 8;
pub const IOERR_DELETE_NOENT: c_int = IOERR | 23 << 8;
pub const IOERR_SHMMAP: c_int = IOERR | 21 << 8;
pub const IOERR_COMMIT_ATOMIC: c_int = IOERR | 30 << 8;
pub const IOERR_DATA: c_int = IOERR | 32 << 8;

pub const OPEN_CREATE: c_int = 0x4;
pub const OPEN_EXCLUSIVE: c_int = 0x10;
pub const OPEN_MAIN_DB: c_int = 0x100;
pub const OPEN_MAIN_JOURNAL: c_int = 0x800;
pub const OPEN_SUBJOURNAL: c_int = 0x2000;
pub const OPEN_SUPER_JOURNAL: c_int = 0x4000;

pub const ACCESS_READWRITE: c_int = 1;

pub const LOCK_NONE: c_int = 0;
pub const LOCK_SHARED: c_int = 1;
pub const LOCK_RESERVED: c_int = 2;
pub const LOCK_PENDING: c_int = 3;
pub const LOCK_EXCLUSIVE: c_int = 4;

pub const IOCAP_ATOMIC: c_int = 0x1;
pub const IOCAP_SAFE_APPEND: c_int = 0x200;
pub const IOCAP_SEQUENTIAL: c_int = 0x400;
pub const IOCAP_POWERSAFE_OVERWRITE: c_int = 0x1000;
pub const IOCAP_BATCH_ATOMIC: c_int = 0x4000;

pub const FCNTL_LOCKSTATE: c_int = 1;
pub const FCNTL_LAST_ERRNO: c_int = 4;
pub const FCNTL_SIZE_HINT: c_int = 5;
pub const FCNTL_CHUNK_SIZE: c_int = 6;
pub const FCNTL_PERSIST_WAL: c_int = 10;
pub const FCNTL_VFSNAME: c_int = 12;
pub const FCNTL_POWERSAFE_OVERWRITE: c_int = 13;
pub const FCNTL_PRAGMA: c_int = 14;
pub const FCNTL_HAS_MOVED: c_int = 20;
pub const FCNTL_SYNC: c_int = 21;
pub const FCNTL_COMMIT_PHASETWO: c_int = 22;
pub const FCNTL_PDB: c_int = 30;
pub const FCNTL_BEGIN_ATOMIC_WRITE: c_int = 31;
pub const FCNTL_COMMIT_ATOMIC_WRITE: c_int = 32;
pub const FCNTL_ROLLBACK_ATOMIC_WRITE: c_int = 33;

pub const SHM_UNLOCK: c_int = 1;
pub const SHM_SHARED: c_int = 4;
pub const SHM_LOCKS: usize = 8;

/// `sqlite3`, a connection.
pub type Db = c_void;

/// `sqlite3_file`: the methods first, then what belongs to the VFS.
#[repr(C)]
pub struct File {
    pub methods: *const IoMethods,
}

/// `sqlite3_io_methods`, version 2.
#[repr(C)]
pub struct IoMethods {
    pub version: c_int,
    pub close: unsafe extern "C" fn(*mut File) -> c_int,
    pub read: unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int,
    pub write: unsafe extern "C" fn(*mut File, *const c_void, c_int, i64) -> c_int,
    pub truncate: unsafe extern "C" fn(*mut File, i64) -> c_int,
    pub sync: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub file_size: unsafe extern "C" fn(*mut File, *mut i64) -> c_int,
    pub lock: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub unlock: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub check_reserved_lock: unsafe extern "C" fn(*mut File, *mut c_int) -> c_int,
    pub file_control: unsafe extern "C" fn(*mut File, c_int, *mut c_void) -> c_int,
    pub sector_size: unsafe extern "C" fn(*mut File) -> c_int,
    pub device_characteristics: unsafe extern "C" fn(*mut File) -> c_int,
    pub shm_map:
        Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int, *mut *mut c_void) -> c_int>,
    pub shm_lock: Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int) -> c_int>,
    pub shm_barrier: Option<unsafe extern "C" fn(*mut File)>,
    pub shm_unmap: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
}

/// A symbol of a library.
pub type Symbol = Option<unsafe extern "C" fn()>;

/// `sqlite3_vfs`, version 2.
#[repr(C)]
pub struct Vfs {
    pub version: c_int,
    pub os_file_bytes: c_int,
    pub pathname_max: c_int,
    pub next: *mut Vfs,
    pub name: *const c_char,
    pub app_data: *mut c_void,
    pub open: unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int,
    pub delete: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int,
    pub access: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int,
    pub full_pathname: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int,
    pub dl_open: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void>,
    pub dl_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char)>,
    pub dl_sym: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> Symbol>,
    pub dl_close: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void)>,
    pub randomness: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub sleep: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub current_time: unsafe extern "C" fn(*mut Vfs, *mut c_double) -> c_int,
    pub get_last_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    pub current_time_int64: Option<unsafe extern "C" fn(*mut Vfs, *mut i64) -> c_int>,
}
