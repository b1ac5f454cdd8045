//! The project's rules, one test each.

#![allow(clippy::unwrap_used)]

mod crates;
mod documents;
mod licences;
mod mutants;
mod text;
