//! One operation from its request to its end: which entry to submit, and what its completion means. This module
//! makes no system call.
//!
//! Invariants:
//! 1. A short transfer continues with the remainder, so the operation ends as a whole or with an error. Only `Recv`,
//!    and a stream that has ended, return less.
//! 2. The operation owns the memory that an entry names (buffers, iovecs, message header). The memory stays in its
//!    place until the operation is dropped, even when the operation is moved.

use crate::calls::What;
use crate::devices::{Kind, Target};
use io_uring::{opcode, squeue, types};
use tonearm_base::Buf;
use tonearm_rt::{Data, IoError, Op, Request, SLICES_MAX};

/// Most bytes of one entry: below the kernel's limit for one read or write (2 GiB less a page).
const ENTRY_BYTES_MAX: usize = 1 << 30;

const PUNCH_MODE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
const ZERO_MODE: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;

/// How the operation is currently carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Move bytes between the request's memory and the descriptor.
    Transfer,
    /// fdatasync.
    Sync,
    /// fallocate in punch mode; without support of the device, `ZeroRange`.
    Punch,
    /// fallocate in zero-range mode; without support of the device, `ZeroWrites`.
    ZeroRange,
    /// Write zeroes, chunk by chunk.
    ZeroWrites,
    /// A command to a driver of the kernel.
    Command,
}

/// Bytes of the argument of a command, and those of them that a ublk device would take for an address.
pub(crate) const COMMAND_BYTES: usize = 16;
const ADDRESS: std::ops::Range<usize> = 8..16;

/// The next step after a completion of the ring.
#[derive(Debug)]
pub(crate) enum Next {
    /// Submit the operation's next entry.
    Again,
    /// The operation has ended.
    Done(Result<usize, IoError>),
}

/// An operation under way, owner of its request's memory.
pub(crate) struct Operation {
    pub token: u64,
    pub request: Request,
    pub target: Target,
    stage: Stage,
    /// Bytes moved or zeroed by entries that have ended.
    moved: u64,
    /// The last result was EAGAIN: the next entry is for a kernel worker, which may block.
    force_worker: bool,
}

/// Memory of an operation's vectored entry, kept by its slot for reuse.
#[derive(Default)]
pub(crate) struct Vectors {
    iovecs: Vec<libc::iovec>,
    header: Option<Box<libc::msghdr>>,
}

impl Operation {
    /// An operation on `target`, or the result with which it ends before it begins.
    pub fn new(
        token: u64,
        request: Request,
        target: Target,
    ) -> Result<Self, (Result<usize, IoError>, Request)> {
        if !fits(&request, target.kind) {
            return Err((Err(IoError::EINVAL), request));
        }
        let stage = match request.op {
            Op::Flush => Stage::Sync,
            Op::Punch if !target.punch_refused => Stage::Punch,
            Op::Punch | Op::Zero if !target.zero_range_refused => Stage::ZeroRange,
            Op::Punch | Op::Zero => Stage::ZeroWrites,
            Op::Command => Stage::Command,
            _ => Stage::Transfer,
        };
        let empty = match stage {
            Stage::Sync | Stage::Command => false,
            Stage::Transfer => request.data.is_empty(),
            _ => request.len == 0,
        };
        if empty {
            return Err((Ok(0), request));
        }
        Ok(Self {
            token,
            request,
            target,
            stage,
            moved: 0,
            force_worker: false,
        })
    }

    /// True when the zeroes of [`Operation::entry`] are needed.
    pub fn writes_zeroes(&self) -> bool {
        self.stage == Stage::ZeroWrites
    }

    /// True for a read of a file.
    pub fn reads_file(&self) -> bool {
        self.target.kind == Kind::File && self.request.op == Op::Read
    }

    /// The entry for the rest of the operation. The caller keeps the operation, `vectors` and `zeroes` until the entry
    /// has ended, and sets the entry's `user_data`.
    pub fn entry(&mut self, vectors: &mut Vectors, zeroes: Option<&Buf>) -> squeue::Entry {
        let fd = types::Fd(self.target.fd);
        let (at, left) = (
            self.request.offset + self.moved,
            self.request.len.saturating_sub(self.moved),
        );
        let entry = match self.stage {
            Stage::Transfer => self.transfer_entry(vectors),
            Stage::Command => self.command_entry(),
            Stage::Sync => opcode::Fsync::new(fd)
                .flags(types::FsyncFlags::DATASYNC)
                .build(),
            Stage::Punch => opcode::Fallocate::new(fd, left)
                .offset(at)
                .mode(PUNCH_MODE)
                .build(),
            Stage::ZeroRange => opcode::Fallocate::new(fd, left)
                .offset(at)
                .mode(ZERO_MODE)
                .build(),
            Stage::ZeroWrites => {
                let zeroes = zeroes.expect("given where `writes_zeroes` holds");
                let len = left.min(zeroes.len() as u64) as u32;
                opcode::Write::new(fd, zeroes.as_ptr(), len)
                    .offset(at)
                    .build()
            }
        };
        if self.force_worker {
            entry.flags(squeue::Flags::ASYNC)
        } else {
            entry
        }
    }

