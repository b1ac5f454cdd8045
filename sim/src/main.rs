//! `crash`: power cuts for as long as one likes.

use anyhow::bail;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};
use tonearm_sim::{Campaign, Outcome, run_seed};

/// Cuts the power of simulated stores at every I/O of seeded workloads and checks what recovery makes of it.
#[derive(Parser)]
struct Args {
    /// First seed; the next ones follow it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Ends after so many seconds.
    #[arg(long, default_value_t = 60, conflicts_with_all = ["seeds", "points"])]
    seconds: u64,
    /// Ends after so many seeds.
    #[arg(long)]
    seeds: Option<u64>,
    /// Ends after so many power cuts.
    #[arg(long)]
    points: Option<u64>,
    /// Operations of each workload.
    #[arg(long, default_value_t = 60)]
    operations: u64,
    /// Workloads in a row, each on what a power cut left of the one before.
    #[arg(long, default_value_t = 3)]
    generations: u32,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let started = Instant::now();
    let limit = Duration::from_secs(args.seconds);
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    let (mut total, mut seeds) = (Outcome::default(), 0);
    loop {
        let done = match (args.seeds, args.points) {
            (Some(limit), _) => seeds >= limit,
            (_, Some(limit)) => total.crash_points >= limit,
            _ => started.elapsed() >= limit,
        };
        if done {
            break;
        }
        let seed = args.seed + seeds;
        let campaign = Campaign {
            seed,
            operations: args.operations,
            generations: args.generations,
        };
        match run_seed(&campaign) {
            Ok(outcome) => {
                total.crash_points += outcome.crash_points;
                total.cut_short += outcome.cut_short;
                total.trace_hash = total.trace_hash.rotate_left(1) ^ outcome.trace_hash;
            }
            Err(failure) => {
                bar.finish_and_clear();
                bail!(
                    "{failure}\nagain with: crash --seed {seed} --seeds 1 --operations {} --generations {}",
                    args.operations,
                    args.generations
                );
            }
        }
        seeds += 1;
        bar.set_message(format!(
            "{} seeds, {} power cuts, nothing lost",
            seeds, total.crash_points
        ));
        bar.tick();
    }
    bar.finish_and_clear();
    println!(
        "{seeds} seeds from {}, {} power cuts ({} lost unacknowledged commits), nothing lost that was durable, \
         trace hash {:016x}, {:.1} s",
        args.seed,
        total.crash_points,
        total.cut_short,
        total.trace_hash,
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
