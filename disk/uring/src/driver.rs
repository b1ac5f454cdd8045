//! One io_uring as an `tonearm_rt::Driver`.
//!
//! Invariants:
//! 1. A slot is taken from the submission until the completion is handed over, and has at most one
//!    entry in the kernel; `user_data` is the slot's number.
//! 2. No entry and no completion is lost: what does not fit the submission queue waits in the
//!    backlog, and the kernel keeps what does not fit the completion queue (`FEAT_NODROP`).
//! 3. The driver is dropped only after the kernel has ended every entry, so no buffer is freed under
//!    it. Should the kernel refuse to tell, the memory is leaked.
//!
//! A ring belongs to the thread that makes it, which lets the kernel leave completions alone until that
//! thread waits. Or it is shared: used by one thread at a time, each with what the others have begun. The kernel
//! completes an operation on the thread that submitted it, which it interrupts for that wherever it is; and
//! when such a thread ends, its operations that wait for a worker are cancelled, and made again here. What
//! somebody waits for, durable writes and lone flushes, is left to the threads that wait (`aside.rs`).
//!
//! With a ring of one thread a flush goes through the ring, where the kernel hands it to a worker thread, except when no other
//! operation on a file is under way: then fdatasync(2) is called on this thread. Measured: with 16 writes
//! kept under way (examples/latency.rs) calls on this thread reached 0.34 to 1.10 of the ring's rate, so
//! they are not made then. Alone, the disk's own time is the same either way, but in a server the two
//! wake-ups of the worker's round trip count: one NBD client that writes and flushes in turn got 1.1 of
//! the best peer's rate with the call and 0.85 to 0.9 with the ring, in interleaved runs, at a fifth less
//! processor time.
//!
//! Registered files and buffers, and other limits of the kernel's worker pool, are not used: the
//! processor was not seen to be the bound here (100,000 random reads a second at depth 32), and 2, 8
//! and 64 workers showed no difference beyond the noise in filling holes of a sparse file.

use crate::aside::{Aside, Ready};
use crate::devices::{Kind, UringHandle};
use crate::operation::{Next, Operation, Vectors};
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{Builder, IoUring, cqueue, opcode, squeue};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;
use tonearm_base::{Buf, BufPool, Nanos};
use tonearm_rt::{Completion, Data, DeviceId, Driver, IoError, Op, Request};

/// Entries of the submission queue; the completion queue has four times as many.
const ENTRIES: u32 = 1024;

/// `user_data` of entries whose end nobody waits for.
const NO_SLOT: u64 = u64::MAX;

/// Bytes of one write where zeroes must be written.
const ZEROES_BYTES: usize = 1 << 20;

/// Why no ring could be had.
#[derive(Debug, thiserror::Error)]
pub enum UringError {
    /// Forbidden by the system's settings or by a sandbox.
    #[error(
        "io_uring is not allowed here; set the sysctl kernel.io_uring_disabled to 0, \
         or allow io_uring in the container's seccomp profile"
    )]
    Forbidden,
    /// The kernel lacks what the driver stands on.
    #[error("this kernel's io_uring is too old; Linux 5.11 or newer is needed")]
    TooOld,
    /// Another failure.
    #[error("io_uring cannot be set up: {0}")]
    Setup(#[source] io::Error),
}

/// A driver over one ring.
pub struct UringDriver {
    ring: IoUring,
    /// What is left to threads that wait; of a shared ring alone.
    aside: Option<Aside>,
    handle: UringHandle,
    /// Not dropped by itself: should the last wait fail, it is leaked (invariant 3).
    slots: ManuallyDrop<Vec<Slot>>,
    free: Vec<u32>,
    /// Operations on files under way.
    files: usize,
    /// Slots whose next entry is not yet in the submission queue.
    backlog: VecDeque<u32>,
    /// Ended, not yet handed over.
    done: Vec<Completion>,
    /// Answers of the kernel, copied out of the ring; empty between calls.
    answers: Vec<(u64, i32)>,
    /// None until a device without any better way wants zeroes. Leaked like `slots`.
    zeroes: ManuallyDrop<Option<Buf>>,
    /// Set while the driver is dropped: operations end with their present entry.
    draining: bool,
}

