//! The VFS `tonearm`: maps names to files. Files without a name, and calls that are not about files, go to the VFS that
//! was the host's default before.

use crate::api::Host;
use crate::archive::{Parameters, RequestedArchive};
use crate::failure::{self, Failure, Result};
use crate::ffi::{self, File, Symbol, Vfs};
use crate::file::{Handle, OsFile, guarded};
use crate::journal::{Journal, SuperJournal};
use crate::main_db::MainDb;
use crate::names;
use crate::stores::{self, StoreRef};
use crate::wal::Plain;
use std::ffi::{CStr, c_char, c_double, c_int, c_void};
use std::sync::Mutex;
use tonearm_store::files::{FilesErrorKind, Open};

/// Name of the VFS.
pub const NAME: &CStr = c"tonearm";

/// The oldest host. In older versions a journal's name does not lead to its database.
const VERSION_MIN: c_int = 3_032_000;

/// Bytes of a full name. SQLite reads the name of a super-journal into a buffer of one page, and a page may have 512.
const PATHNAME_MAX: c_int = 512;

/// State of a registered VFS. It is never freed, because SQLite may use it until the process ends.
struct Registration {
    host: Host,
    /// The host's previous default VFS.
    below: *mut Vfs,
}

/// Registers the VFS with `host`, once.
///
/// # Errors
/// A text that says why not.
pub fn register(host: Host, make_default: bool) -> std::result::Result<(), String> {
    // Two threads may load the extension at the same time.
    static ONCE: Mutex<()> = Mutex::new(());
    let _once = ONCE.lock();
    // SAFETY: functions of the host, called as sqlite3.h says.
    unsafe {
        let version = (host.libversion_number)();
        if version < VERSION_MIN {
            return Err(format!(
                "SQLite {}.{} is too old for the VFS tonearm, which needs 3.32 or later",
                version / 1_000_000,
                version / 1000 % 1000
            ));
        }
        let known = (host.vfs_find)(NAME.as_ptr());
        if !known.is_null() {
            if make_default {
                (host.vfs_register)(known, 1);
            }
            return Ok(());
        }
        let below = (host.vfs_find)(std::ptr::null());
        if below.is_null() {
            return Err(
                "SQLite has no VFS of its own, which the VFS tonearm needs below it".into(),
            );
        }
        let own_bytes = size_of::<OsFile>() as c_int;
        let registration = Box::leak(Box::new(Registration { host, below }));
        let vfs = Box::leak(Box::new(Vfs {
            version: 2,
            os_file_bytes: own_bytes.max((*below).os_file_bytes),
            pathname_max: PATHNAME_MAX,
            next: std::ptr::null_mut(),
            name: NAME.as_ptr(),
            app_data: std::ptr::from_mut(registration).cast(),
            open,
            delete,
            access,
            full_pathname,
            dl_open: (*below).dl_open.and(Some(dl_open)),
            dl_error: (*below).dl_error.and(Some(dl_error)),
            dl_sym: (*below).dl_sym.and(Some(dl_sym)),
            dl_close: (*below).dl_close.and(Some(dl_close)),
            randomness,
            sleep,
            current_time,
            get_last_error: Some(get_last_error),
            current_time_int64: Some(current_time_int64),
        }));
        match (host.vfs_register)(vfs, c_int::from(make_default)) {
            ffi::OK => Ok(()),
            code => Err(format!(
                "SQLite refuses to register the VFS tonearm: result code {code}"
            )),
        }
    }
}

/// # Safety
/// `vfs` is one of ours.
unsafe fn registration(vfs: *mut Vfs) -> &'static Registration {
    // SAFETY: `register` has set it, and never frees it.
    unsafe { &*(*vfs).app_data.cast::<Registration>() }
}

/// # Safety
/// `text` is null or ends with a zero byte.
unsafe fn text<'a>(text: *const c_char) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller says.
    let text = unsafe { CStr::from_ptr(text) };
    let name = text.to_str();
    let name = name.map_err(|_| Failure::new(ffi::CANTOPEN, format!("{text:?} is not UTF-8")))?;
    Ok(Some(name))
}

/// The path of the store in a full name, and the rest of it.
fn split(full: &str) -> Result<(&str, &str)> {
    names::split(full).ok_or_else(|| {
        let text = format!("{full:?} is not the name of a file in a store");
        Failure::new(ffi::CANTOPEN, text)
    })
}

/// The store of a full name, and the rest of it.
fn find(full: &str) -> Result<(StoreRef, &str)> {
    let (path, name) = split(full)?;
    Ok((stores::acquire(path)?, name))
}

