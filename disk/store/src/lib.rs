//! Tonearm inside a program: an open store that threads share, and its files.
//!
//! [`files::Files`] is what front ends such as the one for SQLite are written against.

mod aru;
mod create;
mod error;
mod executor;
pub mod files;
mod lead;
mod lists;
mod members;
mod open_files;
mod per_process;
pub mod remote;
mod session;
mod store;

pub use aru::Aru;
pub use create::{CreateOptions, create};
pub use error::StoreError;
pub use executor::Executor;
pub use members::{
    Access, Members, Opened, beside, device_of, folder_of, holder, open_disk, open_members,
};
pub use open_files::{files_socket, open_files};
pub use per_process::PerProcess;
pub use session::Sessions;
pub use store::{Context, Store, StoreOptions};
pub use tonearm_disk::{BlockId, ListId};
pub use tonearm_uring::forks;

/// The examples of `docs/library.md` are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct Library;
