//! Predictors on the simulated drives of the project.
#![allow(clippy::unwrap_used)]

mod formula;
mod mimic;
mod tracks;
mod truth;
