//! An io_uring as a `tonearm_rt::Driver`.
//!
//! Invariants:
//! 1. A slot is in use from the submission until its completion is returned, and has at most one entry in the
//!    kernel; `user_data` is the slot's number.
//! 2. No entry and no completion is lost: entries that do not fit the submission queue wait in the backlog, and the
//!    kernel keeps completions that do not fit the completion queue (`FEAT_NODROP`).
//! 3. The driver is dropped only after the kernel has ended every entry, so no buffer is freed while the kernel uses
//!    it. If the kernel fails to report the ends, the memory is leaked. Commands to ublk devices are left to the kernel,
//!    which ends them with the ring: they name no memory.
//!
//! A ring either belongs to the thread that makes it, or is shared. With one thread, the kernel need not deliver
//! completions before that thread waits. A shared ring is used by one thread at a time, which also handles operations
//! that others have begun. The kernel completes an operation on the thread that submitted it, and interrupts that
//! thread. When such a thread ends, the kernel cancels its operations that wait for a worker, and the driver starts
//! them again. Durable writes and lone flushes are left to the threads that wait for them (`calls.rs`).
//!
//! With a ring of one thread a flush goes through the ring, where the kernel hands it to a worker thread. But when no
//! other operation on a file is under way, this thread calls fdatasync(2). Measured: with 16 writes kept under way
//! (examples/latency.rs) such calls reached 0.34 to 1.10 of the ring's rate, so they are not made then. With nothing
//! else under way the disk takes the same time either way, but a server saves the two wake-ups of the worker: one NBD
//! client that writes and flushes in turn got 1.1 of the best peer's rate with the call and 0.85 to 0.9 with the ring,
//! in interleaved runs, at a fifth less processor time.
//!
//! Registered files and buffers, and other limits of the kernel's worker pool, are not used. The processor was not the
//! limit in measurements (100,000 random reads a second at depth 32), and 2, 8 and 64 workers showed no difference
//! beyond the noise when filling holes of a sparse file.

use crate::calls::{self, Calls, RingWatch};
use crate::devices::{Kind, UringHandle};
use crate::operation::{Next, Operation, Vectors};
use crate::reads::Reads;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{Builder, IoUring, cqueue, opcode, squeue};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;
use tonearm_base::{Buf, BufPool, Nanos};
use tonearm_rt::{Completion, Data, DeviceId, Driver, IoError, Notifier, Op, Request};

/// Entries of the submission queue; the completion queue has four times as many.
const ENTRIES: u32 = 1024;

/// Bit of the `user_data` of an entry that leads another one.
const LEADS: u64 = 1 << 32;

/// `user_data` of other entries whose completion is ignored.
const NO_SLOT: u64 = u64::MAX;

/// Bytes of one write of zeroes.
const ZEROES_BYTES: usize = 1 << 20;

/// Why no ring could be made.
#[derive(Debug, thiserror::Error)]
pub enum UringError {
    /// The system's settings or a sandbox forbid it.
    #[error(
        "io_uring is not allowed here, although this kernel has it: allow it in the container's seccomp profile (docker run \
         --security-opt seccomp=FILE), or set the sysctl kernel.io_uring_disabled to 0"
    )]
    Forbidden,
    /// The kernel lacks features that the driver needs.
    #[error("this kernel's io_uring is too old; Linux 5.11 or newer is needed")]
    TooOld,
    /// Another failure.
    #[error("io_uring cannot be set up: {0}")]
    Setup(#[source] io::Error),
}

