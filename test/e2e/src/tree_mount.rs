//! The file system of a store, mounted by `tonearm mount`. It is gone when the value is dropped.

use crate::bench::Bench;
use crate::server::{Server, wait_until};
use crate::tool::{Ran, tool};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time for umount(8).
const UNMOUNT: Duration = Duration::from_secs(10);

/// A server with a mount.
pub struct TreeMount {
    server: Option<Server>,
    place: PathBuf,
}

impl TreeMount {
    /// Mounts `s.tn` on the folder `mnt` of the bench, with more arguments.
    ///
    /// # Errors
    /// The result of the process, when it does not mount.
    pub fn start(bench: &Bench, more: &[&str]) -> Result<Self, Ran> {
        let place = bench.path("mnt");
        // A dead mount cannot be looked at, and is there.
        let _ = std::fs::create_dir(&place);
        let words = [&["mount", "s.tn", "mnt"], more].concat();
        let started = Server::start_with(bench, &words, "mounted ");
        let server = started.inspect_err(|_| detach(&place))?;
        Ok(Self::of(server, place))
    }

    /// Mounts `s.tn` on the folder `mnt` of the bench.
    #[track_caller]
    pub fn new(bench: &Bench) -> Self {
        Self::start(bench, &[]).unwrap_or_else(|ran| panic!("not mounted: {ran:?}"))
    }

    /// As [`TreeMount::new`], with mount options.
    #[track_caller]
    pub fn with_options(bench: &Bench, options: &str) -> Self {
        let mounted = Self::start(bench, &["-o", options]);
        mounted.unwrap_or_else(|ran| panic!("not mounted: {ran:?}"))
    }

    /// The mount of a server that was started otherwise.
    pub fn of(server: Server, place: PathBuf) -> Self {
        Self {
            server: Some(server),
            place,
        }
    }

    /// The root of the mounted tree.
    pub fn root(&self) -> &Path {
        &self.place
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// The server.
    pub fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("it runs")
    }

    /// Kills the server. The mount stays, without a server, until the next one detaches it.
    pub fn kill9(mut self) {
        self.server.take().expect("it runs").kill9();
    }

    /// Waits for the end of the server, which must be in order.
    #[track_caller]
    pub fn ended_ok(mut self) -> Ran {
        let ran = self.server.take().expect("it runs").ended();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran
    }

    /// Unmounts by umount(8), and waits for the end of the server, which must be in order.
    #[track_caller]
    pub fn unmount(self) {
        // The mount is busy while a process that another test has just forked has its open files, until that runs its program.
        wait_until("an unmount", UNMOUNT, || {
            let done = tool(Path::new("/"), "umount").arg(&self.place).status();
            done.is_ok_and(|status| status.success())
        });
        self.ended_ok();
    }
}

impl Drop for TreeMount {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            drop(server);
            detach(&self.place);
        }
    }
}

/// Takes a mount out of the tree, if there is one, so that the bench's folder can be removed.
fn detach(place: &Path) {
    let _ = rustix::mount::unmount(place, rustix::mount::UnmountFlags::DETACH);
}
