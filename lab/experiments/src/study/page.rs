//! What is shown of a study: plots, notes, and the page.

use super::case::{Case, LOADS, Layout};
use super::recommend::load_name;
use super::setup::Study;
use crate::html;
use crate::report::{Axis, Figure, Legend, Line, Panel, Style, number};
use minijinja::context;
use minijinja::value::Serde;
use serde::Serialize;
use std::collections::BTreeSet;

/// The study as one self-contained HTML page. `command` is the command that made it.
///
/// # Panics
/// When the template of the page does not fit a study.
pub fn page(study: &Study, command: &str) -> String {
    let content = context! {
        study => Serde(study),
        figures => Serde(&study.figures),
        command => command,
        character => Serde(rows_of_character(study)),
        summary => Serde(Summary::of(study)),
        heads => Serde(CASE_HEADS),
        cases => Serde(study.cases.iter().map(Case::cells).collect::<Vec<_>>()),
    };
    html::render("study.html", include_str!("../study.html"), content)
}

/// Heads of the tables of cases on a terminal, one table for each load.
pub const LOAD_HEADS: [&str; 9] = [
    "layout",
    "full %",
    "log",
    "req/s",
    "reads, ms",
    "writes, ms",
    "cost",
    "MB read",
    "wrote",
];

/// Heads of the table of cases.
const CASE_HEADS: [&str; 14] = [
    "layout",
    "full %",
    "log drive",
    "load",
    "requests/s",
    "reads p50 ms",
    "p99 ms",
    "max ms",
    "writes p50 ms",
    "p99 ms",
    "max ms",
    "write cost",
    "drives read MB",
    "wrote MB",
];

impl Case {
    /// Its row under [`LOAD_HEADS`].
    pub fn cells_of_load(&self) -> Vec<String> {
        let mut cells = self.cells();
        // Layout, full, log drive, load, rate, three times of reads and three of writes, cost, bytes read and written.
        let times = |cells: &[String]| match cells[1].is_empty() || cells[1] == "-" {
            true => cells[0].clone(),
            false => format!("{}/{}", cells[0], cells[1]),
        };
        let (reads, writes) = (times(&cells[5..7]), times(&cells[8..10]));
        cells.splice(5..11, [reads, writes]);
        cells.remove(3);
        cells
    }

    /// Its row under [`CASE_HEADS`].
    fn cells(&self) -> Vec<String> {
        let measured = &self.measured;
        let mut cells = vec![
            self.layout.name().to_string(),
            self.utilisation_percent
                .map_or("-".into(), |percent| percent.to_string()),
            ["no", "yes"][usize::from(self.log_drive)].to_string(),
            format!("x{}", self.load),
            rate(measured.requests_per_s),
        ];
        for times in [measured.reads, measured.durable_writes] {
            match times {
                Some(times) => cells.extend(
                    [times.p50_ms, times.p99_ms, times.max_ms].map(|ms| format!("{ms:.1}")),
                ),
                None if measured.saturated => {
                    cells.extend(["saturated", "", ""].map(String::from));
                }
                None => cells.extend(["-", "-", "-"].map(String::from)),
            }
        }
        let steady = if self.is_steady() { "" } else { " *" };
        cells.push(
            measured
                .write_cost
                .map_or("-".into(), |cost| format!("{cost:.2}{steady}")),
        );
        cells.extend(
            [measured.read_bytes, measured.written_bytes]
                .map(|bytes| format!("{:.0}", bytes as f64 / 1e6)),
        );
        cells
    }
}

pub(super) fn mib(bytes: u64) -> String {
    let number = crate::report::number(bytes as f64 / f64::from(1 << 20));
    format!("{number} MiB")
}

