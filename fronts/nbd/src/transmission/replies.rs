//! Encodes replies in the form that was negotiated, and collects them in batches. All replies of a batch leave in one
//! `Send`.
//!
//! With structured replies, reads and block status are answered by chunks, errors by an error chunk
//! with its sentence, and the success of anything else by a simple reply, which the spec allows and
//! which is four bytes shorter. The last chunk of an answer carries the DONE flag itself.
//!
//! Invariants:
//! 1. The parts of all batches, in order, are the bytes of the stream.
//! 2. A batch has at most [`SLICES_MAX`] parts and about [`BATCH_BYTES`] bytes.
//! 3. A ticket lies in the batch that holds the last byte of its reply.

use super::link::{Link, Ticket};
use super::target::TargetError;
use crate::proto::{
    BASE_ALLOCATION_ID, Extent, NbdErrno, offset_data_header, offset_hole, put_block_status,
    put_error_reply, simple_reply,
};
use std::collections::VecDeque;
use std::ops::Range;
use tonearm_base::{Buf, BufPool, Slice};
use tonearm_disk::Piece;
use tonearm_rt::{Data, SLICES_MAX};

/// Reads up to this many bytes are copied beside their headers. Larger ones are sent from the memory in which they lie.
const COPY_BYTES_MAX: usize = 16 << 10;

/// Batches kept for their memory.
const SPARE_MAX: usize = 4;

/// Bytes from which on a batch is full. A client has the stall timeout for each batch.
const BATCH_BYTES: usize = 1 << 20;

/// Sizes of the buffers that small parts are copied to: the first of a batch, and its others.
const HEAD_BYTES_FIRST: usize = 16 << 10;
const HEAD_BYTES_MORE: usize = 128 << 10;

impl Link {
    /// Reports success, without data.
    pub fn reply_done(&self, ticket: Ticket) {
        let header = simple_reply(ticket.cookie, None);
        self.reply(ticket, |outbox| outbox.copy(&header));
    }

    /// Reports an error.
    pub fn reply_error(&self, mut ticket: Ticket, error: &TargetError) {
        ticket.request.failed = true;
        let mut bytes = Vec::new();
        put_error_reply(
            &mut bytes,
            &self.negotiated,
            ticket.cookie,
            error.errno,
            &error.message,
        );
        self.reply(ticket, |outbox| outbox.copy(&bytes));
    }

    /// Reports the extents of a range.
    pub fn reply_extents(&self, ticket: Ticket, extents: &[Extent]) {
        let mut bytes = Vec::with_capacity(24 + 8 * extents.len());
        put_block_status(&mut bytes, ticket.cookie, BASE_ALLOCATION_ID, extents, true);
        self.reply(ticket, |outbox| outbox.copy(&bytes));
    }

    /// Sends the data of a read of `ticket.request.bytes` bytes at `offset`.
    pub fn reply_read(&self, ticket: Ticket, offset: u64, pieces: &[Piece], whole: bool) {
        let total: usize = pieces.iter().map(Piece::len).sum();
        if total as u64 != ticket.request.bytes {
            let error = TargetError {
                errno: NbdErrno::Io,
                message: format!(
                    "the store gave {total} bytes for a read of {}",
                    ticket.request.bytes
                ),
            };
            return self.reply_error(ticket, &error);
        }
        let how = if total <= COPY_BYTES_MAX {
            How::Copied
        } else if self.is_slow() {
            How::Detached
        } else {
            How::Shared
        };
        let holes = pieces.iter().any(|piece| matches!(piece, Piece::Zero(1..)));
        let (cookie, bytes) = (ticket.cookie, total as u32);
        let one_chunk = whole || !holes;
        self.reply(ticket, |outbox| {
            if !self.negotiated.structured_replies {
                outbox.copy(&simple_reply(cookie, None));
            } else if one_chunk {
                outbox.copy(&offset_data_header(cookie, offset, bytes, true));
            }
            if !self.negotiated.structured_replies || one_chunk {
                return put(outbox, pieces, how);
            }
            let mut at = offset;
            let end = offset + u64::from(bytes);
            for run in runs(pieces) {
                let bytes = run.iter().map(Piece::len).sum::<usize>();
                if bytes == 0 {
                    continue;
                }
                let done = at + bytes as u64 == end;
                if run[0].is_zero() {
                    outbox.copy(&offset_hole(cookie, at, bytes as u32, done));
                } else {
                    outbox.copy(&offset_data_header(cookie, at, bytes as u32, done));
                    put(outbox, run, how);
                }
                at += bytes as u64;
            }
        });
    }
}

fn put(outbox: &mut Outbox, pieces: &[Piece], how: How) {
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        outbox.piece(piece, how);
    }
}

/// Groups adjacent pieces of one kind.
fn runs(pieces: &[Piece]) -> impl Iterator<Item = &[Piece]> {
    pieces.chunk_by(|a, b| a.is_zero() == b.is_zero())
}

/// The queue of batches of one connection.
pub(super) struct Outbox {
    pool: BufPool,
    /// Zero bytes that every connection sends from.
    zeroes: Slice,
    batches: VecDeque<Batch>,
    spare: Vec<Batch>,
}

/// How the data of a read gets into a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// Copied beside the headers, for few bytes.
    Copied,
    /// From the memory in which it lies.
    Shared,
    /// From a copy: a slow client must not keep the target's memory.
    Detached,
}

