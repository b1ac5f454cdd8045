//! A drive as the options of a command switch it on.

use crate::cli::{Switch, Switched};
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::{DriveFile, Scheduler};

/// The drive of `file`, switched on at time 0.
pub fn switch_on(file: &DriveFile, how: &Switched) -> Drive {
    let options = DriveOptions {
        seed: how.seed,
        scheduler: how.scheduler,
        write_cache: how.write_cache.map(|switch| switch == Switch::On),
        ..DriveOptions::default()
    };
    Drive::new(&file.spec, &options)
}

/// The order of service in force; none for a drive without an arm.
pub fn scheduler(file: &DriveFile, how: &Switched) -> Option<Scheduler> {
    let own = file.spec.disk.as_ref().map(|disk| disk.scheduler);
    own.map(|own| how.scheduler.unwrap_or(own))
}
