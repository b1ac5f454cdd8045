//! Logs that write each record right after the last one, without a head predictor.

use super::load::{Load, Processes};
use super::rig::Rig;
use super::times::Times;
use crate::experiment::Random;
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;

/// Sectors of a block of a file system.
const BLOCK: u32 = 8;

/// A ring of sectors that is written from one end to the other.
struct Ring {
    rig: Rig,
    next: u64,
    end: u64,
    random: Random,
}

impl Ring {
    fn new(drive: &DriveFile, seed: u64, size: u64) -> Self {
        let mut rig = Rig::new(drive, seed);
        let end = size.min(rig.sectors());
        Self {
            rig,
            next: 0,
            end,
            random: Random::new(seed, 5),
        }
    }

    fn write(&mut self, sectors: u32) -> Nanos {
        if self.next + u64::from(sectors) > self.end {
            self.next = 0;
        }
        let access = self.rig.write(self.next, sectors);
        self.next += u64::from(sectors);
        access.done
    }
}

/// A journal as in the paper on Trail (1, Introduction): a descriptor block, the data and a commit block. Each is sent
/// when the previous one is on the medium.
pub fn journal(drive: &DriveFile, load: &Load, ring: u64, seed: u64) -> Times {
    let mut ring = Ring::new(drive, seed, ring);
    let data = load.sectors.next_multiple_of(BLOCK);
    run(load, &mut ring, false, |ring, _| {
        ring.write(BLOCK);
        ring.write(data);
        ring.write(BLOCK)
    })
}

/// Records (header and data in one write) one after the other, for one process at a time.
pub fn sequential(drive: &DriveFile, load: &Load, ring: u64, seed: u64) -> Times {
    let mut ring = Ring::new(drive, seed, ring);
    run(load, &mut ring, false, |ring, _| {
        ring.write(1 + load.sectors)
    })
}

/// The same, with all waiting writes in one record.
pub fn group_commit(drive: &DriveFile, load: &Load, ring: u64, seed: u64) -> Times {
    let mut ring = Ring::new(drive, seed, ring);
    run(load, &mut ring, true, |ring, waiting| {
        ring.write(1 + waiting * load.sectors)
    })
}

/// Serves `load`. `write` makes the writes of so many processes durable and returns when they are.
fn run(
    load: &Load,
    ring: &mut Ring,
    together: bool,
    mut write: impl FnMut(&mut Ring, u32) -> Nanos,
) -> Times {
    let mut processes = Processes::new(load.processes, Nanos(0));
    let mut times = Times::default();
    let mut written = 0;
    while written < load.warm_up + load.writes {
        ring.rig.wait_until(processes.next());
        let mut waiting = processes.waiting(ring.rig.now());
        if !together {
            waiting.truncate(1);
        }
        let done = write(ring, waiting.len() as u32);
        for (arrival, process) in waiting {
            if written >= load.warm_up {
                times.push(Nanos(done.0 - arrival.0));
            }
            written += 1;
            processes.again(process, load.arrivals.after(done, &mut ring.random));
        }
    }
    times
}
