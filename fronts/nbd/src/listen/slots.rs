//! The bound on open handshakes, and which client loses its slot when all are taken.
//!
//! A handshake takes milliseconds, so one that is still open after [`GRACE`] is most likely that of a client that sends
//! nothing. It may wait for its deadline, but not while others wait for a slot: then the oldest one is cut.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown};

/// How old a handshake must be before it is cut for another.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// All slots.
#[derive(Debug)]
pub(super) struct Slots {
    max: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Slots given out, those without a connection yet included.
    taken: usize,
    stopping: bool,
    next_id: u64,
    /// Handshakes in progress; the smallest id is the oldest.
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    since: Instant,
    socket: Arc<OwnedFd>,
    cut: bool,
}

impl Slots {
    pub(super) fn new(max: usize) -> Arc<Slots> {
        Arc::new(Slots {
            max,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Takes a slot, waiting for one; `None` when the server stops.
    pub(super) fn reserve(self: &Arc<Slots>) -> Option<Slot> {
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            if state.taken < self.max {
                state.taken += 1;
                return Some(Slot {
                    slots: Arc::clone(self),
                    id: None,
                });
            }
            let wait = match state.open.values_mut().find(|open| !open.cut) {
                None => GRACE,
                Some(oldest) => {
                    let wait = GRACE.saturating_sub(oldest.since.elapsed());
                    if wait.is_zero() {
                        oldest.cut();
                        GRACE
                    } else {
                        wait
                    }
                }
            };
            state = self
                .changed
                .wait_timeout(state, wait)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Cuts all handshakes and refuses new ones, then waits until the last
    /// slot is given back.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        state.open.values_mut().for_each(Open::cut);
        self.changed.notify_all();
        while state.taken > 0 {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn taken(&self) -> usize {
        self.lock().taken
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Shuts the socket down under its handshake, which then sees the end of the stream.
    fn cut(&mut self) {
        self.cut = true;
        // Fails only when the client is gone already.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

/// One slot, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    id: Option<u64>,
}

impl Slot {
    /// Starts the clock of a connection. A server that stops cuts it at once.
    pub(super) fn occupy(&mut self, socket: OwnedFd) -> Arc<OwnedFd> {
        let socket = Arc::new(socket);
        let mut open = Open {
            since: Instant::now(),
            socket: Arc::clone(&socket),
            cut: false,
        };
        let mut state = self.slots.lock();
        if state.stopping {
            open.cut();
        }
        let id = state.next_id;
        state.next_id += 1;
        state.open.insert(id, open);
        self.id = Some(id);
        socket
    }

    /// Ends the handshake in success and gives back the slot; `None` when the
    /// connection was cut meanwhile.
    pub(super) fn release(mut self, socket: Arc<OwnedFd>) -> Option<OwnedFd> {
        let id = self.id.take()?;
        let open = self.slots.lock().open.remove(&id)?;
        let cut = open.cut;
        drop(open);
        let socket = Arc::into_inner(socket).expect("the registry's handle is gone");
        (!cut).then_some(socket)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        if let Some(id) = self.id {
            state.open.remove(&id);
        }
        state.taken -= 1;
        self.slots.changed.notify_all();
    }
}
