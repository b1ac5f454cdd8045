//! One connection, without its target: its requests under way, its queued replies, and its end.
//!
//! ```text
//!             DISC, end of stream,          nothing under way,
//!   open ---- violation, stop ----> ending - nothing queued ----> closed
//!     \                               |                            ^
//!      `---- stalled, send failed ----'----------------------------'
//! ```
//!
//! Invariants:
//! 1. A ticket is counted from its admission until its reply has been sent or thrown away.
//! 2. At most one `Send` is under way, so replies are never interleaved.
//! 3. The stream is closed once, and after that nothing is sent.

use super::budgets::Class;
use super::replies::{Batch, Outbox};
use super::shared::{Shared, add};
use crate::proto::{self, CMD_FLAG_FUA, Negotiated, Request};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use tonearm_base::Nanos;
use tonearm_requests::{Answered, CommandKind, Counters};
use tonearm_rt::{Data, DeviceId, Io, Notify, Op, Permit};

/// A client that takes longer than this for a batch gets copies, so that it does not keep memory of the target.
const SLOW: Nanos = Nanos::from_secs(1);

pub(super) struct Link {
    pub shared: Rc<Shared>,
    pub stream: DeviceId,
    /// Canonical name of the export.
    export: String,
    pub negotiated: Negotiated,
    pub counters: Rc<Counters>,
    outbox: RefCell<Outbox>,
    /// Since when the client has owed the rest of a request.
    pub receiving_since: Cell<Option<Nanos>>,
    /// Memory that a payload has while it is received.
    pub payload_bytes: Cell<u64>,
    /// True while the receiving task waits for the socket and holds no request that it could answer.
    pub receiver_waits: Cell<bool>,
    sending_since: Cell<Option<Nanos>>,
    /// The data that is being sent lies in memory of the target.
    sends_uncopied: Cell<bool>,
    /// The client took long for the last batch.
    slow: Cell<bool>,
    /// Since when a payload has been waiting for memory of the target.
    pub reserving_since: Cell<Option<Nanos>>,
    /// A `Send` under way that the sending task has not yet taken up.
    sending: RefCell<Option<(Io, Batch)>>,
    send_active: Cell<bool>,
    in_flight: Cell<u64>,
    /// Bytes of replies in each class.
    reply_bytes: [Cell<u64>; Class::ALL.len()],
    received_all: Cell<bool>,
    /// The receiving task has ended.
    receiver_ended: Cell<bool>,
    /// A task of the connection has panicked: what it had is missing, so the end waits for none of it.
    is_lost: Cell<bool>,
    stopping: Cell<bool>,
    closed: Cell<bool>,
    closing: RefCell<Option<Io>>,
    /// Wakes the sending task: a reply is queued, or the end may have come.
    sender: Notify,
    /// Wakes the receiving task: a request was answered, or the end has come.
    receiver: Notify,
}

/// A request that is not yet answered. It is made when the request is admitted or refused, and counted until the reply
/// has been sent or thrown away.
pub(super) struct Ticket {
    pub cookie: u64,
    /// The request, as if the reply were sent. Its header has arrived at the time that this says.
    pub request: Answered,
    memory: ReplyMemory,
}

/// Memory for one reply, counted in its connection ([`super::budgets`]).
pub(super) struct ReplyMemory {
    pub bytes: u64,
    pub class: Class,
    /// Held until the reply has been sent or thrown away.
    _permit: Option<Permit>,
}

impl ReplyMemory {
    /// `bytes` of the connection's own memory.
    pub fn own(bytes: u64) -> Self {
        Self {
            bytes,
            class: Class::Own,
            _permit: None,
        }
    }

    /// `bytes` of the budget `class`, which `permit` holds.
    pub fn shared(bytes: u64, class: Class, permit: Permit) -> Self {
        Self {
            bytes,
            class,
            _permit: Some(permit),
        }
    }
}

/// Why a wait has ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    /// The server stops: the request is refused.
    Stopping,
    /// The connection is closed: an answer would reach no client.
    Closed,
}

impl Link {
    pub fn new(
        shared: Rc<Shared>,
        stream: DeviceId,
        export: String,
        negotiated: Negotiated,
    ) -> Self {
        Self {
            outbox: RefCell::new(Outbox::new(shared.pool.clone(), shared.zeroes.clone())),
            sender: Notify::new(&shared.rt),
            receiver: Notify::new(&shared.rt),
            shared,
            stream,
            export,
            negotiated,
            counters: Rc::default(),
            receiving_since: Cell::new(None),
            payload_bytes: Cell::new(0),
            receiver_waits: Cell::new(false),
            sending_since: Cell::new(None),
            sends_uncopied: Cell::new(false),
            slow: Cell::new(false),
            reserving_since: Cell::new(None),
            sending: RefCell::new(None),
            send_active: Cell::new(false),
            in_flight: Cell::new(0),
            reply_bytes: Default::default(),
            received_all: Cell::new(false),
            receiver_ended: Cell::new(false),
            is_lost: Cell::new(false),
            stopping: Cell::new(false),
            closed: Cell::new(false),
            closing: RefCell::new(None),
        }
    }

