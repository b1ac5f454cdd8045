//! The `tonearm-lab` command as a user meets it: texts, exit codes, and what is left on disk.

mod calibrate;
mod common;
mod drive;
mod help;
mod lab;
