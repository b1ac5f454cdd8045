//! Tables and JSON of a run.

use crate::archive;
use crate::guest;
use crate::layouts::{self, Case};
use crate::no_disk;
use crate::recorder;
use crate::recovery::{self, Recovery};
use crate::sample::{Figures, Sample};
use crate::server::Kind;
use crate::workload::{WORKLOADS, Workload};
use comfy_table::Table;
use serde::Serialize;
use tonearm_bench::Spread;
use tonearm_bench::machine::Machine;
use tonearm_bench::report::{by_load, print_noisy, print_results, verdict};
use tonearm_bench::rounds::Samples;

/// Ratio of Tonearm's rate to that of the better peer.
#[derive(Serialize)]
pub struct Ratio {
    name: &'static str,
    title: &'static str,
    target: Option<f64>,
    /// Of the medians.
    ratio: f64,
    /// Over the rounds.
    ratio_min: f64,
    ratio_max: f64,
}

/// The ratios of all workloads that were measured.
pub fn ratios(samples: &Samples<Figures>) -> Vec<Ratio> {
    let [ours, peers @ ..] = names();
    let ratio = |workload: &Workload| {
        let Workload { name, title, .. } = *workload;
        let rate = |contender| samples.spread(name, contender, |sample| Some(sample.rate));
        let of_round = |own: &Sample| {
            let all = peers.iter().flat_map(|peer| samples.of(name, peer));
            let rates = all.filter(|peer| peer.round == own.round);
            own.rate / rates.map(|peer| peer.rate).fold(0.0, f64::max)
        };
        let rounds = samples.spread(name, ours, |own| Some(of_round(own)))?;
        let medians = peers.iter().filter_map(|peer| Some(rate(peer)?.median));
        Some(Ratio {
            name,
            title,
            target: workload.target,
            ratio: rate(ours)?.median / medians.fold(0.0, f64::max),
            ratio_min: rounds.min,
            ratio_max: rounds.max,
        })
    };
    WORKLOADS.iter().filter_map(ratio).collect()
}

/// All that was measured.
#[derive(Serialize)]
pub struct Run {
    /// The machine of the measurement.
    pub machine: Machine,
    /// Log of Tonearm's store.
    pub log_size: String,
    /// Ratios of the workloads.
    pub workloads: Vec<Ratio>,
    /// Samples of the workloads.
    pub samples: Samples<Figures>,
    /// Recoveries.
    pub recoveries: Vec<Recovery>,
    /// Samples with and without a recorder.
    pub recorders: Vec<recorder::Pair>,
    /// Samples with and without an archive.
    pub archives: Vec<archive::Pair>,
    /// Restores.
    pub restores: Vec<archive::Restore>,
    /// Samples by vhost-user and by NBD.
    pub guests: Vec<guest::Pair>,
    /// Samples with the store on the disk, and without a disk.
    pub disks: Vec<no_disk::Triple>,
    /// The layouts.
    pub layouts: Vec<Case>,
}

impl Run {
    /// Every sample, of the pairs too.
    fn all(&self) -> impl Iterator<Item = &Sample> {
        let recorders = self.recorders.iter();
        let recorders = recorders.flat_map(|pair| [&pair.without, &pair.with]);
        let archives = self.archives.iter();
        let archives = archives.flat_map(|pair| [&pair.without, &pair.with, &pair.with_traffic]);
        let guests = self.guests.iter().flat_map(|pair| [&pair.nbd, &pair.guest]);
        let disks = self.disks.iter().flat_map(no_disk::Triple::samples);
        let pairs = recorders.chain(archives).chain(guests).chain(disks);
        self.samples.0.iter().chain(pairs)
    }

