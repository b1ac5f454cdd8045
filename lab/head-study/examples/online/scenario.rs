//! Closed loops of a log on a simulated drive.

use crate::table::{THINKS, Table};
use crate::world::{Random, World};
use tonearm_base::Nanos;
use tonearm_drive::Drift;
use tonearm_drive_file::DriveSpec;
use tonearm_head::{Access, Head, Online, Span};

/// The predictor that places the writes.
pub enum Who {
    Table(Table),
    Online(Box<Online>),
}

/// The writes of a run, and other events in it.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// 4-KB writes instead of 4 to 200 KB.
    pub small: bool,
    pub warm: usize,
    pub writes: usize,
    /// The host notices completions late, by some microseconds and rarely by a millisecond.
    pub noise: bool,
    /// A read at a random place before every third write.
    pub reads: bool,
    /// Idle time between warm-up and measurement, in seconds.
    pub idle_s: u64,
    pub drift: Option<Drift>,
    /// Tracks are used up to 30 % each (needs the map).
    pub trail: bool,
    pub seed: u64,
}

impl Load {
    pub fn new(small: bool) -> Self {
        Self {
            small,
            warm: 300,
            writes: 3000,
            noise: false,
            reads: false,
            idle_s: 0,
            drift: None,
            trail: false,
            seed: 5,
        }
    }
}

/// Means in milliseconds, unless a field says otherwise.
#[derive(Clone, Copy, Default, Debug)]
pub struct Score {
    /// Response less the least possible one.
    pub loss: f64,
    /// The same of the warm-up.
    pub warm: f64,
    pub response: f64,
    /// Writes in a thousand that lost more than 0.6 of a revolution.
    pub misses: f64,
    /// Microseconds of the processor for each write: `place` and `written`.
    pub micros: f64,
    pub place_micros: f64,
    pub bytes: usize,
}

/// The end of the region of the log: 500 MB, or the drive's.
pub fn region(sectors: u64) -> u64 {
    sectors.min(1_024_000)
}

/// Runs `load` on the drive of `spec`. `tracks` are the true tracks, for the setting of Trail.
pub fn run(spec: &DriveSpec, who: &mut Who, load: &Load, tracks: &[(u64, u64)]) -> Score {
    let mut world = World::new(spec, load.seed, load.drift);
    let end = region(world.sectors());
    let mut random = Random(load.seed * 77 + 9);
    let disk = spec.disk.as_ref().expect("a mechanical drive");
    let period = 60e9 / disk.rotation.rpm;
    let mut score = Score::default();
    let (mut placing, mut learning) = (std::time::Duration::ZERO, std::time::Duration::ZERO);
    let mut last_end = 100_u64;
    let (mut track, mut used) = (1_usize, 0_u64);
    for k in 0..load.writes + load.warm {
        let size = if load.small {
            0
        } else {
            random.below(50) as usize
        };
        let think = random.below(THINKS as u64) as usize;
        let sectors = 8 * (size as u32 + 1);
        if k == load.warm {
            world.now += load.idle_s * 1_000_000_000;
        }
        world.now += think as u64 * 100_000;
        if load.reads && k.is_multiple_of(3) {
            let first = random.below(world.sectors() - 8);
            let sent = Nanos(world.now);
            world.read(first, 8);
            if let Who::Online(online) = who {
                let done = Nanos(world.now);
                online.read(&Access {
                    first,
                    sectors: 8,
                    sent,
                    done,
                });
            }
        }
        let room = 3 * u64::from(world.track_sectors(last_end)) + 1024;
        if last_end + room > end {
            last_end = 0;
        }
        let mut free = vec![Span {
            start: last_end,
            end,
        }];
        if load.trail {
            let (first, behind) = tracks[track];
            if used * 10 > (behind - first) * 3 || last_end + u64::from(sectors) > behind {
                track = (track + 1) % (tracks.len() - 2);
                used = 0;
                last_end = tracks[track].0;
            }
            let (first, behind) = tracks[track];
            // First the part behind the last write, then the part before it is free. No part is used twice.
            free = vec![Span {
                start: last_end.max(first),
                end: behind,
            }];
            used += u64::from(sectors);
        }
        let limit = free[0].end;
        let least = world.least(free[0].start, limit, sectors);
        let sent = world.now;
        let sector = match who {
            Who::Table(table) => free[0].start + table.skip(size, think),
            Who::Online(online) => {
                let start = std::time::Instant::now();
                let place = online.place(Nanos(sent), sectors, &free);
                placing += start.elapsed();
                place.expect("there is room").sector
            }
        };
        if load.noise && random.below(1000) == 0 {
            world.now += 1_000_000;
        }
        let response = world.write(sector, sectors);
        let lost = response.saturating_sub(least) as f64;
        if load.noise {
            world.now += (15_000.0 + 7_000.0 * random.normal()).max(3_000.0) as u64;
            if random.below(1000) == 0 {
                world.now += 1_000_000;
            }
        }
        if let Who::Online(online) = who {
            let start = std::time::Instant::now();
            let done = Nanos(world.now);
            online.written(&Access {
                first: sector,
                sectors,
                sent: Nanos(sent),
                done,
            });
            learning += start.elapsed();
        }
        last_end = sector + u64::from(sectors);
        score.bytes = score.bytes.max(match who {
            Who::Table(table) => table.memory_bytes(),
            Who::Online(online) => online.memory_bytes(),
        });
        if k < load.warm {
            score.warm += lost / 1e6 / load.warm as f64;
            continue;
        }
        let share = 1.0 / load.writes as f64;
        score.loss += lost / 1e6 * share;
        score.response += response as f64 / 1e6 * share;
        if lost > period * 0.6 {
            score.misses += 1000.0 * share;
        }
    }
    let count = (load.writes + load.warm) as f64;
    score.place_micros = placing.as_secs_f64() * 1e6 / count;
    score.micros = (placing + learning).as_secs_f64() * 1e6 / count;
    score
}