unsafe extern "C" fn open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite's arguments; without methods it does not close a file that failed to open.
    unsafe {
        let Registration { host, below } = registration(vfs);
        (*file).methods = std::ptr::null();
        if name.is_null() && flags & ffi::OPEN_SUBJOURNAL == 0 {
            return ((**below).open)(*below, name, file, flags, flags_out);
        }
        guarded(host, || {
            let (handle, shm) = match text(name)? {
                Some(full) => open_named(host, name, full, flags)?,
                None => (Box::new(Journal::new()) as Box<dyn Handle>, false),
            };
            OsFile::open(file, host, handle, shm, offers_batches(host, name, flags)?);
            if !flags_out.is_null() {
                *flags_out = flags;
            }
            Ok(ffi::OK)
        })
    }
}

/// Whether SQLite may use batch atomic writes. With `batch=off` in the URI it may not, and behaves as a SQLite that was
/// compiled without them.
///
/// # Safety
/// As for [`open_named`].
unsafe fn offers_batches(host: &Host, name: *const c_char, flags: c_int) -> Result<bool> {
    if flags & ffi::OPEN_MAIN_DB == 0 {
        return Ok(true);
    }
    // SAFETY: SQLite opens a main database with the parameters of its URI after the name.
    let batch = unsafe { text((host.uri_parameter)(name, c"batch".as_ptr()))? };
    Ok(batch != Some("off"))
}

/// Opens a file with a name. Also returns whether the file has shared memory.
///
/// # Safety
/// `name` is the name that SQLite opens, with its parameters after it.
unsafe fn open_named(
    host: &'static Host,
    name: *const c_char,
    full: &str,
    flags: c_int,
) -> Result<(Box<dyn Handle>, bool)> {
    if flags & (ffi::OPEN_MAIN_JOURNAL | ffi::OPEN_SUBJOURNAL) != 0 {
        return Ok((Box::new(Journal::new()), false));
    }
    let (path, file) = split(full)?;
    if flags & ffi::OPEN_SUPER_JOURNAL != 0 {
        let store = stores::acquire(path)?;
        return Ok((Box::new(SuperJournal::new(store, file)), false));
    }
    let how = Open {
        create: flags & ffi::OPEN_CREATE != 0,
        exclusive: flags & ffi::OPEN_EXCLUSIVE != 0,
    };
    if flags & ffi::OPEN_MAIN_DB == 0 {
        let store = stores::acquire(path)?;
        return Ok((Box::new(Plain::open(store, file, how)?), false));
    }
    // SAFETY: SQLite opens a main database with the parameters of its URI after the name.
    let nolock = unsafe { text((host.uri_parameter)(name, c"nolock".as_ptr()))? };
    if nolock.is_some_and(|value| !matches!(value, "0" | "no" | "off" | "false")) {
        let text = "nolock=1 is not for the VFS tonearm: its locks show where a transaction begins and ends";
        return Err(Failure::new(ffi::CANTOPEN, text));
    }
    // SAFETY: as above.
    let parameter = |key: &CStr| unsafe { text((host.uri_parameter)(name, key.as_ptr())) };
    let late = parameter(c"create")? == Some("late");
    let url = parameter(c"archive")?;
    let parameters = match url {
        Some(_) => Parameters {
            interval: parameter(c"archive_interval")?,
            keep: parameter(c"archive_keep")?,
            keep_every_commit: parameter(c"archive_keep_every_commit")?,
            recipient: parameter(c"archive_recipient")?,
        },
        None => Parameters::default(),
    };
    let wanted = url
        .map(|url| RequestedArchive::of(url, &parameters))
        .transpose()?;
    let (store, database) = stores::acquire_and(path, |store| {
        if let Some(wanted) = &wanted {
            store.archive(wanted)?;
        }
        let mut database = MainDb::open(host, store, file, how, late)?;
        if let Some(url) = url {
            database.set_archived_at(url);
        }
        Ok(database)
    })?;
    let shm = store.files().in_process().is_some();
    Ok((Box::new(database), shm))
}

unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, _sync: c_int) -> c_int {
    // SAFETY: SQLite's arguments.
    unsafe {
        guarded(&registration(vfs).host, || {
            let full = text(name)?.unwrap_or_default();
            if full.ends_with("-journal") {
                return Ok(ffi::OK);
            }
            let (store, file) = find(full)?;
            if store.has_super_journal(file) {
                return store.delete_super_journal(file).map(|()| ffi::OK);
            }
            match store.files().delete(file) {
                Ok(()) => Ok(ffi::OK),
                Err(error) if error.kind == FilesErrorKind::NotFound => {
                    Err(Failure::silent(ffi::IOERR_DELETE_NOENT))
                }
                Err(error) => Err(Failure::of(ffi::IOERR_DELETE)(error)),
            }
        })
    }
}

