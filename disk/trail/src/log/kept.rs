//! What was last written to the log, kept in memory: an archive that keeps up does not read it from a drive whose head is followed,
//! because each such read moves the head away ("the log disk never services reads", Trail 4.3).

use std::collections::VecDeque;

/// Bytes of log that are kept at most.
pub(crate) const KEPT_BYTES: usize = 16 << 20;

/// A track: the index of its member, and its byte offset there.
pub(crate) type TrackPlace = (usize, u64);

/// The last tracks, oldest first.
#[derive(Default)]
pub(crate) struct KeptTracks {
    /// Readers of the log's history. Without one nothing is kept.
    readers: usize,
    tracks: VecDeque<KeptTrack>,
    bytes: usize,
}

/// All that was written to a track since it was opened.
struct KeptTrack {
    place: TrackPlace,
    /// Byte offset on the track, and content.
    writes: Vec<(usize, Box<[u8]>)>,
    bytes: usize,
}

impl KeptTracks {
    /// A reader begins.
    pub fn add_reader(&mut self) {
        self.readers += 1;
    }

    /// A reader ends.
    pub fn remove_reader(&mut self) {
        self.readers -= 1;
        if self.readers == 0 {
            *self = Self::default();
        }
    }

    /// The track at `place` is opened: what it had is overwritten from now on.
    pub fn open(&mut self, place: TrackPlace) {
        if self.readers == 0 {
            return;
        }
        while self.tracks.iter().any(|track| track.place == place) {
            self.drop_oldest();
        }
        self.tracks.push_back(KeptTrack {
            place,
            writes: Vec::new(),
            bytes: 0,
        });
    }

    /// The drive has this content of the track at `place`, which takes records, and no write of it is under way.
    pub fn begin_with(&mut self, place: TrackPlace, content: &[u8]) {
        self.open(place);
        self.note(place, 0, content);
    }

    /// `content` goes to byte `offset` of the track at `place`.
    pub fn note(&mut self, place: TrackPlace, offset: usize, content: &[u8]) {
        let mut tracks = self.tracks.iter_mut().rev();
        let Some(track) = tracks.find(|track| track.place == place) else {
            return;
        };
        track.writes.push((offset, content.into()));
        track.bytes += content.len();
        self.bytes += content.len();
        while self.bytes > KEPT_BYTES {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(track) = self.tracks.pop_front() {
            self.bytes -= track.bytes;
        }
    }

    /// Copies the track at `place` to `out`, zeroes where nothing was written. False when it is not kept.
    pub fn read(&self, place: TrackPlace, out: &mut [u8]) -> bool {
        let mut tracks = self.tracks.iter();
        let Some(track) = tracks.find(|track| track.place == place) else {
            return false;
        };
        out.fill(0);
        for (offset, content) in &track.writes {
            out[*offset..offset + content.len()].copy_from_slice(content);
        }
        true
    }
}

#[cfg(test)]
#[path = "kept_test.rs"]
mod kept_test;
