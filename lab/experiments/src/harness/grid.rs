//! Simulations of pages that differ in a few parameters, each next to Overwrite and LFS on the same disks.

use super::layouts::{
    INTERVAL, OLTP_WRITES, OURS, chunk_bytes, normalised_row, normalised_table, steady_by,
};
use super::requests::Oltp;
use crate::experiment::Context;
use crate::report::Table;
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_pages::{Band, Cleaning, Layout, Redundancy, Setup, Steady};

/// Users and drives under the paper's workload, or a part of both.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Store {
    /// The workload, and with it the size.
    pub oltp: Oltp,
    /// Number of drives.
    pub disks: u32,
    /// Users, each of which waits for the end of its request.
    pub users: u32,
    /// Windows of the warm-up: pages that are written seldom need long to reach the segments in which they stay.
    pub skip: u32,
    /// Largest distance of a window from the mean.
    pub width: f64,
}

impl Store {
    /// The paper's defaults (Table 6).
    pub const FULL: Self = Self {
        oltp: Oltp::FULL,
        disks: 4,
        users: 20,
        skip: 10,
        width: 0.03,
    };
    /// One of the four drives with its users and its data: as many segments, with as many free ones among them.
    pub const ONE_DRIVE: Self = Self {
        oltp: Oltp::FOURTH,
        disks: 1,
        users: 5,
        ..Self::FULL
    };
    /// One drive with half of that, for quick runs. It is as full as the paper's.
    pub const QUICK: Self = Self {
        oltp: Oltp::EIGHTH,
        skip: 5,
        width: 0.06,
        ..Self::ONE_DRIVE
    };

    /// The time of it in which as many writes come for each page as in `whole` in the paper's store.
    pub fn time(&self, whole: Nanos) -> Nanos {
        Nanos(whole.0 * u64::from(Self::FULL.disks) / (self.oltp.part * u64::from(self.disks)))
    }

    /// A simulation of it.
    pub fn case(&self, layout: Layout, used: f64) -> Case {
        Case {
            disks: self.disks,
            users: self.users,
            interval: self.time(INTERVAL),
            ..Case::new(layout, used)
        }
    }

    /// What is called steady. The database grows, and much of it is never written, so the data never spread wholly.
    pub fn band(&self, pages: u64) -> Band {
        let full = Band::new(pages, OLTP_WRITES);
        Band {
            skip: self.skip,
            spread: false,
            width: self.width,
            most: 2 * self.skip,
            ..full
        }
    }

    /// The steady state of `case` on `drive` under TPC-C.
    pub fn simulate(&self, context: &Context<'_>, drive: &DriveFile, case: &Case) -> Steady {
        let requests = self.oltp.requests(context.seed(2));
        let setup = case.setup(drive, requests.pages(), context.seed(1));
        steady_by(&setup, requests.replay(), &self.band(requests.pages()))
    }
}

/// What a simulation does beyond the paper's words, or beyond one reading of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Variant {
    /// See [`Setup::sorts_hot`].
    pub sorts_hot: bool,
    /// See [`Setup::counts_copies`].
    pub counts_copies: bool,
    /// See [`Setup::cleaner_blocks`].
    pub cleaner_blocks: bool,
    /// See [`Setup::cools_in_place`].
    pub cools_in_place: bool,
}

/// The parameters of a simulation.
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
    /// Cost-age without plugging, as in the numbers that the paper prints.
    pub cleaning: Cleaning,
    pub variant: Variant,
}

impl Case {
    /// The paper's defaults (Table 6).
    pub fn new(layout: Layout, used: f64) -> Self {
        Self {
            layout,
            used,
            users: 20,
            disks: 4,
            redundancy: Redundancy::Raid0,
            interval: INTERVAL,
            cleaning: Cleaning::CostAge,
            variant: Variant::default(),
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
            cleaning: self.cleaning,
            users: self.users,
            chunk_bytes: chunk_bytes(&drive.name),
            utilisation: self.used,
            interval: self.interval,
            sorts_hot: self.variant.sorts_hot,
            counts_copies: self.variant.counts_copies,
            cleaner_blocks: self.variant.cleaner_blocks,
            cools_in_place: self.variant.cools_in_place,
            // As the product's separator.
            counts_reserve: self.layout == OURS,
            seed,
            ..Setup::new(&drive.spec, self.layout, pages)
        }
    }

    /// True when both are the same simulation. Overwrite depends neither on free space, cleaner nor interval, and
    /// layouts without a separator do not depend on the interval.
    fn is(&self, other: &Self) -> bool {
        let free = self.layout == Layout::Overwrite
            || (self.used, self.cleaning) == (other.used, other.cleaning);
        let separates = !matches!(
            self.layout,
            Layout::Overwrite | Layout::Lfs | Layout::Sepbit
        );
        self.layout == other.layout
            && (self.users, self.disks, self.redundancy)
                == (other.users, other.disks, other.redundancy)
            && free
            && self.variant == other.variant
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
