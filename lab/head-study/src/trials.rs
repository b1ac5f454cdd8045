//! The plan of the measurement of a profile, for any drive: which write to send next, and when.
//!
//! In each row (one request size, one think time) all skips are tried. Each write is the reference of the next one.
//! This is repeated until each point has its samples. Each row of each pass begins with an unmeasured write at a random
//! place, because otherwise all samples of a point would have the same distance from the end of a track.

use tonearm_base::Nanos;
use tonearm_head::{Access, Cell, Grid, Profile, Span, Steps};

/// The range has too few sectors for the grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{have} sectors are too few to take a profile on; this grid needs {need}")]
pub struct TooFewSectors {
    /// Sectors of the range.
    pub have: u64,
    /// Sectors that the grid needs.
    pub need: u64,
}

/// A write to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trial {
    /// Time from the end of the previous write to the sending of this one.
    pub think: Nanos,
    /// First sector.
    pub first: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// The measured point; `None` when the write only moves the head to a new place.
    pub cell: Option<Cell>,
}

/// A profile that is being taken.
#[derive(Clone, Debug)]
pub struct Trials {
    profile: Profile,
    range: Span,
    seed: u64,
    /// Samples that all points before the cursor have.
    pass: u8,
    /// Number of the next point to be measured.
    cursor: usize,
    /// The reference of the next write; `None` when a new place is due.
    last: Option<(u64, Nanos)>,
    taken: u64,
    late: u64,
}

impl Trials {
    /// The plan that completes `profile` (empty, or measured in part) by writes within `range`, all of which may be
    /// overwritten. The same `seed` gives the same places.
    ///
    /// # Errors
    /// When the range has no space for two of the largest requests and the largest skip.
    pub fn new(profile: Profile, range: Span, seed: u64) -> Result<Self, TooFewSectors> {
        let grid = profile.grid();
        let need = 2 * grid.sizes.last() + grid.skips.last() + 1;
        if range.len() < need {
            let have = range.len();
            return Err(TooFewSectors { have, need });
        }
        let taken = profile.taken();
        let mut trials = Self {
            profile,
            range,
            seed,
            pass: 1,
            cursor: 0,
            last: None,
            taken,
            late: 0,
        };
        trials.find_due();
        Ok(trials)
    }

    /// The next write; `None` when all is done. It stays the same until it is [done](Self::done).
    pub fn trial(&self) -> Option<Trial> {
        let grid = self.profile.grid();
        if self.pass > grid.samples {
            return None;
        }
        let cell = grid.cell(self.cursor);
        let sectors = grid.sizes.at(cell.size) as u32;
        let trial = match self.last {
            Some((end, _)) => Trial {
                think: Nanos(grid.thinks.at(cell.think)),
                first: end + grid.skips.at(cell.skip),
                sectors,
                cell: Some(cell),
            },
            None => Trial {
                think: Nanos(0),
                first: self.anchor(sectors),
                sectors,
                cell: None,
            },
        };
        Some(trial)
    }

    /// Notes that the write of [`Self::trial`] is done. Its sample counts unless its think time differs by more than
    /// half a step of the grid from the planned one; then it is planned again. If a caller's timer is not exact enough,
    /// only [`Self::late`] grows. Such a caller should give up or use a coarser grid.
    pub fn done(&mut self, access: &Access) {
        let Some(trial) = self.trial() else { return };
        let mut chained = true;
        if let (Some(cell), Some((_, before))) = (trial.cell, self.last) {
            let think = access.sent.since(before);
            if think.0.abs_diff(trial.think.0) > self.profile.grid().thinks.step.div_ceil(2) {
                self.late += 1;
                chained = false;
            } else {
                self.profile
                    .add_sample(cell, access.done.since(access.sent));
                self.taken += 1;
                let row = self.row();
                self.find_due();
                chained = row == self.row();
            }
        }
        self.last = chained.then_some((access.end(), access.done));
        if self
            .trial()
            .is_some_and(|next| !self.range.holds(next.first, next.sectors))
        {
            self.last = None;
        }
    }

    /// Samples taken, and samples that there will be.
    pub fn progress(&self) -> (u64, u64) {
        (self.taken, self.profile.total())
    }

    /// Writes that were sent at another time than planned and were not counted.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The profile with the samples so far.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The same, at the end.
    pub fn into_profile(self) -> Profile {
        self.profile
    }

    fn row(&self) -> (u8, usize) {
        (self.pass, self.cursor / self.profile.grid().skips.len())
    }

    /// Moves the cursor to the next point that lacks a sample of this pass or a later one.
    fn find_due(&mut self) {
        let grid = *self.profile.grid();
        while self.pass <= grid.samples {
            let lacks = |index: &usize| {
                self.profile.samples(grid.cell(*index)).len() < usize::from(self.pass)
            };
            if let Some(due) = (self.cursor..grid.cells()).find(lacks) {
                self.cursor = due;
                return;
            }
            self.cursor = 0;
            self.pass += 1;
        }
    }

    /// A random place, with space after it for the first skip and its write.
    fn anchor(&self, sectors: u32) -> u64 {
        let grid = self.profile.grid();
        let room = self.range.len() - 2 * u64::from(sectors) - grid.skips.last();
        let number = self.taken + (self.late << 40);
        self.range.start + mix(self.seed ^ mix(number)) % room
    }
}

/// The grid of Disk Mimic 4.1: requests of 4 to 200 KB by 4 KB, think times of 0 to 9 ms by 0.1 ms (more on a slower
/// drive, so that they cover a revolution of `turn`), 25 samples. The paper does not give its skips. Here they are
/// multiples of `skip_step` sectors up to slightly more than the `turn_sectors` of a revolution. With skips by 4 KB the
/// measurement of a real drive takes two days, an hour for each size.
pub fn paper_grid(turn: Nanos, turn_sectors: u32, skip_step: u32) -> Grid {
    let skips = turn_sectors + turn_sectors / 16;
    let thinks = turn.0.div_ceil(100_000) + 1;
    Grid {
        sizes: Steps {
            first: 8,
            step: 8,
            count: 50,
        },
        thinks: Steps {
            first: 0,
            step: 100_000,
            count: thinks.clamp(91, 65_535) as u32,
        },
        skips: Steps {
            first: 0,
            step: u64::from(skip_step),
            count: skips / skip_step + 1,
        },
        samples: 25,
        turn: Some(turn),
    }
}

/// SplitMix64: turns consecutive numbers into pseudorandom ones.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
#[path = "trials_test.rs"]
mod trials_test;
