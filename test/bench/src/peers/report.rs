//! Tables and JSON of a run.

use crate::archive;
use crate::guest;
use crate::layouts::{self, Case};
use crate::no_disk;
use crate::recorder::{self, Pair};
use crate::recovery::{self, Recovery};
use crate::sample::Sample;
use crate::server::Kind;
use crate::workload::WORKLOADS;
use serde_json::json;
use tonearm_bench::Spread;
use tonearm_bench::machine::Machine;
use tonearm_bench::report::{print_json, print_noisy, table, verdict};

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

/// All that was measured.
pub struct Run {
    /// The machine of the measurement.
    pub machine: Machine,
    /// Log of Tonearm's store.
    pub log_size: String,
    /// Samples of the workloads.
    pub samples: Vec<Sample>,
    /// Recoveries.
    pub recoveries: Vec<Recovery>,
    /// Samples with and without a recorder.
    pub recorders: Vec<Pair>,
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
    /// Prints the run as Markdown.
    pub fn print(&self) {
        let Self {
            machine,
            log_size,
            samples,
            recoveries,
            recorders,
            archives,
            restores,
            guests,
            disks,
            layouts,
        } = self;
        let rounds = samples
            .iter()
            .map(|sample| sample.round + 1)
            .max()
            .unwrap_or(
                recoveries
                    .len()
                    .max(recorders.len() / recorder::LOADS.len())
                    .max(guests.len() / guest::DEPTHS.len())
                    .max(disks.len())
                    .max(restores.len()),
            );
        println!("{}; tonearm with a log of {log_size}\n", machine.line());
        if rounds > 0 {
            println!(
                "Medians (min-max) of {rounds} rounds. Rates are requests in a second (MiB/s where a request is 1 MiB).\n"
            );
        }
        if !samples.is_empty() {
            rates(samples);
            println!(
                "\nProcessor time of the server for each request, its flush included, in us.\n"
            );
            times(samples);
        }
        if let Some(serving) = Spread::of(recoveries.iter().map(|recovery| recovery.serving_s)) {
            let own = Spread::of(recoveries.iter().map(|recovery| recovery.recovery_s));
            let verdict = verdict(serving.median <= recovery::TARGET_S);
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
        for name in recorder::LOADS {
            let pairs = || recorders.iter().filter(|pair| pair.with.workload == name);
            let Some(ratio) = Spread::of(pairs().map(Pair::ratio)) else {
                continue;
            };
            let lost: u64 = pairs().map(|pair| pair.lost).sum();
            println!(
                "\n{name}: {} {}; target {}: {}; {lost} requests lost",
                recorder::TITLE,
                ratio.text(3),
                recorder::TARGET,
                verdict(ratio.median >= recorder::TARGET)
            );
        }
        costs_of_an_archive(archives, restores);
        disks_of_guests(guests);
        cost_of_the_disk(disks);
        let recorders = recorders.iter().map(|pair| (&pair.without, &pair.with));
        let archives = archives.iter().map(|pair| (&pair.without, &pair.with));
        let guests = guests.iter().map(|pair| (&pair.nbd, &pair.guest));
        let pairs = recorders.chain(archives).chain(guests);
        let pairs = pairs.flat_map(|(without, with)| [without, with]);
        if !layouts.is_empty() {
            println!("\n{}.\n", layouts::TITLE);
            cases(layouts);
        }
        let all = samples
            .iter()
            .chain(pairs)
            .chain(disks.iter().flat_map(no_disk::Triple::samples))
            .map(|sample| sample.surroundings);
        let surroundings: Vec<_> = all
            .chain(layouts.iter().map(|case| case.surroundings))
            .collect();
        print_noisy(surroundings.into_iter());
    }

    /// Prints all samples as JSON.
    ///
    /// # Errors
    /// When standard output is closed.
    pub fn json(&self) -> anyhow::Result<()> {
        let workloads: Vec<_> = WORKLOADS
            .iter()
            .filter_map(|workload| {
                let ratio = ratio(&self.samples, workload.name)?;
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
        print_json(&json!({
            "machine": self.machine,
            "log_size": self.log_size,
            "workloads": workloads,
            "samples": self.samples,
            "recoveries": self.recoveries,
            "recorders": self.recorders,
            "archives": self.archives,
            "restores": self.restores,
            "guests": self.guests,
            "disks": self.disks,
            "layouts": self.layouts,
        }))
    }
}

fn costs_of_an_archive(pairs: &[archive::Pair], restores: &[archive::Restore]) {
    if pairs.is_empty() {
        return;
    }
    println!(
        "\n{}; target {} for durable writes.\n",
        archive::TITLE,
        archive::TARGET
    );
    let mut table = table(vec![
        "workload",
        "ratio",
        "",
        "with its reads and writes alone",
        "MiB archived",
        "MiB put",
        "MiB per CPU second",
        "lag in commits",
        "gaps",
    ]);
    for name in archive::LOADS {
        let own = || pairs.iter().filter(|pair| pair.with.workload == name);
        let of = |value: fn(&archive::Pair) -> f64, digits| {
            Spread::of(own().map(value)).map_or(String::new(), |spread| spread.text(digits))
        };
        let Some(ratio) = Spread::of(own().map(archive::Pair::ratio)) else {
            continue;
        };
        let rates = own().filter_map(archive::Pair::mib_per_cpu_second);
        let is_durable = name.starts_with("flush");
        table.add_row(vec![
            name.to_owned(),
            ratio.text(3),
            match is_durable {
                true => verdict(ratio.median >= archive::TARGET).to_owned(),
                false => String::new(),
            },
            of(archive::Pair::traffic_ratio, 3),
            of(|pair| pair.archived_mib, 1),
            of(|pair| pair.put_mib, 1),
            Spread::of(rates).map_or(String::new(), |rate| rate.text(0)),
            of(|pair| pair.lag_commits as f64, 0),
            own().map(|pair| pair.gaps).sum::<u64>().to_string(),
        ]);
    }
    println!("{table}");
    println!(
        "Target: {} MiB of changes per CPU second.",
        archive::TARGET_MIB
    );
    if let Some(ratio) = Spread::of(restores.iter().map(archive::Restore::ratio)) {
        let rates = restores
            .iter()
            .map(|restore| restore.mib / restore.restore_s);
        println!(
            "\nRestore from a folder: {} MiB/s, by the rate of a copy of the objects {}; target {}: {}",
            Spread::of(rates).map_or(String::new(), |rate| rate.text(0)),
            ratio.text(2),
            archive::TARGET_RESTORE,
            verdict(ratio.median >= archive::TARGET_RESTORE)
        );
    }
}

fn disks_of_guests(pairs: &[guest::Pair]) {
    if pairs.is_empty() {
        return;
    }
    println!(
        "\n{}. Targets: {} of the rate at depth 1, {} of the processor time.\n",
        guest::TITLE,
        guest::TARGET,
        guest::TARGET_CPU
    );
    let mut table = table(vec![
        "depth",
        "NBD",
        "vhost-user",
        "ratio",
        "",
        "NBD, us",
        "vhost-user, us",
        "ratio",
        "",
    ]);
    for depth in guest::DEPTHS {
        let own = || pairs.iter().filter(|pair| pair.depth == depth);
        let of = |value: fn(&guest::Pair) -> f64, digits| {
            Spread::of(own().map(value)).map_or(String::new(), |spread| spread.text(digits))
        };
        let (Some(rate), Some(cpu)) = (
            Spread::of(own().map(guest::Pair::ratio)),
            Spread::of(own().map(guest::Pair::cpu_ratio)),
        ) else {
            continue;
        };
        table.add_row(vec![
            depth.to_string(),
            of(|pair| pair.nbd.rate, 0),
            of(|pair| pair.guest.rate, 0),
            rate.text(2),
            match depth {
                1 => verdict(rate.median >= guest::TARGET).to_owned(),
                _ => String::new(),
            },
            of(|pair| pair.nbd.cpu_us, 1),
            of(|pair| pair.guest.cpu_us, 1),
            cpu.text(2),
            verdict(cpu.median <= guest::TARGET_CPU).to_owned(),
        ]);
    }
    println!("{table}");
}

fn cost_of_the_disk(triples: &[no_disk::Triple]) {
    let of = |value: fn(&no_disk::Triple) -> f64| Spread::of(triples.iter().map(value));
    let (Some(ratio), Some(peer)) = (of(no_disk::Triple::ratio), of(no_disk::Triple::peer_ratio))
    else {
        return;
    };
    println!("\n{}. Target: {}.\n", no_disk::TITLE, no_disk::TARGET);
    let mut table = table(vec!["", "tonearm", "tonearm in memory", "nbdkit memory"]);
    let mut row = |name: &str, value: fn(&Sample) -> f64, digits| {
        let mut row = vec![name.to_owned()];
        for which in 0..3 {
            let values = triples.iter().map(|triple| value(triple.samples()[which]));
            row.push(Spread::of(values).map_or(String::new(), |spread| spread.text(digits)));
        }
        table.add_row(row);
    };
    row("requests a second", |sample| sample.rate, 0);
    row("processor time, us", |sample| sample.cpu_us, 1);
    println!("{table}");
    println!(
        "Disk by memory: {}: {}. Tonearm by nbdkit, both in memory: {}.",
        ratio.text(2),
        verdict(ratio.median >= no_disk::TARGET),
        peer.text(2)
    );
}

fn names() -> [&'static str; Kind::ALL.len()] {
    Kind::ALL.map(Kind::name)
}

fn rates(samples: &[Sample]) {
    let mut table = table([&["workload"], &names()[..], &["ratio", "target", ""]].concat());
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
        let met = workload.target.map(|target| ratio.median >= target);
        row.push(met.map_or("", verdict).to_owned());
        table.add_row(row);
    }
    println!("{table}");
}

fn times(samples: &[Sample]) {
    let mut table = table([&["workload"], &names()[..], &["flushes/1000"]].concat());
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

fn cases(cases: &[Case]) {
    let mut table = table(vec![
        "load",
        "layout",
        "used",
        "writes/s",
        "times the store",
        "write cost",
        "p99.9 ms",
        "longest ms",
        "target",
        "",
        "disk's longest ms",
        "memory, MiB",
    ]);
    for case in cases {
        table.add_row(vec![
            case.load.to_owned(),
            case.layout.to_owned(),
            case.used(),
            format!("{:.0}", case.rate),
            format!("{:.1}", case.times),
            format!("{:.2}", case.write_cost),
            format!("{:.1}", case.p999_ms),
            format!("{:.0}", case.longest_ms),
            format!("{:.0}", layouts::TARGET_MS),
            verdict(case.longest_ms <= layouts::TARGET_MS).to_owned(),
            format!("{:.0}", case.disk_longest_ms),
            format!("{:.0} (--memory {})", case.peak_mib, case.memory_mib),
        ]);
    }
    println!("{table}");
}
