//! Where blocks live at home. [`Home`] is one of two layouts: in the overwrite layout every block has one
//! fixed place (`overwrite/`), in the segments layout blocks are appended to segments and found through a
//! block map (`segments/`).
//!
//! What holds for both:
//! 1. No byte of a block is returned that fails its checksum. A hole reads as zeroes without I/O.
//! 2. What is in memory is bounded by the map cache; nothing grows with the size of the store but a few
//!    bytes for each segment.
//!
//! What is asked of the caller:
//! - All that is given to [`Home::write_back`] stays in the durable log until that returned `Ok`;
//!   after a crash it is given again, in any portions.
//! - While a block is under write-back nobody reads it here, and a block with a read under way is not
//!   written back.
//! - A new store's data area reads as zeroes (punch it, also on a raw device that was used before:
//!   old tables and old blocks must not shine through).
//! - Futures of this crate that write are driven to their end.

mod error;
mod home;
mod overwrite;
mod report;
mod segments;

pub use error::HomeError;
pub use home::{
    Home, HomeBlock, HomeMember, HomeStats, OverwriteHome, Piece, SegmentsHome, SegmentsMember,
    SegmentsOptions, ZeroRange,
};
pub use overwrite::LOST;
pub use report::{BadBlock, GroupReport, RepairOptions, RepairReport, SlotReport};
pub use segments::{Policy, RebuildReport};
