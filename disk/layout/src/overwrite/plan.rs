//! Zero ranges sorted into whole groups, which are punched with their tables, and parts of groups.
//!
//! The work is proportional to the number of ranges, never to their length.

use crate::home::ZeroRange;
use std::ops::Range;

/// Whole groups to zero, with one operation for each member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WholeGroups {
    pub groups: Range<u64>,
    pub keep_space: bool,
}

/// Blocks of one group to zero, not all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupPart {
    pub group: u64,
    pub blocks: Range<u64>,
    pub keep_space: bool,
}

/// Both, ascending.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ZeroPlan {
    pub whole: Vec<WholeGroups>,
    pub parts: Vec<GroupPart>,
}

impl ZeroPlan {
    /// Plans `ranges` of a store of `size_blocks` blocks in groups of `group_blocks`. If ranges overlap, the one that
    /// starts first determines whether the space is kept.
    pub fn new(ranges: Vec<ZeroRange>, group_blocks: u64, size_blocks: u64) -> Self {
        let mut plan = Self::default();
        for range in normalised(ranges, size_blocks) {
            plan.add(range, group_blocks, size_blocks);
        }
        plan
    }

    /// True when `group` is zeroed as a whole.
    pub fn is_whole(&self, group: u64) -> bool {
        let index = self.whole.partition_point(|run| run.groups.end <= group);
        self.whole
            .get(index)
            .is_some_and(|run| run.groups.contains(&group))
    }

    fn add(&mut self, range: ZeroRange, group_blocks: u64, size_blocks: u64) {
        let (first, end) = (range.first, range.first + range.count);
        // The last group counts as whole when all of its blocks that exist are in the range.
        let whole_end = if end == size_blocks {
            end.div_ceil(group_blocks)
        } else {
            end / group_blocks
        };
        let whole = first.div_ceil(group_blocks)..whole_end;
        let mut part = |blocks: Range<u64>| {
            if !blocks.is_empty() {
                self.parts.push(GroupPart {
                    group: blocks.start / group_blocks,
                    blocks,
                    keep_space: range.keep_space,
                });
            }
        };
        if whole.is_empty() {
            let border = (whole.start * group_blocks).clamp(first, end);
            part(first..border);
            part(border..end);
            return;
        }
        part(first..whole.start * group_blocks);
        part((whole.end * group_blocks).min(end)..end);
        self.whole.push(WholeGroups {
            groups: whole,
            keep_space: range.keep_space,
        });
    }
}

/// Sorted, without overlap, neighbours of one kind merged.
fn normalised(mut ranges: Vec<ZeroRange>, size_blocks: u64) -> Vec<ZeroRange> {
    ranges.sort_by_key(|range| range.first);
    let mut out: Vec<ZeroRange> = Vec::with_capacity(ranges.len());
    let mut covered = 0;
    for range in ranges {
        let end = range.first.saturating_add(range.count);
        assert!(end <= size_blocks, "a zero range beyond the store's end");
        let first = range.first.max(covered);
        if first >= end {
            continue;
        }
        covered = end;
        match out.last_mut() {
            Some(last)
                if last.first + last.count == first && last.keep_space == range.keep_space =>
            {
                last.count += end - first;
            }
            _ => out.push(ZeroRange {
                first,
                count: end - first,
                keep_space: range.keep_space,
            }),
        }
    }
    out
}
