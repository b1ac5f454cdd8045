//! The server's end, on the engine's thread: each connection is a session.
//!
//! Bounds: so many sessions; of each one frame being received, [`BESIDE_MAX`] requests that go on beside later ones,
//! and what `session.rs` allows of files and units. Memory of units is the disk's to bound.

use super::wire::{self, FRAME_MAX, HELLO_LEN, Reply, Request, VERSION, Violation};
use crate::files::{AruId, FilesError, FilesErrorKind};
use crate::session::{Session, Sessions};
use base::{Buf, BufPool};
use disk::Disk;
use rt::{Data, DeviceId, Notify, Op, Permit, Rt, Semaphore};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Most sessions at a time.
const SESSIONS_MAX: usize = 256;
/// Most requests of a session that go on beside later ones.
const BESIDE_MAX: u64 = 16;
/// Bytes received at once.
const RECEIVE_BYTES: usize = 128 << 10;

/// Serves the files of a disk to sockets; cheap to clone, of the engine's thread.
#[derive(Clone)]
pub struct FileServer(Rc<State>);

struct State {
    rt: Rt,
    pool: BufPool,
    sessions: Sessions,
    /// The stream of each connection.
    open: RefCell<BTreeMap<u64, DeviceId>>,
    changed: Notify,
}

impl FileServer {
    /// A server without clients.
    pub fn new(rt: &Rt, pool: &BufPool, disk: &Disk) -> Self {
        Self(Rc::new(State {
            rt: rt.clone(),
            pool: pool.clone(),
            sessions: Sessions::new(disk),
            open: RefCell::default(),
            changed: Notify::new(rt),
        }))
    }

    /// Sessions at present.
    pub fn sessions(&self) -> usize {
        self.0.open.borrow().len()
    }

    /// Serves a client that has connected.
    pub fn accept(&self, stream: DeviceId) {
        let state = self.0.clone();
        let full = state.open.borrow().len() >= SESSIONS_MAX;
        let number = state.sessions.begin();
        if !full {
            state.open.borrow_mut().insert(number, stream);
        }
        let rt = state.rt.clone();
        rt.spawn_detached(async move {
            let link = Rc::new(Link {
                rt: state.rt.clone(),
                pool: state.pool.clone(),
                stream,
                turn: Semaphore::new(&state.rt, 1),
            });
            if full {
                let text = format!("the server has {SESSIONS_MAX} sessions, as many as it may");
                link.fail(text).await;
            } else if let Ok(session) = state.sessions.get(number) {
                let connection = Connection {
                    link: link.clone(),
                    session,
                    doomed: RefCell::default(),
                    beside: Semaphore::new(&state.rt, BESIDE_MAX),
                };
                if let Err(Violation(why)) = connection.serve().await {
                    connection
                        .link
                        .fail(format!("the connection is closed: {why}"))
                        .await;
                }
            }
            // Units first, then locks; the close may wait for operations of the stream.
            state.sessions.end(number);
            if state.open.borrow_mut().remove(&number).is_some() || full {
                link.close().await;
            }
            state.changed.notify();
        });
    }

    /// Ends all connections, and waits until they have ended.
    pub async fn shut_down(&self) {
        let open = std::mem::take(&mut *self.0.open.borrow_mut());
        for (number, stream) in open {
            let closing = self.0.rt.stream(stream, Op::Close, Data::None);
            // It may be closed already.
            let _ = closing.done().await;
            self.0.sessions.end(number);
        }
    }
}

/// A connection's stream.
struct Link {
    rt: Rt,
    pool: BufPool,
    stream: DeviceId,
    /// Whose turn it is to send.
    turn: Semaphore,
}

impl Link {
    async fn send(&self, bytes: &[u8]) {
        let buf = self.pool.copy_of(bytes);
        let turn = self.turn.acquire(1).await;
        let sent = self.rt.stream(self.stream, Op::Send, Data::whole(buf));
        // A client that is gone is noticed where it is listened to.
        let _ = sent.done().await;
        drop(turn);
    }

    async fn reply(&self, number: u32, reply: Reply) {
        let mut bytes = Vec::with_capacity(64);
        reply.encode(number, &mut bytes);
        self.send(&bytes).await;
    }

    async fn fail(&self, text: String) {
        let error = FilesError::new(FilesErrorKind::Failed, text);
        self.reply(0, Reply::Failed(error)).await;
    }

    async fn close(&self) {
        let closing = self.rt.stream(self.stream, Op::Close, Data::None);
        // It may be closed already.
        let _ = closing.done().await;
    }
}

struct Connection {
    link: Rc<Link>,
    session: Session,
    /// The first error of each open unit, for its end.
    doomed: RefCell<BTreeMap<AruId, FilesError>>,
    beside: Semaphore,
}

impl Connection {
    /// Until the client has gone.
    async fn serve(&self) -> Result<(), Violation> {
        let mut incoming = Incoming::new(&self.link);
        let Some(hello) = incoming.exactly(HELLO_LEN).await else {
            return Ok(());
        };
        let version = wire::version_of(hello.first_chunk().expect("as long as asked for"))?;
        incoming.consume(HELLO_LEN);
        self.link.send(&wire::hello()).await;
        if version != VERSION {
            return Err(Violation(
                "it speaks another version of the protocol; use programs of one release",
            ));
        }
        loop {
            // Received once its length is there, which is bounded.
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
            self.answer(number, request).await?;
            incoming.consume(len);
        }
    }