    pub fn in_flight(&self) -> u64 {
        self.in_flight.get()
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Refuses new requests from now on.
    pub fn stop(&self) {
        self.stopping.set(true);
        self.receiver.notify();
        self.sender.notify();
    }

    /// Notes that no more requests come.
    pub fn set_received_all(&self) {
        self.received_all.set(true);
        self.sender.notify();
    }

    /// Notes that the receiving task has ended.
    pub fn set_receiver_ended(&self) {
        self.receiver_ended.set(true);
        self.sender.notify();
    }

    /// Resolves when the receiving task has ended.
    pub async fn receiver_ended(&self) {
        while !self.receiver_ended.get() {
            self.sender.wait().await;
        }
    }

    /// Ends the connection after a panic of one of its tasks.
    pub fn lose(&self) {
        self.is_lost.set(true);
        self.close();
        self.set_receiver_ended();
    }

    /// Ends the connection at once. Queued replies are thrown away.
    pub fn close(&self) {
        if self.closed.replace(true) {
            return;
        }
        let closing = self.shared.rt.stream(self.stream, Op::Close, Data::None);
        *self.closing.borrow_mut() = Some(closing);
        self.receiver.notify();
        self.sender.notify();
    }

    fn ended(&self) -> Option<Ended> {
        match (self.closed.get(), self.stopping.get()) {
            (true, _) => Some(Ended::Closed),
            (false, true) => Some(Ended::Stopping),
            (false, false) => None,
        }
    }

    /// Waits for a place among the requests under way, and for memory for a reply of `bytes`: the connection's own
    /// memory or, where that is too small, the shared memory.
    pub async fn reserve_reply(&self, bytes: u64) -> Result<ReplyMemory, Ended> {
        while !self.may_begin(bytes) {
            if let Some(ended) = self.ended() {
                return Err(ended);
            }
            self.send_now();
            self.receiver.wait().await;
        }
        let own = &self.reply_bytes[Class::Own as usize];
        let has_own = || own.get() + bytes <= self.shared.options.reply_bytes_own;
        if has_own() {
            return Ok(ReplyMemory::own(bytes));
        }
        let (class, budget) = self.shared.replies.for_reply(bytes);
        let mut acquire = budget.acquire(bytes);
        // The task is woken when a reply has been sent, too.
        self.unless_ended(poll_fn(|context| {
            match Pin::new(&mut acquire).poll(context) {
                Poll::Ready(permit) => Poll::Ready(ReplyMemory::shared(bytes, class, permit)),
                Poll::Pending if has_own() => Poll::Ready(ReplyMemory::own(bytes)),
                Poll::Pending => Poll::Pending,
            }
        }))
        .await
    }

    fn may_begin(&self, reply_bytes: u64) -> bool {
        let options = &self.shared.options;
        let queued: u64 = self.reply_bytes.iter().map(Cell::get).sum();
        self.in_flight.get() < options.requests_max
            && (reply_bytes == 0 || queued == 0 || queued + reply_bytes <= options.reply_bytes_max)
    }

    /// The result of `future`, unless the server stops or the connection is closed before.
    pub async fn unless_ended<F: Future>(&self, future: F) -> Result<F::Output, Ended> {
        let mut future = pin!(future);
        let mut sent = false;
        poll_fn(|context| {
            if let Poll::Ready(result) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(result));
            }
            if let Some(ended) = self.ended() {
                return Poll::Ready(Err(ended));
            }
            if !std::mem::replace(&mut sent, true) {
                self.send_now();
            }
            // Registers this task; the future itself does not keep it.
            let noted = Pin::new(&mut self.receiver.wait()).poll(context);
            debug_assert!(noted.is_pending(), "nobody notifies meanwhile");
            Poll::Pending
        })
        .await
    }

    /// Counts a request that is admitted or refused.
    pub fn begin(&self, request: &Request, arrived: Nanos, memory: ReplyMemory) -> Ticket {
        self.in_flight.set(self.in_flight.get() + 1);
        let held = &self.reply_bytes[memory.class as usize];
        held.set(held.get() + memory.bytes);
        Ticket {
            cookie: request.cookie,
            request: Answered {
                kind: kind_of(request.command),
                offset: request.offset,
                bytes: request.length.into(),
                fua: request.flags & CMD_FLAG_FUA != 0,
                failed: false,
                arrived,
            },
            memory,
        }
    }

    /// Ends a reply, whose bytes `make` puts into the outbox, and wakes the sending task.
    pub fn reply(&self, ticket: Ticket, make: impl FnOnce(&mut Outbox)) {
        let mut outbox = self.outbox.borrow_mut();
        make(&mut outbox);
        outbox.finish(ticket);
        drop(outbox);
        self.sender.notify();
    }

    /// Starts to send the queued replies, unless a `Send` is under way. The receiving task calls it before it waits, so
    /// that replies come before anything that other tasks submit in the same turn.
    pub fn send_now(&self) {
        if self.send_active.get() || self.closed.get() {
            return;
        }
        let Some(mut batch) = self.outbox.borrow_mut().pop() else {
            return;
        };
        let data = batch.take_data();
        let now = self.shared.rt.now();
        let metrics = &self.shared.metrics;
        for Ticket { request, .. } in &batch.tickets {
            self.counters.note(request);
            metrics.requests.note(request, now);
            self.shared.recorder.note(&self.export, request, now);
        }
        add(&metrics.sends, 1);
        self.send_active.set(true);
        self.sending_since.set(Some(now));
        self.sends_uncopied.set(batch.uncopied);
        self.shared.owing.notify();
        let io = self.shared.rt.stream(self.stream, Op::Send, data);
        *self.sending.borrow_mut() = Some((io, batch));
    }

    /// The sending task. Runs until nothing is left to send.
    pub async fn send_replies(&self) {
        loop {
            self.send_now();
            if self.closed.get() {
                self.discard();
            }
            let sending = self.sending.borrow_mut().take();
            match sending {
                Some((io, batch)) => {
                    let (result, data) = io.await;
                    // Read data may be pinned in the engine: it is released before the receiving task goes on.
                    drop(data);
                    self.send_active.set(false);
                    self.slow.set(self.is_slow());
                    self.sending_since.set(None);
                    self.sends_uncopied.set(false);
                    self.count_out(batch);
                    if result.is_err() {
                        self.close();
                    }
                }
                None if self.is_finished() => break,
                None => self.sender.wait().await,
            }
        }
        self.close();
        let closing = self.closing.borrow_mut().take();
        if let Some(closing) = closing {
            // The stream is forgotten in any case.
            let _ = closing.done().await;
        }
    }

    fn is_finished(&self) -> bool {
        let no_more = self.received_all.get()
            || self.closed.get()
            || (self.stopping.get() && self.receiver_waits.get());
        let is_done = self.in_flight.get() == 0 && self.outbox.borrow().is_empty();
        no_more && is_done || self.is_lost.get()
    }

    fn discard(&self) {
        loop {
            let batch = self.outbox.borrow_mut().pop();
            let Some(mut batch) = batch else { return };
            drop(batch.take_data());
            self.count_out(batch);
        }
    }

    fn count_out(&self, mut batch: Batch) {
        let count = batch.tickets.len() as u64;
        for ticket in batch.tickets.drain(..) {
            let held = &self.reply_bytes[ticket.memory.class as usize];
            held.set(held.get() - ticket.memory.bytes);
        }
        self.in_flight.set(self.in_flight.get() - count);
        self.outbox.borrow_mut().recycle(batch);
        if count > 0 {
            self.receiver.notify();
        }
    }

    /// The client must send the rest of a request: its time runs from now on, unless it runs already.
    pub fn expect_rest(&self) {
        if self.receiving_since.get().is_none() {
            self.receiving_since.set(Some(self.shared.rt.now()));
            self.shared.owing.notify();
        }
    }

    /// True when the client takes long for the present batch, or took long for the last one.
    pub fn is_slow(&self) -> bool {
        match self.sending_since.get() {
            Some(since) => self.shared.rt.now().since(since) >= SLOW,
            None => self.slow.get(),
        }
    }

    /// Since when the client has not taken a reply, and 1 when data of its replies lies in memory of the target.
    pub fn stalls_with_data(&self) -> Option<(Nanos, u64)> {
        let since = self.sending_since.get()?;
        let holds = self.sends_uncopied.get() || self.outbox.borrow().holds_memory();
        Some((since, u64::from(holds)))
    }

    /// Since when the client has been stalling within a payload, and the memory of the payload.
    pub fn stalls_with_payload(&self) -> Option<(Nanos, u64)> {
        let since = self.receiving_since.get()?;
        Some((since, self.payload_bytes.get()))
    }

    /// Since when the client has not taken a reply, and the memory of `class` that its replies have.
    pub fn stalls_with_replies(&self, class: Class) -> Option<(Nanos, u64)> {
        let since = self.sending_since.get()?;
        Some((since, self.reply_bytes[class as usize].get()))
    }

    /// Since when the client has been stalling, if it does.
    pub fn stalling_since(&self) -> Option<Nanos> {
        match (self.receiving_since.get(), self.sending_since.get()) {
            (Some(receiving), Some(sending)) => Some(receiving.min(sending)),
            (one, other) => one.or(other),
        }
    }
}

/// The kind of a command of the protocol.
fn kind_of(command: u16) -> CommandKind {
    match command {
        proto::CMD_READ => CommandKind::Read,
        proto::CMD_WRITE => CommandKind::Write,
        proto::CMD_FLUSH => CommandKind::Flush,
        proto::CMD_TRIM => CommandKind::Trim,
        proto::CMD_WRITE_ZEROES => CommandKind::WriteZeroes,
        proto::CMD_CACHE => CommandKind::Cache,
        proto::CMD_BLOCK_STATUS => CommandKind::BlockStatus,
        _ => CommandKind::Unknown,
    }
}
