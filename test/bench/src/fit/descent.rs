//! Coordinate descent: one figure at a time, with a step of its own.
//!
//! Response times are no smooth function of the figures (a head that comes a microsecond too late waits a
//! revolution), so there are no slopes to follow; trying is what works, and it needs no more than a minute.

use crate::objective::Objective;
use crate::parameters::Parameters;

/// A step grows by this when it helped, and shrinks when neither direction did.
const GROWTH: f64 = 1.5;
const SHRINKAGE: f64 = 0.5;
/// A step smaller than this is tried again from `RESTART_MS`: meanwhile other figures have moved.
const SMALLEST_MS: f64 = 0.0005;
const RESTART_MS: f64 = 0.002;
/// Less than this is no improvement.
const IMPROVEMENT: f64 = 1e-6;

/// Where a descent ended.
pub struct Found {
    /// The figures.
    pub values: Vec<f64>,
    /// The objective there, with the pull to the start.
    pub cost: f64,
}

/// Goes down from `from`. None if the drive cannot be with these figures.
pub fn descend(
    parameters: &Parameters,
    objective: &Objective<'_>,
    from: Vec<f64>,
    rounds: u32,
) -> Option<Found> {
    let cost = |values: &[f64]| {
        let spec = parameters.spec(values)?;
        Some(objective.of(&spec) + parameters.pull(values))
    };
    let mut best = Found {
        cost: cost(&from)?,
        values: from,
    };
    let figures = best.values.len();
    let mut steps: Vec<f64> = (0..figures).map(|i| parameters.sort(i).step_ms()).collect();
    for _ in 0..rounds {
        for (index, step) in steps.iter_mut().enumerate() {
            let better = [*step, -*step].into_iter().find_map(|step| {
                let mut values = best.values.clone();
                values[index] += step;
                let cost = cost(&values).filter(|cost| *cost < best.cost - IMPROVEMENT)?;
                Some(Found { values, cost })
            });
            *step *= if better.is_some() { GROWTH } else { SHRINKAGE };
            if *step < SMALLEST_MS {
                *step = RESTART_MS;
            }
            best = better.unwrap_or(best);
        }
    }
    Some(best)
}
