//! Reads the data files outside of the project.

use flate2::bufread::MultiGzDecoder;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A file of the folder of drive facts.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/oracle")
        .join(name)
}

/// Its bytes, unpacked when they are packed.
pub fn text(name: &str) -> String {
    let path = path(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; this test needs the folder shared/oracle next to the project",
            path.display()
        )
    });
    if !name.ends_with(".gz") {
        return String::from_utf8(bytes).unwrap();
    }
    let mut text = String::new();
    MultiGzDecoder::new(bytes.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// The fields of each line except the first, which contains their names.
pub fn rows(name: &str) -> Vec<Vec<String>> {
    let split = |line: &str| line.split(',').map(str::to_owned).collect();
    text(name).lines().skip(1).map(split).collect()
}

/// The drive of the project called `name`.
pub fn drive(name: &str) -> tonearm_drive_file::DriveSpec {
    tonearm_drive_file::DriveFile::of_library(name).spec
}
