//! The segments layout against a model: cleaning, reopening, rebuilding, and its cost.
#![allow(clippy::unwrap_used)]

mod common;
mod cost;
mod model;
mod rebuild;
