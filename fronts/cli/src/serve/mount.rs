//! The mount of a served store's file system: what was asked for, and its life on the main thread.

use super::engine_thread::Event;
use anyhow::bail;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use tonearm_fuse::{MountOptions, Mountable, Requests, Session};
use tonearm_terminal::report;

/// A mount that was asked for, with a directory that is suitable.
pub struct MountPlan {
    place: Mountable,
    options: MountOptions,
    /// The store, as the list of mounts shows it.
    source: String,
}

/// The way to the file system, from the engine's thread to the main thread.
pub struct Mountpoint {
    /// Takes requests.
    pub requests: Requests,
    /// Block size of the store.
    pub block_size: u32,
}

impl MountPlan {
    /// A mount of the store at `store` on `dir`, with lists of options.
    ///
    /// # Errors
    /// When an option is not known, or the directory is not suitable.
    pub fn of(store: &Path, dir: &Path, lists: &[String]) -> anyhow::Result<Self> {
        let mut options = MountOptions::default();
        for list in lists {
            options.parse(list)?;
        }
        let place = Mountable::find(dir)?;
        if let Some(source) = &place.detached {
            report::note(format_args!(
                "the mount of {source} on {} had lost its server; it was detached",
                dir.display()
            ));
        }
        let store = std::path::absolute(store)?;
        let real = store.canonicalize();
        if real.is_ok_and(|real| real.starts_with(place.path())) {
            bail!(
                "{} lies in {}, and a mount there would hide it and its sockets from all commands; mount it on another directory",
                store.display(),
                dir.display()
            );
        }
        Ok(Self {
            place,
            options,
            source: store.to_string_lossy().into_owned(),
        })
    }

    /// The line that says that it is mounted.
    pub fn mounted(&self) -> String {
        format!("mounted {} on {}", self.source, self.place.path().display())
    }

    /// The directory.
    pub fn dir(&self) -> PathBuf {
        let path = self.place.path();
        std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
    }

    /// True when the mount takes no changes.
    pub fn is_read_only(&self) -> bool {
        self.options.read_only
    }

    /// The same mount, taking no changes.
    pub fn read_only(mut self) -> Self {
        self.options.read_only = true;
        self
    }

    /// Mounts. The end of the mount is an event.
    ///
    /// # Errors
    /// When mounting fails.
    pub fn start(&self, point: Mountpoint, events: Sender<Event>) -> anyhow::Result<Session> {
        let ended = move |result| {
            // The main thread may have ended meanwhile.
            let _ = events.send(Event::Unmounted(result));
        };
        let Mountpoint {
            requests,
            block_size,
        } = point;
        let session = Session::start(
            &self.place,
            &self.source,
            &self.options,
            requests,
            block_size,
            ended,
        );
        Ok(session?)
    }
}

/// Ends a mount, if there is one. What programs still have open ends with the process.
pub fn end(session: Option<Session>) {
    let Some(session) = session else { return };
    match session.end() {
        Ok(true) => {}
        Ok(false) => report::note(
            "programs still use the mount: it was detached, and their files end with this server",
        ),
        Err(error) => report::note(error),
    }
}

/// Checks that options come with a directory.
///
/// # Errors
/// When they do not.
pub fn check_options(dir: Option<&Path>, lists: &[String]) -> anyhow::Result<()> {
    if dir.is_none() && !lists.is_empty() {
        bail!("-o is for a mount; give its directory with --mount");
    }
    Ok(())
}
