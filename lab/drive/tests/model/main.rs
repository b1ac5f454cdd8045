//! The parts of the model of a drive, compared with results that were computed by hand or by brute force.

#![allow(clippy::unwrap_used)]
// Used by the expansion of proptest's macros.
#![allow(clippy::disallowed_types)]

mod buffer;
mod cache;
mod disk;
mod flash;
mod library;
mod made;
mod media;
mod property;
mod rotation;
mod seek;
mod spec_any;
mod today;
