//! A unit from the side of the program that begins it.

use crate::ioctl;
use rustix::io::Errno;
use rustix::ioctl::{NoArg, Updater, ioctl as call};
use std::fs::File;
use std::path::Path;

/// A unit of this process and its descendants. Dropped, it is aborted.
pub struct ProcessUnit(File);

impl ProcessUnit {
    /// Begins a unit on the file system that has `dir`. All that this process and its descendants ask of it belongs to the unit
    /// from then on.
    ///
    /// # Errors
    /// `NOTTY` when it is none of ours, and others.
    pub fn begin(dir: &Path) -> Result<Self, Errno> {
        let file = File::open(dir).map_err(|error| Errno::from_io_error(&error));
        let file = file.map_err(|errno| errno.unwrap_or(Errno::IO))?;
        let mut argument = ioctl::PROCESSES;
        // SAFETY: the request reads and writes eight bytes at its argument, on any file system that knows it. Others refuse it
        // by its number.
        unsafe { call(&file, Updater::<{ ioctl::BEGIN }, u64>::new(&mut argument)) }?;
        Ok(Self(file))
    }

    /// Ends the unit. It is durable then.
    ///
    /// # Errors
    /// `CANCELED` for a conflict, or a unit that was aborted, and others. Nothing of it has happened then.
    pub fn commit(self) -> Result<(), Errno> {
        // SAFETY: the request has no argument.
        unsafe { call(&self.0, NoArg::<{ ioctl::COMMIT }>::new()) }
    }

    /// Ends the unit without any effect.
    ///
    /// # Errors
    /// When the server is gone; nothing of the unit happens then either.
    pub fn abort(self) -> Result<(), Errno> {
        // SAFETY: the request has no argument.
        unsafe { call(&self.0, NoArg::<{ ioctl::ABORT }>::new()) }
    }
}
