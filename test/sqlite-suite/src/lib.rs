//! Library that is linked into SQLite's own test program, so that the program's databases lie in a Tonearm store. It
//! makes the VFS `tonearm` SQLite's default VFS, and opens a store that stands for the directory in which the tests
//! run. `fixture.c` gives Tcl a command over the functions here.

use std::ffi::{CStr, c_char, c_int};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tonearm_store::files::{FileId, Files, FilesError, Open};
use tonearm_store::{CreateOptions, Store, StoreError, StoreOptions};

/// The environment variable with the path of the store. No other process may have the store open. The store is created
/// when it does not exist.
const STORE: &str = "SUITE_STORE";

/// The environment variable with the directory that the store stands for. The VFS resolves names without a directory in
/// it.
const DIRECTORY: &str = "TONEARM_STORE";

static FILES: OnceLock<Arc<dyn Files>> = OnceLock::new();

fn files() -> &'static Arc<dyn Files> {
    FILES.get().expect("suite_init comes first")
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|error| format!("{name}: {error}"))
}

/// Opens the store, and creates it first when it does not exist.
fn open(path: &Path) -> Result<Arc<dyn Files>, StoreError> {
    if !path.exists() {
        let options = CreateOptions {
            size_bytes: 4 << 30,
            log_bytes: Some(64 << 20),
            ..CreateOptions::default()
        };
        tonearm_store::create(path, &options)?;
    }
    let store = Store::open(path, StoreOptions::default())?;
    Ok(Arc::new(store.files()?))
}

fn start() -> Result<(), String> {
    if FILES.get().is_none() {
        let files = open(Path::new(&variable(STORE)?)).map_err(|error| error.to_string())?;
        // Files of an earlier script.
        for info in files.list_all("").map_err(|error| error.to_string())? {
            files
                .delete(&info.name)
                .map_err(|error| error.to_string())?;
        }
        // The tests expect that test.db, ./test.db and [pwd]/test.db are the same file.
        tonearm_sqlite::provide(&variable(DIRECTORY)?, files.clone());
        FILES.get_or_init(|| files);
    }
    tonearm_sqlite::register(true).map_err(|error| error.to_string())
}

/// Opens the store and makes the VFS the default one. Returns a result code of SQLite.
#[unsafe(no_mangle)]
pub extern "C" fn suite_init(_: *const c_char) -> c_int {
    match start() {
        Ok(()) => 0,
        Err(text) => {
            eprintln!("sqlite-suite: {text}");
            1
        }
    }
}

/// # Safety
/// `name` is a C string.
unsafe fn text<'a>(name: *const c_char) -> &'a str {
    // SAFETY: the caller passes a C string. A name that is not UTF-8 cannot exist in a store, and becomes an empty
    // name.
    unsafe { CStr::from_ptr(name) }.to_str().unwrap_or_default()
}

fn code(result: Result<(), FilesError>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("sqlite-suite: {error}");
            1
        }
    }
}

fn with<T>(
    name: &str,
    create: bool,
    work: impl FnOnce(FileId) -> Result<T, FilesError>,
) -> Result<T, FilesError> {
    let exclusive = false;
    let file = files().open(name, Open { create, exclusive })?;
    let result = work(file);
    files().close(file);
    result
}

/// Size of a file in bytes, or -1 when the file does not exist.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suite_size(name: *const c_char) -> i64 {
    // SAFETY: as the caller promises.
    let name = unsafe { text(name) };
    let exists = FILES
        .get()
        .is_some_and(|files| files.exists(name).unwrap_or(false));
    if !exists {
        return -1;
    }
    with(name, false, |file| files().size(file, None)).map_or(-1, |size| size as i64)
}

/// Reads `bytes` bytes from `offset` on into `out`. Returns the number of bytes read, or -1 on an error.
///
/// # Safety
/// `name` is a C string, and `out` has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suite_read(
    name: *const c_char,
    offset: u64,
    out: *mut u8,
    bytes: usize,
) -> i64 {
    // SAFETY: as the caller promises.
    let (name, out) = unsafe { (text(name), std::slice::from_raw_parts_mut(out, bytes)) };
    with(name, false, |file| files().read(file, None, offset, out)).map_or(-1, |count| count as i64)
}

/// Writes at `offset`, and creates the file when it does not exist. Returns 0 on success.
///
/// # Safety
/// `name` is a C string, `data` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suite_write(
    name: *const c_char,
    offset: u64,
    data: *const u8,
    bytes: usize,
) -> c_int {
    // SAFETY: as the caller promises.
    let (name, data) = unsafe { (text(name), std::slice::from_raw_parts(data, bytes)) };
    code(with(name, true, |file| {
        files().write(file, None, offset, data)
    }))
}

/// Sets a file's size, and creates the file when it does not exist. Returns 0 on success.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suite_truncate(name: *const c_char, size: u64) -> c_int {
    // SAFETY: as the caller promises.
    let name = unsafe { text(name) };
    code(with(name, true, |file| files().truncate(file, None, size)))
}

/// Deletes a file. Returns 0 on success.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suite_delete(name: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    code(files().delete(unsafe { text(name) }))
}

/// Renames a file. Returns 0 on success.
///
/// # Safety
/// `from` and `to` are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suite_rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    let (from, to) = unsafe { (text(from), text(to)) };
    code(files().rename(from, to))
}

/// Calls `each` with the name of every file.
///
/// # Safety
/// `each` takes `context` and a C string that lives until it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suite_list(
    each: unsafe extern "C" fn(*mut std::ffi::c_void, *const c_char),
    context: *mut std::ffi::c_void,
) {
    for info in files().list_all("").unwrap_or_default() {
        if let Ok(name) = std::ffi::CString::new(info.name) {
            // SAFETY: as the caller promises.
            unsafe { each(context, name.as_ptr()) };
        }
    }
}
