//! `tonearm drive`: simulated drives from the command line.

mod answer_file;
mod bench;
mod list;
mod replay;
mod run;
mod show;
mod trace_file;
mod validate;

use crate::cli::{Drive as Arguments, DriveAction, Switch, Switched};
use anyhow::{Context, bail};
use std::path::Path;
use std::process::ExitCode;
use tonearm_base::Nanos;
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::{DriveSpec, library};

/// Does what was asked.
///
/// # Errors
/// With the text for the user.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        DriveAction::List(arguments) => list::run(&arguments),
        DriveAction::Show(arguments) => show::run(&arguments),
        DriveAction::Bench(arguments) => bench::run(&arguments),
        DriveAction::Replay(arguments) => replay::run(&arguments),
        DriveAction::Validate(arguments) => validate::run(&arguments),
    }
}

/// A drive's file.
pub struct Sheet {
    /// Name, as the user gave it.
    pub name: String,
    /// The TOML text.
    text: String,
    /// What it says.
    pub spec: DriveSpec,
}

impl Sheet {
    /// The drive that is called `name`, or the file.
    ///
    /// # Errors
    /// When there is none, or the file is wrong.
    pub fn find(name: &str) -> anyhow::Result<Self> {
        let known = library().iter().find(|drive| drive.name == name);
        let (file, text) = match known {
            Some(known) => (format!("drives/{name}.toml"), known.text.to_string()),
            None if is_path(name) => {
                let text = std::fs::read_to_string(name)
                    .with_context(|| format!("cannot read the drive's file {name}"))?;
                (name.to_string(), text)
            }
            None => {
                let names: Vec<&str> = library().iter().map(|drive| drive.name).collect();
                bail!(
                    "there is no drive '{name}': it is one of {}, or the path of a .toml file",
                    names.join(", ")
                );
            }
        };
        let spec = DriveSpec::parse(&file, &text)?;
        Ok(Self {
            name: name.to_string(),
            text,
            spec,
        })
    }

    /// The drive, switched on at time 0.
    fn switch_on(&self, how: &Switched) -> Drive {
        let options = DriveOptions {
            seed: how.seed,
            scheduler: how.scheduler,
            write_cache: how.write_cache.map(|switch| switch == Switch::On),
            ..DriveOptions::default()
        };
        Drive::new(&self.spec, &options)
    }

    /// The order of service in force; none for a drive without an arm.
    fn scheduler(&self, how: &Switched) -> Option<tonearm_drive_file::Scheduler> {
        let own = self.spec.disk.as_ref().map(|disk| disk.scheduler);
        own.map(|own| how.scheduler.unwrap_or(own))
    }
}

fn is_path(name: &str) -> bool {
    name.ends_with(".toml") || name.contains('/') || Path::new(name).is_file()
}

/// Milliseconds, exactly.
fn exact_ms(time: Nanos) -> String {
    format!("{}.{:06}", time.0 / 1_000_000, time.0 % 1_000_000)
}

fn ms(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

/// Processor time of this process so far, in seconds.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
