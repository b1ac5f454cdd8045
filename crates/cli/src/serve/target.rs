//! A volume as NBD's transmission phase sees it.

use base::Slice;
use disk::{DiskError, ErrorKind, Piece, Volume};
use nbd::proto::NbdErrno;
use nbd::transmission::{Target, TargetError};
use rt::Permit;

/// A volume that is served.
#[derive(Clone)]
pub struct VolumeTarget(pub Volume);

impl Target for VolumeTarget {
    type Permit = Permit;

    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read_only(&self) -> bool {
        self.0.read_only()
    }

    async fn reserve(&self, bytes: u64) -> Result<Permit, TargetError> {
        self.0.reserve(bytes).await.map_err(refusal)
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Vec<Piece>, TargetError> {
        self.0.read(offset, len).await.map_err(refusal)
    }

    async fn write(&self, offset: u64, data: Slice, durable: bool) -> Result<(), TargetError> {
        self.0.write(offset, data, durable).await.map_err(refusal)
    }

    async fn trim(&self, offset: u64, len: u64, durable: bool) -> Result<(), TargetError> {
        self.0.trim(offset, len, durable).await.map_err(refusal)
    }

    async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        keep_space: bool,
        durable: bool,
    ) -> Result<(), TargetError> {
        self.0
            .write_zeroes(offset, len, keep_space, durable)
            .await
            .map_err(refusal)
    }

    async fn flush(&self) -> Result<(), TargetError> {
        self.0.flush().await.map_err(refusal)
    }

    async fn cache(&self, offset: u64, len: u64) -> Result<(), TargetError> {
        self.0.cache(offset, len).await.map_err(refusal)
    }

    async fn status(&self, offset: u64, len: u64) -> Result<Vec<(u64, bool)>, TargetError> {
        self.0.status(offset, len).await.map_err(refusal)
    }
}

fn refusal(error: DiskError) -> TargetError {
    let errno = match error.kind() {
        ErrorKind::NoSpace => NbdErrno::NoSpc,
        ErrorKind::ReadOnly => NbdErrno::Perm,
        ErrorKind::OutOfRange | ErrorKind::Invalid => NbdErrno::Inval,
        ErrorKind::Damaged
        | ErrorKind::Failed
        | ErrorKind::NotFound
        | ErrorKind::Exists
        | ErrorKind::Deleted => NbdErrno::Io,
    };
    TargetError {
        errno,
        message: error.to_string(),
    }
}
