//! A small simulator of LFS and WOLF, written for this test alone: one user, one disk, no time (HyLog 5.1 has one, too).

use crate::common::{Load, Numbers};

pub struct Tiny {
    pub capacity: usize,
    pub segments: usize,
    /// Segments that are written at a time, sorted by how often the pages were written.
    pub sorted: usize,
    /// Segments that a pass of the cleaner reads.
    pub pass: usize,
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
    /// Segment I/Os for each segment of new data, after `warm` writes and over `writes` more.
    pub fn write_cost(&self, load: Load, seed: u64, warm: u64, writes: u64) -> f64 {
        let count = load.pages as usize;
        let mut state = State {
            content: vec![Vec::new(); self.segments],
            live: vec![0; self.segments],
            home: vec![None; count],
            written: vec![0; count],
            youngest: vec![0; self.segments],
            free: (0..self.segments).collect(),
        };
        let all: Vec<u32> = (0..count as u32).collect();
        for part in all.chunks(self.capacity) {
            state.fill(part);
        }
        let mut numbers = Numbers::new(seed);
        let mut often = vec![0.0_f64; count];
        let (mut buffer, mut moved) = (Vec::new(), Vec::new());
        let (mut new, mut ios) = (0, 0);
        for now in 1..=warm + writes {
            if now == warm {
                (new, ios) = (0, 0);
            }
            if now % (20 * load.pages) == 0 {
                often.iter_mut().for_each(|count| *count /= 2.0);
            }
            let page = load.page(&mut numbers);
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
            while state.free.len() < 10 {
                ios += self.clean(&mut state, now, &mut moved);
            }
        }
        ios as f64 / new as f64
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
        let mut live = Vec::new();
        let (mut ios, mut total) = (0, 0);
        for (_, segment) in worth.into_iter().take(self.pass) {
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
