//! Unix sockets in the file system: stale ones, and cleaning up.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with,
};

use super::socket::ListenError;
use tonearm_uring::SocketPath;

/// Removes the socket's file when dropped, if it is still the same file.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|file| (file.dev(), file.ino()) == (self.device, self.inode));
        if ours {
            // An error at this point has no receiver.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds a socket to `path`. A socket file without a listener is left over
/// from a killed server and is replaced; anything else stays.
pub(super) fn bind_unix(path: &Path) -> Result<(OwnedFd, SocketFile), ListenError> {
    let failed = |error: io::Error| ListenError::Bind {
        address: path.display().to_string(),
        error,
    };
    let short = SocketPath::of(path).map_err(failed)?;
    let address = SocketAddrUnix::new(short.as_path()).map_err(|errno| failed(errno.into()))?;
    let socket = new_socket().map_err(failed)?;
    match bind(&socket, &address) {
        Ok(()) => {}
        Err(Errno::ADDRINUSE) => {
            remove_stale(path, &address)?;
            bind(&socket, &address).map_err(|errno| failed(errno.into()))?;
        }
        Err(errno) => return Err(failed(errno.into())),
    }
    let file = fs::symlink_metadata(path).map_err(failed)?;
    let file = SocketFile {
        path: path.to_owned(),
        device: file.dev(),
        inode: file.ino(),
    };
    Ok((socket, file))
}

/// Removes the file at `path` if it is a socket without a listener.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), ListenError> {
    let failed = |error: io::Error| ListenError::Bind {
        address: path.display().to_string(),
        error,
    };
    let file = fs::symlink_metadata(path).map_err(failed)?;
    if !file.file_type().is_socket() {
        return Err(ListenError::NotASocket {
            path: path.to_owned(),
        });
    }
    // Only a refused connection proves that there is no listener: after a full
    // backlog or missing permissions there may be one.
    let probe = new_socket().map_err(failed)?;
    match connect(&probe, address) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path).map_err(failed),
        _ => Err(ListenError::InUse {
            path: path.to_owned(),
        }),
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        flags,
        None,
    )?)
}
