//! Errors of a trace, each with file and line.

use std::io;
use thiserror::Error;
use tonearm_base::Nanos;

/// Longest line that is read, in bytes.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 10;

/// A trace that cannot be read on.
#[derive(Error, Debug)]
pub enum TraceError {
    /// A line is not of the format.
    #[error("{file}:{line}: {reason}")]
    Line {
        /// The trace's name, as given.
        file: String,
        /// Number of the line, from 1.
        line: u64,
        /// The error.
        reason: Reason,
    },
    /// The file cannot be read, or begins like a gzip file and is not valid.
    #[error("{file}:{line}: cannot read on: {source}")]
    Read {
        /// The trace's name, as given.
        file: String,
        /// Number of the line that could not be read, from 1.
        line: u64,
        /// The error of the system.
        source: io::Error,
    },
}

/// Why a line is refused.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// A field does not have the required form.
    #[error("{} field '{text}' is not {what}", ordinal(*field))]
    NotA {
        /// Number of the field, from 1.
        field: usize,
        /// Its content, shortened.
        text: String,
        /// The expected content.
        what: &'static str,
    },
    /// The line ends too soon.
    #[error("{} field, {what}, is missing", ordinal(*field))]
    Missing {
        /// Number of the field, from 1.
        field: usize,
        /// The expected content.
        what: &'static str,
    },
    /// More than 64 KiB without a line end.
    #[error("the line is longer than {LINE_BYTES_MAX} bytes: is this a text file?")]
    LongLine,
    /// Invariant 3.
    #[error("arrives {:.3} s before the line above: are several traces joined here?", back.0 as f64 / 1e9)]
    BackInTime {
        /// How far.
        back: Nanos,
    },
    /// A read or write of nothing.
    #[error("the request has no sectors")]
    NoSectors,
    /// The range cannot be numbered.
    #[error("the request ends beyond the last sector that can be numbered")]
    TooLarge,
    /// The first line does not name the version.
    #[error("'{text}' is neither 'fio version 2 iolog' nor 'fio version 3 iolog'")]
    NotAnIolog {
        /// How the line begins.
        text: String,
    },
    /// The first line must name the columns.
    #[error("the header has no column '{name}'")]
    NoColumn {
        /// What it could be called.
        name: &'static str,
    },
    /// Neither an event nor a part of the summary.
    #[error("'{text}' is not an event of blkparse's default output")]
    NotAnEvent {
        /// How the line begins.
        text: String,
    },
    /// Each file needs memory.
    #[error("more than {max} files are named")]
    ManyFiles {
        /// How many may be.
        max: usize,
    },
}

fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// The beginning of the wrong text, shortened to one line of a terminal.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    const CHARS: usize = 40;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * CHARS)]);
    let mut text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if let Some((at, _)) = text.char_indices().nth(CHARS) {
        text.truncate(at);
        text.push_str("...");
    }
    text
}
