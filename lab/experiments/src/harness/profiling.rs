//! Profiles as in the paper (Disk Mimic 2.2, 4.1): writes to an unknown drive.

use super::rig::Rig;
use super::times::Times;
use super::tracks::{tracks_within, turn};
use crate::experiment::{Context, Random};
use tonearm_base::Nanos;
use tonearm_drive::Drive;
use tonearm_drive_file::{DriveFile, HostSpec};
use tonearm_head::{Cell, Grid, Profile, Span, Steps};
use tonearm_head_study::Trials;

/// Sectors of the paper's log of 500 MB (Disk Mimic 4.1).
const LOG_SECTORS: u64 = 1_024_000;

/// A log of the paper's size at the outer end of `drive`, or all of it.
pub fn region(drive: &DriveFile) -> Span {
    Span {
        start: 0,
        end: sectors(drive).min(LOG_SECTORS),
    }
}

/// A log of the paper's size at the inner end of `drive`, where the experiments of the paper are repeated. The paper does
/// not say where its log was. Skips of 32 to 48 KB were within 0.5 ms (Disk Mimic 3), 32 KB for each millisecond: the
/// innermost tracks of `mimic80` pass at 40 KiB/ms, the outermost at 61.
pub fn inner_region(drive: &DriveFile) -> Span {
    let end = sectors(drive);
    Span {
        start: end.saturating_sub(LOG_SECTORS),
        end,
    }
}

fn sectors(drive: &DriveFile) -> u64 {
    Drive::new(&drive.spec, &tonearm_drive::DriveOptions::default()).sectors()
}

/// The paper's grid for a log in `region` of `drive`, with `samples` at each point. The paper does not give its skips.
/// Here they are about the 128th part of a track, which is 4 KB on the drive of the paper.
///
/// # Panics
/// When the drive does not rotate.
pub fn paper_grid(drive: &DriveFile, region: Span, samples: u8) -> Grid {
    let track = track_sectors(drive, region);
    let step = (track / 128).max(1).next_power_of_two();
    Grid {
        samples,
        ..tonearm_head_study::paper_grid(turn(drive), track, step)
    }
}

/// Sectors that pass in a revolution, where `region` begins.
///
/// # Panics
/// When the drive does not rotate.
pub fn track_sectors(drive: &DriveFile, region: Span) -> u32 {
    tracks_within(drive, region).track(0).turn_sectors
}

/// The profile of `region` of `drive` on `grid`, as a program on `host` measures it. Each size is measured on a drive of its own.
///
/// # Panics
/// When the drive is smaller than the grid needs.
pub fn profile(
    context: &Context<'_>,
    drive: &DriveFile,
    region: Span,
    grid: Grid,
    part: u64,
    host: &HostSpec,
) -> Profile {
    let sizes: Vec<usize> = (0..grid.sizes.len()).collect();
    let parts = context.map(&sizes, |size| {
        let seed = context.seed(part << 16 | *size as u64);
        take(
            Rig::new(drive, seed).on(host, seed),
            one_size(grid, *size),
            region,
            seed,
        )
    });
    let mut whole = Profile::new(grid).expect("the grid is good");
    for (size, part) in parts.iter().enumerate() {
        for think in 0..grid.thinks.len() {
            for skip in 0..grid.skips.len() {
                for micros in part.samples(Cell {
                    size: 0,
                    think,
                    skip,
                }) {
                    let time = Nanos(u64::from(*micros) * 1_000);
                    whole.add_sample(Cell { size, think, skip }, time);
                }
            }
        }
    }
    whole
}

/// `grid` with one of its sizes.
pub fn one_size(grid: Grid, size: usize) -> Grid {
    let sizes = Steps {
        first: grid.sizes.at(size),
        step: grid.sizes.step,
        count: 1,
    };
    Grid { sizes, ..grid }
}

fn take(mut rig: Rig, grid: Grid, region: Span, seed: u64) -> Profile {
    let profile = Profile::new(grid).expect("the grid is good");
    let trials = Trials::new(profile, region, seed);
    let mut trials = trials.expect("the drive is larger than the grid needs");
    while let Some(trial) = trials.trial() {
        rig.think(trial.think);
        trials.done(&rig.write(trial.first, trial.sectors));
    }
    trials.into_profile()
}

/// Response times of `writes` writes of `sectors` sectors on `rig`, anywhere in `region`. Each leaves out `skip`
/// sectors after a write that ended `think` ago.
pub fn skip_response(
    rig: &mut Rig,
    region: Span,
    sectors: u32,
    think: Nanos,
    skip: u64,
    writes: u64,
    seed: u64,
) -> Times {
    let mut random = Random::new(seed, 2);
    let room = region.len() - skip - 2 * u64::from(sectors);
    let mut times = Times::default();
    for _ in 0..writes {
        let before = rig.write(region.start + random.below(room), sectors);
        rig.think(think);
        let write = rig.write(before.end() + skip, sectors);
        times.push(write.done.since(write.sent));
    }
    times
}
