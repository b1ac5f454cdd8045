//! The server's end, on the engine's thread: each connection is a session.
//!
//! Bounds: the number of sessions ([`SESSIONS_MAX`]). For each session: one frame that is being received,
//! [`CONCURRENT_MAX`] requests that run concurrently with later ones, the memory of its replies ([`FileServerLimits`]), and the
//! files and units that `files/session.rs` allows. The disk bounds the memory of units. The server starts no further
//! request of a session that does not take its replies.

use super::link::{FileServerLimits, Link, Links, ReplyMemory};
use super::wire::{self, FRAME_MAX, HELLO_LEN, Reply, Request, VERSION, Violation};
use crate::files::session::{Opened, Session, Sessions};
use crate::files::{AruId, FileId, FileSystem, FilesError, FilesErrorKind};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use tonearm_base::{Buf, BufPool, LooseBuf, Lsn, Nanos};
use tonearm_disk::Disk;
use tonearm_rt::{Boxed, Contained, Data, DeviceId, Rt, Semaphore};

/// Most sessions at a time.
const SESSIONS_MAX: usize = 256;
/// Most requests of a session that run concurrently with later ones.
const CONCURRENT_MAX: u64 = 16;
/// Bytes received at once.
const RECEIVE_BYTES: usize = 128 << 10;
/// Memory that a list of files, or of allocated runs, may need.
const LIST_BYTES: u64 = 256 << 10;
/// How long operations of clients that were cut may take when the server stops.
const LAST_OPERATIONS: Nanos = Nanos::from_secs(60);
/// The message for clients when the server stops.
const STOPPING: &str = "the server is shutting down";

/// Serves the files of a disk to sockets; cheap to clone, of the engine's thread.
#[derive(Clone)]
pub struct FileServer(Rc<State>);

struct State {
    sessions: Sessions,
    links: Rc<Links>,
}

impl FileServer {
    /// A server without clients.
    pub fn new(rt: &Rt, pool: &BufPool, disk: &Disk, system: &FileSystem) -> Self {
        Self::with_limits(rt, pool, disk, system, FileServerLimits::default())
    }

    /// A server without clients, with limits of the caller's choice.
    pub fn with_limits(
        rt: &Rt,
        pool: &BufPool,
        disk: &Disk,
        system: &FileSystem,
        limits: FileServerLimits,
    ) -> Self {
        Self(Rc::new(State {
            sessions: Sessions::new(rt, disk, system),
            links: Links::new(rt, pool, limits),
        }))
    }

    /// Sessions at present.
    pub fn sessions(&self) -> usize {
        self.0.links.open.borrow().len()
    }

    /// Sessions that have the volume `name` open.
    pub fn volume_users(&self, name: &str) -> usize {
        self.0.sessions.volume_users(name)
    }

    /// Serves a client that has connected. Once the server stops, it closes the connection instead.
    pub fn accept(&self, stream: DeviceId) {
        let (state, links) = (self.0.clone(), &self.0.links);
        let link = Link::new(links, stream);
        let rt = links.rt.clone();
        if links.is_stopping() || self.sessions() >= SESSIONS_MAX {
            rt.spawn_detached(async move {
                if !link.is_ending() {
                    let text = format!("the server has {SESSIONS_MAX} sessions, as many as it may");
                    link.fail(text).await;
                }
                link.close().await;
            });
            return;
        }
        let number = state.sessions.begin();
        let session = state.sessions.get(number).expect("begun just now");
        links.open.borrow_mut().insert(number, link.clone());
        let contained = {
            let state = state.clone();
            Contained::new("a connection to the files", move || {
                state.sessions.end(number);
                if let Some(link) = state.links.open.borrow_mut().remove(&number) {
                    link.cut();
                }
                state.links.changed.notify();
            })
        };
        rt.spawn_contained(&contained, async move {
            let connection = Connection {
                concurrent: Semaphore::new(link.rt(), CONCURRENT_MAX),
                link,
                session,
                failed_units: RefCell::default(),
                greeted: Cell::new(false),
            };
            let served = connection.serve().await;
            let Connection {
                link,
                concurrent,
                greeted,
                ..
            } = connection;
            match served {
                Err(Violation(why)) => {
                    let text = format!("the connection is closed: {why}");
                    link.fail(text).await;
                }
                // A client without a hello takes the close for the absence of a server.
                Ok(()) if state.links.is_stopping() && greeted.get() => {
                    // Requests that have begun get their replies.
                    drop(concurrent.acquire(CONCURRENT_MAX).await);
                    link.fail(STOPPING.to_string()).await;
                }
                Ok(()) => {}
            }
            // Units are ended before locks are released.
            state.sessions.end(number);
            link.close().await;
            drop(concurrent.acquire(CONCURRENT_MAX).await);
            state.links.open.borrow_mut().remove(&number);
            state.links.changed.notify();
        });
    }

