//! Files in a store, as one session of a client sees them: byte ranges by name, atomic recovery units, locks.
//!
//! They are the files of the store's file system. A name is a path in it: `app.db` and `/app.db` are one file.
//!
//! Invariants that every implementation keeps:
//! 1. Only the unit itself sees what is written within it until it ends, and all callers see the whole of it at once
//!    then. A unit that is aborted, or whose session ends first, has no effect.
//! 2. Units take effect in the order in which they end, and are durable in that order.
//! 3. Locks are SQLite's: any number of `Shared`, beside them one `Reserved`; `Pending` lets no new `Shared` in;
//!    `Exclusive` is alone. Locks belong to handles. They are advisory: reads and writes do not check them.
//! 4. The end of a session aborts its units first and then releases its locks, so the next holder of a lock sees
//!    nothing of those units.

mod error;
mod held;
mod local;
mod open_files;
pub mod remote;
mod seen;
mod session;
mod system;
mod types;

pub use error::{FilesError, FilesErrorKind};
pub(crate) use held::{Due, HeldWrite};
pub use local::LocalFiles;
pub use open_files::{files_socket, open_files, store_of};
pub use session::Sessions;
pub(crate) use session::{FILE_MODE, make, named};
pub use system::FileSystem;
pub use types::{AruId, FileId, FileInfo, Level, Listing, NewAttr, Open};

use tonearm_base::Lsn;
use tonearm_disk::Marks;
use tonearm_engine::ArchiveInfo;

/// A session with the files of a store. Its methods may be called by any thread; those that name the same
/// unit are called one at a time. Dropping it ends the session.
///
/// Offsets, lengths and sizes are in bytes. An operation with a unit reads and changes the state that the unit sees. An
/// operation without one reads the committed state, and its changes are a unit of their own, visible on return and
/// durable after [`Files::flush`]. Unless stated otherwise, an operation that fails has changed nothing.
pub trait Files: Send + Sync {
    /// A number for open files all of whose sessions are in this process. These sessions have it in common, and no
    /// other open files have it. So the memory of this process may hold what the sessions share, whatever names lead to
    /// the files. `None` where other processes may have sessions.
    fn in_process(&self) -> Option<usize>;

    /// The session has lost its server: no call succeeds any more, and nothing is open or locked.
    fn is_over(&self) -> bool {
        false
    }

    /// Opens the file `name`. A file that is made here is a unit of its own.
    ///
    /// # Errors
    /// `NotFound`; `Exists` where `how` is exclusive; `NoSpace`, `ReadOnly` where it is to be made; `Failed` for
    /// a name that cannot be one.
    fn open(&self, name: &str, how: Open) -> Result<FileId, FilesError>;

    /// Makes the file `name`, empty, within a unit. Others see it when the unit ends.
    ///
    /// # Errors
    /// `Exists`, `NoSpace`, `ReadOnly`; `Failed` for a name that cannot be one.
    fn create(&self, aru: AruId, name: &str) -> Result<FileId, FilesError>;

    /// Opens the volume `name`, to be read and written as a file is; its size stays as it is.
    ///
    /// # Errors
    /// `NotFound`.
    fn open_volume(&self, name: &str) -> Result<FileId, FilesError>;

    /// Closes a handle and releases its locks. Unknown handles are ignored.
    fn close(&self, file: FileId);

    /// Attributes of what is at `path`, also of a symbolic link there; the empty path is the root directory.
    ///
    /// # Errors
    /// `NotFound`; `Failed` when a part of the path before the last one is a symbolic link or no directory.
    fn look(&self, path: &str) -> Result<FileInfo, FilesError>;

    /// A part of the directory at `path`: the first one for `after` 0, else the one after that with this `after`.
    ///
    /// # Errors
    /// As for [`Files::look`]; `Failed` when it is no directory.
    fn list(&self, path: &str, after: u64) -> Result<Listing, FilesError>;

