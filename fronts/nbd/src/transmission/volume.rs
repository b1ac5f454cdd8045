//! A volume of the disk as a target.

use super::target::{Target, TargetError};
use crate::proto::NbdErrno;
use tonearm_base::Slice;
use tonearm_disk::{DiskError, ErrorKind, Piece, Volume};
use tonearm_rt::Permit;

impl From<DiskError> for TargetError {
    fn from(error: DiskError) -> Self {
        let errno = match error.kind() {
            ErrorKind::NoSpace => NbdErrno::NoSpc,
            ErrorKind::ReadOnly => NbdErrno::Perm,
            // The range was checked when the request came: the volume has shrunk since.
            ErrorKind::OutOfRange | ErrorKind::Invalid | ErrorKind::Conflict => NbdErrno::Inval,
            ErrorKind::Damaged | ErrorKind::Failed => NbdErrno::Io,
            // The export has ended, as on a server that is shut down: to try again is no use.
            ErrorKind::Deleted | ErrorKind::NotFound | ErrorKind::Exists => NbdErrno::Shutdown,
        };
        Self {
            errno,
            message: error.to_string(),
        }
    }
}

impl Target for Volume {
    type Permit = Permit;

    fn size_bytes(&self) -> u64 {
        Volume::size_bytes(self)
    }

    fn read_only(&self) -> bool {
        Volume::read_only(self)
    }

    async fn reserve(&self, bytes: u64) -> Result<Permit, TargetError> {
        Ok(Volume::reserve(self, bytes).await?)
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Vec<Piece>, TargetError> {
        Ok(Volume::read(self, offset, len).await?)
    }

    async fn write(&self, offset: u64, data: Slice, durable: bool) -> Result<(), TargetError> {
        Ok(Volume::write(self, offset, data, durable).await?)
    }

    async fn trim(&self, offset: u64, len: u64, durable: bool) -> Result<(), TargetError> {
        Ok(Volume::trim(self, offset, len, durable).await?)
    }

    async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        keep_space: bool,
        durable: bool,
    ) -> Result<(), TargetError> {
        Ok(Volume::write_zeroes(self, offset, len, keep_space, durable).await?)
    }

    async fn flush(&self) -> Result<(), TargetError> {
        Ok(Volume::flush(self).await?)
    }

    async fn cache(&self, offset: u64, len: u64) -> Result<(), TargetError> {
        Ok(Volume::cache(self, offset, len).await?)
    }

    async fn status(&self, offset: u64, len: u64) -> Result<Vec<(u64, bool)>, TargetError> {
        Ok(Volume::status(self, offset, len).await?)
    }
}
