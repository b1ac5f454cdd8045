//! `tonearm-lab drive list`.

use crate::cli::List;
use anyhow::Context;
use serde::Serialize;
use std::process::ExitCode;
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::{DriveSpec, library};
use tonearm_terminal::report;

#[derive(Serialize)]
struct Row {
    name: &'static str,
    title: String,
    sectors: u64,
    size_bytes: u64,
    /// None for a drive that does not turn.
    rpm: Option<f64>,
    heads: Option<u32>,
    cylinders: Option<u32>,
}

/// Lists the drives of the library.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(arguments: &List) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    for known in library() {
        let spec = DriveSpec::parse(&format!("drives/{}.toml", known.name), known.text)
            .context("a drive of the library is damaged")?;
        let sectors = Drive::new(&spec, &DriveOptions::default()).sectors();
        let disk = spec.disk.as_ref();
        rows.push(Row {
            name: known.name,
            sectors,
            size_bytes: sectors * tonearm_trace::SECTOR_BYTES,
            rpm: disk.map(|disk| disk.rotation.rpm),
            heads: disk.map(|disk| disk.geometry.heads),
            cylinders: disk.map(|disk| disk.geometry.cylinders),
            title: spec.title,
        });
    }
    if arguments.json {
        report::json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = report::table(&["name", "drive", "GB", "rpm", "heads", "cylinders"]);
    for row in rows {
        let count = |number: Option<u32>| number.map_or(String::new(), |n| report::count(n.into()));
        table.add_row([
            row.name.to_string(),
            row.title,
            format!("{:.1}", row.size_bytes as f64 / 1e9),
            row.rpm.map_or("flash".into(), |rpm| format!("{rpm:.0}")),
            count(row.heads),
            count(row.cylinders),
        ]);
    }
    report::align_right(&mut table, 2..6);
    report::line(table)?;
    Ok(ExitCode::SUCCESS)
}
