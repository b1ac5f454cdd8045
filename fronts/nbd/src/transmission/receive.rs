//! The receiving side of a connection: it receives bytes and starts requests.
//!
//! A request is polled where it was received, and becomes a task only if it is not ready then. A request that can end
//! at once costs neither an allocation nor a task ([`Runner`]).
//!
//! The size of the receive buffer follows the client ([`Window`]): small for a client that sends little at a time, so
//! that a thousand idle connections cost little memory, and large for a client that fills it.
//!
//! Invariants:
//! 1. A small payload is received into the window. A large one gets memory as it comes (`budgets.rs`). Both get memory
//!    of the target when they are whole, so that a payload that does not come holds none of it.
//! 2. Nothing is read while the server waits for memory or for a place among the requests. The client's socket fills up
//!    then.
//! 3. Requests start in the order in which they came.
//! 4. Before a request starts, a client can make the server hold at most one window and one payload.

use super::execute::{Session, execute, reply_bytes};
use super::link::{Ended, Link, ReplyMemory, Ticket};
use super::shared::add;
use super::target::{Target, TargetError};
use crate::proto::{
    Command, ExportInfo, Intake, NbdErrno, Parsed, REQUEST_HEADER_BYTES, Request, admit,
};
use std::cell::RefCell;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tonearm_base::{Buf, BufPool, Nanos, Slice};
use tonearm_rt::{Contained, Data, Op, Permit, Rt};

/// Payloads of at least this size are received in place, except for the bytes that came with their header.
const IN_PLACE_BYTES_MIN: usize = 64 << 10;

/// Bytes of one in-place operation: the client has the stall timeout for each.
const STEP_BYTES: usize = 256 << 10;

/// Memory with which a payload begins while memory is scarce. It gets memory only once some of it has come, and then as
/// much again as has come.
const SCARCE_BYTES: usize = 64 << 10;

/// Sizes of the window.
const WINDOW_BYTES_MIN: usize = 16 << 10;
const WINDOW_BYTES_MAX: usize = 256 << 10;

/// Bytes received after a large payload. More bytes would belong to the next payload, which is received in place.
const PEEK_BYTES: usize = 4 << 10;

/// Consecutive receives that leave most of the buffer unused, after which it shrinks.
const QUIET_MAX: u32 = 64;

/// Places kept for reuse.
const SPARE_MAX: usize = 64;

/// `Break`: no more requests can come, because the client is gone, has disconnected or is cut, or because the server
/// stops.
type Flow<T> = ControlFlow<(), T>;

struct Receiver<T> {
    session: Rc<Session<T>>,
    link: Rc<Link>,
    window: Window,
    /// When the last bytes came.
    arrived: Nanos,
    /// The client has sent a whole payload.
    proven: bool,
}

/// Receives and starts requests until no more can come.
pub(super) async fn receive<T: Target>(session: Rc<Session<T>>, contained: Contained) {
    let link = session.link.clone();
    let runner = Runner::new();
    let mut receiver = Receiver {
        window: Window::new(&link.shared.pool),
        arrived: link.shared.rt.now(),
        proven: false,
        link: link.clone(),
        session: session.clone(),
    };
    while let ControlFlow::Continue(started) = receiver.next().await {
        if let Some((ticket, command, payload)) = started {
            let request = execute(session.clone(), ticket, command, payload);
            runner.start(&link.shared.rt, &contained, request);
        }
    }
    link.set_received_all();
}

type Started = (Ticket, Command, Option<Slice>);

impl<T: Target> Receiver<T> {
    /// The next request to execute; `None` for one that was refused.
    async fn next(&mut self) -> Flow<Option<Started>> {
        let request = self.header().await?;
        let export = ExportInfo {
            size_bytes: self.session.target.size_bytes(),
            read_only: self.session.read_only || self.session.target.read_only(),
        };
        let command = match admit(&request, &export, &self.link.negotiated) {
            Intake::Run(Command::Disconnect) => return ControlFlow::Break(()),
            Intake::Run(command) => command,
            Intake::Refuse(errno) => {
                return self.refuse(&request, TargetError::plain(errno)).await;
            }
            Intake::Disconnect => return self.violation(),
        };
        if self.link.is_stopping() {
            return self.refuse(&request, shutdown()).await;
        }
        let memory = match self.link.reserve_reply(reply_bytes(&command)).await {
            Ok(memory) => memory,
            Err(Ended::Stopping) => return self.refuse(&request, shutdown()).await,
            Err(Ended::Closed) => return ControlFlow::Break(()),
        };
        // Taken now: later, the receiving task's own waits would count as the client's time.
        let arrived = self.arrived;
        let payload = match command {
            Command::Write { length, .. } => match self.payload(length as usize).await? {
                Ok(payload) => Some(payload),
                Err(error) => return self.answer_error(&request, error).await,
            },
            _ => None,
        };
        // If the connection was closed while the last bytes came, the sending task may have ended, and would not wait
        // for this request.
        end_if(self.link.is_closed())?;
        let ticket = self.link.begin(&request, arrived, memory);
        ControlFlow::Continue(Some((ticket, command, payload)))
    }

