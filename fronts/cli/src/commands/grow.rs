//! `tonearm grow`.

use super::volume;
use crate::cli::Grow;
use crate::control::Request;
use std::process::ExitCode;
use tonearm_terminal::{report, size};

/// Makes the store larger.
///
/// # Errors
/// When it cannot grow.
pub fn run(arguments: Grow) -> anyhow::Result<ExitCode> {
    let bytes = arguments.by;
    let volumes = volume::ask(&arguments.store, Request::Grow { bytes })?;
    if arguments.store.store.json {
        report::json(&volumes)?;
    } else {
        report::line(format_args!(
            "made the store larger by {}; {} free",
            size::text(bytes),
            size::text(volumes.free_bytes)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
