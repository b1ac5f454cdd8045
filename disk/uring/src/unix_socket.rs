//! Unix sockets in the file system, however long the paths of their folders are.
//!
//! The kernel takes an address of at most 107 bytes. A server and its clients find each other by the path of the store, so that
//! length would decide which stores can be served. A longer path is given to the kernel as `/proc/self/fd/N/NAME`, where N is a
//! descriptor of the folder. The short ones are given as they are, because other programs show them (`ss -xl`).

use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Longest path of a Unix socket that the kernel takes, in bytes.
const PATH_MAX: usize = 107;

/// The path of a socket, as the kernel takes it for as long as this value lives.
#[derive(Debug)]
pub struct SocketPath {
    path: PathBuf,
    _folder: Option<OwnedFd>,
}

impl SocketPath {
    /// The socket at `path`, which may not exist yet. A name that is too long itself, or a long path without /proc, stays as it is,
    /// and the kernel refuses it.
    ///
    /// # Errors
    /// When its folder cannot be opened.
    pub fn of(path: &Path) -> io::Result<Self> {
        let plain = Self {
            path: path.to_path_buf(),
            _folder: None,
        };
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(plain);
        };
        if path.as_os_str().len() <= PATH_MAX || folder.as_os_str().is_empty() {
            return Ok(plain);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        if !short.exists() {
            return Ok(plain);
        }
        Ok(Self {
            path: short.join(name),
            _folder: Some(folder),
        })
    }

    /// What to bind or to connect.
    pub fn as_path(&self) -> &Path {
        &self.path
    }
}

/// Binds a listening socket to `path`.
///
/// # Errors
/// Those of bind(2), and when the folder cannot be opened.
pub fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    UnixListener::bind(SocketPath::of(path)?.as_path())
}

/// Connects to the socket at `path`.
///
/// # Errors
/// Those of connect(2), and when the folder cannot be opened.
pub fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(SocketPath::of(path)?.as_path())
}
