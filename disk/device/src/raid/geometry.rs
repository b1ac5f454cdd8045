//! Address arithmetic of a striped array: bytes of the array to stripes, columns and members.
//!
//! A stripe (row) has one unit on each member. RAID-5 rotates left-symmetrically: the parity of row `r`
//! lies on member `n - 1 - r % n`, data column 0 on the next member, round the end, so that a sequential
//! read visits all members in turn.

use std::ops::Range;

/// Most members of an array with parity.
pub const RAID5_MEMBERS_MAX: usize = 32;

/// Division of an array into stripes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stripes {
    /// Number of members, including those for parity.
    pub members: usize,
    /// Bytes of a stripe unit.
    pub unit: u64,
    /// Stripes.
    pub rows: u64,
    /// True when one unit of each stripe is parity.
    pub parity: bool,
}

/// A unit of a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Parity,
    Column(usize),
}

/// A range within one unit of data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub row: u64,
    pub column: usize,
    /// Bytes, counted from the start of the unit.
    pub range: Range<u64>,
}

impl Stripes {
    /// Data units of a stripe.
    pub fn columns(&self) -> usize {
        self.members - usize::from(self.parity)
    }

    /// Data bytes of a stripe.
    pub fn row_bytes(&self) -> u64 {
        self.columns() as u64 * self.unit
    }

    /// Data bytes of the array.
    pub fn size_bytes(&self) -> u64 {
        self.rows * self.row_bytes()
    }

    /// The member that holds the parity of `row`.
    pub fn parity_member(&self, row: u64) -> usize {
        self.members - 1 - (row % self.members as u64) as usize
    }

    /// The member that holds data column `column` of `row`.
    pub fn member(&self, row: u64, column: usize) -> usize {
        if self.parity {
            (self.parity_member(row) + 1 + column) % self.members
        } else {
            column
        }
    }

    /// The member that holds `unit` of `row`.
    pub(super) fn member_of(&self, row: u64, unit: Unit) -> usize {
        match unit {
            Unit::Parity => self.parity_member(row),
            Unit::Column(column) => self.member(row, column),
        }
    }

    /// The data column of `row` on `member`; `None` where it holds the parity.
    pub fn column(&self, row: u64, member: usize) -> Option<usize> {
        if !self.parity {
            return Some(member);
        }
        let after = (member + self.members - self.parity_member(row)) % self.members;
        after.checked_sub(1)
    }

    /// Cuts `range` of the array into ranges of one unit each.
    pub(crate) fn parts(&self, range: Range<u64>) -> impl Iterator<Item = Part> + use<> {
        let (stripes, mut at) = (*self, range.start);
        std::iter::from_fn(move || {
            if at >= range.end {
                return None;
            }
            let (row, within) = (at / stripes.row_bytes(), at % stripes.row_bytes());
            let (column, start) = (within / stripes.unit, within % stripes.unit);
            let len = (stripes.unit - start).min(range.end - at);
            at += len;
            Some(Part {
                row,
                column: column as usize,
                range: start..start + len,
            })
        })
    }
}
