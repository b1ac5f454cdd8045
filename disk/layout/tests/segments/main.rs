//! The segments layout against a model: cleaning, reopening, rebuilding, and its cost.
#![allow(clippy::unwrap_used)]

mod capacity;
mod common;
mod cost;
mod crash;
mod full;
mod indirect;
mod model;
mod plug;
mod readers;
mod rebuild;
mod sorted;
mod stripes;
