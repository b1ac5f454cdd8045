//! Output on the terminal: tables, JSON, and one line for an error.

use crate::program;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde::Serialize;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use terminal_size::{Width, terminal_size_of};

/// Prints `text` and a line end on standard output.
///
/// # Errors
/// When standard output cannot be written.
pub fn line(text: impl std::fmt::Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Prints `value` as indented JSON.
///
/// # Errors
/// When standard output cannot be written.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(line(serde_json::to_string_pretty(value)?)?)
}

/// Prints `value` as one line of JSON.
///
/// # Errors
/// When standard output cannot be written.
pub fn json_line(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(line(serde_json::to_string(value)?)?)
}

/// A table with these column heads.
pub fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic);
    // Lines wrap on a terminal, and stay whole in a file.
    if let Some((Width(columns), _)) = terminal_size_of(io::stdout()) {
        table.set_width(columns);
    }
    table.set_header(heads);
    table
}

/// Wraps the cells of `table` where its lines would be longer than so many characters.
pub fn keep_within(table: &mut Table, chars: usize) {
    let chars = u16::try_from(chars).unwrap_or(u16::MAX);
    let width = table.width().map_or(chars, |width| width.min(chars));
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width);
}

/// A table of names and values, without heads.
pub fn pairs<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    for (name, value) in rows {
        table.add_row([name, &value]);
    }
    table
}

/// Numbers read better at the right edge.
pub fn align_right(table: &mut Table, columns: std::ops::Range<usize>) {
    for index in columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// The error with its causes, as one line on standard error.
pub fn complain(error: &anyhow::Error) {
    // A failure here cannot be reported.
    let _ = writeln!(io::stderr(), "{}: {}", program::name(), one_line(error));
}

/// A note on standard error.
pub fn note(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{}: {text}", program::name());
}

fn one_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        // Many errors repeat their cause in their own text.
        if text.ends_with(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text.replace('\n', " ")
}

/// `path` as a word of the shell.
pub fn shell_word(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,=:@%".contains(byte);
    let text = path.display().to_string();
    if path.as_os_str().as_bytes().iter().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// An identity in its usual form.
pub fn uuid(bytes: [u8; 16]) -> String {
    uuid::Uuid::from_bytes(bytes).to_string()
}

/// A point in time, in UTC.
pub fn date(unix_s: u64) -> String {
    let (days, seconds) = (unix_s / 86_400, unix_s % 86_400);
    // Days to a date of the proleptic Gregorian calendar (Howard Hinnant, civil_from_days).
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// A span, with a unit that fits.
pub fn span(nanos: u64) -> String {
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} us", nanos as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", nanos as f64 / 1e6),
        _ => format!("{:.1} s", nanos as f64 / 1e9),
    }
}

/// A number with thousands apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
#[path = "report_test.rs"]
mod report_test;
