//! Descriptions of devices for people: a file of one line for each, in a directory that is empty after a boot, as the kernel has no
//! devices then. The kernel keeps a number of each identity, and a file that does not have it is that of another device.

use crate::error::AttachError;
use crate::identity::Identity;
use std::fs::{self, File};
use std::io::{ErrorKind, Result, Write};
use std::path::{Path, PathBuf};

/// The directory.
const FOLDER: &str = "/run/tonearm";

fn path_of(index: u32) -> PathBuf {
    Path::new(FOLDER).join(format!("ublkb{index}"))
}

/// Writes the file of a device.
///
/// # Errors
/// When the directory cannot be written.
pub fn write(index: u32, identity: &Identity) -> Result<()> {
    fs::create_dir_all(FOLDER)?;
    let path = path_of(index);
    let new = path.with_extension("new");
    // Made anew, because the directory may belong to a user, and his link may lead to another file.
    let _ = fs::remove_file(&new);
    File::create_new(&new)?.write_all(identity.to_string().as_bytes())?;
    fs::rename(new, path)
}

/// Removes the file of a device.
pub fn remove(index: u32) {
    // A file that stays is not believed.
    let _ = fs::remove_file(path_of(index));
}

/// The devices that have files, with what the files say.
///
/// # Errors
/// When a file cannot be read.
pub fn listed() -> std::result::Result<Vec<(u32, Identity)>, AttachError> {
    let folder = match fs::read_dir(FOLDER) {
        Ok(folder) => folder,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(AttachError::unreadable(Path::new(FOLDER), error)),
    };
    let mut found = Vec::new();
    for entry in folder {
        let entry = entry.map_err(|error| AttachError::unreadable(Path::new(FOLDER), error))?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("ublkb"));
        let Some(index) = number.and_then(|number| number.parse().ok()) else {
            continue;
        };
        match fs::read_to_string(entry.path()) {
            Ok(text) => found.extend(Identity::parse(&text).map(|identity| (index, identity))),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(AttachError::unreadable(&entry.path(), error)),
        }
    }
    Ok(found)
}
