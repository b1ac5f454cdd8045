//! Prints the result on standard output.

use super::subject::Subject;
use crate::cli::Calibrate;
use serde_json::{Value, json};
use tonearm_calibrate::{Disk, Findings, Flash, Kind};
use tonearm_drive_file::DriveSpec;
use tonearm_terminal::report;

/// Prints what was found.
///
/// # Errors
/// When standard output cannot be written.
pub fn print(
    arguments: &Calibrate,
    subject: &Subject,
    found: &Findings,
    spec: &DriveSpec,
    text: &str,
) -> anyhow::Result<()> {
    if arguments.json {
        return report::json(&as_json(arguments, subject, found, spec, text));
    }
    if arguments.out.is_none() {
        report::line(text.trim_end())?;
        return Ok(());
    }
    let mut rows = match &found.kind {
        Kind::Disk(disk) => disk_rows(disk, spec),
        Kind::Flash(flash) => flash_rows(flash),
    };
    let seconds = subject.took().0 as f64 / 1e9;
    let clock = match subject.world {
        Some(_) => "virtual time",
        None => "time",
    };
    rows.push((clock, format!("{seconds:.0} s")));
    if let Some(out) = &arguments.out {
        rows.push(("drive file", out.display().to_string()));
    }
    if let Some(profile) = &arguments.profile {
        rows.push(("profile", profile.display().to_string()));
    }
    report::line(report::pairs(rows))?;
    Ok(())
}

fn yes(what: Option<bool>) -> &'static str {
    match what {
        Some(true) => "honoured",
        Some(false) => "NOT HONOURED: a power cut loses what the drive said was safe",
        None => "not tried",
    }
}

fn disk_rows(disk: &Disk, spec: &DriveSpec) -> Vec<(&'static str, String)> {
    let ms = |time: Option<f64>| time.map_or("not measured".into(), |time| format!("{time:.4} ms"));
    let zones = &disk.layout.zones;
    let tracks = |zone: &tonearm_calibrate::Zone| zone.track_sectors;
    let range = format!(
        "{}, {} to {} sectors on a track",
        zones.len(),
        zones.iter().map(tracks).max().unwrap_or(0),
        zones.iter().map(tracks).min().unwrap_or(0)
    );
    let geometry = spec.disk.as_ref().map(|disk| &disk.geometry);
    let cylinders = geometry.map_or(0, |geometry| geometry.cylinders);
    let slips: usize = zones.iter().map(|zone| zone.slips.len()).sum();
    let heads = match disk.heads_found {
        true => disk.layout.heads.to_string(),
        false => "not found; 1 is assumed".into(),
    };
    vec![
        ("rotation", format!("{:.3} rpm", 60e9 / disk.spindle.period)),
        ("zones", range),
        ("heads", heads),
        ("cylinders", report::count(u64::from(cylinders))),
        ("skipped sectors", report::count(slips as u64)),
        ("head switch", ms(disk.arm.head_switch)),
        (
            "seek, longest",
            ms(disk.arm.seeks.last().map(|(_, time)| *time)),
        ),
        ("write settling", ms(disk.arm.write_settle)),
        ("least write", ms(disk.commands.write_least)),
        (
            "delta",
            disk.commands
                .delta_sectors
                .map_or("not measured".into(), |delta| format!("{delta} sectors")),
        ),
        ("FUA", yes(disk.memory.fua_honoured).into()),
        (
            "flush",
            match disk.memory.write_cache {
                Some(false) => "no write cache".into(),
                _ => yes(disk.memory.flush_honoured).into(),
            },
        ),
    ]
}

fn flash_rows(flash: &Flash) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        (
            "kind",
            "no platter turns: flash, a file, or a cache in front of a drive".into(),
        ),
        ("read", format!("{:.4} ms", flash.read)),
        ("commands at once", flash.channels.to_string()),
    ];
    if let Some(writes) = &flash.writes {
        rows.push(("write with FUA", format!("{:.4} ms", writes.durable)));
        rows.push(("write", format!("{:.4} ms", writes.plain)));
        rows.push(("flush", format!("{:.4} ms", writes.flush)));
    }
    rows
}

fn as_json(
    arguments: &Calibrate,
    subject: &Subject,
    found: &Findings,
    spec: &DriveSpec,
    text: &str,
) -> Value {
    let kind = match &found.kind {
        Kind::Disk(disk) => json!({
            "rpm": 60e9 / disk.spindle.period,
            "noise_us": disk.spindle.noise / 1e3,
            "heads": disk.layout.heads,
            "heads_found": disk.heads_found,
            "cylinders": spec.disk.as_ref().map(|disk| disk.geometry.cylinders),
            "zones": disk.layout.zones.iter().map(|zone| json!({
                "first_sector": zone.first,
                "track_sectors": zone.track_sectors,
                "track_skew": zone.track_skew,
                "cylinder_skew": zone.cylinder_skew,
                "skipped": zone.slips.len(),
            })).collect::<Vec<_>>(),
            "seeks_ms": disk.arm.seeks,
            "head_switch_ms": disk.arm.head_switch,
            "write_settle_ms": disk.arm.write_settle,
            "write_least_ms": disk.commands.write_least,
            "delta_sectors": disk.commands.delta_sectors,
            "write_cache": disk.memory.write_cache,
            "fua_honoured": disk.memory.fua_honoured,
            "flush_honoured": disk.memory.flush_honoured,
        }),
        Kind::Flash(flash) => json!({
            "read_ms": flash.read,
            "read_mib_per_s": flash.read_mib_per_s,
            "channels": flash.channels,
            "write_durable_ms": flash.writes.as_ref().map(|writes| writes.durable),
            "write_ms": flash.writes.as_ref().map(|writes| writes.plain),
            "flush_ms": flash.writes.as_ref().map(|writes| writes.flush),
        }),
    };
    json!({
        "device": subject.name,
        "sectors": found.sectors,
        "region": [found.options.region.start, found.options.region.end],
        "written": found.options.may_write,
        "rotates": matches!(found.kind, Kind::Disk(_)),
        "found": kind,
        "seconds": subject.took().0 as f64 / 1e9,
        "drive_file": arguments.out,
        "drive_file_text": text,
        "profile": arguments.profile,
    })
}
