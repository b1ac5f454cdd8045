//! One request, from its admission to its reply.
//!
//! A request is polled where it was received, and becomes a task only if it is not ready then: one that can end at once
//! costs neither an allocation nor a task.

use super::link::{Link, Ticket};
use super::target::{Target, TargetError};
use crate::proto::{Command, Extent, NbdErrno, STATE_HOLE, STATE_ZERO};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tonearm_base::Slice;
use tonearm_rt::Rt;

/// Most extents of one answer; a client asks again for the rest.
const EXTENTS_PER_REPLY_MAX: usize = 4096;

/// Bytes that a target reads ahead at a time: what a request of 4 GiB may hold in memory.
const CACHE_STEP_BYTES: u64 = 1 << 20;

/// A connection with its target.
pub(super) struct Session<T> {
    pub link: Rc<Link>,
    pub target: T,
    /// What the client was told.
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
    let done = match command {
        Command::Read {
            offset,
            length,
            dont_fragment,
        } => match target.read(offset, length.into()).await {
            Ok(pieces) => return link.reply_read(ticket, offset, &pieces, dont_fragment),
            Err(error) => Err(error),
        },
        Command::Write { offset, fua, .. } => {
            let data = payload.expect("a write comes with its payload");
            target.write(offset, data, fua).await
        }
        Command::Flush => target.flush().await,
        Command::Trim {
            offset,
            length,
            fua,
        } => target.trim(offset, length.into(), fua).await,
        Command::WriteZeroes {
            offset,
            length,
            fua,
            no_hole,
            ..
        } => {
            // Zeroes are a note in the log: always fast, whatever FAST_ZERO asks.
            target
                .write_zeroes(offset, length.into(), no_hole, fua)
                .await
        }
        Command::Cache { offset, length } => target.cache(offset, length.into()).await,
        Command::BlockStatus {
            offset,
            length,
            one_extent,
        } => match target.status(offset, length.into()).await {
            Ok(runs) => match extents(&runs, length, one_extent) {
                extents if extents.is_empty() => Err(TargetError {
                    errno: NbdErrno::Io,
                    message: "the store told nothing of the range".to_owned(),
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

/// Places kept for reuse.
const SPARE_MAX: usize = 64;

type Place<F> = Pin<Box<Option<F>>>;

/// Starts requests. The memory of one that has ended serves the next.
pub(super) struct Runner<F> {
    spare: Rc<RefCell<Vec<Place<F>>>>,
}

impl<F: Future<Output = ()> + 'static> Runner<F> {
    pub fn new() -> Self {
        Self {
            spare: Rc::default(),
        }
    }

    /// Runs `future` as far as it goes, and the rest of it as a task.
    pub fn start(&self, rt: &Rt, future: F) {
        let spare = self.spare.borrow_mut().pop();
        let mut place = spare.unwrap_or_else(|| Box::pin(None));
        place.as_mut().set(Some(future));
        // The executor has no wakers: a leaf notes the task that polls it, and that is updated when
        // the new task polls for the first time.
        if poll(&mut place, &mut Context::from_waker(Waker::noop())).is_ready() {
            return keep(&self.spare, place);
        }
        let spare = self.spare.clone();
        rt.spawn(async move {
            std::future::poll_fn(|context| poll(&mut place, context)).await;
            keep(&spare, place);
        });
    }
}

fn poll<F: Future<Output = ()>>(place: &mut Place<F>, context: &mut Context<'_>) -> Poll<()> {
    place
        .as_mut()
        .as_pin_mut()
        .expect("a started request is polled until it ends")
        .poll(context)
}

fn keep<F>(spare: &RefCell<Vec<Place<F>>>, mut place: Place<F>) {
    place.as_mut().set(None);
    let mut spare = spare.borrow_mut();
    if spare.len() < SPARE_MAX {
        spare.push(place);
    }
}