    async fn answer(&self, number: u32, request: Request<'_>) -> Result<(), Violation> {
        let session = &self.session;
        let doomed = request
            .unit()
            .and_then(|aru| self.doomed.borrow().get(&aru).cloned());
        if let Some(error) = doomed {
            // It will not end: nothing more is done for it, and nobody sees what it has not written.
            if request.is_answered() {
                self.link.reply(number, Reply::Failed(error)).await;
            }
            return Ok(());
        }
        let result = match request {
            Request::Open { name, how } => {
                let file = session.open(name, how).await;
                file.map(|opened| Reply::Number(opened.file.0))
            }
            Request::Create { aru, name } => {
                let file = session.create(aru, name).await;
                file.map(|opened| Reply::Number(opened.file.0))
            }
            Request::OpenVolume { name } => {
                let file = session.open_volume(name);
                file.map(|opened| Reply::Number(opened.file.0))
            }
            Request::Zero { file, offset, len } => {
                let zeroed = session.zero(file, offset, len).await;
                zeroed.map(|()| Reply::Done)
            }
            Request::Status { file, offset, len } => {
                let runs = session.status(file, offset, len).await;
                runs.map(Reply::Runs)
            }
            Request::Close { file } => {
                session.close(file);
                Ok(Reply::Done)
            }
            Request::List => Ok(Reply::Files(session.list())),
            Request::Exists { name } => Ok(Reply::Flag(session.exists(name))),
            Request::Delete { name } => session.delete(name).await.map(|()| Reply::Done),
            Request::Rename { from, to } => session.rename(from, to).await.map(|()| Reply::Done),
            Request::Size { file, aru } => session.size(file, aru).map(Reply::Number),
            Request::Read {
                file,
                aru: None,
                offset,
                len,
            } => {
                let permit = self.beside.acquire(1).await;
                let session = session.clone();
                self.beside(number, permit, async move {
                    let read = session.read(file, None, offset, len as usize).await;
                    read.map(Reply::Data)
                });
                return Ok(());
            }
            Request::Read {
                file,
                aru,
                offset,
                len,
            } => {
                let read = session.read(file, aru, offset, len as usize).await;
                read.map(Reply::Data)
            }
            Request::Begin { aru } => {
                let begun = session.begin(aru);
                return begun.map_err(|_| Violation("too many units are open, or one twice"));
            }
            Request::Write {
                file,
                aru: Some(aru),
                offset,
                data,
            } => {
                let written = session.write(file, Some(aru), offset, data).await;
                return self.within(aru, written);
            }
            Request::Write {
                file,
                aru: None,
                offset,
                data,
            } => {
                let written = session.write(file, None, offset, data).await;
                written.map(|()| Reply::Done)
            }
            Request::Truncate {
                file,
                aru: Some(aru),
                size,
            } => {
                let cut = session.truncate(file, Some(aru), size).await;
                return self.within(aru, cut);
            }
            Request::Truncate {
                file,
                aru: None,
                size,
            } => {
                let cut = session.truncate(file, None, size).await;
                cut.map(|()| Reply::Done)
            }
            Request::End { aru, durable } => {
                let doomed = self.doomed.borrow_mut().remove(&aru);
                let ended = match doomed {
                    Some(error) => {
                        session.abort(aru);
                        Err(error)
                    }
                    // Here, and not beside: it takes effect before anything that comes later, the end of the
                    // session above all.
                    None => session.end(aru).await,
                };
                match ended {
                    Ok(lsn) if durable => {
                        let permit = self.beside.acquire(1).await;
                        let session = session.clone();
                        self.beside(number, permit, async move {
                            let durable = session.acknowledge(lsn, true).await;
                            durable.map(|()| Reply::Done)
                        });
                        return Ok(());
                    }
                    Ok(lsn) => session.acknowledge(lsn, false).await.map(|()| Reply::Done),
                    Err(error) => Err(error),
                }
            }
            Request::Abort { aru } => {
                self.doomed.borrow_mut().remove(&aru);
                session.abort(aru);
                return Ok(());
            }
            Request::Flush => {
                let permit = self.beside.acquire(1).await;
                let session = session.clone();
                self.beside(number, permit, async move {
                    session.flush().await.map(|()| Reply::Done)
                });
                return Ok(());
            }
            Request::Lock { file, level } => session.lock(file, level).map(Reply::Flag),
            Request::Unlock { file, level } => session.unlock(file, level).map(|()| Reply::Done),
            Request::Reserved { file } => session.reserved(file).map(Reply::Flag),
        };
        let reply = result.unwrap_or_else(Reply::Failed);
        self.link.reply(number, reply).await;
        Ok(())
    }

    /// Keeps the first error of an open unit for its end.
    fn within(&self, aru: AruId, result: Result<(), FilesError>) -> Result<(), Violation> {
        let Err(error) = result else { return Ok(()) };
        if !self.session.has(aru) {
            return Err(Violation(
                "a write or truncation names a unit that is not open",
            ));
        }
        self.doomed.borrow_mut().entry(aru).or_insert(error);
        Ok(())
    }

    fn beside(
        &self,
        number: u32,
        permit: Permit,
        work: impl Future<Output = Result<Reply, FilesError>> + 'static,
    ) {
        let link = self.link.clone();
        let rt = link.rt.clone();
        rt.spawn_detached(async move {
            let reply = work.await.unwrap_or_else(Reply::Failed);
            link.reply(number, reply).await;
            drop(permit);
        });
    }
}

/// What has been received and not yet used.
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
            buf: Some(link.pool.alloc(RECEIVE_BYTES)),
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
            let buf = self.buf.take()?;
            let received = self
                .link
                .rt
                .stream(self.link.stream, Op::Recv, Data::whole(buf));
            let (result, data) = received.await;
            let (count, buf) = (result.ok()?, data.into_buf());
            if count == 0 {
                return None;
            }
            self.bytes.drain(..self.used);
            self.used = 0;
            self.bytes.extend_from_slice(&buf[..count]);
            self.buf = Some(buf);
        }
        Some(&self.bytes[self.used..self.used + len])
    }
}
