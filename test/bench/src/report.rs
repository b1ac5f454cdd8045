//! What the reports of the benchmark programs share.

use crate::machine::Surroundings;
use comfy_table::{Row, Table, presets::ASCII_MARKDOWN};
use serde::Serialize;

/// A Markdown table.
pub fn table(header: impl Into<Row>) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(header);
    table
}

/// The verdict on a bound.
pub fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

/// Prints how many samples were taken while other programs worked, if any were.
pub fn print_noisy(samples: impl ExactSizeIterator<Item = Surroundings>) {
    let all = samples.len();
    let noisy = samples.filter(|sample| !sample.quiet()).count();
    if noisy > 0 {
        println!(
            "\n{noisy} of {all} samples were not quiet: other programs used over a tenth of a core."
        );
    }
}

/// Prints a report as JSON.
///
/// # Errors
/// When a figure cannot be written as JSON.
pub fn print_json(report: &(impl Serialize + ?Sized)) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(report)?);
    Ok(())
}
