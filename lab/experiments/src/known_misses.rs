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

/// All of the list: the experiment and the finding of each.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of = |miss: &'static Miss| {
        miss.findings
            .keys()
            .map(|what| (&*miss.experiment, &**what))
    };
    LIST.miss.iter().flat_map(of)
}

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
