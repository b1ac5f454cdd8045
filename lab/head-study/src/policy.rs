//! Which skips are acceptable: the servicing policies of Disk Mimic 3.1.

use crate::skip_set::SkipSet;
use tonearm_base::Nanos;
use tonearm_head::{Cell, Grid, Profile, ProfileError, Table};

/// A servicing policy. It computes a cost of every skip from its samples, and a limit of acceptable costs. The best
/// skip is that with the least cost, and is always acceptable.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Policy {
    /// Least service time, at the risk of an extra revolution. The cost is a bound that at least this share of the
    /// samples keeps. The limit is the least of all samples at this size and think time, plus [`CLOSE`].
    Aggressive {
        /// Share of the requests that are served in nearly the least time, above 0 and up to 1.
        majority: f64,
    },
    /// The cost is the greatest sample.
    Defensive {
        /// Limit.
        bound: Nanos,
    },
    /// The cost is the mean; the limit is this much above the least mean.
    AverageLimit {
        /// By how much a mean may be longer than the best.
        tolerance: Nanos,
    },
}

/// The meaning of "very close" to the least service time: the paper's step of think times, the resolution of its
/// profile.
pub const CLOSE: Nanos = Nanos::from_micros(100);

/// The skips of one request size and think time, under a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Place of the best skip on the grid.
    pub best: usize,
    /// The candidate set: indexes of all acceptable skips, including the best one.
    pub acceptable: SkipSet,
    /// Cost of each skip, in nanoseconds; `u32::MAX` for one without samples.
    pub costs: Vec<u32>,
}

/// The choices at all sizes and think times of a profile, from which every table-based predictor is built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choices {
    grid: Grid,
    rows: Vec<Choice>,
}

impl Choices {
    /// The choices of `profile` under `policy`.
    ///
    /// # Errors
    /// When there is a size and think time without a sample.
    pub fn new(profile: &Profile, policy: Policy) -> Result<Self, ProfileError> {
        let grid = *profile.grid();
        let mut rows = Vec::with_capacity(grid.rows());
        for size in 0..grid.sizes.len() {
            for think in 0..grid.thinks.len() {
                let row = policy
                    .choose(profile, size, think)
                    .ok_or(ProfileError::Incomplete {
                        sectors: grid.sizes.at(size),
                        think_ns: grid.thinks.at(think),
                    })?;
                rows.push(row);
            }
        }
        Ok(Self { grid, rows })
    }

    /// The points of the profile.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The choice at a size and a think time, given by their indexes.
    pub fn at(&self, size: usize, think: usize) -> &Choice {
        &self.rows[self.grid.row(size, think)]
    }

    /// The choices of one size, by think time.
    pub fn of_size(&self, size: usize) -> &[Choice] {
        let thinks = self.grid.thinks.len();
        &self.rows[size * thinks..(size + 1) * thinks]
    }

    /// The full table of the best skips (Disk Mimic 2.2).
    ///
    /// # Panics
    /// Never: each best skip is on the grid.
    pub fn table(&self) -> Table {
        let skips = self.rows.iter().map(|row| row.best as u16).collect();
        Table::of_skips(self.grid, skips).expect("best skips are on the grid")
    }

    /// For tests of what is made from them.
    #[cfg(test)]
    pub(crate) fn from_rows(grid: Grid, rows: Vec<Choice>) -> Self {
        Self { grid, rows }
    }
}

impl Policy {
    /// The choice at a size and a think time, given by their indexes; `None` without any sample.
    pub fn choose(self, profile: &Profile, size: usize, think: usize) -> Option<Choice> {
        let skips = profile.grid().skips.len();
        let samples = |skip| profile.samples(Cell { size, think, skip });
        let costs: Vec<u32> = (0..skips).map(|skip| self.cost(samples(skip))).collect();
        let (best, least) = (costs.iter().copied().enumerate()).min_by_key(|(_, cost)| *cost)?;
        if least == u32::MAX {
            return None;
        }
        let limit = match self {
            Self::Aggressive { .. } => {
                let fastest = (0..skips)
                    .flat_map(|skip| samples(skip).iter().copied())
                    .min();
                u64::from(fastest?) * 1_000 + CLOSE.0
            }
            Self::Defensive { bound } => bound.0,
            Self::AverageLimit { tolerance } => u64::from(least) + tolerance.0,
        };
        let good = |skip: &usize| {
            let cost = costs[*skip];
            *skip == best || (cost != u32::MAX && u64::from(cost) <= limit)
        };
        let acceptable = SkipSet::of(skips, (0..skips).filter(good));
        Some(Choice {
            best,
            acceptable,
            costs,
        })
    }

    /// Cost of a skip with these `samples` (microseconds), in nanoseconds.
    fn cost(self, samples: &[u16]) -> u32 {
        if samples.is_empty() {
            return u32::MAX;
        }
        let count = samples.len();
        match self {
            Self::Aggressive { majority } => {
                let mut sorted = samples.to_vec();
                sorted.sort_unstable();
                let needed = (majority * count as f64).ceil() as usize;
                u32::from(sorted[needed.clamp(1, count) - 1]) * 1_000
            }
            Self::Defensive { .. } => {
                samples.iter().max().map_or(0, |most| u32::from(*most)) * 1_000
            }
            Self::AverageLimit { .. } => {
                let sum: u64 = samples.iter().map(|micros| u64::from(*micros)).sum();
                (sum * 1_000 / count as u64) as u32
            }
        }
    }
}

#[cfg(test)]
#[path = "policy_test.rs"]
mod policy_test;
