//! The interface between the engine and its devices: requests go in and completions come out, as plain data.
//!
//! There are two kinds of driver: io_uring in real time and simulated devices in virtual time. The engine assumes
//! of each:
//! 1. Requests complete in any order; each completes exactly once, with its buffers.
//! 2. A completed `Write` may be lost, torn or reordered by a power cut until a `Flush` of the same
//!    device, submitted after that completion, has completed. A completed `WriteDurable` may not.
//! 3. Reads see all completed writes of this boot.
//! 4. A `Write` completes as a whole or with an error, never short.

use std::io;
use std::ops::Range;
use tonearm_base::{Buf, Nanos, Slice};

/// A device or stream that the driver knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DeviceId(pub u32);

/// An operation. Offsets and lengths are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Fill the buffer's range from the device at `offset`.
    Read,
    /// Write the data at `offset`.
    Write,
    /// Write the data at `offset`; complete when it is on stable storage (FUA).
    WriteDurable,
    /// Make all completed writes of the device durable.
    Flush,
    /// Make `len` bytes at `offset` read as zeroes and free their space if the device can.
    Punch,
    /// Make `len` bytes at `offset` read as zeroes and keep their space.
    Zero,
    /// Stream: receive at least one byte into the buffer's range; the result 0 is end of stream.
    Recv,
    /// Stream: fill the buffer's whole range; a shorter result is end of stream.
    RecvAll,
    /// Stream: send all of the data.
    Send,
    /// Stream: shut it down (pending operations end) and forget it.
    Close,
    /// A driver of the kernel: the command whose number is `offset`, with the data as its argument. It ends when the kernel says so.
    Command,
}

/// The memory of a request. It belongs to the driver until the completion returns it.
#[derive(Debug, Default)]
pub enum Data {
    /// None: flush, punch, zero, close.
    #[default]
    None,
    /// A range of one buffer, for any operation.
    Buf(Buf, Range<usize>),
    /// Shared parts, written or sent in order as one operation (at most [`SLICES_MAX`]).
    Slices(Vec<Slice>),
}

/// Most slices of one request.
pub const SLICES_MAX: usize = 512;

/// One operation. The length of reads, writes, receives and sends is that of `data`; `len` counts only for `Punch` and
/// `Zero`.
#[derive(Debug)]
pub struct Request {
    /// The device or stream.
    pub device: DeviceId,
    /// The operation.
    pub op: Op,
    /// First byte on the device; 0 for streams; the number of a command.
    pub offset: u64,
    /// Bytes of a `Punch` or `Zero`.
    pub len: u64,
    /// The memory.
    pub data: Data,
}

/// The end of a request.
#[derive(Debug)]
pub struct Completion {
    /// The token of the submission.
    pub token: u64,
    /// Bytes moved, or the error.
    pub result: Result<usize, IoError>,
    /// The request's memory.
    pub data: Data,
}

/// Error of an operation, as the operating system or the simulated device reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", std::io::Error::from_raw_os_error(*.errno))]
pub struct IoError {
    /// Linux error number.
    pub errno: i32,
}

impl IoError {
    /// Input/output error: the medium failed.
    pub const EIO: Self = Self { errno: 5 };
    /// No space left on the device that holds the store.
    pub const ENOSPC: Self = Self { errno: 28 };
    /// The operation does not exist on this device.
    pub const EOPNOTSUPP: Self = Self { errno: 95 };
    /// The arguments do not fit the device.
    pub const EINVAL: Self = Self { errno: 22 };
    /// The quota of the store's owner is used up.
    pub const EDQUOT: Self = Self { errno: 122 };

    /// True when the file system below has no space, or the owner's quota is used up: the same operation may succeed later.
    pub fn is_no_space(self) -> bool {
        self == Self::ENOSPC || self == Self::EDQUOT
    }
}

impl Data {
    /// Bytes of memory that take part in the operation.
    pub fn len(&self) -> usize {
        match self {
            Data::None => 0,
            Data::Buf(_, range) => range.len(),
            Data::Slices(slices) => slices.iter().map(|slice| slice.len()).sum(),
        }
    }

    /// True when no memory takes part.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of `buf`.
    pub fn whole(buf: Buf) -> Self {
        let range = 0..buf.len();
        Data::Buf(buf, range)
    }

    /// The buffer of a completed operation.
    ///
    /// # Panics
    /// When the request carried no exclusive buffer.
    pub fn into_buf(self) -> Buf {
        match self {
            Data::Buf(buf, _) => buf,
            other => panic!("the request carried {other:?}, not a buffer"),
        }
    }
}

/// Raises an event, from any thread.
#[derive(Clone)]
#[expect(
    clippy::disallowed_types,
    reason = "it belongs to threads other than the engine's"
)]
pub struct Notifier(std::sync::Arc<dyn Fn() + Send + Sync>);

impl Notifier {
    /// One that calls `raise`.
    #[expect(clippy::disallowed_types, reason = "as above")]
    pub fn new(raise: impl Fn() + Send + Sync + 'static) -> Self {
        Self(std::sync::Arc::new(raise))
    }

    /// Raises the event. What the caller wrote before is visible to the receiver.
    pub fn notify(&self) {
        (self.0)();
    }
}

/// Devices and a clock.
pub trait Driver {
    /// The present time, which never goes back.
    fn now(&self) -> Nanos;

    /// Starts `request`. Its completion carries `token`.
    fn submit(&mut self, token: u64, request: Request);

    /// Waits for at least one completion or until `deadline`, and appends all completions. Without a deadline and
    /// without operations under way it returns at once; the executor treats that as a deadlock.
    fn wait(&mut self, deadline: Option<Nanos>, completions: &mut Vec<Completion>);

    /// Adds an event, which other threads raise. A `Recv` of 8 bytes ends once the event has been raised since the last such
    /// `Recv`, however often. The bytes have no meaning. `Close` ends a `Recv` that waits.
    ///
    /// # Errors
    /// When the driver has no events, or none left.
    fn event(&mut self) -> io::Result<(DeviceId, Notifier)> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
