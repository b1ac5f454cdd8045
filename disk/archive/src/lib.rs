//! The archive of a store: a copy of its history in a folder or a bucket, from which it can be restored to any commit
//! (Durable WAL 5.6).
//!
//! - [`Archiver`] reads the durable commits of a running store and puts them into objects; [`EngineSource`] gives it what
//!   it reads.
//! - [`Catalog`] is what an archive has; it plans a restore ([`Plan`]), and [`Rebuild`] carries it out.
//! - [`Bucket`] is where objects lie. The real ones are in `tonearm-bucket`, simulated ones in tests.
//!
//! The crate has no runtime: its futures wait only for those of its bucket and source. So the same code runs beside a
//! server and in virtual time.
//!
//! Invariants:
//! 1. No object has a commit that is not durable in the store. A power cut takes back nothing that is archived.
//! 2. The objects of the chain are numbered from 1 on, and each is made by a put that succeeds only where there is no
//!    object. So a chain has one writer at any time: who opens the store puts an object, and the next put of the writer
//!    before finds that object in its place.
//! 3. Each object of the chain names the one before it by its checksum. Each commit is in one range, in order.
//! 4. A merged object stands for adjacent ranges: it gives the state at its last commit. They are deleted when it is there.
//! 5. A base counts once its object is in the chain. That is put when all ranges that it needs are there.

mod archiver;
mod bucket;
mod catalog;
mod chain;
mod error;
mod extract;
mod keys;
mod load;
mod merge;
mod object;
mod plan;
mod planned;
mod rebuild;
mod source;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use archiver::{Archiver, ArchiverOptions, MergeLevel};
pub use bucket::{Bucket, BucketError};
pub use bytes::Bytes;
pub use catalog::{Catalog, Restorable, Unread};
pub use error::ArchiveError;
pub use extract::{Content, Extract, Place};
pub use keys::{KeyError, Keys};
pub use plan::{Plan, Target};
pub use planned::PlannedObject;
pub use rebuild::Rebuild;
pub use source::{
    Blocks, CommitBatch, EngineSource, KnownCommit, MarkDone, MarkRequest, ReadResult, SeekResult,
    Source, StoreShape,
};
pub use table::{TABLE, VolumeTable};
