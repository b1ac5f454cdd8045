//! The client's end: a session with a server, shared by the threads of a process.
//!
//! A thread that waits for a reply reads for all threads, unless another one does so already. Requests without a reply
//! are collected. They are sent with the next request that has one, or when there are many bytes of them.

use super::wire::{self, DATA_MAX, HELLO_LEN, Request, VERSION};
use crate::files::{
    AruId, FileId, FileInfo, Files, FilesError, FilesErrorKind, Level, Listing, NewAttr, Open,
};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tonearm_base::Lsn;
use tonearm_disk::Marks;
use tonearm_engine::ArchiveInfo;
use tonearm_uring::{NotForChildren, connect_unix};

/// Collected bytes from which on they are sent at once.
const COLLECT_BYTES: usize = 256 << 10;
/// Bytes that are written in a unit before the client asks the server whether the unit has failed, so that a failed
/// unit is not sent to its end.
const UNASKED_BYTES: usize = 4 << 20;
/// How long a server may take for its hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// A session with the server of a store.
pub struct RemoteFiles {
    socket: PathBuf,
    process: u32,
    /// Declared before the stream, which is closed after it.
    _own: NotForChildren,
    stream: UnixStream,
    out: Mutex<Out>,
    inbox: Mutex<Inbox>,
    arrived: Condvar,
    /// Open units, each with the bytes written since the server was asked about it. Requests with any other unit are
    /// refused here.
    units: Mutex<BTreeMap<AruId, usize>>,
    next_unit: AtomicU64,
}

#[derive(Default)]
struct Out {
    collected: Vec<u8>,
    number: u32,
}

#[derive(Default)]
struct Inbox {
    /// Replies, by their numbers; the bytes begin after the number.
    replies: BTreeMap<u32, Vec<u8>>,
    /// A thread reads for all threads.
    reading: bool,
    /// Why no more replies come.
    over: Option<String>,
    /// Bytes that were received and are not a whole frame yet.
    bytes: Vec<u8>,
}

