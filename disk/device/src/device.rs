//! The trait of all devices.
//!
//! What holds for every device (the conformance suite checks it):
//! 1. An operation starts at the call, not at the first poll; a dropped future lets it go on.
//! 2. Operations under way together may take effect in any order. A read that starts after a write
//!    has ended sees it.
//! 3. A write is safe from a power cut once a flush that started after its end has ended, or, as
//!    `WriteDurable`, at its own end.
//! 4. A range that is not wholly inside the device, or not of whole blocks, is refused with `EINVAL`
//!    and changes nothing.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use tonearm_base::Buf;
use tonearm_rt::{Data, IoError, Op};

/// An operation under way: bytes moved or why not, and the memory back.
pub type DeviceIo = Pin<Box<dyn Future<Output = (Result<usize, IoError>, Data)>>>;

/// Where a crash may have interrupted writes, in bytes of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interrupted {
    /// Written.
    pub changed: Vec<Range<u64>>,
    /// Punched or zeroed, and to be so again, in one operation over each of these ranges or more, before
    /// the caller forgets the crash.
    pub zeroed: Vec<Range<u64>>,
}

/// A recovery under way: [`Device::recover`].
pub type Recovering = Pin<Box<dyn Future<Output = Result<(), IoError>>>>;

/// A block device; the engine holds it as `Rc<dyn Device>`.
pub trait Device {
    /// What to call it in messages: the path, or a name in a simulation.
    fn name(&self) -> &str;

    /// Size in bytes.
    fn size_bytes(&self) -> u64;

    /// Offsets and lengths must be multiples of it, in bytes.
    fn block_size(&self) -> u32 {
        1
    }

    /// Starts an operation. `offset` and `len` are in bytes; `len` matters for `Punch` and `Zero`
    /// alone, else the length is that of `data`. Stream operations are refused.
    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo;

    /// True when a crash may have left what the device keeps for redundancy apart from the data, and
    /// nobody has told it where ([`Device::recover`]).
    fn is_suspect(&self) -> bool {
        false
    }

    /// Makes the redundancy right where the crash before this session may have interrupted writes, and so
    /// for good: the caller knows that there were none outside of `interrupted`.
    fn recover(&self, interrupted: Interrupted) -> Recovering {
        drop(interrupted);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl dyn Device {
    /// Fills all of `buf` from `offset`.
    ///
    /// # Errors
    /// What the device tells; the buffer is released then.
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
    /// What the device tells; what then lies in the range is unknown.
    pub fn write(
        &self,
        offset: u64,
        data: Data,
    ) -> impl Future<Output = Result<(), IoError>> + use<> {
        ended(self.io(Op::Write, offset, 0, data))
    }

    /// Writes `data` at `offset`; ends when it is on stable storage.
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

    /// Makes every write that has ended durable.
    ///
    /// # Errors
    /// What the device tells; which of the writes are durable is unknown for ever then.
    pub fn flush(&self) -> impl Future<Output = Result<(), IoError>> + use<> {
        ended(self.io(Op::Flush, 0, 0, Data::None))
    }

    /// Makes `len` bytes at `offset` read as zeroes and gives their space back where it can.
    ///
    /// # Errors
    /// What the device tells.
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
    /// What the device tells.
    pub fn zero(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), IoError>> + use<> {
        ended(self.io(Op::Zero, offset, len, Data::None))
    }
}

async fn ended(io: DeviceIo) -> Result<(), IoError> {
    io.await.0.map(|_| ())
}

/// Bytes of the device that an operation names.
pub(crate) fn span(op: Op, len: u64, data: &Data) -> u64 {
    match op {
        Op::Punch | Op::Zero => len,
        _ => data.len() as u64,
    }
}

/// The end of an operation that never reached the device.
pub(crate) fn at_once(result: Result<usize, IoError>, data: Data) -> DeviceIo {
    Box::pin(std::future::ready((result, data)))
}