    async fn header(&mut self) -> Flow<Request> {
        loop {
            if self.link.is_closed() {
                return ControlFlow::Break(());
            }
            match Request::parse(self.window.bytes()) {
                Ok(Parsed::Request(request)) => {
                    self.window.consume(REQUEST_HEADER_BYTES);
                    self.link.receiving_since.set(None);
                    return ControlFlow::Continue(request);
                }
                Ok(Parsed::NeedMore(REQUEST_HEADER_BYTES)) => {
                    self.fill(REQUEST_HEADER_BYTES).await?;
                }
                Ok(Parsed::NeedMore(_)) => {
                    self.link.expect_rest();
                    self.fill(REQUEST_HEADER_BYTES).await?;
                }
                Err(_) => return self.violation(),
            }
        }
    }

    /// Ends the connection: the start of the next request is unknown. Requests before this point still get their
    /// replies.
    fn violation<R>(&self) -> Flow<R> {
        add(&self.link.shared.metrics.connections_violated, 1);
        ControlFlow::Break(())
    }

    /// Receives at least one more byte into the window, which has room for `whole` bytes together.
    async fn fill(&mut self, whole: usize) -> Flow<()> {
        let lent = self.window.lend(whole);
        let (received, data) = self.operation(Op::Recv, lent).await;
        self.window.give_back(data, received);
        self.arrived = self.link.shared.rt.now();
        end_if(received == 0)
    }

    /// An operation of the socket; 0 bytes also stand for a failure and for the end of service.
    async fn operation(&self, op: Op, data: Data) -> (usize, Data) {
        let link = &self.link;
        link.send_now();
        if link.is_stopping() || link.is_closed() {
            return (0, data);
        }
        add(&link.shared.metrics.receives, 1);
        let io = link.shared.rt.stream(link.stream, op, data);
        link.receiver_waits.set(true);
        let (result, data) = io.await;
        link.receiver_waits.set(false);
        (result.unwrap_or(0), data)
    }

    /// The payload of a write, in memory of its own that the target has granted, or the reason why the target has
    /// refused it.
    async fn payload(&mut self, len: usize) -> Flow<Result<Slice, TargetError>> {
        let mut buf = if len < IN_PLACE_BYTES_MIN {
            self.small_payload(len).await?
        } else {
            self.large_payload(len).await?
        };
        self.proven = true;
        let reserved = self.reserve(len).await?;
        ControlFlow::Continue(reserved.map(|permit| {
            buf.attach(Rc::new(permit));
            buf.share()
        }))
    }

    /// A small payload, which stays in the window until it is whole.
    async fn small_payload(&mut self, len: usize) -> Flow<Buf> {
        while self.window.bytes().len() < len {
            self.link.expect_rest();
            self.fill(len).await?;
        }
        self.link.receiving_since.set(None);
        let mut buf = self.link.shared.pool.alloc(len);
        self.window.take(&mut buf);
        ControlFlow::Continue(buf)
    }

    /// A large payload, which gets memory as it comes.
    async fn large_payload(&mut self, len: usize) -> Flow<Buf> {
        let mut partial = self.link.shared.partial.begin(len as u64, self.proven);
        let mut buf: Buf = self.link.shared.pool.alloc(0);
        let mut filled = 0;
        while filled < len {
            if filled == buf.len() {
                let to = if partial.is_ample(len - filled) {
                    len
                } else {
                    if self.window.bytes().is_empty() {
                        self.link.expect_rest();
                        self.window.expect_header();
                        self.fill(0).await?;
                    }
                    len.min(2 * filled.max(SCARCE_BYTES / 2))
                };
                // The client is not the cause of the waits from here on.
                self.link.receiving_since.set(None);
                let grown = partial.grow((to - filled) as u64);
                end_if(self.link.unless_ended(grown).await.is_err())?;
                self.link.payload_bytes.set(partial.bytes());
                let mut larger = self.link.shared.pool.alloc(to);
                larger[..filled].copy_from_slice(&buf);
                buf = larger;
            }
            filled += self.window.take(&mut buf[filled..]);
            let to = buf.len().min(filled + STEP_BYTES);
            if filled < to {
                self.window.expect_header();
                self.link.expect_rest();
                let step = Data::Buf(buf, filled..to);
                let (received, data) = self.operation(Op::RecvAll, step).await;
                buf = data.into_buf();
                self.link.receiving_since.set(None);
                end_if(received < to - filled)?;
                filled = to;
            }
        }
        self.link.payload_bytes.set(0);
        ControlFlow::Continue(buf)
    }