/// A driver over one ring.
pub struct UringDriver {
    ring: IoUring,
    /// Calls left to waiting threads; only with a shared ring.
    calls: Option<Calls>,
    handle: UringHandle,
    /// Not dropped automatically: if the last wait fails, it is leaked (invariant 3).
    slots: ManuallyDrop<Vec<Slot>>,
    free: Vec<u32>,
    /// Operations on files under way.
    files: usize,
    /// Reads of files under way.
    reads: Reads,
    /// Entries that lead others have no completion unless they fail, so that a waiting thread does not wake for them (Linux 5.17).
    leads_skip: bool,
    /// The submission queue has entries that send or answer.
    sends: bool,
    /// Slots whose next entry is not yet in the submission queue.
    backlog: VecDeque<u32>,
    /// Ended, not yet returned.
    done: Vec<Completion>,
    /// Completions of the kernel, copied out of the ring; empty between calls.
    answers: Vec<(u64, i32)>,
    /// Zeroes to write to a device that has no other way to zero a range. Leaked like `slots`.
    zeroes: ManuallyDrop<Option<Buf>>,
    /// Set while the driver is dropped: operations end with their current entry.
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

    /// A driver with no devices that threads use in turn, only for files. Also returns its calls, which go from thread
    /// to thread with the driver, and the watch on which threads wait for completions while another thread has the
    /// driver.
    ///
    /// # Errors
    /// As for [`UringDriver::new`], and when no descriptor is left.
    pub fn shared() -> Result<(Self, Calls, RingWatch), UringError> {
        let calls = Calls::default();
        let driver = Self::over(build_ring(&SHARED)?, Some(calls.clone()))?;
        let watch = driver.watch()?;
        Ok((driver, calls, watch))
    }

    /// As [`UringDriver::new`], with a watch by which its thread can wait for completions without the driver.
    ///
    /// # Errors
    /// As for [`UringDriver::new`], and when no descriptor is left.
    pub fn watched() -> Result<(Self, RingWatch), UringError> {
        // A poll does not see completions that are deferred until the ring is entered.
        let driver = Self::over(build_ring(&OF_ONE_THREAD[UNDEFERRED..])?, None)?;
        let watch = driver.watch()?;
        Ok((driver, watch))
    }

    fn watch(&self) -> Result<RingWatch, UringError> {
        // SAFETY: the ring's descriptor is open as long as the ring, which outlives this call.
        let fd = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        RingWatch::new(fd).map_err(UringError::Setup)
    }

