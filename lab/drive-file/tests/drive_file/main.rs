//! Tests of drive files: errors, places of sectors, and the tracks of the drives of the library.

#![allow(clippy::unwrap_used)]
// Used by the expansion of proptest's macros.
#![allow(clippy::disallowed_types)]

mod curve;
mod geometry;
mod made;
mod spec;
mod tracks;
