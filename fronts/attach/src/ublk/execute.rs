//! Carries out one request on a volume.

use super::abi::{IoRequest, Verb, data_offset};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_disk::{DiskError, ErrorKind, Piece, Volume};
use tonearm_requests::{Answered, CommandKind, Requests};
use tonearm_rt::Semaphore;

/// Most parts of one pwritev(2).
const PARTS_MAX: usize = 1024;

/// Zeroes for parts of a read that were never written.
static ZEROES: [u8; 1 << 16] = [0; 1 << 16];

/// What the requests of a queue need.
pub(super) struct Executor {
    /// Name of the volume.
    pub name: String,
    /// For longer-lived writers: the programs of the device go on when this process is killed, and the kernel does not send answered
    /// requests again.
    pub volume: Volume,
    pub pool: BufPool,
    /// Memory for data that is read.
    pub budget: Semaphore,
    pub requests: Requests,
    /// /dev/ublkcN. The kernel copies data of requests between its memory and ours when it is read and written, which does not block.
    pub data: OwnedFd,
}

impl Executor {
    /// Carries `request` of a tag out. Returns its result for the kernel: bytes, or a negative error number.
    pub async fn execute(&self, tag: u16, request: IoRequest) -> i32 {
        let (arrived, _begun) = self.requests.begin();
        let outcome = self.outcome(tag, request).await;
        let answered = Answered {
            kind: match request.verb {
                Verb::Read => CommandKind::Read,
                Verb::Write => CommandKind::Write,
                Verb::Flush => CommandKind::Flush,
                Verb::Discard => CommandKind::Trim,
                Verb::WriteZeroes => CommandKind::WriteZeroes,
                Verb::Other(_) => CommandKind::Unknown,
            },
            // That of a flush has no meaning.
            offset: match request.verb {
                Verb::Flush => 0,
                _ => request.offset,
            },
            bytes: request.length,
            fua: request.durable,
            failed: outcome.is_err(),
            arrived,
        };
        self.requests.answered(&self.name, &answered);
        match outcome {
            Ok(bytes) => bytes as i32,
            Err(errno) => -errno.raw_os_error(),
        }
    }

    /// Bytes of a read or a write. The kernel wants 0 for others, whose ranges may have more bytes than a result can have.
    async fn outcome(&self, tag: u16, request: IoRequest) -> Result<u64, Errno> {
        let IoRequest {
            verb,
            offset,
            length,
            durable,
            keep_space,
        } = request;
        let (volume, requests) = (&self.volume, &self.requests);
        match verb {
            Verb::Read => return self.read(tag, offset, length).await,
            Verb::Write => {
                self.write(tag, request).await?;
                return Ok(length);
            }
            Verb::Flush => requests.engine(volume.flush()).await.map_err(errno)?,
            Verb::Discard => {
                let discarded = volume.trim(offset, length, durable);
                requests.engine(discarded).await.map_err(errno)?;
            }
            Verb::WriteZeroes => {
                let zeroed = volume.write_zeroes(offset, length, keep_space, durable);
                requests.engine(zeroed).await.map_err(errno)?;
            }
            Verb::Other(_) => return Err(Errno::OPNOTSUPP),
        }
        Ok(0)
    }

    async fn read(&self, tag: u16, offset: u64, length: u64) -> Result<u64, Errno> {
        let _memory = self.budget.acquire(length).await;
        let read = self.requests.engine(self.volume.read(offset, length));
        let pieces = read.await.map_err(errno)?;
        let mut parts = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            match piece {
                Piece::Data(data) => parts.push(IoSlice::new(data)),
                Piece::Zero(bytes) => {
                    let mut left = *bytes;
                    while left > 0 {
                        let now = left.min(ZEROES.len());
                        parts.push(IoSlice::new(&ZEROES[..now]));
                        left -= now;
                    }
                }
            }
        }
        let mut at = data_offset(tag);
        for parts in parts.chunks(PARTS_MAX) {
            let bytes: usize = parts.iter().map(|part| part.len()).sum();
            let copied = rustix::io::pwritev(&self.data, parts, at)?;
            if copied != bytes {
                return Err(Errno::IO);
            }
            at += bytes as u64;
        }
        Ok(length)
    }

    async fn write(&self, tag: u16, request: IoRequest) -> Result<(), Errno> {
        let bytes = request.length as usize;
        let reserved = self.requests.engine(self.volume.reserve(request.length));
        let memory = reserved.await.map_err(errno)?;
        // The checksums are over this copy, whatever programs do with their pages meanwhile.
        let mut data = self.pool.alloc(bytes);
        if rustix::io::pread(&self.data, &mut data[..], data_offset(tag))? != bytes {
            return Err(Errno::IO);
        }
        data.attach(Rc::new(memory));
        let written = self
            .volume
            .write(request.offset, data.share(), request.durable);
        self.requests.engine(written).await.map_err(errno)
    }
}

/// The error number of the kernel's block devices.
fn errno(error: DiskError) -> Errno {
    match error.kind() {
        ErrorKind::NoSpace => Errno::NOSPC,
        _ => Errno::IO,
    }
}