#[derive(Default)]
struct Slot {
    operation: Option<Operation>,
    vectors: Vectors,
}

impl UringDriver {
    /// A driver with no devices, for the thread that makes it.
    ///
    /// # Errors
    /// When the kernel has no io_uring, forbids it, or has too old a one.
    pub fn new() -> Result<Self, UringError> {
        Self::over(build_ring(&OF_ONE_THREAD)?, None)
    }

    /// A driver with no devices that threads may use in turn, for files alone; and what they do while another one
    /// has it.
    ///
    /// # Errors
    /// As for [`UringDriver::new`], and when no descriptor is left.
    pub fn shared() -> Result<(Self, Aside), UringError> {
        let ring = build_ring(&SHARED)?;
        // SAFETY: the ring's descriptor is open as long as the ring, which outlives this call.
        let fd = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) };
        let aside = Aside::new(fd).map_err(UringError::Setup)?;
        let driver = Self::over(ring, Some(aside.clone()))?;
        Ok((driver, aside))
    }

    fn over(ring: IoUring, aside: Option<Aside>) -> Result<Self, UringError> {
        if !ring.params().is_feature_nodrop() || !ring.params().is_feature_ext_arg() {
            return Err(UringError::TooOld);
        }
        Ok(Self {
            ring,
            aside,
            handle: UringHandle(Default::default()),
            slots: ManuallyDrop::new(Vec::new()),
            free: Vec::new(),
            files: 0,
            backlog: VecDeque::new(),
            done: Vec::new(),
            answers: Vec::new(),
            zeroes: ManuallyDrop::new(None),
            draining: false,
        })
    }

    /// The handle that adds files, streams and events.
    pub fn handle(&self) -> UringHandle {
        self.handle.clone()
    }

    fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn finish(&mut self, token: u64, result: Result<usize, IoError>, data: Data) {
        self.done.push(Completion {
            token,
            result,
            data,
        });
    }

    /// Counts an operation of `device` out, which may complete the device's close.
    fn end(&mut self, device: DeviceId) {
        let closed = self.handle.0.borrow_mut().end(device);
        if let Some(token) = closed {
            self.finish(token, Ok(0), Data::None);
        }
    }

    fn close(&mut self, token: u64, device: DeviceId) {
        let closed = self.handle.0.borrow_mut().close(device, token);
        match closed {
            Ok(true) => self.finish(token, Ok(0), Data::None),
            Err(error) => self.finish(token, Err(error), Data::None),
            // A socket that is shut down ends its operations by itself; an event must be told.
            Ok(false) => self.cancel(|operation| {
                operation.request.device == device && operation.target.kind == Kind::Event
            }),
        }
    }

    /// Asks the kernel to end the operations that `chosen` names.
    fn cancel(&mut self, chosen: impl Fn(&Operation) -> bool) {
        self.drain_backlog();
        let slots: Vec<usize> = (0..self.slots.len())
            .filter(|slot| self.slots[*slot].operation.as_ref().is_some_and(&chosen))
            .collect();
        for slot in slots {
            let entry = opcode::AsyncCancel::new(slot as u64)
                .build()
                .user_data(NO_SLOT);
            while !self.push(&entry) {
                self.enter(0, None);
            }
        }
    }

    /// Brings every waiting entry into the kernel's hands.
    fn drain_backlog(&mut self) {
        self.fill();
        while !self.backlog.is_empty() {
            self.enter(0, None);
            self.fill();
        }
    }

    /// Moves entries from the backlog to the submission queue, as many as fit.
    fn fill(&mut self) {
        while let Some(&number) = self.backlog.front() {
            if self.ring.submission().is_full() {
                return;
            }
            self.backlog.pop_front();
            let slot = &mut self.slots[number as usize];
            let operation = slot
                .operation
                .as_mut()
                .expect("a slot in the backlog has an operation");
            if operation.writes_zeroes() && self.zeroes.is_none() {
                *self.zeroes = Some(BufPool::new(0).alloc_zeroed(ZEROES_BYTES));
            }
            let entry = operation
                .entry(&mut slot.vectors, self.zeroes.as_ref())
                .user_data(u64::from(number));
            let pushed = self.push(&entry);
            debug_assert!(pushed, "the queue was not full");
        }
    }

    /// False when the submission queue is full.
    fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the memory that an operation's entry names is owned by its slot (or is `zeroes`),
        // stays in place when the slot moves, and is given away only when the kernel has reported
        // the entry's end; `drop` waits for that. The descriptor is kept open by `Devices` as long.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    /// At most one system call: submits, and waits for `want` completions or `timeout`; takes over
    /// what has completed.
    ///
    /// # Panics
    /// When the kernel refuses the ring itself: nothing can go on then.
    fn enter(&mut self, want: usize, timeout: Option<Duration>) {
        let queue = self.ring.submission();
        let needless = want == 0 && queue.is_empty() && !queue.taskrun() && !queue.cq_overflow();
        drop(queue);
        if needless {
            return self.reap();
        }
        let submitter = self.ring.submitter();
        let entered = match timeout {
            Some(timeout) => {
                let timespec = Timespec::from(timeout);
                submitter.submit_with_args(want, &SubmitArgs::new().timespec(&timespec))
            }
            None => submitter.submit_and_wait(want),
        };
        if let Err(error) = entered {
            match error.raw_os_error() {
                // EBUSY: the completion queue must be emptied first. EAGAIN: the kernel is short of
                // memory for the moment; what it has not taken stays in the queue.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {}
                _ => panic!("io_uring_enter: {error}"),
            }
        }
        self.reap();
    }

    fn reap(&mut self) {
        let mut answers = std::mem::take(&mut self.answers);
        answers.extend(
            self.ring
                .completion()
                .map(|entry: cqueue::Entry| (entry.user_data(), entry.result())),
        );
        if let Some(aside) = &self.aside {
            aside.ended(&mut answers);
        }
        for (number, result) in answers.drain(..) {
            if number != NO_SLOT {
                self.answer(number as u32, result);
            }
        }
        self.answers = answers;
    }

    fn answer(&mut self, number: u32, result: i32) {
        let slot = &mut self.slots[number as usize];
        let operation = slot
            .operation
            .as_mut()
            .expect("an answer belongs to an operation under way");
        let before = operation.target;
        // Nobody cancels an operation on a file, and its memory is there: the thread that submitted it on a
        // shared ring has ended.
        let orphaned = matches!(-result, libc::ECANCELED | libc::EFAULT)
            && before.kind == Kind::File
            && self.aside.is_some();
        let next = match orphaned {
            true => Next::Again,
            false => operation.answer(result),
        };
        let after = operation.target;
        let device = operation.request.device;
        if after.punch_refused && !before.punch_refused {
            self.handle.0.borrow_mut().refuse_punch(device);
        }
        if after.zero_range_refused && !before.zero_range_refused {
            self.handle.0.borrow_mut().refuse_zero_range(device);
        }
        let result = match next {
            Next::Done(result) => result,
            Next::Again if self.draining => Err(IoError {
                errno: libc::ECANCELED,
            }),
            Next::Again => return self.backlog.push_back(number),
        };
        let operation = slot.operation.take().expect("taken here alone");
        self.files -= usize::from(operation.target.kind == Kind::File);
        self.free.push(number);
        self.finish(operation.token, result, operation.request.data);
        self.end(device);
    }
}

