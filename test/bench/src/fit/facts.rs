//! Figures that were extracted from a drive by other means, before any fit to the trace. A fit can start from them.
//!
//! The source is a JSON file with `mechanics` (seek points or Ruemmler and Wilkes's formula, head switch, settling) and
//! `overheads_ms` (for each kind of request and for the kind before it, and the bus). All other properties of the
//! drive, such as its buffer's policy, come from the drive file.

use anyhow::{Context, bail};
use serde::Deserialize;
use std::path::Path;
use tonearm_drive_file::{After, DriveSpec, SeekCurve};

/// The part of the file that is used. The file may have more keys.
#[derive(Deserialize)]
pub struct Facts {
    mechanics: Mechanics,
    overheads_ms: Overheads,
}

#[derive(Deserialize)]
struct Mechanics {
    seek: Seek,
    head_switch_ms: f64,
    write_settle_extra_ms: f64,
}

#[derive(Deserialize)]
struct Seek {
    points_cylinders_ms: Option<Vec<(u32, f64)>>,
    hpl: Option<Formula>,
    #[serde(default)]
    first_ten_ms: Vec<f64>,
}

#[derive(Deserialize)]
struct Formula {
    v1_cylinders: u32,
    v2_ms: f64,
    v3_ms: f64,
    v4_ms: f64,
    v5_ms: f64,
}

#[derive(Deserialize)]
struct Overheads {
    disk_bulk_sector_transfer: f64,
    controller_bulk_sector_transfer: f64,
    bus1_read_block_transfer: f64,
    bus1_write_block_transfer: f64,
    read_hit_after_read: f64,
    read_hit_after_write: f64,
    read_miss_after_read: f64,
    read_miss_after_write: f64,
    write_hit_after_read: f64,
    write_hit_after_write: f64,
    write_miss_after_read: f64,
    write_miss_after_write: f64,
    extra_write_disconnect: Detour,
}

#[derive(Deserialize)]
struct Detour {
    command: f64,
}

/// Reads a file of facts.
///
/// # Errors
/// When the file cannot be read or lacks a figure.
pub fn load(path: &Path) -> anyhow::Result<Facts> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    serde_json::from_str(&text).with_context(|| format!("{name} has no facts of a drive"))
}

impl Facts {
    /// Replaces in `spec` the figures that a fit changes.
    ///
    /// # Errors
    /// When the drive has no arm, or the facts have no seek curve.
    pub fn apply(self, spec: &mut DriveSpec) -> anyhow::Result<()> {
        let disk = spec.disk.as_mut().context("a drive without an arm")?;
        disk.seek.curve = self.mechanics.seek.curve()?;
        disk.seek.head_switch_ms = self.mechanics.head_switch_ms;
        disk.seek.write_settle_ms = self.mechanics.write_settle_extra_ms;
        disk.seek.same_track_ms = 0.0;
        let facts = self.overheads_ms;
        let after = |read, write| After { read, write };
        let overhead = &mut disk.overhead;
        overhead.read_hit_ms = after(facts.read_hit_after_read, facts.read_hit_after_write);
        overhead.read_miss_ms = after(facts.read_miss_after_read, facts.read_miss_after_write);
        overhead.write_hit_ms = after(facts.write_hit_after_read, facts.write_hit_after_write);
        overhead.write_miss_ms = after(facts.write_miss_after_read, facts.write_miss_after_write);
        if let Some(detour) = &mut overhead.write_detour {
            detour.command_ms = facts.extra_write_disconnect.command;
        }
        // The slowest of drive, bus and controller limits the transfer of a sector.
        let least = facts
            .disk_bulk_sector_transfer
            .max(facts.controller_bulk_sector_transfer);
        disk.bus.read_sector_ms = least.max(facts.bus1_read_block_transfer);
        disk.bus.write_sector_ms = least.max(facts.bus1_write_block_transfer);
        Ok(())
    }
}

impl Seek {
    fn curve(self) -> anyhow::Result<SeekCurve> {
        match (self.points_cylinders_ms, self.hpl) {
            (Some(points), _) => Ok(SeekCurve::Table(points)),
            (None, Some(formula)) => Ok(SeekCurve::Formula {
                first_ms: self.first_ten_ms,
                below: formula.v1_cylinders,
                root: (formula.v2_ms, formula.v3_ms),
                above: (formula.v4_ms, formula.v5_ms),
            }),
            (None, None) => bail!("the facts have neither points of a seek curve nor its formula"),
        }
    }
}
