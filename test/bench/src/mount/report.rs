//! Tables and JSON of a run.

use crate::contender::Kind;
use crate::sample::Sample;
use crate::workload::{WORKLOADS, Workload};
use serde::Serialize;
use serde_json::json;
use tonearm_bench::Spread;
use tonearm_bench::machine::Machine;
use tonearm_bench::report::{print_json, print_noisy, table, verdict};

/// Ratio of Tonearm's rate to that of a peer in the same rounds.
#[derive(Serialize)]
struct Ratio {
    workload: &'static str,
    peer: Kind,
    /// Median over the rounds.
    median: f64,
    min: f64,
    max: f64,
    target: Option<f64>,
    met: Option<bool>,
}

fn of<'a>(
    samples: &'a [Sample],
    workload: &'a Workload,
    kind: Kind,
) -> impl Iterator<Item = &'a Sample> {
    let is_of = move |one: &&Sample| one.workload == workload.name && one.contender == kind;
    samples.iter().filter(is_of)
}

fn ratio(samples: &[Sample], workload: &Workload, peer: Kind) -> Option<Ratio> {
    let rounds = of(samples, workload, Kind::Tonearm).filter_map(|ours| {
        let mut theirs = of(samples, workload, peer);
        let theirs = theirs.find(|theirs| theirs.round == ours.round)?;
        Some(ours.rate / theirs.rate)
    });
    let Spread { median, min, max } = Spread::of(rounds)?;
    let mut targets = workload.targets.iter();
    let target = targets.find(|(kind, _)| *kind == peer).map(|it| it.1);
    Some(Ratio {
        workload: workload.name,
        peer,
        median,
        min,
        max,
        target,
        met: target.map(|least| median >= least),
    })
}

fn ratios(samples: &[Sample]) -> Vec<Ratio> {
    let peers = [Kind::Ext4, Kind::Passthrough];
    let pairs = WORKLOADS.iter().flat_map(|it| peers.map(|peer| (it, peer)));
    pairs
        .filter_map(|(workload, peer)| ratio(samples, workload, peer))
        .collect()
}

/// Prints the run as Markdown.
pub fn tables(machine: &Machine, log_size: &str, samples: &[Sample]) {
    let rounds = samples.iter().map(|sample| sample.round + 1).max();
    println!(
        "{}; tonearm with a log of {log_size}. Medians (least-most) of {} rounds.\n",
        machine.line(),
        rounds.unwrap_or(0)
    );
    let names = Kind::ALL.map(Kind::name);
    let mut rates = table([&["workload", "unit"], &names[..]].concat());
    let mut times = table(["workload", Kind::Tonearm.name(), Kind::Passthrough.name()]);
    for workload in WORKLOADS {
        let rate = |kind| Spread::of(of(samples, workload, kind).map(|one| one.rate));
        if rate(Kind::Tonearm).is_none() {
            continue;
        }
        let cells = Kind::ALL.map(|kind| rate(kind).map_or(String::new(), |it| it.text(0)));
        let head = [workload.name.to_owned(), workload.unit.to_owned()];
        rates.add_row(head.into_iter().chain(cells));
        let cells = [Kind::Tonearm, Kind::Passthrough].map(|kind| {
            let spread = Spread::of(of(samples, workload, kind).filter_map(|one| one.cpu_us));
            spread.map_or(String::new(), |spread| spread.text(1))
        });
        times.add_row([workload.name.to_owned()].into_iter().chain(cells));
    }
    println!("{rates}\n\nRatios of Tonearm's rate to that of a peer in the same round.\n");
    let mut table = table(["workload", "peer", "ratio", "target", ""]);
    for ratio in ratios(samples) {
        let (median, min, max) = (ratio.median, ratio.min, ratio.max);
        table.add_row([
            ratio.workload.to_owned(),
            ratio.peer.name().to_owned(),
            Spread { median, min, max }.text(2),
            ratio.target.map_or(String::new(), |it| it.to_string()),
            ratio.met.map_or("", verdict).to_owned(),
        ]);
    }
    println!("{table}\n\nProcessor time of the server for each of these units, in us.\n\n{times}");
    print_noisy(samples.iter().map(|sample| sample.surroundings));
}

/// Prints all samples as JSON.
///
/// # Errors
/// When standard output is closed.
pub fn json(machine: &Machine, log_size: &str, samples: &[Sample]) -> anyhow::Result<()> {
    print_json(&json!({
        "machine": machine,
        "log_size": log_size,
        "ratios": ratios(samples),
        "samples": samples,
    }))
}
