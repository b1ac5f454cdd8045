//! Carries out one request on a volume (virtio 1.2, 5.2.6).

use crate::chain::{Chain, Malformed};
use crate::shape::{PAYLOAD_BYTES_MAX, RANGES_MAX, SECTOR_BYTES};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_disk::{Piece, Volume};
use tonearm_requests::{Answered, CommandKind, Requests};
use tonearm_rt::Semaphore;
use vm_memory::GuestMemoryMmap;

/// Bytes before the data: kind, reserved, sector.
const HEADER_BYTES: u64 = 16;

/// Bytes of one range of a discard or write of zeroes: sector, sectors, flags.
const RANGE_BYTES: u64 = 16;

/// The flag of a range by which a write of zeroes may give space back.
const UNMAP: u32 = 1;

/// Kinds of requests.
mod kind {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const FLUSH: u32 = 4;
    pub const IDENTIFY: u32 = 8;
    pub const DISCARD: u32 = 11;
    pub const WRITE_ZEROES: u32 = 13;
}

/// How a request ended, as its last byte says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Done,
    Failed,
    Unsupported,
}

impl Status {
    /// The byte.
    pub fn byte(self) -> u8 {
        match self {
            Status::Done => 0,
            Status::Failed => 1,
            Status::Unsupported => 2,
        }
    }
}

/// What requests of a ring need.
pub(crate) struct Executor {
    pub volume: Volume,
    pub memory: GuestMemoryMmap,
    pub pool: BufPool,
    /// Memory for data that is read.
    pub budget: Semaphore,
    pub requests: Requests,
    /// The guest sends no flushes, so each change is durable when it ends.
    pub write_through: bool,
    pub serial: [u8; 20],
    /// Name of the volume.
    pub name: String,
}

impl Executor {
    /// Carries `chain` out. Its status, and how many bytes of the writable parts are written, without that of the status.
    ///
    /// # Errors
    /// When the chain breaks a rule. It may be carried out or not then.
    pub async fn execute(&self, chain: &Chain) -> Result<(Status, u64), Malformed> {
        let (arrived, _begun) = self.requests.begin();
        let (readable, writable) = (chain.readable.bytes(), chain.writable.bytes());
        if readable < HEADER_BYTES || writable == 0 {
            return Err(Malformed::Short { readable, writable });
        }
        let mut header = [0; HEADER_BYTES as usize];
        chain.readable.copy_to(&self.memory, 0, &mut header)?;
        let kind = u32::from_le_bytes(part(&header, 0));
        let sector = u64::from_le_bytes(part(&header, 8));
        let (sent, room) = (readable - HEADER_BYTES, writable - 1);
        let mut written = 0;
        let (command, bytes, status) = match kind {
            kind::READ => {
                let status;
                (status, written) = self.read(chain, sector, room).await?;
                (CommandKind::Read, room, status)
            }
            kind::WRITE => {
                let status = self.write(chain, sector, sent).await?;
                (CommandKind::Write, sent, status)
            }
            kind::FLUSH => {
                let flushed = self.requests.engine(self.volume.flush()).await;
                (CommandKind::Flush, 0, Status::of(flushed))
            }
            // The ranges are counted one by one.
            kind::DISCARD | kind::WRITE_ZEROES => {
                return Ok((self.clear(chain, kind, sent, arrived).await?, 0));
            }
            kind::IDENTIFY if room >= self.serial.len() as u64 => {
                chain.writable.copy_from(&self.memory, 0, &self.serial)?;
                return Ok((Status::Done, self.serial.len() as u64));
            }
            _ => (CommandKind::Unknown, 0, Status::Unsupported),
        };
        let offset = match command {
            CommandKind::Read | CommandKind::Write => sector.saturating_mul(SECTOR_BYTES),
            _ => 0,
        };
        self.count(command, (offset, bytes), arrived, status);
        Ok((status, written))
    }

    /// Counts a request for `(offset, bytes)`.
    fn count(
        &self,
        kind: CommandKind,
        (offset, bytes): (u64, u64),
        arrived: Nanos,
        status: Status,
    ) {
        let request = Answered {
            kind,
            offset,
            bytes,
            fua: self.write_through && kind != CommandKind::Read && kind != CommandKind::Flush,
            failed: status != Status::Done,
            arrived,
        };
        self.requests.answered(&self.name, &request);
    }

