//! Tracks as a ring (Trail 4.1): which sectors of which track the next record may take.
//!
//! Tracks are counted without end (`lap * tracks + index`), so that order is a plain comparison. Only the
//! current track takes records. The caller chooses where on the track, because the drive's head may be anywhere
//! over it.

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
    /// True until a track is opened in this epoch.
    fresh: bool,
    /// Count of the first track that must not be overwritten: that of the durable log start.
    log_start: u64,
}

impl Ring {
    /// A ring whose next record goes to track `start`. The log starts on track `log_start`.
    pub fn new(tracks: u64, start: u64, log_start: u64) -> Self {
        let current = tracks + start - 1 + tracks;
        // The newest count with that index that is not beyond `start`.
        let used = (start + tracks - log_start) % tracks;
        Self {
            tracks,
            current,
            length: 0,
            free: Vec::new(),
            fresh: true,
            log_start: current + 1 - used,
        }
    }

    /// Free ranges of the current track. Only a `marker` may take the last sector.
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

    /// Makes the next track, which has `length` sectors, the current one.
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

    /// True when the next track may be opened. Two tracks stay free. One of them is for the first record of an
    /// epoch, which has no current track for a marker, or for a `marker` whose track is full.
    pub fn is_next_free(&self, marker: bool) -> bool {
        let spare = u64::from(marker || self.fresh);
        self.used() < self.tracks - 2 + spare
    }

    /// Takes `range` of the current track.
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

    /// Sectors of the current track that are taken.
    pub fn used_sectors(&self) -> u64 {
        let free = self.free.iter();
        self.length - free.map(|range| range.end - range.start).sum::<u64>()
    }

    /// True when the next track could be opened if the log started on track `log_start`.
    pub fn may_open(&self, log_start: u64) -> bool {
        self.fresh || self.current + 1 - log_start < self.tracks - 2
    }

    /// Tracks that records may open before the log start moves.
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

    /// Index of the track after the current one.
    pub fn next_index(&self) -> u64 {
        (self.current + 1) % self.tracks
    }

    /// Count of the track of the durable log start.
    pub fn log_start(&self) -> u64 {
        self.log_start
    }

    /// Count of the newest use of the track with index `index`.
    pub fn count_of(&self, index: u64) -> u64 {
        self.current - (self.current + self.tracks - index) % self.tracks
    }

    /// A durable record names a log start on track `log_start` (a count).
    pub fn set_log_start(&mut self, log_start: u64) {
        self.log_start = self.log_start.max(log_start);
        assert!(
            self.log_start <= self.current + 1,
            "the log start lies within the log"
        );
    }

    /// Tracks in use: from the durable log start to the current track.
    pub fn used(&self) -> u64 {
        (self.current + 1).saturating_sub(self.log_start)
    }

    /// All tracks.
    pub fn tracks(&self) -> u64 {
        self.tracks
    }
}
