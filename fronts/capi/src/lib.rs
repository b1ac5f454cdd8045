//! The C API of `include/tonearm.h`, which documents each function.
//!
//! Invariants:
//! 1. No panic leaves the library: each function catches panics (`guarded`).
//! 2. A handle is a number in the form of a pointer. The library looks it up in a table and never dereferences it, so it
//!    refuses a handle that is closed, of another kind, or invalid.
//! 3. Memory of the caller is accessed only through pointers that are not NULL, for as long as the header says.

mod archive;
mod handles;
mod lists;
mod status;

use handles::{ARUS, Number, STORES};
use status::{Failure, guarded, invalid};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tonearm_store::{Aru, CreateOptions, Lsn, Store, StoreError, StoreOptions};

/// A store of the caller: an opaque type, of which there is never a value.
#[repr(C)]
pub struct TonearmStore {
    _opaque: [u8; 0],
}

/// A unit of the caller: an opaque type, of which there is never a value.
#[repr(C)]
pub struct TonearmAru {
    _opaque: [u8; 0],
}

/// An open unit, the number of its store, and a lock for calls of several threads.
struct OpenAru {
    store: Number,
    unit: Mutex<Option<Aru>>,
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tonearm_last_error() -> *const c_char {
    status::last_error()
}

/// See the header.
///
/// # Safety
/// `path` is NULL or a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_create(path: *const c_char, size_bytes: u64) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let path = unsafe { path_of(path) }?;
        let options = CreateOptions {
            size_bytes,
            ..CreateOptions::default()
        };
        Ok(tonearm_store::create(path, &options)?)
    })
}

/// See the header.
///
/// # Safety
/// `path` is NULL or a string that ends with a zero byte; `store` is NULL or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_open(path: *const c_char, store: *mut *mut TonearmStore) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { open(path, store, StoreOptions::default()) }
}

/// See the header.
///
/// # Safety
/// As for [`tonearm_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_open_degraded(
    path: *const c_char,
    store: *mut *mut TonearmStore,
) -> c_int {
    let mut options = StoreOptions::default();
    options.members.degraded = true;
    // SAFETY: the caller's promise.
    unsafe { open(path, store, options) }
}

/// # Safety
/// As for [`tonearm_open`].
unsafe fn open(path: *const c_char, store: *mut *mut TonearmStore, options: StoreOptions) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let path = unsafe { path_of(path) }?;
        check_place(store, "store")?;
        let opened = Store::open(path, options)?;
        let number = STORES.insert(Arc::new(opened));
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { store.write(number.as_handle()) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tonearm_close(store: *mut TonearmStore) -> c_int {
    guarded(|| {
        let number = Number::of(store);
        let store = STORES
            .remove(number)
            .ok_or_else(|| invalid("the store is not open"))?;
        // Closed first: a thread in a call of a unit keeps the unit locked until the store reports to it that it is closed.
        let closed = store.close();
        for aru in ARUS.remove_where(|aru| aru.store == number) {
            drop(locked(&aru.unit).take());
        }
        Ok(closed?)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tonearm_flush(store: *mut TonearmStore) -> c_int {
    guarded(|| Ok(store_of(store)?.flush()?))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tonearm_checkpoint(store: *mut TonearmStore) -> c_int {
    guarded(|| Ok(store_of(store)?.checkpoint().map(|_| ())?))
}

/// See the header.
///
/// # Safety
/// `lsn` is NULL or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_appended(store: *mut TonearmStore, lsn: *mut u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give_lsn(store, lsn, |store| Ok(store.marks()?.appended)) }
}

/// See the header.
///
/// # Safety
/// `lsn` is NULL or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_durable(store: *mut TonearmStore, lsn: *mut u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give_lsn(store, lsn, |store| store.durable()) }
}

/// # Safety
/// `lsn` is NULL or a place for a number.
unsafe fn give_lsn(
    store: *mut TonearmStore,
    lsn: *mut u64,
    mark: impl FnOnce(&Store) -> Result<Lsn, StoreError>,
) -> c_int {
    guarded(|| {
        check_place(lsn, "lsn")?;
        let Lsn(number) = mark(&*store_of(store)?)?;
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { lsn.write(number) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tonearm_wait_durable(store: *mut TonearmStore, lsn: u64) -> c_int {
    guarded(|| Ok(store_of(store)?.wait_durable(Lsn(lsn))?))
}

/// See the header.
///
/// # Safety
/// `aru` is NULL or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_begin(
    store: *mut TonearmStore,
    aru: *mut *mut TonearmAru,
) -> c_int {
    guarded(|| {
        check_place(aru, "aru")?;
        let unit = store_of(store)?.begin()?;
        let number = ARUS.insert(Arc::new(OpenAru {
            store: Number::of(store),
            unit: Mutex::new(Some(unit)),
        }));
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { aru.write(number.as_handle()) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// `lsn` is NULL or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_end(aru: *mut TonearmAru, lsn: *mut u64) -> c_int {
    guarded(|| {
        let open = ARUS.remove(Number::of(aru)).ok_or_else(no_unit)?;
        let unit = locked(&open.unit).take().ok_or_else(no_unit)?;
        let ended = unit.end()?;
        if !lsn.is_null() {
            // SAFETY: the caller's promise; it is not NULL.
            unsafe { lsn.write(ended.0) };
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tonearm_abort(aru: *mut TonearmAru) {
    // There is nothing to return.
    let _ = guarded(|| {
        if let Some(open) = ARUS.remove(Number::of(aru)) {
            drop(locked(&open.unit).take());
        }
        Ok(())
    });
}

/// See the header.
///
/// # Safety
/// `name` is NULL or a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_create_file(aru: *mut TonearmAru, name: *const c_char) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text_of(name, "name") }?;
        with_unit(aru, |unit| unit.create_file(name))
    })
}

/// See the header.
///
/// # Safety
/// `name` is NULL or a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_delete(aru: *mut TonearmAru, name: *const c_char) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text_of(name, "name") }?;
        with_unit(aru, |unit| unit.delete(name))
    })
}

/// See the header.
///
/// # Safety
/// `from` and `to` are NULL or strings that end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_rename(
    aru: *mut TonearmAru,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let from = unsafe { text_of(from, "from") }?;
        // SAFETY: the caller's promise.
        let to = unsafe { text_of(to, "to") }?;
        with_unit(aru, |unit| unit.rename(from, to))
    })
}

/// See the header.
///
/// # Safety
/// `name` is NULL or a string that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_resize(
    aru: *mut TonearmAru,
    name: *const c_char,
    size: u64,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text_of(name, "name") }?;
        with_unit(aru, |unit| unit.resize(name, size))
    })
}

