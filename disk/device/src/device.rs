//! The trait of all devices.
//!
//! Every device keeps these rules (`tonearm_world::conformance` checks them):
//! 1. An operation starts at the call, not at the first poll. It continues when its future is dropped.
//! 2. Concurrent operations may take effect in any order. A read that starts after the end of a write sees that write.
//! 3. A write survives a power cut once a flush that started after the end of the write has ended. A
//!    `WriteDurable` survives from its own end on.
//! 4. A range that is not wholly inside the device, or not of whole blocks, is refused with `EINVAL` and changes
//!    nothing.

use crate::events::Events;
use crate::raid::{ArrayStatus, RaidError, RebuildRate};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use tonearm_base::Buf;
use tonearm_format::Uuid;
use tonearm_rt::{Data, IoError, Op};

/// An operation in progress. It ends with the bytes moved or the error, and returns the memory.
pub type DeviceIo = Pin<Box<dyn Future<Output = (Result<usize, IoError>, Data)>>>;

/// Where a crash may have interrupted writes, in byte ranges of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DirtyRanges {
    /// Ranges that were written.
    pub changed: Vec<Range<u64>>,
    /// Ranges that were punched or zeroed. Before the caller forgets the crash it does so again, with one operation
    /// over each of these ranges, or over more.
    pub zeroed: Vec<Range<u64>>,
}

/// Gets the number of parts done, and of all.
pub type OnProgress = Box<dyn FnMut(u64, u64)>;

/// Work on a whole array in progress.
pub type ArrayFuture<T> = Pin<Box<dyn Future<Output = Result<T, RaidError>>>>;

/// True for the right content of a place.
pub type Verifier = Box<dyn Fn(&[u8]) -> bool>;

/// A place of a device of which its user knows the right content.
pub struct Known {
    /// Its bytes on the device.
    pub range: Range<u64>,
    /// Tells its right content, by a checksum that is kept elsewhere.
    pub is_right: Verifier,
}

/// What [`Redundancy::repair`] has found and done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RepairOutcome {
    /// Places that were wrong and are right now.
    pub places: u64,
    /// Places that are still wrong, and stripes that cannot be read.
    pub wrong: u64,
    /// Stripes whose parity was wrong and is right now.
    pub stripes: u64,
}

/// A block device; the engine holds it as `Rc<dyn Device>`.
pub trait Device {
    /// Its name in messages: the path, or a name in a simulation.
    fn name(&self) -> &str;

    /// Size in bytes.
    fn size_bytes(&self) -> u64;

    /// Offsets and lengths must be multiples of it, in bytes.
    fn block_size(&self) -> u32 {
        1
    }

    /// Starts an operation. `offset` and `len` are in bytes. `len` counts only for `Punch` and `Zero`; for other
    /// operations the length is that of `data`. Stream operations are refused.
    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo;

    /// Lets operations reach up to `size_bytes` from now on. The caller writes the last of these bytes, which makes the file below that
    /// long. False, and no change, where there is no file that could have another length.
    fn set_size_bytes(&self, size_bytes: u64) -> bool {
        let _ = size_bytes;
        false
    }

    /// Gives back what the device holds, such as an open file and its lock, as soon as no operation is under way. The
    /// caller starts no operation after it.
    fn release(&self) {}

    /// The redundancy of the array that this device is, or that lies below it; `None` without one.
    fn redundancy(&self) -> Option<&dyn Redundancy> {
        None
    }
}

/// What an array keeps beside the data, and must make consistent with the data after a crash.
pub trait Redundancy {
    /// True when a crash may have left parity that does not match the data, and the array does not know where
    /// ([`Redundancy::recover`]).
    fn is_suspect(&self) -> bool;

    /// Corrects the parity where the crash before this session may have interrupted writes, and trusts it from
    /// then on. The caller knows that no write outside of `interrupted` was interrupted.
    fn recover(&self, interrupted: DirtyRanges) -> ArrayFuture<()>;

    /// Ends the use of the array: the next opening knows that parity and data agree. No write may be under way or
    /// follow.
    fn close(&self) -> ArrayFuture<()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Bytes of data in a stripe; `None` where an update of a part of one costs no more than of a whole one.
    fn stripe_bytes(&self) -> Option<u64> {
        None
    }

    /// The array's members and counters; `None` where they are those of arrays below.
    fn status(&self) -> Option<ArrayStatus> {
        None
    }

    /// Where the array notes what happens to its members; `None` where it is noted nowhere.
    fn events(&self) -> Option<Events> {
        None
    }

    /// Compares the parity of all stripes with their data, and corrects it. `progress` gets the number of stripes done,
    /// and of all. The number of stripes that were wrong.
    fn resync(&self, progress: OnProgress) -> ArrayFuture<u64> {
        drop(progress);
        Box::pin(std::future::ready(Ok(0)))
    }

