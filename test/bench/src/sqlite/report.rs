//! Tables and JSON of a run.

use crate::archive::{self, Copier, Pair};
use crate::bare::Bare;
use crate::contender::{
    CONTENDERS, DELETE_FULL, Promise, TONEARM_FULL, TONEARM_NORMAL, WAL_FULL, WAL_NORMAL,
};
use crate::sample::{Figures, Sample};
use crate::workload::{DELETE_FULL_MIN, WAL_FULL_P999_MAX, WAL_NORMAL_MIN, WORKLOADS, Workload};
use serde::Serialize;
use tonearm_bench::Spread;
use tonearm_bench::machine::Machine;
use tonearm_bench::report::{Goal, print_noisy, print_results, table, verdict};
use tonearm_bench::rounds::Samples;

/// Ratio of a figure of Tonearm to that of a peer in the same rounds.
#[derive(Serialize)]
pub struct Ratio {
    workload: &'static str,
    contender: &'static str,
    peer: &'static str,
    figure: &'static str,
    #[serde(flatten)]
    spread: Spread,
    /// The target in words.
    target: Option<String>,
    met: Option<bool>,
}

type Figure = fn(&Sample) -> Option<f64>;

/// The ratios of all workloads and contenders of Tonearm to their peers.
pub fn ratios(samples: &Samples<Figures>) -> Vec<Ratio> {
    let rate: (&str, fn(&Sample) -> f64) = ("commits/s", |sample| sample.rate);
    let p999: (&str, fn(&Sample) -> f64) = ("p99.9", |sample| sample.figures.times.p999_us);
    let mut ratios = Vec::new();
    for workload in WORKLOADS {
        for ours in CONTENDERS.iter().filter(|contender| contender.is_ours()) {
            let wal = workload.wal_full_min.map(Goal::AtLeast);
            let all: &[_] = match ours.promise() {
                Promise::Durable => &[
                    (WAL_FULL, rate, wal),
                    (WAL_FULL, p999, Some(Goal::AtMost(WAL_FULL_P999_MAX))),
                    (DELETE_FULL, rate, Some(Goal::AtLeast(DELETE_FULL_MIN))),
                ],
                Promise::Ordered => &[(WAL_NORMAL, rate, Some(Goal::AtLeast(WAL_NORMAL_MIN)))],
            };
            ratios.extend(all.iter().filter_map(|(peer, (figure, value), asked)| {
                let spread = samples.ratio(workload.name, ours.name, peer, value)?;
                Some(Ratio {
                    workload: workload.name,
                    contender: ours.name,
                    peer,
                    figure,
                    target: asked.map(Goal::words),
                    met: asked.map(|asked| asked.met(spread.median)),
                    spread,
                })
            }));
        }
    }
    ratios
}

/// All that was measured.
#[derive(Serialize)]
pub struct Run {
    /// The version of SQLite.
    pub sqlite: &'static str,
    /// The machine of the measurement.
    pub machine: Machine,
    /// Log of Tonearm's store.
    pub log_size: String,
    /// Ratios of Tonearm's figures to those of peers.
    pub ratios: Vec<Ratio>,
    /// Upper bounds of the rates.
    pub bounds: Vec<Bound>,
    /// The disk itself.
    pub disk: Vec<Bare>,
    /// Samples of the workloads.
    pub samples: Samples<Figures>,
    /// Samples with and without copies.
    pub archives: Vec<Pair>,
}

const FIGURES: [(&str, Figure, usize); 9] = [
    (
        "Time of a transaction, p50, in us",
        |s| Some(s.figures.times.p50_us),
        0,
    ),
    (
        "Time of a transaction, p99, in us",
        |s| Some(s.figures.times.p99_us),
        0,
    ),
    (
        "Time of a transaction, p99.9, in us",
        |s| Some(s.figures.times.p999_us),
        0,
    ),
    (
        "Longest transaction, in us",
        |s| Some(s.figures.times.max_us),
        0,
    ),
    (
        "Processor time of the whole process for each transaction, in us",
        |s| Some(s.figures.cpu_us),
        1,
    ),
    (
        "Bytes that the block device has written for each transaction",
        |s| s.figures.device_bytes,
        0,
    ),
    (
        "Flushes of the block device for each transaction",
        |s| s.figures.device_flushes,
        2,
    ),
    (
        "Bytes that Tonearm's log has written for each transaction, as Tonearm counts them",
        |s| s.figures.log_bytes,
        0,
    ),
    (
        "Flushes and FUA writes of Tonearm's log for each transaction, as Tonearm counts them",
        |s| s.figures.log_flushes,
        2,
    ),
];

impl Run {
    /// Prints the run as Markdown.
    pub fn print(&self) {
        println!(
            "SQLite {}; {}; tonearm with a log of {}. Medians (least-most) of {} rounds.",
            self.sqlite,
            self.machine.line(),
            self.log_size,
            self.disk.len()
        );
        self.table("Commits in a second", |sample| Some(sample.rate), 0);
        print_ratios(&self.ratios);
        print_disk(&self.disk);
        print_bounds(&self.bounds);
        for (title, figure, decimals) in FIGURES {
            self.table(title, figure, decimals);
        }
        print_copies(&self.archives);
        let pairs = self.archives.iter();
        let pairs = pairs.flat_map(|pair| [&pair.without, &pair.with]);
        let all = self.samples.0.iter().chain(pairs);
        print_noisy(all.map(|sample| sample.surroundings));
    }

