//! What a simulation counts.

use std::ops::{Add, Sub};

/// What an I/O of a disk is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// A user reads a page.
    PageRead,
    /// A page is overwritten, with the reads that parity needs.
    PageWrite,
    /// A segment of written pages is appended.
    Append,
    /// The cleaner reads a segment.
    CleanRead,
    /// The cleaner writes a segment.
    CleanWrite,
    /// The cleaner writes a page into a hole, with the reads that parity needs.
    Plug,
}

/// Kinds of work.
const WORKS: usize = 6;

/// Counts since the begin. The difference of two is what happened in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Virtual time, in nanoseconds.
    pub nanos: u64,
    /// Requests that are done.
    pub requests: u64,
    /// Reads that began.
    pub reads: u64,
    /// Reads of pages that were in a buffer.
    pub buffer_hits: u64,
    /// Writes that began.
    pub writes: u64,
    /// Writes of pages that were in a buffer already.
    pub absorbed: u64,
    /// Writes of pages that were appended.
    pub hot_writes: u64,
    /// Writes of pages that were overwritten, in their place or in the cold partition.
    pub cold_writes: u64,
    /// Cold writes that moved a page from the hot partition to the cold one.
    pub cooled: u64,
    /// Segments that were appended.
    pub appended: u64,
    /// Segments that the cleaner read.
    pub clean_reads: u64,
    /// Live pages in those that it cleaned.
    pub clean_live: u64,
    /// Segments that it wrote.
    pub clean_writes: u64,
    /// Segments that it read to plug their pages into holes.
    pub plug_reads: u64,
    /// Pages that it wrote into holes.
    pub plugged: u64,
    /// Passes: cleaning and plugging in the hot partition, cleaning and plugging in the cold one.
    pub passes: [u64; 4],
    /// Nanoseconds that disks were busy, by [`Work`].
    pub busy: [u64; WORKS],
    /// I/Os of disks, by [`Work`].
    pub ios: [u64; WORKS],
}

/// The result of `with` on each pair of counts.
fn each(a: Counts, b: Counts, with: fn(u64, u64) -> u64) -> Counts {
    Counts {
        nanos: with(a.nanos, b.nanos),
        requests: with(a.requests, b.requests),
        reads: with(a.reads, b.reads),
        buffer_hits: with(a.buffer_hits, b.buffer_hits),
        writes: with(a.writes, b.writes),
        absorbed: with(a.absorbed, b.absorbed),
        hot_writes: with(a.hot_writes, b.hot_writes),
        cold_writes: with(a.cold_writes, b.cold_writes),
        cooled: with(a.cooled, b.cooled),
        appended: with(a.appended, b.appended),
        clean_reads: with(a.clean_reads, b.clean_reads),
        clean_live: with(a.clean_live, b.clean_live),
        clean_writes: with(a.clean_writes, b.clean_writes),
        plug_reads: with(a.plug_reads, b.plug_reads),
        plugged: with(a.plugged, b.plugged),
        passes: std::array::from_fn(|at| with(a.passes[at], b.passes[at])),
        busy: std::array::from_fn(|at| with(a.busy[at], b.busy[at])),
        ios: std::array::from_fn(|at| with(a.ios[at], b.ios[at])),
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        each(self, other, |a, b| a + b)
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, from: Self) -> Self {
        each(self, from, |a, b| a - b)
    }
}

impl Counts {
    /// Requests in a second.
    pub fn throughput(&self) -> f64 {
        self.requests as f64 / (self.nanos.max(1) as f64 / 1e9)
    }

    /// Cleaning space utilisation: the share of live pages in the segments that were cleaned.
    pub fn cleaning_utilisation(&self, segment_pages: u32) -> f64 {
        let cleaned = self.clean_reads as f64 * f64::from(segment_pages);
        self.clean_live as f64 / cleaned.max(1.0)
    }

    /// Mean time to write a page in units of the time to write a segment divided by its pages. `efficiency` is that of a
    /// page that is overwritten in its place. Pages are those that reached a disk.
    pub fn write_cost(&self, segment_pages: u32, efficiency: f64) -> f64 {
        let pages = f64::from(segment_pages);
        let segments = self.appended + self.clean_reads + self.clean_writes + self.plug_reads;
        let single = (self.plugged + self.cold_writes) as f64 * efficiency;
        let written = self.appended as f64 * pages + self.cold_writes as f64;
        (segments as f64 * pages + single) / written.max(1.0)
    }

    /// Time that disks were busy with writes and cleaning, for each page written, in nanoseconds.
    pub fn write_nanos(&self, segment_pages: u32) -> f64 {
        let busy: u64 = self.busy[Work::PageWrite as usize..].iter().sum();
        let written = self.appended * u64::from(segment_pages) + self.cold_writes;
        busy as f64 / written.max(1) as f64
    }

    /// Share of the time that the disks, `disks` of them, were idle.
    pub fn idle(&self, disks: u32) -> f64 {
        let busy: u64 = self.busy.iter().sum();
        1.0 - busy as f64 / (self.nanos.max(1) as f64 * f64::from(disks))
    }

    /// Mean time of an I/O of the kinds `works`, in milliseconds; 0 without any.
    pub fn mean_ms(&self, works: &[Work]) -> f64 {
        let sum = |of: &[u64; WORKS]| works.iter().map(|work| of[*work as usize]).sum::<u64>();
        sum(&self.busy) as f64 / sum(&self.ios).max(1) as f64 / 1e6
    }

    /// Share of the writes among the page requests that began.
    pub fn write_share(&self) -> f64 {
        self.writes as f64 / (self.reads + self.writes).max(1) as f64
    }
}