/// What the trace is like: names and values.
pub fn rows_of_character(study: &Study) -> Vec<(&'static str, String)> {
    let trace = &study.trace;
    let count = |number: u64, name: &str| format!("{number} {name}");
    let kib = |bytes: u64| format!("{:.1} KiB", bytes as f64 / 1024.0);
    let percent = |part: u64| 100.0 * part as f64 / (trace.reads + trace.writes) as f64;
    let mut rows = vec![
        (
            "requests",
            format!(
                "{} ({}, {}, {}); {:.0} % of reads and writes are reads",
                trace.requests,
                count(trace.reads, "reads"),
                count(trace.writes, "writes"),
                count(trace.flushes, "flushes"),
                percent(trace.reads)
            ),
        ),
        (
            "durable writes",
            match trace.durable_writes {
                all if all == trace.writes && trace.flushes == 0 => {
                    "all: the trace has no flush and no FUA, so each write waits until it is durable".into()
                }
                some => format!("{some} with FUA; flushes make the others durable"),
            },
        ),
        (
            "request size",
            format!(
                "median {}, 90 % at most {}, largest {}; {:.0} % begin where the one before ended",
                kib(trace.request_bytes_p50),
                kib(trace.request_bytes_p90),
                kib(trace.request_bytes_max),
                trace.sequential_percent
            ),
        ),
        (
            "touched",
            format!(
                "{}, of which {} are written, within {} of the device",
                mib(trace.footprint_bytes),
                mib(trace.written_footprint_bytes),
                mib(trace.reach_bytes)
            ),
        ),
        (
            "working set",
            format!("90 % of the accesses go to {}", mib(trace.working_set_bytes)),
        ),
        (
            "skew",
            trace
                .writes_to_hottest_tenth_percent
                .map_or("no writes".into(), |share| {
                    format!("{share:.0} % of the writes go to the hottest 10 % of the written blocks")
                }),
        ),
    ];
    rows.push((
        "rate",
        match (trace.requests_per_s, trace.seconds, study.clients) {
            (Some(rate), Some(seconds), _) => {
                format!("{} requests/s over {seconds:.1} s", number(rate))
            }
            (_, _, Some(clients)) => format!(
                "closed loop: a client sends a request when the one before is answered; clients: {clients}"
            ),
            _ => "all requests arrive at once".into(),
        },
    ));
    if let Some(busiest) = trace.busiest_second {
        rows.push((
            "bursts",
            format!("the busiest second has {busiest:.1} times the mean rate"),
        ));
    }
    if trace.left_out + trace.other_devices > 0 {
        rows.push((
            "left out",
            format!(
                "{} discards, zeroings and requests of no bytes; {} requests of other devices",
                trace.left_out, trace.other_devices
            ),
        ));
    }
    rows
}

/// A figure of all cases.
struct Plot {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    value: fn(&Case) -> Option<f64>,
}

/// By what layouts are compared: in a closed loop and where they do not keep up, and with arrival times.
const COMPARED: [Plot; 2] = [
    Plot {
        name: "throughput",
        title: "Throughput",
        unit: "requests per second",
        value: |case| Some(case.measured.requests_per_s),
    },
    Plot {
        name: "response",
        title: "Mean response time of all requests",
        unit: "ms",
        value: |case| Some(case.measured.response?.mean_ms),
    },
];

const OTHERS: [Plot; 3] = [
    Plot {
        name: "reads-p99",
        title: "Response time that 99 % of the reads do not exceed",
        unit: "ms",
        value: |case| Some(case.measured.reads?.p99_ms),
    },
    Plot {
        name: "writes-p99",
        title: "Response time that 99 % of the durable writes do not exceed",
        unit: "ms",
        value: |case| Some(case.measured.durable_writes?.p99_ms),
    },
    Plot {
        name: "write-cost",
        title: "Bytes written at home for each byte written",
        unit: "write cost",
        value: |case| case.measured.write_cost,
    },
];

/// The plots: a line for each layout over the utilisation, in a panel for each load, without and with a log drive.
pub(super) fn figures(study: &Study) -> Vec<Figure> {
    let closed = study.trace.closed_loop;
    let saturated = study.cases.iter().any(|case| case.measured.saturated);
    let compared = match (closed, saturated) {
        (true, _) => &COMPARED[..1],
        (false, true) => &COMPARED[..],
        (false, false) => &COMPARED[1..],
    };
    let shown = compared.iter().chain(&OTHERS).filter(|plot| {
        let mut values = study.cases.iter().map(plot.value);
        values.any(|value| value.is_some())
    });
    let figures = shown.map(|plot| {
        let mut panels: Vec<Panel> = Vec::new();
        for load in LOADS {
            for log_drive in [false, true] {
                panels.push(panel(study, load, log_drive, plot));
            }
        }
        let caption = "A missing point is a store that does not keep up with the load.";
        let caption = if closed { "" } else { caption };
        Figure::plot(plot.name, plot.title, caption, panels)
    });
    figures.collect()
}

