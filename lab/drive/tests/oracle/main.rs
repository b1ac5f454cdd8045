//! The model compared with data of real drives and of a reference simulator (DiskSim 4.0).
//!
//! The data is not part of the project. A test without it must fail, because a missing folder would look like
//! agreement.

#![allow(clippy::unwrap_used)]

mod data;
mod demerit;
mod layout;
mod measured;
mod params;
mod reference;
