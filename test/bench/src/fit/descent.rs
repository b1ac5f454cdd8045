//! Coordinate descent: it changes one figure at a time, each with its own step.
//!
//! Response times are not a smooth function of the figures: a head that arrives a microsecond too late waits a
//! revolution. Methods that follow a gradient therefore do not work. A descent takes about a minute.

use crate::objective::Objective;
use crate::parameters::Parameters;

/// A step is multiplied by `GROWTH` when it improved the objective, and by `SHRINKAGE` when neither direction did.
const GROWTH: f64 = 1.5;
const SHRINKAGE: f64 = 0.5;
/// A step below `SMALLEST_MS` starts again from `RESTART_MS`, because other figures have changed since it shrank.
const SMALLEST_MS: f64 = 0.0005;
const RESTART_MS: f64 = 0.002;
/// A smaller relative change is not an improvement.
const IMPROVEMENT: f64 = 1e-6;

/// Result of a descent.
pub struct Found {
    /// The figures.
    pub values: Vec<f64>,
    /// The objective at these figures, including the pull towards the start.
    pub cost: f64,
}

/// Descends from `from`. None if the drive is invalid with these figures.
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
