//! The segments of a drive's buffer: the sectors in each, and the segment that the drive fills.

/// Sectors in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    start: u64,
    end: u64,
    used: u64,
}

/// Segments. New content replaces the least recently used one.
pub struct Buffer {
    segments: Vec<Segment>,
    size: u64,
    clock: u64,
}

impl Buffer {
    /// A buffer of `segments` segments of `size` sectors.
    pub fn new(segments: u32, size: u32) -> Self {
        Self {
            segments: vec![Segment::default(); segments as usize],
            size: u64::from(size),
            clock: 0,
        }
    }

    /// The segment that contains `lba`, or whose last sector lies right before it.
    #[inline]
    pub fn find(&self, lba: u64) -> Option<usize> {
        let mut adjacent = None;
        for (index, segment) in self.segments.iter().enumerate() {
            if segment.start <= lba && lba < segment.end {
                return Some(index);
            }
            if segment.end == lba && segment.used > 0 {
                adjacent = Some(index);
            }
        }
        adjacent
    }

    /// First sector of a segment, and the one after its last.
    #[inline]
    pub fn range(&self, index: usize) -> (u64, u64) {
        let segment = &self.segments[index];
        (segment.start, segment.end)
    }

    /// Notes that a segment was of use.
    #[inline]
    pub fn touch(&mut self, index: usize) {
        self.clock += 1;
        self.segments[index].used = self.clock;
    }

    /// The least recently used segment, which [`Self::take`] takes.
    #[inline]
    pub fn oldest(&self) -> usize {
        let mut index = 0;
        for (at, segment) in self.segments.iter().enumerate() {
            if segment.used < self.segments[index].used {
                index = at;
            }
        }
        index
    }

    /// Replaces the least recently used segment by one for the sectors `[start, end)`.
    #[inline]
    pub fn take(&mut self, start: u64, end: u64) -> usize {
        let index = self.oldest();
        self.segments[index].start = start.max(end.saturating_sub(self.size));
        self.segments[index].end = end;
        self.touch(index);
        index
    }

    /// Extends a segment to `end`. If it is full, the oldest sectors leave it.
    #[inline]
    pub fn extend(&mut self, index: usize, end: u64) {
        let segment = &mut self.segments[index];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.size));
    }

    /// The sectors before `start` leave a segment.
    #[inline]
    pub fn drop_before(&mut self, index: usize, start: u64) {
        let segment = &mut self.segments[index];
        segment.start = segment.start.max(start.min(segment.end));
    }

    /// Removes the sectors of `[start, end)`, which are being written. Of a segment that contains a part of them, the
    /// front is kept.
    #[inline]
    pub fn forget(&mut self, start: u64, end: u64) {
        for segment in &mut self.segments {
            if start < segment.end && segment.start < end {
                segment.end = start.max(segment.start);
            }
        }
    }

    /// True without any segment.
    pub fn is_none(&self) -> bool {
        self.segments.is_empty()
    }
}
