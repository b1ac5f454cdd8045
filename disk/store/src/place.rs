//! Where a store is, whatever its name: its folder, in which members without a full path lie, and its sockets.
//!
//! Invariant: all names that lead to the primary member through symbolic links give the same folder and the same sockets. A server
//! and its clients find each other only by that.

use std::path::{Path, PathBuf};
use tonearm_engine::EngineError;

/// The folder of a path.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// `path` with `.suffix` after its name.
pub fn sibling_path(path: &Path, suffix: &str) -> PathBuf {
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
    sibling_path(&resolved(store), suffix)
}

/// The full path of `path`, which may not exist yet, without symbolic links of its folder.
pub(crate) fn whole(path: &Path) -> Result<PathBuf, EngineError> {
    let absolute = absolute(path)?;
    let name = absolute.file_name().ok_or_else(|| {
        let path = path.display();
        EngineError::Create(format!("{path} has no file name"))
    })?;
    Ok(real(folder_of(&absolute)).join(name))
}

/// How the store at `store`, which may not exist yet, records its member with the full path `whole`. A store may move as a
/// folder; what lies elsewhere is found by its full path.
pub(crate) fn recorded(store: &Path, whole: &Path) -> Result<String, EngineError> {
    let folder = real(&store_folder(&absolute(store)?));
    let recorded = whole.strip_prefix(&folder).unwrap_or(whole).to_str();
    let recorded = recorded.ok_or_else(|| {
        let whole = whole.display();
        EngineError::Create(format!("{whole}: the path is not UTF-8; choose another"))
    })?;
    Ok(recorded.to_string())
}

/// How the store at `store` records the path of its member at `path`.
///
/// # Errors
/// When the path has no name, or is not UTF-8.
pub fn recorded_path(store: &Path, path: &Path) -> Result<String, EngineError> {
    recorded(store, &whole(path)?)
}

fn absolute(path: &Path) -> Result<PathBuf, EngineError> {
    std::path::absolute(path).map_err(|error| EngineError::Create(error.to_string()))
}

/// `folder` without symbolic links, if it exists.
fn real(folder: &Path) -> PathBuf {
    folder
        .canonicalize()
        .unwrap_or_else(|_| folder.to_path_buf())
}

#[cfg(test)]
#[path = "place_test.rs"]
mod place_test;
