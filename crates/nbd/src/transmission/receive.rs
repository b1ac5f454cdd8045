//! The receiving side of a connection: bytes in, requests started.
//!
//! Invariants:
//! 1. Memory for a payload is reserved before the payload is taken from the socket; while the
//!    reservation or a place among the requests waits, nothing is read: the client feels it.
//! 2. Requests start in the order in which they came.
//! 3. What a client can make the server hold before a request starts is one window and one payload.

use super::execute::{Session, execute, reply_bytes};
use super::link::{Link, Room};
use super::metrics::{CommandKind, add};
use super::runner::Runner;
use super::target::{Target, TargetError};
use super::ticket::Ticket;
use super::window::Window;
use crate::proto::{
    Command, ExportInfo, Intake, NbdErrno, Parsed, REQUEST_HEADER_BYTES, Request, admit,
};
use base::{Nanos, Slice};
use rt::{Data, Op, Permit};
use std::ops::ControlFlow;
use std::rc::Rc;

/// Payloads from here on are received in place, when they have not come with their header.
const IN_PLACE_BYTES_MIN: usize = 64 << 10;

/// Payloads over this share a bound of their own while they are received.
const LARGE_BYTES: usize = 1 << 20;

/// Bytes of one in-place operation: the client has the stall timeout for each.
const IN_PLACE_STEP_BYTES: usize = 1 << 20;

/// No request can follow: the client is gone or let go, or the server stops.
type Flow<T> = ControlFlow<(), T>;

struct Receiver<T> {
    session: Rc<Session<T>>,
    link: Rc<Link>,
    window: Window,
    /// When the last bytes came.
    arrived: Nanos,
}

/// Receives and starts requests until none can follow.
pub(super) async fn receive<T: Target>(session: Rc<Session<T>>) {
    let link = session.link.clone();
    let runner = Runner::new();
    let mut receiver = Receiver {
        window: Window::new(&link.shared.pool),
        arrived: link.shared.rt.now(),
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
            Intake::Refuse { errno, .. } => {
                return self.refuse(&request, TargetError::plain(errno)).await;
            }
            Intake::Disconnect => return self.violation(),
        };
        if self.link.is_stopping() {
            return self.refuse(&request, shutdown()).await;
        }
        let reply_bytes = reply_bytes(&command);
        let permit = match self.link.room(reply_bytes).await {
            Room::Free(permit) => permit,
            Room::Stopping => return self.refuse(&request, shutdown()).await,
            Room::Closed => return ControlFlow::Break(()),
        };
        // Later, what the receiving task itself has waited for would count as the client's time.
        let ticket_arrived = self.arrived;
        let payload = match command {
            Command::Write { length, .. } => match self.payload(length as usize).await? {
                Ok(payload) => Some(payload),
                Err(error) => return self.refuse(&request, error).await,
            },
            _ => None,
        };
        let ticket = self.ticket(&request, ticket_arrived, reply_bytes, permit)?;
        ControlFlow::Continue(Some((ticket, command, payload)))
    }

    /// Counts a request in, unless the connection was closed while its last bytes came: the sending
    /// task may have ended then, and nobody would wait for it.
    fn ticket(
        &self,
        request: &Request,
        arrived: Nanos,
        reply_bytes: u64,
        permit: Option<Permit>,
    ) -> Flow<Ticket> {
        end_if(self.link.is_closed())?;
        self.link.begin(reply_bytes);
        ControlFlow::Continue(Ticket {
            cookie: request.cookie,
            kind: CommandKind::of(request.command),
            bytes: request.length,
            failed: false,
            arrived,
            reply_bytes,
            _permit: permit,
        })
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
                Ok(Parsed::NeedMore(REQUEST_HEADER_BYTES)) => self.fill().await?,
                Ok(Parsed::NeedMore(_)) => {
                    self.link.expect_rest();
                    self.fill().await?;
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

    /// Receives at least one more byte into the window.
    async fn fill(&mut self) -> Flow<()> {
        let lent = self.window.lend();
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

    /// The payload of a write, in memory of its own, or why it was not taken from the socket.
    async fn payload(&mut self, len: usize) -> Flow<Result<Slice, TargetError>> {
        // Held until the payload is here, and only then given to the next large one.
        let _large = if len > LARGE_BYTES {
            let acquire = self.link.shared.large.acquire(len as u64);
            match self.link.unless_ended(acquire).await {
                Some(permit) => Some(permit),
                None if self.link.is_closed() => return ControlFlow::Break(()),
                None => return ControlFlow::Continue(Err(shutdown())),
            }
        } else {
            None
        };
        let reserve = self.session.target.reserve(len as u64);
        let permit = match self.link.unless_ended(reserve).await {
            Some(Ok(permit)) => permit,
            Some(Err(error)) => return ControlFlow::Continue(Err(error)),
            None if self.link.is_closed() => return ControlFlow::Break(()),
            None => return ControlFlow::Continue(Err(shutdown())),
        };
        let mut buf = self.link.shared.pool.alloc(len);
        buf.attach(Rc::new(permit));
        let mut filled = self.window.take(&mut buf);
        if filled < len && len >= IN_PLACE_BYTES_MIN {
            self.window.expect_header();
            while filled < len {
                let to = len.min(filled + IN_PLACE_STEP_BYTES);
                self.link.expect_rest();
                let (received, data) = self
                    .operation(Op::RecvAll, Data::Buf(buf, filled..to))
                    .await;
                buf = data.into_buf();
                self.link.receiving_since.set(None);
                end_if(received < to - filled)?;
                filled = to;
            }
        }
        while filled < len {
            self.link.expect_rest();
            self.fill().await?;
            filled += self.window.take(&mut buf[filled..]);
        }
        self.link.receiving_since.set(None);
        ControlFlow::Continue(Ok(buf.share()))
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
        // A refusal needs a place too: its reply has to be taken by the client.
        if let Room::Closed = self.link.room(0).await {
            return ControlFlow::Break(());
        }
        let ticket = self.ticket(request, self.arrived, 0, None)?;
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
