//! What is shown of a study: plots, notes, and the page.

use super::load::Load;
use super::recommend::load_name;
use super::{BLOCK, Case, Layout, SECONDS_MIN, Setup, Study, WARM_UP_MAX};
use crate::html;
use crate::report::{Axis, Figure, Legend, Line, Panel, Style};
use minijinja::context;
use minijinja::value::Serde;
use tonearm_format::{SegmentLayout, segments_reserved};

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
        heads => Serde(CASE_HEADS),
        cases => Serde(study.cases.iter().map(Case::cells).collect::<Vec<_>>()),
    };
    html::render("study.html", include_str!("../study.html"), content)
}

/// Heads of the table of cases.
pub const CASE_HEADS: [&str; 14] = [
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
    /// Its row under [`CASE_HEADS`].
    pub fn cells(&self) -> Vec<String> {
        let measured = &self.measured;
        let mut cells = vec![
            self.layout.name().to_string(),
            self.utilisation_percent
                .map_or("-".into(), |percent| percent.to_string()),
            ["no", "yes"][usize::from(self.log_drive)].to_string(),
            format!("x{}", self.load),
            format!("{:.0}", measured.requests_per_s),
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

fn mib(bytes: u64) -> String {
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
                "{}, of which {} are written",
                mib(trace.footprint_bytes),
                mib(trace.written_footprint_bytes)
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
                format!("{rate:.1} requests/s over {seconds:.1} s")
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
    rows
}

/// What the models do not know, and what the reader of this study should.
pub(super) fn notes(study: &Study, setup: &Setup, load: &Load) -> Vec<String> {
    let trace = &study.trace;
    let mut notes = Vec::new();
    let all = study.warm_up_requests + setup.requests;
    let passes = all as f64 / trace.requests as f64;
    notes.push(format!(
        "How it was measured: the product's own engine ran on simulated drives in virtual time, with its usual options \
         ({} of memory for written data). Every block that the trace touches was written once; {} requests warmed each store up, \
         the next {} were measured at the trace's load, and after {} more another {} at twice the load. {}",
        mib(setup.memory_bytes),
        study.warm_up_requests,
        setup.requests,
        setup.requests / 4,
        setup.requests,
        if passes > 1.0 {
            format!(
                "The {} requests that were taken of the trace are too few for a steady state, and were repeated: they \
                 ran {passes:.1} times up to the end of the first measurement.",
                trace.requests
            )
        } else {
            String::new()
        }
    ));
    let [without, with] = study.separation_seconds;
    notes.push(format!(
        "wolf and hylog decided which blocks are hot every {without:.0} s ({with:.0} s with a log drive), a 20th of the \
         measured time. The product's default is 20 minutes, of which a short trace has too few."
    ));
    let data = load.blocks * BLOCK;
    let reserved = u64::from(setup.segment_bytes())
        * segments_reserved(&SegmentLayout {
            block_size: BLOCK as u32,
            segment_bytes: setup.segment_bytes(),
            segments: 0,
        });
    let most = setup.utilisations.iter().copied().max().unwrap_or(100);
    let real = 100.0 * data as f64 / (data * 100 / most + reserved) as f64;
    if real < most as f64 - 1.0 {
        notes.push(format!(
            "The trace touches little: besides the spare share, a store with segments has {} in reserve, which counts for \
             more here than in a large store. With it the data takes {real:.0} % of the segments where {most} % is \
             written, so these layouts look better here than with more data.",
            mib(reserved)
        ));
    }
    let unsteady = study.cases.iter().filter(|case| !case.is_steady()).count();
    if unsteady > 0 {
        notes.push(format!(
            "* In {unsteady} of {} cases the write cost differs by more than 10 % between the halves of the \
             measurement: a steady state was not reached, or the trace itself changes. More --requests may help.",
            study.cases.len()
        ));
    }
    if study.warm_up_requests == WARM_UP_MAX * setup.requests {
        notes.push(
            "The warm-up was too short to write every block once more: the trace writes few of the blocks that it \
             touches. The segments are still in the order of the first writing."
                .into(),
        );
    }
    if !trace.complete {
        notes.push(format!(
            "The trace goes on behind the {} requests that were studied (--requests, --for).",
            trace.requests
        ));
    }
    if load.blocks * BLOCK < setup.memory_bytes {
        notes.push(
            "All blocks that the trace touches fit in the memory for written data (--memory). Write-back comes from \
             their age alone, and the layouts differ less than they would with more data."
                .into(),
        );
    }
    let shortest = study.cases.iter().map(|case| case.measured.seconds);
    let shortest = shortest.fold(f64::INFINITY, f64::min);
    if shortest < SECONDS_MIN {
        notes.push(format!(
            "The shortest measurement is {shortest:.1} s of the drives' time, and blocks stay in memory for 5 s if there \
             is room: the work of the layouts shows only in part. Take more --requests."
        ));
    }
    notes.push(
        "What the models do not know: response times of a drive's model have errors of a few percent of the mean \
         (docs/drives.md), and more for a file that was not calibrated; processor time, network and file system are \
         not in them, and no request is answered by a cache of the host. The blocks of the trace were packed densely, \
         so seeks are shorter than on a drive that is full of other data, and sequential reads may cross gaps that \
         the real drive has. The layouts with segments take the trace's blocks divided by the utilisation; overwrite \
         needs no such space, and has one row for all utilisations. The trace does not tell what is written: each \
         write changes all words of its blocks."
            .into(),
    );
    notes
}

/// A figure of all cases.
struct Plot {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    value: fn(&Case) -> Option<f64>,
}

/// By what layouts are compared in a closed loop, and with arrival times.
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
    let compared = &COMPARED[usize::from(!closed)];
    let shown = std::iter::once(compared).chain(&OTHERS).filter(|plot| {
        let mut values = study.cases.iter().map(plot.value);
        values.any(|value| value.is_some())
    });
    let figures = shown.map(|plot| {
        let mut panels: Vec<Panel> = Vec::new();
        for load in super::LOADS {
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
        title: format!(
            "{}, {} log drive",
            load_name(load),
            ["no", "with"][usize::from(log_drive)]
        ),
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
