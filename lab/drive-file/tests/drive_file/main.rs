//! Drive files: what is refused, where sectors lie, and the tracks of the drives of the library.

#![allow(clippy::unwrap_used)]
// What proptest's macros expand to.
#![allow(clippy::disallowed_types)]

mod curve;
mod geometry;
mod made;
mod spec;
mod tracks;
