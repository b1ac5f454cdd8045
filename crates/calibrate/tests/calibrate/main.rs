//! Calibrations of drives that have never been seen before, in virtual time.
#![allow(clippy::unwrap_used)]

mod library;
mod truth;
mod world;
