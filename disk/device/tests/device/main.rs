//! Devices and filters: the rules that all of them keep, and what each adds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance;
mod fence;
mod raw;
