//! The full Disk Mimic table: the best skip for each size and think time (Disk Mimic 2.2).

use crate::mimic::SkipModel;
use crate::profile::{Cell, Grid, Profile, ProfileError};

/// One skip for each point, two bytes each.
#[derive(Clone, Debug)]
pub struct Table {
    grid: Grid,
    /// Indexes of the skips on their axis, by size and think time.
    skips: Vec<u16>,
}

impl Table {
    /// The skips of the least mean response in `profile`.
    ///
    /// # Errors
    /// When there is a size and think time without a sample.
    pub fn best(profile: &Profile) -> Result<Self, ProfileError> {
        let grid = *profile.grid();
        let mut skips = Vec::with_capacity(grid.rows());
        for size in 0..grid.sizes.len() {
            for think in 0..grid.thinks.len() {
                let mean = |skip| profile.mean(Cell { size, think, skip });
                let means = (0..grid.skips.len()).filter_map(|skip| Some((mean(skip)?, skip)));
                let (_, best) = means.min().ok_or(ProfileError::Incomplete {
                    sectors: grid.sizes.at(size),
                    think_ns: grid.thinks.at(think),
                })?;
                skips.push(best as u16);
            }
        }
        Ok(Self { grid, skips })
    }

    /// The table on `grid` with these indexes on the axis of skips, by size and then by think time.
    ///
    /// # Errors
    /// When the grid is invalid, or the indexes are not one for each point or not on the axis.
    pub fn of_skips(grid: Grid, skips: Vec<u16>) -> Result<Self, ProfileError> {
        grid.check()?;
        let beyond = |skip: &u16| usize::from(*skip) >= grid.skips.len();
        if skips.len() != grid.rows() || skips.iter().any(beyond) {
            return Err(ProfileError::File("its table does not fit its grid"));
        }
        Ok(Self { grid, skips })
    }

    /// The grid.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Indexes on the axis of skips, by size and then by think time.
    pub fn skips(&self) -> &[u16] {
        &self.skips
    }
}

impl SkipModel for Table {
    fn name(&self) -> &'static str {
        "mimic"
    }

    fn skip(&self, size: usize, think: usize) -> u32 {
        let index = self.skips[self.grid.row(size, think)];
        self.grid.skips.at(usize::from(index)) as u32
    }

    fn stored_bytes(&self) -> usize {
        size_of_val(&self.skips[..])
    }
}
