//! Replies that leave in one `Send`.
//!
//! Invariants:
//! 1. The parts, in order, are the bytes of the stream.
//! 2. A batch has at most [`SLICES_MAX`] parts and about [`BATCH_BYTES`] bytes.
//! 3. A ticket lies in the batch that holds the last byte of its reply.

use super::ticket::Ticket;
use std::ops::Range;
use tonearm_base::{Buf, BufPool, Slice};
use tonearm_rt::{Data, SLICES_MAX};

/// Bytes from which on a batch is full: a client has the stall timeout for so much.
pub(super) const BATCH_BYTES: usize = 1 << 20;

/// Sizes of the buffers that small parts are copied to: the first of a batch, and its others.
const HEAD_BYTES_FIRST: usize = 16 << 10;
const HEAD_BYTES_MORE: usize = 128 << 10;

enum Part {
    /// A range of the present head buffer.
    Head(Range<usize>),
    Shared(Slice),
}

/// Replies in the making.
#[derive(Default)]
pub(super) struct Batch {
    parts: Vec<Part>,
    head: Option<Buf>,
    /// Bytes of the head in use.
    used: usize,
    bytes: usize,
    /// It has data that lies in memory of the target.
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

    /// Room for `len` bytes to copy to.
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
