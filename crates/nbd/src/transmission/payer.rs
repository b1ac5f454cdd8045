//! What pays for the memory of a reply.
//!
//! A connection always has a little memory of its own, so that a small request never waits for the clients of other
//! connections. Beyond that, large replies and all others have a half each of what the connections share: clients that
//! ask for much and take nothing keep those waiting that ask for much, too.
//!
//! Invariant: the bytes of a payer are counted in its connection and, unless they are its own, held by a permit.

use super::options::TransmissionOptions;
use rt::{Permit, Rt, Semaphore};
use std::cell::Cell;

/// Replies over this are large.
const LARGE_BYTES: u64 = 1 << 20;

/// A budget for replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// The connection's own.
    Own,
    /// Shared, for replies of up to a MiB.
    Shared,
    /// Shared, for larger ones.
    Large,
}

impl Class {
    /// All of them; the place of a class is its number.
    pub const ALL: [Class; 3] = [Class::Own, Class::Shared, Class::Large];
}

/// Bytes of one reply.
pub(super) struct Payer {
    pub class: Class,
    /// Held until the reply has been sent or thrown away.
    pub _permit: Option<Permit>,
}

impl Payer {
    /// For a reply of the connection's own memory, or of none.
    pub const OWN: Self = Self {
        class: Class::Own,
        _permit: None,
    };
}

/// What the connections share.
pub(super) struct ReplyBudgets {
    shared: Budget,
    large: Budget,
}

/// Memory for the replies of one class.
pub(super) struct Budget {
    semaphore: Semaphore,
    /// Bytes that are waited for.
    wanted: Cell<u64>,
}

impl Budget {
    fn new(rt: &Rt, bytes: u64) -> Self {
        Self {
            semaphore: Semaphore::new(rt, bytes),
            wanted: Cell::new(0),
        }
    }

    /// Waits for `bytes`.
    pub async fn acquire(&self, bytes: u64) -> Permit {
        let _wanted = Wanted::count(&self.wanted, bytes);
        self.semaphore.acquire(bytes).await
    }

    /// Bytes that are missing for all who wait.
    pub fn missing(&self) -> u64 {
        let free = self.semaphore.limit().saturating_sub(self.semaphore.used());
        self.wanted.get().saturating_sub(free)
    }
}

/// Bytes that are counted as wanted until it is dropped.
struct Wanted<'a>(&'a Cell<u64>, u64);

impl<'a> Wanted<'a> {
    fn count(wanted: &'a Cell<u64>, bytes: u64) -> Self {
        wanted.set(wanted.get() + bytes);
        Self(wanted, bytes)
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

impl ReplyBudgets {
    pub fn new(rt: &Rt, options: &TransmissionOptions) -> Self {
        let half = options.total_reply_bytes_max / 2;
        Self {
            shared: Budget::new(rt, half),
            large: Budget::new(rt, half),
        }
    }

    /// The budget that pays for a reply of `bytes` that the connection's own memory has no room for.
    pub fn for_reply(&self, bytes: u64) -> (Class, &Budget) {
        match bytes <= LARGE_BYTES {
            true => (Class::Shared, &self.shared),
            false => (Class::Large, &self.large),
        }
    }

    /// The budget of a class; the connection's own has none.
    pub fn of(&self, class: Class) -> Option<&Budget> {
        match class {
            Class::Own => None,
            Class::Shared => Some(&self.shared),
            Class::Large => Some(&self.large),
        }
    }
}
