//! Measures how long the device takes for pages that are overwritten in place and for appended ones, from which the
//! separator gets E.
//!
//! Several operations may be under way at once, and wait for each other. So an operation took the time since the one
//! before it ended, or since its own begin if that was later. On a device that serves one operation at a time this is its
//! service time, whatever the order and however many wait. On several devices side by side it is the time that each
//! operation takes from all of them.
//!
//! A write may end in a volatile cache, and the flush after it takes the time. So writes count from flush to flush, the
//! flush included, and only those without writes of another kind between.

use crate::separation::cost::Efficiency;
use tonearm_base::Nanos;

/// Fewest pages that are overwritten for a mean time.
pub const PAGES_MIN: usize = 32;
/// Most. The way to the first page and the flush count as well, and should be a small part.
pub const PAGES_MAX: usize = 512;
/// Fewest flushes after appended pages for a mean time. The drive turns to a place by chance before it writes there, and
/// appended pages are few writes.
const APPENDS_MIN: u64 = 4;

/// Fewest pages that come home for the mean time with cleaning.
const APPENDED_MIN: u64 = 4096;
/// The cleaner keeps pace when it reads so many pages for each one that is appended. Earlier there are free segments left,
/// and cleaning seems to cost little.
const CLEANED_MIN: f64 = 0.9;
/// Pages after which older ones count half in what is known of plugging.
const RECENT: f64 = 4096.0;

/// Kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Pages are overwritten in place as if few pages were to be overwritten.
    Few,
    /// Pages are overwritten in place as if all pages of a largest round were.
    Many,
    /// Pages are appended.
    Append,
    /// Pages are overwritten in place, and their time does not count.
    Sweep,
    /// The cleaner writes blocks into holes.
    Plug,
    /// The cleaner reads a segment.
    Clean,
    /// Pages are read. Without them, writes would seem to take the time of the reads that they wait for.
    Read,
}

#[derive(Clone, Copy, Default, Debug)]
struct Sum {
    flushes: u64,
    pages: u64,
    nanos: f64,
}

/// What was done between flushes with nothing overwritten between them.
#[derive(Clone, Copy, Default, Debug)]
struct Appended {
    /// Pages that came home.
    written_back: u64,
    /// All pages that were appended, those that the cleaner copied included.
    pages: u64,
    /// Pages that the cleaner read.
    cleaned: u64,
    nanos: f64,
}

/// The mean of recent pages, whatever the intervals.
#[derive(Clone, Copy, Default, Debug)]
struct Recent {
    pages: f64,
    nanos: f64,
}

impl Recent {
    /// Older pages count half once as many as [`RECENT`] have come after them.
    fn add(&mut self, pages: u64, nanos: f64) {
        if self.pages > RECENT {
            (self.pages, self.nanos) = (self.pages / 2.0, self.nanos / 2.0);
        }
        (self.pages, self.nanos) = (self.pages + pages as f64, self.nanos + nanos);
    }

    fn mean(&self) -> Option<f64> {
        (self.pages >= PAGES_MIN as f64).then(|| self.nanos / self.pages)
    }
}

/// Service times by [`Kind`].
#[derive(Clone, Debug)]
pub struct ServiceTimes {
    /// Fewest appended pages before a flush that count. Fewer, such as those of notes alone, take longer each.
    appended_min: u64,
    /// When the last operation ended.
    last: Nanos,
    /// Since the last flush.
    unflushed: [Sum; 6],
    /// Pages that came home since then and were appended.
    written_back: u64,
    /// Of this interval.
    sums: [Sum; 3],
    appended: Appended,
    /// Nanoseconds of a page: the mean of those of the last interval that had enough, and of what was known before.
    page_nanos: [Option<f64>; 3],
    /// Nanoseconds of a page that came home in the last interval and was appended, with the cleaning that it needed.
    appended_nanos: Option<f64>,
    recently_appended: Recent,
    recently_plugged: Recent,
}

impl ServiceTimes {
    /// Nothing is known. Fewer than `appended_min` pages that are appended before a flush do not count.
    pub fn new(appended_min: u64) -> Self {
        Self {
            appended_min,
            last: Nanos::default(),
            unflushed: Default::default(),
            sums: Default::default(),
            page_nanos: Default::default(),
            written_back: 0,
            appended: Appended::default(),
            appended_nanos: None,
            recently_appended: Recent::default(),
            recently_plugged: Recent::default(),
        }
    }

    /// Notes an operation of `pages` pages. Operations and flushes come in the order of their ends.
    pub fn ended(&mut self, kind: Kind, pages: u64, began: Nanos, ended: Nanos) {
        let nanos = self.since_last(began, ended);
        if kind != Kind::Read {
            let sum = &mut self.unflushed[kind as usize];
            sum.pages += pages;
            sum.nanos += nanos;
        }
    }

