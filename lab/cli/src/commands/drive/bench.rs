//! `tonearm-lab drive bench`: how many requests the simulation serves in a second of processor time.

use super::switched::{scheduler, switch_on};
use super::times::cpu_seconds;
use crate::cli::BenchDrive;
use anyhow::bail;
use serde::Serialize;
use std::process::ExitCode;
use tonearm_base::Nanos;
use tonearm_drive::Drive;
use tonearm_drive_file::{DriveFile, Scheduler};
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::report;
use tonearm_world::{Done, DriveRequest, Kind, Timing};

/// Sectors of a request: 4 KiB.
const SECTORS: u32 = 8;
/// Depth at which a scheduler has a choice.
const DEPTH: u32 = 32;
/// Requests between two looks at the wall clock.
const PART: u64 = 1 << 18;

#[derive(Serialize)]
struct Report {
    drive: String,
    requests: u64,
    depth: u32,
    scheduler: Option<String>,
    reads_percent: u32,
    seed: u64,
    requests_per_cpu_second: f64,
    cpu_seconds: f64,
    virtual_seconds: f64,
    mean_response_ms: f64,
    requests_per_virtual_second: f64,
}

/// Measures.
///
/// # Errors
/// When there is no such drive, or it is too small.
pub fn run(arguments: &BenchDrive) -> anyhow::Result<ExitCode> {
    let how = &arguments.drive;
    let file = DriveFile::find(&how.drive)?;
    let mut drive = switch_on(&file, how);
    let places = drive.sectors() / u64::from(SECTORS);
    if places == 0 {
        bail!("{} has no room for a request of 4 KiB", file.name);
    }
    let scheduler = scheduler(&file, how);
    let depth = arguments.depth.unwrap_or(match scheduler {
        Some(Scheduler::Fcfs) => 1,
        Some(_) | None => DEPTH,
    });
    let mut load = Load {
        random: how.seed,
        places,
        reads_percent: arguments.reads,
        issued: vec![Nanos(0); depth as usize],
        response_ns: 0,
        end: Nanos(0),
    };
    let started = cpu_seconds();
    load.run(&mut drive, arguments.requests)?;
    let cpu_seconds = cpu_seconds() - started;
    let virtual_seconds = load.end.0 as f64 / 1e9;
    let requests = arguments.requests as f64;
    let report = Report {
        drive: file.name.clone(),
        requests: arguments.requests,
        depth,
        scheduler: scheduler.map(|scheduler| scheduler.to_string()),
        reads_percent: arguments.reads,
        seed: how.seed,
        requests_per_cpu_second: requests / cpu_seconds.max(1e-9),
        cpu_seconds,
        virtual_seconds,
        mean_response_ms: load.response_ns as f64 / 1e6 / requests,
        requests_per_virtual_second: requests / virtual_seconds.max(1e-9),
    };
    if arguments.json {
        report::json(&report)?;
    } else {
        show(&report)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A closed loop of random requests.
struct Load {
    random: u64,
    places: u64,
    reads_percent: u32,
    /// When each of the requests under way was issued.
    issued: Vec<Nanos>,
    /// Sum of all response times.
    response_ns: u128,
    end: Nanos,
}

impl Load {
    fn run(&mut self, drive: &mut Drive, requests: u64) -> anyhow::Result<()> {
        let mut bar = Progress::new("simulating", Unit::Count);
        let mut left = requests;
        let mut under_way = 0u64;
        for id in 0..self.issued.len() as u64 {
            if left > 0 {
                left -= 1;
                under_way += 1;
                self.submit(drive, Nanos(0), id);
            }
        }
        let mut done: Vec<Done> = Vec::new();
        while under_way > 0 {
            let Some(next) = drive.next() else {
                bail!("the model of the drive has lost a request; please report this");
            };
            drive.advance(next, &mut done);
            for Done { id, at } in done.drain(..) {
                under_way -= 1;
                self.response_ns += u128::from(at.since(self.issued[id as usize]).0);
                self.end = at;
                if left > 0 {
                    left -= 1;
                    under_way += 1;
                    self.submit(drive, at, id);
                    if left.is_multiple_of(PART) {
                        bar.at(requests - left, requests);
                    }
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn submit(&mut self, drive: &mut Drive, now: Nanos, id: u64) {
        let random = next_random(&mut self.random);
        // The high half chooses the place, the low half the operation.
        let place = (u128::from(random) * u128::from(self.places)) >> 64;
        let read = self.reads_percent == 100
            || (random & 0xffff_ffff) * 100 < u64::from(self.reads_percent) << 32;
        self.issued[id as usize] = now;
        let request = DriveRequest {
            id,
            kind: if read { Kind::Read } else { Kind::Write },
            fua: false,
            lba: place as u64 * u64::from(SECTORS),
            sectors: SECTORS,
        };
        drive.submit(now, request);
    }
}

fn show(report: &Report) -> anyhow::Result<()> {
    let scheduler = report.scheduler.as_deref().unwrap_or("none");
    let rows = [
        ("drive", report.drive.clone()),
        (
            "load",
            format!(
                "{} random requests of 4 KiB, {} % reads, depth {}, {scheduler}",
                report::count(report.requests),
                report.reads_percent,
                report.depth
            ),
        ),
        (
            "simulated",
            format!(
                "{} requests per CPU-second ({:.3} s)",
                report::count(report.requests_per_cpu_second as u64),
                report.cpu_seconds
            ),
        ),
        (
            "the drive",
            format!(
                "{:.1} requests/s, mean response {:.3} ms ({:.0} s of its time)",
                report.requests_per_virtual_second, report.mean_response_ms, report.virtual_seconds
            ),
        ),
    ];
    Ok(report::line(report::pairs(rows))?)
}

/// SplitMix64 (Steele, Lea, Flood 2014).
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
