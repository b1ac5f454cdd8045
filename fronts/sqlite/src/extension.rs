//! Entry points for SQLite and for C.

use crate::api::Host;
use crate::ffi::{self, Db};
use crate::vfs;
use std::ffi::{c_char, c_int, c_void};
use std::panic::catch_unwind;

/// Registers the VFS, or gives the reason why it cannot.
///
/// # Safety
/// As for the entry point of an extension.
unsafe fn load(error: *mut *mut c_char, routines: *const c_void, done: c_int) -> c_int {
    if routines.is_null() {
        return ffi::ERROR;
    }
    // SAFETY: SQLite hands over its table of functions, and a place for a text that it frees.
    unsafe {
        let host = Host::from_routines(routines);
        let result = catch_unwind(move || vfs::register(host, false));
        let Err(text) = result.unwrap_or_else(|_| Err("the extension has panicked".into())) else {
            return done;
        };
        if !error.is_null() {
            let copy = (host.malloc64)(text.len() as u64 + 1).cast::<c_char>();
            if !copy.is_null() {
                copy.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
                *copy.add(text.len()) = 0;
                *error = copy;
            }
        }
        ffi::ERROR
    }
}

/// Entry point that SQLite tries first in any extension.
///
/// # Safety
/// Only SQLite may call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    _db: *mut Db,
    error: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    // The VFS outlives the connection that loads it.
    // SAFETY: SQLite's arguments.
    unsafe { load(error, routines, ffi::OK_LOAD_PERMANENTLY) }
}

/// Entry point that SQLite derives from the file's name, `libtonearm_sqlite.so`.
///
/// # Safety
/// Only SQLite may call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_tonearmsqlite_init(
    db: *mut Db,
    error: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    // SAFETY: SQLite's arguments.
    unsafe { sqlite3_extension_init(db, error, routines) }
}

/// Entry point for `sqlite3_auto_extension` in a program that the library is linked into.
///
/// # Safety
/// Only SQLite may call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_tonearm_init(
    _db: *mut Db,
    error: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    // SAFETY: SQLite's arguments.
    unsafe { load(error, routines, ffi::OK) }
}

/// Registers the VFS in a C program, from `tonearm_sqlite.h`. A result code.
///
/// # Safety
/// `host` points to functions of SQLite as the header fills them in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_sqlite_register(
    host: *const c_void,
    make_default: c_int,
) -> c_int {
    // SAFETY: as the caller says.
    let host = unsafe { *host.cast::<Host>() };
    match catch_unwind(move || vfs::register(host, make_default != 0)) {
        Ok(Ok(())) => ffi::OK,
        _ => ffi::ERROR,
    }
}