    /// Notes a flush of what was written so far.
    pub fn flushed(&mut self, began: Nanos, ended: Nanos) {
        let nanos = self.since_last(began, ended);
        let written = std::mem::take(&mut self.unflushed);
        let written_back = std::mem::take(&mut self.written_back);
        let [few, many, append, sweep, plug, clean] = written;
        if few.pages + many.pages + sweep.pages == 0 {
            let sum = &mut self.appended;
            sum.written_back += written_back;
            sum.pages += append.pages;
            sum.cleaned += clean.pages;
            sum.nanos += append.nanos + plug.nanos + clean.nanos + nanos;
        }
        let mut kinds = (0..Kind::Clean as usize).filter(|kind| written[*kind].pages > 0);
        let (Some(kind), None) = (kinds.next(), kinds.next()) else {
            return;
        };
        let too_few = kind == Kind::Append as usize && append.pages < self.appended_min;
        if kind == Kind::Sweep as usize || too_few {
            return;
        }
        let (pages, nanos) = (written[kind].pages, written[kind].nanos + nanos);
        if kind == Kind::Plug as usize {
            self.recently_plugged.add(pages, nanos);
            return;
        }
        if kind == Kind::Append as usize {
            self.recently_appended.add(pages, nanos);
        }
        let sum = &mut self.sums[kind];
        sum.flushes += 1;
        sum.pages += pages;
        sum.nanos += nanos;
    }

    /// Notes that `pages` pages came home, which were appended.
    pub fn written_back(&mut self, pages: u64) {
        self.written_back += pages;
    }

    fn since_last(&mut self, began: Nanos, ended: Nanos) -> f64 {
        let nanos = ended.0.saturating_sub(began.0.max(self.last.0));
        self.last = ended;
        nanos as f64
    }

    /// Ends an interval. HyLog 4.2 takes the last 10,000 operations instead. Then a kind that became rare would long be
    /// judged by the load of earlier.
    pub fn end_interval(&mut self) {
        let sums = std::mem::take(&mut self.sums);
        let appended = std::mem::take(&mut self.appended);
        let keeps_pace = appended.cleaned as f64 >= CLEANED_MIN * appended.pages as f64;
        self.appended_nanos = (appended.written_back >= APPENDED_MIN && keeps_pace)
            .then(|| appended.nanos / appended.written_back as f64);
        for kind in [Kind::Few, Kind::Many, Kind::Append] {
            let sum = &sums[kind as usize];
            if Self::suffices(kind, sum) {
                let nanos = sum.nanos / sum.pages as f64;
                let known = &mut self.page_nanos[kind as usize];
                *known = Some(known.map_or(nanos, |known| (known + nanos) / 2.0));
            }
        }
    }

    fn suffices(kind: Kind, sum: &Sum) -> bool {
        match kind {
            Kind::Append => sum.flushes >= APPENDS_MIN,
            _ => sum.pages >= PAGES_MIN as u64,
        }
    }

    /// True when too little of what was appended in this interval counts, and `pages` would count.
    pub fn wants_appended(&self, pages: u64) -> bool {
        pages >= self.appended_min
            && !Self::suffices(Kind::Append, &self.sums[Kind::Append as usize])
    }

    /// Mean nanoseconds of the device for one page of `kind`, with its share of flushes; none while too little is known.
    pub fn page_nanos(&self, kind: Kind) -> Option<f64> {
        self.page_nanos[kind as usize]
    }

    /// Cost of a page that came home in the last interval and was appended, with its cleaning, in units of an appended page.
    /// None when too few were, and while the cleaner is behind.
    pub fn appending_cost(&self) -> Option<f64> {
        Some(self.appended_nanos? / self.page_nanos(Kind::Append)?)
    }

    /// Segment I/O efficiency of blocks that are written into holes (equation 1), by the recent ones. None while too little
    /// is known.
    pub fn plugging_efficiency(&self) -> Option<f64> {
        let append = self.recently_appended.mean()?;
        (append > 0.0).then_some(self.recently_plugged.mean()? / append)
    }

    /// Segment I/O efficiency (equation 1): the time of a page that is overwritten in place, in units of that of an
    /// appended one. None while too little is known.
    pub fn efficiency(&self) -> Option<Efficiency> {
        let append = self.page_nanos(Kind::Append)?;
        let few = self.page_nanos(Kind::Few)?;
        let many = self
            .page_nanos(Kind::Many)
            .map_or(few, |many| many.min(few));
        (append > 0.0).then(|| Efficiency {
            few: few / append,
            many: many / append,
        })
    }
}
