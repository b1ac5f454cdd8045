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

impl Sources {
    /// Segments, and live blocks in units of one that holds `capacity` blocks.
    fn in_segments(self, capacity: u64) -> (f64, f64) {
        (self.segments as f64, self.live as f64 / capacity as f64)
    }

    /// What it costs to make a segment free by cleaning these; infinite where it frees none.
    pub fn cleaned(self, capacity: u64) -> f64 {
        let (segments, live) = self.in_segments(capacity);
        cleaning_pass(segments, live)
    }

    /// The same by moving their blocks into holes, at `efficiency` each; infinite where there is nothing to empty.
    pub fn plugged(self, capacity: u64, efficiency: f64) -> f64 {
        let (segments, live) = self.in_segments(capacity);
        if segments > 0.0 {
            plugging_pass(segments, live, efficiency)
        } else {
            f64::INFINITY
        }
    }
}

/// What it costs to make a segment free, in units of the time in which one is appended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Costs {
    /// By cleaning the segments that a policy chooses.
    pub chosen: f64,
    /// By cleaning the emptiest ones.
    pub emptiest: f64,
    /// By plugging; infinite while its efficiency is not known.
    pub plugged: f64,
}

/// How segments become free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Clean(Policy),
    /// At most so many blocks are moved.
    Plug(u64),
}

impl Costs {
    /// Where cleaning by `policy` costs more than moving `wanted` blocks into holes, the cheaper one of that and cleaning the
    /// emptiest segments.
    pub fn cheapest(self, policy: Policy, wanted: u64) -> Way {
        if self.chosen <= self.plugged {
            Way::Clean(policy)
        } else if self.emptiest <= self.plugged {
            Way::Clean(Policy::Greedy)
        } else {
            Way::Plug(wanted)
        }
    }

    pub fn least(self) -> f64 {
        self.chosen.min(self.emptiest).min(self.plugged)
    }
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
