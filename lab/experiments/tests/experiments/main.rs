//! Tests of experiments: their definitions, repetition, presentation and findings.

#![allow(clippy::unwrap_used)]

mod findings;
mod framework;
mod minix_ld;
mod pagedb;
mod pages;
mod power;
mod recommend;

use std::sync::{Mutex, OnceLock};
use tonearm_drive_file::DriveFile;
use tonearm_experiments::{Effort, Report, Run, find};

/// A quick run of `name`, which all tests share.
pub fn quick(name: &'static str) -> Report {
    static KNOWN: OnceLock<Mutex<Vec<Report>>> = OnceLock::new();
    let mut known = KNOWN.get_or_init(Mutex::default).lock().unwrap();
    if let Some(report) = known.iter().find(|report| report.experiment == name) {
        return report.clone();
    }
    let report = run(name, 1);
    known.push(report.clone());
    report
}

/// A quick run of `name` with a seed. An experiment for all drives runs on one here.
pub fn run(name: &str, seed: u64) -> Report {
    let drive = match name {
        "heads" => Some(DriveFile::of_library("mimic80")),
        _ => None,
    };
    run_on(drive, name, seed)
}

/// A quick run of `name` on a drive, or on its own ones.
pub fn run_on(drive: Option<DriveFile>, name: &str, seed: u64) -> Report {
    let experiment = find(name).unwrap();
    let run = Run {
        drive,
        seed,
        effort: Effort::Quick,
        progress: &|_, _| (),
    };
    experiment.run(&run).unwrap()
}