    async fn read(
        &self,
        chain: &Chain,
        sector: u64,
        bytes: u64,
    ) -> Result<(Status, u64), Malformed> {
        let Some(offset) = place(sector, bytes) else {
            return Ok((Status::Failed, 0));
        };
        let _memory = self.budget.acquire(bytes).await;
        let read = self.volume.read(offset, bytes);
        let Ok(pieces) = self.requests.engine(read).await else {
            return Ok((Status::Failed, 0));
        };
        let mut at = 0;
        for piece in &pieces {
            at = self.put(chain, at, piece)?;
        }
        Ok((Status::Done, bytes))
    }

    /// Copies a piece to the guest. Returns the place after it.
    fn put(&self, chain: &Chain, at: u64, piece: &Piece) -> Result<u64, Malformed> {
        let mut at = at;
        let mut copy = |data: &[u8]| {
            chain.writable.copy_from(&self.memory, at, data)?;
            at += data.len() as u64;
            Ok(())
        };
        match piece {
            Piece::Data(data) => copy(data)?,
            Piece::Zero(bytes) => {
                let zeroes = [0; 4096];
                let mut left = *bytes;
                while left > 0 {
                    let now = left.min(zeroes.len());
                    copy(&zeroes[..now])?;
                    left -= now;
                }
            }
        }
        Ok(at)
    }

    async fn write(&self, chain: &Chain, sector: u64, bytes: u64) -> Result<Status, Malformed> {
        let Some(offset) = place(sector, bytes) else {
            return Ok(Status::Failed);
        };
        let reserved = self.volume.reserve(bytes);
        let Ok(memory) = self.requests.engine(reserved).await else {
            return Ok(Status::Failed);
        };
        // The checksums are over this copy, whatever the guest does with its own.
        let mut data = self.pool.alloc(bytes as usize);
        chain
            .readable
            .copy_to(&self.memory, HEADER_BYTES, &mut data)?;
        data.attach(Rc::new(memory));
        let written = self.volume.write(offset, data.share(), self.write_through);
        Ok(Status::of(self.requests.engine(written).await))
    }

    /// Discards ranges, or writes zeroes. Each range is one commit.
    async fn clear(
        &self,
        chain: &Chain,
        kind: u32,
        bytes: u64,
        arrived: Nanos,
    ) -> Result<Status, Malformed> {
        let count = bytes / RANGE_BYTES;
        if count == 0 || !bytes.is_multiple_of(RANGE_BYTES) || count > u64::from(RANGES_MAX) {
            return Ok(Status::Failed);
        }
        let mut ranges = vec![0; bytes as usize];
        chain
            .readable
            .copy_to(&self.memory, HEADER_BYTES, &mut ranges)?;
        for range in ranges.chunks_exact(RANGE_BYTES as usize) {
            let sector = u64::from_le_bytes(part(range, 0));
            let sectors = u64::from(u32::from_le_bytes(part(range, 8)));
            let flags = u32::from_le_bytes(part(range, 12));
            let length = sectors * SECTOR_BYTES;
            let known = if kind == kind::DISCARD { 0 } else { UNMAP };
            if flags & !known != 0 {
                return Ok(Status::Unsupported);
            }
            let end = sector.checked_mul(SECTOR_BYTES);
            let end = end.and_then(|offset| offset.checked_add(length));
            let Some(offset) = end.map(|end| end - length) else {
                return Ok(Status::Failed);
            };
            let durable = self.write_through;
            let (command, done) = match kind {
                kind::DISCARD => {
                    let done = self.volume.trim(offset, length, durable);
                    (CommandKind::Trim, self.requests.engine(done).await)
                }
                _ => {
                    let keep_space = flags & UNMAP == 0;
                    let done = self
                        .volume
                        .write_zeroes(offset, length, keep_space, durable);
                    (CommandKind::WriteZeroes, self.requests.engine(done).await)
                }
            };
            let status = Status::of(done);
            self.count(command, (offset, length), arrived, status);
            if status != Status::Done {
                return Ok(status);
            }
        }
        Ok(Status::Done)
    }
}

impl Status {
    fn of<T, E>(result: Result<T, E>) -> Self {
        match result {
            Ok(_) => Status::Done,
            Err(_) => Status::Failed,
        }
    }
}

/// The first byte of `bytes` bytes at `sector`. `None` for data that is no data of this protocol, or too much.
fn place(sector: u64, bytes: u64) -> Option<u64> {
    let fits = bytes > 0 && bytes <= PAYLOAD_BYTES_MAX && bytes.is_multiple_of(SECTOR_BYTES);
    let offset = sector.checked_mul(SECTOR_BYTES).filter(|_| fits)?;
    offset.checked_add(bytes).map(|end| end - bytes)
}

/// `N` bytes from `at` on.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N]
        .try_into()
        .expect("the range has the length of the array")
}
