//! Drive files: the figures of a drive, as data.
//!
//! [`DriveFile::find`] reads and checks a file of the [`library`] or of the user. [`Geometry`] computes the place of
//! each sector. [`track_map`], [`turn`] and [`deltas`] give the log of a store the data with which it follows the
//! drive's head. `tonearm create` and the laboratory read drive files through this crate, which has no model of a
//! drive.

mod check;
mod file;
mod geometry;
mod library;
mod place;
mod rates;
mod scheduler;
mod seek_curve;
mod spec;
mod tracks;

pub use file::{DriveFile, DriveFileError};
pub use geometry::{Angle, Extent, Geometry};
pub use library::{LibraryDrive, TODAY, library};
pub use scheduler::Scheduler;
pub use seek_curve::curve_ms;
pub use spec::*;
pub use tracks::{deltas, track_map, turn};
