//! Basic Compact: one skip for a run of think times, from the candidate set of each (Disk Mimic 3).

use super::BySize;
use crate::policy::{Choice, Choices};
use tonearm_head::Grid;
use tonearm_head::SkipModel;

/// Runs of think times with a skip each. The paper stores begin, end and skip. Here a run ends where the next
/// one begins.
#[derive(Clone, Debug)]
pub struct BasicCompact {
    grid: Grid,
    runs: BySize<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    /// Place of its first think time.
    first: u16,
    /// Place of its skip on the axis.
    skip: u16,
}

impl BasicCompact {
    /// The fewest runs that `choices` allow. Of the skips that a run could have, it gets the one with the least total
    /// cost.
    pub fn new(choices: &Choices) -> Self {
        let grid = *choices.grid();
        Self {
            grid,
            runs: BySize::new((0..grid.sizes.len()).map(|size| runs(choices.of_size(size)))),
        }
    }
}

fn runs(row: &[Choice]) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut first = 0;
    while first < row.len() {
        let mut common = row[first].acceptable.clone();
        let mut end = first + 1;
        while let Some(choice) = row.get(end) {
            let mut narrower = common.clone();
            if !narrower.keep_shifted(&choice.acceptable, 0) {
                break;
            }
            common = narrower;
            end += 1;
        }
        let cost = |skip: &usize| {
            row[first..end]
                .iter()
                .map(|choice| u64::from(choice.costs[*skip]))
                .sum::<u64>()
        };
        let skip = common
            .iter()
            .min_by_key(cost)
            .expect("a candidate set has the best skip");
        runs.push(Run {
            first: first as u16,
            skip: skip as u16,
        });
        first = end;
    }
    runs
}

impl SkipModel for BasicCompact {
    fn name(&self) -> &'static str {
        "compact-basic"
    }

    fn skip(&self, size: usize, think: usize) -> u32 {
        let runs = self.runs.of_size(size);
        let at = runs.partition_point(|run| usize::from(run.first) <= think) - 1;
        self.grid.skips.at(usize::from(runs[at].skip)) as u32
    }

    fn stored_bytes(&self) -> usize {
        self.runs.stored_bytes()
    }
}
