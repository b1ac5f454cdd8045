//! Tables and JSON of a run.

use crate::contender::Kind;
use crate::sample::{Figures, Sample};
use crate::workload::{WORKLOADS, Workload};
use serde::Serialize;
use tonearm_bench::Spread;
use tonearm_bench::machine::Machine;
use tonearm_bench::report::{print_noisy, table, verdict};
use tonearm_bench::rounds::Samples;

/// Ratio of Tonearm's rate to that of a peer in the same rounds.
#[derive(Serialize)]
pub struct Ratio {
    workload: &'static str,
    peer: &'static str,
    #[serde(flatten)]
    spread: Spread,
    target: Option<f64>,
    met: Option<bool>,
}

/// The ratios of all workloads to both peers.
pub fn ratios(samples: &Samples<Figures>) -> Vec<Ratio> {
    let ratio = |(workload, peer): (&'static Workload, Kind)| {
        let (name, ours, theirs) = (workload.name, Kind::Tonearm.name(), peer.name());
        let spread = samples.ratio(name, ours, theirs, |sample| sample.rate)?;
        let mut targets = workload.targets.iter();
        let target = targets.find(|(kind, _)| *kind == peer).map(|it| it.1);
        Some(Ratio {
            workload: name,
            peer: theirs,
            target,
            met: target.map(|least| spread.median >= least),
            spread,
        })
    };
    let peers = [Kind::Ext4, Kind::Passthrough];
    let pairs = WORKLOADS.iter().flat_map(|it| peers.map(|peer| (it, peer)));
    pairs.filter_map(ratio).collect()
}

/// All that was measured.
#[derive(Serialize)]
pub struct Run {
    /// The machine of the measurement.
    pub machine: Machine,
    /// Log of Tonearm's store.
    pub log_size: String,
    /// Ratios of the rates.
    pub ratios: Vec<Ratio>,
    /// Samples of the workloads.
    pub samples: Samples<Figures>,
}

impl Run {
    /// Prints the run as Markdown.
    pub fn print(&self) {
        let (machine, log_size) = (self.machine.line(), &self.log_size);
        let rounds = self.samples.0.iter().map(|sample| sample.round + 1).max();
        let rounds = rounds.unwrap_or(0);
        println!(
            "{machine}; tonearm with a log of {log_size}. Medians (least-most) of {rounds} rounds.\n"
        );
        let names = Kind::ALL.map(Kind::name);
        let rate = |sample: &Sample| Some(sample.rate);
        let rows = WORKLOADS.iter().map(|workload| {
            let head = [workload.name, workload.unit].map(str::to_owned);
            (workload.name, head.to_vec(), Vec::new())
        });
        let header: [&[&str]; 2] = [&["workload", "unit"], &[]];
        let rates = self.samples.table(header, rows, &names, (rate, 0));
        println!("{rates}\n\nRatios of Tonearm's rate to that of a peer in the same round.\n");
        let mut ratios = table(["workload", "peer", "ratio", "target", ""]);
        for ratio in &self.ratios {
            ratios.add_row([
                ratio.workload.to_owned(),
                ratio.peer.to_owned(),
                ratio.spread.text(2),
                ratio.target.map_or(String::new(), |it| it.to_string()),
                ratio.met.map_or("", verdict).to_owned(),
            ]);
        }
        let names = [Kind::Tonearm, Kind::Passthrough].map(Kind::name);
        let time = |sample: &Sample| sample.figures.cpu_us;
        let rows = WORKLOADS.iter().map(|workload| workload.name);
        let rows = rows.map(|name| (name, vec![name.to_owned()], Vec::new()));
        let header: [&[&str]; 2] = [&["workload"], &[]];
        let times = self.samples.table(header, rows, &names, (time, 1));
        println!(
            "{ratios}\n\nProcessor time of the server for each of these units, in us.\n\n{times}"
        );
        print_noisy(self.samples.0.iter().map(|sample| sample.surroundings));
    }
}