impl Outbox {
    pub fn new(pool: BufPool, zeroes: Slice) -> Self {
        Self {
            pool,
            zeroes,
            batches: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// True when queued data lies in memory of the target.
    pub fn holds_memory(&self) -> bool {
        self.batches.iter().any(|batch| batch.uncopied)
    }

    fn open(&mut self) -> &mut Batch {
        if self.batches.back().is_none_or(Batch::is_full) {
            self.batches.push_back(self.spare.pop().unwrap_or_default());
        }
        self.batches.back_mut().expect("pushed above")
    }

    /// Appends a copy of `bytes`, which are few.
    pub fn copy(&mut self, bytes: &[u8]) {
        let pool = self.pool.clone();
        self.open().copy(&pool, bytes);
    }

    /// Appends data of a read.
    fn piece(&mut self, piece: &Piece, how: How) {
        match piece {
            Piece::Data(slice) if how == How::Copied => self.copy(slice),
            Piece::Data(slice) => {
                let detached = how == How::Detached;
                let slice = if detached {
                    self.pool.copy_of(slice).share()
                } else {
                    slice.clone()
                };
                let mut at = 0;
                while at < slice.len() {
                    let batch = self.open();
                    let end = slice.len().min(at + batch.room());
                    batch.share(slice.slice(at..end));
                    batch.uncopied |= !detached;
                    at = end;
                }
            }
            Piece::Zero(bytes) if how == How::Copied => {
                let pool = self.pool.clone();
                self.open().zeroes(&pool, *bytes);
            }
            Piece::Zero(bytes) => {
                let zeroes = self.zeroes.clone();
                let mut left = *bytes;
                while left > 0 {
                    let batch = self.open();
                    let part = left.min(zeroes.len()).min(batch.room());
                    batch.share(zeroes.slice(0..part));
                    left -= part;
                }
            }
        }
    }

    /// Ends a reply.
    pub fn finish(&mut self, ticket: Ticket) {
        let last = self.batches.back_mut();
        last.expect("a reply has bytes").tickets.push(ticket);
    }

    /// Takes the batch that is to leave next.
    pub fn pop(&mut self) -> Option<Batch> {
        self.batches.pop_front()
    }

    /// Takes back a batch that was sent or thrown away.
    pub fn recycle(&mut self, mut batch: Batch) {
        batch.tickets.clear();
        batch.uncopied = false;
        if self.spare.len() < SPARE_MAX && batch.is_empty() {
            self.spare.push(batch);
        }
    }
}

enum Part {
    /// A range of the present head buffer.
    Head(Range<usize>),
    Shared(Slice),
}

/// Replies that leave together.
#[derive(Default)]
pub(super) struct Batch {
    parts: Vec<Part>,
    head: Option<Buf>,
    /// Bytes of the head in use.
    used: usize,
    bytes: usize,
    /// Some of its data lies in memory of the target.
    pub uncopied: bool,
    pub tickets: Vec<Ticket>,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// True when the next part belongs into another batch. Small parts of one call need two entries
    /// at most.
    pub fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.parts.len() + 2 > SLICES_MAX
    }

    /// Bytes until the batch is full.
    pub fn room(&self) -> usize {
        BATCH_BYTES.saturating_sub(self.bytes)
    }

    /// Room for `len` bytes that are to be copied.
    fn space(&mut self, pool: &BufPool, len: usize) -> &mut [u8] {
        let fits = self
            .head
            .as_ref()
            .is_some_and(|head| head.len() - self.used >= len);
        if !fits {
            let first = self.head.is_none();
            self.freeze();
            let size = if first {
                HEAD_BYTES_FIRST
            } else {
                HEAD_BYTES_MORE
            };
            self.head = Some(pool.alloc(size.max(len)));
        }
        let range = self.used..self.used + len;
        self.used = range.end;
        self.bytes += len;
        match self.parts.last_mut() {
            Some(Part::Head(last)) if last.end == range.start => last.end = range.end,
            _ => self.parts.push(Part::Head(range.clone())),
        }
        let head = self.head.as_mut().expect("made above");
        &mut head[range]
    }

    pub fn copy(&mut self, pool: &BufPool, bytes: &[u8]) {
        self.space(pool, bytes.len()).copy_from_slice(bytes);
    }

    pub fn zeroes(&mut self, pool: &BufPool, len: usize) {
        self.space(pool, len).fill(0);
    }

    pub fn share(&mut self, slice: Slice) {
        self.bytes += slice.len();
        self.parts.push(Part::Shared(slice));
    }

    /// Turns the ranges of the present head into slices of it.
    fn freeze(&mut self) {
        let Some(head) = self.head.take() else { return };
        let head = head.share();
        for part in &mut self.parts {
            if let Part::Head(range) = part {
                *part = Part::Shared(head.slice(range.clone()));
            }
        }
        self.used = 0;
    }

    /// The memory to send; the tickets stay.
    pub fn take_data(&mut self) -> Data {
        if let ([Part::Head(range)], Some(_)) = (self.parts.as_slice(), &self.head) {
            // The common case, without a shared buffer.
            let range = range.clone();
            let head = self.head.take().expect("looked at above");
            self.reset();
            return Data::Buf(head, range);
        }
        self.freeze();
        let slices = self
            .parts
            .drain(..)
            .map(|part| match part {
                Part::Shared(slice) => slice,
                Part::Head(_) => unreachable!("the head was frozen"),
            })
            .collect();
        self.reset();
        Data::Slices(slices)
    }

    fn reset(&mut self) {
        self.parts.clear();
        self.used = 0;
        self.bytes = 0;
    }
}
