//! Errors of an open home, each with its address, and reasons why a home cannot be made.

use tonearm_format::{LOST, SEGMENT_BLOCKS_MIN, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use tonearm_rt::{IoError, Op};

/// Why an operation on the home failed.
///
/// What the caller can do: after `NoSpace` and `Full` it can repeat the call once there is space. A failed flush is
/// never `NoSpace`, because it may have lost data whatever the reason. Errors of [`HomeError::is_damage`] are lasting
/// damage of the named place. `Device` is an error of the medium or the system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HomeError {
    /// A block's content is not what was written: torn, stale, misdirected or damaged.
    #[error(
        "block {block} is damaged: checksum {found:08x} where {expected:08x} is expected, on {member} at byte {offset}{}",
        lost_hint(.expected)
    )]
    Checksum {
        /// The store's block number.
        block: u64,
        /// Name of the member.
        member: String,
        /// Byte offset on the member.
        offset: u64,
        /// The table's entry.
        expected: u32,
        /// The entry that fits the content.
        found: u32,
    },
    /// Neither slot of a group's table is readable and valid.
    #[error(
        "the checksum table of group {group} is damaged in both copies, on {member} at byte {offset}; `tonearm check --repair` rebuilds it from the blocks as they are"
    )]
    Table {
        /// The store's group number.
        group: u64,
        /// Name of the member.
        member: String,
        /// Byte offset of the first slot on the member.
        offset: u64,
    },
    /// A page of the block map is not what was written (segments layout).
    #[error(
        "the page of the block map for blocks {first} to {}, on {member} at byte {offset}, is damaged; `tonearm check --rebuild` makes it anew from the segment summaries",
        .end.saturating_sub(1)
    )]
    MapPage {
        /// First block that is found through it.
        first: u64,
        /// The block after the last one.
        end: u64,
        /// Name of the member.
        member: String,
        /// Byte offset on the member.
        offset: u64,
    },
    /// The page of the block map that led to the block was damaged when its neighbours were written.
    #[error(
        "block {block} cannot be found: its page of the block map was damaged; `tonearm check --rebuild` finds it by the segment summaries"
    )]
    LostBlock {
        /// The store's block number.
        block: u64,
    },
    /// Neither checkpoint slot is readable and valid (segments layout).
    #[error(
        "both checkpoints of the block map are damaged, on {member} at bytes {} and {}; `tonearm check --rebuild` makes the map anew from the segment summaries",
        .offsets[0], .offsets[1]
    )]
    Checkpoint {
        /// Name of the member.
        member: String,
        /// Byte offsets of the slots on the member.
        offsets: [u64; 2],
    },
    /// The summaries of a segment do not name all of its live blocks.
    #[error(
        "the summaries of segment {segment}, on {member} at byte {offset}, tell of {found} live blocks where {expected} are expected; `tonearm check --rebuild` counts anew"
    )]
    Segment {
        /// Its number.
        segment: u64,
        /// Name of the member.
        member: String,
        /// Byte offset of the segment on the member.
        offset: u64,
        /// Live blocks by the segment table.
        expected: u64,
        /// Live blocks that were found.
        found: u64,
    },
    /// The device refused.
    #[error("{} failed on {member} at byte {offset}: {}", verb(.op), IoError { errno: *.errno })]
    Device {
        /// The operation.
        op: Op,
        /// Name of the member.
        member: String,
        /// Byte offset on the member.
        offset: u64,
        /// Linux error number.
        errno: i32,
    },
    /// The medium below has no space left. The same call can be made again.
    #[error("no space left for the store: {} on {member} at byte {offset}; free some space below it", verb(.op))]
    NoSpace {
        /// The operation.
        op: Op,
        /// Name of the member.
        member: String,
        /// Byte offset on the member.
        offset: u64,
    },
    /// The layout has no map that could be rebuilt.
    #[error(
        "the store has the overwrite layout: it has no block map that could be rebuilt; use --repair"
    )]
    NoMap,
    /// All segments are full (segments layout). After a trim the same call can be made again.
    #[error(
        "the store is full: {live} blocks live in {segments} segments{}; discard something", stuck_hint(.stuck)
    )]
    Full {
        /// Live blocks, and pages of the block map.
        live: u64,
        /// Segments of the store.
        segments: u64,
        /// Those of them that are damaged and cannot be used again.
        stuck: u64,
    },
}

/// Why a home cannot be made with the given parameters, or cannot grow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The size of a segment is not possible.
    #[error(
        "a segment has a whole number of blocks, at least {SEGMENT_BLOCKS_MIN}, and from {SEGMENT_BYTES_MIN} to \
         {SEGMENT_BYTES_MAX} bytes"
    )]
    SegmentBytes,
    /// The spare share is not possible.
    #[error("the spare share of the segments must be from 2 to 75 percent")]
    Spare,
    /// The home does not fit on the data members.
    #[error("the data members are too small: at most --size {size_bytes} fits on them")]
    TooSmall {
        /// The size that would fit.
        size_bytes: u64,
    },
    /// The layout has a fixed size.
    #[error(
        "a store with segments cannot grow: its checkpoints have no room for more segments; make a \
         larger store, and copy this one into it: `tonearm relayout STORE --to NEW`"
    )]
    CannotGrow,
    /// The blocks of the layout have fixed places.
    #[error(
        "the layout overwrite has no segments; copy the store into a new one: `tonearm relayout STORE --to NEW`"
    )]
    NoPlacement,
    /// There is nothing that could grow.
    #[error("the store has no data member")]
    NoDataMember,
    /// The format cannot count so far.
    #[error("{blocks} more blocks are too many for one store")]
    TooLarge {
        /// Blocks that were asked for.
        blocks: u64,
    },
}

fn stuck_hint(stuck: &u64) -> String {
    match stuck {
        0 => String::new(),
        stuck => {
            format!(", {stuck} of which are damaged (`tonearm check --rebuild` may repair them)")
        }
    }
}

impl HomeError {
    /// Lasting damage of the named place. The store stays in use, and reads of the place give this error.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Checksum { .. }
                | Self::Table { .. }
                | Self::MapPage { .. }
                | Self::LostBlock { .. }
        )
    }

    pub(crate) fn of_device(op: Op, member: &str, offset: u64, error: IoError) -> Self {
        let member = member.to_string();
        // A flush that fails for lack of space may have lost the content of a cache, and a repeated call would hide
        // that. The same holds for the flush within a FUA write.
        let can_repeat = matches!(op, Op::Write | Op::Punch | Op::Zero);
        if can_repeat && error.is_no_space() {
            return Self::NoSpace { op, member, offset };
        }
        Self::Device {
            op,
            member,
            offset,
            errno: error.errno,
        }
    }
}

fn verb(op: &Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write | Op::WriteDurable => "write",
        Op::Flush => "flush",
        Op::Punch => "trim",
        Op::Zero => "write of zeroes",
        Op::Recv | Op::RecvAll | Op::Send | Op::Close | Op::Command => {
            "stream operation or command"
        }
    }
}

fn lost_hint(expected: &u32) -> &'static str {
    if *expected == LOST {
        " (its checksum was lost with its group's table)"
    } else {
        ""
    }
}
