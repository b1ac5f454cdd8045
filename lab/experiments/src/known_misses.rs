//! The bounds that experiments miss on their own drives: `known_misses.toml`.

use crate::report::{Bound, KnownMiss};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    miss: Vec<Miss>,
}

/// Bounds of an experiment that are missed for one reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Miss {
    experiment: String,
    reason: String,
    findings: BTreeMap<String, Bound>,
}

static LIST: LazyLock<List> = LazyLock::new(|| {
    toml::from_str(include_str!("known_misses.toml")).expect("a list of known misses")
});

/// The findings whose bounds an experiment misses.
pub(crate) fn of(experiment: &str) -> impl Iterator<Item = (&'static str, KnownMiss)> {
    let own = LIST
        .miss
        .iter()
        .filter(move |miss| miss.experiment == experiment);
    own.flat_map(|miss| {
        let reason = &*miss.reason;
        let findings = miss.findings.iter();
        findings.map(move |(what, &limit)| (&**what, KnownMiss { limit, reason }))
    })
}

#[cfg(test)]
mod tests {
    use super::LIST;
    use crate::experiments::find;

    #[test]
    fn each_known_miss_is_of_an_experiment_and_of_one_reason() {
        let mut seen = Vec::new();
        for miss in &LIST.miss {
            assert!(find(&miss.experiment).is_ok(), "{}", miss.experiment);
            seen.extend(miss.findings.keys().map(|what| (&miss.experiment, what)));
        }
        let count = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }
}
