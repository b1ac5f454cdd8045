//! Simulations of pages that differ in a few parameters, each next to Overwrite and LFS on the same disks.

use super::layouts::{INTERVAL, OURS, chunk_bytes, normalised_row, normalised_table};
use crate::experiment::Context;
use crate::report::Table;
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_pages::{Cleaning, Layout, Redundancy, Setup, Steady};

/// The parameters of a simulation. The cleaner cleans without plugging, as in the numbers that the paper prints.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Case {
    pub layout: Layout,
    /// Share of the used space that the pages take.
    pub used: f64,
    pub users: u32,
    pub disks: u32,
    pub redundancy: Redundancy,
    /// Time from one decision of the separator to the next.
    pub interval: Nanos,
}

impl Case {
    /// The paper's defaults (Table 6).
    pub const fn new(layout: Layout, used: f64) -> Self {
        Self {
            layout,
            used,
            users: 20,
            disks: 4,
            redundancy: Redundancy::Raid0,
            interval: INTERVAL,
        }
    }

    /// The same case with another layout.
    #[must_use]
    pub fn with(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// The set-up of the case with `pages` pages on `drive`.
    pub fn setup(&self, drive: &DriveFile, pages: u64, seed: u64) -> Setup {
        Setup {
            disks: self.disks,
            redundancy: self.redundancy,
            cleaning: Cleaning::Greedy,
            users: self.users,
            chunk_bytes: chunk_bytes(&drive.name),
            utilisation: self.used,
            interval: self.interval,
            // As the product's separator.
            counts_reserve: self.layout == OURS,
            seed,
            ..Setup::new(&drive.spec, self.layout, pages)
        }
    }

    /// True when both are the same simulation. Overwrite depends neither on the free space nor on the interval, and
    /// layouts without a separator do not depend on the interval.
    fn is(&self, other: &Self) -> bool {
        let free = self.layout == Layout::Overwrite || self.used == other.used;
        let separates = !matches!(
            self.layout,
            Layout::Overwrite | Layout::Lfs | Layout::Sepbit
        );
        self.layout == other.layout
            && (self.users, self.disks, self.redundancy)
                == (other.users, other.disks, other.redundancy)
            && free
            && (!separates || self.interval == other.interval)
    }
}

/// Cases and what was found in each.
pub struct Grid(Vec<(Case, Steady)>);

impl Grid {
    /// Simulates all `cases`, each once.
    pub fn new(
        context: &Context<'_>,
        cases: &[Case],
        simulate: impl Fn(&Case) -> Steady + Sync,
    ) -> Self {
        let mut once: Vec<Case> = Vec::new();
        for case in cases {
            if !once.iter().any(|known| known.is(case)) {
                once.push(*case);
            }
        }
        Self(context.map(&once, |case| (*case, simulate(case))))
    }

    /// What was found in `case`.
    ///
    /// # Panics
    /// When it was not simulated.
    pub fn at(&self, case: Case) -> &Steady {
        let found = self.0.iter().find(|(other, _)| case.is(other));
        &found.expect("the case was simulated").1
    }

    /// Throughput in units of that of Overwrite on the same disks.
    ///
    /// # Panics
    /// When one of both was not simulated.
    pub fn relative(&self, case: Case) -> f64 {
        self.over(case, case.with(Layout::Overwrite))
    }

    /// Throughput of `case` over that of `other`.
    ///
    /// # Panics
    /// When one of both was not simulated.
    pub fn over(&self, case: Case, other: Case) -> f64 {
        self.at(case).throughput() / self.at(other).throughput()
    }

    /// Throughput in units of that of the better of Overwrite and LFS.
    ///
    /// # Panics
    /// When one of the three was not simulated.
    pub fn of_better(&self, case: Case) -> f64 {
        self.relative(case) / self.relative(case.with(Layout::Lfs)).max(1.0)
    }

    /// All cases as a table. Its first columns are `heads`, with the cells `names`.
    pub fn table(&self, heads: &[&str], names: impl Fn(&Case) -> Vec<String>) -> Table {
        let mut table = normalised_table(heads);
        for (case, steady) in &self.0 {
            let base = self.at(case.with(Layout::Overwrite)).throughput();
            normalised_row(&mut table, names(case), steady, base);
        }
        table
    }
}
