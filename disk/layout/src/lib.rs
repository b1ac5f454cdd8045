//! Where blocks live at home. [`Home`] is what the engine asks of a layout. There are two: in the overwrite layout
//! every block has one fixed place (`overwrite/`), in the segments layout blocks are appended to segments and found
//! through a block map (`segments/`). [`layouts`] chooses. [`separation`] separates hot blocks from cold ones (HyLog, paper 2).
//!
//! The trait's documentation says what every layout must keep, and what it may rely on.

mod error;
mod home;
pub mod layouts;
mod overwrite;
mod queue;
mod report;
mod scrub;
mod segments;
pub mod separation;
mod units;

pub use error::{HomeError, PlanError};
pub use home::{
    GrowingHome, Home, HomeBlock, HomeShape, HomeStats, HotStats, IndirectHome, OverwriteStats,
    ParityHome, Piece, PlacedBlock, RoundOrder, SegmentStats, ZeroRange,
};
pub use overwrite::{Overwrite, OverwriteMember};
pub use queue::{Reader, WRITES_WHILE_READING};
pub use report::{BadBlock, GroupReport, RepairOptions, RepairReport, SlotReport};
pub use segments::{
    Plugging, Policy, RebuildReport, Segments, SegmentsMember, SegmentsOptions, choose, worth,
};
