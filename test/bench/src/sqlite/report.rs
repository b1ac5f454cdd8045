//! Tables and JSON of a run.

use crate::archive::{self, Copier, Pair};
use crate::bare::Bare;
use crate::contender::{
    CONTENDERS, Contender, DELETE_FULL, Promise, TONEARM_FULL, TONEARM_NORMAL, WAL_FULL, WAL_NORMAL,
};
use crate::sample::Sample;
use crate::workload::{DELETE_FULL_MIN, WAL_FULL_P999_MAX, WAL_NORMAL_MIN, WORKLOADS, Workload};
use serde::Serialize;
use serde_json::json;
use tonearm_bench::Spread;
use tonearm_bench::machine::Machine;
use tonearm_bench::report::{print_json, print_noisy, table, verdict};

/// Ratio of a figure of Tonearm to that of a peer in the same rounds.
#[derive(Serialize)]
struct Ratio {
    workload: &'static str,
    contender: &'static str,
    peer: &'static str,
    figure: &'static str,
    /// Median over the rounds.
    median: f64,
    min: f64,
    max: f64,
    /// The target in words.
    target: Option<String>,
    met: Option<bool>,
}

/// The target of a ratio.
#[derive(Clone, Copy)]
enum Asked {
    AtLeast(f64),
    AtMost(f64),
    Nothing,
}

impl Asked {
    fn words(self) -> Option<String> {
        match self {
            Self::AtLeast(least) => Some(format!("at least {least}")),
            Self::AtMost(most) => Some(format!("at most {most:.2}")),
            Self::Nothing => None,
        }
    }

    fn met(self, value: f64) -> Option<bool> {
        match self {
            Self::AtLeast(least) => Some(value >= least),
            Self::AtMost(most) => Some(value <= most),
            Self::Nothing => None,
        }
    }
}

type Figure = fn(&Sample) -> f64;

struct Samples<'a>(&'a [Sample]);

impl Samples<'_> {
    fn of(&self, workload: &str, contender: &str) -> impl Iterator<Item = &Sample> {
        self.0
            .iter()
            .filter(move |sample| sample.workload == workload && sample.contender == contender)
    }

    fn spread(&self, workload: &str, contender: &str, figure: Figure) -> Option<Spread> {
        Spread::of(self.of(workload, contender).map(figure))
    }

    fn ratio(
        &self,
        workload: &Workload,
        contender: &Contender,
        peer: &'static str,
        (name, figure): (&'static str, Figure),
        asked: Asked,
    ) -> Option<Ratio> {
        let rounds = self.of(workload.name, contender.name).filter_map(|ours| {
            let mut theirs = self.of(workload.name, peer);
            let theirs = theirs.find(|theirs| theirs.round == ours.round)?;
            Some(figure(ours) / figure(theirs))
        });
        let spread = Spread::of(rounds)?;
        Some(Ratio {
            workload: workload.name,
            contender: contender.name,
            peer,
            figure: name,
            median: spread.median,
            min: spread.min,
            max: spread.max,
            target: asked.words(),
            met: asked.met(spread.median),
        })
    }

    fn ratios(&self) -> Vec<Ratio> {
        let rate: (&str, Figure) = ("commits/s", |sample| sample.rate);
        let p999: (&str, Figure) = ("p99.9", |sample| sample.p999_us);
        let mut ratios = Vec::new();
        for workload in WORKLOADS {
            for ours in CONTENDERS.iter().filter(|contender| contender.is_ours()) {
                match ours.promise() {
                    Promise::Durable => {
                        let wal = workload.wal_full_min.map_or(Asked::Nothing, Asked::AtLeast);
                        ratios.extend(self.ratio(workload, ours, WAL_FULL, rate, wal));
                        let most = Asked::AtMost(WAL_FULL_P999_MAX);
                        ratios.extend(self.ratio(workload, ours, WAL_FULL, p999, most));
                        let least = Asked::AtLeast(DELETE_FULL_MIN);
                        ratios.extend(self.ratio(workload, ours, DELETE_FULL, rate, least));
                    }
                    Promise::Ordered => {
                        let least = Asked::AtLeast(WAL_NORMAL_MIN);
                        ratios.extend(self.ratio(workload, ours, WAL_NORMAL, rate, least));
                    }
                }
            }
        }
        ratios
    }
}

/// Prints the run as Markdown.
pub fn tables(
    machine: &Machine,
    log_size: &str,
    disk: &[Bare],
    samples: &[Sample],
    pairs: &[Pair],
) {
    let all = Samples(samples);
    let rounds = disk.iter().map(|bare| bare.round + 1).max();
    println!(
        "SQLite {}; {}; tonearm with a log of {log_size}. Medians (least-most) of {} rounds.",
        rusqlite::version(),
        machine.line(),
        rounds.unwrap_or(0)
    );
    print("Commits in a second", &all, |sample| sample.rate, 0);
    print_ratios(&all.ratios());
    print_disk(disk);
    print_bounds(&all, disk);
    let figures: [(&str, Figure, usize); 9] = [
        ("Time of a transaction, p50, in us", |s| s.p50_us, 0),
        ("Time of a transaction, p99, in us", |s| s.p99_us, 0),
        ("Time of a transaction, p99.9, in us", |s| s.p999_us, 0),
        ("Longest transaction, in us", |s| s.max_us, 0),
        (
            "Processor time of the whole process for each transaction, in us",
            |s| s.cpu_us,
            1,
        ),
        (
            "Bytes that the block device has written for each transaction",
            |s| s.device_bytes.unwrap_or(f64::NAN),
            0,
        ),
        (
            "Flushes of the block device for each transaction",
            |s| s.device_flushes.unwrap_or(f64::NAN),
            2,
        ),
        (
            "Bytes that Tonearm's log has written for each transaction, as Tonearm counts them",
            |s| s.log_bytes.unwrap_or(f64::NAN),
            0,
        ),
        (
            "Flushes and FUA writes of Tonearm's log for each transaction, as Tonearm counts them",
            |s| s.log_flushes.unwrap_or(f64::NAN),
            2,
        ),
    ];
    for (title, figure, decimals) in figures {
        print(title, &all, figure, decimals);
    }
    print_copies(pairs);
    let paired = pairs.iter().flat_map(|pair| [&pair.without, &pair.with]);
    let all: Vec<_> = samples.iter().chain(paired).collect();
    print_noisy(all.iter().map(|sample| sample.surroundings));
}

