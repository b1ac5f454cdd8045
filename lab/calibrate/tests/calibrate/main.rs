//! Calibrations of unknown drives, in virtual time.
#![allow(clippy::unwrap_used)]

mod honesty;
mod library;
mod resume;
mod truth;
mod world;
