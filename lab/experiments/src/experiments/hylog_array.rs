//! Throughput of the layouts by users and disks, and on RAID-5 (HyLog, Figures 8 and 9).

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{
    Case, Grid, INTERVAL, OLTP_WRITES, OURS, Oltp, PAPER, paper_drive, steady_by, within,
};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_pages::{Band, Layout, Redundancy, Steady};

pub const EXPERIMENT: Experiment = Experiment {
    name: "hylog-array",
    title: "Overwriting, logs and HyLog by users and disks, and on RAID-5",
    source: "HyLog 6.2, Figures 8 and 9",
    about: "Users without think time run TPC-C behind a buffer pool on 1 to 15 drives, nine of them also as RAID-5. With more users \
            and with more disks a log gains less over overwriting; parity makes overwriting dearer, and a log not.",
    drives: Drives::One("atlas10k"),
    run,
};

/// What a run simulates.
struct Plan {
    oltp: Oltp,
    /// Windows of the warm-up.
    skip: u32,
    users: &'static [u32],
    disks: &'static [u32],
    /// Shares of used space of Figure 8: the lower one and, in a full run, the higher one.
    low: f64,
    high: Option<f64>,
    /// Shares of used space on RAID-0 and RAID-5.
    arrays: &'static [f64],
}

const FULL: Plan = Plan {
    oltp: Oltp::FULL,
    skip: 15,
    users: &[1, 4, 20, 30],
    disks: &[1, 4, 15],
    low: 0.9,
    high: Some(0.98),
    arrays: &[0.5, 0.9, 0.95, 0.98],
};

/// The segments are not smaller than in a full run, so that a small store is less full and has fewer disks.
const QUICK: Plan = Plan {
    oltp: Oltp::EIGHTH,
    skip: 6,
    users: &[1, 20],
    disks: &[1, 4],
    low: 0.8,
    high: None,
    arrays: &[0.7],
};

const RAID0: (Redundancy, u32) = (Redundancy::Raid0, 8);
const RAID5: (Redundancy, u32) = (Redundancy::Raid5, 9);
const LAYOUTS: [Layout; 5] = [Layout::Overwrite, Layout::Lfs, Layout::Wolf, PAPER, OURS];

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = paper_drive(&drives[0]);
    let plan = if context.is_full() { FULL } else { QUICK };
    let requests = plan.oltp.requests(context.seed(2));
    let pages = requests.pages();
    let full = Band::new(pages, OLTP_WRITES);
    let band = Band {
        requests: full.requests / 3,
        skip: plan.skip,
        spread: false,
        decisions: 2,
        width: if context.is_full() { 0.03 } else { 0.06 },
        ..full
    };
    let simulate = |case: &Case| -> Steady {
        let setup = case.setup(&drive, pages, context.seed(1));
        steady_by(&setup, requests.replay(), &band)
    };
    let grid = Grid::new(context, &plan.cases(), simulate);
    let mut outcome = Outcome::default();
    if !context.is_full() {
        outcome.is_partial = true;
    }
    plan.users_findings(&grid, &mut outcome);
    plan.array_findings(&grid, &mut outcome);
    outcome.figures = vec![plan.users_figure(&grid), plan.arrays_figure(&grid)];
    outcome.notes = plan.notes(pages);
    outcome
}

impl Plan {
    fn case(&self, layout: Layout, used: f64) -> Case {
        Case {
            interval: Nanos(INTERVAL.0 / self.oltp.part),
            ..Case::new(layout, used)
        }
    }

    fn at(&self, layout: Layout, used: f64, users: u32, disks: u32) -> Case {
        Case {
            users,
            disks,
            ..self.case(layout, used)
        }
    }

    fn on(&self, layout: Layout, used: f64, (redundancy, disks): (Redundancy, u32)) -> Case {
        Case {
            redundancy,
            disks,
            ..self.case(layout, used)
        }
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for users in self.users {
            for disks in self.disks {
                let at = |layout, used| self.at(layout, used, *users, *disks);
                cases.extend([Layout::Overwrite, Layout::Lfs].map(|layout| at(layout, self.low)));
                if let Some(high) = self.high {
                    cases.extend([Layout::Lfs, PAPER, OURS].map(|layout| at(layout, high)));
                }
            }
        }
        for array in [RAID0, RAID5] {
            for layout in LAYOUTS {
                let count = match layout {
                    Layout::Overwrite => 1,
                    _ => self.arrays.len(),
                };
                cases.extend(
                    self.arrays[..count]
                        .iter()
                        .map(|used| self.on(layout, *used, array)),
                );
            }
        }
        cases
    }

