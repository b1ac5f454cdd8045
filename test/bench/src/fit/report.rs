//! The report of a fit: the agreement as TOML comments, then the fitted figures as TOML.

use crate::accuracy::{demerit_ms, median_error_ms, predicted_percent};
use crate::descent::Found;
use crate::parameters::Parameters;
use crate::replay::{closed_loop, followed, random_phase};
use crate::requests::Request;
use anyhow::Context;
use std::fmt::Write;
use tonearm_base::Nanos;
use tonearm_drive::Demerit;
use tonearm_drive_file::{After, DiskSpec, DriveSpec, SeekCurve};
use tonearm_world::Kind;

/// Columns of a line of a seek table.
const WIDTH: usize = 100;
/// Runs from which the effect of chance is estimated.
const CHANCE_RUNS: u64 = 8;

/// Everything that the report needs.
pub struct Report<'a> {
    /// Name of the drive.
    pub drive: &'a str,
    /// The trace.
    pub requests: &'a [Request],
    /// The number of requests, from the first on, that the fit used.
    pub fitted_on: usize,
    /// How well the phase can be followed.
    pub coherence: f64,
    /// Whether the fit followed it.
    pub follow: bool,
    /// The fitted parameters.
    pub parameters: &'a Parameters,
    /// The result of the fit.
    pub found: &'a Found,
}

/// Times of a drive in both replays.
struct Runs {
    closed: Vec<Nanos>,
    followed: Vec<Nanos>,
}

impl Runs {
    fn of(spec: &DriveSpec, requests: &[Request]) -> Self {
        Self {
            closed: closed_loop(spec, requests),
            followed: followed(spec, requests).times,
        }
    }
}

impl Report<'_> {
    /// Prints the report.
    ///
    /// # Errors
    /// When the fitted figures are invalid, which a fit does not return.
    pub fn print(&self) -> anyhow::Result<()> {
        let fitted = self.parameters.spec(&self.found.values);
        let fitted = fitted.context("the fitted figures are not a valid drive")?;
        let mut text = String::new();
        self.agreement(&mut text, &fitted)?;
        let disk = fitted.disk.as_ref().context("a drive without an arm")?;
        figures(&mut text, disk)?;
        print!("{text}");
        Ok(())
    }

    fn agreement(&self, text: &mut String, fitted: &DriveSpec) -> anyhow::Result<()> {
        let before = Runs::of(self.parameters.before(), self.requests);
        let after = Runs::of(fitted, self.requests);
        let half = self.requests.len() / 2;
        let second = match self.fitted_on {
            0 => "second half",
            count if count <= half => "second half, held out",
            _ => "second half, fitted on too",
        };
        let phase = match self.follow {
            true => "followed",
            false => "not followed",
        };
        writeln!(
            text,
            "# {}: {} requests, the first {} fitted on; phase {phase} (coherence {:.2}); cost {:.4} ms",
            self.drive,
            self.requests.len(),
            self.fitted_on,
            self.coherence,
            self.found.cost,
        )?;
        writeln!(text, "# {:32} {:>18}   {second}", "", "whole trace")?;
        for (name, kind) in [
            ("demerit ms, all", None),
            ("demerit ms, reads", Some(Kind::Read)),
            ("demerit ms, writes", Some(Kind::Write)),
        ] {
            let figure = |requests: &[Request], times: &[Nanos]| demerit_ms(requests, times, kind);
            self.line(text, name, half, (&before.closed, &after.closed), figure)?;
        }
        let followed = (&*before.followed, &*after.followed);
        if self.follow {
            let figure = |requests: &[Request], times: &[Nanos]| demerit_ms(requests, times, None);
            self.line(text, "demerit ms, phase followed", half, followed, figure)?;
            let figure =
                |requests: &[Request], times: &[Nanos]| Some(median_error_ms(requests, times));
            self.line(
                text,
                "median error ms, phase followed",
                half,
                followed,
                figure,
            )?;
            let figure =
                |requests: &[Request], times: &[Nanos]| Some(predicted_percent(requests, times));
            self.line(
                text,
                "within 0.5 ms %, phase followed",
                half,
                followed,
                figure,
            )?;
        }
        if let Some(chance) = chance_ms(fitted, self.requests, &after.closed) {
            writeln!(text, "# {:32} {chance:>18.3}", "demerit ms of chance, all")?;
        }
        Ok(())
    }

    /// One row: a figure before and after, for the whole trace and for the second half.
    fn line(
        &self,
        text: &mut String,
        name: &str,
        half: usize,
        (before, after): (&[Nanos], &[Nanos]),
        figure: impl Fn(&[Request], &[Nanos]) -> Option<f64>,
    ) -> std::fmt::Result {
        let change = |from: usize| {
            let requests = &self.requests[from..];
            let figure = |times: &[Nanos]| match figure(requests, &times[from..]) {
                Some(figure) => format!("{figure:.3}"),
                None => "-".to_owned(),
            };
            format!("{} -> {}", figure(before), figure(after))
        };
        writeln!(text, "# {name:32} {:>18}   {:>18}", change(0), change(half))
    }
}

/// The demerit between runs of the same drive that differ only in the platter's phase, in ms. A smaller demerit is
/// mostly chance.
fn chance_ms(spec: &DriveSpec, requests: &[Request], closed: &[Nanos]) -> Option<f64> {
    let mut sum = 0.0;
    for seed in 1..=CHANCE_RUNS {
        sum += Demerit::of(closed, &random_phase(spec, requests, seed))?.demerit_ms;
    }
    Some(sum / CHANCE_RUNS as f64)
}

/// The fitted figures, in the sections of a drive file.
fn figures(text: &mut String, disk: &DiskSpec) -> std::fmt::Result {
    let seek = &disk.seek;
    writeln!(text, "\n[disk.seek]")?;
    writeln!(text, "head_switch_ms = {}", seek.head_switch_ms)?;
    writeln!(text, "same_track_ms = {}", seek.same_track_ms)?;
    writeln!(text, "write_settle_ms = {}", seek.write_settle_ms)?;
    if let SeekCurve::Table(points) = &seek.curve {
        table(text, points)?;
    }
    let overhead = &disk.overhead;
    writeln!(text, "\n[disk.overhead]")?;
    for (key, After { read, write }) in [
        ("read_hit_ms", overhead.read_hit_ms),
        ("read_miss_ms", overhead.read_miss_ms),
        ("write_hit_ms", overhead.write_hit_ms),
        ("write_miss_ms", overhead.write_miss_ms),
    ] {
        writeln!(text, "{key} = {{ read = {read}, write = {write} }}")?;
    }
    if let Some(detour) = &overhead.write_detour {
        writeln!(text, "\n[disk.overhead.write_detour]")?;
        writeln!(text, "command_ms = {}", detour.command_ms)?;
    }
    writeln!(text, "\n[disk.bus]")?;
    writeln!(text, "read_sector_ms = {}", disk.bus.read_sector_ms)?;
    writeln!(text, "write_sector_ms = {}", disk.bus.write_sector_ms)
}

/// A seek table, with as many points in a line as fit.
fn table(text: &mut String, points: &[(u32, f64)]) -> std::fmt::Result {
    writeln!(text, "curve.table = [")?;
    let mut line = String::from("   ");
    for (distance, ms) in points {
        let point = format!(" [{distance}, {ms}],");
        if line.len() + point.len() > WIDTH {
            writeln!(text, "{line}")?;
            line.truncate(3);
        }
        line.push_str(&point);
    }
    writeln!(text, "{line}\n]")
}