    /// Waits for memory of the target for a payload that is whole.
    async fn reserve(&self, len: usize) -> Flow<Result<Permit, TargetError>> {
        let reserve = self.session.target.reserve(len as u64);
        let reserve = self.link.shared.rt.engine(reserve);
        let since = &self.link.reserving_since;
        since.set(Some(self.arrived));
        let _begun = self.link.shared.recorder.under_way().begin(self.arrived);
        let reserved = self.link.unless_ended(reserve).await;
        since.set(None);
        match reserved {
            Ok(reserved) => ControlFlow::Continue(reserved),
            Err(Ended::Stopping) => ControlFlow::Continue(Err(shutdown())),
            Err(Ended::Closed) => ControlFlow::Break(()),
        }
    }

    /// Discards the payload of `request` and answers with `error`.
    async fn refuse(&mut self, request: &Request, error: TargetError) -> Flow<Option<Started>> {
        let mut left = request.payload_bytes() as usize;
        let there = left.min(self.window.bytes().len());
        self.window.consume(there);
        left -= there;
        while left > 0 {
            let waste = self.window.lend_waste(left);
            let want = waste.len();
            self.link.expect_rest();
            let (received, data) = self.operation(Op::RecvAll, waste).await;
            self.window.give_back_waste(data);
            self.link.receiving_since.set(None);
            end_if(received < want)?;
            left -= want;
        }
        self.answer_error(request, error).await
    }

    /// Answers a request that has been received completely with `error`.
    async fn answer_error(
        &mut self,
        request: &Request,
        error: TargetError,
    ) -> Flow<Option<Started>> {
        // A refusal needs a place too, because the client has to take its reply.
        let place = self.link.reserve_reply(0).await;
        end_if(place.is_err_and(|ended| ended == Ended::Closed) || self.link.is_closed())?;
        let memory = ReplyMemory::own(0);
        let ticket = self.link.begin(request, self.arrived, memory);
        self.link.reply_error(ticket, &error);
        ControlFlow::Continue(None)
    }
}

fn shutdown() -> TargetError {
    TargetError::plain(NbdErrno::Shutdown)
}

fn end_if(end: bool) -> Flow<()> {
    if end {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// The receive buffer for requests. A small payload stays here until it is whole.
struct Window {
    pool: BufPool,
    /// `None` while an operation has it.
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
            buf: Some(pool.alloc(WINDOW_BYTES_MIN)),
            start: 0,
            end: 0,
            asked: 0,
            quiet: 0,
            peek: false,
            size: WINDOW_BYTES_MIN,
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

    /// Moves as many bytes as there are to `out`. Returns their count.
    pub fn take(&mut self, out: &mut [u8]) -> usize {
        let bytes = self.bytes();
        let count = bytes.len().min(out.len());
        out[..count].copy_from_slice(&bytes[..count]);
        self.consume(count);
        count
    }

    /// The next bytes are probably a header alone, so few bytes are received at first.
    pub fn expect_header(&mut self) {
        self.peek = true;
    }

    /// Memory to receive into, after the present bytes, so large that `whole` bytes fit together.
    pub fn lend(&mut self, whole: usize) -> Data {
        let mut buf = self.buf.take().expect("no operation has the buffer");
        let left = self.end - self.start;
        let size = self.size.max(whole.next_power_of_two());
        debug_assert!(
            left < size && size <= WINDOW_BYTES_MAX,
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

    /// Memory for at most `bytes` that are received and thrown away. The window must be empty.
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
            self.size = (4 * buf.len()).min(WINDOW_BYTES_MAX);
        }
        self.quiet = if received < buf.len() / 8 {
            self.quiet + 1
        } else {
            0
        };
        if self.quiet >= QUIET_MAX {
            self.size = (buf.len() / 4).max(WINDOW_BYTES_MIN);
            self.quiet = 0;
        }
        self.buf = Some(buf);
    }

    /// Takes the memory of [`Window::lend_waste`] back.
    pub fn give_back_waste(&mut self, data: Data) {
        self.buf = Some(data.into_buf());
    }
}

type Place<F> = Pin<Box<Option<F>>>;

/// Starts requests. The memory of a request that has ended is used again for the next one.
struct Runner<F> {
    spare: Rc<RefCell<Vec<Place<F>>>>,
}

impl<F: Future<Output = ()> + 'static> Runner<F> {
    pub fn new() -> Self {
        Self {
            spare: Rc::default(),
        }
    }

    /// Runs `future` as far as it goes, and the rest of it as a task.
    pub fn start(&self, rt: &Rt, contained: &Contained, future: F) {
        let spare = self.spare.borrow_mut().pop();
        let mut place = spare.unwrap_or_else(|| Box::pin(None));
        place.as_mut().set(Some(future));
        // The executor has no wakers: a leaf notes the task that polls it, and that is updated when
        // the new task polls for the first time.
        if poll(&mut place, &mut Context::from_waker(Waker::noop())).is_ready() {
            return keep(&self.spare, place);
        }
        let spare = self.spare.clone();
        rt.spawn_contained(contained, async move {
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
