//! `tonearm-lab drive deltas`: the delays between two requests, as a section of a drive's file.

use crate::cli::Deltas;
use anyhow::Context;
use std::process::ExitCode;
use tonearm_drive_file::DriveFile;
use tonearm_terminal::report;

/// Prints the section.
///
/// # Errors
/// When the drive's file is wrong, or this drive has no such delays.
pub fn run(arguments: &Deltas) -> anyhow::Result<ExitCode> {
    let file = DriveFile::find(&arguments.drive)?;
    let section = tonearm_calibrate::deltas_section(&file.spec).with_context(|| {
        format!(
            "on {} no request is in time for the track of the one before: the formula is of no use there",
            file.name
        )
    })?;
    // The file to which it is appended may end without a newline.
    report::line(format_args!("\n{}", section.trim_end()))?;
    Ok(ExitCode::SUCCESS)
}
