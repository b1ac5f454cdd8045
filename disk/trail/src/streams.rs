//! Streams: commits that write adjacent blocks one after the other, with other commits between them.

use std::ops::Range;
use tonearm_base::Lsn;

/// Streams that are known at a time. Each commit that is in none begins two.
const KNOWN: usize = 16;
/// Blocks that a stream may leave out: a file system has pages between the blocks of a file.
const GAP: u64 = 8;

/// Commits that write adjacent blocks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stream {
    /// Its number.
    pub id: u64,
    /// The block after the last one.
    next: u64,
    /// Bytes of its commits.
    pub bytes: u64,
    /// The first of its commits of which it is not known yet whether it is large.
    pub from: Lsn,
}

/// The streams of the last commits, the latest first.
#[derive(Default)]
pub(crate) struct Streams {
    known: [Stream; KNOWN],
    begun: u64,
}

impl Streams {
    /// Adds commit `lsn`, which writes `bytes` into the blocks `writes`. Its stream: one that it continues, else a new one.
    ///
    /// # Panics
    /// When it writes nothing.
    pub fn add(
        &mut self,
        lsn: Lsn,
        bytes: u64,
        mut writes: impl DoubleEndedIterator<Item = Range<u64>> + Clone,
    ) -> &mut Stream {
        let continued = writes.clone().find_map(|blocks| {
            let mut known = self.known.iter();
            let goes_on = |stream: &Stream| {
                stream.bytes > 0 && (stream.next..stream.next + GAP).contains(&blocks.start)
            };
            Some((known.position(goes_on)?, blocks.end))
        });
        if let Some((at, end)) = continued {
            self.known[..=at].rotate_right(1);
            let stream = &mut self.known[0];
            stream.next = end;
            stream.bytes += bytes;
            return stream;
        }
        // The next commit of a stream may go on after any write of this one. Files' blocks are before or after those of pages.
        let first = writes.next();
        for blocks in writes.next_back().into_iter().chain(first) {
            self.begun += 1;
            self.known.rotate_right(1);
            self.known[0] = Stream {
                id: self.begun,
                next: blocks.end,
                bytes,
                from: lsn,
            };
        }
        &mut self.known[0]
    }
}