    /// Begins to stop: no more requests are started, those under way get their replies, and sessions end.
    pub fn stop(&self) {
        self.0.links.stop();
    }

    /// Stops, and waits until all sessions have ended: then their units are aborted and their locks released. Clients
    /// that have not taken their replies after `grace` are cut. False when operations still go on a minute later; the
    /// end of the store ends them.
    pub async fn shut_down(&self, grace: Nanos) -> bool {
        self.stop();
        let links = &self.0.links;
        let mut patience = pin!(links.rt.sleep(grace));
        let mut last = pin!(links.rt.sleep(grace + LAST_OPERATIONS.0));
        let mut cut = false;
        let ended = poll_fn(|context| {
            if links.open.borrow().is_empty() {
                return Poll::Ready(true);
            }
            if !cut && patience.as_mut().poll(context).is_ready() {
                cut = true;
                for link in links.open.borrow().values() {
                    link.cut();
                }
            }
            if last.as_mut().poll(context).is_ready() {
                return Poll::Ready(false);
            }
            // Registers this task. No notification can come while it is polled.
            let _noted = Pin::new(&mut links.changed.wait()).poll(context);
            Poll::Pending
        })
        .await;
        self.0.sessions.end_all();
        ended
    }
}

/// How a request is answered.
enum Answered {
    /// With this reply.
    Now(Reply),
    /// With the reply of work that runs concurrently with later requests.
    Later(Boxed<'static, Reply>),
    /// Not at all.
    Not,
}

struct Connection {
    link: Rc<Link>,
    session: Session,
    /// The first error of each open unit, for its end.
    failed_units: RefCell<BTreeMap<AruId, FilesError>>,
    concurrent: Semaphore,
    /// Both sides have said hello.
    greeted: Cell<bool>,
}

impl Connection {
    /// Serves the client until it has gone, or is to go.
    async fn serve(&self) -> Result<(), Violation> {
        let mut incoming = Incoming::new(&self.link);
        // A connection that says nothing also takes a place among the sessions.
        self.link.expect_rest(true);
        let Some(hello) = incoming.exactly(HELLO_LEN).await else {
            return Ok(());
        };
        let version = wire::version_of(hello.first_chunk().expect("as long as asked for"))?;
        incoming.consume(HELLO_LEN);
        let hello = self.link.pool().copy_of(&wire::hello());
        self.link.send(Data::whole(hello)).await;
        self.greeted.set(true);
        if version != VERSION {
            return Err(Violation(
                "it speaks another version of the protocol; use programs of one release",
            ));
        }
        while !self.link.is_ending() {
            // The frame is received once its length is there, which is bounded.
            let len = match wire::frame_len(incoming.bytes())? {
                Some(len) => len,
                None => match incoming.exactly(4).await {
                    Some(_) => continue,
                    None => return Ok(()),
                },
            };
            let Some(frame) = incoming.exactly(len).await else {
                return Ok(());
            };
            let (number, request) = Request::decode(&frame[4..])?;
            let Some(memory) = self.link.memory(reply_bytes(&request)).await else {
                return Ok(());
            };
            let answer = self.answer(number, request, memory);
            self.link.rt().engine(answer).await?;
            incoming.consume(len);
        }
        Ok(())
    }

    async fn answer(
        &self,
        number: u32,
        request: Request<'_>,
        memory: ReplyMemory,
    ) -> Result<(), Violation> {
        let failed = request
            .unit()
            .and_then(|aru| self.failed_units.borrow().get(&aru).cloned());
        if let Some(error) = failed {
            // The unit cannot end. Its requests have no effect, and no read shows what it has not written.
            if request.is_answered() {
                self.link.reply(Reply::new::<()>(number, Err(error))).await;
            }
            return Ok(());
        }
        match self.carry_out(number, request).await? {
            Answered::Now(reply) => self.link.reply(reply).await,
            Answered::Later(work) => self.run_concurrently(memory, work).await,
            Answered::Not => {}
        }
        Ok(())
    }

