//! Table and JSON of a run.

use crate::run::{Figures, Shape};
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use serde_json::json;

/// Commits in a second of processor time that are asked for.
const RATE_TARGET: f64 = 500_000.0;
/// Most resident memory that is allowed.
const RSS_MAX: u64 = 64 << 20;

/// A round in one line.
pub fn line(figures: &Figures, round: usize, rounds: usize) -> String {
    format!(
        "round {round}/{rounds}: {:.0} commits per CPU second, {:.0} ns each, {:.2} device I/Os each, {} MiB",
        figures.rate(),
        figures.per_commit(figures.cpu_ns),
        figures.per_commit(figures.device_ios),
        figures.peak_rss_bytes >> 20
    )
}

fn median(results: &[Figures], value: impl Fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = results.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Prints the run, as Markdown or as JSON.
///
/// # Errors
/// When the figures cannot be told as JSON.
pub fn print(shape: &Shape, results: &[Figures], as_json: bool) -> anyhow::Result<()> {
    let rate = median(results, Figures::rate);
    let rss = results.iter().map(|figures| figures.peak_rss_bytes).max();
    let rss = rss.unwrap_or(0);
    let per_commit =
        |count: fn(&Figures) -> u64| median(results, |figures| figures.per_commit(count(figures)));
    if as_json {
        let report = json!({
            "commits_per_cpu_second": rate,
            "commits_per_cpu_second_target": RATE_TARGET,
            "ns_per_commit": per_commit(|figures| figures.cpu_ns),
            "world_ns_per_commit": shape.split.then(|| per_commit(|figures| figures.world_ns)),
            "device_ios_per_commit": per_commit(|figures| figures.device_ios),
            "peak_rss_bytes": rss,
            "peak_rss_bytes_max": RSS_MAX,
            "clients": shape.clients,
            "blocks": shape.blocks,
            "memory_bytes": shape.memory_bytes,
            "log_bytes": shape.log_bytes,
            "rounds": results,
        });
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    println!(
        "The whole engine in virtual time: {} clients commit blocks of 4 KiB at random over {} MiB, each \
         durable; log of {} MiB, {} MiB of payload in memory. Medians of {} rounds.\n",
        shape.clients,
        (shape.blocks * 4096) >> 20,
        shape.log_bytes >> 20,
        shape.memory_bytes >> 20,
        results.len()
    );
    let verdict = |met: bool| if met { "met" } else { "MISSED" };
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["", "figure", "target", ""]);
    table.add_row([
        "commits per CPU second",
        &format!("{rate:.0}"),
        &format!("{RATE_TARGET:.0}"),
        verdict(rate >= RATE_TARGET),
    ]);
    table.add_row([
        "peak memory, MiB",
        &format!("{:.1}", rss as f64 / f64::from(1 << 20)),
        &format!("{}", RSS_MAX >> 20),
        verdict(rss < RSS_MAX),
    ]);
    let mut plain = |name: &str, value: f64, decimals: usize| {
        table.add_row([name, &format!("{value:.decimals$}"), "", ""]);
    };
    plain("ns per commit", per_commit(|figures| figures.cpu_ns), 0);
    if shape.split {
        let world = per_commit(|figures| figures.world_ns);
        plain("of it in the simulated world", world, 0);
    }
    let ios = per_commit(|figures| figures.device_ios);
    plain("device I/Os per commit", ios, 3);
    let writes = per_commit(|figures| figures.log_writes);
    plain("log writes per commit", writes, 4);
    let flushes = per_commit(|figures| figures.log_flushes);
    plain("log flushes per commit", flushes, 4);
    let home = per_commit(|figures| figures.home_writes);
    plain("home writes per commit", home, 3);
    let back = per_commit(|figures| figures.written_back_blocks);
    plain("blocks written home per commit", back, 3);
    plain("times round the log", median(results, |f| f.log_laps), 1);
    let seconds = median(results, |f| f.virtual_ns as f64 / 1e9);
    plain("virtual seconds", seconds, 3);
    println!("{table}");
    Ok(())
}
