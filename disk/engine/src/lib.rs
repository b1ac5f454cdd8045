//! The engine: read path, commit path, write-back, checkpoint at an orderly end, recovery.
//!
//! Invariants (each kept here unless another place is named):
//! 1. An acknowledged durable write survives any crash; after a crash the state is a prefix of the commit
//!    order (`trail`, [`Engine::commit`]).
//! 2. All of a commit or none of it (`tonearm_trail::Replay` hands out whole commits only).
//! 3. A log track is reused only after every live block on it is durable at home, or superseded by a block
//!    that is (`pinned`, the log).
//! 4. A block with LSN L is written home only when durable >= L (`pinned::Pinned::start_batch`).
//! 5. A read returns the newest committed version; a hole reads as zeroes ([`Engine::read`]).
//! 6. No byte is returned that fails its checksum (`tonearm_layout::Home::read`; what is in memory was checked when
//!    it was read from the log).
//! 7. No clock, random source, environment or thread: time comes from the executor's driver.
//! 9. Memory is bounded: payload by the memory semaphore, tables by the table cache, queues by admission.

mod access;
mod admission;
mod close;
mod commit;
mod create;
mod difference;
#[cfg(test)]
mod difference_test;
mod engine;
mod error;
mod images;
mod inspect;
mod log_drives;
mod members;
mod moves;
mod open;
mod options;
mod ordered;
mod params;
mod pinned;
mod plan_log;
mod read;
mod recording;
mod recovery;
mod redundancy;
mod round;
mod schedule;
mod scrub;
mod shared;
mod stats;
mod superblocks;
mod throttle;
mod write_back;

pub use commit::CommitChange;
pub use create::{CreatePlan, NewMember, create, plan_create};
pub use engine::Engine;
pub use error::EngineError;
pub use inspect::{Inspection, LogReport, rebuild_map};
pub use log_drives::sheet_table;
pub use options::{Ack, OpenOptions};
pub use params::{CreateParams, HeadParams, LogDrive, MemberSpace};
pub use read::MergeGuard;
pub use recovery::{Progress, RecoveryReport};
pub use scrub::ScrubReport;
pub use stats::StoreStats;
pub use superblocks::{MemberDevice, MemberSuperblock, UnreadableSlot, load as load_superblock};

pub use tonearm_layout::layouts::{HomeParams, grown};
pub use tonearm_trail::{Admission, GivenUp, WriteCache};

#[cfg(test)]
mod images_test;
#[cfg(test)]
mod pinned_test;
#[cfg(test)]
mod recording_test;
#[cfg(test)]
mod throttle_test;
