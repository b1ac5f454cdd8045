//! Line Fitting: one line for each linear segment of the best skip against think time (Disk Mimic 4.2).

use crate::policy::{Choice, Choices};
use tonearm_head::Grid;
use tonearm_head::SkipModel;

/// Lines of best fit, a few for each size.
#[derive(Clone, Debug)]
pub struct LineFit {
    /// Of all sizes, one after the other.
    lines: Vec<Line>,
    /// Number of the first line of each size.
    starts: Vec<u16>,
}

/// Skip in sectors at the first think time, and its growth from one think time to the next.
#[derive(Clone, Copy, Debug)]
struct Line {
    at_first: f32,
    slope: f32,
    first: u16,
}

impl LineFit {
    /// The lines of least squares through the best skips of `choices`. A segment ends where the skip falls by
    /// more than half of the greatest one: there the pattern repeats, a revolution later.
    pub fn new(choices: &Choices) -> Self {
        let grid = *choices.grid();
        let (mut lines, mut starts) = (Vec::new(), Vec::new());
        for size in 0..grid.sizes.len() {
            starts.push(lines.len() as u16);
            let row = choices.of_size(size);
            let most = row.iter().map(|choice| choice.best).max().unwrap_or(0);
            let mut first = 0;
            for think in 1..=row.len() {
                let falls = |choice: &Choice| choice.best + most / 2 < row[think - 1].best;
                if row.get(think).is_none_or(falls) {
                    lines.push(Line::fit(&grid, first, &row[first..think]));
                    first = think;
                }
            }
        }
        Self { lines, starts }
    }
}

impl Line {
    fn fit(grid: &Grid, first: usize, segment: &[Choice]) -> Self {
        let points = || {
            let skip = |choice: &Choice| grid.skips.at(choice.best) as f64;
            (segment.iter().enumerate()).map(move |(x, choice)| (x as f64, skip(choice)))
        };
        let count = segment.len() as f64;
        let (mean_x, mean_y) = points().fold((0.0, 0.0), |(sx, sy), (x, y)| {
            (sx + x / count, sy + y / count)
        });
        let xx: f64 = points().map(|(x, _)| (x - mean_x).powi(2)).sum();
        let xy: f64 = points().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        let slope = if xx > 0.0 { xy / xx } else { 0.0 };
        Self {
            at_first: (mean_y - slope * mean_x) as f32,
            slope: slope as f32,
            first: first as u16,
        }
    }
}

impl SkipModel for LineFit {
    fn name(&self) -> &'static str {
        "line-fit"
    }

    fn skip(&self, size: usize, think: usize) -> u32 {
        let start = usize::from(self.starts[size]);
        let end = self
            .starts
            .get(size + 1)
            .map_or(self.lines.len(), |end| usize::from(*end));
        let lines = &self.lines[start..end];
        let at = lines.partition_point(|line| usize::from(line.first) <= think) - 1;
        let line = &lines[at];
        let along = (think - usize::from(line.first)) as f32;
        // Negative skips become 0.
        (line.at_first + line.slope * along).round() as u32
    }

    fn stored_bytes(&self) -> usize {
        size_of_val(&self.lines[..]) + size_of_val(&self.starts[..])
    }
}
