//! The project's rules, one test for each.

#![allow(clippy::unwrap_used)]

mod circles;
mod crates;
mod documents;
mod layers;
mod licences;
mod links;
mod mutants;
mod text;
mod words;
