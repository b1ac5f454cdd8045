//! The full Disk Mimic table: the best skip for each size and think time (Disk Mimic 2.2).

use crate::mimic::SkipModel;
use crate::policy::Choices;
use crate::profile::{Grid, ProfileError};

/// One skip for each point, two bytes each.
#[derive(Clone, Debug)]
pub struct Table {
    grid: Grid,
    /// Places of the skips on their axis, by size and think time.
    skips: Vec<u16>,
}

impl Table {
    /// The best skips of `choices`.
    pub fn new(choices: &Choices) -> Self {
        let grid = *choices.grid();
        let rows = (0..grid.sizes.len()).flat_map(|size| choices.of_size(size));
        Self {
            grid,
            skips: rows.map(|choice| choice.best as u16).collect(),
        }
    }

    /// The table on `grid` with these places on the axis of skips, by size and then by think time.
    ///
    /// # Errors
    /// When the grid makes no sense, or they are not one for each point, or not on the axis.
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

    /// Places on the axis of skips, by size and then by think time.
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
