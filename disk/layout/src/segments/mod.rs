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
//! 7. The cleaner copies a tombstone (the entry of a hole in a summary) until no older copy of its blocks can still be
//!    on the medium (`cleaner.rs`).

mod append;
mod check;
mod checkpoint;
mod cleaner;
mod in_place;
mod map;
mod measure;
mod media;
mod page_cache;
mod policy;
mod read;
mod rebuild;
mod recover;
mod reserve;
mod scrub;
mod space;
mod stripes;
mod table;
mod walk;
mod write_back;

pub use policy::{Policy, choose, worth};
pub use rebuild::RebuildReport;
pub use space::{SegmentsMember, SegmentsOptions};
pub(crate) use space::{blocks_of, members, options, units};

use crate::error::HomeError;
use crate::home::{
    Home, HomeBlock, HomeShape, HomeStats, HotStats, ParityHome, Piece, RoundOrder, SegmentStats,
    ZeroRange,
};
use crate::report::{GroupReport, RepairOptions, RepairReport};
use append::ChainEnd;
use in_place::Separation;
use media::Media;
use page_cache::PageCache;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::{Deref, Range};
use std::rc::Rc;
use table::SegmentTable;
use tonearm_base::BufPool;
use tonearm_device::{Device, DirtyRanges, RepairOutcome};
use tonearm_format::{MapEntry, SegmentLayout, Uuid, map_entries, map_levels, map_pages};
use tonearm_rt::{Boxed, Rt, Semaphore};
use write_back::PORTION_SEGMENTS;

/// Most partials of an epoch of which a rebuild may find no trace.
pub(crate) const EPOCH_GAP: u64 = 1 << 16;
/// Bytes of one round that are appended. More gain nothing, and writers would wait for the cleaning that they need. Fewer
/// cost two blocks of summaries more often.
const ROUND_BYTES: usize = 512 << 10;

/// The segments layout; clones are handles on the same one.
#[derive(Clone)]
pub struct Segments(Rc<Inner>);

/// The state that all handles share.
pub struct Inner {
    rt: Rt,
    media: Media,
    store: Uuid,
    size_blocks: u64,
    /// Levels of the block map.
    levels: u32,
    /// Entries of a map page.
    fanout: usize,
    /// Blocks and pages that a segment can hold at most.
    capacity: u64,
    /// Most map pages that are changed and not yet written.
    changed_max: u64,
    /// The cache has space for all pages of the map.
    map_in_memory: bool,
    /// Blocks of the parts of segments at whose ends appends should end, on RAID-5 (`stripes.rs`).
    part_blocks: Option<u64>,
    policy: Policy,
    /// Tells blocks to be overwritten in place, instead of the separator.
    given: Option<fn(u64) -> bool>,
    /// Nothing is written; the recovered state stays in memory.
    read_only: bool,
    /// Held by a call that changes the map.
    writer: Semaphore,
    state: RefCell<State>,
}

struct State {
    root: MapEntry,
    pages: PageCache,
    table: SegmentTable,
    /// Where the next partial goes; none before the first of an epoch.
    end: Option<ChainEnd>,
    epoch: u64,
    /// Number of the next partial.
    seq: u64,
    /// Number of the newest checkpoint.
    generation: u64,
    /// No checkpoint of this epoch is durable yet.
    new_epoch: bool,
    /// Bytes written since the last checkpoint.
    since_checkpoint: u64,
    /// Grows whenever a page has got another place.
    moved: u64,
    /// How often blocks are written, where the placement depends on it.
    separation: Option<Separation>,
}

impl Deref for Segments {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Segments {
    /// The home in a given state.
    fn assemble(
        rt: &Rt,
        pool: &BufPool,
        members: Vec<SegmentsMember>,
        options: &SegmentsOptions,
        table: SegmentTable,
    ) -> Self {
        let layout = SegmentLayout {
            block_size: options.block_size,
            segment_bytes: options.segment_bytes,
            segments: members.iter().map(|member| member.segments).sum(),
        };
        let part_blocks = stripes::part_blocks(&members, &layout);
        let levels = map_levels(options.block_size, options.size_blocks);
        // Changed pages are written when they are half of the cache. A pass and a portion may add theirs before that.
        let cached = (options.map_cache_bytes / options.block_size as usize) as u64;
        let pages = map_pages(options.block_size, options.size_blocks);
        let capacity = append::capacity(&layout);
        let changed = pages.min(cached + 2 * cleaner::pass_segments(&layout) * capacity);
        let appended_min = (ROUND_BYTES / options.block_size as usize) as u64 / 2;
        Self(Rc::new(Inner {
            rt: rt.clone(),
            media: Media::new(rt, pool, members, layout, appended_min),
            store: options.store,
            size_blocks: options.size_blocks,
            levels,
            fanout: map_entries(options.block_size),
            capacity,
            changed_max: changed,
            map_in_memory: 2 * pages <= cached,
            part_blocks,
            policy: options.policy,
            given: options.given,
            read_only: options.read_only,
            writer: Semaphore::new(rt, 1),
            state: RefCell::new(State {
                root: MapEntry::default(),
                pages: PageCache::new(options.map_cache_bytes, options.block_size as usize),
                table,
                end: None,
                epoch: 1,
                seq: 1,
                generation: 0,
                new_epoch: true,
                since_checkpoint: 0,
                moved: 0,
                separation: Separation::new(options, rt.now()),
            }),
        }))
    }

    fn block_size(&self) -> usize {
        self.media.block_size()
    }

    /// Leaf pages of the map; each has a group of blocks.
    fn groups(&self) -> u64 {
        self.size_blocks.div_ceil(self.fanout as u64)
    }

    fn stats(&self) -> HomeStats {
        let (state, counted) = (self.state.borrow(), self.media.stats.get());
        let separation = state.separation.as_ref();
        let segments = SegmentStats {
            count: state.table.len(),
            free_segments: state.table.free_and_held().0,
            live_blocks: state.table.live(),
            segment_blocks: self.media.layout.payload_blocks(),
            hot: separation.map_or(HotStats::default(), |known| known.stats()),
            ..counted.segments
        };
        HomeStats {
            map_cache_bytes: state.pages.bytes(),
            segments,
            ..counted
        }
    }
}

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

    fn read(&self, first: u64, count: u64) -> Boxed<'_, Result<Vec<Piece>, HomeError>> {
        Box::pin(self.read(first, count))
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
mod in_place_test;
#[cfg(test)]
mod policy_test;
#[cfg(test)]
mod table_test;
