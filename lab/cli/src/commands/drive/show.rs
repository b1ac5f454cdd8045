//! `tonearm-lab drive show`: a drive's figures, and figures that follow from them.

use crate::cli::Show;
use anyhow::Context;
use std::process::ExitCode;
use toml::Value;
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::DriveFile;
use tonearm_drive_file::{DiskSpec, SeekCurve, curve_ms};
use tonearm_experiments::{Axis, Legend, Line, Panel, Style};
use tonearm_terminal::Table;
use tonearm_terminal::{report, size};
use tonearm_trace::SECTOR_BYTES;

/// Sections that are shown key by key, as in the file.
const SECTIONS: [(&str, &[&str]); 7] = [
    ("overhead", &["disk", "overhead"]),
    ("bus", &["disk", "bus"]),
    ("buffer", &["disk", "buffer"]),
    ("deltas", &["disk", "deltas"]),
    ("flash", &["flash"]),
    ("write cache", &["write_cache"]),
    ("host", &["host"]),
];

/// Shows the drive.
///
/// # Errors
/// When its file is wrong, or the plot cannot be written.
pub fn run(arguments: &Show) -> anyhow::Result<ExitCode> {
    let file = DriveFile::find(&arguments.drive)?;
    if let Some(path) = &arguments.plot {
        let disk = file.spec.disk.as_ref();
        let disk = disk.context("a drive without moving parts has no seek curve to draw")?;
        std::fs::write(path, draw(&file.spec.title, disk))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let table: toml::Table = file.text.parse()?;
    if arguments.json {
        report::json(&table)?;
        return Ok(ExitCode::SUCCESS);
    }
    report::line(summary(&file))?;
    if let Some(disk) = &file.spec.disk {
        report::line(zones(disk))?;
        report::line(seeks(disk))?;
    }
    report::line(figures(&table))?;
    report::line(sources(&table))?;
    Ok(ExitCode::SUCCESS)
}

fn summary(file: &DriveFile) -> Table {
    let sectors = Drive::new(&file.spec, &DriveOptions::default()).sectors();
    let capacity = size::text(sectors * SECTOR_BYTES);
    let mut rows = vec![
        ("drive", file.spec.title.clone()),
        (
            "sectors",
            format!("{} ({capacity})", report::count(sectors)),
        ),
    ];
    if let Some(disk) = &file.spec.disk {
        let geometry = &disk.geometry;
        let (rotation, seek) = (&disk.rotation, &disk.seek);
        rows.extend([
            (
                "rotation",
                format!(
                    "{} rpm, {:.3} ms a revolution",
                    rotation.rpm,
                    60e3 / rotation.rpm
                ),
            ),
            (
                "geometry",
                format!(
                    "{} cylinders, {} heads, {} zones; {} order, spares: {}",
                    report::count(geometry.cylinders.into()),
                    geometry.heads,
                    geometry.zones.len(),
                    lower(&geometry.order),
                    lower(&geometry.sparing),
                ),
            ),
            ("head switch", format!("{} ms", seek.head_switch_ms)),
            (
                "write settle",
                format!(
                    "{} ms more than a read, after any move",
                    seek.write_settle_ms
                ),
            ),
            (
                "scheduler",
                match disk.queue_depth {
                    0 => disk.scheduler.to_string(),
                    depth => format!("{} among {depth} requests", disk.scheduler),
                },
            ),
        ]);
        if let Some(cache) = &disk.media_cache {
            let zones = match cache.zone_sectors {
                0 => String::new(),
                sectors => format!(", zones of {:.0} MiB", mib(sectors.into())),
            };
            let band = format!("{:.0} MiB{zones}", mib(cache.sectors));
            rows.push(("media cache", band));
        }
    }
    report::pairs(rows)
}

fn mib(sectors: u64) -> f64 {
    (sectors * SECTOR_BYTES) as f64 / f64::from(1 << 20)
}

/// The name of a variant, in lower case.
fn lower(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

fn zones(disk: &DiskSpec) -> Table {
    let mut table = report::table(&[
        "zone",
        "cylinders",
        "sectors/track",
        "MB/s",
        "track skew",
        "cylinder skew",
        "spares",
        "slips",
        "defects",
    ]);
    for (index, zone) in disk.geometry.zones.iter().enumerate() {
        let rate = f64::from(zone.track_sectors) * SECTOR_BYTES as f64 * disk.rotation.rpm / 60.0;
        table.add_row([
            index.to_string(),
            format!("{}-{}", zone.first_cylinder, zone.last_cylinder),
            zone.track_sectors.to_string(),
            format!("{:.1}", rate / 1e6),
            zone.track_skew.to_string(),
            zone.cylinder_skew.to_string(),
            zone.spares.to_string(),
            zone.slips.len().to_string(),
            zone.defects.len().to_string(),
        ]);
    }
    report::align_right(&mut table, 0..9);
    table
}

/// Some distances, from the shortest to the full stroke.
fn seeks(disk: &DiskSpec) -> Table {
    let given = match &disk.seek.curve {
        SeekCurve::Table(points) => format!("seek ms ({} points given)", points.len()),
        SeekCurve::Formula { .. } => "seek ms (by formula)".to_string(),
    };
    let full = disk.geometry.cylinders.saturating_sub(1).max(1);
    let mut distances: Vec<u32> = [1, 2, 5]
        .into_iter()
        .cycle()
        .zip((0..10u32).flat_map(|power| [10u32.saturating_pow(power); 3]))
        .map(|(digit, power)| power.saturating_mul(digit))
        .take_while(|distance| *distance < full)
        .collect();
    distances.push(full);
    let mut table = report::table(&["seek over cylinders", &given, "to write"]);
    for distance in distances {
        let time = curve_ms(&disk.seek.curve, distance);
        table.add_row([
            report::count(distance.into()),
            format!("{time:.3}"),
            format!("{:.3}", time + disk.seek.write_settle_ms),
        ]);
    }
    report::align_right(&mut table, 0..3);
    table
}

/// The sections that are figures alone.
fn figures(file: &toml::Table) -> Table {
    let mut table = report::table(&["", "figure", "value"]);
    for (name, path) in SECTIONS {
        for (key, value) in section(file, path).into_iter().flatten() {
            if key != "source" {
                table.add_row([name.to_string(), key.replace('_', " "), text(value)]);
            }
        }
    }
    table
}

fn sources(file: &toml::Table) -> Table {
    let mut table = report::table(&["", "where the figures come from"]);
    let paths = [
        ("all", &[][..]),
        ("rotation", &["disk", "rotation"]),
        ("geometry", &["disk", "geometry"]),
        ("seek", &["disk", "seek"]),
    ];
    for (name, path) in paths.into_iter().chain(SECTIONS) {
        let source = section(file, path).and_then(|section| section.get("source"));
        if let Some(source) = source.and_then(Value::as_str) {
            table.add_row([name, source.trim()]);
        }
    }
    table
}

fn section<'a>(file: &'a toml::Table, path: &[&str]) -> Option<&'a toml::Table> {
    path.iter()
        .try_fold(file, |table, key| table.get(*key)?.as_table())
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Table(table) => {
            if let (Some(read), Some(write)) = (table.get("read"), table.get("write")) {
                return if read == write {
                    text(read)
                } else {
                    format!("{} after a read, {} after a write", text(read), text(write))
                };
            }
            let parts: Vec<String> = table
                .iter()
                .map(|(key, value)| format!("{} {}", key.replace('_', " "), text(value)))
                .collect();
            parts.join(", ")
        }
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Seek curve and zones.
fn draw(title: &str, disk: &DiskSpec) -> String {
    let cylinders = disk.geometry.cylinders;
    let curve = |settle: f64| -> Vec<(f64, f64)> {
        (1..cylinders)
            .step_by((cylinders as usize / 2000).max(1))
            .map(|distance| {
                (
                    distance.into(),
                    curve_ms(&disk.seek.curve, distance) + settle,
                )
            })
            .collect()
    };
    let mut lines = vec![Line::new("read", Style::Solid, 0, curve(0.0))];
    if disk.seek.write_settle_ms != 0.0 {
        let points = curve(disk.seek.write_settle_ms);
        lines.push(Line::new("write", Style::Solid, 1, points));
    }
    let steps = disk.geometry.zones.iter().flat_map(|zone| {
        let sectors = f64::from(zone.track_sectors);
        [
            (f64::from(zone.first_cylinder), sectors),
            (f64::from(zone.last_cylinder) + 1.0, sectors),
        ]
    });
    let panels = vec![
        Panel {
            title: "Seek time".into(),
            x: Axis::linear("distance, cylinders"),
            y: Axis::linear("time, ms"),
            lines,
            legend: Legend::BottomRight,
        },
        Panel {
            title: "Zones".into(),
            x: Axis::linear("cylinder"),
            y: Axis::linear("sectors per track"),
            lines: vec![Line::new("", Style::Solid, 0, steps.collect())],
            legend: Legend::BottomRight,
        },
    ];
    tonearm_experiments::svg::figure(title, &panels)
}
