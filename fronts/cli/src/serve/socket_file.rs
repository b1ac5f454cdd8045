//! A Unix socket of this program in the file system.

use super::swaps;
use anyhow::{Context, bail};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tonearm_terminal::report;
use tonearm_uring::{bind_unix, connect_unix};

/// Removes the socket's file when dropped, if it is still the same one.
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
    /// The end of the server removes it.
    ends: Arc<AtomicBool>,
}

impl SocketFile {
    /// Passes connections to `path` to `serve`, one after the other, on a thread with this name. Only the owner may
    /// connect. The file of a server that has ended is replaced.
    ///
    /// # Errors
    /// When `path` is another kind of file, or a server still listens there.
    pub fn listen(
        path: &Path,
        name: &str,
        serve: impl FnMut(UnixStream) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (listener, file) = Self::bind(path)?;
        accept_all(name, move || Ok(listener.accept()?.0), serve)?;
        Ok(file)
    }

    fn bind(path: &Path) -> anyhow::Result<(UnixListener, Self)> {
        let failed = || format!("cannot listen on {}", path.display());
        let listener = match bind_unix(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                remove_stale(path)?;
                bind_unix(path)
            }
            other => other,
        };
        let listener = listener.with_context(failed)?;
        fs::set_permissions(path, Permissions::from_mode(0o600)).with_context(failed)?;
        let file = fs::symlink_metadata(path).with_context(failed)?;
        let identity = (file.dev(), file.ino());
        Ok((
            listener,
            Self {
                path: path.to_path_buf(),
                identity,
                ends: Arc::default(),
            },
        ))
    }
}

/// Reports, at each change of this machine's mounts, when the path leads to the socket no more, and when it does again: another
/// file system on a directory above hides it. The thread may wait for a file system that does not answer, so it does nothing else.
pub fn watch(socket: &SocketFile) {
    let (identity, ends) = (socket.identity, socket.ends.clone());
    // A relative path would lead below a mount on the working directory.
    let Ok(path) = std::path::absolute(&socket.path) else {
        return;
    };
    let mut is_hidden = false;
    swaps::at_each_change("/proc/self/mountinfo", "mounts", move |_| {
        let was_hidden = std::mem::replace(&mut is_hidden, !leads_to(&path, identity));
        let path = path.display();
        match (was_hidden, is_hidden) {
            _ if ends.load(Ordering::Acquire) => {}
            (false, true) => report::note(format_args!(
                "{path} does not lead to this server any more, so commands and programs do not find it: another file system is \
                 mounted on a directory of this path, or the socket was removed; unmount that, or start the server again. It \
                 goes on with the files that it has open"
            )),
            (true, false) => report::note(format_args!("{path} leads to this server again")),
            _ => {}
        }
        Ok(())
    });
}

fn leads_to(path: &Path, identity: (u64, u64)) -> bool {
    let found = fs::symlink_metadata(path);
    found.is_ok_and(|file| (file.dev(), file.ino()) == identity)
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if leads_to(&self.path, self.identity) {
            // No caller is left to get the error.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Passes all connections that `accept` returns to `serve`, on a thread with this name.
///
/// # Errors
/// When there is no thread left.
pub fn accept_all<S>(
    name: &str,
    accept: impl Fn() -> io::Result<S> + Send + 'static,
    mut serve: impl FnMut(S) + Send + 'static,
) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.into());
    thread.spawn(move || {
        loop {
            match accept() {
                Ok(stream) => serve(stream),
                // No descriptor is free, or the client is gone already.
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    })?;
    Ok(())
}

/// Removes the socket of a server that has ended without removing it.
///
/// # Errors
/// When it is not a socket, or a server listens.
pub fn remove_stale(path: &Path) -> anyhow::Result<()> {
    let file =
        fs::symlink_metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
    if !file.file_type().is_socket() {
        bail!(
            "{} exists and is not a socket; remove it or choose another path",
            path.display()
        );
    }
    // Only a refused connection proves that no server listens.
    match connect_unix(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)
            .with_context(|| format!("cannot remove the old socket {}", path.display())),
        _ => bail!(
            "{} is in use by a running server; choose another path",
            path.display()
        ),
    }
}