/// What the recommendation compares, in a table small enough to see at once.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Summary {
    /// What the table has.
    pub title: String,
    /// A row for each layout, a column for each load without and with a log drive.
    pub heads: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Summary {
    /// The summary of a study.
    pub fn of(study: &Study) -> Self {
        let percents: BTreeSet<u64> = study
            .cases
            .iter()
            .filter_map(|case| case.utilisation_percent)
            .collect();
        let columns = || {
            LOADS
                .into_iter()
                .flat_map(|load| [(load, false), (load, true)])
        };
        let heads = columns().map(|(load, log_drive)| column_name(load, log_drive));
        let rows = Layout::ALL.iter().map(|layout| {
            let cells = columns().map(|(load, log_drive)| {
                let cases = study.cases.iter().filter(|case| {
                    (case.layout, case.load, case.log_drive) == (*layout, load, log_drive)
                });
                summary_cell(&cases.collect::<Vec<_>>(), study.trace.closed_loop)
            });
            std::iter::once(layout.name().to_string())
                .chain(cells)
                .collect()
        });
        let over: Vec<String> = percents.iter().map(u64::to_string).collect();
        let what = match study.trace.closed_loop {
            true => "Requests per second",
            false => "Mean response time of all requests",
        };
        let range = match over.len() {
            1 => "",
            _ => "from the least to the most ",
        };
        Self {
            title: format!("{what}, {range}at {} % utilisation", over.join(", ")),
            heads: std::iter::once("layout".to_string()).chain(heads).collect(),
            rows: rows.collect(),
        }
    }
}

/// The cases of one layout at one load, with or without a log drive.
fn summary_cell(cases: &[&Case], closed_loop: bool) -> String {
    let rates = || cases.iter().map(|case| case.measured.requests_per_s);
    let saturated: Vec<&&Case> = cases
        .iter()
        .filter(|case| case.measured.saturated)
        .collect();
    if saturated.len() == cases.len() {
        return format!("does not keep up: {}/s", range(rates(), rate));
    }
    let times = cases
        .iter()
        .filter_map(|case| Some(case.measured.response?.mean_ms));
    let text = match closed_loop {
        true => range(rates(), rate),
        false => format!(
            "{} ms",
            range(times, |ms| number((ms * 100.0).round() / 100.0))
        ),
    };
    let percents = saturated.iter().filter_map(|case| case.utilisation_percent);
    let percents: Vec<String> = percents.map(|percent| percent.to_string()).collect();
    match percents[..] {
        [] => text,
        _ => format!("{text}; does not keep up at {} %", percents.join(", ")),
    }
}

fn range(values: impl Iterator<Item = f64> + Clone, text: impl Fn(f64) -> String) -> String {
    let least = text(values.clone().fold(f64::INFINITY, f64::min));
    let most = text(values.fold(0.0, f64::max));
    if least == most {
        return most;
    }
    format!("{least} to {most}")
}

/// Requests per second, with enough digits to see a difference.
fn rate(requests_per_s: f64) -> String {
    match requests_per_s {
        high if high >= 10.0 => format!("{high:.0}"),
        low => number(low),
    }
}

fn column_name(load: u64, log_drive: bool) -> String {
    let with = ["no", "with"][usize::from(log_drive)];
    format!("{}, {with} log drive", load_name(load))
}

fn panel(study: &Study, load: u64, log_drive: bool, plot: &Plot) -> Panel {
    let mut percents: Vec<u64> = study
        .cases
        .iter()
        .filter_map(|case| case.utilisation_percent)
        .collect();
    percents.sort_unstable();
    percents.dedup();
    let lines = Layout::ALL.iter().zip(0..).map(|(layout, color)| {
        let points = percents.iter().zip(1..).filter_map(|(percent, at)| {
            let case = study.cases.iter().find(|case| {
                case.layout == *layout
                    && case.load == load
                    && case.log_drive == log_drive
                    // Overwrite is the same at each utilisation.
                    && case.utilisation_percent.is_none_or(|own| own == *percent)
            })?;
            Some((f64::from(at), (plot.value)(case)?))
        });
        Line::new(layout.name(), Style::Marked, color, points.collect())
    });
    Panel {
        title: column_name(load, log_drive),
        x: Axis::of(
            "utilisation",
            percents
                .iter()
                .map(|percent| format!("{percent} %"))
                .collect(),
        ),
        y: Axis::linear(plot.unit),
        lines: lines.filter(|line| !line.points.is_empty()).collect(),
        legend: Legend::Outside,
    }
}
