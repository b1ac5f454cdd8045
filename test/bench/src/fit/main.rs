//! `tonearm-fit`: fits the figures of a drive file to a measured trace.
//!
//! Data sheets give the geometry of a drive, its speed and the shape of its seek curve. They do not give what commands
//! cost, how fast the bus is and how long heads settle, or they give it for another host. The fit changes each of these
//! figures in small steps as long as the simulated response times come nearer to the measured ones ([`objective`]). It
//! uses the first half of the trace. The second half shows whether the result describes the drive or only the trace.
//! docs/drives.md has results.

#![forbid(unsafe_code)]

mod accuracy;
mod descent;
mod facts;
mod follow;
mod objective;
mod parameters;
mod replay;
mod report;
mod requests;

#[cfg(test)]
mod fit_test;

use anyhow::{Context, bail};
use clap::Parser;
use descent::Found;
use objective::Objective;
use parameters::Parameters;
use requests::Request;
use std::path::PathBuf;
use std::process::ExitCode;
use tonearm_bench::options;
use tonearm_drive_file::{DriveFile, DriveSpec};

/// Calibrates a drive file on a trace that was measured on the real drive.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  tonearm-fit --drive st41601n --measured st41601n.csv.gz
        on the first half of the trace; reports how the second one agrees
  tonearm-fit --drive ./mine.toml --measured mine.csv --whole --starts 5 > fitted.toml
  tonearm-fit --drive atlas_III --measured atlas_III.trace --format disksim-valid
  tonearm-fit --drive ./mine.toml --measured mine.csv --rounds 0
        only how the file agrees as it is
  tonearm-fit --drive st41601n --start facts/st41601n.json --measured st41601n.csv.gz
        as if nothing had been fitted before

What is printed is TOML: the agreement before and after as remarks, then the fitted figures under the
sections of the drive file, to be put in place of the lines with the same keys.")]
struct Args {
    /// Name of a drive that comes with Tonearm, or a .toml file
    #[arg(long, value_name = "NAME|FILE.toml")]
    drive: String,
    /// What was measured on the real drive, one request at a time
    #[arg(long, value_name = "FILE")]
    measured: PathBuf,
    /// Its format: csv or disksim-valid
    #[arg(long, default_value = "csv")]
    format: tonearm_trace::Format,
    /// Begin with the extracted figures of this file (JSON) in place of the drive file's
    #[arg(long, value_name = "FACTS.json")]
    start: Option<PathBuf>,
    /// Fit on the whole trace, not on its first half
    #[arg(long)]
    whole: bool,
    /// Whether the objective also uses the errors of single requests, with the spindle's phase followed
    #[arg(long, default_value = "auto")]
    phase: Phase,
    /// Descents: the first from the figures as they are, the others from random places near them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    starts: u64,
    /// Rounds of a descent, each of which tries every figure; 0 fits nothing
    #[arg(long, default_value_t = 30)]
    rounds: u32,
    /// Seed of the random places
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// What the objective consists of.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Phase {
    /// With the phase if the trace has kept it.
    Auto,
    /// With the phase: distributions, and the error of each request.
    Follow,
    /// Without the phase: only distributions.
    Ignore,
}

fn main() -> ExitCode {
    options::end(run())
}

fn run() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut spec = drive_spec(&args.drive)?;
    if let Some(path) = &args.start {
        facts::load(path)?.apply(&mut spec)?;
    }
    let requests = requests::load(&args.measured, args.format)?;
    requests::check(&requests, &spec)?;
    let coherence = replay::followed(&spec, &requests).coherence;
    let follow = match args.phase {
        Phase::Auto => coherence >= follow::KEPT,
        Phase::Follow => true,
        Phase::Ignore => false,
    };
    let fitted_on = if args.whole {
        requests.len()
    } else {
        requests.len() / 2
    };
    let parameters = Parameters::new(spec);
    let found = fit(&parameters, &requests[..fitted_on], follow, &args)?;
    report::Report {
        drive: &args.drive,
        requests: &requests,
        fitted_on: if args.rounds == 0 { 0 } else { fitted_on },
        coherence,
        follow,
        parameters: &parameters,
        found: &found,
    }
    .print()
}

/// The drive of the library with that name, or of the file with that name.
fn drive_spec(name: &str) -> anyhow::Result<DriveSpec> {
    let spec = DriveFile::find(name)?.spec;
    if spec.disk.is_none() {
        bail!("{name} has no moving parts: there is nothing to fit");
    }
    Ok(spec)
}

/// The best result of all descents.
fn fit(
    parameters: &Parameters,
    requests: &[Request],
    follow: bool,
    args: &Args,
) -> anyhow::Result<Found> {
    let objective = Objective::new(requests, follow);
    let mut best: Option<Found> = None;
    for start in 0..args.starts {
        let from = match start {
            0 => parameters.start().to_vec(),
            _ => parameters.near(args.seed.wrapping_add(start)),
        };
        let found = descent::descend(parameters, &objective, from, args.rounds);
        if let Some(found) = found
            && best.as_ref().is_none_or(|best| found.cost < best.cost)
        {
            best = Some(found);
        }
    }
    best.context("the drive cannot serve these requests with the figures that it begins with")
}
