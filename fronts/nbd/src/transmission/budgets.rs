//! Memory that clients can make the server hold: replies, and large payloads that are not yet whole.
//!
//! **Replies.** A connection always has a little memory of its own, so that a small request never waits for other
//! clients. The connections share more memory: one half of it is for large replies, one half for all others. So a
//! client that asks for much and takes no reply delays only others that ask for much. The bytes of a reply are counted
//! in its connection ([`super::link::ReplyMemory`]) and, unless they are the connection's own, held by a permit.
//!
//! **Large payloads.** While there is plenty of memory, a payload is charged at once, otherwise step by step as it
//! comes. It moves to the target's budget when it is whole. So a client that announces much and sends little holds
//! little memory, and none of the memory for whole payloads.
//!
//! Invariants of the budget of payloads:
//! 1. Charges are at most the limit, plus what one payload needs beyond it.
//! 2. A quarter is kept for proven clients, which have sent a whole payload before. They do not wait for clients that
//!    never do.
//! 3. Payloads of proven clients wait in the order in which they began. After them wait the others, the newest first,
//!    so that a client that sends is served before one that has stopped. When every payload that has memory waits for
//!    more, the first gets it and stays the first, so some payload can always become whole.

use super::options::TransmissionOptions;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_rt::{Notify, Rt, Semaphore};

/// Replies over this are large.
const LARGE_BYTES: u64 = 1 << 20;

/// A budget for replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// The connection's own memory.
    Own,
    /// Shared, for replies of up to a MiB.
    Shared,
    /// Shared, for larger replies.
    Large,
}

impl Class {
    /// All classes. The index of a class is its number.
    pub const ALL: [Class; 3] = [Class::Own, Class::Shared, Class::Large];
}

/// Memory for replies that the connections share.
pub(super) struct ReplyBudgets {
    shared: Semaphore,
    large: Semaphore,
}

impl ReplyBudgets {
    pub fn new(rt: &Rt, options: &TransmissionOptions) -> Self {
        let half = options.total_reply_bytes_max / 2;
        Self {
            shared: Semaphore::new(rt, half),
            large: Semaphore::new(rt, half),
        }
    }

    /// The budget for a reply of `bytes` that does not fit in the connection's own memory.
    pub fn for_reply(&self, bytes: u64) -> (Class, &Semaphore) {
        if bytes <= LARGE_BYTES {
            (Class::Shared, &self.shared)
        } else {
            (Class::Large, &self.large)
        }
    }

    /// Bytes that the waiting replies of a class lack in total. The connection's own memory has no budget, and lacks
    /// none.
    pub fn missing(&self, class: Class) -> u64 {
        match class {
            Class::Own => 0,
            Class::Shared => self.shared.missing(),
            Class::Large => self.large.missing(),
        }
    }
}

/// The budget of large payloads that are not yet whole; clones are handles on the same.
#[derive(Clone)]
pub(super) struct PartialPayloads(Rc<State>);

struct State {
    rt: Rt,
    limit: u64,
    used: Cell<u64>,
    /// Payloads that have memory and do not wait for more.
    moving: Cell<usize>,
    /// Number of the payload that began last.
    last: Cell<u64>,
    waiting: RefCell<BTreeMap<Turn, Waiting>>,
}

/// A payload's position in the order of waiting: the least is the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    unproven: bool,
    order: u64,
}

impl Turn {
    const FIRST: Self = Self {
        unproven: false,
        order: 0,
    };

    /// The position of payload `number`, which is not 0.
    fn of(number: u64, proven: bool) -> Self {
        Self {
            unproven: !proven,
            order: if proven { number } else { u64::MAX - number },
        }
    }
}

struct Waiting {
    /// Bytes that the payload needs next.
    next: u64,
    /// Bytes that the payload needs to become whole.
    rest: u64,
    wake: Notify,
}

/// One payload's share; given back when dropped.
pub(super) struct Partial {
    state: Rc<State>,
    turn: Turn,
    bytes: u64,
    whole: u64,
}

