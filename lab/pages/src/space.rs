//! Pages, slots and segments: what lies where.

use crate::sepbit::Sepbit;
use std::collections::VecDeque;

/// No page, or no slot.
const NONE: u32 = u32::MAX;

/// What a segment is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Free,
    /// Being written. Its pages are still in memory.
    Writing,
    Used,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub live: u32,
    /// When the youngest of its pages was written, in page writes since the begin.
    pub youngest: u32,
    /// When it was filled, likewise.
    pub created: u32,
    pub state: State,
    /// In the cold partition.
    pub cold: bool,
    /// The cleaner is emptying it, so no page goes there.
    pub draining: bool,
    /// Its pages have been packed there since the begin.
    pub untouched: bool,
    /// Of SepBIT.
    pub class: u8,
}

/// The map of the whole array.
pub(crate) struct Space {
    pub segment_pages: u32,
    /// Slot of each page; none if it is in a buffer.
    places: Vec<u32>,
    /// Page of each slot.
    owners: Vec<u32>,
    /// When each page was written last, in page writes since the begin.
    pub written: Vec<u32>,
    pub segments: Vec<Segment>,
    /// In the order in which they became free, so that the data spread over the whole space.
    free: VecDeque<u32>,
    /// Slots without a page in used segments, of the hot and the cold partition.
    holes: [u64; 2],
    /// The segment after the last one in which a hole was found.
    cursor: u32,
    /// Slot of a segment from which the next hole is searched for.
    start: u32,
    /// Segments that have their pages since the begin.
    untouched: u32,
}

impl Space {
    /// `pages` pages packed at the front of `segments` segments.
    pub fn new(pages: u32, segments: u32, segment_pages: u32, cold: bool) -> Self {
        let empty = Segment {
            live: 0,
            youngest: 0,
            created: 0,
            state: State::Free,
            cold: false,
            draining: false,
            untouched: false,
            // The oldest pages.
            class: Sepbit::CLASSES - 1,
        };
        let mut space = Self {
            segment_pages,
            places: (0..pages).collect(),
            owners: (0..segments * segment_pages)
                .map(|slot| if slot < pages { slot } else { NONE })
                .collect(),
            written: vec![0; pages as usize],
            segments: vec![empty; segments as usize],
            free: VecDeque::with_capacity(segments as usize),
            holes: [0; 2],
            cursor: 0,
            start: 0,
            untouched: 0,
        };
        for number in 0..segments {
            let live = pages
                .saturating_sub(number * segment_pages)
                .min(segment_pages);
            if live == 0 {
                space.free.push_back(number);
                continue;
            }
            let segment = &mut space.segments[number as usize];
            (segment.live, segment.state, segment.cold) = (live, State::Used, cold);
            segment.untouched = true;
            space.untouched += 1;
            space.holes[usize::from(cold)] += u64::from(segment_pages - live);
        }
        space
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    #[inline]
    pub fn slot(&self, page: u32) -> Option<u32> {
        let slot = self.places[page as usize];
        (slot != NONE).then_some(slot)
    }

    #[inline]
    pub fn segment_of(&self, slot: u32) -> &Segment {
        &self.segments[(slot / self.segment_pages) as usize]
    }

    /// True while the content of `page` is in memory.
    #[inline]
    pub fn in_memory(&self, page: u32) -> bool {
        self.slot(page)
            .is_none_or(|slot| self.segment_of(slot).state == State::Writing)
    }

    /// Takes `page` out of its slot. A used segment without pages becomes free.
    #[inline]
    pub fn remove(&mut self, page: u32) {
        let slot = std::mem::replace(&mut self.places[page as usize], NONE);
        if slot == NONE {
            return;
        }
        self.owners[slot as usize] = NONE;
        let number = slot / self.segment_pages;
        let segment = &mut self.segments[number as usize];
        segment.live -= 1;
        if segment.state == State::Used {
            self.holes[usize::from(segment.cold)] += 1;
            if segment.live == 0 {
                self.release(number);
            }
        }
    }

    fn release(&mut self, number: u32) {
        let segment = &mut self.segments[number as usize];
        self.holes[usize::from(segment.cold)] -= u64::from(self.segment_pages);
        self.untouched -= u32::from(segment.untouched);
        segment.untouched = false;
        (segment.state, segment.draining) = (State::Free, false);
        self.free.push_back(number);
    }

    /// Puts `page`, which has no slot, into `slot`, which has no page.
    #[inline]
    pub fn put(&mut self, page: u32, slot: u32) {
        debug_assert!(self.places[page as usize] == NONE && self.owners[slot as usize] == NONE);
        (self.places[page as usize], self.owners[slot as usize]) = (slot, page);
        let written = self.written[page as usize];
        let segment = &mut self.segments[(slot / self.segment_pages) as usize];
        segment.live += 1;
        segment.youngest = segment.youngest.max(written);
        if segment.state == State::Used {
            self.holes[usize::from(segment.cold)] -= 1;
        }
    }

    /// Notes that `page` was overwritten in its slot.
    pub fn rewritten(&mut self, slot: u32, at: u32) {
        let segment = &mut self.segments[(slot / self.segment_pages) as usize];
        segment.youngest = at;
    }

    /// Takes the longest free segment to be filled.
    pub fn take_free(&mut self, cold: bool, class: u8, now: u32) -> Option<u32> {
        let number = self.free.pop_front()?;
        self.segments[number as usize] = Segment {
            live: 0,
            youngest: 0,
            created: now,
            state: State::Writing,
            cold,
            draining: false,
            untouched: false,
            class,
        };
        Some(number)
    }

    /// The segment has been written.
    pub fn seal(&mut self, number: u32) {
        let segment = &mut self.segments[number as usize];
        segment.state = State::Used;
        self.holes[usize::from(segment.cold)] += u64::from(self.segment_pages - segment.live);
        if segment.live == 0 {
            self.release(number);
        }
    }

    /// Segments that have never been free since the data were packed into them.
    pub fn untouched(&self) -> u32 {
        self.untouched
    }

    /// The live pages of `number`.
    pub fn pages_of(&self, number: u32) -> impl Iterator<Item = u32> + '_ {
        let first = (number * self.segment_pages) as usize;
        let slots = &self.owners[first..first + self.segment_pages as usize];
        slots.iter().copied().filter(|page| *page != NONE)
    }

