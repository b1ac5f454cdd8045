//! The model of a drive, part by part, against what can be worked out by hand or by brute force.

#![allow(clippy::unwrap_used)]
// What proptest's macros expand to.
#![allow(clippy::disallowed_types)]

mod buffer;
mod cache;
mod disk;
mod flash;
mod library;
mod made;
mod property;
mod rotation;
mod seek;
mod spec_any;
