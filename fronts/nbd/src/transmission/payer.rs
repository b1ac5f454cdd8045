//! What pays for the memory of a reply.
//!
//! A connection always has a little memory of its own, so that a small request never waits for the clients of other
//! connections. Beyond that, large replies and all others have a half each of what the connections share: clients that
//! ask for much and take nothing keep those waiting that ask for much, too.
//!
//! Invariant: the bytes of a payer are counted in its connection and, unless they are its own, held by a permit.

use super::options::TransmissionOptions;
use tonearm_rt::{Permit, Rt, Semaphore};

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

    /// The budget that pays for a reply of `bytes` that the connection's own memory has no room for.
    pub fn for_reply(&self, bytes: u64) -> (Class, &Semaphore) {
        match bytes <= LARGE_BYTES {
            true => (Class::Shared, &self.shared),
            false => (Class::Large, &self.large),
        }
    }

    /// Bytes that are missing for all who wait for memory of a class; the connection's own has no budget.
    pub fn missing(&self, class: Class) -> u64 {
        match class {
            Class::Own => 0,
            Class::Shared => self.shared.missing(),
            Class::Large => self.large.missing(),
        }
    }
}
