//! The receiving side of a connection: bytes in, requests started.
//!
//! Invariants:
//! 1. A small payload is received into the window; a large one gets its memory as it comes (`budgets.rs`). Both get memory
//!    of the target when they are whole, so that a payload that does not come holds none of it.
//! 2. While memory or a place among the requests is waited for, nothing is read: the client's socket fills up.
//! 3. Requests start in the order in which they came.
//! 4. What a client can make the server hold before a request starts is one window and one payload.

use super::execute::{Runner, Session, execute, reply_bytes};
use super::link::{Ended, Link, ReplyMemory, Ticket};
use super::metrics::add;
use super::target::{Target, TargetError};
use super::window::Window;
use crate::proto::{
    Command, ExportInfo, Intake, NbdErrno, Parsed, REQUEST_HEADER_BYTES, Request, admit,
};
use std::ops::ControlFlow;
use std::rc::Rc;
use tonearm_base::{Buf, Nanos, Slice};
use tonearm_rt::{Data, Op, Permit};

/// Payloads from here on are received in place, as far as they have not come with their header.
const IN_PLACE_BYTES_MIN: usize = 64 << 10;

/// Bytes of one in-place operation: the client has the stall timeout for each.
const STEP_BYTES: usize = 256 << 10;

/// Memory that a payload begins with where that is scarce. Some of it has come before it gets any, and then it gets as
/// much again as has come.
const SCARCE_BYTES: usize = 64 << 10;

/// `Break`: no request can follow, since the client is gone, has disconnected, or is cut, or the server stops.
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

/// Receives and starts requests until none can follow.
pub(super) async fn receive<T: Target>(session: Rc<Session<T>>) {
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
            runner.start(&link.shared.rt, request);
        }
    }
    link.set_received_all();
}

type Started = (Ticket, Command, Option<Slice>);

impl<T: Target> Receiver<T> {
    /// The next request that is to be executed; `None` for one that was refused.
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
        // Later, what the receiving task itself has waited for would count as the client's time.
        let arrived = self.arrived;
        let payload = match command {
            Command::Write { length, .. } => match self.payload(length as usize).await? {
                Ok(payload) => Some(payload),
                Err(error) => return self.answer_error(&request, error).await,
            },
            _ => None,
        };
        // If the connection was closed while the last bytes came, the sending task may have ended: it would not wait for
        // the request.
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

    /// Nothing after this point can be framed. What was asked before is still answered.
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

    /// The payload of a write, in memory of its own that the target has given, or why it has given none.
    async fn payload(&mut self, len: usize) -> Flow<Result<Slice, TargetError>> {
        let mut buf = match len < IN_PLACE_BYTES_MIN {
            true => self.small_payload(len).await?,
            false => self.large_payload(len).await?,
        };
        self.proven = true;
        let reserved = self.reserve(len).await?;
        ControlFlow::Continue(reserved.map(|permit| {
            buf.attach(Rc::new(permit));
            buf.share()
        }))
    }

    /// A small payload, which the window holds until it is whole.
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

    /// A large payload, in memory that it gets as it comes.
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
                // What is waited for from here on is not the client's fault.
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

    /// Memory of the target for a payload that is whole.
    async fn reserve(&self, len: usize) -> Flow<Result<Permit, TargetError>> {
        let reserve = self.session.target.reserve(len as u64);
        let since = &self.link.reserving_since;
        since.set(Some(self.arrived));
        let reserved = self.link.unless_ended(reserve).await;
        since.set(None);
        match reserved {
            Ok(reserved) => ControlFlow::Continue(reserved),
            Err(Ended::Stopping) => ControlFlow::Continue(Err(shutdown())),
            Err(Ended::Closed) => ControlFlow::Break(()),
        }
    }

    /// Throws the payload of `request` away and answers with `error`.
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

    /// Answers a request, of which nothing is left to receive, with `error`.
    async fn answer_error(
        &mut self,
        request: &Request,
        error: TargetError,
    ) -> Flow<Option<Started>> {
        // A refusal needs a place too: its reply has to be taken by the client.
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
    match end {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}
