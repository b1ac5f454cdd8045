//! A log as in the paper on the Disk Mimic (Disk Mimic 4.1): all of a region is free, and each write goes somewhere
//! after the previous one.

use super::rig::Rig;
use super::times::Times;
use crate::experiment::Random;
use tonearm_base::Nanos;
use tonearm_head::{Head, Span};

/// The writes of a run, and other events between them.
#[derive(Clone, Copy, Debug)]
pub struct Writes {
    /// Sectors of the largest request. All multiples of 4 KiB up to it occur.
    pub sectors_max: u32,
    /// Think times are from 0 up to this.
    pub think_max: Nanos,
    /// Share of the writes that follow a read elsewhere on the drive.
    pub reads: f64,
    /// Writes that are not measured, in the beginning.
    pub warm_up: u64,
    /// Time without requests after them.
    pub idle: Nanos,
    /// Writes that are measured.
    pub count: u64,
}

/// The results of a run.
#[derive(Clone, Default)]
pub struct Lost {
    /// Response times.
    pub times: Times,
    /// Mean loss of a write against the least time that the drive could have given at that moment, in ms.
    pub mean_ms: f64,
    /// The same of the writes in the beginning.
    pub cold_ms: f64,
    /// Bytes of memory of the predictor at the end.
    pub bytes: usize,
}

/// Space for the largest write and one and a half revolutions of any drive, in sectors.
const ROOM: u64 = 16_384;

/// Writes on `rig` within `region`, at the places that `head` gives.
///
/// # Panics
/// When `head` finds no place.
pub fn write_log(
    rig: &mut Rig,
    head: &mut dyn Head,
    region: Span,
    writes: &Writes,
    seed: u64,
) -> Lost {
    let mut random = Random::new(seed, 4);
    let mut lost = Lost::default();
    let mut free = region;
    let all = rig.sectors();
    for number in 0..writes.warm_up + writes.count {
        if number == writes.warm_up {
            rig.think(writes.idle);
        }
        rig.think(Nanos(random.below(writes.think_max.0 + 1)));
        if random.unit() < writes.reads {
            let read = rig.read(random.below(all - 8), 8);
            head.read(&read);
        }
        let sectors = 8 * (1 + random.below(u64::from(writes.sectors_max / 8)) as u32);
        if free.len() < ROOM {
            free = region;
        }
        let least = rig.least_write(free, sectors);
        let place = head.place(rig.now(), sectors, &[free]);
        let first = place.expect("there is room").sector;
        let write = rig.write(first, sectors);
        head.written(&write);
        free.start = write.end();
        let took = write.done.since(write.sent);
        let loss = took.since(least).0 as f64 / 1e6;
        if number < writes.warm_up {
            lost.cold_ms += loss / writes.warm_up as f64;
        } else {
            lost.mean_ms += loss / writes.count as f64;
            lost.times.push(took);
        }
    }
    lost.bytes = head.memory_bytes();
    lost
}
