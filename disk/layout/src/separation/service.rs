//! Measures how long the device takes for single pages and for appended ones, from which the separator gets E.
//!
//! Several operations may be under way at once, and wait for each other. So an operation took the time since the one
//! before it ended, or since its own begin if that was later. On a device that serves one operation at a time this is its
//! service time, whatever the order and however many wait. On several devices side by side it is the time that each
//! operation takes from all of them.

use tonearm_base::Nanos;

/// Fewest operations of a kind for a mean.
const FEWEST: u64 = 100;

/// Kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Pages are read. Without them, writes would seem to take the time of the reads that they wait for.
    Read,
    /// A page is overwritten in place.
    PageWrite,
    /// Pages are appended.
    Append,
}

#[derive(Clone, Copy, Default, Debug)]
struct Sum {
    operations: u64,
    pages: u64,
    nanos: f64,
}

/// Recent service times.
#[derive(Clone, Debug, Default)]
pub struct ServiceTimes {
    /// When the last operation ended.
    last: Nanos,
    sums: [Sum; 3],
}

impl ServiceTimes {
    /// Notes an operation of `pages` pages. Operations come in the order of their ends.
    pub fn ended(&mut self, kind: Kind, pages: u64, began: Nanos, ended: Nanos) {
        let nanos = ended.0.saturating_sub(began.0.max(self.last.0));
        self.last = ended;
        let sum = &mut self.sums[kind as usize];
        sum.operations += 1;
        sum.pages += pages;
        sum.nanos += nanos as f64;
    }

    /// Lets all operations so far count half as much as before. HyLog 4.2 takes the last 10,000 instead. Then a kind that
    /// became rare would long be judged by the load of earlier.
    pub fn halve(&mut self) {
        for sum in &mut self.sums {
            (sum.operations, sum.pages) = (sum.operations / 2, sum.pages / 2);
            sum.nanos /= 2.0;
        }
    }

    /// Mean nanoseconds of the device for one page of `kind`; none after too few operations.
    pub fn page_nanos(&self, kind: Kind) -> Option<f64> {
        let sum = &self.sums[kind as usize];
        (sum.operations >= FEWEST && sum.pages > 0).then(|| sum.nanos / sum.pages as f64)
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
