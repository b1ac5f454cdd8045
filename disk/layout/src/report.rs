//! The findings of a check or repair of one group. A group is a run of blocks whose checksums are stored together: in
//! one table (overwrite layout), or in one leaf page of the block map (segments layout).

use crate::error::HomeError;
use tonearm_format::FormatError;

/// The state of one of the two places for the checksums of a group. The segments layout has one place, and the other is
/// always empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotReport {
    /// Never written, or trimmed.
    Empty,
    /// A table of this generation.
    Valid(u64),
    /// Not a table of this place.
    Damaged(FormatError),
}

/// A block whose content does not match the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadBlock {
    /// The store's block number.
    pub block: u64,
    /// The error of a read of the block.
    pub error: HomeError,
}

/// The state of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// The store's group number.
    pub group: u64,
    /// Name of the member.
    pub member: String,
    /// Byte offset of the first slot, or of the map page, on the member.
    pub offset: u64,
    /// The table slots. The segments layout has only the map page.
    pub slots: [SlotReport; 2],
    /// No table or map page is valid, so none of the blocks can be verified.
    pub table_lost: bool,
    /// Blocks with a checksum.
    pub allocated: u64,
    /// Those that fail it or cannot be read.
    pub bad: Vec<BadBlock>,
    /// Blocks, slots and map pages that were damaged, and that an array has repaired.
    pub repaired: u64,
}

impl GroupReport {
    /// Leaves out what the log replay will write again: blocks for which `is_replaced` holds are not bad. If one of the
    /// group's blocks is `touched`, a damaged slot beside a valid one is a table write that a crash has interrupted,
    /// and the replay writes both slots again.
    pub fn leave_out(&mut self, is_replaced: impl Fn(u64) -> bool, touched: bool) {
        self.bad.retain(|bad| !is_replaced(bad.block));
        if touched && !self.table_lost {
            for slot in &mut self.slots {
                if matches!(slot, SlotReport::Damaged(_)) {
                    *slot = SlotReport::Empty;
                }
            }
        }
    }

    /// True when nothing is wrong.
    pub fn is_sound(&self) -> bool {
        let damaged = |slot: &SlotReport| matches!(slot, SlotReport::Damaged(_));
        !self.table_lost && self.bad.is_empty() && !self.slots.iter().any(damaged)
    }
}

/// The allowed actions of a repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairOptions {
    /// Accept the content of blocks that fail their checksum. It may be torn, old, or that of another block.
    pub accept_data: bool,
}

/// The findings and actions of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairReport {
    /// The group before.
    pub found: GroupReport,
    /// Table slots that were written again.
    pub slots_rewritten: u64,
    /// The table was rebuilt: so many blocks got the checksum of their present content, right or wrong.
    pub unverified: u64,
    /// Blocks whose content was accepted.
    pub accepted: Vec<u64>,
    /// Blocks that are still bad.
    pub remaining: Vec<BadBlock>,
}
