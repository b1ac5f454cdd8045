//! What the transmission phase asks of a volume, and how a volume of the disk does it.

use crate::proto::NbdErrno;
use std::future::Future;
use tonearm_base::Slice;
use tonearm_disk::{DiskError, ErrorKind, Piece, Volume};
use tonearm_rt::Permit;

/// A volume as the transmission phase sees it. Clones are handles on one volume, and so are the targets of all its
/// connections. A flush on any connection covers what any of them has completed, which makes `CAN_MULTI_CONN` true.
///
/// Ranges are in bytes, of any alignment. They lie within the size that [`Target::size_bytes`] returned when the
/// request was admitted. A target that has shrunk since refuses them itself.
///
/// A future of this trait is polled once by the task that receives requests, and, if it is not ready then, by another
/// task. So it may wait only for futures of `rt`.
pub trait Target: Clone + 'static {
    /// Size in bytes now.
    fn size_bytes(&self) -> u64;

    /// Whether changes are refused now.
    fn read_only(&self) -> bool;

    /// Waits for memory for a write of `bytes`: the back-pressure. Dropping the permit gives the memory back.
    ///
    /// # Errors
    /// As for [`Target::read`]. The payload is thrown away then.
    fn reserve(&self, bytes: u64) -> impl Future<Output = Result<Permit, TargetError>>;

    /// Reads a range: pieces in order whose lengths add up to `len`.
    ///
    /// # Errors
    /// The error for the client.
    fn read(&self, offset: u64, len: u64) -> impl Future<Output = Result<Vec<Piece>, TargetError>>;

    /// Writes `data` as one commit; durable at its end when `durable`.
    ///
    /// # Errors
    /// As for [`Target::read`].
    fn write(
        &self,
        offset: u64,
        data: Slice,
        durable: bool,
    ) -> impl Future<Output = Result<(), TargetError>>;

    /// Forgets a range.
    ///
    /// # Errors
    /// As for [`Target::read`].
    fn trim(
        &self,
        offset: u64,
        len: u64,
        durable: bool,
    ) -> impl Future<Output = Result<(), TargetError>>;

    /// Makes a range read as zeroes, never slower than writing them; `keep_space` leaves it
    /// provisioned.
    ///
    /// # Errors
    /// As for [`Target::read`].
    fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        keep_space: bool,
        durable: bool,
    ) -> impl Future<Output = Result<(), TargetError>>;

    /// Makes everything completed before the call durable.
    ///
    /// # Errors
    /// As for [`Target::read`].
    fn flush(&self) -> impl Future<Output = Result<(), TargetError>>;

    /// Reads a range of up to 4 GiB ahead, at most a MiB at a time.
    ///
    /// # Errors
    /// As for [`Target::read`].
    fn cache(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), TargetError>>;

    /// Runs of bytes from `offset` on, and whether each is allocated. At least one run, but they may cover less than
    /// `len`.
    ///
    /// # Errors
    /// As for [`Target::read`].
    fn status(
        &self,
        offset: u64,
        len: u64,
    ) -> impl Future<Output = Result<Vec<(u64, bool)>, TargetError>>;
}

/// The error of a target, in terms of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TargetError {
    /// The number on the wire.
    pub errno: NbdErrno,
    /// The sentence that goes with it in a structured reply.
    pub message: String,
}

impl TargetError {
    /// An error without a sentence of its own.
    pub fn plain(errno: NbdErrno) -> Self {
        Self {
            errno,
            message: errno.to_string(),
        }
    }
}

impl From<DiskError> for TargetError {
    fn from(error: DiskError) -> Self {
        let errno = match error.kind() {
            ErrorKind::NoSpace => NbdErrno::NoSpc,
            ErrorKind::ReadOnly => NbdErrno::Perm,
            // The range was valid when the request came: the volume has shrunk since.
            ErrorKind::OutOfRange | ErrorKind::Invalid | ErrorKind::Conflict => NbdErrno::Inval,
            ErrorKind::Damaged | ErrorKind::Failed => NbdErrno::Io,
            // The export has ended, as on a server that is shut down. Trying again does not help.
            ErrorKind::Deleted | ErrorKind::NotFound | ErrorKind::Exists => NbdErrno::Shutdown,
        };
        Self {
            errno,
            message: error.to_string(),
        }
    }
}

impl Target for Volume {
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
