//! Lists of blocks (the Logical Disk interface). The order of a list guides where its blocks are placed.
//!
//! Lists and blocks are in the lists area, a hidden volume of zones (`tonearm_format::Zones`): a page of list records,
//! a page of block records, and the blocks. The commits of recovery units change words of the pages.
//!
//! Invariants:
//! 1. A block is on one list or free. The records of a list are a chain in both directions. This holds for the
//!    committed state after each commit, and so after each crash.
//! 2. A free block is a hole: it reads as zeroes when it is given out.
//! 3. Identifiers that a unit has taken and not yet committed are recorded in memory alone. So are freed identifiers
//!    that an open unit may have learned ([`crate::unit_epochs`]).

pub(crate) mod area;
mod bits;
pub(crate) mod check;
mod direct;
pub(crate) mod records;
pub(crate) mod replay;
pub(crate) mod shadow;
mod space;
mod take;

use std::fmt;

/// A list of blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListId(pub u64);

/// A block on a list: an index into the lists area.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockId(pub u64);

impl fmt::Display for ListId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An identifier that is allocated and freed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Id {
    List(u64),
    Block(u64),
}
