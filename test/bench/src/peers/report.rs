//! Tables and JSON of a run.

use crate::recovery::{self, Recovery};
use crate::sample::Sample;
use crate::server::Kind;
use crate::workload::WORKLOADS;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use serde_json::json;
use tonearm_bench::Spread;
use tonearm_bench::machine::Machine;

fn spread(
    samples: &[Sample],
    workload: &str,
    kind: Kind,
    value: fn(&Sample) -> f64,
) -> Option<Spread> {
    let of_it = |sample: &&Sample| sample.workload == workload && sample.server == kind;
    Spread::of(samples.iter().filter(of_it).map(value))
}

/// Ratio of Tonearm's rate to that of the better peer: the ratio of the medians, and the range over the rounds.
fn ratio(samples: &[Sample], workload: &str) -> Option<Spread> {
    let peers = || Kind::ALL.into_iter().filter(|kind| *kind != Kind::Tonearm);
    let ours = spread(samples, workload, Kind::Tonearm, |sample| sample.rate)?;
    let best = peers()
        .filter_map(|kind| spread(samples, workload, kind, |sample| sample.rate))
        .map(|peer| peer.median)
        .fold(0.0, f64::max);
    let of_round = |ours: &Sample| {
        let best = samples
            .iter()
            .filter(|peer| peer.workload == workload && peer.round == ours.round)
            .filter(|peer| peer.server != Kind::Tonearm)
            .map(|peer| peer.rate)
            .fold(0.0, f64::max);
        ours.rate / best
    };
    let own = |sample: &&Sample| sample.workload == workload && sample.server == Kind::Tonearm;
    let mut rounds = Spread::of(samples.iter().filter(own).map(of_round))?;
    rounds.median = ours.median / best;
    Some(rounds)
}

/// Prints the run as Markdown.
pub fn tables(machine: &Machine, log_size: &str, samples: &[Sample], recoveries: &[Recovery]) {
    let rounds = samples
        .iter()
        .map(|sample| sample.round + 1)
        .max()
        .unwrap_or(recoveries.len());
    println!("{}; tonearm with a log of {log_size}\n", machine.line());
    println!(
        "Requests in a second (MiB/s where a request is 1 MiB), median (min-max) of {rounds} rounds.\n"
    );
    if !samples.is_empty() {
        rates(samples);
        println!("\nProcessor time of the server for each request, its flush included, in us.\n");
        times(samples);
    }
    if let Some(serving) = Spread::of(recoveries.iter().map(|recovery| recovery.serving_s)) {
        let own = Spread::of(recoveries.iter().map(|recovery| recovery.recovery_s));
        let verdict = if serving.median <= recovery::TARGET_S {
            "met"
        } else {
            "MISSED"
        };
        let used = recoveries
            .iter()
            .map(|recovery| recovery.log_used_mib)
            .min()
            .unwrap_or(0);
        println!(
            "\n{}: serves after {} s, of which recovery {} s; log at least {used} MiB full; target {} s: {verdict}",
            recovery::TITLE,
            serving.text(2),
            own.map_or(String::new(), |own| own.text(2)),
            recovery::TARGET_S
        );
    }
    let noisy = samples
        .iter()
        .filter(|sample| !sample.surroundings.quiet())
        .count();
    if noisy > 0 {
        println!(
            "\n{noisy} of {} samples were not quiet: other programs used over a tenth of a core.",
            samples.len()
        );
    }
}

fn rates(samples: &[Sample]) {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    let names = Kind::ALL.map(Kind::name);
    table.set_header(
        ["workload"]
            .into_iter()
            .chain(names)
            .chain(["ratio", "target", ""]),
    );
    for workload in WORKLOADS {
        let Some(ratio) = ratio(samples, workload.name) else {
            continue;
        };
        let mut row = vec![workload.title.to_owned()];
        for kind in Kind::ALL {
            let rate = spread(samples, workload.name, kind, |sample| sample.rate);
            row.push(rate.map_or(String::new(), |rate| rate.text(0)));
        }
        row.push(ratio.text(2));
        row.push(
            workload
                .target
                .map_or(String::new(), |target| target.to_string()),
        );
        row.push(match workload.target {
            Some(target) if ratio.median >= target => "met".to_owned(),
            Some(_) => "MISSED".to_owned(),
            None => String::new(),
        });
        table.add_row(row);
    }
    println!("{table}");
}

fn times(samples: &[Sample]) {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(
        ["workload"]
            .into_iter()
            .chain(Kind::ALL.map(Kind::name))
            .chain(["flushes/1000"]),
    );
    for workload in WORKLOADS {
        let Some(flushes) = spread(samples, workload.name, Kind::Tonearm, |sample| {
            sample.flushes_per_1000
        }) else {
            continue;
        };
        let mut row = vec![workload.title.to_owned()];
        for kind in Kind::ALL {
            let time = spread(samples, workload.name, kind, |sample| sample.cpu_us);
            row.push(time.map_or(String::new(), |time| time.text(1)));
        }
        row.push(flushes.text(0));
        table.add_row(row);
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
    samples: &[Sample],
    recoveries: &[Recovery],
) -> anyhow::Result<()> {
    let workloads: Vec<_> = WORKLOADS
        .iter()
        .filter_map(|workload| {
            let ratio = ratio(samples, workload.name)?;
            Some(json!({
                "name": workload.name,
                "title": workload.title,
                "target": workload.target,
                "ratio": ratio.median,
                "ratio_min": ratio.min,
                "ratio_max": ratio.max,
            }))
        })
        .collect();
    let report = json!({
        "machine": machine,
        "log_size": log_size,
        "workloads": workloads,
        "samples": samples,
        "recoveries": recoveries,
    });
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
