//! Synchronous writes in place: a seek and half a turn each.

use super::load::Load;
use super::times::Times;
use crate::experiment::Random;
use tonearm_base::Nanos;
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::{DriveFile, Scheduler};
use tonearm_world::{DriveRequest, Kind, Timing};

/// Writes at random places of the whole of `drive`, one of each process at a time. Waiting writes are served in the order of
/// `scheduler`, or in the drive's own.
pub fn in_place(drive: &DriveFile, load: &Load, scheduler: Option<Scheduler>, seed: u64) -> Times {
    let mut random = Random::new(seed, 0);
    let options = DriveOptions {
        seed,
        phase: random.unit(),
        scheduler,
        ..DriveOptions::default()
    };
    let mut disk = Drive::new(&drive.spec, &options);
    let places = disk.sectors() / u64::from(load.sectors);
    let mut times = Times::default();
    // When the present write of each process arrived, or when the next one will.
    let mut arrived = vec![Nanos(0); load.processes as usize];
    let mut coming: Vec<usize> = (0..arrived.len()).collect();
    let mut now = Nanos(0);
    let (mut written, mut done) = (0, Vec::new());
    while written < load.warm_up + load.writes {
        coming.sort_by_key(|process| (arrived[*process], *process));
        let arrival = coming.first().map(|process| arrived[*process]);
        let completion = disk.next();
        if let Some(at) = arrival
            && completion.is_none_or(|completion| at <= completion)
        {
            let process = coming.remove(0);
            now = now.max(at);
            disk.submit(
                now,
                DriveRequest {
                    id: process as u64,
                    kind: Kind::Write,
                    fua: true,
                    lba: random.below(places) * u64::from(load.sectors),
                    sectors: load.sectors,
                },
            );
            continue;
        }
        now = completion.expect("a write comes or one is under way");
        disk.advance(now, &mut done);
        for end in done.drain(..) {
            let process = end.id as usize;
            if written >= load.warm_up {
                times.push(Nanos(end.at.0 - arrived[process].0));
            }
            written += 1;
            arrived[process] = load.arrivals.after(end.at, &mut random);
            coming.push(process);
        }
    }
    times
}
