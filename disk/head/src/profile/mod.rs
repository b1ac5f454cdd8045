//! Measurements of a drive: response time over request size, think time and skip (Disk Mimic 2.2).
//!
//! All samples are kept, because the policies of service need their mean, their maximum or a quantile. A sample takes
//! two bytes, and a point one: 30 MB for the paper's grid with skips by 4 KB, 0.6 MB for one size.

mod file;
mod grid;

pub use grid::{Cell, Grid, Steps};

use tonearm_base::Nanos;

/// The error of a profile.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProfileError {
    /// The grid cannot be.
    #[error("grid of the profile: {0}")]
    Grid(&'static str),
    /// The bytes are no profile, or a damaged one.
    #[error("profile file: {0}")]
    File(&'static str),
    /// For a pair of size and think time there is no sample.
    #[error(
        "the profile has no sample for requests of {sectors} sectors after {think_ns} ns; take the rest of it first"
    )]
    Incomplete {
        /// Size.
        sectors: u64,
        /// Think time.
        think_ns: u64,
    },
}

/// Samples of the response time at each point of a [`Grid`], in whole microseconds; longer times than 65 ms count as 65
/// ms. It may be filled in any order, and in part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    grid: Grid,
    /// Samples taken at each point.
    counts: Vec<u8>,
    /// Room for `grid.samples` of each point.
    samples: Vec<u16>,
}

impl Profile {
    /// An empty profile.
    ///
    /// # Errors
    /// When the grid is invalid.
    pub fn new(grid: Grid) -> Result<Self, ProfileError> {
        grid.check()?;
        let cells = grid.cells();
        Ok(Self {
            grid,
            counts: vec![0; cells],
            samples: vec![0; cells * usize::from(grid.samples)],
        })
    }

    /// Its points.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Adds a sample. False when `cell` already has all of its samples.
    pub fn add_sample(&mut self, cell: Cell, response: Nanos) -> bool {
        let index = self.grid.index(cell);
        let taken = self.counts[index];
        if taken == self.grid.samples {
            return false;
        }
        let micros = (response.0.saturating_add(500) / 1_000).min(u64::from(u16::MAX));
        self.samples[index * usize::from(self.grid.samples) + usize::from(taken)] = micros as u16;
        self.counts[index] += 1;
        true
    }

    /// The samples at `cell`, in microseconds, in order of arrival.
    pub fn samples(&self, cell: Cell) -> &[u16] {
        self.samples_at(self.grid.index(cell))
    }

    fn samples_at(&self, index: usize) -> &[u16] {
        let first = index * usize::from(self.grid.samples);
        &self.samples[first..first + usize::from(self.counts[index])]
    }

    /// Mean response at `cell`; `None` when there is no sample.
    pub fn mean(&self, cell: Cell) -> Option<Nanos> {
        let samples = self.samples(cell);
        let sum: u64 = samples.iter().map(|micros| u64::from(*micros)).sum();
        (sum * 1_000).checked_div(samples.len() as u64).map(Nanos)
    }

    /// Samples that have been taken.
    pub fn taken(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// Samples that there will be.
    pub fn total(&self) -> u64 {
        self.counts.len() as u64 * u64::from(self.grid.samples)
    }
}

#[cfg(test)]
mod profile_test;
