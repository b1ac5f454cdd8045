//! The functions of the SQLite that hosts the VFS. An extension gets them in a table, a program that links SQLite gets
//! them from the linker, and a C program passes them in a struct. A process may have several SQLites. Each registered
//! VFS calls its own.

use crate::ffi::{Db, Vfs};
use std::ffi::{c_char, c_int, c_void};

/// The functions that the VFS calls in its host. The header `tonearm_sqlite.h` declares the same struct for C.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Host {
    /// `sqlite3_libversion_number`.
    pub libversion_number: unsafe extern "C" fn() -> c_int,
    /// `sqlite3_vfs_find`.
    pub vfs_find: unsafe extern "C" fn(*const c_char) -> *mut Vfs,
    /// `sqlite3_vfs_register`.
    pub vfs_register: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    /// `sqlite3_uri_parameter`.
    pub uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    /// `sqlite3_get_autocommit`.
    pub get_autocommit: unsafe extern "C" fn(*mut Db) -> c_int,
    /// `sqlite3_malloc64`.
    pub malloc64: unsafe extern "C" fn(u64) -> *mut c_void,
    /// `sqlite3_log`.
    pub log: unsafe extern "C" fn(c_int, *const c_char, ...),
}

/// Indexes in `sqlite3_api_routines`, in pointers from its start. The struct only ever grows at its end.
mod slot {
    pub const GET_AUTOCOMMIT: usize = 60;
    pub const LIBVERSION_NUMBER: usize = 67;
    pub const VFS_FIND: usize = 141;
    pub const VFS_REGISTER: usize = 142;
    pub const LOG: usize = 167;
    pub const URI_PARAMETER: usize = 189;
    pub const MALLOC64: usize = 197;
}

impl Host {
    /// The functions that SQLite hands to an extension.
    ///
    /// # Safety
    /// `routines` is the `sqlite3_api_routines` of a SQLite of 3.8.7 or later.
    pub(crate) unsafe fn from_routines(routines: *const c_void) -> Self {
        let table = routines.cast::<*const c_void>();
        // SAFETY: the table has these places since 3.8.7, each with a function of the type that is asked for.
        unsafe {
            Self {
                libversion_number: std::mem::transmute::<
                    *const c_void,
                    unsafe extern "C" fn() -> c_int,
                >(*table.add(slot::LIBVERSION_NUMBER)),
                vfs_find: std::mem::transmute::<
                    *const c_void,
                    unsafe extern "C" fn(*const c_char) -> *mut Vfs,
                >(*table.add(slot::VFS_FIND)),
                vfs_register: std::mem::transmute::<
                    *const c_void,
                    unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
                >(*table.add(slot::VFS_REGISTER)),
                uri_parameter: std::mem::transmute::<
                    *const c_void,
                    unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
                >(*table.add(slot::URI_PARAMETER)),
                get_autocommit: std::mem::transmute::<
                    *const c_void,
                    unsafe extern "C" fn(*mut Db) -> c_int,
                >(*table.add(slot::GET_AUTOCOMMIT)),
                malloc64: std::mem::transmute::<
                    *const c_void,
                    unsafe extern "C" fn(u64) -> *mut c_void,
                >(*table.add(slot::MALLOC64)),
                log: std::mem::transmute::<
                    *const c_void,
                    unsafe extern "C" fn(c_int, *const c_char, ...),
                >(*table.add(slot::LOG)),
            }
        }
    }

    /// The functions of the SQLite that is linked into this program. No code of the loadable extension may call this,
    /// because these symbols need not exist there.
    pub(crate) fn linked() -> Self {
        unsafe extern "C" {
            fn sqlite3_libversion_number() -> c_int;
            fn sqlite3_vfs_find(name: *const c_char) -> *mut Vfs;
            fn sqlite3_vfs_register(vfs: *mut Vfs, make_default: c_int) -> c_int;
            fn sqlite3_uri_parameter(file: *const c_char, name: *const c_char) -> *const c_char;
            fn sqlite3_get_autocommit(db: *mut Db) -> c_int;
            fn sqlite3_malloc64(bytes: u64) -> *mut c_void;
            fn sqlite3_log(code: c_int, format: *const c_char, ...);
        }
        Self {
            libversion_number: sqlite3_libversion_number,
            vfs_find: sqlite3_vfs_find,
            vfs_register: sqlite3_vfs_register,
            uri_parameter: sqlite3_uri_parameter,
            get_autocommit: sqlite3_get_autocommit,
            malloc64: sqlite3_malloc64,
            log: sqlite3_log,
        }
    }
}