    /// The stripes that begin in `range`, in bytes of the device, and whose parity does not match the data, or that cannot
    /// be read. Each is a range of bytes. Stripes that cannot be compared are left out: one of their units is missing, or
    /// a crash or a refused write has left their parity behind.
    fn compare(&self, range: Range<u64>) -> ArrayFuture<Vec<Range<u64>>> {
        let _ = range;
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Verifies the `known` places. Where the content is wrong, and what the other members compute is right, the latter is
    /// written, durably. If all of the places are right then, the parity of the whole stripes in `stripes`, a range of
    /// bytes of the device, is made right; `known` must have all of their content that matters. The caller changes nothing
    /// there meanwhile.
    fn repair(&self, known: Vec<Known>, stripes: Range<u64>) -> ArrayFuture<RepairOutcome> {
        let _ = (known, stripes);
        Box::pin(std::future::ready(Ok(RepairOutcome::default())))
    }

    /// Puts `device` in the place of the missing member, durably, while the array is in use. `path` is where later openings
    /// find it, and `uuid` its new identity. [`Redundancy::rebuild`] then restores the data.
    fn replace(&self, device: Rc<dyn Device>, path: String, uuid: Uuid) -> ArrayFuture<()> {
        let _ = (path, uuid);
        Box::pin(std::future::ready(Err(RaidError::Replacement {
            member: device.name().to_string(),
            why: "there is no array".into(),
        })))
    }

    /// Rebuilds the replacement of a missing member ([`crate::raid::Raid5::rebuild`]).
    fn rebuild(&self, rate: RebuildRate, progress: OnProgress) -> ArrayFuture<()> {
        drop((rate, progress));
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A device over another one that changes only some operations. Everything else is that of the inner device.
pub trait Filter {
    /// The device below.
    fn inner(&self) -> &dyn Device;

    /// Starts an operation, as [`Device::io`].
    fn filter_io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo;
}

impl<F: Filter> Device for F {
    fn name(&self) -> &str {
        self.inner().name()
    }

    fn size_bytes(&self) -> u64 {
        self.inner().size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.inner().block_size()
    }

    fn set_size_bytes(&self, size_bytes: u64) -> bool {
        self.inner().set_size_bytes(size_bytes)
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        self.filter_io(op, offset, len, data)
    }

    fn release(&self) {
        self.inner().release();
    }

    fn redundancy(&self) -> Option<&dyn Redundancy> {
        self.inner().redundancy()
    }
}

impl dyn Device {
    /// Fills all of `buf` from `offset`.
    ///
    /// # Errors
    /// The error of the device. The buffer is released then.
    pub fn read(
        &self,
        offset: u64,
        buf: Buf,
    ) -> impl Future<Output = Result<Buf, IoError>> + use<> {
        let io = self.io(Op::Read, offset, 0, Data::whole(buf));
        async move {
            let (result, data) = io.await;
            result.map(|_| data.into_buf())
        }
    }

    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// The error of the device. The content of the range is unknown then.
    pub fn write(
        &self,
        offset: u64,
        data: Data,
    ) -> impl Future<Output = Result<(), IoError>> + use<> {
        ended(self.io(Op::Write, offset, 0, data))
    }

    /// Writes `data` at `offset` and ends when the data is on stable storage.
    ///
    /// # Errors
    /// As for [`write`](#method.write).
    pub fn write_durable(
        &self,
        offset: u64,
        data: Data,
    ) -> impl Future<Output = Result<(), IoError>> + use<> {
        ended(self.io(Op::WriteDurable, offset, 0, data))
    }

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// The error of the device. Which of the writes are durable stays unknown then.
    pub fn flush(&self) -> impl Future<Output = Result<(), IoError>> + use<> {
        ended(self.io(Op::Flush, 0, 0, Data::None))
    }

    /// Makes `len` bytes at `offset` read as zeroes and frees their space if the device can.
    ///
    /// # Errors
    /// The error of the device.
    pub fn punch(
        &self,
        offset: u64,
        len: u64,
    ) -> impl Future<Output = Result<(), IoError>> + use<> {
        ended(self.io(Op::Punch, offset, len, Data::None))
    }

    /// Makes `len` bytes at `offset` read as zeroes and keeps their space.
    ///
    /// # Errors
    /// The error of the device.
    pub fn zero(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), IoError>> + use<> {
        ended(self.io(Op::Zero, offset, len, Data::None))
    }
}

async fn ended(io: DeviceIo) -> Result<(), IoError> {
    io.await.0.map(|_| ())
}

/// Bytes of the device that an operation concerns.
pub fn span(op: Op, len: u64, data: &Data) -> u64 {
    match op {
        Op::Punch | Op::Zero => len,
        _ => data.len() as u64,
    }
}

/// True when `op` on these bytes is one that `device` carries out at all: no stream operation, whole blocks, and
/// nothing beyond the end.
pub(crate) fn allows(device: &dyn Device, op: Op, offset: u64, len: u64) -> bool {
    let block = u64::from(device.block_size());
    match op {
        Op::Flush => true,
        Op::Read | Op::Write | Op::WriteDurable | Op::Punch | Op::Zero => {
            let end = offset.checked_add(len);
            offset.is_multiple_of(block)
                && len.is_multiple_of(block)
                && end.is_some_and(|end| end <= device.size_bytes())
        }
        Op::Recv | Op::RecvAll | Op::Send | Op::Close | Op::Command => false,
    }
}

/// An operation that has ended without reaching the device.
pub fn at_once(result: Result<usize, IoError>, data: Data) -> DeviceIo {
    Box::pin(std::future::ready((result, data)))
}
