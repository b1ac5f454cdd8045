//! The `tonearm` command as a user meets it: texts, exit codes, and what is left on disk.

mod bad_input;
mod check;
mod common;
mod create;
mod help;
mod serve;
mod volume;
