//! The pages that a trace touches, numbered without gaps in the order of device and address.
//!
//! Memory holds 24 bytes for each run of neighbouring pages, however long the requests are.

use std::ops::Range;

/// Collected spans that are not yet merged with the others.
const UNMERGED_MIN: usize = 1 << 20;

/// A page of a device.
type Place = (u32, u64);

/// Pages that follow each other on a device: the first one, and the one after the last.
type Span = (Place, u64);

/// The pages of the requests that were added so far.
#[derive(Default)]
pub struct Touched {
    spans: Vec<Span>,
    /// Spans after the last merge.
    merged: usize,
}

/// A span with its place in the dense space.
struct Run {
    first: Place,
    /// Number of the first page in the dense space.
    number: u64,
}

/// The dense space.
pub struct Footprint {
    runs: Vec<Run>,
    pages: u64,
}

impl Touched {
    /// Adds pages of a device. An empty range adds none.
    pub fn add(&mut self, device: u32, pages: Range<u64>) {
        if pages.is_empty() {
            return;
        }
        self.spans.push(((device, pages.start), pages.end));
        if self.spans.len() > 2 * self.merged + UNMERGED_MIN {
            self.merge();
        }
    }

    /// How many pages were added so far, each counted once.
    pub fn pages(&mut self) -> u64 {
        self.merge();
        let pages = self.spans.iter().map(|(first, end)| end - first.1);
        pages.sum()
    }

    /// Sorts the spans and joins those that overlap or touch.
    fn merge(&mut self) {
        self.spans.sort_unstable();
        self.spans.dedup_by(|next, before| {
            let ((device, first), end) = *next;
            let joins = before.0.0 == device && first <= before.1;
            if joins {
                before.1 = before.1.max(end);
            }
            joins
        });
        self.merged = self.spans.len();
    }
}

impl Footprint {
    /// Numbers the pages.
    pub fn of(mut touched: Touched) -> Self {
        touched.merge();
        let mut pages = 0;
        let mut runs = Vec::with_capacity(touched.spans.len());
        for (first, end) in touched.spans {
            runs.push(Run {
                first,
                number: pages,
            });
            pages += end - first.1;
        }
        Self { runs, pages }
    }

    /// How many there are.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The number of a page; `None` if it was not touched. Pages of one request have consecutive numbers.
    pub fn number(&self, device: u32, page: u64) -> Option<u64> {
        let place = (device, page);
        let index = self.runs.partition_point(|run| run.first <= place);
        let run = &self.runs[index.checked_sub(1)?];
        let end = self.runs.get(index).map_or(self.pages, |run| run.number);
        let number = run.number + (page - run.first.1);
        (run.first.0 == device && number < end).then_some(number)
    }
}
