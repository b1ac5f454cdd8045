//! Names. SQLite knows a file by its full name alone when it asks for it again or deletes it, so the full name
//! says where it lies: the path of the store, a slash, and the name of the file, which has none.

use crate::failure::{Failure, Result};
use crate::ffi;
use std::path::Path;

/// The environment variable with the store of a name that tells none.
pub const STORE_VARIABLE: &str = "TONEARM_STORE";

/// Store and file of a full name.
pub fn split(full: &str) -> Option<(&str, &str)> {
    full.rsplit_once('/')
        .filter(|(store, file)| !store.is_empty() && !file.is_empty())
}

/// The full name of what a program calls `name`, with the parameter `store` of its URI.
///
/// # Errors
/// `CANTOPEN` when no store is told, or two are.
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

/// One name for each store: the real path of one on this machine, what it was provided as for another.
fn canonical(store: &str, is_provided: &impl Fn(&str) -> bool) -> String {
    if is_provided(store) {
        return store.to_owned();
    }
    let real = Path::new(store).canonicalize();
    let real = real.ok().and_then(|path| path.to_str().map(str::to_owned));
    real.unwrap_or_else(|| store.to_owned())
}

/// A transaction that no single store can keep atomic.
pub fn not_one_store(name: &str, store: &str) -> Failure {
    let text = format!(
        "a transaction changes databases in the store {store} and others ({name}); it can be atomic within one store \
         only, so it is rolled back: commit them one after the other, or keep all of them in one store"
    );
    Failure::new(ffi::ERROR, text)
}
