//! Errors on their way to SQLite: a result code, and a text for its error log and for `xGetLastError`.

use crate::api::Host;
use crate::ffi;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use tonearm_store::files::{FilesError, FilesErrorKind};

/// The result of a method of the VFS that fails.
#[derive(Debug)]
pub struct Failure {
    /// SQLite's result code.
    pub code: c_int,
    /// The text of the error. Empty for results that SQLite expects.
    pub text: String,
}

/// The result of a method of the VFS.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// An error with a text.
    pub fn new(code: c_int, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }

    /// A result of normal work: a busy lock, a short read.
    pub fn silent(code: c_int) -> Self {
        Self::new(code, "")
    }

    /// An error of the store, in a method whose own error is `code`. SQLite ends a transaction after `FULL`, and may
    /// try again with a journal after `IOERR`.
    pub fn of(code: c_int) -> impl FnOnce(FilesError) -> Self {
        move |error| {
            let code = match error.kind {
                FilesErrorKind::NoSpace => ffi::FULL,
                FilesErrorKind::ReadOnly => ffi::READONLY,
                FilesErrorKind::Damaged => ffi::IOERR_DATA,
                _ => code,
            };
            Self::new(code, error.text)
        }
    }

    /// The error at the end of a transaction, where SQLite takes only `FULL` and `IOERR` as final.
    pub fn at_end(error: FilesError) -> Self {
        let code = match error.kind {
            FilesErrorKind::NoSpace => ffi::FULL,
            _ => ffi::IOERR_COMMIT_ATOMIC,
        };
        Self::new(code, error.text)
    }
}

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The environment variable by which each failure is printed on standard error, as most programs show only SQLite's code
/// of it. With 0 nothing is printed, not even what [`print_once`] does without it.
const DEBUG_VARIABLE: &str = "TONEARM_DEBUG";

/// What [`DEBUG_VARIABLE`] asks for, if anything.
fn prints_all() -> Option<bool> {
    let value = std::env::var_os(DEBUG_VARIABLE).filter(|value| !value.is_empty())?;
    Some(value != "0")
}

fn print(text: &str) {
    // A program without standard error has other ways to see it.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Prints on standard error why a store cannot be opened at all, once for each reason: SQLite has no message for it but
/// "unable to open database file".
pub fn print_once(text: &str) {
    /// Texts that are remembered.
    const TEXTS_MAX: usize = 16;
    static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    if prints_all().is_some() {
        return;
    }
    let mut printed = PRINTED.lock().unwrap_or_else(PoisonError::into_inner);
    if printed.len() < TEXTS_MAX && !printed.iter().any(|known| known == text) {
        printed.push(text.to_owned());
        drop(printed);
        print(&format!("tonearm: {text}"));
    }
}

/// Reports a failure to SQLite, and keeps its text for [`last`].
pub fn report(host: &Host, failure: &Failure) {
    if failure.text.is_empty() {
        return;
    }
    let text = format!("tonearm: {}", failure.text);
    if prints_all() == Some(true) {
        print(&text);
    }
    let line = CString::new(text.replace('\0', "?")).unwrap_or_default();
    // SAFETY: the format takes one string, which lives until the call returns.
    unsafe { (host.log)(failure.code, c"%s".as_ptr(), line.as_ptr().cast::<c_char>()) };
    // A thread that is ending keeps no text.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
}

/// Text of the last failure in this thread.
pub fn last() -> String {
    LAST.try_with(|last| last.borrow().clone())
        .unwrap_or_default()
}
