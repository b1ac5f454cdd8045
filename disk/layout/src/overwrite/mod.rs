//! The overwrite layout: every block has one fixed place.
//!
//! A member's data area is a sequence of groups; a group is two table slots and the blocks whose
//! CRC-32C the table holds (`tonearm_format::Geometry`, `tonearm_format::TableSlot`). The members are concatenated:
//! group numbers and block numbers run over all of them.
//!
//! Invariants:
//! 1. No byte of a block is returned that fails its checksum. A hole reads as zeroes without I/O.
//! 2. Between two flushes of a member a group's table is written at most once, into the slot of its
//!    generation; the other slot is the newest durable one. After a failure the slot that may be
//!    half written is the one that is written again (`write_back.rs`).
//! 3. The space of a hole reads as zeroes on the medium, so that a table which fell back to its older
//!    slot can be told from a true one (`load.rs`).
//! 4. Tables are cached within a bound; one that is being written is never evicted. Nothing here
//!    grows with the size of the store.

mod batch;
mod check;
pub(crate) mod home;
mod interrupted;
mod load;
mod place;
mod plan;
mod repair;
mod table_cache;
mod write_back;

pub(crate) use home::Overwrite;
pub use load::LOST;

#[cfg(test)]
mod load_test;
#[cfg(test)]
mod plan_test;
#[cfg(test)]
mod table_cache_test;
