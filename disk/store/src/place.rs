//! Where a store is, whatever its name: its folder, in which members without a full path lie, and its sockets.
//!
//! Invariant: all names that lead to the primary member through symbolic links give the same folder and the same sockets. A server
//! and its clients find each other only by that.

use std::path::{Path, PathBuf};

/// The folder of a path.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// `path` with `.suffix` after its name.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// The store's own path: the one to which symbolic links lead. A path without links stays as it is: messages then
/// name the sockets as the store was named.
pub fn resolved(store: &Path) -> PathBuf {
    match (store.canonicalize(), std::path::absolute(store)) {
        (Ok(real), Ok(absolute)) if real != absolute => real,
        // Also for a store that does not exist, for which the opening has the error.
        _ => store.to_path_buf(),
    }
}

/// The folder in which members lie that the store at `store` records without a full path.
pub fn store_folder(store: &Path) -> PathBuf {
    folder_of(&resolved(store)).to_path_buf()
}

/// The socket `.suffix` of the store at `store`, where its server listens and its clients look.
pub fn socket_of(store: &Path, suffix: &str) -> PathBuf {
    beside(&resolved(store), suffix)
}

#[cfg(test)]
#[path = "place_test.rs"]
mod place_test;