unsafe extern "C" fn access(
    vfs: *mut Vfs,
    name: *const c_char,
    flags: c_int,
    answer: *mut c_int,
) -> c_int {
    // SAFETY: SQLite's arguments. Calls about a directory for temporary files are handed on as they came: SQLite asks
    // for no other directory whether it may write there, and the VFS below makes these files.
    unsafe {
        if flags == ffi::ACCESS_READWRITE {
            let below = registration(vfs).below;
            return ((*below).access)(below, name, flags, answer);
        }
        guarded(&registration(vfs).host, || {
            let full = text(name)?.unwrap_or_default();
            *answer = c_int::from(exists(full)?);
            Ok(ffi::OK)
        })
    }
}

fn exists(full: &str) -> Result<bool> {
    let (store, file) = find(full)?;
    let journal = file.strip_suffix("-journal");
    if let Some(database) = journal.or(file.strip_suffix("-wal")) {
        store.database(database).begins_anew();
    }
    if journal.is_some() {
        return Ok(false);
    }
    if store.has_super_journal(file) {
        return Ok(true);
    }
    let exists = store.files().exists(file);
    exists.map_err(Failure::of(ffi::IOERR_ACCESS))
}

unsafe extern "C" fn full_pathname(
    vfs: *mut Vfs,
    name: *const c_char,
    bytes: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite's arguments; a name that it opens has its parameters after it.
    unsafe {
        let host = &registration(vfs).host;
        guarded(host, || {
            let store = text((host.uri_parameter)(name, c"store".as_ptr()))?;
            let name = text(name)?.unwrap_or_default();
            let full = names::full(name, store, stores::is_provided)?;
            if full.len() + 1 > bytes as usize {
                let text = format!(
                    "the name {full} has over {PATHNAME_MAX} bytes: give the store a shorter path"
                );
                return Err(Failure::new(ffi::CANTOPEN, text));
            }
            out.copy_from_nonoverlapping(full.as_ptr().cast(), full.len());
            *out.add(full.len()) = 0;
            Ok(ffi::OK)
        })
    }
}

unsafe extern "C" fn get_last_error(_: *mut Vfs, bytes: c_int, out: *mut c_char) -> c_int {
    let text = failure::last();
    let count = text.len().min((bytes.max(1) - 1) as usize);
    // SAFETY: SQLite's buffer of `bytes` bytes.
    unsafe {
        if bytes > 0 {
            out.copy_from_nonoverlapping(text.as_ptr().cast(), count);
            *out.add(count) = 0;
        }
    }
    0
}

unsafe extern "C" fn dl_open(vfs: *mut Vfs, name: *const c_char) -> *mut c_void {
    // SAFETY: handed on as it came.
    unsafe {
        let below = registration(vfs).below;
        (*below)
            .dl_open
            .map_or(std::ptr::null_mut(), |call| call(below, name))
    }
}

unsafe extern "C" fn dl_error(vfs: *mut Vfs, bytes: c_int, out: *mut c_char) {
    // SAFETY: handed on as it came.
    unsafe {
        let below = registration(vfs).below;
        if let Some(call) = (*below).dl_error {
            call(below, bytes, out);
        }
    }
}

unsafe extern "C" fn dl_sym(vfs: *mut Vfs, library: *mut c_void, name: *const c_char) -> Symbol {
    // SAFETY: handed on as it came.
    unsafe {
        let below = registration(vfs).below;
        (*below).dl_sym.and_then(|call| call(below, library, name))
    }
}

unsafe extern "C" fn dl_close(vfs: *mut Vfs, library: *mut c_void) {
    // SAFETY: handed on as it came.
    unsafe {
        let below = registration(vfs).below;
        if let Some(call) = (*below).dl_close {
            call(below, library);
        }
    }
}

unsafe extern "C" fn randomness(vfs: *mut Vfs, bytes: c_int, out: *mut c_char) -> c_int {
    // SAFETY: handed on as it came.
    unsafe {
        let below = registration(vfs).below;
        ((*below).randomness)(below, bytes, out)
    }
}

unsafe extern "C" fn sleep(vfs: *mut Vfs, microseconds: c_int) -> c_int {
    // SAFETY: handed on as it came.
    unsafe {
        let below = registration(vfs).below;
        ((*below).sleep)(below, microseconds)
    }
}

unsafe extern "C" fn current_time(vfs: *mut Vfs, out: *mut c_double) -> c_int {
    // SAFETY: handed on as it came.
    unsafe {
        let below = registration(vfs).below;
        ((*below).current_time)(below, out)
    }
}

/// Milliseconds of the Julian day.
unsafe extern "C" fn current_time_int64(vfs: *mut Vfs, out: *mut i64) -> c_int {
    // SAFETY: handed on as it came, to the method that the VFS below has.
    unsafe {
        let below = registration(vfs).below;
        if (*below).version >= 2
            && let Some(call) = (*below).current_time_int64
        {
            return call(below, out);
        }
        let mut days = 0.0;
        let code = ((*below).current_time)(below, &mut days);
        *out = (days * 86_400_000.0) as i64;
        code
    }
}
