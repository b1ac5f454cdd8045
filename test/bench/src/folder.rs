//! Folders whose files come and go.

use std::fs;
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

/// None when it is not there.
fn there<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// All files below `folder`; none when there is no such folder.
///
/// # Errors
/// When a folder cannot be read.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in there(fs::read_dir(folder))?.into_iter().flatten() {
            let path = entry?.path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    Ok(files)
}

/// Bytes of all files below `folder`.
///
/// # Errors
/// When a folder cannot be read.
pub fn bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for path in files(folder)? {
        bytes += there(path.metadata())?.map_or(0, |metadata| metadata.len());
    }
    Ok(bytes)
}