    /// All of the directory at `path`, by name.
    ///
    /// # Errors
    /// As for [`Files::list`].
    fn list_all(&self, path: &str) -> Result<Vec<FileInfo>, FilesError> {
        let (mut all, mut after) = (Vec::new(), Some(0));
        while let Some(from) = after {
            let part = self.list(path, from)?;
            all.extend(part.files);
            after = part.after;
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    /// Makes a directory, as a unit of its own.
    ///
    /// # Errors
    /// `Exists`; `NotFound` when the directory above it is missing; `NoSpace`, `ReadOnly`.
    fn make_dir(&self, path: &str) -> Result<(), FilesError>;

    /// The target of the symbolic link at `path`.
    ///
    /// # Errors
    /// `NotFound`; `Failed` when it is no symbolic link, or its target is not UTF-8.
    fn read_link(&self, path: &str) -> Result<String, FilesError>;

    /// Makes a symbolic link to `target`, which has 1 to 4095 bytes, as a unit of its own. Nothing needs to be at `target`.
    ///
    /// # Errors
    /// As for [`Files::make_dir`]; `Failed` for a target of another length.
    fn make_link(&self, path: &str, target: &str) -> Result<(), FilesError>;

    /// Changes attributes of what is at `path`, all at once: within the unit, or as a unit of its own.
    ///
    /// # Errors
    /// `NotFound`; `NoSpace`, `ReadOnly`; `Failed` for a file that is kept outside of the file system.
    fn set_attr(&self, path: &str, aru: Option<AruId>, set: NewAttr) -> Result<(), FilesError>;

    /// Whether there is a file `name`.
    ///
    /// # Errors
    /// When the store or the server cannot be reached any more.
    fn exists(&self, name: &str) -> Result<bool, FilesError>;

    /// Deletes the file or empty directory `name`, as a unit of its own. Handles keep the file until they are closed.
    ///
    /// # Errors
    /// `NotFound`, `ReadOnly`; `Failed` for a directory that is not empty.
    fn delete(&self, name: &str) -> Result<(), FilesError>;

    /// Gives the file `from` the name `to`, as a unit of its own. Handles stay on the file.
    ///
    /// # Errors
    /// `NotFound`; `Exists` when there is a file or volume `to`.
    fn rename(&self, from: &str, to: &str) -> Result<(), FilesError>;

    /// Size of the file.
    ///
    /// # Errors
    /// `NotFound` when it was deleted.
    fn size(&self, file: FileId, aru: Option<AruId>) -> Result<u64, FilesError>;

    /// Reads at `offset` into `buf`; the bytes read, fewer only at the end of the file.
    ///
    /// # Errors
    /// `Damaged` when a block fails its checksum; `NotFound` when the file was deleted.
    fn read(
        &self,
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, FilesError>;

    /// Opens a unit.
    ///
    /// # Errors
    /// `ReadOnly`; `Failed` when the session has too many.
    fn begin(&self) -> Result<AruId, FilesError>;

    /// Writes `data` at `offset`; the file grows as needed, and what it grows by reads as zeroes elsewhere.
    /// Within a unit an implementation may report the error later, at [`Files::end`] at the latest.
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly`, `NotFound`.
    fn write(
        &self,
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        data: &[u8],
    ) -> Result<(), FilesError>;

    /// Sets the size: what is cut off is gone, what is added reads as zeroes.
    /// Within a unit an implementation may report the error later, at [`Files::end`] at the latest.
    ///
    /// # Errors
    /// As for [`Files::write`].
    fn truncate(&self, file: FileId, aru: Option<AruId>, size: u64) -> Result<(), FilesError>;

    /// Makes the range read as zeroes, as a unit of its own, and gives the space of its whole blocks back.
    ///
    /// # Errors
    /// As for [`Files::write`]; `Failed` beyond the end.
    fn zero(&self, file: FileId, offset: u64, len: u64) -> Result<(), FilesError>;

    /// Runs of bytes from `offset` on, and whether each may hold data (otherwise it reads as zeroes). The runs cover
    /// the range, or its first part.
    ///
    /// # Errors
    /// As for [`Files::read`]; `Failed` beyond the end.
    fn status(&self, file: FileId, offset: u64, len: u64) -> Result<Vec<(u64, bool)>, FilesError>;

    /// Ends a unit: all of it takes effect, or, on an error, nothing. With `durable` it returns when the unit is
    /// durable. The unit is over in either case. Gives the LSN of its commit; 0 for a unit without changes.
    ///
    /// # Errors
    /// `Conflict` when others have deleted or shortened one of its files, or have taken blocks for it; `Busy` when one of them was
    /// closed here and is open on the mount; the first error of a write that was not
    /// reported before; with `durable` also a failure of the log after the unit has taken effect.
    fn end(&self, aru: AruId, durable: bool) -> Result<Lsn, FilesError>;

    /// Ends a unit without any effect. Unknown units are ignored.
    fn abort(&self, aru: AruId);

    /// Makes everything that has taken effect durable.
    ///
    /// # Errors
    /// When the log fails.
    fn flush(&self) -> Result<(), FilesError>;

    /// How far the commits of the store have come. Waits for no device.
    ///
    /// # Errors
    /// When the store or the server cannot be reached any more.
    fn marks(&self) -> Result<Marks, FilesError>;

    /// Waits until the unit that ended with `lsn`, and all before it, are durable.
    ///
    /// # Errors
    /// `Failed` when no unit has ended with `lsn` yet, and when the log fails.
    fn wait_durable(&self, lsn: Lsn) -> Result<(), FilesError>;

    /// How far the archive of the store is; `None` when it was not archived since it was opened.
    ///
    /// # Errors
    /// When the store or the server cannot be reached any more.
    fn archive(&self) -> Result<Option<ArchiveInfo>, FilesError>;

    /// Waits until the unit that ended with `lsn`, and all before it, are durable and archived.
    ///
    /// # Errors
    /// As for [`Files::wait_durable`]; `Failed` when the store has no archive, or it has ended or ends meanwhile.
    fn wait_archived(&self, lsn: Lsn) -> Result<(), FilesError>;

    /// Raises the lock of `file` to `level` as SQLite's xLock does: from `None` to `Shared`, from there to `Reserved`,
    /// from either or from `Pending` to `Exclusive`. False when locks of others prevent it; a `Pending` lock that was
    /// taken on the way to `Exclusive` is kept. Never waits.
    ///
    /// # Errors
    /// `Failed` for a step that SQLite's rules do not allow, and for an unknown handle.
    fn lock(&self, file: FileId, level: Level) -> Result<bool, FilesError>;

    /// Lowers the lock to `Shared` or `None`; a lock that is no higher stays.
    ///
    /// # Errors
    /// `Failed` for another level.
    fn unlock(&self, file: FileId, level: Level) -> Result<(), FilesError>;

    /// Whether any handle on the file has `Reserved` or more.
    ///
    /// # Errors
    /// As for [`Files::lock`].
    fn reserved(&self, file: FileId) -> Result<bool, FilesError>;
}
