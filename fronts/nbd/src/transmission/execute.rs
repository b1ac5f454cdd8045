//! Executes the commands of the protocol on a [`Target`].

use super::link::{Link, Ticket};
use super::target::{Target, TargetError};
use crate::proto::{Command, Extent, NbdErrno, STATE_HOLE, STATE_ZERO};
use std::rc::Rc;
use tonearm_base::Slice;

/// Most extents of one answer. A client asks again for the rest.
const EXTENTS_PER_REPLY_MAX: usize = 4096;

/// Bytes that a target reads ahead at a time. This bounds the memory of a request, which may be for 4 GiB.
const CACHE_STEP_BYTES: u64 = 1 << 20;

/// A connection with its target.
pub(super) struct Session<T> {
    pub link: Rc<Link>,
    pub target: T,
    /// Whether the handshake said that the export is read-only.
    pub read_only: bool,
}

/// Memory in bytes that the answer to `command` may need.
pub(super) fn reply_bytes(command: &Command) -> u64 {
    match *command {
        Command::Read { length, .. } => u64::from(length),
        Command::BlockStatus { .. } => 8 * EXTENTS_PER_REPLY_MAX as u64,
        Command::Cache { length, .. } => CACHE_STEP_BYTES.min(u64::from(length)),
        _ => 0,
    }
}

/// Executes `command` and queues its reply.
pub(super) async fn execute<T: Target>(
    session: Rc<Session<T>>,
    ticket: Ticket,
    command: Command,
    payload: Option<Slice>,
) {
    let Session { link, target, .. } = &*session;
    let rt = &link.shared.rt;
    // Until the reply is queued: the client may take it when it likes.
    let under_way = link.shared.recorder.under_way();
    let _begun = under_way.begin(ticket.request.arrived);
    let done = match command {
        Command::Read {
            offset,
            length,
            dont_fragment,
        } => match rt.engine(target.read(offset, length.into())).await {
            Ok(pieces) => return link.reply_read(ticket, offset, &pieces, dont_fragment),
            Err(error) => Err(error),
        },
        Command::Write { offset, fua, .. } => {
            let data = payload.expect("a write comes with its payload");
            rt.engine(target.write(offset, data, fua)).await
        }
        Command::Flush => rt.engine(target.flush()).await,
        Command::Trim {
            offset,
            length,
            fua,
        } => rt.engine(target.trim(offset, length.into(), fua)).await,
        Command::WriteZeroes {
            offset,
            length,
            fua,
            no_hole,
            ..
        } => {
            // Zeroes are an entry in the log. They are always fast, whatever FAST_ZERO asks.
            let zeroed = target.write_zeroes(offset, length.into(), no_hole, fua);
            rt.engine(zeroed).await
        }
        Command::Cache { offset, length } => rt.engine(target.cache(offset, length.into())).await,
        Command::BlockStatus {
            offset,
            length,
            one_extent,
        } => match rt.engine(target.status(offset, length.into())).await {
            Ok(runs) => match extents(&runs, length, one_extent) {
                extents if extents.is_empty() => Err(TargetError {
                    errno: NbdErrno::Io,
                    message: "the store returned no allocation status for the range".to_owned(),
                }),
                extents => return link.reply_extents(ticket, &extents),
            },
            Err(error) => Err(error),
        },
        Command::Disconnect => unreachable!("it ends the connection and is not executed"),
    };
    match done {
        Ok(()) => link.reply_done(ticket),
        Err(error) => link.reply_error(ticket, &error),
    }
}

/// `base:allocation` extents of the first `length` bytes of `runs`, neighbours of one state merged.
fn extents(runs: &[(u64, bool)], length: u32, one: bool) -> Vec<Extent> {
    let most = if one { 1 } else { EXTENTS_PER_REPLY_MAX };
    let mut extents: Vec<Extent> = Vec::new();
    let mut left = length;
    for &(bytes, allocated) in runs {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(left);
        left -= bytes;
        if bytes == 0 {
            continue;
        }
        let flags = if allocated {
            0
        } else {
            STATE_HOLE | STATE_ZERO
        };
        let full = extents.len() == most;
        match extents.last_mut() {
            Some(last) if last.flags == flags => last.length += bytes,
            _ if full => break,
            _ => extents.push(Extent {
                length: bytes,
                flags,
            }),
        }
    }
    extents
}
