//! The destination of a copy out of a store: standard output, or a file that appears when it is complete.

use anyhow::{Context, bail};
use std::fs::{File, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tempfile::NamedTempFile;
use tonearm_uring::refuse_devices;

/// A destination that was checked, and not changed yet.
pub enum Place {
    /// Standard output.
    Standard,
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// Whether an existing file is replaced.
        replace: bool,
    },
}

impl Place {
    /// The destination that the user means by `given`, for a file `name`.
    ///
    /// # Errors
    /// When a file is there that must not be replaced.
    pub fn find(given: Option<&Path>, name: &str, replace: bool) -> anyhow::Result<Self> {
        if given == Some(Path::new("-")) {
            return Ok(Self::Standard);
        }
        let own = name.rsplit('/').next().unwrap_or(name);
        let path = match given {
            None => PathBuf::from(own),
            Some(folder) if folder.is_dir() => folder.join(own),
            Some(path) => path.to_path_buf(),
        };
        // For a link, its target is replaced, not the link.
        let path = path.canonicalize().unwrap_or(path);
        let shown = path.display();
        match path.metadata() {
            Ok(about) if !about.is_file() => {
                bail!("{shown} is not a regular file; use - for standard output")
            }
            Ok(_) if !replace => bail!("{shown} exists; --force replaces it"),
            Err(_) => {
                refuse_devices(&path)?;
                Ok(Self::File { path, replace })
            }
            _ => Ok(Self::File { path, replace }),
        }
    }

    /// Begins the copy.
    ///
    /// # Errors
    /// When no file can be made there.
    pub fn begin(self) -> anyhow::Result<Target> {
        Ok(match self {
            Self::Standard => Target::Standard(io::stdout()),
            Self::File { path, replace } => {
                let folder = tonearm_store::folder_of(&path);
                // What was in a store for its owner alone stays so: without other permissions, only its user has access.
                let file = tempfile::Builder::new()
                    .prefix(".tonearm-")
                    .tempfile_in(folder)
                    .with_context(|| format!("cannot make a file in {}", folder.display()))?;
                Target::File {
                    file,
                    path,
                    replace,
                }
            }
        })
    }
}

/// A copy that is being made. Dropping it leaves nothing behind.
pub enum Target {
    /// Standard output.
    Standard(io::Stdout),
    /// A file without its name.
    File {
        /// The file.
        file: NamedTempFile,
        /// Its later name.
        path: PathBuf,
        /// Whether an existing file of that name is replaced.
        replace: bool,
    },
}

impl Target {
    /// Adds `bytes` zeroes: a hole, where the target is a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn skip(&mut self, bytes: u64) -> io::Result<()> {
        match self {
            Self::Standard(out) => io::copy(&mut io::repeat(0).take(bytes), out).map(|_| ()),
            Self::File { file, .. } => {
                let end = file.stream_position()? + bytes;
                file.as_file().set_len(end)?;
                file.seek(SeekFrom::Start(end)).map(|_| ())
            }
        }
    }

    /// Gives the file its name, durably. Returns the name, if it is a file.
    ///
    /// # Errors
    /// When it cannot be made durable, or the name was taken meanwhile.
    pub fn finish(self) -> anyhow::Result<Option<String>> {
        let (file, path, replace) = match self {
            Self::Standard(mut out) => {
                out.flush()?;
                return Ok(None);
            }
            Self::File {
                file,
                path,
                replace,
            } => (file, path, replace),
        };
        let shown = path.display().to_string();
        let cannot = || format!("cannot write {shown}");
        file.as_file().sync_all().with_context(cannot)?;
        give_name(file, &path, replace).with_context(cannot)?;
        let folder = File::open(tonearm_store::folder_of(&path));
        folder
            .and_then(|folder| folder.sync_all())
            .with_context(cannot)?;
        Ok(Some(shown))
    }

    /// Gives the file its permissions, its time and its name. The caller makes it durable.
    ///
    /// # Errors
    /// When it cannot be written, or the name was taken meanwhile.
    pub fn finish_with(self, permissions: u32, modified: SystemTime) -> anyhow::Result<()> {
        let Self::File {
            file,
            path,
            replace,
        } = self
        else {
            return Ok(());
        };
        file.as_file()
            .set_permissions(Permissions::from_mode(permissions))
            .and_then(|()| file.as_file().set_modified(modified))
            .and_then(|()| give_name(file, &path, replace))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

fn give_name(file: NamedTempFile, path: &Path, replace: bool) -> io::Result<()> {
    let named = if replace {
        file.persist(path)
    } else {
        file.persist_noclobber(path)
    };
    named.map(drop).map_err(|error| error.error)
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(out) => out.write(bytes),
            Self::File { file, .. } => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.flush(),
            Self::File { file, .. } => file.flush(),
        }
    }
}
