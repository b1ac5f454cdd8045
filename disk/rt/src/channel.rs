//! A channel from other threads to a task.
//!
//! The receiving task waits for an event of the driver, as it waits for any other operation: so a simulated driver delivers
//! what was sent in virtual time. What is sent once, such as the result of a thread, is sent through a channel for one value.
//!
//! Invariants:
//! 1. A value is sent, and the last sender dropped, before the event is raised. The receiver looks for values before it waits. So
//!    no value and no end is missed.
//! 2. A wait that its caller gives up stays with the receiver, so that it takes no later event away.

use crate::driver::{Data, DeviceId, Notifier, Op};
use crate::executor::{Io, Rt};
use std::io;
use std::sync::mpsc::{SyncSender, TryRecvError, sync_channel};
use tonearm_base::{Buf, BufPool};

/// Bytes of the operation that waits for an event.
const EVENT_BYTES: usize = 8;

/// A channel with room for `capacity` values. Its receiver belongs to `rt`, its senders to any thread.
///
/// # Errors
/// When the driver has no events, or none left.
pub fn channel<T: Send>(rt: &Rt, capacity: usize) -> io::Result<(Sender<T>, Receiver<T>)> {
    let (event, notifier) = rt.event()?;
    let (sender, values) = sync_channel(capacity);
    let raised = Raise(notifier);
    let receiver = Receiver {
        rt: rt.clone(),
        values,
        event,
        buf: Some(BufPool::new(0).alloc(EVENT_BYTES)),
        wait: None,
    };
    Ok((
        Sender {
            values: sender,
            raised,
        },
        receiver,
    ))
}

/// The sending end, for any thread.
pub struct Sender<T> {
    // Dropped before the event is raised.
    values: SyncSender<T>,
    raised: Raise,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            values: self.values.clone(),
            raised: self.raised.clone(),
        }
    }
}

impl<T> Sender<T> {
    /// Sends, and waits while there is no room. False when the receiver has gone.
    pub fn send(&self, value: T) -> bool {
        let sent = self.values.send(value).is_ok();
        self.raised.0.notify();
        sent
    }
}

/// Raises the event when it is dropped, too: the receiver may wait for the end of the last sender.
#[derive(Clone)]
struct Raise(Notifier);

impl Drop for Raise {
    fn drop(&mut self) {
        self.0.notify();
    }
}

/// The receiving end, for one task.
pub struct Receiver<T> {
    rt: Rt,
    values: std::sync::mpsc::Receiver<T>,
    event: DeviceId,
    /// Memory of the wait, while there is none.
    buf: Option<Buf>,
    wait: Option<Io>,
}

impl<T> Receiver<T> {
    /// The next value; `None` when there is no sender any more.
    pub async fn recv(&mut self) -> Option<T> {
        loop {
            match self.values.try_recv() {
                Ok(value) => return Some(value),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {}
            }
            let (rt, event, buf) = (&self.rt, self.event, &mut self.buf);
            let wait = self.wait.get_or_insert_with(|| {
                let buf = buf.take().expect("no wait has it");
                rt.stream(event, Op::Recv, Data::whole(buf))
            });
            let (raised, data) = wait.await;
            self.wait = None;
            self.buf = Some(data.into_buf());
            raised.ok()?;
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // It goes on by itself, and ends a wait.
        drop(self.rt.stream(self.event, Op::Close, Data::None));
    }
}
