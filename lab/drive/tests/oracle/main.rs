//! The model against what is known of real drives and of a reference simulator (DiskSim 4.0).
//!
//! The data lies beside the project and is not part of it: a test without it has to fail, since a missing
//! folder would look like agreement.

#![allow(clippy::unwrap_used)]

mod data;
mod layout;
mod measured;
mod params;
mod reference;