impl PartialPayloads {
    /// A budget of `limit` bytes.
    pub fn new(rt: &Rt, limit: u64) -> Self {
        Self(Rc::new(State {
            rt: rt.clone(),
            limit,
            used: Cell::new(0),
            moving: Cell::new(0),
            last: Cell::new(0),
            waiting: RefCell::default(),
        }))
    }

    /// Begins a payload of `whole` bytes, without memory, of a client that is `proven` or not.
    pub fn begin(&self, whole: u64, proven: bool) -> Partial {
        let number = self.0.last.get() + 1;
        self.0.last.set(number);
        Partial {
            state: self.0.clone(),
            turn: Turn::of(number, proven),
            bytes: 0,
            whole,
        }
    }

    /// Bytes charged.
    pub fn used(&self) -> u64 {
        self.0.used.get()
    }

    /// Bytes that the waiting payloads lack in total to become whole.
    pub fn missing(&self) -> u64 {
        let waiting = self.0.waiting.borrow();
        let wanted: u64 = waiting.values().map(|waiting| waiting.rest).sum();
        let free = self.0.limit.saturating_sub(self.0.used.get());
        wanted.saturating_sub(free)
    }
}

impl State {
    fn fits(&self, turn: Turn, bytes: u64) -> bool {
        let kept = if turn.unproven { self.limit / 4 } else { 0 };
        self.used.get() + bytes + kept <= self.limit
    }

    fn allows(&self, turn: Turn, bytes: u64) -> bool {
        self.fits(turn, bytes) || self.moving.get() == 0
    }

    fn wake_first(&self) {
        let waiting = self.waiting.borrow();
        if let Some((turn, first)) = waiting.first_key_value()
            && self.allows(*turn, first.next)
        {
            first.wake.notify();
        }
    }
}

impl Partial {
    /// Bytes charged.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True when half of the budget stays free with `more` bytes. Then they may be charged before any of them has come.
    pub fn is_ample(&self, more: usize) -> bool {
        let state = &self.state;
        state.used.get() + more as u64 <= state.limit / 2 && state.waiting.borrow().is_empty()
    }

    /// Waits for memory for `more` bytes.
    pub async fn grow(&mut self, more: u64) {
        let (state, turn) = (self.state.clone(), self.turn);
        let may_go = || {
            let waiting = state.waiting.borrow();
            let first = waiting.first_key_value();
            first.is_none_or(|(first, _)| *first >= turn) && state.allows(turn, more)
        };
        if !may_go() {
            let wake = Notify::new(&state.rt);
            let _place = Place::take(self, more, &wake);
            loop {
                // Registered before the check, so that no wake-up is missed.
                let woken = wake.wait();
                if may_go() {
                    break;
                }
                woken.await;
            }
        }
        if !state.fits(turn, more) {
            self.turn = Turn::FIRST;
        }
        if self.bytes == 0 {
            state.moving.set(state.moving.get() + 1);
        }
        self.bytes += more;
        state.used.set(state.used.get() + more);
        state.wake_first();
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let state = &self.state;
        if self.bytes > 0 {
            state.moving.set(state.moving.get() - 1);
            state.used.set(state.used.get() - self.bytes);
        }
        state.wake_first();
    }
}

/// A payload's place among the waiting ones. Dropping it gives the place up.
struct Place {
    state: Rc<State>,
    turn: Turn,
    was_moving: bool,
}

impl Place {
    fn take(partial: &Partial, more: u64, wake: &Notify) -> Self {
        let state = partial.state.clone();
        let entry = Waiting {
            next: more,
            rest: partial.whole - partial.bytes,
            wake: wake.clone(),
        };
        state.waiting.borrow_mut().insert(partial.turn, entry);
        let was_moving = partial.bytes > 0;
        if was_moving {
            state.moving.set(state.moving.get() - 1);
        }
        // This payload may have been the last one that did not wait.
        state.wake_first();
        Self {
            state,
            turn: partial.turn,
            was_moving,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.was_moving {
            self.state.moving.set(self.state.moving.get() + 1);
        }
        self.state.waiting.borrow_mut().remove(&self.turn);
        self.state.wake_first();
    }
}