    async fn carry_out(&self, number: u32, request: Request<'_>) -> Result<Answered, Violation> {
        let session = &self.session;
        let opened = |opened: Result<Opened, FilesError>| {
            Reply::new(number, opened.map(|opened| opened.file))
        };
        let reply = match request {
            Request::Open { name, how } => opened(session.open(name, how).await),
            Request::Create { aru, name } => opened(session.create(aru, name).await),
            Request::OpenVolume { name } => opened(session.open_volume(name)),
            Request::Zero { file, offset, len } => {
                Reply::new(number, session.zero(file, offset, len).await)
            }
            Request::Status { file, offset, len } => {
                Reply::new(number, session.status(file, offset, len).await)
            }
            Request::Close { file } => {
                session.close(file);
                Reply::new(number, Ok(()))
            }
            Request::Look { path } => Reply::new(number, session.look(path).await),
            Request::List { path, after } => Reply::new(number, session.list(path, after).await),
            Request::MakeDir { path } => Reply::new(number, session.make_dir(path).await),
            Request::ReadLink { path } => Reply::new(number, session.read_link(path).await),
            Request::MakeLink { path, target } => {
                Reply::new(number, session.make_link(path, target).await)
            }
            Request::SetAttr { path, aru, set } => {
                Reply::new(number, session.set_attr(path, aru, set).await)
            }
            Request::Exists { name } => Reply::new(number, session.exists(name).await),
            Request::Delete { name } => Reply::new(number, session.delete(name).await),
            Request::Rename { from, to } => Reply::new(number, session.rename(from, to).await),
            Request::Size { file, aru } => Reply::new(number, session.size(file, aru).await),
            Request::Read {
                file,
                aru,
                offset,
                len,
            } => {
                let read = read(session.clone(), number, (file, aru), offset, len);
                if aru.is_none() {
                    return Ok(Answered::Later(Box::pin(read)));
                }
                read.await
            }
            Request::Begin { aru } => {
                let begun = session.begin(aru).map(|()| Answered::Not);
                return begun.map_err(|_| Violation("too many units are open, or one twice"));
            }
            Request::Write {
                file,
                aru,
                offset,
                data,
            } => {
                let data = LooseBuf::copy_of(data);
                let written = session.write(file, aru, offset, data).await;
                return self.changed(number, aru, written);
            }
            Request::Truncate { file, aru, size } => {
                let cut = session.truncate(file, aru, size).await;
                return self.changed(number, aru, cut);
            }
            Request::End { aru, durable } => return Ok(self.end(number, aru, durable).await),
            Request::Abort { aru } => return Ok(self.abort(aru)),
            Request::Flush => return Ok(self.flush(number)),
            Request::Marks => {
                let marks = session.marks();
                let lsns = (marks.appended.0, marks.flushed.0, marks.durable.0);
                Reply::new(number, Ok(lsns))
            }
            Request::WaitDurable { lsn } => return Ok(self.wait_durable(number, lsn)),
            Request::Archive => Reply::new(number, Ok(session.archive())),
            Request::WaitArchived { lsn } => return Ok(self.wait_archived(number, lsn)),
            Request::Lock { file, level } => Reply::new(number, session.lock(file, level)),
            Request::Unlock { file, level } => Reply::new(number, session.unlock(file, level)),
            Request::Reserved { file } => Reply::new(number, session.reserved(file)),
        };
        Ok(Answered::Now(reply))
    }

    async fn end(&self, number: u32, aru: AruId, durable: bool) -> Answered {
        let session = self.session.clone();
        let failed = self.failed_units.borrow_mut().remove(&aru);
        let ended = match failed {
            Some(error) => {
                session.abort(aru);
                Err(error)
            }
            // Not concurrently with later requests: the end must take effect before anything that comes later, above all before the end
            // of the session.
            None => session.end(aru).await,
        };
        match ended {
            Ok(lsn) if durable => Answered::Later(Box::pin(async move {
                let durable = session.acknowledge(lsn, true).await;
                Reply::new(number, durable.map(|()| lsn.0))
            })),
            Ok(lsn) => {
                let acknowledged = session.acknowledge(lsn, false).await;
                Answered::Now(Reply::new(number, acknowledged.map(|()| lsn.0)))
            }
            Err(error) => Answered::Now(Reply::new::<()>(number, Err(error))),
        }
    }

