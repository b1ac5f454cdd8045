//! Full names of files. SQLite uses only a file's full name when it opens the file again or deletes it. So the full
//! name has the path of the store and that of the file in it: `/srv/app.tn/app.db`. Two slashes stand before a file in a
//! directory, because one could belong to either path: `/srv/app.tn//shop/app.db`.

use crate::failure::{Failure, Result};
use crate::ffi;
use std::path::Path;

/// The environment variable with the store for names without one.
pub const STORE_VARIABLE: &str = "TONEARM_STORE";

/// The store and the file of a full name.
pub fn split(full: &str) -> Option<(&str, &str)> {
    let parts = full.split_once("//");
    let parts = parts.or_else(|| full.rsplit_once('/'));
    parts.filter(|(store, file)| !store.is_empty() && !file.is_empty())
}

/// The full name of the file that a program calls `name`, with the parameter `store` of its URI.
///
/// # Errors
/// `CANTOPEN` when no store is given.
pub fn full(name: &str, store: Option<&str>, is_provided: impl Fn(&str) -> bool) -> Result<String> {
    let variable = std::env::var(STORE_VARIABLE).ok();
    let (store, file) = match (split(name), store) {
        (Some((named, file)), Some(store))
            if canonical(named, &is_provided) == canonical(store, &is_provided) =>
        {
            (Some(store), file)
        }
        // A path in the store that the URI names.
        (_, Some(store)) => (Some(store), name.trim_start_matches('/')),
        (Some((named, file)), None) => (Some(named), file),
        (None, None) => (variable.as_deref(), name),
    };
    if file.is_empty() || file.ends_with('/') || file.contains("//") {
        let text = format!("{name:?} names no file of a store");
        return Err(Failure::new(ffi::CANTOPEN, text));
    }
    let Some(store) = store.filter(|store| !store.is_empty()) else {
        let text = format!(
            "no store is given for {name:?}: open file:{file}?vfs=tonearm&store=/path/store.tn, or set {STORE_VARIABLE}"
        );
        return Err(Failure::new(ffi::CANTOPEN, text));
    };
    let store = canonical(store, &is_provided);
    Ok(match file.contains('/') {
        true => format!("{store}//{file}"),
        false => format!("{store}/{file}"),
    })
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
