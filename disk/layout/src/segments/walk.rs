//! Finds partial segments in the bytes of a segment, and checks which of their parts are whole.

use crate::error::HomeError;
use crate::segments::Segments;
use crate::separation::Kind;
use std::collections::BTreeSet;
use tonearm_base::crc32c;
use tonearm_format::{Summary, summary_blocks};

/// A segment, or the rest of one, as read from the medium.
pub(crate) struct Content {
    /// Place of the first block.
    pub first: u64,
    /// Unreadable blocks are zeroes here.
    pub bytes: Vec<u8>,
    /// Blocks that could not be read, with the device's error for the first.
    pub unreadable: BTreeSet<u64>,
    pub error: Option<HomeError>,
    block_size: usize,
}

impl Content {
    fn blocks(&self) -> u64 {
        (self.bytes.len() / self.block_size) as u64
    }

    /// The block at `place`; none when it could not be read.
    pub fn block(&self, place: u64) -> Option<&[u8]> {
        let at = (place - self.first) as usize * self.block_size;
        let readable = !self.unreadable.contains(&place);
        readable.then(|| &self.bytes[at..at + self.block_size])
    }

    /// The copy of a summary at block `at`, if it belongs to a partial that begins at `begin`, satisfies `accept`, and
    /// fits.
    fn copy(&self, begin: u64, at: u64, accept: &impl Fn(&Summary) -> bool) -> Option<Summary> {
        let size = self.block_size as u32;
        let bytes = &self.bytes[at as usize * self.block_size..];
        if !Summary::is_candidate(bytes) {
            return None;
        }
        let summary = Summary::decode(size, bytes).ok()?;
        let blocks = summary.blocks(size);
        let back = begin + blocks - summary_blocks(size, summary.entries.len() as u64);
        let in_place = summary.place == self.first + begin && (at == begin || at == back);
        (in_place && begin + blocks <= self.blocks() && accept(&summary)).then_some(summary)
    }

    /// The partial that begins at block `begin`, by its front copy, or else by the second one.
    pub fn partial(&self, begin: u64, accept: impl Fn(&Summary) -> bool) -> Option<Summary> {
        (begin..self.blocks()).find_map(|at| self.copy(begin, at, &accept))
    }

    /// The newest partial that begins at block `begin`. A torn write may have left the front copy of an earlier use of
    /// the segment, so that only the second copy is of the last use.
    fn newest(&self, begin: u64, accept: impl Fn(&Summary) -> bool) -> Option<Summary> {
        let copies = (begin..self.blocks()).filter_map(|at| self.copy(begin, at, &accept));
        copies.max_by_key(|summary| summary.seq)
    }

    /// All partials of the segment's last use, from its start. Partials of earlier uses lie after them and are older.
    /// A partial with two damaged copies is skipped.
    pub fn partials(&self, store: &[u8; 16]) -> Vec<Summary> {
        let mut found: Vec<Summary> = Vec::new();
        let mut begin = 0;
        while begin < self.blocks() {
            let (least, partial) = found
                .last()
                .map_or((0, 0), |last| (last.seq, last.partial + 1));
            let newer = |summary: &Summary| summary.store == *store && summary.seq > least;
            let joins = |summary: &Summary| newer(summary) && summary.partial == partial;
            let mut next = self.newest(begin, joins);
            if next.is_none() {
                let later = |summary: &Summary| newer(summary) && summary.partial > partial;
                next = (begin + 1..self.blocks()).find_map(|begin| self.copy(begin, begin, &later));
            }
            let Some(summary) = next else { break };
            begin = summary.place - self.first + summary.blocks(self.block_size as u32);
            found.push(summary);
        }
        found
    }

    /// Places in the partial whose blocks fail their checksums.
    pub fn damaged(&self, summary: &Summary) -> BTreeSet<u64> {
        let placed = summary.placed(self.block_size as u32);
        let damaged =
            placed.filter(|(place, entry)| self.block(*place).map(crc32c) != entry.kind.crc());
        damaged.map(|(place, _)| place).collect()
    }
}

impl Segments {
    /// Reads from `place` to the end of its segment. Blocks that cannot be read are noted in the result.
    pub(crate) async fn content_from(&self, place: u64) -> Content {
        self.content_as(Kind::Read, place).await
    }

    /// The same, measured as `kind`.
    pub(crate) async fn content_as(&self, kind: Kind, place: u64) -> Content {
        let segment_blocks = self.media.layout.segment_blocks();
        let end = self.media.first_place(self.media.segment_of(place) + 1);
        let block_size = self.block_size();
        let mut content = Content {
            first: place,
            bytes: Vec::with_capacity((end - place) as usize * block_size),
            unreadable: BTreeSet::new(),
            error: None,
            block_size,
        };
        let step = segment_blocks.min((1 << 20) / block_size as u64);
        let mut at = place;
        while at < end {
            let count = step.min(end - at).min(self.media.part_blocks(at));
            match self.media.read_as(kind, at, count).await {
                Ok(bytes) => content.bytes.extend_from_slice(&bytes),
                Err(_) => self.read_singly(at, count, &mut content).await,
            }
            at += count;
        }
        content
    }

    async fn read_singly(&self, place: u64, count: u64, content: &mut Content) {
        for place in place..place + count {
            match self.media.read(place, 1).await {
                Ok(bytes) => content.bytes.extend_from_slice(&bytes),
                Err(error) => {
                    let len = content.bytes.len() + self.block_size();
                    content.bytes.resize(len, 0);
                    content.unreadable.insert(place);
                    content.error.get_or_insert(error);
                }
            }
        }
    }
}
