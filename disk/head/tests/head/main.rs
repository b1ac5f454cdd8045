//! Predictors on the simulated drives of the project.
#![allow(clippy::unwrap_used)]

mod conformance;
mod formula;
mod mimic;
mod truth;