impl RemoteFiles {
    /// Connects to the server at `socket` and says hello.
    ///
    /// # Errors
    /// `NotFound` when no server listens there, or it has stopped listening; `Failed` when it cannot be reached or
    /// speaks another version.
    pub fn connect(socket: &Path) -> Result<Self, FilesError> {
        let place = socket.display();
        let stream = connect_unix(socket).map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    FilesErrorKind::NotFound
                }
                _ => FilesErrorKind::Failed,
            };
            FilesError::new(kind, format!("cannot reach a server at {place}: {error}"))
        })?;
        let version = greet(&stream).map_err(|error| {
            // A server that is ending still accepts connections; there is no server after that.
            let kind = match error.kind() {
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof => FilesErrorKind::NotFound,
                _ => FilesErrorKind::Failed,
            };
            FilesError::new(
                kind,
                format!("the server at {place} does not answer as one of Tonearm's: {error}"),
            )
        })?;
        if version != VERSION {
            return Err(failed(format!(
                "the server at {place} speaks version {version} of the protocol, this program {VERSION}; use \
                 programs of one release"
            )));
        }
        Ok(Self {
            socket: socket.to_path_buf(),
            process: std::process::id(),
            _own: NotForChildren::keep(&stream),
            stream,
            out: Mutex::default(),
            inbox: Mutex::default(),
            arrived: Condvar::new(),
            units: Mutex::default(),
            next_unit: AtomicU64::new(1),
        })
    }

    /// Called before any lock is taken: in a forked child the thread that would release the lock does not exist.
    fn check_process(&self) -> Result<(), FilesError> {
        if std::process::id() == self.process {
            Ok(())
        } else {
            Err(failed(
                "this process was forked from the one that has the session; open the files after the fork",
            ))
        }
    }

    /// Sends `request`, at the latest with the next request that has a reply. Returns its number.
    fn send(&self, request: &Request<'_>, now: bool) -> Result<u32, FilesError> {
        self.check_process()?;
        let mut out = locked(&self.out);
        // The number 0 is the server's. A reply is taken long before its number comes again.
        out.number = out.number.checked_add(1).unwrap_or(1);
        let number = out.number;
        request.encode(number, &mut out.collected);
        if now || out.collected.len() >= COLLECT_BYTES {
            let sent = (&self.stream).write_all(&out.collected);
            out.collected.clear();
            out.collected.shrink_to(2 * COLLECT_BYTES);
            sent.map_err(|_| {
                let gone = self.gone();
                let over = &mut locked(&self.inbox).over;
                over.get_or_insert_with(|| gone.text.clone());
                gone
            })?;
        }
        Ok(number)
    }

    /// Sends `request` and waits for its result.
    fn ask<T: DeserializeOwned>(&self, request: Request<'_>) -> Result<T, FilesError> {
        let reply = self.reply_to(&request)?;
        match self.result_of(&reply)? {
            (result, []) => Ok(result),
            _ => Err(self.unexpected()),
        }
    }

    fn reply_to(&self, request: &Request<'_>) -> Result<Vec<u8>, FilesError> {
        debug_assert!(request.is_answered());
        request.check().map_err(|why| failed(why.0))?;
        let number = self.send(request, true)?;
        self.receive(number)
    }

    /// Decodes the result of a reply, and the data after it.
    fn result_of<'a, T: DeserializeOwned>(
        &self,
        reply: &'a [u8],
    ) -> Result<(T, &'a [u8]), FilesError> {
        let (result, data) = wire::result_of(reply).ok_or_else(|| self.unexpected())?;
        Ok((result?, data))
    }

    /// Waits for the reply to `number`.
    fn receive(&self, number: u32) -> Result<Vec<u8>, FilesError> {
        let mut inbox = locked(&self.inbox);
        loop {
            if let Some(reply) = inbox.replies.remove(&number) {
                return Ok(reply);
            }
            if let Some(why) = &inbox.over {
                return Err(failed(why.clone()));
            }
            if inbox.reading {
                let waited = self.arrived.wait(inbox);
                inbox = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            inbox.reading = true;
            let bytes = std::mem::take(&mut inbox.bytes);
            drop(inbox);
            let read = self.read_one(bytes);
            inbox = locked(&self.inbox);
            inbox.reading = false;
            match read {
                Ok((0, reply, _)) => {
                    let why = self.result_of::<()>(&reply);
                    inbox.over = Some(why.err().unwrap_or_else(|| self.unexpected()).text);
                }
                Ok((number, reply, rest)) => {
                    inbox.bytes = rest;
                    inbox.replies.insert(number, reply);
                }
                Err(why) => inbox.over = Some(why),
            }
            self.arrived.notify_all();
        }
    }

    /// Reads on from `bytes` until there is a frame. Also returns the bytes after the frame.
    fn read_one(&self, mut bytes: Vec<u8>) -> Result<(u32, Vec<u8>, Vec<u8>), String> {
        let broken = |why: wire::Violation| {
            format!(
                "the server at {} breaks the protocol: {why}",
                self.socket.display()
            )
        };
        loop {
            let len = wire::frame_len(&bytes).map_err(broken)?;
            if let Some(len) = len
                && bytes.len() >= len
            {
                let (number, reply) = wire::number_of(&bytes[4..len]).map_err(broken)?;
                let reply = reply.to_vec();
                bytes.drain(..len);
                return Ok((number, reply, bytes));
            }
            let start = bytes.len();
            bytes.resize((start + (64 << 10)).max(len.unwrap_or(0)), 0);
            match (&self.stream).read(&mut bytes[start..]) {
                Ok(0) => return Err(self.gone().text),
                Ok(count) => bytes.truncate(start + count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => bytes.truncate(start),
                Err(_) => return Err(self.gone().text),
            }
        }
    }

    fn gone(&self) -> FilesError {
        failed(format!(
            "the server at {} has gone away; open the files again when the store is served again",
            self.socket.display()
        ))
    }

    fn unexpected(&self) -> FilesError {
        failed(format!(
            "the server at {} has answered something else than it was asked",
            self.socket.display()
        ))
    }

    fn check_unit(&self, aru: AruId) -> Result<(), FilesError> {
        self.check_process()?;
        if locked(&self.units).contains_key(&aru) {
            Ok(())
        } else {
            Err(failed(format!(
                "unit {} is not open in this session",
                aru.0
            )))
        }
    }

    /// Counts bytes written in `unit`. True when they are many since the server was asked about the unit.
    fn is_to_be_asked(&self, unit: AruId, bytes: usize) -> bool {
        let mut units = locked(&self.units);
        let Some(unasked) = units.get_mut(&unit) else {
            return false;
        };
        *unasked += bytes;
        if *unasked < UNASKED_BYTES {
            return false;
        }
        *unasked = 0;
        true
    }
}

impl Drop for RemoteFiles {
    fn drop(&mut self) {
        // A forked child leaves the connection to its parent.
        if std::process::id() == self.process {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }
}

impl Files for RemoteFiles {
    fn in_process(&self) -> Option<usize> {
        None
    }

    fn is_over(&self) -> bool {
        self.check_process().is_ok() && locked(&self.inbox).over.is_some()
    }

    fn open(&self, name: &str, how: Open) -> Result<FileId, FilesError> {
        self.ask(Request::Open { name, how })
    }

    fn create(&self, aru: AruId, name: &str) -> Result<FileId, FilesError> {
        self.check_unit(aru)?;
        self.ask(Request::Create { aru, name })
    }

    fn open_volume(&self, name: &str) -> Result<FileId, FilesError> {
        self.ask(Request::OpenVolume { name })
    }

    fn close(&self, file: FileId) {
        // A session that is over has no open files.
        let _ = self.ask::<()>(Request::Close { file });
    }

    fn look(&self, path: &str) -> Result<FileInfo, FilesError> {
        self.ask(Request::Look { path })
    }

    fn list(&self, path: &str, after: u64) -> Result<Listing, FilesError> {
        self.ask(Request::List { path, after })
    }

    fn make_dir(&self, path: &str) -> Result<(), FilesError> {
        self.ask(Request::MakeDir { path })
    }

    fn read_link(&self, path: &str) -> Result<String, FilesError> {
        self.ask(Request::ReadLink { path })
    }

    fn make_link(&self, path: &str, target: &str) -> Result<(), FilesError> {
        self.ask(Request::MakeLink { path, target })
    }

    fn set_attr(&self, path: &str, aru: Option<AruId>, set: NewAttr) -> Result<(), FilesError> {
        if let Some(unit) = aru {
            self.check_unit(unit)?;
        }
        self.ask(Request::SetAttr { path, aru, set })
    }

    fn exists(&self, name: &str) -> Result<bool, FilesError> {
        self.ask(Request::Exists { name })
    }

    fn delete(&self, name: &str) -> Result<(), FilesError> {
        self.ask(Request::Delete { name })
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), FilesError> {
        self.ask(Request::Rename { from, to })
    }

    fn size(&self, file: FileId, aru: Option<AruId>) -> Result<u64, FilesError> {
        self.ask(Request::Size { file, aru })
    }

    fn read(
        &self,
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, FilesError> {
        let mut done = 0;
        while done < buf.len() {
            let part = (buf.len() - done).min(DATA_MAX);
            let reply = self.reply_to(&Request::Read {
                file,
                aru,
                offset: offset.saturating_add(done as u64),
                len: part as u32,
            })?;
            let ((), data) = self.result_of(&reply)?;
            if data.len() > part {
                return Err(self.unexpected());
            }
            buf[done..done + data.len()].copy_from_slice(data);
            done += data.len();
            if data.len() < part {
                break;
            }
        }
        Ok(done)
    }

    fn begin(&self) -> Result<AruId, FilesError> {
        let aru = AruId(self.next_unit.fetch_add(1, Ordering::Relaxed));
        self.send(&Request::Begin { aru }, false)?;
        locked(&self.units).insert(aru, 0);
        Ok(aru)
    }

    fn write(
        &self,
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        data: &[u8],
    ) -> Result<(), FilesError> {
        let Some(unit) = aru else {
            if data.len() <= DATA_MAX {
                return self.ask(Request::Write {
                    file,
                    aru,
                    offset,
                    data,
                });
            }
            // A unit makes the write atomic also where it takes several frames.
            let unit = self.begin()?;
            return match self.write(file, Some(unit), offset, data) {
                Ok(()) => self.end(unit, false).map(|_| ()),
                Err(error) => {
                    self.abort(unit);
                    Err(error)
                }
            };
        };
        self.check_unit(unit)?;
        let mut offset = offset;
        for data in data.chunks(DATA_MAX) {
            self.send(
                &Request::Write {
                    file,
                    aru,
                    offset,
                    data,
                },
                false,
            )?;
            offset = offset.saturating_add(data.len() as u64);
            if self.is_to_be_asked(unit, data.len()) {
                self.size(file, aru)?;
            }
        }
        Ok(())
    }

    fn truncate(&self, file: FileId, aru: Option<AruId>, size: u64) -> Result<(), FilesError> {
        let Some(unit) = aru else {
            return self.ask(Request::Truncate { file, aru, size });
        };
        self.check_unit(unit)?;
        self.send(&Request::Truncate { file, aru, size }, false)?;
        Ok(())
    }

    fn zero(&self, file: FileId, offset: u64, len: u64) -> Result<(), FilesError> {
        self.ask(Request::Zero { file, offset, len })
    }

    fn status(&self, file: FileId, offset: u64, len: u64) -> Result<Vec<(u64, bool)>, FilesError> {
        self.ask(Request::Status { file, offset, len })
    }

    fn end(&self, aru: AruId, durable: bool) -> Result<Lsn, FilesError> {
        self.check_unit(aru)?;
        locked(&self.units).remove(&aru);
        Ok(Lsn(self.ask(Request::End { aru, durable })?))
    }

    fn abort(&self, aru: AruId) {
        if self.check_process().is_ok() && locked(&self.units).remove(&aru).is_some() {
            // A session that is over has no open units.
            let _ = self.send(&Request::Abort { aru }, true);
        }
    }

    fn flush(&self) -> Result<(), FilesError> {
        self.ask(Request::Flush)
    }

    fn marks(&self) -> Result<Marks, FilesError> {
        let (appended, flushed, durable) = self.ask(Request::Marks)?;
        Ok(Marks {
            appended: Lsn(appended),
            flushed: Lsn(flushed),
            durable: Lsn(durable),
        })
    }

    fn wait_durable(&self, lsn: Lsn) -> Result<(), FilesError> {
        self.ask(Request::WaitDurable { lsn: lsn.0 })
    }

    fn archive(&self) -> Result<Option<ArchiveInfo>, FilesError> {
        self.ask(Request::Archive)
    }

    fn wait_archived(&self, lsn: Lsn) -> Result<(), FilesError> {
        self.ask(Request::WaitArchived { lsn: lsn.0 })
    }

    fn lock(&self, file: FileId, level: Level) -> Result<bool, FilesError> {
        self.ask(Request::Lock { file, level })
    }

    fn unlock(&self, file: FileId, level: Level) -> Result<(), FilesError> {
        self.ask(Request::Unlock { file, level })
    }

    fn reserved(&self, file: FileId) -> Result<bool, FilesError> {
        self.ask(Request::Reserved { file })
    }
}

/// Says hello. Returns the server's version.
fn greet(stream: &UnixStream) -> io::Result<u32> {
    let mut stream = stream;
    stream.set_read_timeout(Some(HELLO_TIMEOUT))?;
    stream.write_all(&wire::hello())?;
    let mut hello = [0; HELLO_LEN];
    stream.read_exact(&mut hello)?;
    stream.set_read_timeout(None)?;
    wire::version_of(&hello).map_err(io::Error::other)
}

fn failed(text: impl Into<String>) -> FilesError {
    FilesError::new(FilesErrorKind::Failed, text)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
