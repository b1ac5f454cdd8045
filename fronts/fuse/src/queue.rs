//! The queue from the threads of a transport to the task that takes their requests.
//!
//! No lost wake-ups: a sender puts its request into the queue before it looks whether the receiver sleeps. The receiver says
//! that it sleeps before it looks into the queue for the last time.

use crate::members::Members;
use crate::message::{Answer, Request, STOPPED};
use crate::notices::{Notice, Then};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Most requests in it. Transports wait when it is full.
const CAPACITY: usize = 64;

struct Waker {
    asleep: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// What both ends share about units of programs.
pub(crate) struct Shared {
    pub members: Members,
    /// How long a unit may be open, in seconds.
    pub unit_time_s: AtomicU64,
    /// For the thread that sends notices to the kernel.
    notices: Mutex<Option<Receiver<Notice>>>,
}

impl Shared {
    pub fn take_notices(&self) -> Option<Receiver<Notice>> {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        notices.take()
    }
}

/// The sending end.
#[derive(Clone)]
pub struct Requests {
    sender: SyncSender<Request>,
    waker: Arc<Waker>,
    pub(crate) shared: Arc<Shared>,
}

/// The receiving end.
pub struct Incoming {
    receiver: Receiver<Request>,
    waker: Arc<Waker>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) notices: Sender<Notice>,
}

impl Requests {
    /// A queue. `wake` wakes the receiver, a task of the engine: it notifies what [`FuseServer::start`](crate::FuseServer::start)
    /// gets.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> (Self, Incoming) {
        let (sender, receiver) = sync_channel(CAPACITY);
        let waker = Arc::new(Waker {
            asleep: AtomicBool::new(false),
            wake: Box::new(wake),
        });
        let (notices, receiver_of_notices) = channel();
        let shared = Arc::new(Shared {
            members: Members::default(),
            unit_time_s: AtomicU64::new(u64::MAX),
            notices: Mutex::new(Some(receiver_of_notices)),
        });
        let incoming = Incoming {
            receiver,
            waker: waker.clone(),
            shared: shared.clone(),
            notices,
        };
        let requests = Self {
            sender,
            waker,
            shared,
        };
        (requests, incoming)
    }

    /// Sends. When the receiver is gone, the request gets an error as its answer.
    pub(crate) fn send(&self, request: Request) {
        let sent = match self.sender.try_send(request) {
            Err(TrySendError::Full(request)) => {
                self.waker.wake();
                self.sender.send(request).map_err(|refused| refused.0)
            }
            Err(TrySendError::Disconnected(request)) => Err(request),
            Ok(()) => Ok(()),
        };
        match sent {
            Ok(()) => self.waker.wake(),
            Err(request) => request.reply.send(Err(STOPPED)),
        }
    }

    /// Does what follows a notice that the kernel has taken.
    pub(crate) fn follow(&self, then: Option<Then>) {
        match then {
            Some(Then::Ask(request)) => self.send(*request),
            Some(Then::Answer(reply, result)) => reply.send(result.map(|()| Answer::Done)),
            None => {}
        }
    }
}

impl Waker {
    fn wake(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            (self.wake)();
        }
    }
}

impl Incoming {
    /// The next request. After `None` the receiver counts as asleep, and the next request wakes it.
    pub(crate) fn next(&self) -> Option<Request> {
        if let Ok(request) = self.receiver.try_recv() {
            return Some(request);
        }
        self.waker.asleep.store(true, Ordering::SeqCst);
        let request = self.receiver.try_recv().ok()?;
        self.waker.asleep.store(false, Ordering::SeqCst);
        Some(request)
    }

    /// Answers what is left with an error.
    pub(crate) fn refuse_all(self) {
        while let Ok(request) = self.receiver.try_recv() {
            request.reply.send(Err(STOPPED));
        }
    }
}
