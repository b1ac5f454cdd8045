//! What the reports of the benchmark programs share.

use crate::Spread;
use crate::machine::Surroundings;
use comfy_table::{Row, Table, presets::ASCII_MARKDOWN};
use serde::Serialize;
use std::fmt::Display;

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
pub fn print_noisy(samples: impl Iterator<Item = Surroundings>) {
    let (mut all, mut noisy) = (0, 0);
    for sample in samples {
        all += 1;
        noisy += usize::from(!sample.quiet());
    }
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

/// What a figure must reach.
#[derive(Clone, Copy)]
pub enum Goal {
    /// The least value.
    AtLeast(f64),
    /// The largest value.
    AtMost(f64),
}

impl Goal {
    /// In words.
    pub fn words(self) -> String {
        match self {
            Self::AtLeast(least) => format!("at least {least}"),
            Self::AtMost(most) => format!("at most {most:.2}"),
        }
    }

    /// True when `value` reaches it.
    pub fn met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }
}

/// A figure of results: a column of their table, and a part of the line of each.
pub struct Column<T> {
    name: &'static str,
    decimals: usize,
    value: fn(&T) -> Option<f64>,
    goal: Option<fn(&T) -> Option<Goal>>,
}

impl<T> Column<T> {
    /// The figure `name`, with so many decimals.
    pub const fn new(name: &'static str, decimals: usize, value: fn(&T) -> Option<f64>) -> Self {
        Self {
            name,
            decimals,
            value,
            goal: None,
        }
    }

    /// The same with a goal for the median of the results of a row.
    pub const fn with_goal(
        name: &'static str,
        decimals: usize,
        value: fn(&T) -> Option<f64>,
        goal: fn(&T) -> Option<Goal>,
    ) -> Self {
        Self {
            goal: Some(goal),
            ..Self::new(name, decimals, value)
        }
    }

    fn cells(&self, results: &[&T]) -> Vec<String> {
        let spread = Spread::of(results.iter().filter_map(|one| (self.value)(one)));
        let text = |spread: &Spread| spread.text(self.decimals);
        let mut cells = vec![spread.as_ref().map_or(String::new(), text)];
        cells.extend(self.goal.map(|goal| {
            let goal = results.first().and_then(|one| goal(one));
            let met = goal.zip(spread).map(|(goal, it)| goal.met(it.median));
            met.map_or("", verdict).to_owned()
        }));
        cells
    }
}

/// Prints a table of results under its title: a row for each label of `rows` that has some.
pub fn print_results<'a, T: 'a, L: Display>(
    title: &str,
    heading: &str,
    columns: &[Column<T>],
    rows: impl IntoIterator<Item = (L, Vec<&'a T>)>,
) {
    let rows = rows.into_iter().filter(|(_, results)| !results.is_empty());
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    let verdicts = |column: &Column<T>| column.goal.map(|_| "");
    let names = columns.iter();
    let names = names.flat_map(|column| [Some(column.name), verdicts(column)]);
    let mut table = table([heading].into_iter().chain(names.flatten()));
    for (label, results) in rows {
        let cells = columns.iter().flat_map(|column| column.cells(&results));
        table.add_row([label.to_string()].into_iter().chain(cells));
    }
    println!("\n{title}.\n\n{table}");
}

/// Each of `loads` with its results, of those in `all`.
pub fn by_load<T, L: Copy + PartialEq, const N: usize>(
    loads: [L; N],
    all: &[T],
    load_of: impl Fn(&T) -> L,
) -> [(L, Vec<&T>); N] {
    loads.map(|load| {
        let own = all.iter().filter(|one| load_of(one) == load);
        (load, own.collect())
    })
}

/// The figures of one result.
pub fn line<T>(columns: &[Column<T>], result: &T) -> String {
    let text = |column: &Column<T>| {
        let value = (column.value)(result)?;
        Some(format!("{} {value:.*}", column.name, column.decimals))
    };
    columns
        .iter()
        .filter_map(text)
        .collect::<Vec<_>>()
        .join(", ")
}
