//! Tonearm inside a program: an open store that threads share, and its files.
//!
//! [`files::Files`] is what front ends such as the one for SQLite are written against.

pub mod files;