    fn over(ring: IoUring, calls: Option<Calls>) -> Result<Self, UringError> {
        if !ring.params().is_feature_nodrop() || !ring.params().is_feature_ext_arg() {
            return Err(UringError::TooOld);
        }
        Ok(Self {
            leads_skip: ring.params().is_feature_skip_cqe_on_success(),
            ring,
            calls,
            handle: UringHandle(Default::default()),
            slots: ManuallyDrop::new(Vec::new()),
            free: Vec::new(),
            files: 0,
            reads: Reads::default(),
            sends: false,
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

    /// True while the kernel may use memory of an operation.
    fn uses_memory(&self) -> bool {
        let mut operations = self.slots.iter().filter_map(|slot| slot.operation.as_ref());
        operations.any(|operation| operation.target.kind != Kind::Ublk)
    }

    fn finish(&mut self, token: u64, result: Result<usize, IoError>, data: Data) {
        self.done.push(Completion {
            token,
            result,
            data,
        });
    }

    /// Counts an operation of `device` as ended, which may complete the close of the device.
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
            // Operations on a socket end when it is shut down; those on an event must be cancelled.
            Ok(false) => self.cancel(|operation| {
                operation.request.device == device
                    && matches!(operation.target.kind, Kind::Event | Kind::ForeignEvent)
            }),
        }
    }

    /// Asks the kernel to cancel the operations for which `chosen` holds.
    fn cancel(&mut self, chosen: impl Fn(&Operation) -> bool) {
        self.drain_backlog();
        let slots = self.slots.iter().zip(0u64..);
        let entries: Vec<u64> = slots
            .filter_map(|(slot, number)| {
                let operation = slot.operation.as_ref().filter(|found| chosen(found))?;
                // An entry that has not begun is not found. It ends with the one that leads it.
                Some(operation.lead().map_or(number, |_| LEADS | number))
            })
            .collect();
        for entry in entries {
            let entry = opcode::AsyncCancel::new(entry).build().user_data(NO_SLOT);
            while !self.push(&entry) {
                self.enter(0, None);
            }
        }
    }

    /// Submits every waiting entry to the kernel.
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
            // Linked entries are submitted together.
            let queue = self.ring.submission();
            if queue.capacity() - queue.len() < 2 {
                return;
            }
            drop(queue);
            self.backlog.pop_front();
            let slot = &mut self.slots[number as usize];
            let operation = slot
                .operation
                .as_mut()
                .expect("a slot in the backlog has an operation");
            self.sends |= matches!(operation.request.op, Op::Send | Op::Command);
            if operation.writes_zeroes() && self.zeroes.is_none() {
                *self.zeroes = Some(BufPool::new(0).alloc_zeroed(ZEROES_BYTES));
            }
            let entry = operation
                .entry(&mut slot.vectors, self.zeroes.as_ref())
                .user_data(u64::from(number));
            let lead = operation.lead().map(|lead| {
                let skip = if self.leads_skip {
                    squeue::Flags::SKIP_SUCCESS
                } else {
                    squeue::Flags::empty()
                };
                lead.flags(squeue::Flags::IO_LINK | skip)
                    .user_data(LEADS | u64::from(number))
            });
            let pushed = lead.iter().all(|lead| self.push(lead)) && self.push(&entry);
            debug_assert!(pushed, "the queue was not full");
        }
    }

    /// False when the submission queue is full.
    fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the slot owns the memory that its entry names (or it is `zeroes`). The memory stays in place when the
        // slot moves, and is returned only when the kernel has reported the end of the entry; `drop` waits for that.
        // `Devices` keeps the descriptor open as long.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    /// Submits entries, waits for `want` completions or `timeout`, and reaps completions, with at most one system call.
    ///
    /// # Panics
    /// When the kernel refuses the ring itself.
    fn enter(&mut self, want: usize, timeout: Option<Duration>) {
        self.sends = false;
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
                // EBUSY: the completion queue must be emptied first. EAGAIN: the kernel is short of memory for now, and
                // entries that it has not taken stay in the queue.
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
        if let Some(calls) = &self.calls {
            calls.ended(&mut answers);
        }
        for (number, result) in answers.drain(..) {
            // A lead that skips its success has a completion when it fails. The led entry has none then.
            let is_answer = match number & LEADS {
                0 => true,
                _ => self.leads_skip && number != NO_SLOT,
            };
            if is_answer {
                self.answer(number as u32, result);
            }
        }
        self.answers = answers;
        self.reads.note_ends();
        while let Some(number) = self.reads.next() {
            self.backlog.push_back(number);
        }
    }

    fn answer(&mut self, number: u32, result: i32) {
        let slot = &mut self.slots[number as usize];
        let operation = slot
            .operation
            .as_mut()
            .expect("an answer belongs to an operation under way");
        let before = operation.target;
        // The driver never cancels an operation on a file, and its memory is valid. So the thread that submitted it on
        // a shared ring has ended.
        let orphaned = matches!(-result, libc::ECANCELED | libc::EFAULT)
            && before.kind == Kind::File
            && self.calls.is_some();
        let next = if orphaned {
            Next::Again
        } else {
            operation.answer(result)
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
        let operation = slot.operation.take().expect("an operation ends once");
        self.files -= usize::from(operation.target.kind == Kind::File);
        if operation.reads_file() {
            self.reads.end();
        }
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
        if request.op == Op::Flush && alone && self.calls.is_none() {
            // Queued replies leave before this thread blocks. It could not take up what other entries bring.
            self.fill();
            if self.sends {
                self.enter(0, None);
            }
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
        if let Some(calls) = &self.calls
            && let Some(what) = operation.call(&mut slot.vectors, alone)
        {
            return calls.push(calls::Operation { slot: number, what });
        }
        if operation.reads_file() && !self.reads.begin(number) {
            return;
        }
        self.backlog.push_back(number);
        self.fill();
        if !self.backlog.is_empty() {
            // The queue is full: submit it now, and then the rest.
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
            let calls = self.calls.clone().filter(|_| !late);
            let call = calls.as_ref().and_then(Calls::take);
            let called = call.is_some();
            if let (Some(calls), Some(call)) = (calls, call) {
                // This thread has the driver and waits anyway, so it makes the call, once queued entries are submitted.
                self.enter(0, None);
                calls.end(call.make());
            }
            let block =
                self.done.is_empty() && self.backlog.is_empty() && !late && !idle && !called;
            self.enter(usize::from(block), timeout.filter(|_| block));
            let ended = !self.done.is_empty();
            // The disk works on reads that were held back while this thread handles what has ended. The caller may watch the ring
            // instead of waiting again.
            while (ended || late) && !self.backlog.is_empty() {
                self.fill();
                self.enter(0, None);
            }
            completions.append(&mut self.done);
            if ended || late || idle {
                return;
            }
        }
    }

    fn event(&mut self) -> io::Result<(DeviceId, Notifier)> {
        let (event, sender) = self.handle.add_event()?;
        Ok((event, Notifier::new(move || sender.notify())))
    }
}

impl Drop for UringDriver {
    fn drop(&mut self) {
        self.draining = true;
        for number in self.reads.take_held() {
            self.slots[number as usize].operation = None;
        }
        if let Some(calls) = self.calls.clone() {
            if !calls.cancel() {
                // A thread makes a call, so its memory and its descriptor are leaked (invariant 2 of calls.rs).
                std::mem::forget(self.handle.clone());
                return;
            }
            self.reap();
        }
        self.drain_backlog();
        self.cancel(|operation| !matches!(operation.target.kind, Kind::File | Kind::Ublk));
        while self.uses_memory() {
            self.enter(1, None);
        }
        drop(std::mem::take(&mut *self.slots));
        drop(self.zeroes.take());
    }
}

fn fdatasync(fd: RawFd) -> Result<usize, IoError> {
    // SAFETY: the call takes no memory. The descriptor is open, because its operation has begun.
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

/// Setups of rings of one thread; those with the most features come first.
const OF_ONE_THREAD: [Setup; 5] = [
    // 6.1: completions are processed only when this thread waits for them.
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
    // 5.19: completions do not interrupt this thread.
    |builder| {
        builder
            .setup_submit_all()
            .setup_coop_taskrun()
            .setup_taskrun_flag();
    },
    // 5.18: one bad entry does not stop the entries after it.
    |builder| {
        builder.setup_submit_all();
    },
    |_| {},
];

/// The first of [`OF_ONE_THREAD`] that does not defer completions until the ring is entered.
const UNDEFERRED: usize = 1;

/// Setups of shared rings; those with the most features come first. None of the features above: a completion must
/// arrive even while the submitting thread is busy elsewhere.
const SHARED: [Setup; 2] = [
    |builder| {
        builder.setup_submit_all();
    },
    |_| {},
];

/// The ring of the first setup that this kernel accepts.
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
    let release = rustix::system::uname();
    Err(refusal(refused, &release.release().to_string_lossy()))
}

/// Oldest kernel with all that the driver needs.
const KERNEL_MIN: (u32, u32) = (5, 11);

/// Why the kernel of this release has refused a ring. A container's seccomp profile answers as a kernel that lacks the call.
pub(crate) fn refusal(error: io::Error, release: &str) -> UringError {
    let mut numbers = release.split(['.', '-']).map(str::parse::<u32>);
    let is_new = match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= KERNEL_MIN,
        _ => false,
    };
    match (error.raw_os_error(), is_new) {
        (Some(libc::EPERM | libc::EACCES), _) | (Some(libc::ENOSYS), true) => UringError::Forbidden,
        (Some(libc::ENOSYS | libc::EINVAL), false) => UringError::TooOld,
        _ => UringError::Setup(error),
    }
}
