//! Finds a drive file by its name or path.

use crate::library::library;
use crate::spec::{DriveSpec, SpecError};
use std::path::Path;

/// A drive, its name and its file.
#[derive(Clone, Debug)]
pub struct DriveFile {
    /// Name, as the user gave it.
    pub name: String,
    /// The TOML text.
    pub text: String,
    /// Its content.
    pub spec: DriveSpec,
}

/// Why there is no such drive.
#[derive(Debug, thiserror::Error)]
pub enum DriveFileError {
    /// Neither a drive of the library nor a file.
    #[error("there is no drive '{name}': it is one of {known}, or the path of a .toml file")]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of the library.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read the drive's file {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

impl DriveFile {
    /// The drive of the library with the name `name`, or the file at the path `name`.
    ///
    /// # Errors
    /// When there is none, or the file is wrong.
    pub fn find(name: &str) -> Result<Self, DriveFileError> {
        let known = library().iter().find(|drive| drive.name == name);
        let (file, text) = match known {
            Some(known) => (format!("drives/{name}.toml"), known.text.to_string()),
            None if is_path(name) => {
                let text =
                    std::fs::read_to_string(name).map_err(|source| DriveFileError::Read {
                        path: name.to_string(),
                        source,
                    })?;
                (name.to_string(), text)
            }
            None => {
                let names: Vec<&str> = library().iter().map(|drive| drive.name).collect();
                return Err(DriveFileError::Unknown {
                    name: name.to_string(),
                    known: names.join(", "),
                });
            }
        };
        let spec = DriveSpec::parse(&file, &text)?;
        Ok(Self {
            name: name.to_string(),
            text,
            spec,
        })
    }

    /// The drive of the library with the name `name`.
    ///
    /// # Panics
    /// When there is none.
    pub fn of_library(name: &str) -> Self {
        let known = library().iter().find(|drive| drive.name == name);
        let text = known.expect("a drive of the library").text.to_string();
        let spec = DriveSpec::parse(name, &text).expect("the library's drives are right");
        Self {
            name: name.to_string(),
            text,
            spec,
        }
    }
}

fn is_path(name: &str) -> bool {
    name.ends_with(".toml") || name.contains('/') || Path::new(name).is_file()
}
