//! Tests of the `tonearm` command: its texts, its exit codes, and the files that it leaves.

mod bad_input;
mod check;
mod common;
mod create;
mod files;
mod help;
mod modes;
mod names;
mod raid;
mod relayout;
mod restore;
mod serve;
mod trace;
mod usage;
mod volume;
mod wait;
