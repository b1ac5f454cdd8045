//! `tonearm-lab workload`: loads of page accesses from the command line.

mod figures;
mod measure;
mod output;
mod tpcc;

use self::figures::More;
use self::measure::Measure;
use crate::cli::{Make, SkewLoad, StandIn, TraceLoad, Workload as Arguments, WorkloadAction};
use anyhow::bail;
use std::fs::File;
use std::io::BufReader;
use std::process::ExitCode;
use tonearm_workload::{
    Access, Published, SkewOptions, SkewedPages, TracePages, TracePagesOptions, Workload, campus,
    financial,
};

/// Runs the command.
///
/// # Errors
/// With the text for the user.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        WorkloadAction::Tpcc(load) => tpcc::run(&load),
        WorkloadAction::Skew(load) => skew(&load),
        WorkloadAction::Financial(load) => {
            stand_in(&load, Published::FINANCIAL, financial(load.seed))
        }
        WorkloadAction::Campus(load) => stand_in(&load, Published::CAMPUS, campus(load.seed)),
        WorkloadAction::Trace(load) => trace(&load),
    }
}

fn skew(load: &SkewLoad) -> anyhow::Result<ExitCode> {
    let reads = load.reads_skew.unwrap_or(load.skew);
    let pages = load.size / load.page_size;
    if pages == 0 {
        bail!(
            "--size {} is less than a page of {}",
            load.size,
            load.page_size
        );
    }
    let options = SkewOptions {
        pages,
        accesses: load.accesses,
        write_share: load.writes / 100.0,
        reads,
        writes: load.skew,
        seed: load.seed,
    };
    let more = More::Skew {
        reads_skew: reads.to_string(),
        writes_skew: load.skew.to_string(),
    };
    skewed(
        load.skew.to_string(),
        &options,
        load.page_size,
        &load.make,
        more,
    )
}

fn stand_in(
    load: &StandIn,
    published: Published,
    mut options: SkewOptions,
) -> anyhow::Result<ExitCode> {
    options.accesses = load.accesses.unwrap_or(options.accesses);
    let more = More::StandIn {
        synthesised: true,
        reads_skew: options.reads.to_string(),
        writes_skew: options.writes.to_string(),
        published: published.into(),
    };
    let name = format!("{}, synthesised", published.name);
    skewed(name, &options, published.page_bytes, &load.make, more)
}

fn skewed(
    name: String,
    options: &SkewOptions,
    page_bytes: u64,
    make: &Make,
    more: More,
) -> anyhow::Result<ExitCode> {
    let mut measure = Measure::new(make, page_bytes, options.pages)?;
    let mut workload = SkewedPages::new(options);
    measure.run(options.accesses, |accesses| fill(&mut workload, accesses))?;
    let report = measure.finish(name, Some(options.seed), options.pages, more)?;
    output::print(make, &report)
}

fn trace(load: &TraceLoad) -> anyhow::Result<ExitCode> {
    let name = load.trace.display().to_string();
    if load.trace.is_dir() {
        bail!("{name} is a folder, not a trace");
    }
    let options = TracePagesOptions {
        name: name.clone(),
        format: load.format.0,
        page_bytes: load.page_size,
        device: load.device,
    };
    let mut workload = TracePages::new(options, || File::open(&load.trace).map(BufReader::new))?;
    let pages = workload.pages();
    let mut measure = Measure::new(&load.make, load.page_size, pages)?;
    let mut times = None;
    measure.run(0, |accesses| {
        let more = fill(&mut workload, accesses)?;
        for at in accesses.iter().filter_map(|access| access.at) {
            let (first, _) = times.unwrap_or((at, at));
            times = Some((first, at));
        }
        Ok(more)
    })?;
    let more = More::Trace {
        skipped: workload.skipped(),
        seconds: times.map(|(first, last)| last.since(first).0 as f64 / 1e9),
    };
    let report = measure.finish(name, None, pages, more)?;
    output::print(&load.make, &report)
}

/// Puts the next accesses of `workload` into `accesses`; false at the end.
fn fill(workload: &mut impl Workload, accesses: &mut Vec<Access>) -> anyhow::Result<bool> {
    while accesses.len() < measure::BATCH {
        match workload.next_access()? {
            Some(access) => accesses.push(access),
            None => return Ok(false),
        }
    }
    Ok(true)
}