    fn abort(&self, aru: AruId) -> Answered {
        self.failed_units.borrow_mut().remove(&aru);
        self.session.abort(aru);
        Answered::Not
    }

    fn flush(&self, number: u32) -> Answered {
        let session = self.session.clone();
        let flush = async move { Reply::new(number, session.flush().await) };
        Answered::Later(Box::pin(flush))
    }

    fn wait_durable(&self, number: u32, lsn: u64) -> Answered {
        let session = self.session.clone();
        let wait = async move { Reply::new(number, session.wait_durable(Lsn(lsn)).await) };
        Answered::Later(Box::pin(wait))
    }

    fn wait_archived(&self, number: u32, lsn: u64) -> Answered {
        let (session, link) = (self.session.clone(), self.link.clone());
        Answered::Later(Box::pin(async move {
            // A bucket may be away for hours. Neither the end of the client nor of the server waits for it.
            let archived = link.unless_ending(session.wait_archived(Lsn(lsn))).await;
            let ending = || Err(FilesError::new(FilesErrorKind::Failed, STOPPING));
            Reply::new(number, archived.unwrap_or_else(ending))
        }))
    }

    /// The answer to a change: within a unit the reply to its end has the first error.
    fn changed(
        &self,
        number: u32,
        aru: Option<AruId>,
        result: Result<(), FilesError>,
    ) -> Result<Answered, Violation> {
        match aru {
            Some(aru) => self.within(aru, result).map(|()| Answered::Not),
            None => Ok(Answered::Now(Reply::new(number, result))),
        }
    }

    /// Keeps the first error of an open unit, for the reply to its end.
    fn within(&self, aru: AruId, result: Result<(), FilesError>) -> Result<(), Violation> {
        let Err(error) = result else { return Ok(()) };
        if !self.session.has(aru) {
            return Err(Violation(
                "a write or truncation names a unit that is not open",
            ));
        }
        self.failed_units.borrow_mut().entry(aru).or_insert(error);
        Ok(())
    }

    /// Runs `work` concurrently with later requests.
    async fn run_concurrently(
        &self,
        memory: ReplyMemory,
        work: impl Future<Output = Reply> + 'static,
    ) {
        let permit = self.concurrent.acquire(1).await;
        let link = self.link.clone();
        let rt = link.rt().clone();
        rt.spawn_detached(async move {
            link.reply(work.await).await;
            drop((permit, memory));
        });
    }
}

async fn read(
    session: Session,
    number: u32,
    (file, aru): (FileId, Option<AruId>),
    offset: u64,
    len: u32,
) -> Reply {
    let read = session.read(file, aru, offset, len as usize).await;
    Reply::with_data(number, read)
}

/// Memory in bytes that the reply to `request` may need.
fn reply_bytes(request: &Request<'_>) -> u64 {
    match request {
        Request::Read { len, .. } => u64::from(*len),
        Request::List { .. } | Request::Status { .. } => LIST_BYTES,
        _ => 0,
    }
}

/// Bytes that were received and not used yet.
struct Incoming<'a> {
    link: &'a Link,
    buf: Option<Buf>,
    bytes: Vec<u8>,
    used: usize,
}

impl<'a> Incoming<'a> {
    fn new(link: &'a Link) -> Self {
        Self {
            link,
            buf: Some(link.pool().alloc(RECEIVE_BYTES)),
            bytes: Vec::new(),
            used: 0,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    fn consume(&mut self, len: usize) {
        self.used += len;
        if self.used == self.bytes.len() {
            self.bytes.clear();
            self.used = 0;
        }
    }

    /// The first `len` bytes, at most a frame; `None` when the client has gone before.
    async fn exactly(&mut self, len: usize) -> Option<&[u8]> {
        debug_assert!(len <= FRAME_MAX + 4);
        while self.bytes().len() < len {
            if !self.bytes().is_empty() {
                self.link.expect_rest(true);
            }
            let buf = self.buf.take()?;
            let (count, buf) = self.link.receive(buf).await?;
            self.bytes.drain(..self.used);
            self.used = 0;
            let whole = len.max(self.bytes.len() + count);
            self.bytes.reserve_exact(whole - self.bytes.len());
            self.bytes.extend_from_slice(&buf[..count]);
            self.buf = Some(buf);
        }
        self.link.expect_rest(false);
        Some(&self.bytes[self.used..self.used + len])
    }
}
