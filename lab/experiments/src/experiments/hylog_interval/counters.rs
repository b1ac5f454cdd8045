//! HyLog when pages share the separator's counters.

use super::{Found, Plan, USED};
use crate::harness::OURS;
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};

/// What was found under one workload.
pub(super) struct Shared<'a> {
    workload: &'static str,
    /// Throughput of Overwrite and of LFS.
    whole: [f64; 2],
    /// For each number of pages that share a counter.
    found: Vec<&'a Found>,
}

impl<'a> Shared<'a> {
    pub(super) fn new(
        workload: &'static str,
        whole: &[Found],
        found: impl IntoIterator<Item = &'a Found>,
    ) -> Self {
        Self {
            workload,
            whole: [whole[0].throughput(), whole[1].throughput()],
            found: found.into_iter().collect(),
        }
    }

    /// Throughput over that with a counter for each page.
    fn kept(&self, at: usize) -> f64 {
        self.found[at].throughput() / self.found[0].throughput()
    }

    /// Throughput over that of the better of Overwrite and LFS.
    fn of_better(&self, at: usize) -> f64 {
        self.found[at].throughput() / self.whole[0].max(self.whole[1])
    }

    pub(super) fn findings(&self, plan: &Plan, is_full: bool) -> Vec<Finding> {
        let each = plan.shared.iter().enumerate().skip(1);
        let kept = each.map(|(at, pages)| {
            Finding::shown(
                format!(
                    "{}, {pages} pages a counter: throughput over that with one",
                    self.workload
                ),
                self.kept(at),
                "",
            )
        });
        let least = (0..self.found.len()).map(|at| self.of_better(at));
        let least = Finding::shown(
            format!(
                "{}, shared counters: least of the better of Overwrite and LFS",
                self.workload
            ),
            least.fold(f64::INFINITY, f64::min),
            "",
        );
        // A store of a quick run has few free segments.
        let least = match is_full {
            true => least.bound(Bound::AtLeast(0.98)),
            false => least,
        };
        kept.chain([least]).collect()
    }
}

pub(super) fn figure(plan: &Plan, shared: &[Shared<'_>]) -> Figure {
    let mut table = Table::new(&[
        "workload",
        "pages a counter",
        "requests/s",
        "against Overwrite",
        "of the better of Overwrite and LFS",
        "hot pages, share",
        "writes to hot pages, expected",
        "writes to hot pages, counted",
    ]);
    let mut panels = Vec::new();
    for load in shared {
        for (at, (pages, found)) in plan.shared.iter().zip(&load.found).enumerate() {
            table.row(vec![
                load.workload.into(),
                pages.to_string(),
                number(found.throughput()),
                number(found.throughput() / load.whole[0]),
                number(load.of_better(at)),
                number(found.hot_share),
                number(found.expected),
                number(found.hot_writes()),
            ]);
        }
        let ends = [plan.shared[0], plan.shared[plan.shared.len() - 1]];
        let level = |rate: f64| ends.map(|at| (at as f64, rate)).to_vec();
        let points = plan.shared.iter().zip(&load.found);
        let points = points.map(|(pages, found)| (*pages as f64, found.throughput()));
        panels.push(Panel {
            title: format!("{}, {USED} of the space used", load.workload),
            x: Axis::log("sharing a counter, pages"),
            y: Axis::linear("throughput, requests/s"),
            lines: vec![
                Line::new("Overwrite", Style::Solid, 0, level(load.whole[0])),
                Line::new("LFS", Style::Solid, 1, level(load.whole[1])),
                Line::new(OURS.name(), Style::Marked, 3, points.collect()),
            ],
            legend: Legend::Outside,
        });
    }
    Figure::plot(
        "hylog-counters",
        "Throughput when pages share counters",
        "The product has 32 MiB of counters: one for each block of 4 KiB in 64 GiB, and one for 16 blocks in a store of 1 TiB.",
        panels,
    )
    .with(table)
}
