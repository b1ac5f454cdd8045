//! Tonearm inside a program, in two parts:
//!
//! - A [`Store`] that threads share: opening, the leader (`leader.rs`), recovery units and lists, and its archive.
//! - [`files`]: sessions with the files of a store, in this process or through its server. Front ends such as the one
//!   for SQLite are written against [`files::Files`].

mod archive;
mod aru;
mod create;
mod error;
mod executor;
pub mod files;
mod leader;
mod lists;
mod loads;
mod members;
mod monitor;
mod open_unit;
mod per_process;
mod place;
mod store;
mod units;

pub use archive::{
    ARCHIVE_GRACE, ArchiveEnd, ArchiveThread, Call, Caller, archive_unfinished, begin_archive,
};
pub use aru::Aru;
pub use create::{
    Create, CreateOptions, CreateStep, CreatedFiles, PlannedMember, create, new_uuid, now_unix_s,
};
pub use error::StoreError;
pub use executor::Executor;
pub use files::{FileSystem, Sessions, files_socket, open_files, remote, store_of};
pub use loads::{Loads, MemberLoad};
pub use members::{Access, Members, Opened, device_of, holder, open_disk, open_members};
pub use monitor::{ExecutorGuard, Monitor, RemoteWaker};
pub use per_process::PerProcess;
pub use place::{folder_of, recorded_path, resolved, sibling_path, socket_of, store_folder};
pub use store::{Context, Store, StoreOptions};
pub use tonearm_archive::{ArchiverOptions, Bucket};
pub use tonearm_base::{Lsn, Nanos};
pub use tonearm_disk::{BlockId, EventClass, ListId, Marks, StoreEvent};
pub use tonearm_engine::{ArchiveInfo, ArchiveState, HeadParams, HomeParams, LogDrive, Placement};
pub use tonearm_format::ArrayLevel;
pub use tonearm_uring::forks;

/// The examples of `docs/library.md` are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct Library;