impl Driver for UringDriver {
    fn now(&self) -> Nanos {
        let now = clock_gettime(ClockId::Monotonic);
        Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    fn submit(&mut self, token: u64, request: Request) {
        if request.op == Op::Close {
            return self.close(token, request.device);
        }
        let device = request.device;
        let target = self.handle.0.borrow_mut().begin(device);
        let target = match target {
            Ok(target) => target,
            Err(error) => return self.finish(token, Err(error), request.data),
        };
        let alone = target.kind == Kind::File && self.files == 0;
        if request.op == Op::Flush && alone && self.aside.is_none() {
            // What is queued, replies above all, goes out before this thread is held up.
            self.fill();
            self.enter(0, None);
            let result = fdatasync(target.fd);
            self.finish(token, result, request.data);
            return self.end(device);
        }
        let operation = match Operation::new(token, request, target) {
            Ok(operation) => operation,
            Err((result, request)) => {
                self.finish(token, result, request.data);
                return self.end(device);
            }
        };
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        self.files += usize::from(operation.target.kind == Kind::File);
        let slot = &mut self.slots[number as usize];
        let operation = slot.operation.insert(operation);
        if let Some(aside) = &self.aside
            && let Some(what) = operation.call(&mut slot.vectors, alone)
        {
            return aside.push(Ready { slot: number, what });
        }
        self.backlog.push_back(number);
        self.fill();
        if !self.backlog.is_empty() {
            // The queue is full: the kernel takes it over now, and the rest follows.
            self.enter(0, None);
            self.fill();
        }
    }

    fn wait(&mut self, deadline: Option<Nanos>, completions: &mut Vec<Completion>) {
        loop {
            self.fill();
            let timeout =
                deadline.map(|deadline| Duration::from_nanos(deadline.since(self.now()).0));
            let late = timeout == Some(Duration::ZERO);
            let idle = self.under_way() == 0 && deadline.is_none();
            let call = self.aside.as_ref().filter(|_| !late).and_then(Aside::take);
            let calls = call.is_some();
            if let Some(call) = call {
                // Who has the ring to itself and waits makes them, once what is queued has gone out.
                self.enter(0, None);
                call.make();
            }
            let block = self.done.is_empty() && self.backlog.is_empty() && !late && !idle && !calls;
            self.enter(usize::from(block), timeout.filter(|_| block));
            let ended = !self.done.is_empty();
            completions.append(&mut self.done);
            if ended || late || idle {
                return;
            }
        }
    }
}

impl Drop for UringDriver {
    fn drop(&mut self) {
        self.draining = true;
        if let Some(aside) = self.aside.clone() {
            // Those that nobody makes are cancelled.
            while aside.take().is_some() {}
            aside.wait_for_calls();
            self.reap();
        }
        self.drain_backlog();
        self.cancel(|operation| operation.target.kind != Kind::File);
        while self.under_way() > 0 {
            self.enter(1, None);
        }
        drop(std::mem::take(&mut *self.slots));
        drop(self.zeroes.take());
    }
}

fn fdatasync(fd: RawFd) -> Result<usize, IoError> {
    // SAFETY: the call takes no memory, and the device's descriptor is open: its operation has begun.
    while unsafe { libc::fdatasync(fd) } != 0 {
        let errno = io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO);
        if errno != libc::EINTR {
            return Err(IoError { errno });
        }
    }
    Ok(0)
}