    /// An entry that must end well before [`Operation::entry`] begins, linked to it. The read of an event that does not block needs
    /// one that waits for the event.
    pub fn lead(&self) -> Option<squeue::Entry> {
        let fd = types::Fd(self.target.fd);
        let waits = self.target.kind == Kind::ForeignEvent;
        waits.then(|| opcode::PollAdd::new(fd, libc::POLLIN as u32).build())
    }

    /// The system call in place of the first entry, if a waiting thread should make it. `alone` says that no other
    /// operation on files is under way. The caller keeps the operation and `vectors` until the call has ended.
    pub fn call(&self, vectors: &mut Vectors, alone: bool) -> Option<What> {
        let fd = self.target.fd;
        match self.request.op {
            Op::Flush if alone => Some(What::Sync { fd }),
            Op::WriteDurable => {
                match &self.request.data {
                    Data::Buf(buf, range) => vectors.fill(std::iter::once(&buf[range.clone()]), 0),
                    Data::Slices(slices) => vectors.fill(slices.iter().map(|slice| &slice[..]), 0),
                    Data::None => unreachable!("an operation without memory ends before it begins"),
                }
                Some(What::Write {
                    fd,
                    vectors: vectors.iovecs.as_ptr(),
                    count: vectors.iovecs.len(),
                    offset: self.request.offset,
                    flags: write_flags(self.request.op),
                })
            }
            _ => None,
        }
    }

    fn transfer_entry(&mut self, vectors: &mut Vectors) -> squeue::Entry {
        let fd = types::Fd(self.target.fd);
        let (op, moved) = (self.request.op, self.moved as usize);
        let (memory, len) = match &mut self.request.data {
            Data::Buf(buf, range) => {
                let part = &mut buf[range.start + moved..range.end];
                (part.as_mut_ptr(), part.len().min(ENTRY_BYTES_MAX) as u32)
            }
            Data::Slices(slices) if slices.len() == 1 => {
                let part = &slices[0][moved..];
                // Only read by the kernel: `fits` refuses slices for receiving operations.
                (
                    part.as_ptr().cast_mut(),
                    part.len().min(ENTRY_BYTES_MAX) as u32,
                )
            }
            Data::Slices(slices) => {
                vectors.fill(slices.iter().map(|slice| &slice[..]), moved);
                return self.vectored_entry(vectors);
            }
            Data::None => unreachable!("an operation without memory ends before it begins"),
        };
        let at = self.request.offset + self.moved;
        match (op, self.target.kind) {
            (Op::Read, _) => opcode::Read::new(fd, memory, len).offset(at).build(),
            (Op::Write | Op::WriteDurable, _) => opcode::Write::new(fd, memory, len)
                .offset(at)
                .rw_flags(write_flags(op))
                .build(),
            (Op::Send, _) => opcode::Send::new(fd, memory, len)
                .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
                .build(),
            // An event is not a socket; -1 stands for the descriptor's own position.
            (_, Kind::Event | Kind::ForeignEvent) => {
                opcode::Read::new(fd, memory, len).offset(u64::MAX).build()
            }
            (Op::RecvAll, _) => opcode::Recv::new(fd, memory, len)
                .flags(libc::MSG_WAITALL)
                .build(),
            _ => opcode::Recv::new(fd, memory, len).build(),
        }
    }

    /// The argument is copied into the entry, so the kernel knows no memory of the operation.
    fn command_entry(&self) -> squeue::Entry {
        let mut argument = [0; COMMAND_BYTES];
        if let Data::Buf(buf, range) = &self.request.data {
            argument.copy_from_slice(&buf[range.clone()]);
        }
        let number = self.request.offset as u32;
        opcode::UringCmd16::new(types::Fd(self.target.fd), number)
            .cmd(argument)
            .build()
    }

    fn vectored_entry(&self, vectors: &mut Vectors) -> squeue::Entry {
        let fd = types::Fd(self.target.fd);
        if self.request.op == Op::Send {
            return opcode::SendMsg::new(fd, vectors.message())
                .flags((libc::MSG_WAITALL | libc::MSG_NOSIGNAL) as u32)
                .build();
        }
        opcode::Writev::new(fd, vectors.iovecs.as_ptr(), vectors.iovecs.len() as u32)
            .offset(self.request.offset + self.moved)
            .rw_flags(write_flags(self.request.op))
            .build()
    }

