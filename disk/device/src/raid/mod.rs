//! RAID-0 and RAID-5 over any devices.
//!
//! An array is a device and passes the conformance suite. Its user keeps its state (which member has failed, how far a
//! rebuild has come): the state is an argument of the opening, and changes go to a [`StateSink`].
//! `docs/decisions/0011-raid.md` explains why a power cut in the middle of a stripe does no harm; `array.rs` (invariant
//! 4) and `records.rs` ensure it.

mod array;
mod cut;
mod geometry;
mod io;
mod locks;
mod member;
mod pending;
mod plan;
mod raid0;
mod raid5;
mod rate;
mod read;
mod rebuild;
mod records;
mod repair;
mod rows;
mod scrub;
mod state;
mod write;
mod xor;

pub use array::{Raid5, Raid5Options};
pub use geometry::{RAID5_MEMBERS_MAX, Stripes};
pub use raid0::Raid0;
pub use rate::RebuildRate;
pub use state::{
    ARRAY_LOST, ArrayStatus, MemberState, MemberStatus, Missing, Raid5State, RaidError, RaidStats,
    Saving, StateSink, Trouble,
};

#[cfg(test)]
mod cut_test;
#[cfg(test)]
mod geometry_test;
#[cfg(test)]
mod plan_test;
#[cfg(test)]
mod rows_test;
#[cfg(test)]
mod state_test;
