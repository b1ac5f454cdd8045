//! The quality of a skip model on the profile: the measures of Disk Mimic 4.2.

use tonearm_base::Nanos;
use tonearm_head::SkipModel;
use tonearm_head::{Cell, Profile, Steps};

/// The loss of a model against the best mean response at each think time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Loss {
    /// Mean loss.
    pub mean: Nanos,
    /// Greatest loss.
    pub most: Nanos,
    /// Share of the think times at which the loss exceeds the tolerance.
    pub outliers: f64,
}

impl Loss {
    /// The loss of `model` at all think times of one request size, given by its index, by the samples of all `profiles`,
    /// which have one grid. Skips between two of the grid count as the nearest one. Points without a sample are ignored.
    ///
    /// # Panics
    /// When there is no profile.
    pub fn of(
        profiles: &[Profile],
        model: &(impl SkipModel + ?Sized),
        size: usize,
        tolerance: Nanos,
    ) -> Self {
        let grid = profiles[0].grid();
        let (mut sum, mut most, mut outliers, mut points) = (0, 0, 0_u32, 0_u32);
        for think in 0..grid.thinks.len() {
            let mean = |skip| mean(profiles, Cell { size, think, skip });
            let skip = nearest(&grid.skips, u64::from(model.skip(size, think)));
            let least = (0..grid.skips.len()).filter_map(mean).min();
            if let (Some(response), Some(least)) = (mean(skip), least) {
                let loss = response.since(least).0;
                sum += loss;
                most = most.max(loss);
                outliers += u32::from(loss > tolerance.0);
                points += 1;
            }
        }
        Self {
            mean: Nanos(sum / u64::from(points.max(1))),
            most: Nanos(most),
            outliers: f64::from(outliers) / f64::from(points.max(1)),
        }
    }
}

/// Mean response at `cell` in all `profiles`.
fn mean(profiles: &[Profile], cell: Cell) -> Option<Nanos> {
    let samples = || profiles.iter().flat_map(|profile| profile.samples(cell));
    let sum: u64 = samples().map(|micros| u64::from(*micros)).sum();
    (sum * 1_000)
        .checked_div(samples().count() as u64)
        .map(Nanos)
}

fn nearest(steps: &Steps, value: u64) -> usize {
    let offset = value
        .saturating_sub(steps.first)
        .saturating_add(steps.step / 2);
    (offset / steps.step).min(u64::from(steps.count) - 1) as usize
}
