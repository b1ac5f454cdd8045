//! The set-up of HyLog's experiments: its drives, its workloads, and one simulation of pages.

use crate::experiment::Context;
use tonearm_drive::{ClosedLoop, Drive, DriveOptions};
use tonearm_drive_file::{DriveFile, DriveSpec};
use tonearm_pages::{Band, Setup, Simulation, Steady};
use tonearm_workload::{Random, Skew, SkewOptions, SkewedPages, Workload};
use tonearm_world::Kind;

/// Milliseconds of a sector on a bus of 160 MB/s.
const ULTRA160_MS: f64 = 0.0032;

/// The drive as the paper has it: the file of the Atlas 10K has the slow bus of its validation trace, on which a segment
/// of 512 KB takes 107 ms; the paper's takes 27.3 ms.
pub fn paper_drive(drive: &DriveFile) -> DriveFile {
    let mut drive = drive.clone();
    if drive.name == "atlas10k"
        && let Some(disk) = &mut drive.spec.disk
    {
        (disk.bus.read_sector_ms, disk.bus.write_sector_ms) = (ULTRA160_MS, ULTRA160_MS);
    }
    drive
}

/// Mean time of `ios` writes of `bytes` at random places of a drive of its own.
pub fn service_ms(spec: &DriveSpec, bytes: u32, ios: u64, seed: u64) -> f64 {
    let options = DriveOptions {
        write_cache: Some(false),
        ..DriveOptions::default()
    };
    let drive = Drive::new(spec, &options);
    let sectors = bytes / 512;
    let places = drive.sectors() / u64::from(sectors);
    let mut user = ClosedLoop::new(drive);
    let mut random = Random::new(seed, 0);
    let nanos: u64 = (0..ios)
        .map(|_| {
            let place = random.below(places) * u64::from(sectors);
            user.serve(Kind::Write, place, sectors).0
        })
        .sum();
    nanos as f64 / ios as f64 / 1e6
}

/// Uniformly random updates without an end.
pub fn updates(pages: u64, seed: u64) -> SkewedPages {
    SkewedPages::new(&SkewOptions {
        pages,
        accesses: u64::MAX,
        write_share: 1.0,
        reads: Skew::Uniform,
        writes: Skew::Uniform,
        seed,
    })
}

/// The steady state of `setup` under `workload`, with `write_share` of writes.
pub fn steady<W: Workload>(
    context: &Context<'_>,
    setup: &Setup,
    workload: W,
    write_share: f64,
) -> Steady {
    let mut simulation = Simulation::new(setup, workload).expect("a setup that works");
    let full = Band::new(setup.pages, write_share);
    let band = match context.is_full() {
        true => full,
        false => Band {
            width: 0.05,
            most: 24,
            ..full
        },
    };
    simulation
        .steady(&band)
        .expect("a generated workload goes on")
}
