//! Which ranges are merged.

use super::ages::Ages;
use crate::catalog::Catalog;
use crate::chain::LAST_LINKS;
use crate::merge::Merge;
use std::collections::BTreeSet;
use tonearm_base::{Lsn, Nanos};
use tonearm_format::ArchiveHeader;

/// Ranges of an age are merged into one for each span of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MergeLevel {
    /// The least age of what is merged, in milliseconds.
    pub after_ms: u64,
    /// Milliseconds. Spans begin at multiples of it since 1970.
    pub span_ms: u64,
}

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// At once into minutes, after a day into hours, after a week into days.
pub(super) const LEVELS: [MergeLevel; 3] = [
    MergeLevel {
        after_ms: 0,
        span_ms: MINUTE_MS,
    },
    MergeLevel {
        after_ms: DAY_MS,
        span_ms: HOUR_MS,
    },
    MergeLevel {
        after_ms: 7 * DAY_MS,
        span_ms: DAY_MS,
    },
];

/// Adjacent ranges of one span.
pub(super) struct Group {
    /// From 1 on.
    pub(super) level: u8,
    pub(super) ranges: Vec<ArchiveHeader>,
}

impl Group {
    /// The payload of what stands for the first `count` ranges, which are in `merge`.
    pub(super) fn payload(&self, merge: &Merge, count: usize) -> Vec<u8> {
        match count.checked_sub(1) {
            Some(last) => {
                let last = &self.ranges[last];
                merge.encode(Lsn(last.last), last.unix_ms)
            }
            None => Vec::new(),
        }
    }
}

/// What is merged when.
pub(super) struct Limits<'a> {
    pub(super) levels: &'a [MergeLevel],
    /// The least age of what is merged, in milliseconds.
    pub(super) keep_ms: u64,
    pub(super) ages: &'a Ages,
    pub(super) now: Nanos,
    /// Most bytes of content of what is read to be merged.
    pub(super) bytes_max: u64,
    /// Number of the last object of the chain.
    pub(super) number: u64,
}

/// The next ranges to merge: the oldest ones of the lowest level. `unlisted` are merged objects that
/// the catalog does not have yet, `single` levels and first numbers of ranges that cannot be merged with the next
/// one, and `unreadable` first numbers of those that are damaged. Encrypted ones cannot be read here either.
///
/// In each level, ranges are merged in order. So ranges before the last one that was merged as far have had their turn,
/// perhaps by an archiver before this one: they would become too large.
pub(super) fn next(
    catalog: &Catalog,
    limits: &Limits<'_>,
    unlisted: &[ArchiveHeader],
    single: &BTreeSet<(u8, u64)>,
    unreadable: &BTreeSet<u64>,
) -> Option<Group> {
    let marks = catalog.marked();
    let passed = limits.ages.passed(catalog.links.values());
    (1u8..).zip(limits.levels).find_map(|(level, times)| {
        let age_ms = times.after_ms.max(limits.keep_ms);
        let span_of = |range: &ArchiveHeader| range.unix_ms / times.span_ms;
        // Its span is over as well.
        let is_old = |range: &ArchiveHeader| {
            let left_ms = (span_of(range) + 1) * times.span_ms - range.unix_ms;
            limits.ages.of(range.number, &passed, limits.now) >= age_ms.saturating_add(left_ms)
                && range.number + LAST_LINKS <= limits.number
        };
        let is_marked = |first: u64, last: u64| {
            marks
                .range(first..)
                .next()
                .is_some_and(|mark| *mark <= last)
        };
        let follows = |before: &ArchiveHeader, range: &ArchiveHeader| {
            range.numbers().0 <= before.number + 1
                && range.first <= before.last + 1
                && span_of(before) == span_of(range)
                && !marks.contains(&before.last)
        };
        let merged = catalog.links.values().chain(unlisted);
        let merged = merged.filter(|link| link.level >= level);
        let done = merged.map(|link| link.number).max().unwrap_or(0);
        let mut ranges = Vec::<ArchiveHeader>::new();
        for (at, range) in &catalog.links {
            if *at <= done {
                continue;
            }
            let number = range.numbers().0;
            let is_wanted = range.has_commits()
                && is_old(range)
                && range.raw_bytes.max(range.stored_bytes) <= limits.bytes_max
                && !range.encrypted
                && !catalog.unlinked.contains(&number)
                && !unreadable.contains(&number)
                // A commit with a name inside of a range stays as it is.
                && !is_marked(range.first, range.last - 1);
            let goes_on = ranges.last().is_none_or(|before| follows(before, range));
            if !is_wanted || !goes_on {
                if ranges.len() > 1 {
                    break;
                }
                ranges.clear();
            }
            let may_begin = !single.contains(&(level, number));
            if is_wanted && (may_begin || !ranges.is_empty()) {
                ranges.push(*range);
            }
        }
        (ranges.len() > 1).then_some(Group { level, ranges })
    })
}
