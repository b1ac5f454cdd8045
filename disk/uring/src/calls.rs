//! System calls that threads make in place of a shared ring, and the wait for the ring's completions.
//!
//! The driver of a shared ring does not submit durable writes and lone flushes: each becomes a [`Call`], which the thread
//! that waits for it makes with one system call. Through the ring the kernel would complete it on a worker and interrupt
//! the thread that submitted it. That costs two more wake-ups, each as long as others keep the processors busy. All other
//! operations go through the ring; one thread waits for its completions with [`RingWatch`].
//!
//! ```text
//! driver: submit -> Calls (queue) -> take: Call -> any thread: make -> MadeCall -> end: Calls -> driver: completion
//! ```
//!
//! [`Calls`] belongs to the thread that has the driver. [`Call`], [`MadeCall`] and [`RingWatch`] may go to any thread.
//!
//! Invariants:
//! 1. The memory and the descriptor of a call belong to its operation. The driver keeps both until the call has been made
//!    and its end has been reported to the driver.
//! 2. A driver that is dropped while a thread makes a call leaks the memory and the descriptors of all operations
//!    ([`Calls::all_made`]). The store avoids that: it ends its engine when no call is being made.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The calls of a driver: those that wait for a thread, and the results of those that were made. Cheap to clone. It
/// belongs to the thread that has the driver.
#[derive(Clone, Default)]
pub struct Calls(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    waiting: VecDeque<Operation>,
    /// Slots of calls that were taken and have not been reported as ended.
    taken: Vec<u32>,
    ended: Vec<MadeCall>,
    /// Each call holds a clone until it has been made.
    unmade: Arc<()>,
}

/// The system call that stands for the operation in a slot.
pub(crate) struct Operation {
    pub slot: u32,
    pub what: What,
}

/// The system call.
pub(crate) enum What {
    /// pwritev2 with these flags.
    Write {
        fd: RawFd,
        vectors: *const libc::iovec,
        count: usize,
        offset: u64,
        flags: i32,
    },
    /// fdatasync
    Sync { fd: RawFd },
}

// SAFETY: the vectors and what they name stay in their place and unchanged until the call has been made (invariants 1 and
// 2), and only the owner of the call uses them.
unsafe impl Send for What {}

impl Calls {
    /// The oldest call that waits. The taker makes it and reports its end with [`Calls::end`].
    pub fn take(&self) -> Option<Call> {
        let state = &mut *self.0.borrow_mut();
        let operation = state.waiting.pop_front()?;
        state.taken.push(operation.slot);
        Some(Call {
            operation,
            _unmade: state.unmade.clone(),
        })
    }

    /// A call was made. The driver completes its operation when it is next asked.
    pub fn end(&self, made: MadeCall) {
        let state = &mut *self.0.borrow_mut();
        state.taken.retain(|slot| *slot != made.slot);
        state.ended.push(made);
    }

    /// Calls that the driver has not completed.
    pub fn under_way(&self) -> usize {
        let state = self.0.borrow();
        state.waiting.len() + state.taken.len() + state.ended.len()
    }

    pub(crate) fn push(&self, operation: Operation) {
        self.0.borrow_mut().waiting.push_back(operation);
    }

    /// Slots and results of the calls that have ended.
    pub(crate) fn ended(&self, into: &mut Vec<(u64, i32)>) {
        let mut state = self.0.borrow_mut();
        let ended = state.ended.drain(..);
        into.extend(ended.map(|made| (made.slot.into(), made.result)));
    }

    /// Cancels the calls that no thread has taken. False while a thread still makes one.
    pub(crate) fn cancel(&self) -> bool {
        let state = &mut *self.0.borrow_mut();
        if !state.all_made() {
            return false;
        }
        let waiting = state.waiting.drain(..).map(|operation| operation.slot);
        let cancelled = waiting.chain(state.taken.drain(..)).map(|slot| MadeCall {
            slot,
            result: -libc::ECANCELED,
        });
        state.ended.extend(cancelled);
        true
    }
}

impl State {
    /// Whether no thread has a call that it may still make.
    fn all_made(&mut self) -> bool {
        // Synchronises with the threads that dropped their clones.
        Arc::get_mut(&mut self.unmade).is_some()
    }
}

/// A system call to make.
#[must_use = "its operation ends when the call has been made"]
pub struct Call {
    pub(crate) operation: Operation,
    _unmade: Arc<()>,
}

/// The result of a call.
#[must_use = "its operation ends when the driver is told"]
pub struct MadeCall {
    pub(crate) slot: u32,
    /// Bytes, or a negative error number.
    pub(crate) result: i32,
}

impl Call {
    /// Makes the system call; blocks as long as the device takes.
    pub fn make(self) -> MadeCall {
        loop {
            let result = self.once();
            if result != -libc::EINTR {
                let slot = self.operation.slot;
                return MadeCall { slot, result };
            }
        }
    }

    /// Bytes, or a negative error number.
    fn once(&self) -> i32 {
        let result = match self.operation.what {
            What::Write {
                fd,
                vectors,
                count,
                offset,
                flags,
            } => {
                let (count, offset) = (count as i32, offset as i64);
                // SAFETY: the vectors name memory that stays until the call has been made, and the descriptor is open as long
                // (invariants 1 and 2).
                unsafe { libc::pwritev2(fd, vectors, count, offset, flags) }
            }
            What::Sync { fd } => {
                // SAFETY: the call takes no memory; the descriptor is open (invariants 1 and 2).
                let result = unsafe { libc::fdatasync(fd) };
                result as isize
            }
        };
        if result >= 0 {
            // The kernel moves less than 2 GiB at once.
            return result as i32;
        }
        let error = io::Error::last_os_error().raw_os_error();
        -error.unwrap_or(libc::EIO)
    }
}

/// Waits for completions of a ring without access to its driver. Cheap to clone; any thread may use it.
#[derive(Clone)]
pub struct RingWatch(Arc<Watched>);

struct Watched {
    /// The ring, which stays open while a thread may poll it.
    ring: OwnedFd,
    /// An event counter that ends a wait.
    interrupt: OwnedFd,
}

impl RingWatch {
    /// For the ring behind `ring`.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(ring: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(Arc::new(Watched {
            ring: ring.try_clone_to_owned()?,
            interrupt: eventfd(0, flags)?,
        })))
    }

    /// Waits until the ring has completed something, [`RingWatch::interrupt`] was called, or `limit` has passed.
    pub fn wait(&self, limit: Option<Duration>) {
        let mut polled = [
            PollFd::new(&self.0.ring, PollFlags::IN),
            PollFd::new(&self.0.interrupt, PollFlags::IN),
        ];
        // To the caller, a wait that a signal ends is like any other.
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let _ = rustix::event::poll(&mut polled, limit.as_ref());
        if !polled[1].revents().is_empty() {
            // One read resets the counter to zero.
            let _ = rustix::io::read(&self.0.interrupt, &mut [0; 8]);
        }
    }

    /// Ends the present [`RingWatch::wait`], or the next one.
    pub fn interrupt(&self) {
        #[expect(
            clippy::host_endian_bytes,
            reason = "eventfd takes a count in the host's order"
        )]
        let one = 1u64.to_ne_bytes();
        // A full counter has been raised already.
        while rustix::io::write(&self.0.interrupt, &one) == Err(rustix::io::Errno::INTR) {}
    }
}
