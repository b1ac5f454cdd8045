//! The project's rules, one test each.

mod crates;
mod documents;
mod licences;
mod text;
