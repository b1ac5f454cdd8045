//! The engine: read path, commit path, write-back, checkpoint at an orderly end, recovery.
//!
//! Invariants (each kept here unless another place is named):
//! 1. An acknowledged durable write survives any crash; after a crash the state is a prefix of the commit
//!    order (`trail`, [`Engine::commit`]).
//! 2. A commit takes effect atomically (`tonearm_trail::Replay` hands out whole commits only).
//! 3. A log track is reused only after every live block on it is durable at home, or superseded by a block that is
//!    (`pinned`, and the log's account of retained commits).
//! 4. A block with LSN L is written home only when durable >= L (`Pinned::start_batch`).
//! 5. A read returns the newest committed version; a hole reads as zeroes ([`Engine::read`]).
//! 6. No byte is returned that fails its checksum ([`tonearm_layout::Home::read`]; recovery checks what it reads from
//!    the log).
//! 7. No clock, random source, environment or thread: time comes from the executor's driver.
//! 8. Memory is bounded: payload by the memory semaphore, the home's tables by their cache, queues by admission.
//!
//! The modules are listed below in layers. Each imports only from layers above its own in the list.

// Plain data and policy.
mod access;
mod archived;
mod copies;
mod error;
mod options;
mod params;
mod pinned;

// Code that uses these, and the state that the parts of an open store share.
mod commit;
mod images;
mod log_drives;
mod places;
mod redundancy;
mod round;
mod shared;
mod superblocks;

// Members, the log's plan, and recovery.
mod members;
mod plan_log;
mod recovery;

// Operations on a whole store.
mod create;
mod inspect;
mod write_back;

mod arrays;

// The engine, and what its log calls.
mod engine;

mod indirect;

// Operations of the engine.
mod checkpoint;
mod close;
mod grow;
mod history;
mod marks;
mod moves;
mod open;
mod read;
mod scrub;
mod stats;

pub use archived::{ArchiveInfo, ArchiveNotes, ArchiveState};
pub use arrays::{
    ArrayAccess, ArrayParams, ArrayPlan, Candidate, StoreArray, create_array, load_descriptor,
    open_array, plan_array,
};
pub use commit::CommitChange;
pub use create::{CreatePlan, NewMember, create, plan_create};
pub use engine::Engine;
pub use error::{EngineError, UnreadableSlot};
pub use history::MovedContent;
pub use inspect::{Inspection, LogReport, rebuild_map};
pub use log_drives::sheet_table;
pub use marks::Marks;
pub use options::{Ack, OpenOptions};
pub use params::{CreateParams, HeadParams, LogDrive, MemberSpace};
pub use recovery::{Progress, RecoveryReport};
pub use scrub::{Scrub, ScrubReport};
pub use stats::{NumberKind, NumberUnit, StoreNumber, StoreStats};
pub use superblocks::{MemberDevice, MemberSuperblock, load as load_superblock};

pub use tonearm_device::{ByteRate, EventClass, Events, StoreEvent};
pub use tonearm_format::Placement;
pub use tonearm_layout::layouts::HomeParams;
pub use tonearm_trail::{Admission, GivenUp, History, HistoryError, RecoveredCommit, WriteCache};

#[cfg(test)]
mod difference_test;
#[cfg(test)]
mod images_test;
#[cfg(test)]
mod pinned_test;
#[cfg(test)]
mod recording_test;
#[cfg(test)]
mod schedule_test;
#[cfg(test)]
mod throttle_test;
