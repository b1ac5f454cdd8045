//! The steady state: when the measurement begins and ends.
//!
//! A run is measured in windows of equally many requests. The warm-up ends when the data have spread
//! ([`Simulation::has_spread`]), or after a number of windows if pages that nobody writes never spread ([`Band::spread`]).
//! From then on the state is steady when throughput and write cost of each of the last windows
//! are within a band around their means. These windows are the measurement.

use crate::counts::{Counts, Work};
use crate::simulation::Simulation;
use tonearm_layout::separation::Decision;
use tonearm_workload::{Workload, WorkloadError};

/// What is called steady.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Band {
    /// Requests of a window.
    pub requests: u64,
    /// Least number of windows before the first that may count.
    pub skip: u32,
    /// Data that were packed at the front must have spread before it. Where many pages are never written, their segments stay
    /// full and are never cleaned, so `skip` alone must suffice.
    pub spread: bool,
    /// Least number of the separator's decisions before it, in a layout that has a separator of pages.
    pub decisions: u64,
    /// Windows that must be alike.
    pub windows: u32,
    /// Largest relative distance of a window from the mean of all.
    pub width: f64,
    /// Windows after which the run ends even if it is not steady.
    pub most: u32,
}

/// One window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Window {
    /// What was counted in it.
    pub counts: Counts,
    /// Requests in a second.
    pub throughput: f64,
    /// Mean time to write a page, in milliseconds of one disk.
    pub write_ms: f64,
}

/// The measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct Steady {
    /// What was counted in the windows of the measurement.
    pub counts: Counts,
    /// False if the run ended before the windows were alike.
    pub is_steady: bool,
    /// All windows.
    pub windows: Vec<Window>,
    /// Windows of the warm-up; none if it did not end.
    pub warm: Option<usize>,
    /// Pages of a segment.
    pub segment_pages: u32,
    /// Disks.
    pub disks: u32,
    /// Segment I/O efficiency, adjusted, at the end.
    pub efficiency: f64,
    /// The separator's last decision.
    pub decision: Decision,
    /// How many decisions there were.
    pub decisions: u64,
}

impl Band {
    /// Windows in which about a quarter of `pages` pages is written, if `write_share` of the requests are writes. Four that
    /// lie within 2 % count.
    pub fn new(pages: u64, write_share: f64) -> Self {
        Self {
            requests: (pages as f64 / 4.0 / write_share.max(0.05)) as u64,
            skip: 4,
            spread: true,
            decisions: 0,
            windows: 4,
            width: 0.02,
            most: 60,
        }
    }

    /// True when the last windows are alike.
    fn holds(&self, windows: &[Window]) -> bool {
        if windows.len() < self.windows as usize {
            return false;
        }
        let last = &windows[windows.len() - self.windows as usize..];
        let alike = |of: fn(&Window) -> f64| {
            let mean = last.iter().map(of).sum::<f64>() / last.len() as f64;
            last.iter()
                .all(|window| (of(window) - mean).abs() <= self.width * mean)
        };
        alike(|window| window.throughput) && alike(|window| window.write_ms)
    }
}

impl<W: Workload> Simulation<W> {
    /// Runs until the state is steady by `band`, or the workload ends.
    ///
    /// # Errors
    /// When the workload cannot go on.
    pub fn steady(&mut self, band: &Band) -> Result<Steady, WorkloadError> {
        let segment_pages = self.segment_pages();
        let mut windows: Vec<Window> = Vec::new();
        let (mut is_steady, mut warm) = (false, None);
        while !is_steady && windows.len() < band.most as usize {
            let before = self.counts();
            if !self.run(band.requests)? {
                break;
            }
            let counts = self.counts() - before;
            windows.push(Window {
                counts,
                throughput: counts.throughput(),
                write_ms: counts.write_nanos(segment_pages) / 1e6,
            });
            let enough = windows.len() >= band.skip as usize && self.has_decided(band.decisions);
            if warm.is_none() && enough && (!band.spread || self.has_spread()) {
                warm = Some(windows.len());
            }
            is_steady = warm.is_some_and(|warm| band.holds(&windows[warm..]));
        }
        let measured = windows.len().saturating_sub(band.windows as usize);
        let counts = windows[measured..]
            .iter()
            .fold(Counts::default(), |sum, window| sum + window.counts);
        let (decision, decisions) = self.decision();
        Ok(Steady {
            counts,
            is_steady,
            windows,
            warm,
            segment_pages,
            disks: self.disks(),
            efficiency: self.efficiency(),
            decision,
            decisions,
        })
    }
}

impl Steady {
    /// Requests in a second.
    pub fn throughput(&self) -> f64 {
        self.counts.throughput()
    }

    /// Share of live pages in the segments that were cleaned.
    pub fn cleaning_utilisation(&self) -> f64 {
        self.counts.cleaning_utilisation(self.segment_pages)
    }

    /// Mean time to write a page, in units of the time to write a segment divided by its pages, if a page that is
    /// overwritten costs `efficiency` of these units.
    pub fn write_cost(&self, efficiency: f64) -> f64 {
        self.counts.write_cost(self.segment_pages, efficiency)
    }

    /// Mean service times of a page and of a chunk of a segment, in milliseconds.
    pub fn service_ms(&self) -> (f64, f64) {
        let page = [Work::PageRead, Work::PageWrite, Work::Plug];
        let chunk = [Work::Append, Work::CleanRead, Work::CleanWrite];
        (self.counts.mean_ms(&page), self.counts.mean_ms(&chunk))
    }

    /// Share of the time that disks were idle.
    pub fn idle(&self) -> f64 {
        self.counts.idle(self.disks)
    }
}
