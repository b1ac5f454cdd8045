//! The channel from other threads to the engine thread.

use crate::control::{Event, Request};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use tonearm_rt::{Receiver, Rt, Sender, channel};

/// Capacity of the mailbox; senders block when it is full.
const CAPACITY: usize = 256;

/// A message to the engine thread.
pub enum Message {
    /// A connection whose handshake is over.
    Connection(tonearm_nbd::Accepted),
    /// The same, of this kernel: its client goes on when this server is killed.
    Attach(tonearm_nbd::Accepted),
    /// A program that wants a session with the files.
    Files(OwnedFd),
    /// A request, and where its answer goes.
    Ask(Request, Replies),
    /// A virtual machine's ring is to start or stop.
    Vhost(tonearm_vhost::Ask),
    /// The queue of a ublk device is to be served.
    Ublk(tonearm_attach::Ask),
    /// The client of a request has gone before its answer.
    ClientGone,
    /// End connections and close the store.
    Stop,
}

/// The sending end.
#[derive(Clone)]
pub struct Mailbox(Sender<Message>);

impl Mailbox {
    /// A mailbox, and the engine thread's end of it.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn new(rt: &Rt) -> std::io::Result<(Self, Receiver<Message>)> {
        let (sender, receiver) = channel(rt, CAPACITY)?;
        Ok((Self(sender), receiver))
    }

    /// Sends; false when the engine thread has ended.
    pub fn send(&self, message: Message) -> bool {
        self.0.send(message)
    }

    /// Asks. The events come as they are made; the last one is `Done` or `Failed`.
    pub fn ask(&self, request: Request) -> Asked {
        let (sender, events) = mpsc::channel();
        let client_gone = Arc::new(AtomicBool::new(false));
        let replies = Replies {
            events: sender,
            client_gone: client_gone.clone(),
        };
        self.send(Message::Ask(request, replies));
        Asked {
            events,
            ended: false,
            client_gone,
            mailbox: self.clone(),
        }
    }
}

/// Where the events of a request go.
#[derive(Clone)]
pub struct Replies {
    events: mpsc::Sender<Event>,
    client_gone: Arc<AtomicBool>,
}

impl Replies {
    /// Sends an event; false when nobody waits for it any more.
    pub fn send(&self, event: Event) -> bool {
        self.events.send(event).is_ok()
    }

    /// True when nobody waits for the answer any more.
    pub fn is_client_gone(&self) -> bool {
        self.client_gone.load(Ordering::SeqCst)
    }
}

/// A request that was made. When it is dropped, nobody waits for the answer any more.
pub struct Asked {
    events: mpsc::Receiver<Event>,
    ended: bool,
    client_gone: Arc<AtomicBool>,
    mailbox: Mailbox,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.client_gone.store(true, Ordering::SeqCst);
        if !self.ended {
            self.mailbox.send(Message::ClientGone);
        }
    }
}

impl Asked {
    /// True when the last event has come.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The next event; `None` when there is none within `span`.
    pub fn within(&mut self, span: Duration) -> Option<Event> {
        let event = match self.events.recv_timeout(span) {
            Ok(event) => event,
            Err(mpsc::RecvTimeoutError::Timeout) => return None,
            // There is no answer when the engine thread has ended meanwhile.
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Event::Failed("the server is shutting down".into())
            }
        };
        self.ended = !matches!(event, Event::Progress { .. });
        Some(event)
    }
}

impl Iterator for Asked {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.ended {
            return None;
        }
        loop {
            if let Some(event) = self.within(Duration::MAX) {
                return Some(event);
            }
        }
    }
}
