//! What threads do for a shared ring while they wait, without having its driver.
//!
//! Durable writes and lone flushes of a shared ring are calls: the thread that waits for one makes it itself, with one
//! system call. Through the ring the kernel would complete it on a worker and interrupt the thread that submitted
//! it, which costs two more wake-ups, each as long as others keep the processors busy. All else goes
//! through the ring; one thread watches for its completions.
//!
//! Invariants:
//! 1. A call's memory is that of its operation, which the driver keeps in its slot until the call has ended and the
//!    driver has taken notice; the driver is not dropped before that.
//! 2. A call that is given out ends, also when nobody makes it.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The part of a shared ring that is of all threads; cheap to clone.
#[derive(Clone)]
pub struct Aside(Arc<Shared>);

struct Shared {
    book: Mutex<Book>,
    ended: Condvar,
    /// Calls that nobody makes yet.
    waiting: AtomicUsize,
    /// Calls that threads are making.
    out: AtomicUsize,
    /// All of these, and those that have ended without the driver's notice.
    all: AtomicUsize,
    /// The ring, which lives as long as somebody may poll it.
    ring: OwnedFd,
    bell: OwnedFd,
}

#[derive(Default)]
struct Book {
    waiting: VecDeque<Ready>,
    ended: Vec<(u32, i32)>,
    /// Somebody waits for the end of those that are made.
    awaited: bool,
}

/// A call that can be made, for the operation of a slot.
pub(crate) struct Ready {
    pub slot: u32,
    pub what: What,
}

/// Which system call.
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

// SAFETY: the vectors and what they name stay in their place and unchanged until the call has ended (invariant 1), and
// whoever has the call is the only one who uses them.
unsafe impl Send for What {}

impl Aside {
    /// For the ring behind `ring`.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(ring: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(Arc::new(Shared {
            book: Mutex::default(),
            ended: Condvar::new(),
            waiting: AtomicUsize::new(0),
            out: AtomicUsize::new(0),
            all: AtomicUsize::new(0),
            ring: ring.try_clone_to_owned()?,
            bell: eventfd(0, flags)?,
        })))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Nothing is left half done by a panic.
        let book = self.0.book.lock();
        book.unwrap_or_else(PoisonError::into_inner)
    }

    /// A call to make, which is the taker's alone.
    pub fn take(&self) -> Option<Call> {
        if self.0.waiting.load(SeqCst) == 0 {
            return None;
        }
        let mut book = self.book();
        let ready = book.waiting.pop_front()?;
        self.0.out.fetch_add(1, SeqCst);
        self.0.waiting.store(book.waiting.len(), SeqCst);
        let aside = self.clone();
        let result = -libc::ECANCELED;
        Some(Call {
            aside,
            ready,
            result,
        })
    }

    /// Whether there is a call to take.
    pub fn has_calls(&self) -> bool {
        self.0.waiting.load(SeqCst) > 0
    }

    /// Whether a thread is making one.
    pub fn is_calling(&self) -> bool {
        self.0.out.load(SeqCst) > 0
    }

    /// Calls that the driver has not seen the end of.
    pub fn calls(&self) -> usize {
        self.0.all.load(SeqCst)
    }

    /// Waits until the ring has completed something, the bell is rung, or `limit` has passed.
    pub fn watch(&self, limit: Option<Duration>) {
        let mut polled = [
            PollFd::new(&self.0.ring, PollFlags::IN),
            PollFd::new(&self.0.bell, PollFlags::IN),
        ];
        // An interrupted wait is looked at as any other end.
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let _ = rustix::event::poll(&mut polled, limit.as_ref());
        if !polled[1].revents().is_empty() {
            // However often it was rung: the counter goes to zero.
            let _ = rustix::io::read(&self.0.bell, &mut [0; 8]);
        }
    }

    /// Ends the present or the next [`Aside::watch`].
    pub fn ring_bell(&self) {
        #[expect(
            clippy::host_endian_bytes,
            reason = "eventfd takes a count in the host's order"
        )]
        let one = 1u64.to_ne_bytes();
        // A full counter has rung.
        while rustix::io::write(&self.0.bell, &one) == Err(rustix::io::Errno::INTR) {}
    }

    pub(crate) fn push(&self, ready: Ready) {
        let mut book = self.book();
        book.waiting.push_back(ready);
        self.0.all.fetch_add(1, SeqCst);
        self.0.waiting.store(book.waiting.len(), SeqCst);
    }

    /// Slots and results of calls that have ended.
    pub(crate) fn ended(&self, into: &mut Vec<(u64, i32)>) {
        if self.calls() == 0 {
            return;
        }
        let mut book = self.book();
        self.0.all.fetch_sub(book.ended.len(), SeqCst);
        into.extend(
            book.ended
                .drain(..)
                .map(|(slot, result)| (slot.into(), result)),
        );
    }

    /// Waits until no thread makes a call.
    pub(crate) fn wait_for_calls(&self) {
        let mut book = self.book();
        while self.is_calling() {
            book.awaited = true;
            let waited = self.0.ended.wait(book);
            book = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A system call that stands for an operation. One that is dropped before it was made counts as cancelled, and its
/// operation goes through the ring.
pub struct Call {
    aside: Aside,
    pub(crate) ready: Ready,
    /// Bytes, or a negative error number.
    pub(crate) result: i32,
}

impl Call {
    /// Makes it; its driver takes notice when it is next asked.
    pub fn make(mut self) {
        self.result = loop {
            let result = self.once();
            if result != -libc::EINTR {
                break result;
            }
        };
    }

    /// Bytes, or a negative error number.
    fn once(&self) -> i32 {
        let result = match self.ready.what {
            What::Write {
                fd,
                vectors,
                count,
                offset,
                flags,
            } => {
                let (count, offset) = (count as i32, offset as i64);
                // SAFETY: the vectors name memory that stays until the call has ended (invariant 1); the descriptor is
                // open: its operation has begun.
                unsafe { libc::pwritev2(fd, vectors, count, offset, flags) }
            }
            What::Sync { fd } => {
                // SAFETY: the call takes no memory; the descriptor is open.
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

impl Drop for Call {
    fn drop(&mut self) {
        let mut book = self.aside.book();
        book.ended.push((self.ready.slot, self.result));
        self.aside.0.out.fetch_sub(1, SeqCst);
        if std::mem::take(&mut book.awaited) {
            self.aside.0.ended.notify_all();
        }
    }
}