type Setup = fn(&mut Builder);

/// Rings of one thread, the richest first.
const OF_ONE_THREAD: [Setup; 5] = [
    // 6.1: completions are processed when this thread waits for them, at no other time.
    |builder| {
        builder
            .setup_submit_all()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .setup_defer_taskrun();
    },
    // 6.0
    |builder| {
        builder
            .setup_submit_all()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_taskrun_flag();
    },
    // 5.19: no interrupt of this thread for a completion.
    |builder| {
        builder
            .setup_submit_all()
            .setup_coop_taskrun()
            .setup_taskrun_flag();
    },
    // 5.18: one bad entry does not stop the entries behind it.
    |builder| {
        builder.setup_submit_all();
    },
    |_| {},
];

/// Shared rings, the richest first. Nothing of the above: a completion must come also when the thread that
/// submitted the operation is busy with other things.
const SHARED: [Setup; 2] = [
    |builder| {
        builder.setup_submit_all();
    },
    |_| {},
];

/// The first ring that this kernel gives.
fn build_ring(richest_first: &[Setup]) -> Result<IoUring, UringError> {
    let mut refused = io::Error::from_raw_os_error(libc::EINVAL);
    for setup in richest_first {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(4 * ENTRIES).dontfork();
        setup(&mut builder);
        match builder.build(ENTRIES) {
            Ok(ring) => return Ok(ring),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refused = error,
            Err(error) => {
                refused = error;
                break;
            }
        }
    }
    Err(match refused.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => UringError::Forbidden,
        Some(libc::ENOSYS | libc::EINVAL) => UringError::TooOld,
        _ => UringError::Setup(refused),
    })
}
