//! Folders whose files come and go.

use rustix::fs::Advice;
use std::fs::{self, File};
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

/// Makes the folder `name` in `dir`, which an interrupted run may have left. Returns its absolute path.
///
/// # Errors
/// When it cannot be removed or made.
pub fn make_new(dir: &Path, name: &str) -> Result<PathBuf> {
    let dir = dir.join(name);
    remove(&dir)?;
    fs::create_dir_all(&dir)?;
    dir.canonicalize()
}

/// Removes a file or folder, if it is there.
///
/// # Errors
/// When it cannot be removed.
pub fn remove(path: &Path) -> Result<()> {
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    there(removed).map(|_| ())
}

/// Makes each file below `from` again below `to` with `copy`. Files that go meanwhile are left out.
///
/// # Errors
/// When a folder cannot be read or made, and those of `copy`.
pub fn copy<T>(from: &Path, to: &Path, copy: impl Fn(&Path, &Path) -> Result<T>) -> Result<()> {
    for path in files(from)? {
        let target = to.join(path.strip_prefix(from).expect("it is below the folder"));
        fs::create_dir_all(target.parent().expect("it is in a folder"))?;
        there(copy(&path, &target))?;
    }
    Ok(())
}

/// Writes out what the file system of `path` has in memory, so that no sample pays for what was written before it.
///
/// # Errors
/// When it cannot be synced.
pub fn sync(path: &Path) -> Result<()> {
    Ok(rustix::fs::syncfs(File::open(path)?)?)
}

/// Drops a file from the page cache.
///
/// # Errors
/// When it cannot be opened.
pub fn make_cold(path: &Path) -> Result<()> {
    Ok(rustix::fs::fadvise(
        File::open(path)?,
        0,
        None,
        Advice::DontNeed,
    )?)
}

/// The address of a folder as a bucket.
pub fn url(folder: &Path) -> String {
    format!("file://{}", folder.display())
}
