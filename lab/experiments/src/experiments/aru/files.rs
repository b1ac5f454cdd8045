//! What the programs of Figures 5 and 6 ask of a file system.

use crate::minix_ld::FileError;
use tonearm_disk::DiskError;
use tonearm_fs::FsError;
use tonearm_rt::IoError;

/// Bytes of a block of both file systems.
pub const BLOCK: usize = 4096;

/// Why a run has failed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// From the file system of a store.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// From a file system over the Logical Disk.
    #[error(transparent)]
    Lists(#[from] FileError),
    /// From a store.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// From a drive.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A file has not what was written to it.
    #[error("a file has not the content that was written")]
    Content,
}

/// A file system under a load. Clones are the same one.
pub trait Files: Clone + 'static {
    /// Makes a directory below the root.
    async fn make_directory(&self, name: &str) -> Result<u64, LoadError>;

    /// Makes an empty file.
    async fn make(&self, directory: u64, name: &str) -> Result<u64, LoadError>;

    /// Looks up a name.
    async fn look_up(&self, directory: u64, name: &str) -> Result<u64, LoadError>;

    /// Deletes a file.
    async fn delete(&self, directory: u64, name: &str) -> Result<(), LoadError>;

    /// Writes bytes.
    async fn write(&self, file: u64, offset: u64, data: &[u8]) -> Result<(), LoadError>;

    /// Reads so many bytes, or as many as there are.
    async fn read(&self, file: u64, offset: u64, len: u64) -> Result<Vec<u8>, LoadError>;

    /// Waits until everything is on the medium.
    async fn sync(&self) -> Result<(), LoadError>;

    /// Waits until the file system does nothing more by itself, and has no content of files in memory. Metadata may stay there.
    async fn sync_all(&self) -> Result<(), LoadError>;

    /// Writes that were done again since the opening, because they ended in a conflict.
    fn conflicts(&self) -> u64;

    /// Bytes written to a log since the opening.
    fn log_bytes(&self) -> u64;
}
