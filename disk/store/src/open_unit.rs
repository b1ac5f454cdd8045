//! A recovery unit of a session or a thread: one of the disk at first, and one of the file system as soon as it uses a file.

use crate::files::{FileSystem, FilesError};
use tonearm_base::Lsn;
use tonearm_disk::{Aru, DiskError};
use tonearm_fs::{AccessPath, FsError, Unit};

/// An open unit.
pub(crate) enum OpenUnit {
    /// It has used volumes and lists alone.
    Disk(Box<Aru>),
    /// It has used files, too.
    Files(Unit),
    /// An operation that was to use files first has failed.
    Failed,
}

impl OpenUnit {
    pub fn new(aru: Aru) -> Self {
        Self::Disk(Box::new(aru))
    }

    /// Runs an operation on volumes or lists.
    pub async fn with_disk<T>(
        &mut self,
        operation: impl AsyncFnOnce(&mut Aru) -> Result<T, DiskError>,
    ) -> Result<T, FsError> {
        match self {
            Self::Disk(aru) => Ok(operation(aru).await?),
            Self::Files(unit) => Ok(unit.with_disk(operation).await??),
            Self::Failed => Err(failed()),
        }
    }

    /// The unit of the file system, to use files.
    ///
    /// # Errors
    /// When the file system cannot be opened.
    pub async fn files(&mut self, system: &FileSystem) -> Result<&Unit, FilesError> {
        if let Self::Disk(_) = self {
            let fs = system.get().await?.via(AccessPath::Session);
            fs.check_units()?;
            let Self::Disk(aru) = std::mem::replace(self, Self::Failed) else {
                unreachable!("it was one of the disk just now")
            };
            *self = Self::Files(fs.begin_with(*aru)?);
        }
        match self {
            Self::Files(unit) => Ok(unit),
            _ => Err(failed().into()),
        }
    }

    /// Ends the unit.
    pub async fn end(self) -> Result<Lsn, FsError> {
        match self {
            Self::Disk(aru) => Ok(aru.end().await?),
            Self::Files(unit) => unit.commit().await,
            Self::Failed => Err(failed()),
        }
    }
}

fn failed() -> FsError {
    FsError::UnitEnded("an operation of it has failed")
}