    /// Prints the run as Markdown.
    pub fn print(&self) {
        let (machine, log_size) = (self.machine.line(), &self.log_size);
        println!("{machine}; tonearm with a log of {log_size}\n");
        let rounds = self.all().map(|sample| sample.round + 1);
        let counts = [self.recoveries.len(), self.restores.len()];
        let rounds = rounds.chain(counts).max().unwrap_or(0);
        if rounds > 0 {
            println!(
                "Medians (min-max) of {rounds} rounds. Rates are requests in a second (MiB/s where a request is 1 MiB).\n"
            );
        }
        if !self.workloads.is_empty() {
            println!("{}", self.rates());
            println!(
                "\nProcessor time of the server for each request, its flush included, in us.\n"
            );
            println!("{}", self.times());
        }
        let title = format!("{}; target {} s", recovery::TITLE, recovery::TARGET_S);
        let all = [(recovery::NAME, self.recoveries.iter().collect())];
        print_results(&title, "", &recovery::COLUMNS, all);
        let title = format!("{}; target {}", recorder::TITLE, recorder::TARGET);
        let rows = by_load(recorder::LOADS, &self.recorders, |pair| pair.with.workload);
        print_results(&title, "workload", &recorder::COLUMNS, rows);
        let title = format!(
            "{}; targets {} for durable writes, {} MiB of changes per CPU second",
            archive::TITLE,
            archive::TARGET,
            archive::TARGET_MIB
        );
        let rows = by_load(archive::LOADS, &self.archives, |pair| pair.with.workload);
        print_results(&title, "workload", &archive::COLUMNS, rows);
        let title = format!(
            "Restore from a folder; target {} of the rate of a copy",
            archive::TARGET_RESTORE
        );
        let all = [("restore", self.restores.iter().collect())];
        print_results(&title, "", &archive::RESTORE, all);
        let title = format!(
            "{}. Targets: {} of the rate at depth 1, {} of the processor time",
            guest::TITLE,
            guest::TARGET,
            guest::TARGET_CPU
        );
        let rows = by_load(guest::DEPTHS, &self.guests, |pair| pair.depth);
        print_results(&title, "depth", &guest::COLUMNS, rows);
        let title = format!("{}. Target: {}", no_disk::TITLE, no_disk::TARGET);
        let all = [(no_disk::NAME, self.disks.iter().collect())];
        print_results(&title, "", &no_disk::COLUMNS, all);
        let title = format!("{}; target {} ms", layouts::TITLE, layouts::TARGET_MS);
        let cases = self.layouts.iter().map(|case| (case.label(), vec![case]));
        print_results(&title, "load and layout", &layouts::COLUMNS, cases);
        let layouts = self.layouts.iter().map(|case| case.surroundings);
        print_noisy(self.all().map(|sample| sample.surroundings).chain(layouts));
    }

    fn rates(&self) -> Table {
        let rows = self.workloads.iter().map(|row| {
            let spread = Spread {
                median: row.ratio,
                min: row.ratio_min,
                max: row.ratio_max,
            };
            let target = row.target;
            let end = vec![
                spread.text(2),
                target.map_or(String::new(), |target| target.to_string()),
                target
                    .map_or("", |least| verdict(row.ratio >= least))
                    .to_owned(),
            ];
            (row.name, vec![row.title.to_owned()], end)
        });
        let header: [&[&str]; 2] = [&["workload"], &["ratio", "target", ""]];
        let rate = |sample: &Sample| Some(sample.rate);
        self.samples.table(header, rows, &names(), (rate, 0))
    }

    fn times(&self) -> Table {
        let rows = self.workloads.iter().map(|row| {
            let all = self.samples.of(row.name, Kind::Tonearm.name());
            let flushes = all.map(|sample| sample.figures.flushes_per_1000);
            let end = vec![Spread::cell(flushes, 0)];
            (row.name, vec![row.title.to_owned()], end)
        });
        let time = |sample: &Sample| Some(sample.figures.cpu_us);
        let header: [&[&str]; 2] = [&["workload"], &["flushes/1000"]];
        self.samples.table(header, rows, &names(), (time, 1))
    }
}

fn names() -> [&'static str; Kind::ALL.len()] {
    Kind::ALL.map(Kind::name)
}
