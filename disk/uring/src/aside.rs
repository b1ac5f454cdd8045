//! Work that waiting threads do for a shared ring without holding its driver.
//!
//! Durable writes, and flushes when nothing else is under way, are calls: the thread that waits for one makes one
//! system call. Through the ring, the kernel would complete it on a worker and interrupt the submitting thread.
//! That costs two more wake-ups, which are slow when the processors are busy. All other operations go through the
//! ring, and one thread watches for its completions.
//!
//! Invariants:
//! 1. The memory of a call is that of its operation. The driver keeps it in its slot until the call has ended and the
//!    driver has noticed that; the driver is not dropped before.
//! 2. Every call that is taken ends, even if it is dropped without being made.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The part of a shared ring that all threads use. Cheap to clone.
#[derive(Clone)]
pub struct Aside(Arc<Shared>);

struct Shared {
    book: Mutex<Book>,
    ended: Condvar,
    /// Calls that no thread has taken.
    waiting: AtomicUsize,
    /// Calls that threads are making.
    out: AtomicUsize,
    /// All of these, and calls whose end the driver has not noticed.
    all: AtomicUsize,
    /// The ring, open as long as a thread may poll it.
    ring: OwnedFd,
    bell: OwnedFd,
}

#[derive(Default)]
struct Book {
    waiting: VecDeque<Ready>,
    ended: Vec<(u32, i32)>,
    /// A thread waits for the end of the calls that are being made.
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

// SAFETY: the vectors and the memory that they name stay in place and unchanged until the call has ended (invariant 1),
// and only the thread that has the call uses them.
unsafe impl Send for What {}

impl Aside {
    /// The shared part of the ring with descriptor `ring`.
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
        // A panic leaves no change half done.
        let book = self.0.book.lock();
        book.unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a call; no other thread gets it.
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

    /// True when there is a call to take.
    pub fn has_calls(&self) -> bool {
        self.0.waiting.load(SeqCst) > 0
    }

    /// True while a thread is making a call.
    pub fn is_calling(&self) -> bool {
        self.0.out.load(SeqCst) > 0
    }

    /// Number of calls whose end the driver has not noticed.
    pub fn calls(&self) -> usize {
        self.0.all.load(SeqCst)
    }

    /// Waits until the ring has completed something, the bell is rung, or `limit` has passed.
    pub fn watch(&self, limit: Option<Duration>) {
        let mut polled = [
            PollFd::new(&self.0.ring, PollFlags::IN),
            PollFd::new(&self.0.bell, PollFlags::IN),
        ];
        // An interrupted wait ends like any other.
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let _ = rustix::event::poll(&mut polled, limit.as_ref());
        if !polled[1].revents().is_empty() {
            // This sets the counter to zero, however often the bell was rung.
            let _ = rustix::io::read(&self.0.bell, &mut [0; 8]);
        }
    }

    /// Ends the current or the next [`Aside::watch`].
    pub fn ring_bell(&self) {
        #[expect(
            clippy::host_endian_bytes,
            reason = "eventfd takes a count in the host's order"
        )]
        let one = 1u64.to_ne_bytes();
        // A full counter rings already.
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

/// A system call that carries out an operation. A call that is dropped before it is made counts as cancelled, and its
/// operation goes through the ring.
pub struct Call {
    aside: Aside,
    pub(crate) ready: Ready,
    /// Bytes, or a negative error number.
    pub(crate) result: i32,
}

impl Call {
    /// Makes the call. The driver notices its end when it next reaps completions.
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
                // SAFETY: the vectors name memory that stays until the call has ended (invariant 1). The descriptor is
                // open, because its operation has begun.
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
