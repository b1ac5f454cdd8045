//! Which segments the cleaner takes: greedy, or by cost and age (HyLog 2; Rosenblum and Ousterhout).

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