/// Prints what copies of transactions cost.
fn print_copies(pairs: &[Pair]) {
    if pairs.is_empty() {
        return;
    }
    println!(
        "\n{}. Both copy once a second. What is lost is what the copy did not have at the end of the load. Target of the rate with Tonearm's: {}.\n",
        archive::TITLE,
        archive::TARGET
    );
    let mut table = table([
        "workload",
        "copied by",
        "rate by that without",
        "bytes put for a transaction",
        "us of the processor for a transaction",
        "transactions lost",
        "as seconds",
        "restore, s",
        "",
    ]);
    for workload in archive::loads() {
        for copier in [Copier::Tonearm, Copier::Litestream] {
            let own = || {
                let all = pairs.iter();
                all.filter(|pair| pair.with.workload == workload.name && pair.copier == copier)
            };
            let text = |value: fn(&Pair) -> f64, decimals| {
                let spread = Spread::of(own().map(value));
                spread.map_or(String::new(), |spread| spread.text(decimals))
            };
            let Some(ratio) = Spread::of(own().map(Pair::ratio)) else {
                continue;
            };
            table.add_row([
                workload.title.to_owned(),
                copier.name().to_owned(),
                ratio.text(2),
                text(|pair| pair.copy.put_bytes, 0),
                text(Pair::cpu_us, 1),
                text(|pair| pair.copy.lost as f64, 0),
                text(Pair::lost_s, 2),
                text(|pair| pair.copy.restore_s, 3),
                match copier {
                    Copier::Tonearm => verdict(ratio.median >= archive::TARGET),
                    Copier::Litestream => "",
                }
                .to_owned(),
            ]);
        }
    }
    println!("{table}");
}

/// Prints a table with a row for each workload and a column for each contender.
fn print(title: &str, samples: &Samples<'_>, figure: Figure, decimals: usize) {
    let took_part = |contender: &&Contender| {
        let mut all = samples.0.iter();
        all.any(|sample| sample.contender == contender.name && !figure(sample).is_nan())
    };
    let contenders: Vec<_> = CONTENDERS.iter().filter(took_part).collect();
    if contenders.is_empty() {
        return;
    }
    println!("\n{title}.\n");
    let names = contenders.iter().map(|contender| contender.name);
    let mut table = table(["workload"].into_iter().chain(names));
    for workload in WORKLOADS {
        let cells: Vec<_> = contenders
            .iter()
            .map(|contender| samples.spread(workload.name, contender.name, figure))
            .collect();
        if cells.iter().all(Option::is_none) {
            continue;
        }
        let text = |cell: Option<Spread>| cell.map_or(String::new(), |cell| cell.text(decimals));
        let cells = cells.into_iter().map(text);
        table.add_row([workload.title.to_owned()].into_iter().chain(cells));
    }
    println!("{table}");
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
            format!("{:.2} ({:.2}-{:.2})", ratio.median, ratio.min, ratio.max),
            ratio.target.clone().unwrap_or_default(),
            ratio.met.map_or("", verdict).to_owned(),
        ]);
    }
    println!("{table}");
}

fn print_disk(disk: &[Bare]) {
    let text = |figure: fn(&Bare) -> f64| {
        let spread = Spread::of(disk.iter().map(figure));
        spread.map_or(String::new(), |spread| spread.text(0))
    };
    println!(
        "\nThe disk itself, FUA writes of 4 KiB one after the other, in us: p50 {}, p99 {}, p99.9 {}, \
         longest {}.",
        text(|bare| bare.p50_us),
        text(|bare| bare.p99_us),
        text(|bare| bare.p999_us),
        text(|bare| bare.max_us)
    );
}

/// Upper bound on the rate when one device write commits a transaction of each connection.
#[derive(Serialize)]
struct Bound {
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
fn bounds(samples: &Samples<'_>, disk: &[Bare]) -> Vec<Bound> {
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
            let possible = connections / (connections / normal + bare.p50_us / 1e6);
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

fn print_bounds(samples: &Samples<'_>, disk: &[Bare]) {
    let bounds = bounds(samples, disk);
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

/// Prints all samples as JSON.
///
/// # Errors
/// When standard output is closed.
pub fn json(
    machine: &Machine,
    log_size: &str,
    disk: &[Bare],
    samples: &[Sample],
    pairs: &[Pair],
) -> anyhow::Result<()> {
    print_json(&json!({
        "sqlite": rusqlite::version(),
        "machine": machine,
        "log_size": log_size,
        "ratios": Samples(samples).ratios(),
        "bounds": bounds(&Samples(samples), disk),
        "disk": disk,
        "samples": samples,
        "archives": pairs,
    }))
}
