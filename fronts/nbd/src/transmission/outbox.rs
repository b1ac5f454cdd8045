//! The queue of replies that are ready, as batches.

use super::batch::Batch;
use super::ticket::Ticket;
use std::collections::VecDeque;
use tonearm_base::{BufPool, Slice};
use tonearm_disk::Piece;

/// Reads up to this many bytes are copied beside their headers; larger ones leave from where they are.
pub(super) const COPY_BYTES_MAX: usize = 16 << 10;

/// Batches kept for their memory.
const SPARE_MAX: usize = 4;

pub(super) struct Outbox {
    pool: BufPool,
    /// Zero bytes that every connection sends from.
    zeroes: Slice,
    batches: VecDeque<Batch>,
    spare: Vec<Batch>,
}

/// How the data of a read gets into a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    /// Copied beside the headers: there is little of it.
    Copied,
    /// From where it is.
    Shared,
    /// From a copy: the client is slow, and must not keep the target's memory.
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

    /// True when data in memory of the target is queued.
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
    pub fn piece(&mut self, piece: &Piece, how: How) {
        match piece {
            Piece::Data(slice) if how == How::Copied => self.copy(slice),
            Piece::Data(slice) => {
                let detached = how == How::Detached;
                let slice = match detached {
                    true => self.pool.copy_of(slice).share(),
                    false => slice.clone(),
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

    /// The batch that is to leave next.
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
