//! Converts results and panics to codes, and keeps the text of the last error of each thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tonearm_disk::ErrorKind;
use tonearm_store::StoreError;
use tonearm_store::files::FilesErrorKind;
use tonearm_uring::MemberError;

/// The codes of the header.
const OK: c_int = 0;
const NOT_FOUND: c_int = 1;
const EXISTS: c_int = 2;
const NO_SPACE: c_int = 3;
const READ_ONLY: c_int = 4;
const DAMAGED: c_int = 5;
const CONFLICT: c_int = 6;
const BUSY: c_int = 7;
const FAILED: c_int = 8;
const INVALID: c_int = 9;
const PANIC: c_int = 10;

thread_local!(static LAST: RefCell<CString> = RefCell::default());

/// A code and its text.
pub struct Failure {
    code: c_int,
    text: String,
}

/// An argument that makes no sense.
pub fn invalid(text: impl Into<String>) -> Failure {
    Failure {
        code: INVALID,
        text: text.into(),
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Member(error) => of_member(error),
            StoreError::Disk(error) => of_kind(error.kind()),
            StoreError::Files(error) => of_file(error.kind),
            StoreError::Engine(error) => {
                of_kind(tonearm_disk::DiskError::from(error.clone()).kind())
            }
            _ => FAILED,
        };
        Self {
            code,
            text: error.to_string(),
        }
    }
}

fn of_member(error: &MemberError) -> c_int {
    match error {
        MemberError::InUse { .. } | MemberError::DeviceBusy { .. } => BUSY,
        MemberError::NotFound { .. } | MemberError::NoFolder { .. } => NOT_FOUND,
        MemberError::Exists { .. } => EXISTS,
        MemberError::NoSpace { .. } => NO_SPACE,
        MemberError::OddSize { .. } => INVALID,
        _ => FAILED,
    }
}

fn of_file(kind: FilesErrorKind) -> c_int {
    match kind {
        FilesErrorKind::NotFound => NOT_FOUND,
        FilesErrorKind::Exists => EXISTS,
        FilesErrorKind::NoSpace => NO_SPACE,
        FilesErrorKind::ReadOnly => READ_ONLY,
        FilesErrorKind::Damaged => DAMAGED,
        FilesErrorKind::Conflict => CONFLICT,
        FilesErrorKind::Busy => BUSY,
        FilesErrorKind::Away | FilesErrorKind::Failed => FAILED,
    }
}

fn of_kind(kind: ErrorKind) -> c_int {
    match kind {
        ErrorKind::NotFound | ErrorKind::Deleted => NOT_FOUND,
        ErrorKind::Exists => EXISTS,
        ErrorKind::NoSpace => NO_SPACE,
        ErrorKind::ReadOnly => READ_ONLY,
        ErrorKind::Damaged => DAMAGED,
        ErrorKind::Conflict => CONFLICT,
        ErrorKind::OutOfRange | ErrorKind::Invalid => INVALID,
        ErrorKind::Failed => FAILED,
    }
}

/// Runs a function of the API. Returns its code, and keeps the text for [`last_error`].
pub fn guarded(work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(work));
    let (code, text) = match done {
        Ok(Ok(())) => return OK,
        Ok(Err(Failure { code, text })) => (code, text),
        Err(panic) => {
            let text = "a fault in Tonearm itself, see the process's standard error".to_string();
            // The payload of a panic may panic when it is dropped.
            std::mem::forget(panic);
            (PANIC, text)
        }
    };
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // A thread that is ending has no thread-local storage any more.
    let _ = LAST.try_with(|last| last.replace(text));
    code
}

/// The text of the thread's last error.
pub fn last_error() -> *const c_char {
    let text = LAST.try_with(|last| last.borrow().as_ptr());
    text.unwrap_or(c"".as_ptr())
}
