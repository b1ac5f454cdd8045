//! Real archives: folders and S3 buckets, by the crate `object_store`, encrypted by the crate `age`.
//!
//! The engine has no second runtime. `object_store` needs tokio, so it has one of its own here, with threads of its own.

mod bucket;
mod keys;

pub use bucket::RealBucket;
