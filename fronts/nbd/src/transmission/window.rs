//! The buffer that requests are received into.
//!
//! Its size follows the client: small for one that sends little at a time, so that a thousand idle
//! connections cost little, and large for one that fills it. A small payload waits here until it is whole.

use tonearm_base::{Buf, BufPool};
use tonearm_rt::Data;

const BYTES_MIN: usize = 16 << 10;
const BYTES_MAX: usize = 256 << 10;

/// Bytes received after a large payload: more would be a part of the next payload, which is received in place.
const PEEK_BYTES: usize = 4 << 10;

/// Receives in a row that left most of the buffer unused, after which it shrinks.
const QUIET_MAX: u32 = 64;

pub(super) struct Window {
    pool: BufPool,
    /// None while an operation has it.
    buf: Option<Buf>,
    start: usize,
    end: usize,
    asked: usize,
    quiet: u32,
    peek: bool,
    size: usize,
}

impl Window {
    pub fn new(pool: &BufPool) -> Self {
        Self {
            pool: pool.clone(),
            buf: Some(pool.alloc(BYTES_MIN)),
            start: 0,
            end: 0,
            asked: 0,
            quiet: 0,
            peek: false,
            size: BYTES_MIN,
        }
    }

    /// Received and not consumed.
    pub fn bytes(&self) -> &[u8] {
        let buf = self.buf.as_ref().expect("no operation has the buffer");
        &buf[self.start..self.end]
    }

    pub fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        debug_assert!(self.start <= self.end, "no more than was received");
    }

    /// Moves as many bytes as there are to `out`; their count.
    pub fn take(&mut self, out: &mut [u8]) -> usize {
        let bytes = self.bytes();
        let count = bytes.len().min(out.len());
        out[..count].copy_from_slice(&bytes[..count]);
        self.consume(count);
        count
    }

    /// The next bytes are probably one header alone: few are received at first.
    pub fn expect_header(&mut self) {
        self.peek = true;
    }

    /// Memory to receive into, behind what is left, so large that `whole` bytes have room together.
    pub fn lend(&mut self, whole: usize) -> Data {
        let mut buf = self.buf.take().expect("no operation has the buffer");
        let left = self.end - self.start;
        let size = self.size.max(whole.next_power_of_two());
        debug_assert!(
            left < size && size <= BYTES_MAX,
            "what is left is no more than it waits for"
        );
        if buf.len() != size {
            let mut other = self.pool.alloc(size);
            other[..left].copy_from_slice(&buf[self.start..self.end]);
            buf = other;
        } else if self.start > 0 {
            buf.copy_within(self.start..self.end, 0);
        }
        (self.start, self.end) = (0, left);
        let peek = std::mem::replace(&mut self.peek, false);
        let to = if peek { left + PEEK_BYTES } else { buf.len() };
        self.asked = to - left;
        Data::Buf(buf, left..to)
    }

    /// Memory to receive at most `bytes` into that are thrown away; the window must be empty.
    pub fn lend_waste(&mut self, bytes: usize) -> Data {
        debug_assert!(self.start == self.end, "what is left comes first");
        (self.start, self.end) = (0, 0);
        let buf = self.buf.take().expect("no operation has the buffer");
        let count = bytes.min(buf.len());
        Data::Buf(buf, 0..count)
    }

    /// Takes the memory back; `received` new bytes are in it.
    pub fn give_back(&mut self, data: Data, received: usize) {
        let buf = data.into_buf();
        self.end += received;
        if received == self.asked && self.asked > PEEK_BYTES {
            self.size = (4 * buf.len()).min(BYTES_MAX);
        }
        self.quiet = if received < buf.len() / 8 {
            self.quiet + 1
        } else {
            0
        };
        if self.quiet >= QUIET_MAX {
            self.size = (buf.len() / 4).max(BYTES_MIN);
            self.quiet = 0;
        }
        self.buf = Some(buf);
    }

    /// Takes the memory of [`Window::lend_waste`] back.
    pub fn give_back_waste(&mut self, data: Data) {
        self.buf = Some(data.into_buf());
    }
}
