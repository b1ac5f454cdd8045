//! Connected streams in memory, in front of another driver, which has the clock and the disks.
//!
//! Invariants:
//! 1. Bytes arrive in order. At most `capacity` bytes are on their way; a sender waits until there is room.
//! 2. Closing an end ends its operations, and the other end's once it has read what was sent.
//! 3. Operations end in the time in which they became possible.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_rt::{Completion, Data, DeviceId, Driver, IoError, Op, Request};

/// First device number of streams; those below belong to the inner driver.
pub const STREAM_BASE: u32 = 1 << 20;

const EPIPE: IoError = IoError { errno: 32 };
const EBADF: IoError = IoError { errno: 9 };

struct Pending {
    token: u64,
    request: Request,
    moved: usize,
}

#[derive(Default)]
struct End {
    inbox: VecDeque<u8>,
    closed: bool,
    receiving: VecDeque<Pending>,
    sending: VecDeque<Pending>,
}

struct State {
    ends: Vec<End>,
    capacity: usize,
    /// Chooses how many bytes a `Recv` gives, of those that there are.
    split: Box<dyn FnMut(usize) -> usize>,
    done: Vec<Completion>,
}

/// Handle on the streams of one driver.
#[derive(Clone)]
pub struct Streams(Rc<RefCell<State>>);

impl Default for Streams {
    fn default() -> Self {
        Self(Rc::new(RefCell::new(State {
            ends: Vec::new(),
            capacity: 208 << 10,
            split: Box::new(|there| there),
            done: Vec::new(),
        })))
    }
}

impl Streams {
    /// A new pair of connected ends.
    pub fn pair(&self) -> (DeviceId, DeviceId) {
        let mut state = self.0.borrow_mut();
        let first = state.ends.len() as u32;
        state.ends.push(End::default());
        state.ends.push(End::default());
        (
            DeviceId(STREAM_BASE + first),
            DeviceId(STREAM_BASE + first + 1),
        )
    }

    /// Sets the most bytes that are on their way from now on.
    pub fn set_capacity(&self, bytes: usize) {
        self.0.borrow_mut().capacity = bytes.max(1);
    }

    /// Lets `split` choose how many of the available bytes a `Recv` returns.
    pub fn set_split(&self, split: impl FnMut(usize) -> usize + 'static) {
        self.0.borrow_mut().split = Box::new(split);
    }

    /// A driver of these streams that leaves all other devices to `inner`.
    pub fn driver(&self, inner: Box<dyn Driver>) -> Box<dyn Driver> {
        Box::new(StreamDriver {
            streams: self.clone(),
            inner,
            inner_under_way: 0,
        })
    }
}

struct StreamDriver {
    streams: Streams,
    inner: Box<dyn Driver>,
    inner_under_way: usize,
}

impl Driver for StreamDriver {
    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn submit(&mut self, token: u64, request: Request) {
        if request.device.0 < STREAM_BASE {
            self.inner_under_way += 1;
            return self.inner.submit(token, request);
        }
        self.streams.0.borrow_mut().submit(token, request);
    }

    fn wait(&mut self, deadline: Option<Nanos>, completions: &mut Vec<Completion>) {
        let mut state = self.streams.0.borrow_mut();
        state.advance();
        completions.append(&mut state.done);
        drop(state);
        if !completions.is_empty() {
            return;
        }
        assert!(
            deadline.is_some() || self.inner_under_way > 0,
            "deadlock: streams wait for what nobody sends"
        );
        self.inner.wait(deadline, completions);
        self.inner_under_way -= completions.len();
    }
}

impl State {
    fn submit(&mut self, token: u64, request: Request) {
        let index = (request.device.0 - STREAM_BASE) as usize;
        let end = &mut self.ends[index];
        let pending = Pending {
            token,
            request,
            moved: 0,
        };
        if end.closed {
            return self.end(pending, Err(EBADF));
        }
        match pending.request.op {
            Op::Recv | Op::RecvAll => end.receiving.push_back(pending),
            Op::Send => end.sending.push_back(pending),
            Op::Close => {
                end.closed = true;
                end.inbox.clear();
                let receiving = std::mem::take(&mut end.receiving);
                let sending = std::mem::take(&mut end.sending);
                for pending in receiving {
                    let moved = pending.moved;
                    self.end(pending, Ok(moved));
                }
                for pending in sending {
                    self.end(pending, Err(EPIPE));
                }
                self.end(pending, Ok(0));
            }
            op => panic!("{op:?} is no operation of a stream"),
        }
    }

    fn end(&mut self, pending: Pending, result: Result<usize, IoError>) {
        self.done.push(Completion {
            token: pending.token,
            result,
            data: pending.request.data,
        });
    }

    /// Moves all bytes that can be moved. Small capacities take several rounds.
    fn advance(&mut self) {
        let mut moved = true;
        while moved {
            moved = false;
            for index in 0..self.ends.len() {
                moved |= self.send(index);
                moved |= self.receive(index);
            }
        }
    }

    fn send(&mut self, index: usize) -> bool {
        let Some(mut pending) = self.ends[index].sending.pop_front() else {
            return false;
        };
        let peer = &mut self.ends[index ^ 1];
        if peer.closed {
            self.end(pending, Err(EPIPE));
            return true;
        }
        let room = self.capacity.saturating_sub(peer.inbox.len());
        let len = pending.request.data.len();
        let to = len.min(pending.moved + room);
        let before = pending.moved;
        copy_out(&pending.request.data, before, to, &mut peer.inbox);
        pending.moved = to;
        if to == len {
            self.end(pending, Ok(len));
            return true;
        }
        self.ends[index].sending.push_front(pending);
        to > before
    }

    fn receive(&mut self, index: usize) -> bool {
        let peer_closed = self.ends[index ^ 1].closed;
        let Some(mut pending) = self.ends[index].receiving.pop_front() else {
            return false;
        };
        let inbox = &mut self.ends[index].inbox;
        if inbox.is_empty() {
            if peer_closed {
                let moved = pending.moved;
                self.end(pending, Ok(moved));
                return true;
            }
            self.ends[index].receiving.push_front(pending);
            return false;
        }
        let whole = pending.request.op == Op::RecvAll;
        let left = pending.request.data.len() - pending.moved;
        let there = left.min(inbox.len());
        let count = if whole {
            there
        } else {
            (self.split)(there).clamp(1, there)
        };
        let Data::Buf(buf, range) = &mut pending.request.data else {
            panic!("a receive has a buffer");
        };
        let start = range.start + pending.moved;
        for (to, byte) in buf[start..start + count]
            .iter_mut()
            .zip(inbox.drain(..count))
        {
            *to = byte;
        }
        pending.moved += count;
        if whole && count < left {
            self.ends[index].receiving.push_front(pending);
        } else {
            let moved = pending.moved;
            self.end(pending, Ok(moved));
        }
        true
    }
}

fn copy_out(data: &Data, from: usize, to: usize, out: &mut VecDeque<u8>) {
    match data {
        Data::None => {}
        Data::Buf(buf, range) => out.extend(&buf[range.start + from..range.start + to]),
        Data::Slices(slices) => {
            let mut at = 0;
            for slice in slices {
                let (start, end) = (from.max(at), to.min(at + slice.len()));
                if start < end {
                    out.extend(&slice[start - at..end - at]);
                }
                at += slice.len();
            }
        }
    }
}
