//! Full names of files. SQLite uses only a file's full name when it opens the file again or deletes it. So the full
//! name has the path of the store, a slash, and the name of the file, which contains no slash.

use crate::failure::{Failure, Result};
use crate::ffi;
use std::path::Path;

/// The environment variable with the store for names without one.
pub const STORE_VARIABLE: &str = "TONEARM_STORE";

/// The store and the file of a full name.
pub fn split(full: &str) -> Option<(&str, &str)> {
    full.rsplit_once('/')
        .filter(|(store, file)| !store.is_empty() && !file.is_empty())
}

/// The full name of the file that a program calls `name`, with the parameter `store` of its URI.
///
/// # Errors
/// `CANTOPEN` when no store is given, or two are.
pub fn full(name: &str, store: Option<&str>, is_provided: impl Fn(&str) -> bool) -> Result<String> {
    let (told, file) = match split(name) {
        Some((told, file)) => (Some(told), file),
        None => (None, name),
    };
    if file.is_empty() || file.contains('/') {
        let text = format!("{name:?} names no file of a store");
        return Err(Failure::new(ffi::CANTOPEN, text));
    }
    let variable = std::env::var(STORE_VARIABLE).ok();
    let store = match (told, store) {
        (Some(told), Some(store))
            if canonical(told, &is_provided) != canonical(store, &is_provided) =>
        {
            let text = format!(
                "{name:?} has a slash, so it names a file in the store {told}, but the URI says store={store}; \
                 files of a store have plain names such as app.db"
            );
            return Err(Failure::new(ffi::CANTOPEN, text));
        }
        (told, store) => store.or(told).or(variable.as_deref()),
    };
    let Some(store) = store.filter(|store| !store.is_empty()) else {
        let text = format!(
            "no store is told for {name:?}: open file:{file}?vfs=tonearm&store=/path/store.tn, or set {STORE_VARIABLE}"
        );
        return Err(Failure::new(ffi::CANTOPEN, text));
    };
    Ok(format!("{}/{file}", canonical(store, &is_provided)))
}

/// One name for each store: the real path of a store on this machine; for a provided store, the name under which it was
/// provided.
fn canonical(store: &str, is_provided: &impl Fn(&str) -> bool) -> String {
    if is_provided(store) {
        return store.to_owned();
    }
    let real = Path::new(store).canonicalize();
    let real = real.ok().and_then(|path| path.to_str().map(str::to_owned));
    real.unwrap_or_else(|| store.to_owned())
}

/// The error for a transaction that no single store can keep atomic.
pub fn not_one_store(name: &str, store: &str) -> Failure {
    let text = format!(
        "a transaction changes databases in the store {store} and others ({name}); it can be atomic within one store \
         only, so it is rolled back: commit them one after the other, or keep all of them in one store"
    );
    Failure::new(ffi::ERROR, text)
}