    /// Takes the result of the last entry: bytes, or a negative error number.
    pub fn answer(&mut self, result: i32) -> Next {
        if self.stage == Stage::Command {
            return Next::Done(usize::try_from(result).map_err(|_| IoError { errno: -result }));
        }
        if result < 0 {
            return self.failed(-result);
        }
        let bytes = result as u64;
        match self.stage {
            Stage::Sync | Stage::Punch | Stage::ZeroRange => Next::Done(Ok(0)),
            Stage::ZeroWrites => {
                self.moved += bytes;
                match (bytes, self.moved >= self.request.len) {
                    (0, _) => Next::Done(Err(IoError::EIO)),
                    (_, true) => Next::Done(Ok(0)),
                    (_, false) => Next::Again,
                }
            }
            Stage::Transfer => {
                self.moved += bytes;
                self.force_worker = false;
                let moved = self.moved as usize;
                let whole = moved == self.request.data.len();
                match self.request.op {
                    Op::Recv => Next::Done(Ok(moved)),
                    _ if whole => Next::Done(Ok(moved)),
                    // The end of the stream.
                    Op::RecvAll if bytes == 0 => Next::Done(Ok(moved)),
                    // The end of the file, before the requested bytes.
                    _ if bytes == 0 => Next::Done(Err(IoError::EIO)),
                    _ => Next::Again,
                }
            }
            Stage::Command => unreachable!("its result is returned as it is"),
        }
    }

    fn failed(&mut self, errno: i32) -> Next {
        match (errno, self.stage) {
            (libc::EINTR, _) => Next::Again,
            // On a foreign event another reader was faster.
            (libc::EAGAIN, _) => {
                self.force_worker = self.target.kind == Kind::File;
                Next::Again
            }
            (libc::EOPNOTSUPP | libc::ENOTTY | libc::ENOSYS | libc::ENODEV, Stage::Punch) => {
                self.target.punch_refused = true;
                self.stage = if self.target.zero_range_refused {
                    Stage::ZeroWrites
                } else {
                    Stage::ZeroRange
                };
                Next::Again
            }
            (libc::EOPNOTSUPP | libc::ENOTTY | libc::ENOSYS | libc::ENODEV, Stage::ZeroRange) => {
                self.target.zero_range_refused = true;
                self.stage = Stage::ZeroWrites;
                Next::Again
            }
            // Direct I/O refuses to continue at the unaligned end of a file that is too short.
            (libc::EINVAL, Stage::Transfer) if self.moved > 0 => Next::Done(Err(IoError::EIO)),
            _ => Next::Done(Err(IoError { errno })),
        }
    }
}

impl Vectors {
    /// `slices` without the first `skip` bytes.
    fn fill<'a>(&mut self, slices: impl Iterator<Item = &'a [u8]>, mut skip: usize) {
        self.iovecs.clear();
        for slice in slices {
            let part = &slice[skip.min(slice.len())..];
            skip -= slice.len() - part.len();
            if !part.is_empty() {
                self.iovecs.push(libc::iovec {
                    iov_base: part.as_ptr().cast_mut().cast(),
                    iov_len: part.len(),
                });
            }
        }
    }

    fn message(&mut self) -> *const libc::msghdr {
        let header = self.header.get_or_insert_with(|| {
            // SAFETY: a message header of zero bytes is a valid, empty one.
            Box::new(unsafe { std::mem::zeroed() })
        });
        header.msg_iov = self.iovecs.as_mut_ptr();
        header.msg_iovlen = self.iovecs.len() as _;
        &raw const **header
    }
}

/// True when this kind of descriptor has the operation and the memory has the right form.
fn fits(request: &Request, kind: Kind) -> bool {
    let on_file = match request.op {
        Op::Recv => {
            let receives = matches!(kind, Kind::Stream | Kind::Event | Kind::ForeignEvent);
            return receives && is_buffer(&request.data);
        }
        Op::RecvAll => return kind == Kind::Stream && is_buffer(&request.data),
        Op::Send => kind == Kind::Stream,
        Op::Read => kind == Kind::File && is_buffer(&request.data),
        Op::Write | Op::WriteDurable | Op::Flush | Op::Punch | Op::Zero => kind == Kind::File,
        Op::Command => return kind == Kind::Ublk && is_command(request),
        Op::Close => false,
    };
    let parts = match &request.data {
        Data::Slices(slices) => slices.len(),
        _ => 1,
    };
    let bytes = request.len.max(request.data.len() as u64);
    on_file && parts <= SLICES_MAX && request.offset.checked_add(bytes).is_some()
}

fn is_buffer(data: &Data) -> bool {
    !matches!(data, Data::Slices(_))
}

/// True when the number and the argument have their sizes, and the argument has no address: the kernel would use memory there that
/// nobody keeps for it.
fn is_command(request: &Request) -> bool {
    let Data::Buf(buf, range) = &request.data else {
        return false;
    };
    let argument = &buf[range.clone()];
    u32::try_from(request.offset).is_ok()
        && argument.len() == COMMAND_BYTES
        && argument[ADDRESS].iter().all(|byte| *byte == 0)
}

fn write_flags(op: Op) -> i32 {
    if op == Op::WriteDurable {
        libc::RWF_DSYNC
    } else {
        0
    }
}
