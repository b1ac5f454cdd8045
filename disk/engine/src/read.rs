//! The read path: memory first, then home. Only recovery reads the log (Trail 4.2).

use crate::access::ReadGuard;
use crate::engine::{Counters, Engine};
use crate::error::EngineError;
use crate::pinned::Known;
use tonearm_layout::{HomeError, Piece, Reader};

/// Most blocks that one status call looks at; the caller calls again for the rest.
const STATUS_BLOCKS_MAX: u64 = 1 << 16;

enum Part {
    Ready(Piece),
    Home {
        /// Where the content is: the blocks themselves, or those from which they are moved.
        at: u64,
        count: u64,
        /// Guards the blocks at `at` alone. The write-back copies moved blocks from there to their places, which this
        /// read does not touch. So the copy, which frees log space, does not wait for the read.
        guard: ReadGuard,
    },
}

impl Engine {
    /// Reads `count` blocks from `first` on: pieces in order, each verified.
    ///
    /// # Errors
    /// When a block fails its checksum or cannot be read, or the store is closed.
    pub async fn read(&self, first: u64, count: u64) -> Result<Vec<Piece>, EngineError> {
        self.0.assert_range(first, count);
        if self.0.life.borrow().closed {
            return Err(EngineError::Closed);
        }
        let counters = &self.0.counters;
        Counters::add(&counters.reads, 1);
        Counters::add(&counters.read_bytes, count * self.block_size() as u64);
        // A reader of all blocks, as the base of an archive is, may meet a spill. It waits, as a spill waits for reads.
        while self.0.access.is_spilled(first, first + count) {
            self.0.access.changed.wait().await;
        }
        let mut parts = self.look_up(first, count);
        if let [Part::Ready(_)] = parts.as_slice() {
            Counters::add(&counters.read_hits, 1);
        }
        if let [Part::Home { at, count, .. }] = parts.as_slice() {
            let read = self.0.home.read(*at, *count, Reader::Client).await;
            let pieces = read.inspect_err(|error| self.0.note_read(error))?;
            drop(parts);
            return Ok(pieces);
        }
        let mut pieces = Vec::with_capacity(parts.len());
        let mut under_way = Vec::new();
        for part in parts.drain(..) {
            match part {
                Part::Ready(piece) => under_way.push(Err(piece)),
                Part::Home { at, count, guard } => {
                    let home = self.0.home.clone();
                    under_way.push(Ok(self.0.rt.spawn(async move {
                        let pieces = home.read(at, count, Reader::Client).await;
                        drop(guard);
                        pieces
                    })));
                }
            }
        }
        let mut failed: Option<HomeError> = None;
        for part in under_way {
            match part {
                Err(piece) => pieces.push(piece),
                Ok(task) => match task.await {
                    Ok(more) => pieces.extend(more),
                    Err(error) => {
                        self.0.note_read(&error);
                        failed = failed.or(Some(error));
                    }
                },
            }
        }
        failed.map_or(Ok(pieces), |error| Err(error.into()))
    }

    /// Content of `block` if it is in memory.
    pub(crate) fn cached(&self, block: u64) -> Option<Piece> {
        match self.0.pinned.borrow().get(block)? {
            Known::Data(data) => Some(Piece::Data(data.clone())),
            Known::Moved(_) => None,
            Known::Zero => Some(Piece::Zero(self.block_size())),
        }
    }

    /// The block at which home has the newest content of `block`, when memory does not have it.
    fn place_of(&self, block: u64) -> u64 {
        match self.0.pinned.borrow().get(block) {
            Some(Known::Moved(from)) => from,
            _ => block,
        }
    }

    /// Runs of blocks and whether they hold data, for as much of the range as one call looks at.
    ///
    /// # Errors
    /// As for [`Engine::read`].
    pub async fn status(&self, first: u64, count: u64) -> Result<Vec<(u64, bool)>, EngineError> {
        self.0.assert_range(first, count);
        let mut runs: Vec<(u64, bool)> = Vec::new();
        let mut add = |blocks: u64, allocated: bool| match runs.last_mut() {
            Some(last) if last.1 == allocated => last.0 += blocks,
            _ => runs.push((blocks, allocated)),
        };
        let block_size = self.block_size();
        for part in self.look_up(first, count.min(STATUS_BLOCKS_MAX)) {
            match part {
                Part::Ready(Piece::Data(data)) => add((data.len() / block_size) as u64, true),
                Part::Ready(Piece::Zero(bytes)) => add((bytes / block_size) as u64, false),
                Part::Home { at, count, .. } => {
                    for (blocks, allocated) in self.0.home.status(at, count).await? {
                        add(blocks, allocated);
                    }
                }
            }
        }
        Ok(runs)
    }

    fn look_up(&self, first: u64, count: u64) -> Vec<Part> {
        let block_size = self.block_size();
        let mut parts: Vec<Part> = Vec::new();
        let (mut at, end) = (first, first + count);
        while at < end {
            let known = self.cached(at);
            match known {
                Some(Piece::Data(data)) => {
                    if let Some(Part::Ready(Piece::Data(last))) = parts.last_mut()
                        && last.is_followed_by(&data)
                    {
                        *last = last.joined(&data);
                    } else {
                        parts.push(Part::Ready(Piece::Data(data)));
                    }
                    at += 1;
                }
                Some(Piece::Zero(bytes)) => {
                    if let Some(Part::Ready(Piece::Zero(last))) = parts.last_mut() {
                        *last += bytes;
                    } else {
                        parts.push(Part::Ready(Piece::Zero(bytes)));
                    }
                    at += (bytes / block_size) as u64;
                }
                None => {
                    let moved = self.0.pinned.borrow().moved_run(at, end - at);
                    let run = match moved {
                        0 => self.0.pinned.borrow().unknown_run(at, end - at),
                        run => run,
                    };
                    assert!(run > 0, "a block that memory does not have");
                    let place = self.place_of(at);
                    parts.push(Part::Home {
                        at: place,
                        count: run,
                        guard: self.0.access.read(place, run),
                    });
                    at += run;
                }
            }
        }
        parts
    }
}
