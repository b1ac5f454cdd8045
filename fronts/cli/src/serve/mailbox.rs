//! The channel from other threads to the engine thread.

use crate::control::{Event, Request};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use tonearm_uring::EventSender;

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
    /// A request, and the channel for its answer.
    Ask(Request, Sender<Event>),
    /// A virtual machine's ring is to start or stop.
    Vhost(tonearm_vhost::Ask),
    /// The queue of a ublk device is to be served.
    Ublk(tonearm_attach::Ask),
    /// End connections and close the store.
    Stop,
}

/// The sending end.
#[derive(Clone)]
pub struct Mailbox {
    messages: SyncSender<Message>,
    bell: EventSender,
}

impl Mailbox {
    /// A mailbox, and the engine thread's end of it. Each message rings `bell`.
    pub fn new(bell: EventSender) -> (Self, Receiver<Message>) {
        let (messages, receiver) = sync_channel(CAPACITY);
        (Self { messages, bell }, receiver)
    }

    /// Sends; false when the engine thread has ended.
    pub fn send(&self, message: Message) -> bool {
        let sent = self.messages.send(message).is_ok();
        self.bell.notify();
        sent
    }

    /// Asks. The events come as they are made; the last one is `Done` or `Failed`.
    pub fn ask(&self, request: Request) -> impl Iterator<Item = Event> + use<> {
        let (sender, events) = channel();
        self.send(Message::Ask(request, sender));
        let mut ended = false;
        std::iter::from_fn(move || {
            if ended {
                return None;
            }
            // There is no answer when the engine thread has ended meanwhile.
            let event = events.recv();
            let event =
                event.unwrap_or_else(|_| Event::Failed("the server is shutting down".into()));
            ended = !matches!(event, Event::Progress { .. });
            Some(event)
        })
    }
}