    /// Prints a table with a row for each workload and a column for each contender that has the figure.
    fn table(&self, title: &str, figure: Figure, decimals: usize) {
        let names = CONTENDERS.iter().map(|contender| contender.name);
        let names: Vec<_> = names
            .filter(|name| {
                let mut all = self.samples.0.iter();
                all.any(|sample| sample.contender == *name && figure(sample).is_some())
            })
            .collect();
        if !names.is_empty() {
            let rows = WORKLOADS.iter();
            let rows = rows.map(|it| (it.name, vec![it.title.to_owned()], Vec::new()));
            let header: [&[&str]; 2] = [&["workload"], &[]];
            let table = self.samples.table(header, rows, &names, (figure, decimals));
            println!("\n{title}.\n\n{table}");
        }
    }
}

/// Prints what copies of transactions cost.
fn print_copies(pairs: &[Pair]) {
    let title = format!(
        "{}. Both copy once a second. What is lost is what the copy did not have at the end of the load. Target of the rate with Tonearm's: {}",
        archive::TITLE,
        archive::TARGET
    );
    let rows = archive::loads().flat_map(|load| Copier::ALL.map(|copier| (load, copier)));
    let rows = rows.map(|(load, copier)| {
        let is_of = |pair: &&Pair| pair.with.workload == load.name && pair.copier == copier;
        let label = format!("{}, by {}", load.title, copier.name());
        (label, pairs.iter().filter(is_of).collect())
    });
    print_results(&title, "workload", &archive::COLUMNS, rows);
}

fn print_ratios(ratios: &[Ratio]) {
    if ratios.is_empty() {
        return;
    }
    println!("\nRatios of Tonearm's figures to those of a peer in the same round.\n");
    let mut table = table([
        "workload", "tonearm", "peer", "figure", "ratio", "target", "",
    ]);
    for ratio in ratios {
        table.add_row([
            ratio.workload.to_owned(),
            ratio.contender.to_owned(),
            ratio.peer.to_owned(),
            ratio.figure.to_owned(),
            ratio.spread.text(2),
            ratio.target.clone().unwrap_or_default(),
            ratio.met.map_or("", verdict).to_owned(),
        ]);
    }
    println!("{table}");
}

fn print_disk(disk: &[Bare]) {
    let text = |figure: fn(&Bare) -> f64| Spread::cell(disk.iter().map(figure), 0);
    println!(
        "\nThe disk itself, FUA writes of 4 KiB one after the other, in us: p50 {}, p99 {}, p99.9 {}, \
         longest {}.",
        text(|bare| bare.times.p50_us),
        text(|bare| bare.times.p99_us),
        text(|bare| bare.times.p999_us),
        text(|bare| bare.times.max_us)
    );
}

/// Upper bound on the rate when one device write commits a transaction of each connection.
#[derive(Serialize)]
pub struct Bound {
    workload: &'static str,
    /// Median over the rounds, in transactions a second.
    median: f64,
    /// Share of the bound that Tonearm reaches.
    share: f64,
    /// The bound as a multiple of the rate of WAL with FULL.
    by_wal: Option<f64>,
}

/// In each cycle of the bound every connection makes a transaction, as fast as with synchronous=NORMAL, where none
/// waits for the disk. Then one block is written, and the next cycle begins.
pub fn bounds(samples: &Samples<Figures>, disk: &[Bare]) -> Vec<Bound> {
    let bound = |workload: &'static Workload| {
        let of_round = |contender: &'static str, round: usize| {
            let mut all = samples.of(workload.name, contender);
            all.find(|sample| sample.round == round)
                .map(|sample| sample.rate)
        };
        // The bound, the share that Tonearm reaches, and the bound relative to WAL.
        let (mut most, mut share, mut by_wal) = (Vec::new(), Vec::new(), Vec::new());
        for bare in disk {
            let normal = of_round(TONEARM_NORMAL, bare.round)?;
            let connections = workload.connections as f64;
            let possible = connections / (connections / normal + bare.times.p50_us / 1e6);
            most.push(possible);
            share.push(of_round(TONEARM_FULL, bare.round)? / possible);
            by_wal.extend(of_round(WAL_FULL, bare.round).map(|wal| possible / wal));
        }
        let median = |values: Vec<f64>| Spread::of(values.into_iter()).map(|spread| spread.median);
        Some(Bound {
            workload: workload.name,
            median: median(most)?,
            share: median(share)?,
            by_wal: median(by_wal),
        })
    };
    // The bound does not apply where connections wait for each other's locks.
    let apart = WORKLOADS
        .iter()
        .filter(|workload| workload.connections == workload.databases);
    apart.filter_map(bound).collect()
}

fn print_bounds(bounds: &[Bound]) {
    if bounds.is_empty() {
        return;
    }
    println!(
        "\nUpper bound of {TONEARM_FULL} with one write for a transaction of each connection: all connections make a \
         transaction as fast as {TONEARM_NORMAL} does, and one bare write makes all of them durable.\n"
    );
    let mut table = table(["workload", "commits/s", "reached", "by wal-full"]);
    for bound in bounds {
        table.add_row([
            bound.workload.to_owned(),
            format!("{:.0}", bound.median),
            format!("{:.0} %", bound.share * 100.0),
            bound
                .by_wal
                .map_or(String::new(), |ratio| format!("{ratio:.2}")),
        ]);
    }
    println!("{table}");
}
