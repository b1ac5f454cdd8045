//! `tonearm files`: works through the server when the store is served, otherwise in process.

pub mod copy;
mod get;
mod list;
mod names;
mod one_file;
mod outcome;
pub mod place;
mod put;
mod tree;

pub use one_file::{copy_out, damage_counts, name_of, open, report_copy};

use crate::cli::{Files as Arguments, FilesAction};
use std::process::ExitCode;

/// Carries out the command.
///
/// # Errors
/// When it cannot be done.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        FilesAction::List(arguments) => list::list(&arguments),
        FilesAction::Get(arguments) => get::get(&arguments),
        FilesAction::Put(arguments) => put::put(&arguments),
        FilesAction::Rm(arguments) => names::rm(&arguments),
        FilesAction::Mkdir(arguments) => names::mkdir(&arguments),
        FilesAction::Mv(arguments) => names::mv(&arguments),
    }
}