/// See the header.
///
/// # Safety
/// `name` is NULL or a string that ends with a zero byte; `size` is NULL or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_size(
    aru: *mut TonearmAru,
    name: *const c_char,
    size: *mut u64,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text_of(name, "name") }?;
        check_place(size, "size")?;
        let bytes = with_unit(aru, |unit| unit.size(name))?;
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { size.write(bytes) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// `name` is NULL or a string that ends with a zero byte; `buf` is NULL or a place for `len` bytes; `done` is NULL or a
/// place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_read(
    aru: *mut TonearmAru,
    name: *const c_char,
    offset: u64,
    buf: *mut c_void,
    len: usize,
    done: *mut usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text_of(name, "name") }?;
        check_place(done, "done")?;
        if len > 0 {
            check_place(buf, "buf")?;
        }
        let bytes = with_unit(aru, |unit| unit.read(name, offset, len))?;
        if !bytes.is_empty() {
            // SAFETY: `buf` has room for `len` bytes, at least as many as were read.
            unsafe { give(&bytes, buf.cast()) };
        }
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { done.write(bytes.len()) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// `name` is NULL or a string that ends with a zero byte; `data` is NULL or has `len` bytes, which do not change
/// meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_write(
    aru: *mut TonearmAru,
    name: *const c_char,
    offset: u64,
    data: *const c_void,
    len: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text_of(name, "name") }?;
        // SAFETY: the caller's promise.
        let data = unsafe { data_of(data, len) }?;
        with_unit(aru, |unit| unit.write(name, offset, data))
    })
}

fn store_of(store: *mut TonearmStore) -> Result<Arc<Store>, Failure> {
    let found = STORES.get(Number::of(store));
    found.ok_or_else(|| invalid("the store is not open"))
}

fn with_unit<T>(
    aru: *mut TonearmAru,
    operation: impl FnOnce(&mut Aru) -> Result<T, StoreError>,
) -> Result<T, Failure> {
    let open = ARUS.get(Number::of(aru)).ok_or_else(no_unit)?;
    let mut unit = locked(&open.unit);
    let unit = unit.as_mut().ok_or_else(no_unit)?;
    Ok(operation(unit)?)
}

fn no_unit() -> Failure {
    invalid("the recovery unit is not open")
}

fn check_place<T>(place: *mut T, what: &str) -> Result<(), Failure> {
    match place.is_null() {
        true => Err(invalid(format!("{what} is NULL"))),
        false => Ok(()),
    }
}

/// # Safety
/// `place` is not NULL and has room for all `items`.
unsafe fn give<T: Copy>(items: &[T], place: *mut T) {
    // SAFETY: the caller's promise; they overlap nothing, since `items` are Tonearm's own.
    unsafe { place.copy_from_nonoverlapping(items.as_ptr(), items.len()) };
}

/// # Safety
/// `data` is NULL or has `len` bytes, which do not change for `'a`.
unsafe fn data_of<'a>(data: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    match len {
        0 => Ok(&[]),
        _ if data.is_null() => Err(invalid("data is NULL")),
        _ if len > isize::MAX as usize => Err(invalid("len is no length")),
        // SAFETY: the caller's promise; it is not NULL, and the length is possible.
        _ => Ok(unsafe { std::slice::from_raw_parts(data.cast(), len) }),
    }
}

/// # Safety
/// `text` is NULL or a string that ends with a zero byte and does not change for `'a`.
unsafe fn bytes_of<'a>(text: *const c_char, what: &str) -> Result<&'a [u8], Failure> {
    if text.is_null() {
        return Err(invalid(format!("{what} is NULL")));
    }
    // SAFETY: the caller's promise; it is not NULL.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// # Safety
/// As for [`bytes_of`].
unsafe fn text_of<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { bytes_of(text, what) }?;
    std::str::from_utf8(bytes).map_err(|_| invalid(format!("{what} is not UTF-8")))
}

/// # Safety
/// As for [`bytes_of`].
unsafe fn path_of<'a>(path: *const c_char) -> Result<&'a Path, Failure> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { bytes_of(path, "path") }?;
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// The mutex may be poisoned: a unit whose operation has panicked refuses calls itself.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
