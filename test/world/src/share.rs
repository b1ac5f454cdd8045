//! Which part of a long test runs.

/// The seeds of a long test that this run takes: all, or with `TONEARM_SHARE=K/N` in the environment every `N`-th one, from number
/// `K` modulo `N` on. `make test` takes another share at each commit, `make soak` and planted faults take all.
///
/// # Panics
/// When the variable has another form.
// Tests call this, and no engine.
#[allow(clippy::disallowed_methods)]
pub fn share(seeds: std::ops::Range<u64>) -> Vec<u64> {
    let Ok(share) = std::env::var("TONEARM_SHARE") else {
        return seeds.collect();
    };
    let number = |text: &str| text.parse::<u64>().ok();
    let parts = share.split_once('/');
    let parts = parts.and_then(|(part, of)| Some((number(part)?, number(of)?)));
    let (part, of) = parts
        .filter(|(_, of)| *of > 0)
        .unwrap_or_else(|| panic!("TONEARM_SHARE={share}: K/N"));
    let first = part % of.min(seeds.end - seeds.start);
    seeds.skip(first as usize).step_by(of as usize).collect()
}
