//! The connection to the kernel: from the mount to its end.

use crate::error::MountError;
use crate::mounting::{Mounted, mount_on};
use crate::options::MountOptions;
use crate::place::Mountable;
use crate::queue::Requests;
use crate::transport::{Transport, send_notices};
use fuser::{Config, SessionACL};
use std::io;
use std::num::NonZero;
use std::sync::atomic::Ordering;
use std::thread::{JoinHandle, available_parallelism};

/// Most threads that take requests from the kernel. One at a time runs the engine; the others parse, copy and wait for that.
const THREADS_MAX: usize = 4;

/// A mount and the threads that serve it.
pub struct Session {
    mounted: Mounted,
    thread: JoinHandle<()>,
}

impl Session {
    /// Mounts on `place`. Requests go to `requests`. `source` names the store in the list of mounts, `block_size` is its block
    /// size. `ended` is called when the mount has ended, by [`Session::end`] or from outside.
    ///
    /// # Errors
    /// When mounting fails.
    pub fn start(
        place: &Mountable,
        source: &str,
        options: &MountOptions,
        requests: Requests,
        block_size: u32,
        ended: impl FnOnce(io::Result<()>) + Send + 'static,
    ) -> Result<Self, MountError> {
        let source = options.name.as_deref().unwrap_or(source);
        let (device, mounted) = mount_on(place, source, options)?;
        let (shared, unit_time_s) = (&requests.shared, options.unit_time_s);
        shared.unit_time_s.store(unit_time_s, Ordering::Relaxed);
        match serve(device, requests, block_size, options.direct_io, ended) {
            Ok(thread) => Ok(Self { mounted, thread }),
            Err(error) => {
                // The error that comes first is the one to report.
                let _ = mounted.unmount();
                Err(MountError::Io {
                    what: "serve",
                    place: mounted.path().to_path_buf(),
                    error,
                })
            }
        }
    }

    /// Waits for the last of the threads, when the mount has ended from outside. By now something else may be mounted there.
    pub fn join(self) {
        // A panic of the thread was reported by `ended`.
        let _ = self.thread.join();
    }

    /// Unmounts. False when programs still use the mount: then it is detached from the tree, and what they have open is served
    /// until the process ends.
    ///
    /// # Errors
    /// When it can be neither unmounted nor detached.
    pub fn end(self) -> Result<bool, MountError> {
        let ended = self.mounted.unmount()?;
        if ended {
            self.join();
        }
        Ok(ended)
    }
}

fn serve(
    device: std::os::fd::OwnedFd,
    requests: Requests,
    block_size: u32,
    direct_io: bool,
    ended: impl FnOnce(io::Result<()>) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let mut config = Config::default();
    let threads = available_parallelism().map_or(1, NonZero::get);
    config.n_threads = Some(threads.min(THREADS_MAX));
    config.clone_fd = true;
    let notices = requests.shared.take_notices();
    let transport = Transport::new(requests.clone(), block_size, direct_io);
    // The kernel decides who may use the mount.
    let session = fuser::Session::from_fd(transport, device, SessionACL::All, config)?;
    if let Some(notices) = notices {
        let kernel = session.notifier();
        // It ends with the engine's thread.
        std::thread::Builder::new()
            .name("fuse-notices".into())
            .spawn(move || send_notices(&notices, &requests, &kernel))?;
    }
    std::thread::Builder::new()
        .name("fuse".into())
        .spawn(move || ended(session.run()))
}
