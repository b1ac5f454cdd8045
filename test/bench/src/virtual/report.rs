//! Tables and JSON of a run.

use crate::arus::{self, EMPTY_NS_MAX, RATE_MIN, SIDE_BY_SIDE};
use crate::run::{Figures, Shape};
use serde_json::{Value, json};
use tonearm_bench::Spread;
use tonearm_bench::report::{print_json, table, verdict};

/// Target for commits in a second of processor time, on drives without mechanics.
const RATE_TARGET: f64 = 500_000.0;
/// Most resident memory allowed, in bytes.
const RSS_MAX: u64 = 64 << 20;

fn median<T>(results: &[T], value: impl Fn(&T) -> f64) -> f64 {
    Spread::of(results.iter().map(value)).map_or(f64::NAN, |spread| spread.median)
}

/// The rounds in one world.
pub struct Run {
    /// What was measured.
    pub shape: Shape,
    /// Results of the rounds.
    pub results: Vec<Figures>,
}

impl Run {
    fn median(&self, value: impl Fn(&Figures) -> f64) -> f64 {
        median(&self.results, value)
    }

    /// True for the world that has a target rate.
    fn is_targeted(&self) -> bool {
        self.shape.drives.is_none() && !self.shape.all_new
    }

    fn per_commit(&self, count: fn(&Figures) -> u64) -> f64 {
        self.median(|figures| figures.per_commit(count(figures)))
    }

    fn peak_rss_bytes(&self) -> u64 {
        let peaks = self.results.iter().map(|figures| figures.peak_rss_bytes);
        peaks.max().unwrap_or(0)
    }

    /// The figures of the table: name, value, decimals.
    fn rows(&self) -> Vec<(&'static str, f64, usize)> {
        let mut rows = vec![
            ("commits per CPU second", self.median(Figures::rate), 0),
            ("peak memory, MiB", mib(self.peak_rss_bytes()), 1),
            ("ns per commit", self.per_commit(|f| f.cpu_ns), 0),
        ];
        if self.shape.split {
            let world = self.per_commit(|f| f.world_ns);
            rows.push(("of it in the simulated world", world, 0));
        }
        let virtual_seconds = self.median(|f| f.virtual_ns as f64 / 1e9);
        let times = self.median(|f| f.virtual_ns as f64 / f.cpu_ns as f64);
        rows.extend([
            (
                "device I/Os per commit",
                self.per_commit(|f| f.device_ios),
                3,
            ),
            (
                "log writes per commit",
                self.per_commit(|f| f.log_writes),
                4,
            ),
            (
                "log flushes per commit",
                self.per_commit(|f| f.log_flushes),
                4,
            ),
            (
                "home writes per commit",
                self.per_commit(|f| f.home_writes),
                3,
            ),
            (
                "blocks written home per commit",
                self.per_commit(|f| f.written_back_blocks),
                3,
            ),
            ("times round the log", self.median(|f| f.log_laps), 1),
            ("virtual seconds", virtual_seconds, 1),
            ("times faster than the drives", times, 1),
        ]);
        rows
    }

