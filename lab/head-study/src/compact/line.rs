//! Line Compact: one line for a run of think times, by the paper's greedy algorithm (Disk Mimic 3, Figure 4).
//!
//! The paper defines a line by two adjacent points of the grid, and so in whole steps of skip for a step of think time.
//! The platter passes no whole number of steps in that time, and such a line drifts away from it. Slopes here are in parts
//! of a step, and a line answers with the nearest skip of the grid.

use super::BySize;
use crate::policy::{Choice, Choices};
use crate::skip_set::SkipSet;
use std::ops::RangeInclusive;
use tonearm_head::Grid;
use tonearm_head::SkipModel;

/// Runs of think times with a line each.
#[derive(Clone, Debug)]
pub struct LineCompact {
    grid: Grid,
    segments: BySize<Segment>,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Place of its first think time.
    first: u16,
    /// Place of the skip there.
    skip: u16,
    /// Parts of a step of skip for each step of think time.
    slope: i16,
}

/// Parts of a step of skip in which slopes are given. With the steps of the paper's drive, 4 KiB, a part is a sector.
pub(super) const PARTS: i64 = 8;

/// Whole steps of skip, rounded, by which a line of `slope` grows in `steps`.
pub(super) fn growth(slope: i64, steps: usize) -> i64 {
    (slope * steps as i64 + PARTS / 2).div_euclid(PARTS)
}

/// All slopes from a skip of `from` to one of `to`, a step later.
pub(super) fn slopes(from: &SkipSet, to: &SkipSet) -> Option<RangeInclusive<i64>> {
    let ((low, high), (to_low, to_high)) = (from.bounds()?, to.bounds()?);
    let (least, most) = (to_low as i64 - high as i64, to_high as i64 - low as i64);
    // Those that are rounded to these.
    Some(least * PARTS - PARTS / 2..=most * PARTS + (PARTS - 1) / 2)
}

/// The candidate lines of one slope, given by their first skips.
#[derive(Clone)]
pub(super) struct Lines {
    pub slope: i64,
    pub begins: SkipSet,
}

/// `allPairOfLines`: the lines through a candidate of `from` and a candidate of `to`, the next think
/// time; `to` is `None` at the end of the axis.
pub(super) fn all_pairs(from: &SkipSet, to: Option<&SkipSet>) -> Vec<Lines> {
    let level = Lines {
        slope: 0,
        begins: from.clone(),
    };
    let Some(to) = to else { return vec![level] };
    let Some(slopes) = slopes(from, to) else {
        return Vec::new();
    };
    let lines = slopes
        .filter(|slope| i16::try_from(*slope).is_ok())
        .map(|slope| Lines {
            slope,
            begins: from.clone(),
        });
    extend(&lines.collect::<Vec<_>>(), to, 1)
}

/// `extendLines`: those of `lines` that meet the candidate set `to`, `steps` after their start.
pub(super) fn extend(lines: &[Lines], to: &SkipSet, steps: usize) -> Vec<Lines> {
    let meets = |lines: &Lines| {
        let mut begins = lines.begins.clone();
        let any = begins.keep_shifted(to, growth(lines.slope, steps));
        let slope = lines.slope;
        any.then_some(Lines { slope, begins })
    };
    lines.iter().filter_map(meets).collect()
}

impl LineCompact {
    /// The lines for `choices`. Of the candidates at the end of a run (the paper takes any) it gets the one with the
    /// least total cost.
    pub fn new(choices: &Choices) -> Self {
        let grid = *choices.grid();
        Self {
            grid,
            segments: BySize::new(
                (0..grid.sizes.len()).map(|size| segments(choices.of_size(size))),
            ),
        }
    }
}

fn segments(row: &[Choice]) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut first = 0;
    while first < row.len() {
        let next = row.get(first + 1).map(|choice| &choice.acceptable);
        let mut lines = all_pairs(&row[first].acceptable, next);
        let mut end = (first + 2).min(row.len());
        while let Some(choice) = row.get(end) {
            let longer = extend(&lines, &choice.acceptable, end - first);
            if longer.is_empty() {
                break;
            }
            lines = longer;
            end += 1;
        }
        segments.push(cheapest(&row[first..end], &lines, first));
        first = end;
    }
    segments
}

fn cheapest(run: &[Choice], lines: &[Lines], first: usize) -> Segment {
    let cost = |(slope, skip): &(i64, usize)| {
        let at = |x: usize| (*skip as i64 + growth(*slope, x)) as usize;
        let costs = run
            .iter()
            .enumerate()
            .map(|(x, choice)| u64::from(choice.costs[at(x)]));
        costs.sum::<u64>()
    };
    let all = lines
        .iter()
        .flat_map(|lines| lines.begins.iter().map(|skip| (lines.slope, skip)));
    let (slope, skip) = all
        .min_by_key(cost)
        .expect("a candidate set has the best skip");
    Segment {
        first: first as u16,
        skip: skip as u16,
        slope: slope as i16,
    }
}

impl SkipModel for LineCompact {
    fn name(&self) -> &'static str {
        "compact-line"
    }

    fn skip(&self, size: usize, think: usize) -> u32 {
        let segments = self.segments.of_size(size);
        let at = segments.partition_point(|segment| usize::from(segment.first) <= think) - 1;
        let segment = &segments[at];
        let along = think - usize::from(segment.first);
        let skip = i64::from(segment.skip) + growth(segment.slope.into(), along);
        self.grid.skips.at(skip as usize) as u32
    }

    fn stored_bytes(&self) -> usize {
        self.segments.stored_bytes()
    }
}
