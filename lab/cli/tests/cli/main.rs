//! The `tonearm-lab` command as users see it: texts, exit codes, and files.

mod calibrate;
mod common;
mod drive;
mod help;
mod lab;
mod study;
mod workload;
