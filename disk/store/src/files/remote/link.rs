//! The streams of a server's connections: memory for replies, time limits of clients, and the end.
//!
//! Invariants:
//! 1. Memory for a reply is reserved before its request is carried out. A session has a little memory of its own, so
//!    that small replies wait for no other session; the sessions share the rest.
//! 2. A client that stalls is cut after the stall timeout. If other sessions wait for the memory that its replies hold,
//!    it is cut after the shortage timeout already, the client that has stalled for longest first.
//! 3. A stream is closed once.

use super::wire::Reply;
use crate::files::{FilesError, FilesErrorKind};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::task::Poll;
use tonearm_base::{Buf, BufPool, Nanos};
use tonearm_rt::{Data, DeviceId, Io, Notify, Op, Permit, Rt, Semaphore};

/// Longer data of replies is sent from a buffer of its own, not copied after the head.
const COPY_BYTES_MAX: usize = 64 << 10;

/// Memory and times of a [`super::FileServer`]'s sessions.
#[derive(Clone, Copy, Debug)]
pub struct FileServerLimits {
    /// Longest time for the rest of a request, or to take a reply.
    pub stall_timeout: Nanos,
    /// Longest time to take a reply while other sessions wait for memory.
    pub shortage_timeout: Nanos,
    /// Bytes of replies that only this session may use.
    pub reply_bytes_own: u64,
    /// Most bytes of replies of all sessions together, besides those.
    pub total_reply_bytes_max: u64,
}

impl Default for FileServerLimits {
    fn default() -> Self {
        Self {
            stall_timeout: Nanos::from_secs(60),
            shortage_timeout: Nanos::from_secs(5),
            reply_bytes_own: 64 << 10,
            total_reply_bytes_max: 128 << 20,
        }
    }
}

/// What all connections of a server share.
pub(super) struct Links {
    pub rt: Rt,
    pub pool: BufPool,
    limits: FileServerLimits,
    /// By the number of the session.
    pub open: RefCell<BTreeMap<u64, Rc<Link>>>,
    /// A connection has ended.
    pub changed: Notify,
    stopping: Cell<bool>,
    replies: Semaphore,
    watching: Cell<bool>,
    /// A handle on itself, for the task that watches clients.
    this: Weak<Links>,
}

impl Links {
    pub fn new(rt: &Rt, pool: &BufPool, limits: FileServerLimits) -> Rc<Self> {
        Rc::new_cyclic(|this| Self {
            rt: rt.clone(),
            pool: pool.clone(),
            limits,
            open: RefCell::default(),
            changed: Notify::new(rt),
            stopping: Cell::new(false),
            replies: Semaphore::new(rt, limits.total_reply_bytes_max),
            watching: Cell::new(false),
            this: this.clone(),
        })
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Lets every session end.
    pub fn stop(&self) {
        self.stopping.set(true);
        for link in self.open.borrow().values() {
            link.news.notify();
        }
    }

    /// Starts the task that cuts stalled connections, if it does not run. One task serves all connections. It ends when
    /// no client has a request or reply to complete.
    fn watch(&self) {
        if self.watching.replace(true) {
            return;
        }
        if let Some(links) = self.this.upgrade() {
            self.rt.spawn_detached(async move {
                while links.cut_stalled() {
                    let shortest = links
                        .limits
                        .stall_timeout
                        .min(links.limits.shortage_timeout);
                    links.rt.sleep(Nanos((shortest.0 / 4).max(1))).await;
                }
                links.watching.set(false);
            });
        }
    }

    /// Cuts the connections that stall for too long. False when no client has a request or reply to complete.
    fn cut_stalled(&self) -> bool {
        let now = self.rt.now();
        let missing = self.replies.missing();
        let open = self.open.borrow();
        let open = open.values().filter(|link| !link.is_closed());
        let mut stalled: Vec<_> = open
            .filter_map(|link| link.stalling_since().map(|since| (since, link)))
            .collect();
        stalled.sort_by_key(|(since, _)| *since);
        let mut freed = 0;
        for (since, link) in &stalled {
            let (bytes, span) = (link.shared_bytes.get(), now.since(*since));
            let holds = freed < missing && bytes > 0;
            if span >= self.limits.stall_timeout || holds && span >= self.limits.shortage_timeout {
                freed += bytes;
                link.cut();
            }
        }
        !stalled.is_empty()
    }
}

/// A connection's stream.
pub(super) struct Link {
    links: Rc<Links>,
    stream: DeviceId,
    /// The turn to send.
    turn: Semaphore,
    /// Since when the rest of a request has been expected.
    receiving_since: Cell<Option<Nanos>>,
    /// Since when a reply has been on its way.
    sending_since: Cell<Option<Nanos>>,
    /// Bytes of replies: in the session's own memory, and in the shared memory.
    own_bytes: Cell<u64>,
    shared_bytes: Cell<u64>,
    closed: Cell<bool>,
    closing: RefCell<Option<Io>>,
    /// The end has come, or memory has become free.
    news: Notify,
}

/// Memory of a reply; given back when dropped.
pub(super) struct ReplyMemory {
    link: Rc<Link>,
    bytes: u64,
    /// `None` for the session's own memory.
    permit: Option<Permit>,
}

impl Link {
    pub fn new(links: &Rc<Links>, stream: DeviceId) -> Rc<Self> {
        Rc::new(Self {
            links: links.clone(),
            stream,
            turn: Semaphore::new(&links.rt, 1),
            receiving_since: Cell::new(None),
            sending_since: Cell::new(None),
            own_bytes: Cell::new(0),
            shared_bytes: Cell::new(0),
            closed: Cell::new(false),
            closing: RefCell::new(None),
            news: Notify::new(&links.rt),
        })
    }

