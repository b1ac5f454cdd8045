//! `tonearm-lab drive`: simulated drives from the command line.

mod answer_file;
mod bench;
mod deltas;
mod list;
mod replay;
mod run;
mod show;
mod trace_file;
mod validate;

use crate::cli::{Drive as Arguments, DriveAction, Switch, Switched};
use std::process::ExitCode;
use tonearm_base::Nanos;
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::{DriveFile, Scheduler};

/// Runs the command.
///
/// # Errors
/// With the text for the user.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        DriveAction::List(arguments) => list::run(&arguments),
        DriveAction::Show(arguments) => show::run(&arguments),
        DriveAction::Bench(arguments) => bench::run(&arguments),
        DriveAction::Deltas(arguments) => deltas::run(&arguments),
        DriveAction::Replay(arguments) => replay::run(&arguments),
        DriveAction::Validate(arguments) => validate::run(&arguments),
    }
}

/// The drive of `file`, switched on at time 0.
fn switch_on(file: &DriveFile, how: &Switched) -> Drive {
    let options = DriveOptions {
        seed: how.seed,
        scheduler: how.scheduler,
        write_cache: how.write_cache.map(|switch| switch == Switch::On),
        ..DriveOptions::default()
    };
    Drive::new(&file.spec, &options)
}

/// The order of service in force; none for a drive without an arm.
fn scheduler(file: &DriveFile, how: &Switched) -> Option<Scheduler> {
    let own = file.spec.disk.as_ref().map(|disk| disk.scheduler);
    own.map(|own| how.scheduler.unwrap_or(own))
}

/// Milliseconds, exactly.
pub fn exact_ms(time: Nanos) -> String {
    format!("{}.{:06}", time.0 / 1_000_000, time.0 % 1_000_000)
}

fn ms(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

/// Processor time of this process so far, in seconds.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
