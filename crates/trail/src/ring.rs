//! Tracks as a ring (Trail 4.1): which sector the next record takes.
//!
//! Tracks are counted without end (`lap * tracks + index`), so that order is a plain comparison.

/// The ring's state.
#[derive(Clone, Debug)]
pub struct Ring {
    tracks: u64,
    track_sectors: u64,
    /// Count of the track being written.
    current: u64,
    /// Next free sector within it.
    next: u64,
    /// No track has been opened in this epoch.
    fresh: bool,
    /// Count of the first track that must not be overwritten: that of the durable log head.
    head: u64,
}

impl Ring {
    /// A ring whose next record goes to the start of track `start`; `head` is the track of the log head.
    pub fn new(tracks: u64, track_sectors: u64, start: u64, head: u64) -> Self {
        let current = tracks + start - 1 + tracks;
        // The newest count with the head's index that is not beyond the start.
        let behind = (start + tracks - head) % tracks;
        Self {
            tracks,
            track_sectors,
            current,
            next: track_sectors,
            fresh: true,
            head: current + 1 - behind,
        }
    }

    /// First sector (of the log) and number of sectors for a record that needs at least `min`; moves to
    /// the next track when the rest of this one is too small. The track's last sector is given only to
    /// a `marker`. `None` when the next track is not free.
    pub fn place(&mut self, min: u64, marker: bool) -> Option<(u64, u64)> {
        let usable = self.track_sectors - u64::from(!marker);
        if self.next + min > usable {
            // Two tracks stay free. The first record of an epoch has no track of its own to leave a marker
            // on, and a marker may find its track full: those may take one of the two.
            let spare = u64::from(marker || self.fresh);
            if self.used() + 1 > self.tracks - 2 + spare {
                return None;
            }
            self.fresh = false;
            self.current += 1;
            self.next = 0;
        }
        Some((
            self.current % self.tracks * self.track_sectors + self.next,
            usable - self.next,
        ))
    }

    /// Uses up `sectors` from the place given last.
    pub fn take(&mut self, sectors: u64) {
        self.next += sectors;
        assert!(
            self.next <= self.track_sectors,
            "a record over the end of its track"
        );
    }

    /// True when a record of `min` sectors needs the next track.
    pub fn is_full_for(&self, min: u64) -> bool {
        self.next + min > self.track_sectors - 1
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
