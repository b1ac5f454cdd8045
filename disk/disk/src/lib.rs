//! The logical disk: volumes of bytes over the engine's blocks.
//!
//! Invariants:
//! 1. Every write, trim or zeroing of a volume is one commit: after a crash all of it is there or nothing.
//! 2. Bytes beside a partial write keep the value that was committed last: the block is merged with its newest version,
//!    with no await between the last look at that version and the commit.
//! 3. The volume table lives in blocks of the same disk and changes by commits; free space reads as zeroes.

mod aru;
mod changes;
mod copy;
mod core;
mod disk;
mod error;
mod growth;
mod lists;
mod map;
mod memory;
mod pages;
mod partial;
mod shadow;
mod simple;
mod spill;
mod state;
mod table;
mod tree;
mod unit_epochs;
mod usage;
mod volume;

pub use aru::Aru;
pub use changes::Changes;
pub use copy::{Copied, UNFINISHED};
pub use disk::{Disk, VolumeInfo, create};
pub use error::{DiskError, ErrorKind};
pub use lists::check::ListsReport;
pub use lists::{BlockId, ListId};
pub use tonearm_engine::{
    Ack, ByteRate, CreateParams, CreatePlan, EventClass, Events, HeadParams, HomeParams, LogDrive,
    Marks, MemberDevice, MemberSpace, NewMember, NumberKind, NumberUnit, OpenOptions, Placement,
    Progress, RecoveryReport, Scrub, ScrubReport, StoreEvent, StoreNumber, StoreStats,
    load_superblock, plan_create,
};
pub use tonearm_format::VolumeKind;
pub use tonearm_layout::Piece;
pub use tree::{TreeEdit, TreePages, TreeStop};
pub use usage::{Space, Usage};
pub use volume::Volume;

#[cfg(test)]
mod unit_epochs_test;
