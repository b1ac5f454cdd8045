//! Predictors on the simulated drives of the project, and rules for all of them.

#![allow(clippy::unwrap_used)]
// Used by the expansion of proptest's macros.
#![allow(clippy::disallowed_types)]

mod conformance;
mod formula;
mod mimic;
mod online;
mod truth;
