//! Drive files: what a drive is like, as data.
//!
//! A [`DriveSpec`] is read from TOML and checked. [`library`] has the files of `lab/drives/`. [`Geometry`] tells where
//! each sector lies, [`track_map`] gives the tracks to the log of a store. The laboratory's models and `tonearm create`
//! read drive files through this crate, which knows nothing of time but a figure.

mod check;
mod geometry;
mod library;
mod place;
mod scheduler;
mod seek_curve;
mod spec;
mod tracks;

pub use geometry::{Angle, Extent, Geometry};
pub use library::{LibraryDrive, library};
pub use scheduler::Scheduler;
pub use seek_curve::curve_ms;
pub use spec::*;
pub use tracks::{track_map, turn};
