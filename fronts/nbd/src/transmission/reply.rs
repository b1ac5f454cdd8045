//! Replies in the form that was negotiated.
//!
//! With structured replies, reads and block status are answered by chunks, errors by an error chunk
//! with its sentence, and the success of anything else by a simple reply, which the spec allows and
//! which is four bytes shorter. The last chunk of an answer carries the DONE flag itself.

use super::link::{Link, Ticket};
use super::outbox::{COPY_BYTES_MAX, How, Outbox};
use super::target::TargetError;
use crate::proto::{
    BASE_ALLOCATION_ID, Extent, NbdErrno, offset_data_header, offset_hole, put_block_status,
    put_error_reply, simple_reply,
};
use tonearm_disk::Piece;

impl Link {
    /// Success without data.
    pub fn reply_done(&self, ticket: Ticket) {
        let header = simple_reply(ticket.cookie, None);
        self.reply(ticket, |outbox| outbox.copy(&header));
    }

    /// Failure.
    pub fn reply_error(&self, mut ticket: Ticket, error: &TargetError) {
        ticket.failed = true;
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

    /// The extents of a range.
    pub fn reply_extents(&self, ticket: Ticket, extents: &[Extent]) {
        let mut bytes = Vec::with_capacity(24 + 8 * extents.len());
        put_block_status(&mut bytes, ticket.cookie, BASE_ALLOCATION_ID, extents, true);
        self.reply(ticket, |outbox| outbox.copy(&bytes));
    }

    /// The data of a read of `ticket.bytes` bytes at `offset`.
    pub fn reply_read(&self, ticket: Ticket, offset: u64, pieces: &[Piece], whole: bool) {
        let total: usize = pieces.iter().map(piece_bytes).sum();
        if total != ticket.bytes as usize {
            let error = TargetError {
                errno: NbdErrno::Io,
                message: format!(
                    "the store gave {total} bytes for a read of {}",
                    ticket.bytes
                ),
            };
            return self.reply_error(ticket, &error);
        }
        let how = match total <= COPY_BYTES_MAX {
            true => How::Copied,
            false if self.is_slow() => How::Detached,
            false => How::Shared,
        };
        let holes = pieces.iter().any(|piece| matches!(piece, Piece::Zero(1..)));
        let (cookie, bytes) = (ticket.cookie, ticket.bytes);
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
                let bytes = run.iter().map(piece_bytes).sum::<usize>();
                if bytes == 0 {
                    continue;
                }
                let done = at + bytes as u64 == end;
                if is_hole(&run[0]) {
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
    for piece in pieces.iter().filter(|piece| piece_bytes(piece) > 0) {
        outbox.piece(piece, how);
    }
}

fn is_hole(piece: &Piece) -> bool {
    matches!(piece, Piece::Zero(_))
}

/// Neighbours of one kind.
fn runs(pieces: &[Piece]) -> impl Iterator<Item = &[Piece]> {
    pieces.chunk_by(|a, b| is_hole(a) == is_hole(b))
}

fn piece_bytes(piece: &Piece) -> usize {
    match piece {
        Piece::Data(slice) => slice.len(),
        Piece::Zero(bytes) => *bytes,
    }
}
