//! The segments layout: blocks are appended to segments and found through a block map.
//!
//! A segment is filled by partial segments (*partials*), each one device write: a summary, blocks, the summary again.
//! The summaries are the operation log of the home's own metadata (Logical Disk, ARU paper 2 and 4): opening takes the
//! newest checkpoint and then the summaries written since. Bytes: `docs/format/segments.md`.
//!
//! Invariants:
//! 1. No byte of a block is returned that fails the checksum of its map entry; a hole reads as zeroes.
//! 2. No segment that recovery needs is overwritten. A segment without live blocks is free only when the newer versions
//!    of its blocks are durable, and when both slots hold a checkpoint for which the segment neither belongs to the
//!    chain nor has a page of the map (`checkpoint.rs`). It is used again only when all reads that began before have
//!    ended (`table.rs`).
//! 3. The partials of one epoch are a chain: they have consecutive numbers, and each names the place of the next. An
//!    epoch begins with a durable checkpoint that has its number. A new one begins when the home is opened for writing,
//!    and after a failed write.
//! 4. When `write_back` returns, all its partials are in the chain and flushed.
//! 5. The version of a block or tombstone is the number of the partial that first contained it; copies of the cleaner
//!    keep it. Of all copies on the medium the one of the highest version is valid (`rebuild.rs`).
//! 6. A block that is overwritten in place (HyLog) keeps its place, and a partial of the same call has its new version
//!    and checksum (`in_place.rs`).
//! 7. A block that the cleaner moves into a hole keeps its version, and a partial has its new place (`plug.rs`). Nothing
//!    that recovery needs is overwritten by it.
//! 8. While the log may name a place in a segment, the segment keeps its content (`indirect.rs`).
//! 9. The cleaner copies a tombstone (the entry of a hole in a summary) until no older copy of its blocks can still be
//!    on the medium (`cleaner.rs`).

mod append;
mod check;
mod checkpoint;
mod cleaner;
mod holes;
mod in_place;
mod indirect;
mod intervals;
mod map;
mod measure;
mod media;
mod page_cache;
mod partial;
mod plug;
mod policy;
mod read;
mod rebuild;
mod recover;
mod reserve;
mod scrub;
mod sizes;
mod space;
mod state;
mod stripes;
mod table;
mod walk;
mod write_back;

pub use policy::{Plugging, Policy, choose, worth};
pub use rebuild::RebuildReport;
pub use space::{SegmentsMember, SegmentsOptions};
pub(crate) use space::{blocks_of, members, options, units};
pub use state::Segments;

use crate::error::HomeError;
use crate::home::{
    Home, HomeBlock, HomeShape, HomeStats, IndirectHome, ParityHome, Piece, RoundOrder, ZeroRange,
};
use crate::queue::Reader;
use crate::report::{GroupReport, RepairOptions, RepairReport};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use tonearm_device::{Device, DirtyRanges, RepairOutcome};
use tonearm_rt::Boxed;
use write_back::PORTION_SEGMENTS;

impl Home for Segments {
    fn shape(&self) -> HomeShape {
        HomeShape {
            block_size: self.block_size(),
            size_blocks: self.size_blocks,
            group_blocks: self.fanout as u64,
            order: RoundOrder::OldestFirst,
        }
    }

    fn round_bytes_max(&self) -> usize {
        let appended = self.appended().max(2);
        let portion = (PORTION_SEGMENTS * self.capacity) as usize;
        let state = self.state.borrow();
        let separation = state.separation.as_ref();
        let blocks = separation.map_or(appended, |known| known.round_blocks(appended, portion));
        blocks * self.block_size()
    }

    fn sample_max(&self) -> usize {
        self.sample_max()
    }

    fn sample(&self, ready: Vec<u64>) -> Boxed<'_, Vec<u64>> {
        Box::pin(self.sample(ready))
    }

    fn stats(&self) -> HomeStats {
        self.stats()
    }

    fn parity(&self) -> Option<&dyn ParityHome> {
        Some(self)
    }

    fn read(
        &self,
        first: u64,
        count: u64,
        reader: Reader,
    ) -> Boxed<'_, Result<Vec<Piece>, HomeError>> {
        Box::pin(self.read(first, count, reader))
    }

    fn status(&self, first: u64, count: u64) -> Boxed<'_, Result<Vec<(u64, bool)>, HomeError>> {
        Box::pin(self.status(first, count))
    }

    fn write_back(
        &self,
        zeroes: Vec<ZeroRange>,
        blocks: Vec<HomeBlock>,
    ) -> Boxed<'_, Result<(), HomeError>> {
        Box::pin(self.write_back(zeroes, blocks))
    }

    fn check_group(&self, group: u64) -> Boxed<'_, Result<GroupReport, HomeError>> {
        Box::pin(self.check_group(group))
    }

    fn check_map<'a>(
        &'a self,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Boxed<'a, Result<Vec<HomeError>, HomeError>> {
        Box::pin(self.check_map(progress))
    }

    fn repair_group(
        &self,
        group: u64,
        options: RepairOptions,
    ) -> Boxed<'_, Result<RepairReport, HomeError>> {
        Box::pin(self.repair_group(group, options))
    }

    fn indirect(&self) -> Option<&dyn IndirectHome> {
        (!self.has_parity).then_some(self)
    }

    fn close(&self) -> Boxed<'_, Result<(), HomeError>> {
        Box::pin(self.close())
    }
}

impl ParityHome for Segments {
    fn members(&self) -> Vec<Rc<dyn Device>> {
        let members = 0..self.media.members();
        members
            .map(|index| self.media.device(index).clone())
            .collect()
    }

    fn interrupted(&self, _: Vec<ZeroRange>, _: &BTreeSet<u64>) -> Vec<DirtyRanges> {
        self.interrupted()
    }

    fn scrub_group(&self, group: u64) -> Boxed<'_, Result<GroupReport, HomeError>> {
        Box::pin(self.scrub_group(group))
    }

    fn scrub_stripes(
        &self,
        member: usize,
        stripes: Range<u64>,
    ) -> Boxed<'_, Result<RepairOutcome, HomeError>> {
        Box::pin(self.scrub_stripes(member, stripes))
    }
}

#[cfg(test)]
mod holes_test;
#[cfg(test)]
mod intervals_test;
#[cfg(test)]
mod policy_test;
#[cfg(test)]
mod table_test;
