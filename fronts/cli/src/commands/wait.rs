//! `tonearm wait`.

use crate::cli::Wait;
use crate::control::{Answer, Client, Mark, Request, Waited};
use anyhow::bail;
use std::process::ExitCode;
use tonearm_terminal::report;

/// Exit code when the time is over.
const TIMED_OUT: u8 = 4;
/// Exit code when no commit has the number yet.
const NOT_COMMITTED: u8 = 5;

/// Waits until a commit has reached a mark.
///
/// # Errors
/// When there is no server, it goes away, or the store has failed.
pub fn run(arguments: Wait) -> anyhow::Result<ExitCode> {
    let (mark, lsn) = match (arguments.durable, arguments.archived) {
        (_, Some(lsn)) => (Mark::Archived, lsn),
        (lsn, None) => (Mark::Durable, lsn.unwrap_or_default()),
    };
    let mut client = Client::need(&arguments.path, arguments.control.as_deref())?;
    let request = Request::Wait {
        mark,
        lsn,
        timeout_ms: arguments.timeout.map(|timeout| timeout.as_millis() as u64),
    };
    let (waited, marks) = match client.ask(request, |_, _| {})? {
        Answer::Waited { outcome, marks } => (outcome, marks),
        _ => bail!("the server gave another answer than was asked for"),
    };
    if arguments.json {
        report::json(&serde_json::json!({"lsn": lsn, "outcome": waited, "marks": marks}))?;
    }
    let code = match waited {
        Waited::Reached => 0,
        Waited::TimedOut => TIMED_OUT,
        Waited::NotCommitted => NOT_COMMITTED,
    };
    let (name, reached) = match mark {
        Mark::Durable => ("durable", marks.durable),
        Mark::Archived => ("archived", marks.archived),
    };
    let appended = marks.appended;
    match waited {
        _ if arguments.json => {}
        Waited::Reached => report::line(format_args!("commit {lsn} is {name}"))?,
        Waited::TimedOut => report::note(format_args!(
            "commit {lsn} is not {name} in time; commit {reached} is, of {appended}"
        )),
        Waited::NotCommitted => report::note(format_args!(
            "there is no commit {lsn} yet: the last one is {appended}"
        )),
    }
    Ok(ExitCode::from(code))
}