    /// What the paper says about Figure 8.
    fn users_findings(&self, grid: &Grid, outcome: &mut Outcome) {
        let findings = &mut outcome.findings;
        let ([few, .., many], [one, .., all]) = (self.users, self.disks) else {
            return;
        };
        for used in self.shares() {
            let lfs = |users: u32, disks: u32| self.at(Layout::Lfs, used, users, disks);
            for disks in self.disks {
                let drop = grid.relative(lfs(*many, *disks)) / grid.relative(lfs(*few, *disks));
                let what = format!(
                    "LFS against Overwrite at {used}: {many} users over one, disks: {disks}"
                );
                // With an eighth of the data on one disk all seeks are short, so a sweep of many users gains less.
                findings.push(match self.high.is_some() || *disks > 1 {
                    true => trend(what, drop).bound(Bound::AtMost(1.02)),
                    false => Finding::shown(what, drop, ""),
                });
            }
            for users in self.users {
                let drop = grid.relative(lfs(*users, *all)) / grid.relative(lfs(*users, *one));
                let what = format!(
                    "LFS against Overwrite at {used}: {all} disks over one, users: {users}"
                );
                // With much free space the paper sees no such trend, and there is nothing to demand.
                findings.push(match Some(used) == self.high {
                    true => trend(what, drop).bound(Bound::AtMost(1.02)),
                    false => Finding::shown(what, drop, ""),
                });
            }
            if Some(used) != self.high {
                continue;
            }
            let every = self.users.iter().flat_map(|users| {
                let disks = self.disks.iter();
                disks.map(move |disks| (*users, *disks))
            });
            let least = |layout| {
                every
                    .clone()
                    .map(|(users, disks)| grid.of_better(self.at(layout, used, users, disks)))
                    .fold(f64::INFINITY, f64::min)
            };
            let what = format!(
                "HyLog with later writes against the better of Overwrite and LFS at {used}, the least"
            );
            findings.push(Finding::shown(what, least(OURS), "").bound(Bound::AtLeast(0.98)));
            let what =
                format!("HyLog against the better of Overwrite and LFS at {used}, the least");
            findings.push(
                Finding::shown(what, least(PAPER), "")
                    .paper("almost 1, but for 4 users and 15 disks")
                    .bound(Bound::AtLeast(0.95)),
            );
            findings.extend(self.wrong_following(grid, used));
        }
        // "The disk idle time in Overwrite is also reduced with more users."
        for disks in self.disks.iter().filter(|disks| **disks > 1) {
            let idle = |users: u32| {
                let case = self.at(Layout::Overwrite, self.low, users, *disks);
                100.0 * grid.at(case).idle()
            };
            let what = format!("idle time of Overwrite: {many} users over one, disks: {disks}");
            let found = trend(what, idle(*many) / idle(*few));
            findings.push(found.bound(Bound::AtMost(0.9)));
            let what = format!("idle time of Overwrite with {many} users, disks: {disks}");
            findings.push(Finding::shown(what, idle(*many), "%"));
        }
    }

    /// The configuration in which the paper's HyLog follows LFS although Overwrite is faster.
    fn wrong_following(&self, grid: &Grid, used: f64) -> Vec<Finding> {
        let at = |layout| self.at(layout, used, 4, 15);
        let against = |layout: Layout| {
            let what = format!(
                "{} against Overwrite at {used}, 4 users and 15 disks",
                layout.name()
            );
            Finding::shown(what, grid.relative(at(layout)), "")
        };
        let lfs = against(Layout::Lfs).paper("below 1");
        let follows = grid.over(at(PAPER), at(Layout::Lfs));
        let what = format!("HyLog against LFS at {used}, 4 users and 15 disks");
        let against = [
            lfs.bound(Bound::AtMost(1.0)),
            within(what, follows, "", 1.0, 5.0).paper("as LFS"),
            against(OURS),
        ];
        let share = [PAPER, OURS].map(|layout| {
            let share = 100.0 * grid.at(at(layout)).decision.hot_share;
            let what = format!("{}, 4 users and 15 disks: hot share", layout.name());
            Finding::shown(what, share, "%")
        });
        [&against[..], &share].concat()
    }

    /// What the paper says about Figure 9.
    fn array_findings(&self, grid: &Grid, outcome: &mut Outcome) {
        let findings = &mut outcome.findings;
        let gain =
            |layout, used| grid.over(self.on(layout, used, RAID5), self.on(layout, used, RAID0));
        let slower = gain(Layout::Overwrite, self.arrays[0]);
        findings.push(within(
            "Overwrite, RAID-5 over RAID-0",
            slower,
            "",
            0.5,
            10.0,
        ));
        for used in self.arrays {
            for layout in [Layout::Lfs, Layout::Wolf] {
                let what = format!("{} at {used}, RAID-5 over RAID-0", layout.name());
                let found = within(what, gain(layout, *used), "", 1.0825, 4.0);
                findings.push(found.paper("1.065 to 1.10"));
            }
            for (array, name) in [(RAID0, "RAID-0"), (RAID5, "RAID-5")] {
                let ours = grid.of_better(self.on(OURS, *used, array));
                let what = format!(
                    "HyLog with later writes against the better of Overwrite and LFS at {used}, {name}"
                );
                findings.push(Finding::shown(what, ours, "").bound(Bound::AtLeast(0.98)));
            }
        }
        let Some(used) = self.high else {
            return;
        };
        let on = |layout, array| self.on(layout, used, array);
        let comparable = |what: &str, ours| {
            within(format!("{what} at {used}"), ours, "", 1.0, 5.0).paper("comparable")
        };
        findings.push(comparable(
            "HyLog against Overwrite on RAID-0",
            grid.relative(on(PAPER, RAID0)),
        ));
        findings.push(comparable(
            "HyLog against LFS on RAID-5",
            grid.over(on(PAPER, RAID5), on(Layout::Lfs, RAID5)),
        ));
    }

