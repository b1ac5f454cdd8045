//! Real archives: folders, and S3 buckets by the crate `object_store`, encrypted by the crate `age`.
//!
//! The engine has no second runtime. `object_store` needs tokio, so it has one of its own here, with threads of its own.
//! Operations of folders run on them, too: a folder may be on a share that does not answer.

mod address;
mod bucket;
mod credentials;
mod folder;
mod keys;
mod line;
mod names;
mod own_mounts;
mod refusal;
mod service;
mod variables;

pub use bucket::{Making, RealBucket, Writer};
pub use own_mounts::OwnMounts;
pub use variables::Variables;
