//! `crash`: runs the crash simulator for a given time or number of power cuts.

use anyhow::{Context, anyhow, bail};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tonearm_base::Nanos;
use tonearm_sim::{Failure, Kind, Layout, Met, Outcome, Script, Size, shrink, try_script};
use tonearm_world::FaultKind;

/// Runs seeded workloads on simulated stores, cuts the power at every step of their I/O, makes drives fail, and checks
/// the result of recovery.
#[derive(Parser)]
struct Args {
    /// First seed. Later runs use the following seeds.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stops after this many seconds.
    #[arg(long, default_value_t = 60, conflicts_with_all = ["seeds", "points"])]
    seconds: u64,
    /// Stops after this many seeds.
    #[arg(long)]
    seeds: Option<u64>,
    /// Stops after this many power cuts.
    #[arg(long)]
    points: Option<u64>,
    /// Operations of each workload.
    #[arg(long, default_value_t = 60)]
    operations: u64,
    /// Generations of each run. Each starts from the result of a power cut or of a close.
    #[arg(long, default_value_t = 3)]
    generations: u32,
    /// Kind of the runs. By default the seed chooses.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Layout of all stores. By default the seed chooses.
    #[arg(long, value_enum)]
    layout: Option<Layout>,
    /// Milliseconds for which commits that are not awaited are delayed. By default the seed chooses.
    #[arg(long)]
    commit_delay_ms: Option<u64>,
    /// Runs only this script.
    #[arg(long)]
    script: Option<PathBuf>,
    /// Seconds for shortening a failing script.
    #[arg(long, default_value_t = 120)]
    shrink: u64,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let Some(path) = &args.script {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let script: Script = text.parse().map_err(|error: String| anyhow!(error))?;
        let outcome = try_script(&script, 0).map_err(|failure| anyhow!("{failure}"))?;
        println!("{} power cuts, nothing lost", outcome.crash_points);
        return Ok(());
    }
    let started = Instant::now();
    let limit = Duration::from_secs(args.seconds);
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    let (mut total, mut seeds) = (Outcome::default(), 0);
    let size = Size {
        operations: args.operations,
        generations: args.generations,
        layout: args.layout,
        commit_delay: args.commit_delay_ms.map(Nanos::from_millis),
    };
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
        let kind = args.kind.unwrap_or(Kind::of(seed));
        match kind.run(seed, size) {
            Ok(outcome) => total.add(&outcome),
            Err(failure) => {
                bar.finish_and_clear();
                return Err(report(&args, kind, seed, size, failure));
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
    summarize(&args, seeds, &total, started.elapsed());
    Ok(())
}

fn summarize(args: &Args, seeds: u64, total: &Outcome, elapsed: Duration) {
    println!(
        "{seeds} seeds from {}, {} power cuts ({} lost unacknowledged commits), nothing lost that was durable, \
         trace hash {:016x}, {:.1} s",
        args.seed,
        total.crash_points,
        total.cut_short,
        total.trace_hash,
        elapsed.as_secs_f64()
    );
    let groups: [(&str, &'static [Met]); 5] = [
        ("recovery units", Met::UNITS),
        ("segments", Met::HOME),
        ("arrays", Met::ARRAYS),
        ("archives", Met::ARCHIVES),
        ("trees", Met::TREES),
    ];
    for (name, events) in groups {
        if events.iter().any(|what| total.met.of(*what) > 0) {
            let met = total.met.iter(events);
            let met = met.map(|(what, count)| format!("{what:?} {count}"));
            println!("  {name}: {}", met.collect::<Vec<_>>().join(", "));
        }
    }
    if total.faultless == total.crash_points {
        return;
    }
    let kinds = FaultKind::ALL.iter().zip(total.points);
    let kinds = kinds.map(|(kind, points)| format!("{kind} {points}"));
    println!(
        "  by fault: none {}, {}\n  refused {}, with unreadable blocks {}, older than they should be {} (all after a \
         fault that excuses it)",
        total.faultless,
        kinds.collect::<Vec<_>>().join(", "),
        total.refused,
        total.damaged,
        total.stale
    );
}

/// Makes the error for a failure: the shortest script that still fails, and the command that repeats it.
fn report(args: &Args, kind: Kind, seed: u64, size: Size, failure: Failure) -> anyhow::Error {
    let mut again = format!(
        "crash --kind {kind} --seed {seed} --seeds 1 --operations {} --generations {}",
        args.operations, args.generations
    );
    if let Some(layout) = args.layout {
        again += &format!(" --layout {layout:?}").to_lowercase();
    }
    if let Some(commit_delay) = args.commit_delay_ms {
        again += &format!(" --commit-delay-ms {commit_delay}");
    }
    let Some(script) = kind.script(seed, size) else {
        return anyhow!("{failure}\nagain with: {again}");
    };
    eprintln!("{failure}\nagain with: {again}\nshortening the script ...");
    std::panic::set_hook(Box::new(|_| {}));
    let runner = |script: &Script| try_script(script, seed).err();
    let limit = Duration::from_secs(args.shrink);
    let (short, failure) = shrink(&script, failure, limit, runner);
    let Err(error) = print(&short, &failure) else {
        return anyhow!("{failure}\nagain with: {again}");
    };
    error
}

fn print(script: &Script, failure: &Failure) -> anyhow::Result<()> {
    println!("# {failure}\n{script}");
    bail!("{failure}\nagain with: crash --script FILE, where FILE holds the lines above")
}
