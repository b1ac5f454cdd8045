//! What happens to an open store and its drives that somebody must look after.
//!
//! Whoever finds such a thing out notes it here, at that moment. A server prints it; a program asks
//! (`tonearm_store::Store::events`).
//!
//! Invariants:
//! 1. Memory is bounded: of each class the last [`KEPT`] events are kept, and all are counted. So many damaged blocks do not
//!    push out the one failure of a drive.
//! 2. Noting an event never waits, and needs no reader.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use tonearm_rt::{IoError, Notified, Notify, Rt};

/// Events that are kept of each class.
pub const KEPT: usize = 32;

/// How often events come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventClass {
    /// A few times in the life of a store: it is read-only, a member has failed.
    State,
    /// Space below the store ends and comes back, perhaps often.
    Space,
    /// Damage of single places, perhaps of thousands.
    Damage,
}

impl EventClass {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::State, Self::Space, Self::Damage];
}

/// Something that happened to a store. Its text says what, where, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreEvent {
    /// The first failure of the log or of the home: no change is taken until the store is opened again.
    ReadOnly {
        /// The failure.
        why: String,
    },
    /// A member of an array is not used any more. The array goes on without it.
    MemberFailed {
        /// Its path.
        member: String,
        /// Its error.
        error: IoError,
    },
    /// More members of an array have failed than it can do without.
    ArrayLost {
        /// Which, and what is left to do.
        why: String,
    },
    /// Write-back waits for space below the store, or for free space in the store.
    SpaceEnded {
        /// Where there is none.
        why: String,
    },
    /// There is space again, and write-back goes on.
    SpaceFound,
    /// Sectors of a member of an array that neither it nor the other members could give were overwritten with zeroes.
    SectorsLost {
        /// The member.
        member: String,
        /// First byte on it.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// A read has failed: the content is not what was written, or the drive cannot read it.
    ReadFailed {
        /// The error, with its place.
        why: String,
    },
}

impl StoreEvent {
    /// How often such events come.
    pub fn class(&self) -> EventClass {
        match self {
            Self::ReadOnly { .. } | Self::MemberFailed { .. } | Self::ArrayLost { .. } => {
                EventClass::State
            }
            Self::SpaceEnded { .. } | Self::SpaceFound => EventClass::Space,
            Self::SectorsLost { .. } | Self::ReadFailed { .. } => EventClass::Damage,
        }
    }
}

impl fmt::Display for StoreEvent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnly { why } => write!(
                out,
                "the store is READ-ONLY from now on: {why}; reads go on. Look after the drive, then end this process and open \
                 the store again: it recovers what was durable"
            ),
            Self::MemberFailed { member, error } => write!(
                out,
                "{member} has failed ({error}) and is not used any more; the array is DEGRADED, and the failure of another \
                 member loses data: put a new file or device in its place with `tonearm member replace`"
            ),
            Self::ArrayLost { why } => write!(out, "the array is LOST: {why}"),
            Self::SpaceEnded { why } => {
                write!(
                    out,
                    "{why}; write-back waits, and writers will when the log is full"
                )
            }
            Self::SpaceFound => write!(out, "there is space again: write-back goes on"),
            Self::SectorsLost {
                member,
                offset,
                bytes,
            } => write!(
                out,
                "{member}: {bytes} bytes at byte {offset} cannot be read, and the other members cannot compute them: they are \
                 lost; `tonearm scrub` names the blocks that are damaged by it"
            ),
            Self::ReadFailed { why } => write!(
                out,
                "a read has failed: {why}; `tonearm scrub` looks at all blocks, and repairs what an array has twice"
            ),
        }
    }
}

/// The events of one store since its opening. Clones are handles on the same.
#[derive(Clone)]
pub struct Events(Rc<State>);

struct State {
    changed: Notify,
    /// One for each of [`EventClass::ALL`].
    logs: RefCell<[Log; EventClass::ALL.len()]>,
}

#[derive(Default)]
struct Log {
    /// Events noted since the opening.
    count: u64,
    last: VecDeque<StoreEvent>,
}

/// Events of a class that a reader has not seen yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unseen {
    /// Their number.
    pub count: u64,
    /// The last of them, in their order.
    pub last: Vec<StoreEvent>,
}

impl Events {
    /// Nothing has happened yet.
    pub fn new(rt: &Rt) -> Self {
        Self(Rc::new(State {
            changed: Notify::new(rt),
            logs: RefCell::default(),
        }))
    }

    /// Notes an event.
    pub fn note(&self, event: StoreEvent) {
        {
            let mut logs = self.0.logs.borrow_mut();
            let log = &mut logs[event.class() as usize];
            log.count += 1;
            if log.last.len() == KEPT {
                log.last.pop_front();
            }
            log.last.push_back(event);
        }
        self.0.changed.notify();
    }

    /// Events of `class` since the opening.
    pub fn count(&self, class: EventClass) -> u64 {
        self.0.logs.borrow()[class as usize].count
    }

    /// What a reader has not seen that has seen `seen` events of `class`.
    pub fn unseen(&self, class: EventClass, seen: u64) -> Unseen {
        let logs = self.0.logs.borrow();
        let log = &logs[class as usize];
        let count = log.count.saturating_sub(seen);
        let kept = log.last.len() as u64;
        let skip = kept - count.min(kept);
        Unseen {
            count,
            last: log.last.iter().skip(skip as usize).cloned().collect(),
        }
    }

    /// The events that are kept: each class in its order.
    pub fn kept(&self) -> Vec<StoreEvent> {
        let logs = self.0.logs.borrow();
        logs.iter().flat_map(|log| &log.last).cloned().collect()
    }

    /// Resolves at the next event.
    pub fn changed(&self) -> Notified {
        self.0.changed.wait()
    }
}
