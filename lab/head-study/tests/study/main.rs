//! Predictors on the simulated drives of the project, and what each has to keep to.

#![allow(clippy::unwrap_used)]
// What proptest's macros expand to.
#![allow(clippy::disallowed_types)]

mod conformance;
mod formula;
mod mimic;
mod truth;