    /// The shares of used space of Figure 8.
    fn shares(&self) -> impl Iterator<Item = f64> + use<> {
        [Some(self.low), self.high].into_iter().flatten()
    }

    fn users_figure(&self, grid: &Grid) -> Figure {
        let panels = self.shares().map(|used| {
            let layouts: &[(Layout, Style)] = match Some(used) == self.high {
                true => &[
                    (Layout::Lfs, Style::Marked),
                    (PAPER, Style::Dots),
                    (OURS, Style::Dashed),
                ],
                false => &[(Layout::Lfs, Style::Marked)],
            };
            let mut lines = Vec::new();
            for (color, disks) in self.disks.iter().enumerate() {
                for (layout, style) in layouts {
                    let points = self.users.iter().map(|users| {
                        let case = self.at(*layout, used, *users, *disks);
                        (f64::from(*users), grid.relative(case))
                    });
                    let name = format!("{}, disks: {disks}", layout.name());
                    lines.push(Line::new(&name, *style, color, points.collect()));
                }
            }
            Panel {
                title: format!("{used} of the space used"),
                x: Axis::linear("users"),
                y: Axis::linear("throughput, Overwrite is 1"),
                lines,
                legend: Legend::Outside,
            }
        });
        Figure::plot(
            "hylog-users",
            "Throughput by users and disks (Figure 8)",
            "In units of the throughput of Overwrite with the same users and disks. The table also has the arrays of Figure 9.",
            panels.collect(),
        )
        .with(self.table(grid))
    }

    fn arrays_figure(&self, grid: &Grid) -> Figure {
        let shares: Vec<String> = self.arrays.iter().map(|used| number(*used)).collect();
        let panel = |array, title: &str| {
            let lines = LAYOUTS.iter().enumerate().map(|(color, layout)| {
                let points = (1_u32..).zip(self.arrays).map(|(place, used)| {
                    let found = grid.at(self.on(*layout, *used, array));
                    (f64::from(place), found.throughput())
                });
                let style = match *layout == OURS {
                    true => Style::Dashed,
                    false => Style::Marked,
                };
                Line::new(layout.name(), style, color, points.collect())
            });
            Panel {
                title: title.into(),
                x: Axis::of("used space, share", shares.clone()),
                y: Axis::linear("throughput, requests/s"),
                lines: lines.collect(),
                legend: Legend::Outside,
            }
        };
        let panels = vec![
            panel(RAID0, "RAID-0, 8 disks"),
            panel(RAID5, "RAID-5, 9 disks"),
        ];
        Figure::plot(
            "hylog-raid",
            "Throughput on RAID-0 and RAID-5 (Figure 9)",
            "Both arrays have segments of the same size.",
            panels,
        )
    }

    fn table(&self, grid: &Grid) -> Table {
        grid.table(&["array", "disks", "users", "layout", "used"], |case| {
            let array = match case.redundancy {
                Redundancy::Raid0 => "RAID-0",
                Redundancy::Raid5 => "RAID-5",
            };
            vec![
                array.into(),
                case.disks.to_string(),
                case.users.to_string(),
                case.layout.name().into(),
                number(case.used),
            ]
        })
    }

    fn notes(&self, pages: u64) -> Vec<String> {
        vec![
            format!(
                "{pages} pages of 4 KB, segments of 512 KB on each disk, {} users on RAID-0 and RAID-5, cost-age cleaning without \
                 plugging. Workload and drive are those of hylog-throughput.",
                Case::new(PAPER, 0.0).users
            ),
            "HyLog with later writes is the product's rule: it does not count the segments that the cleaner keeps free as space for \
             hot pages. With 15 disks and 0.98 of the space used these are 10 of 14 free segments."
                .into(),
            "At 0.98, with 4 users and 15 disks, LFS is not slower than Overwrite here, and both rules of HyLog are above \
             LFS: the paper's wrong following does not appear. What makes the decision hard there is the efficiency E, which \
             depends on the idle time of the disks, and so on the layout that is in use: the table has it for each layout."
                .into(),
            "With 15 disks LFS has a lower cleaning utilisation with more users: while the cleaner works they take some of the \
             segments that it keeps free."
                .into(),
            "The measurement begins after two decisions of the separator, one every 20 minutes, or a part of them with a smaller \
             store."
                .into(),
        ]
    }
}

fn trend(what: String, ours: f64) -> Finding {
    Finding::shown(what, ours, "").paper("drops")
}
