//! A second, small simulator of LFS and WOLF: one user, one disk, no time. HyLog 5.1 verifies its simulator with such a one
//! (TinySim). It shares no code with [`Simulation`](crate::Simulation), so that both can be compared.

use crate::setup::{Layout, Setup};
use crate::steady::Steady;
use tonearm_workload::{Workload, WorkloadError};

/// Fewer free segments start the cleaner.
const FREE_MIN: usize = 10;

/// A log with a cleaner by cost and age.
pub struct Tiny {
    pages: usize,
    /// Pages of a segment.
    capacity: usize,
    segments: usize,
    /// Segments that are written at a time, sorted by how often the pages were written.
    sorted: usize,
    /// Segments that a pass of the cleaner reads, on average.
    pass: f64,
    /// Writes after which the counts of the pages are halved.
    interval: u64,
    /// Writes before the measurement, and in it.
    warm: u64,
    measured: u64,
}

/// Pages by segment, in the order of the log. A page is live in the segment that `home` names.
struct State {
    content: Vec<Vec<u32>>,
    live: Vec<usize>,
    home: Vec<Option<usize>>,
    /// Time of the last write of each page, and of the youngest page of each segment.
    written: Vec<u64>,
    youngest: Vec<u64>,
    free: Vec<usize>,
    /// Part of a segment that the last pass has left to the next one.
    left: f64,
}

impl State {
    fn fill(&mut self, pages: &[u32]) {
        let segment = self.free.remove(0);
        self.content[segment] = pages.to_vec();
        self.live[segment] = pages.len();
        self.youngest[segment] = 0;
        for page in pages {
            self.home[*page as usize] = Some(segment);
            let at = self.written[*page as usize];
            self.youngest[segment] = self.youngest[segment].max(at);
        }
    }

    fn drop(&mut self, page: u32) {
        if let Some(segment) = self.home[page as usize].take() {
            self.live[segment] -= 1;
            if self.live[segment] == 0 {
                self.content[segment].clear();
                self.free.push(segment);
            }
        }
    }
}

impl Tiny {
    /// The counterpart of `setup`, of which `steady` was measured.
    ///
    /// Both measure the same writes after the same warm-up: cold pages need long to reach their final places. A pass of the
    /// cleaner reads as many segments as the mean pass in `steady`. There users take free segments while a pass is under
    /// way, which makes it shorter; a simulator without time cannot know how much. Counts are halved as often as those of the
    /// separator.
    pub fn like(setup: &Setup, steady: &Steady) -> Self {
        let all: u64 = steady
            .windows
            .iter()
            .map(|window| window.counts.writes)
            .sum();
        let passes: u64 = steady.counts.passes.iter().sum();
        let pass = steady.counts.clean_reads as f64 / passes.max(1) as f64;
        Self {
            pages: setup.pages as usize,
            capacity: setup.segment_pages() as usize,
            segments: setup.segments() as usize,
            sorted: if setup.layout == Layout::Wolf { 2 } else { 1 },
            pass,
            interval: all / steady.decisions.max(1),
            warm: all - steady.counts.writes,
            measured: steady.counts.writes,
        }
    }

    /// Segment I/Os for each segment of new data, under the writes of `load`.
    ///
    /// # Errors
    /// When the load cannot go on.
    pub fn write_cost<W: Workload>(&self, mut load: W) -> Result<f64, WorkloadError> {
        let mut state = State {
            content: vec![Vec::new(); self.segments],
            live: vec![0; self.segments],
            home: vec![None; self.pages],
            written: vec![0; self.pages],
            youngest: vec![0; self.segments],
            free: (0..self.segments).collect(),
            left: 0.0,
        };
        let all: Vec<u32> = (0..self.pages as u32).collect();
        for part in all.chunks(self.capacity) {
            state.fill(part);
        }
        let mut often = vec![0.0_f64; self.pages];
        let (mut buffer, mut moved) = (Vec::new(), Vec::new());
        let (mut new, mut ios, mut now) = (0, 0, 0);
        while now < self.warm + self.measured {
            let Some(access) = load.next_access()? else {
                break;
            };
            if !access.write {
                continue;
            }
            now += 1;
            if now == self.warm {
                (new, ios) = (0, 0);
            }
            if now % self.interval == 0 {
                often.iter_mut().for_each(|count| *count /= 2.0);
            }
            let page = access.page as u32;
            state.written[page as usize] = now;
            often[page as usize] += 1.0;
            if state.home[page as usize].is_none() {
                continue;
            }
            state.drop(page);
            buffer.push(page);
            if buffer.len() < self.capacity * self.sorted {
                continue;
            }
            if self.sorted > 1 {
                buffer.sort_by(|a, b| often[*b as usize].total_cmp(&often[*a as usize]));
            }
            for part in buffer.chunks(self.capacity) {
                state.fill(part);
            }
            (new, ios) = (new + self.sorted, ios + self.sorted);
            buffer.clear();
            while state.free.len() < FREE_MIN {
                ios += self.clean(&mut state, now, &mut moved);
            }
        }
        Ok(ios as f64 / new as f64)
    }

    /// One pass. Returns its segment I/Os.
    fn clean(&self, state: &mut State, now: u64, moved: &mut Vec<u32>) -> usize {
        let mut worth: Vec<(f64, usize)> = (0..self.segments)
            .filter(|segment| (1..self.capacity).contains(&state.live[*segment]))
            .map(|segment| {
                let used = state.live[segment] as f64 / self.capacity as f64;
                let age = (now - state.youngest[segment] + 1) as f64;
                ((1.0 - used) * age / (1.0 + used), segment)
            })
            .collect();
        worth.sort_by(|a, b| b.0.total_cmp(&a.0));
        let count = self.pass + state.left;
        state.left = count.fract();
        let mut live = Vec::new();
        let (mut ios, mut total) = (0, 0);
        for (_, segment) in worth.into_iter().take((count as usize).max(1)) {
            total += state.live[segment];
            if total.div_ceil(self.capacity) > state.free.len() && ios > 0 {
                break;
            }
            ios += 1;
            let content = state.content[segment].iter();
            live.extend(content.filter(|page| state.home[**page as usize] == Some(segment)));
        }
        live.sort_by_key(|page| (state.written[*page as usize], *page));
        for page in live {
            state.drop(page);
            moved.push(page);
            if moved.len() == self.capacity {
                state.fill(moved);
                moved.clear();
                ios += 1;
            }
        }
        ios
    }
}