    /// Slots without a page in used segments of a partition.
    pub fn holes(&self, cold: bool) -> u64 {
        self.holes[usize::from(cold)]
    }

    /// A slot of `number` without a page. Slots that are found one after the other are of different disks, so that no
    /// disk alone has all the writes into holes.
    pub fn hole_in(&mut self, number: u32) -> Option<u32> {
        let segment = &self.segments[number as usize];
        let takes = segment.state == State::Used && !segment.draining;
        if !takes || segment.live == self.segment_pages {
            return None;
        }
        // Steps of the golden section come near to every slot soon.
        let step = (f64::from(self.segment_pages) * 0.618) as u32 + 1;
        self.start = (self.start + step) % self.segment_pages;
        let first = number * self.segment_pages;
        let (after, before) = (self.start..self.segment_pages, 0..self.start);
        let mut slots = after.chain(before).map(|slot| first + slot);
        slots.find(|slot| self.owners[*slot as usize] == NONE)
    }

    /// A hole of the cold partition.
    pub fn cold_hole(&mut self) -> Option<u32> {
        if self.holes(true) == 0 {
            return None;
        }
        let segments = self.segments.len() as u32;
        for _ in 0..segments {
            let number = self.cursor;
            self.cursor = (self.cursor + 1) % segments;
            if self.segments[number as usize].cold
                && let Some(slot) = self.hole_in(number)
            {
                return Some(slot);
            }
        }
        None
    }

    /// Pages in slots, and pages of live counts, for checks.
    #[cfg(test)]
    pub fn check(&self) {
        for (page, slot) in self.places.iter().enumerate() {
            assert!(*slot == NONE || self.owners[*slot as usize] == page as u32);
        }
        let (mut holes, mut free) = ([0; 2], 0);
        for (number, segment) in self.segments.iter().enumerate() {
            let live = self.pages_of(number as u32).count() as u32;
            assert_eq!(live, segment.live);
            match segment.state {
                State::Free => free += 1,
                State::Writing => {}
                State::Used => {
                    holes[usize::from(segment.cold)] += u64::from(self.segment_pages - live);
                }
            }
        }
        assert_eq!((holes, free), (self.holes, self.free.len()));
    }
}
