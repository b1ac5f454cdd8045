//! Runs fio with its nbd engine.

use anyhow::{Context, bail};
use serde_json::Value;
use std::process::Command;

/// Result of a run of fio.
pub struct Done {
    /// Reads and writes.
    pub requests: u64,
    /// Flushes sent.
    pub flushes: u64,
    /// Requests in a second as fio reports them, summed over its clients.
    pub rate: f64,
    /// Time that 99.9 % of the writes took at most, in milliseconds.
    pub p999_ms: f64,
    /// Longest time of a write, in milliseconds.
    pub longest_ms: f64,
}

/// Runs fio on `uri`. With `once` each block is accessed at most once.
///
/// # Errors
/// When fio cannot be run or a request fails.
pub fn run(
    uri: &str,
    arguments: &[&str],
    seconds: u64,
    seed: u64,
    once: bool,
) -> anyhow::Result<Done> {
    let mut command = Command::new("fio");
    command.args([
        "--name=bench",
        "--ioengine=nbd",
        "--group_reporting",
        // Each write has new content, because Tonearm's log stores only the words of a block that change.
        "--refill_buffers",
        "--output-format=json",
    ]);
    command
        .arg(format!("--uri={uri}"))
        .arg(format!("--randseed={}", seed + 1));
    command.arg(format!("--runtime={seconds}")).args(arguments);
    if !once {
        command.args(["--time_based", "--norandommap"]);
    }
    let output = command.output().context("cannot run fio")?;
    if !output.status.success() {
        bail!("fio: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // The nbd engine prints a line before the JSON document.
    let start = text.find('{').context("fio gave no JSON")?;
    let report: Value = serde_json::from_str(&text[start..]).context("fio's JSON")?;
    let job = &report["jobs"][0];
    if job["error"] != 0 {
        bail!("fio met error {}", job["error"]);
    }
    let number = |side: &str, field: &str| job[side][field].as_f64().unwrap_or(0.0);
    let writes = &job["write"]["clat_ns"];
    let ms = |time: &Value| time.as_f64().unwrap_or(0.0) / 1e6;
    Ok(Done {
        requests: (number("read", "total_ios") + number("write", "total_ios")) as u64,
        flushes: number("sync", "total_ios") as u64,
        rate: number("read", "iops") + number("write", "iops"),
        p999_ms: ms(&writes["percentile"]["99.900000"]),
        longest_ms: ms(&writes["max"]),
    })
}
