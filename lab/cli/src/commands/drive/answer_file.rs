//! The answers of a replay as text: a line for each request.

use super::run::Answer;
use super::times::exact_ms;
use crate::commands::output::Output;
use std::path::Path;
use tonearm_trace::Op;

const HEADER: &str = "arrival_ms,lba,sectors,rw,response_ms";

/// Begins the file.
///
/// # Errors
/// When it cannot be written.
pub fn create(path: &Path) -> anyhow::Result<Output> {
    let mut output = Output::create(path)?;
    output.line(format_args!("{HEADER}"))?;
    Ok(output)
}

/// Adds a line.
///
/// # Errors
/// When it cannot be written.
pub fn write(output: &mut Output, answer: &Answer) -> anyhow::Result<()> {
    let Answer {
        record,
        issued,
        response,
    } = answer;
    let letter = match record.op {
        Op::Read => 'R',
        Op::Write => 'W',
        Op::Flush => 'F',
    };
    output.line(format_args!(
        "{},{},{},{letter},{}",
        exact_ms(*issued),
        record.sector,
        record.sectors,
        exact_ms(*response)
    ))
}