    fn json(&self) -> Value {
        let shape = &self.shape;
        json!({
            "drives": drives(shape),
            "all_new": shape.all_new,
            "commits_per_cpu_second": self.median(Figures::rate),
            "ns_per_commit": self.per_commit(|f| f.cpu_ns),
            "world_ns_per_commit": shape.split.then(|| self.per_commit(|f| f.world_ns)),
            "device_ios_per_commit": self.per_commit(|f| f.device_ios),
            "peak_rss_bytes": self.peak_rss_bytes(),
            "clients": shape.clients,
            "blocks": shape.blocks,
            "memory_bytes": shape.memory_bytes,
            "log_bytes": shape.log_bytes,
            "power_cuts": shape.power_cuts,
            "rounds": self.results,
        })
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn drives(shape: &Shape) -> String {
    match &shape.drives {
        None if shape.all_new => "random latencies, contents all new".to_owned(),
        None => "random latencies".to_owned(),
        Some([(log, _), (home, _)]) => format!("log on {log}, home on {home}"),
    }
}

/// The line that a run prints for a round.
pub fn line(shape: &Shape, figures: &Figures, round: usize, rounds: usize) -> String {
    format!(
        "{}, round {round}/{rounds}: {:.0} commits per CPU second, {:.0} ns each, {:.2} device I/Os each, {:.1} MiB",
        drives(shape),
        figures.rate(),
        figures.per_commit(figures.cpu_ns),
        figures.per_commit(figures.device_ios),
        mib(figures.peak_rss_bytes)
    )
}

/// Prints all runs, as Markdown or as JSON.
///
/// # Errors
/// When the figures cannot be written as JSON.
pub fn print(runs: &[Run], units: &[arus::Figures], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let targeted = runs.iter().find(|run| run.is_targeted());
        let runs: Vec<_> = runs.iter().map(Run::json).collect();
        return print_json(&json!({
            "commits_per_cpu_second": targeted.map(|run| run.median(Figures::rate)),
            "commits_per_cpu_second_target": RATE_TARGET,
            "peak_rss_bytes": targeted.map(Run::peak_rss_bytes),
            "peak_rss_bytes_max": RSS_MAX,
            "runs": runs,
            "units": units,
        }));
    }
    let Some(Run { shape, results }) = runs.first() else {
        return Ok(());
    };
    println!(
        "The whole engine in virtual time: {} clients commit blocks of 4 KiB at random over {} MiB, each \
         durable; log of {} MiB, {} MiB of payload in memory. Medians of {} rounds.\n",
        shape.clients,
        (shape.blocks * 4096) >> 20,
        shape.log_bytes >> 20,
        shape.memory_bytes >> 20,
        results.len()
    );
    let columns: Vec<_> = runs.iter().map(Run::rows).collect();
    let header = runs.iter().map(|run| drives(&run.shape));
    let mut table = table([String::new()].into_iter().chain(header));
    for (row, (name, ..)) in columns[0].iter().enumerate() {
        let values = columns.iter().map(|column| {
            let (_, value, decimals) = column[row];
            format!("{value:.decimals$}")
        });
        table.add_row([(*name).to_owned()].into_iter().chain(values));
    }
    println!("{table}");
    // With `all_new` most of the memory belongs to the simulated drives, so it has no verdict.
    for run in runs.iter().filter(|run| !run.shape.all_new) {
        println!("\n{}", bounds(run));
    }
    show_units(units);
    Ok(())
}

/// Prints only rounds of units, as Markdown or as JSON.
///
/// # Errors
/// When the figures cannot be written as JSON.
pub fn print_units(units: &[arus::Figures], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return print_json(units);
    }
    show_units(units);
    Ok(())
}

/// The line that a run prints for a round of units.
pub fn units_line(figures: &arus::Figures, round: usize, rounds: usize) -> String {
    format!(
        "units, round {round}/{rounds}: empty {:.0} ns, one block {:.0} ns",
        figures.empty_ns, figures.one_block_ns
    )
}

fn show_units(units: &[arus::Figures]) {
    if units.is_empty() {
        return;
    }
    let median = |value: fn(&arus::Figures) -> f64| median(units, value);
    println!(
        "\nAtomic recovery units at the logical disk, processor time of each in ns, the simulated drives included. \
         Medians of {} rounds.\n",
        units.len()
    );
    let mut table = table(["", "ns"]);
    let side_by_side = format!("a unit of one block, {SIDE_BY_SIDE} open side by side");
    for (name, value) in [
        ("an empty unit", median(|f| f.empty_ns)),
        ("one block by a simple operation", median(|f| f.simple_ns)),
        (
            "a unit of one block, one after the other",
            median(|f| f.one_block_ns),
        ),
        (&side_by_side, median(|f| f.side_by_side_ns)),
        (
            "a unit of one block, durable before the next",
            median(|f| f.durable_ns),
        ),
        (
            "a unit of one block, one word of it new",
            median(|f| f.one_word_ns),
        ),
        (
            "the copies of a new block alone: unit, record, simulated drive",
            median(|f| f.copies_ns),
        ),
    ] {
        table.add_row([name.to_owned(), format!("{value:.0}")]);
    }
    println!("{table}");
    println!(
        "\nside by side a unit takes {:.2} times the processor time of one that is alone",
        median(arus::Figures::side_by_side_share)
    );
    let (empty, one) = (median(|f| f.empty_ns), median(|f| f.one_block_ns));
    println!(
        "an empty unit: {:.1} bytes of log; under {EMPTY_NS_MAX} ns: {}; {:.0} units of one block in a second of \
         processor time, {RATE_MIN} wanted: {}",
        median(|f| f.empty_log_bytes),
        verdict(empty < EMPTY_NS_MAX),
        1e9 / one,
        verdict(1e9 / one >= RATE_MIN)
    );
}

fn bounds(run: &Run) -> String {
    let memory = verdict(run.peak_rss_bytes() < RSS_MAX);
    let rate = match run.is_targeted() {
        true => {
            let met = run.median(Figures::rate) >= RATE_TARGET;
            format!("{RATE_TARGET} commits per CPU second: {}; ", verdict(met))
        }
        false => String::new(),
    };
    let most = RSS_MAX >> 20;
    format!(
        "{}: {rate}memory under {most} MiB: {memory}",
        drives(&run.shape)
    )
}
