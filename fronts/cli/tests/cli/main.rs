//! The `tonearm` command as a user meets it: texts, exit codes, and what is left on disk.

mod bad_input;
mod calibrate;
mod check;
mod common;
mod create;
mod drive;
mod help;
mod lab;
mod serve;
mod volume;