    pub fn rt(&self) -> &Rt {
        &self.links.rt
    }

    pub fn pool(&self) -> &BufPool {
        &self.links.pool
    }

    fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// True when no more requests may be taken.
    pub fn is_ending(&self) -> bool {
        self.closed.get() || self.links.is_stopping()
    }

    /// The outcome of `future`; `None` when the end comes first.
    pub async fn unless_ending<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|context| {
            if let Poll::Ready(done) = future.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            if self.is_ending() {
                return Poll::Ready(None);
            }
            // Registers this task. No notification can come meanwhile.
            let _noted = Pin::new(&mut self.news.wait()).poll(context);
            Poll::Pending
        })
        .await
    }

    /// Receives some bytes; `None` when the client has gone, or is to go.
    pub async fn receive(&self, buf: Buf) -> Option<(usize, Buf)> {
        if self.is_ending() {
            return None;
        }
        let received = self.rt().stream(self.stream, Op::Recv, Data::whole(buf));
        let (result, data) = self.unless_ending(received).await?;
        let count = result.ok().filter(|count| *count > 0)?;
        Some((count, data.into_buf()))
    }

    /// With `owed`, the client must send the rest of a request: its time runs from now on, unless it runs already.
    /// Without, no time runs.
    pub fn expect_rest(&self, owed: bool) {
        if !owed {
            self.receiving_since.set(None);
        } else if self.receiving_since.get().is_none() {
            self.receiving_since.set(Some(self.rt().now()));
            self.links.watch();
        }
    }

    fn stalling_since(&self) -> Option<Nanos> {
        let since = [self.receiving_since.get(), self.sending_since.get()];
        since.into_iter().flatten().min()
    }

    /// Waits for memory for a reply of `bytes`; `None` when the end comes first.
    pub async fn memory(self: &Rc<Self>, bytes: u64) -> Option<ReplyMemory> {
        let links = &self.links;
        let has_own = || self.own_bytes.get() + bytes <= links.limits.reply_bytes_own;
        let permit = if has_own() {
            None
        } else {
            let mut acquire = links.replies.acquire(bytes);
            let permit = poll_fn(|context| match Pin::new(&mut acquire).poll(context) {
                Poll::Ready(permit) => Poll::Ready(Some(permit)),
                Poll::Pending if has_own() => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            self.unless_ending(permit).await?
        };
        let held = self.held(permit.is_some());
        held.set(held.get() + bytes);
        Some(ReplyMemory {
            link: self.clone(),
            bytes,
            permit,
        })
    }

    fn held(&self, shared: bool) -> &Cell<u64> {
        if shared {
            &self.shared_bytes
        } else {
            &self.own_bytes
        }
    }

    /// The bytes to send of a reply. Nothing else of the reply is kept while the client takes them.
    fn copy_of(&self, reply: Reply) -> Data {
        let pool = self.pool();
        let Reply { mut head, data } = reply;
        if data.len() > COPY_BYTES_MAX {
            return Data::Slices(vec![
                pool.copy_of(&head).share(),
                pool.copy_of(&data).share(),
            ]);
        }
        head.extend_from_slice(&data);
        Data::whole(pool.copy_of(&head))
    }

    /// Sends a reply. The receiving side notices when the client is gone.
    pub async fn reply(&self, reply: Reply) {
        let _turn = self.turn.acquire(1).await;
        let data = self.copy_of(reply);
        self.send(data).await;
    }

    /// Sends bytes that are not a reply. The caller has the turn to send.
    pub async fn send(&self, data: Data) {
        if self.is_closed() {
            return;
        }
        self.sending_since.set(Some(self.rt().now()));
        self.links.watch();
        let sent = self.rt().stream(self.stream, Op::Send, data);
        let _ = sent.done().await;
        self.sending_since.set(None);
    }

    /// Tells the client why the connection ends.
    pub async fn fail(&self, text: String) {
        let error = FilesError::new(FilesErrorKind::Failed, text);
        self.reply(Reply::new::<()>(0, Err(error))).await;
    }

    /// Closes the stream at once: what is under way on it ends.
    pub fn cut(&self) {
        if self.closed.replace(true) {
            return;
        }
        let closing = self.rt().stream(self.stream, Op::Close, Data::None);
        *self.closing.borrow_mut() = Some(closing);
        self.news.notify();
    }

    /// Closes the stream, and waits until it is closed.
    pub async fn close(&self) {
        self.cut();
        let closing = self.closing.borrow_mut().take();
        if let Some(closing) = closing {
            // The stream is forgotten in any case.
            let _ = closing.done().await;
        }
    }
}

impl Drop for ReplyMemory {
    fn drop(&mut self) {
        let held = self.link.held(self.permit.is_some());
        held.set(held.get() - self.bytes);
        self.link.news.notify();
    }
}
