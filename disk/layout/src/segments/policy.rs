//! Which segments the cleaner takes: greedy, or by cost and age (HyLog 2; Rosenblum and Ousterhout). And what it does with
//! them: it cleans or plugs (HyLog 4.3; Matthews and others).

use crate::separation::cost::{cleaning_pass, plugging_pass};

/// A rule for choosing segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Those with the least live blocks.
    Greedy,
    /// Those with the largest (1 - u) * age / (1 + u). Cold segments are worth cleaning earlier, because the gain lasts
    /// longer.
    #[default]
    CostAge,
}

/// When the cleaner moves live blocks one by one into holes of other segments, instead of appending them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Plugging {
    /// It always appends them.
    Never,
    /// Where it costs less, by measured times.
    #[default]
    Cheaper,
    /// Wherever there are holes. For tests and studies.
    Always,
}

/// Segments that a pass empties.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sources {
    pub segments: u64,
    /// Their live blocks.
    pub live: u64,
}

/// True when emptying `plugged` into holes costs less for each free segment than cleaning `cleaned`. A segment holds
/// `capacity` blocks, and `efficiency` is that of blocks that are written into holes.
pub fn plugs(cleaned: Sources, plugged: Sources, capacity: u64, efficiency: f64) -> bool {
    let of = |sources: Sources| {
        let live = sources.live as f64 / capacity as f64;
        (sources.segments as f64, live)
    };
    let ((cleaned, left), (plugged, moved)) = (of(cleaned), of(plugged));
    // A pass without segments frees none.
    let clean = if cleaned > 0.0 {
        cleaning_pass(cleaned, left)
    } else {
        f64::INFINITY
    };
    plugged > 0.0 && plugging_pass(plugged, moved, efficiency) < clean
}

/// The value of cleaning a segment; higher is better. `live` of its `capacity` blocks are live, and the youngest of
/// them has the age `age` (in any unit).
pub fn worth(policy: Policy, live: u64, capacity: u64, age: u64) -> u128 {
    let free = u128::from(capacity.saturating_sub(live));
    match policy {
        Policy::Greedy => free,
        // In units of 2^-16: u is live / capacity.
        Policy::CostAge => ((free * u128::from(age + 1)) << 16) / u128::from(capacity + live),
    }
}

/// The `most` best of `candidates` (segment, live blocks, age), best first.
pub fn choose(
    policy: Policy,
    candidates: impl Iterator<Item = (u64, u64, u64)>,
    capacity: u64,
    most: usize,
) -> Vec<u64> {
    let mut best: Vec<(u128, u64)> = Vec::new();
    for (segment, live, age) in candidates {
        let worth = worth(policy, live, capacity, age);
        if worth == 0
            || best
                .last()
                .is_some_and(|last| best.len() == most && last.0 >= worth)
        {
            continue;
        }
        let at = best.partition_point(|(other, _)| *other >= worth);
        best.insert(at, (worth, segment));
        best.truncate(most);
    }
    best.into_iter().map(|(_, segment)| segment).collect()
}
