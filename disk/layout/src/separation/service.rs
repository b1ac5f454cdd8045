//! Measures how long the device takes for single pages and for appended ones, from which the separator gets E.
//!
//! Several operations may be under way at once, so the time from begin to end of one is no measure of what it costs.
//! While operations are under way, the time that passes is divided among them.

use tonearm_base::Nanos;

/// Operations after which the sums are halved, so that old ones count less (HyLog 4.2 takes the last 10,000).
const RECENT: u64 = 10_000;
/// Time after which the share of idle time is halved likewise, in nanoseconds.
const RECENT_NANOS: f64 = 120e9;
/// Fewest operations of a kind for a mean.
const FEWEST: u64 = 100;

/// Kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A page is overwritten in place.
    PageWrite,
    /// Pages are appended.
    Append,
}

#[derive(Clone, Copy, Default, Debug)]
struct Sum {
    under_way: u64,
    operations: u64,
    pages: u64,
    nanos: f64,
}

/// Recent service times.
#[derive(Clone, Debug, Default)]
pub struct ServiceTimes {
    now: Nanos,
    sums: [Sum; 2],
    /// Time with and without an operation under way.
    busy: f64,
    idle: f64,
}

impl ServiceTimes {
    /// Divides the time since the last call among the operations under way.
    fn advance(&mut self, now: Nanos) {
        let passed = now.0.saturating_sub(self.now.0) as f64;
        self.now = now;
        let all: u64 = self.sums.iter().map(|sum| sum.under_way).sum();
        if all == 0 {
            self.idle += passed;
            return;
        }
        self.busy += passed;
        for sum in &mut self.sums {
            sum.nanos += passed * sum.under_way as f64 / all as f64;
        }
    }

    /// An operation begins.
    pub fn begin(&mut self, kind: Kind, now: Nanos) {
        self.advance(now);
        self.sums[kind as usize].under_way += 1;
    }

    /// An operation ends that has moved `pages` pages.
    ///
    /// # Panics
    /// When none has begun.
    pub fn end(&mut self, kind: Kind, pages: u64, now: Nanos) {
        self.advance(now);
        let sum = &mut self.sums[kind as usize];
        assert!(sum.under_way > 0, "an operation ends that has begun");
        sum.under_way -= 1;
        sum.operations += 1;
        sum.pages += pages;
        if sum.operations >= RECENT {
            (sum.operations, sum.pages) = (sum.operations / 2, sum.pages / 2);
            sum.nanos /= 2.0;
        }
        if self.busy + self.idle > RECENT_NANOS {
            (self.busy, self.idle) = (self.busy / 2.0, self.idle / 2.0);
        }
    }

    /// Mean nanoseconds of the device for one page of `kind`; none after too few operations.
    pub fn page_nanos(&self, kind: Kind) -> Option<f64> {
        let sum = &self.sums[kind as usize];
        (sum.operations >= FEWEST && sum.pages > 0).then(|| sum.nanos / sum.pages as f64)
    }

    /// Share of the recent time without an operation under way.
    pub fn idle(&self) -> f64 {
        let all = self.busy + self.idle;
        if all > 0.0 { self.idle / all } else { 0.0 }
    }

    /// True when enough operations of `kind` were measured.
    pub fn is_known(&self, kind: Kind) -> bool {
        self.sums[kind as usize].operations >= FEWEST
    }

    /// Segment I/O efficiency (equation 1): the time of a page that is overwritten in place, in units of that of an
    /// appended one. None while too little is known.
    pub fn efficiency(&self) -> Option<f64> {
        let append = self.page_nanos(Kind::Append)?;
        let write = self.page_nanos(Kind::PageWrite)?;
        (append > 0.0).then(|| write / append)
    }
}
