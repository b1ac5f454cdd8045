//! A mount without a kernel, for tests: operations come to the server as the transport sends them.

mod hostile;

pub use self::hostile::use_all;
pub use crate::message::{Changes, Create, Make, Operation, Read, When, Write, WriteKind};

use crate::message::{Answer, Caller, DirentRef, Request, Responder};
use crate::notices::Notice;
use crate::queue::Requests;
use crate::server::FuseServer;
use crate::translate::{attributes, generation};
use rustix::io::Errno;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use tonearm_base::Nanos;
use tonearm_fs::{Attr, Fs, Inode};
use tonearm_requests::UnderWay;
use tonearm_rt::{Notify, Rt};

/// How often an answer is looked for.
const LOOK: Nanos = Nanos::from_micros(20);
/// Most lines of a listing in one answer.
const LINES_MAX: usize = 20;

/// Who asks, and on which handle.
#[derive(Clone, Copy, Default)]
pub struct By {
    /// User and group.
    pub user: (u32, u32),
    /// The handle, or 0.
    pub handle: u64,
    /// The unit of the process.
    pub member: Option<u64>,
}

/// What an answer says.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// A file.
    pub file: Option<(u64, Inode)>,
    /// The number of a unit, an offset, or a count of bytes.
    pub number: u64,
    /// The content of links and attributes.
    pub bytes: Vec<u8>,
    /// The lines of a listing: place, file, and name.
    pub lines: Vec<(u64, u64, Vec<u8>)>,
}

impl Said {
    /// The number of the file.
    ///
    /// # Panics
    /// When the answer is of none.
    pub fn ino(&self) -> u64 {
        self.file.as_ref().expect("an answer with a file").0
    }
}

/// What the kernel would get of a file, which must not panic.
fn translate(attr: &Attr) {
    let _ = (attributes(attr, 4096), generation(attr));
}

/// Answers the test.
struct Asked {
    sender: Sender<Result<Said, Errno>>,
    lines: Vec<(u64, u64, Vec<u8>)>,
}

impl Responder for Asked {
    fn add(&mut self, entry: DirentRef<'_>) -> bool {
        let (DirentRef::Name(listed) | DirentRef::WithAttr(listed, ..)) = entry;
        if let DirentRef::WithAttr(_, attr, _) = entry {
            translate(attr);
        }
        let has_room = self.lines.len() < LINES_MAX;
        if has_room {
            self.lines
                .push((listed.place, listed.ino, listed.name.clone()));
        }
        !has_room
    }

    fn send(self: Box<Self>, answer: Result<Answer, Errno>) {
        let Self { sender, lines } = *self;
        let said = answer.map(|answer| {
            let bytes = answer.bytes();
            let (file, number, bytes) = match answer {
                Answer::Entry(attr, _) | Answer::Attr(attr, _) | Answer::Created(attr, ..) => {
                    translate(&attr);
                    (Some((attr.ino, attr.inode)), 0, Vec::new())
                }
                Answer::Pieces(_) => (None, bytes, Vec::new()),
                Answer::Bytes(bytes) => (None, 0, bytes),
                Answer::Count(number) | Answer::Offset(number) | Answer::Begun(number) => {
                    (None, number, Vec::new())
                }
                Answer::Space(space) => (None, space.blocks, Vec::new()),
                Answer::Done | Answer::NoEntry(_) | Answer::Opened { .. } => (None, 0, Vec::new()),
            };
            Said {
                file,
                number,
                bytes,
                lines,
            }
        });
        // A test may be over.
        let _ = sender.send(said);
    }
}

/// A mount whose kernel keeps nothing.
pub struct Mount {
    rt: Rt,
    requests: Requests,
    arrived: Notify,
    notices: Receiver<Notice>,
    server: FuseServer,
}

impl Mount {
    /// Serves the file system to the test.
    ///
    /// # Panics
    /// Never: nobody else takes the notices.
    pub fn start(fs: &Fs, rt: &Rt) -> Self {
        let arrived = Notify::new(rt);
        // Only this thread sends, and wakes the server itself.
        let (requests, incoming) = Requests::new(|| {});
        let notices = requests.shared.take_notices().expect("nobody has them");
        let server = FuseServer::start(fs, rt, &arrived, incoming, &UnderWay::default());
        Self {
            rt: rt.clone(),
            requests,
            arrived,
            notices,
            server,
        }
    }

    /// Carries an operation out.
    ///
    /// # Errors
    /// What the program would get.
    ///
    /// # Panics
    /// When the server has.
    pub async fn ask(&self, by: By, operation: Operation) -> Result<Said, Errno> {
        let (sender, answer) = channel();
        let (uid, gid) = by.user;
        let lines = Vec::new();
        self.send(Request {
            // No process of this number is there.
            caller: Caller {
                uid,
                gid,
                thread: 0,
            },
            member: by.member,
            handle: by.handle,
            operation,
            reply: Box::new(Asked { sender, lines }),
        });
        loop {
            match answer.try_recv() {
                Ok(answer) => return answer,
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => panic!("a request without an answer"),
            }
            while let Ok(notice) = self.notices.try_recv() {
                self.requests.follow(notice.then);
                self.arrived.notify();
            }
            self.rt.sleep(LOOK).await;
        }
    }

    fn send(&self, request: Request) {
        self.requests.send(request);
        self.arrived.notify();
    }

    /// Ends the mount. False when operations still go on.
    pub async fn end(self) -> bool {
        self.server.shut_down(Nanos::from_secs(10)).await
    }
}
