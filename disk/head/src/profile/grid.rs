//! The points at which a profile is measured.

use super::ProfileError;
use tonearm_base::Nanos;

/// Evenly spaced numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steps {
    /// The first one.
    pub first: u64,
    /// From each to the next.
    pub step: u64,
    /// Number of values.
    pub count: u32,
}

/// The points of a profile: all combinations of request size, think time and skip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    /// Request sizes, in sectors.
    pub sizes: Steps,
    /// Think times (from the end of a write to the sending of the next one), in nanoseconds.
    pub thinks: Steps,
    /// Skips (sectors left out between a write and the next one).
    pub skips: Steps,
    /// Samples at each point.
    pub samples: u8,
    /// Time of a revolution; `None` for a drive without.
    pub turn: Option<Nanos>,
}

/// A point of a [`Grid`], by the indexes on its axes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Place among the request sizes.
    pub size: usize,
    /// Place among the think times.
    pub think: usize,
    /// Place among the skips.
    pub skip: usize,
}

impl Steps {
    /// Number of steps.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number at place `index`.
    pub fn at(&self, index: usize) -> u64 {
        self.first + self.step * index as u64
    }

    /// The last one.
    pub fn last(&self) -> u64 {
        self.at(self.len() - 1)
    }

    /// Index of the least value that is not below `value`, or of the last one.
    pub fn at_or_above(&self, value: u64) -> usize {
        let steps = value.saturating_sub(self.first).div_ceil(self.step);
        steps.min(u64::from(self.count) - 1) as usize
    }
}

impl Grid {
    /// Most samples of a profile, all points together.
    pub const SAMPLES_MAX: u64 = 1 << 28;

    /// Refuses grids that no drive can have.
    ///
    /// # Errors
    /// When an axis is empty, reaches beyond any drive, or there are too many points.
    pub fn check(&self) -> Result<(), ProfileError> {
        let fail = |why| Err(ProfileError::Grid(why));
        for axis in [self.sizes, self.thinks, self.skips] {
            if axis.count == 0 || axis.step == 0 || axis.count > u32::from(u16::MAX) {
                return fail("an axis has no points, or too many");
            }
            // Far below an overflow of any sum of them, and still hours of think time.
            if axis.first >> 44 != 0 || axis.step >> 44 != 0 || axis.last() >> 44 != 0 {
                return fail("an axis reaches too far");
            }
        }
        if self.sizes.first == 0 || self.sizes.last() >> 31 != 0 || self.skips.last() >> 31 != 0 {
            return fail("sizes are 1 sector or more, sizes and skips below 2^31");
        }
        if self.samples == 0 || self.turn == Some(Nanos(0)) {
            return fail("no samples, or a revolution of no time");
        }
        let points =
            self.sizes.len() as u128 * self.thinks.len() as u128 * self.skips.len() as u128;
        if points * u128::from(self.samples) > u128::from(Self::SAMPLES_MAX) {
            return fail("there are more than 2^28 samples");
        }
        Ok(())
    }

    /// Number of pairs of size and think time.
    pub fn rows(&self) -> usize {
        self.sizes.len() * self.thinks.len()
    }

    /// Number of points.
    pub fn cells(&self) -> usize {
        self.rows() * self.skips.len()
    }

    /// Number of the row of a size and a think time, by their indexes.
    pub fn row(&self, size: usize, think: usize) -> usize {
        size * self.thinks.len() + think
    }

    /// Number of `cell`: sizes are the slowest, skips the fastest.
    pub fn index(&self, cell: Cell) -> usize {
        self.row(cell.size, cell.think) * self.skips.len() + cell.skip
    }

    /// The point with the number `index`.
    pub fn cell(&self, index: usize) -> Cell {
        let row = index / self.skips.len();
        Cell {
            size: row / self.thinks.len(),
            think: row % self.thinks.len(),
            skip: index % self.skips.len(),
        }
    }

    /// Indexes of the size and think time that stand for a request of `sectors` sectors after `think`.
    ///
    /// Between two points it is the greater one, because the write can wait for the head but the head cannot move back.
    /// A size beyond the greatest counts as the greatest. If the grid covers a revolution, think times beyond the end
    /// are taken modulo the revolution, because the pattern repeats (Disk Mimic 2.2). Otherwise they count as the last.
    pub fn places(&self, sectors: u32, think: Nanos) -> (usize, usize) {
        let size = self.sizes.at_or_above(u64::from(sectors));
        let mut time = think.0;
        if let Some(turn) = self.turn
            && time > self.thinks.last()
            && self.thinks.first + turn.0 <= self.thinks.last() + self.thinks.step
        {
            time = self.thinks.first + (time - self.thinks.first) % turn.0;
        }
        (size, self.thinks.at_or_above(time))
    }
}
