//! A drive in closed form for tests: a platter, a head, and times that are added. Small grids and profiles.

use crate::{Access, Cell, Grid, Profile, Steps, Track, TrackMap, TrackRun};
use tonearm_base::Nanos;

/// 40 tracks of 100 sectors, four to a cylinder, that turn in 10 ms, so a sector takes 0.1 ms. The next track is 8
/// sectors on, the next cylinder 15. A command takes 0.25 ms before its transfer and 0.1 ms after it, a read 0.3 ms
/// more after it. A move to another track takes 0.7 ms.
pub struct Platter {
    pub map: TrackMap,
    pub now: Nanos,
    track: Option<u64>,
}

pub const TURN: Nanos = Nanos::from_millis(10);
pub const BEFORE: u64 = 250_000;
pub const AFTER: u64 = 100_000;
pub const READ_LAG: u64 = 300_000;
pub const MOVE: u64 = 700_000;

/// An angle of so many hundredths of a revolution.
pub fn hundredths(number: u64) -> u32 {
    ((number << 32) / 100) as u32
}

impl Platter {
    pub fn new() -> Self {
        let run = TrackRun {
            first: 1_000,
            tracks: 40,
            sectors: 100,
            turn_sectors: 100,
            angle: hundredths(30),
            group: 4,
            at: 0,
            short: 10,
            track_skew: hundredths(8),
            cylinder_skew: hundredths(15),
        };
        Self {
            map: TrackMap::new(vec![run]).unwrap(),
            now: Nanos(1_234_567),
            track: None,
        }
    }

    pub fn track(&self, index: u64) -> Track {
        self.map.track(index)
    }

    pub fn write(&mut self, first: u64, sectors: u32) -> Access {
        self.serve(first, sectors, AFTER)
    }

    pub fn read(&mut self, first: u64, sectors: u32) -> Access {
        self.serve(first, sectors, AFTER + READ_LAG)
    }

    fn serve(&mut self, first: u64, sectors: u32, after: u64) -> Access {
        let sent = self.now;
        let track = self.map.find(first).unwrap();
        assert!(first + u64::from(sectors) <= track.end());
        let mut at = sent.0 + BEFORE;
        if self.track.is_some_and(|before| before != track.index) {
            at += MOVE;
        }
        self.track = Some(track.index);
        let angle = ((u128::from(at % TURN.0) << 32) / u128::from(TURN.0)) as u32;
        let ahead = track.angle_of(first).wrapping_sub(angle);
        at += (u64::from(ahead) * TURN.0) >> 32;
        at += u64::from(sectors) * TURN.0 / 100;
        let done = Nanos(at + after);
        self.now = done;
        Access {
            first,
            sectors,
            sent,
            done,
        }
    }

    pub fn think(&mut self, nanos: u64) {
        self.now.0 += nanos;
    }
}

pub fn steps(first: u64, step: u64, count: u32) -> Steps {
    Steps { first, step, count }
}

/// Three sizes, twelve think times and eight skips.
pub fn grid() -> Grid {
    Grid {
        sizes: steps(4, 4, 3),
        thinks: steps(0, 1_000_000, 12),
        skips: steps(0, 5, 8),
        samples: 3,
        turn: Some(TURN),
    }
}

/// A profile with one size, `thinks` think times and five skips (0, 10, .. 40), filled by `sample` (think
/// time, skip, number: microseconds).
pub fn profile(thinks: u32, sample: impl Fn(usize, usize, usize) -> u64) -> Profile {
    let grid = Grid {
        sizes: steps(8, 8, 1),
        thinks: steps(0, 100_000, thinks),
        skips: steps(0, 10, 5),
        samples: 10,
        turn: None,
    };
    let mut profile = Profile::new(grid).unwrap();
    for think in 0..thinks as usize {
        for skip in 0..5 {
            for number in 0..10 {
                let cell = Cell {
                    size: 0,
                    think,
                    skip,
                };
                profile.add_sample(cell, Nanos::from_micros(sample(think, skip, number)));
            }
        }
    }
    profile
}
