//! Coarse Segments: a thinned table with straight lines between its points (Disk Mimic 4.2).

use crate::policy::Choices;
use tonearm_head::Grid;
use tonearm_head::SkipModel;

/// The best skip at some evenly spaced think times, for each size.
#[derive(Clone, Debug)]
pub struct Coarse {
    grid: Grid,
    /// Points of each size.
    points: usize,
    /// Indexes of the skips on their axis, by size and point.
    skips: Vec<u16>,
}

impl Coarse {
    /// The best skips of `choices` at `points` think times for each size, including the first and the last one. There
    /// are at least 2 points. The paper stores a third of the table.
    pub fn new(choices: &Choices, points: usize) -> Self {
        let grid = *choices.grid();
        let points = points.max(2).min(grid.thinks.len());
        let mut skips = Vec::with_capacity(points * grid.sizes.len());
        for size in 0..grid.sizes.len() {
            let row = choices.of_size(size);
            skips.extend((0..points).map(|point| row[think_of(&grid, points, point)].best as u16));
        }
        Self {
            grid,
            points,
            skips,
        }
    }
}

/// Think time, by its place, of `point`.
fn think_of(grid: &Grid, points: usize, point: usize) -> usize {
    point * (grid.thinks.len() - 1) / (points - 1).max(1)
}

impl SkipModel for Coarse {
    fn name(&self) -> &'static str {
        "coarse"
    }

    fn skip(&self, size: usize, think: usize) -> u32 {
        let of_size = &self.skips[size * self.points..(size + 1) * self.points];
        let thinks = self.grid.thinks.len();
        // The last point at or before the think time.
        let mut point = (think * (self.points - 1)) / (thinks - 1).max(1);
        while point + 1 < self.points && think_of(&self.grid, self.points, point + 1) <= think {
            point += 1;
        }
        let skip_at = |point: usize| self.grid.skips.at(usize::from(of_size[point])) as i64;
        let from = think_of(&self.grid, self.points, point);
        if think == from || point + 1 == self.points {
            return skip_at(point) as u32;
        }
        let to = think_of(&self.grid, self.points, point + 1);
        let (low, high) = (skip_at(point), skip_at(point + 1));
        let along = (high - low) * (think - from) as i64;
        (low + along.div_euclid((to - from) as i64)) as u32
    }

    fn stored_bytes(&self) -> usize {
        size_of_val(&self.skips[..])
    }
}
