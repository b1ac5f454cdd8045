//! `tonearm checkpoint`.

use crate::cli::Checkpoint;
use crate::control::{Answer, Client, Request};
use anyhow::bail;
use std::process::ExitCode;
use tonearm_terminal::report;

/// Brings everything that has been committed home.
///
/// # Errors
/// When there is no server, it goes away, or the store takes no changes, has failed or is full.
pub fn run(arguments: Checkpoint) -> anyhow::Result<ExitCode> {
    let mut client = Client::need(&arguments.path, arguments.control.as_deref())?;
    let Answer::Checkpoint { lsn, replayed_from } = client.ask(Request::Checkpoint, |_, _| {})?
    else {
        bail!("the server gave another answer than was asked for");
    };
    if arguments.json {
        report::json(&serde_json::json!({"lsn": lsn, "replayed_from": replayed_from}))?
    } else {
        report::line(format_args!(
            "commit {lsn} and all before it are at home; a recovery would begin at commit {replayed_from}"
        ))?
    }
    Ok(ExitCode::SUCCESS)
}
