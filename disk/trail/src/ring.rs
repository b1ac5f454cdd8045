//! Tracks as a ring (Trail 4.1): which sectors of which track the next record may take.
//!
//! Tracks are counted without end (`lap * tracks + index`), so that order is a plain comparison. Only the
//! current track takes records; where on it is the caller's choice, since a head may be anywhere over it.

use std::ops::Range;

/// The ring's state. Sectors are counted from the start of their track.
#[derive(Clone, Debug)]
pub struct Ring {
    tracks: u64,
    /// Count of the track being written.
    current: u64,
    /// Sectors of it.
    length: u64,
    /// Free ranges of it, ascending, none empty.
    free: Vec<Range<u64>>,
    /// No track has been opened in this epoch.
    fresh: bool,
    /// Count of the first track that must not be overwritten: that of the durable log head.
    head: u64,
}

impl Ring {
    /// A ring whose next record goes to track `start`; `head` is the track of the log head.
    pub fn new(tracks: u64, start: u64, head: u64) -> Self {
        let current = tracks + start - 1 + tracks;
        // The newest count with the head's index that is not beyond the start.
        let behind = (start + tracks - head) % tracks;
        Self {
            tracks,
            current,
            length: 0,
            free: Vec::new(),
            fresh: true,
            head: current + 1 - behind,
        }
    }

    /// Free ranges of the current track. Its last sector is given only to a `marker`.
    pub fn free(&self, marker: bool) -> impl Iterator<Item = Range<u64>> {
        let usable = self.length.saturating_sub(u64::from(!marker));
        let free = self.free.iter();
        free.map(move |range| range.start..range.end.min(usable))
            .filter(|range| !range.is_empty())
    }

    /// The first free range of the current track that has at least `min` sectors.
    pub fn first_fit(&self, min: u64, marker: bool) -> Option<Range<u64>> {
        self.free(marker)
            .find(|range| range.end - range.start >= min)
    }

    /// Makes the next track the current one, which has `length` sectors.
    ///
    /// # Panics
    /// When it is not free ([`Ring::is_next_free`]).
    pub fn open(&mut self, length: u64) {
        assert!(self.is_next_free(true), "a track that is in use");
        self.fresh = false;
        self.current += 1;
        self.length = length;
        self.free.clear();
        self.free.push(0..length);
    }

    /// True when the next track may be opened. Two tracks stay free: the first record of an epoch has no track
    /// of its own to leave a marker on, and a `marker` may find its track full: those may take one of the
    /// two.
    pub fn is_next_free(&self, marker: bool) -> bool {
        let spare = u64::from(marker || self.fresh);
        self.used() < self.tracks - 2 + spare
    }

    /// Uses up `range` of the current track.
    ///
    /// # Panics
    /// When it is not free.
    pub fn take(&mut self, range: Range<u64>) {
        let at = self
            .free
            .iter()
            .position(|free| free.start <= range.start && range.end <= free.end)
            .expect("a record over sectors that are not free");
        let free = self.free.remove(at);
        for rest in [range.end..free.end, free.start..range.start] {
            if !rest.is_empty() {
                self.free.insert(at, rest);
            }
        }
    }

    /// Sectors of the current track.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Sectors of the current track that have been used.
    pub fn used_sectors(&self) -> u64 {
        let free = self.free.iter();
        self.length - free.map(|range| range.end - range.start).sum::<u64>()
    }

    /// True when the next track could be opened if the log head were on track `head`.
    pub fn may_open(&self, head: u64) -> bool {
        self.fresh || self.current + 1 - head < self.tracks - 2
    }

    /// Tracks that records may open before the log head moves.
    pub fn openable(&self) -> u64 {
        (self.tracks - 2).saturating_sub(self.used())
    }

    /// Count of the current track.
    pub fn current(&self) -> u64 {
        self.current
    }

    /// Index of the current track.
    pub fn current_index(&self) -> u64 {
        self.current % self.tracks
    }

    /// Index of the track behind the current one.
    pub fn next_index(&self) -> u64 {
        (self.current + 1) % self.tracks
    }

    /// Count of the durable log head's track.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Count of the newest use of the track with index `index`.
    pub fn count_of(&self, index: u64) -> u64 {
        self.current - (self.current + self.tracks - index) % self.tracks
    }

    /// A durable record has told that the log head is on track `head` (a count).
    pub fn set_head(&mut self, head: u64) {
        self.head = self.head.max(head);
        assert!(self.head <= self.current + 1, "a log head beyond the log");
    }

    /// Tracks from the durable log head to the current one, in use.
    pub fn used(&self) -> u64 {
        (self.current + 1).saturating_sub(self.head)
    }

    /// All tracks.
    pub fn tracks(&self) -> u64 {
        self.tracks
    }
}
