//! The state of an open segments layout, which all handles share. The other files of this folder implement its operations.

use crate::home::{HomeStats, HotStats, SegmentStats};
use crate::segments::holes::Holes;
use crate::segments::intervals::Separation;
use crate::segments::media::Media;
use crate::segments::page_cache::PageCache;
use crate::segments::partial::{ChainEnd, capacity};
use crate::segments::sizes::{ROUND_BYTES, part_blocks, pass_segments};
use crate::segments::table::SegmentTable;
use crate::segments::{Plugging, Policy, SegmentsMember, SegmentsOptions};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::rc::Rc;
use tonearm_base::{BufPool, Lsn};
use tonearm_format::{
    MapEntry, Placement, SegmentLayout, Uuid, map_entries, map_levels, map_pages,
};
use tonearm_rt::{Rt, Semaphore};

/// Most partials of an epoch of which a rebuild may find no trace.
pub(crate) const EPOCH_GAP: u64 = 1 << 16;

/// The segments layout; clones are handles on the same one.
#[derive(Clone)]
pub struct Segments(pub(super) Rc<Inner>);

/// The state that all handles share.
pub struct Inner {
    pub(super) rt: Rt,
    pub(super) media: Media,
    pub(super) store: Uuid,
    pub(super) size_blocks: u64,
    /// Levels of the block map.
    pub(super) levels: u32,
    /// Entries of a map page.
    pub(super) fanout: usize,
    /// Blocks and pages that a segment can hold at most.
    pub(super) capacity: u64,
    /// Most map pages that are changed and not yet written.
    pub(super) changed_max: u64,
    /// The cache has space for all pages of the map.
    pub(super) map_in_memory: bool,
    /// Blocks of the parts of segments at whose ends appends should end, on RAID-5 (`stripes.rs`).
    pub(super) part_blocks: Option<u64>,
    pub(super) policy: Policy,
    /// When the cleaner moves blocks into holes (`plug.rs`).
    pub(super) plugging: Plugging,
    /// Chooses the blocks that are overwritten in place, instead of the separator.
    pub(super) given: Option<fn(u64) -> bool>,
    /// Nothing is written; the recovered state stays in memory.
    pub(super) read_only: bool,
    /// A member has parity. A stripe that is filled in parts costs more than the second write, so there are no indirect writes.
    pub(super) has_parity: bool,
    /// Held by a call that changes the map.
    pub(super) writer: Semaphore,
    pub(super) state: RefCell<State>,
}

pub(super) struct State {
    pub(super) root: MapEntry,
    pub(super) pages: PageCache,
    pub(super) table: SegmentTable,
    pub(super) holes: Holes,
    /// Passes that have cleaned since one has plugged, and so has measured it.
    pub(super) cleaned_passes: u64,
    /// Where the next partial goes; none before the first of an epoch.
    pub(super) end: Option<ChainEnd>,
    pub(super) epoch: u64,
    /// Number of the next partial.
    pub(super) seq: u64,
    /// Number of the newest checkpoint.
    pub(super) generation: u64,
    /// No checkpoint of this epoch is durable yet.
    pub(super) new_epoch: bool,
    /// Bytes written since the last checkpoint.
    pub(super) since_checkpoint: u64,
    /// Grows whenever a page has got another place.
    pub(super) moved: u64,
    /// No recovery replays a commit before this one, as far as the engine has said.
    pub(super) log_start: Lsn,
    /// During recovery: segments with places that the log names.
    pub(super) named: Option<BTreeSet<u64>>,
    /// Failed flushes before the first indirect write that is not flushed yet.
    pub(super) appended_after: Option<u64>,
    /// How often blocks are written, where the placement depends on it.
    pub(super) separation: Option<Separation>,
}

impl State {
    /// The block at `place` of `segment` is dead.
    pub(super) fn release(&mut self, place: u64, segment: u64) {
        self.table.release(segment);
        self.holes.insert(place);
    }
}

impl Deref for Segments {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Segments {
    /// The home in a given state.
    pub(super) fn assemble(
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
        let part_blocks = part_blocks(&members, &layout);
        let of_member = |member: &SegmentsMember| member.device.redundancy()?.stripe_bytes();
        let has_parity = members.iter().any(|member| of_member(member).is_some());
        let levels = map_levels(options.block_size, options.size_blocks);
        // Changed pages are written when they are half of the cache. A pass and a portion may add theirs before that.
        let cached = (options.map_cache_bytes / options.block_size as usize) as u64;
        let pages = map_pages(options.block_size, options.size_blocks);
        let capacity = capacity(&layout);
        let changed = pages.min(cached + 2 * pass_segments(&layout) * capacity);
        let map_in_memory = 2 * pages <= cached;
        // What is overwritten in place leaves few holes. And the blocks in holes are found through the whole map.
        let appends = options.placement != Placement::Hylog && options.given.is_none();
        let plugging = if appends && map_in_memory && !options.read_only {
            options.plugging
        } else {
            Plugging::Never
        };
        let holes = if plugging == Plugging::Never {
            Holes::unknown()
        } else {
            Holes::of(&layout)
        };
        let appended_min = (ROUND_BYTES / options.block_size as usize) as u64 / 2;
        Self(Rc::new(Inner {
            rt: rt.clone(),
            media: Media::new(
                rt,
                pool,
                members,
                layout,
                appended_min,
                options.writes_while_reading,
            ),
            store: options.store,
            size_blocks: options.size_blocks,
            levels,
            fanout: map_entries(options.block_size),
            capacity,
            changed_max: changed,
            map_in_memory,
            part_blocks,
            policy: options.policy,
            plugging,
            given: options.given,
            read_only: options.read_only,
            has_parity,
            writer: Semaphore::new(rt, 1),
            state: RefCell::new(State {
                root: MapEntry::default(),
                pages: PageCache::new(options.map_cache_bytes, options.block_size as usize),
                table,
                holes,
                cleaned_passes: 0,
                end: None,
                epoch: 1,
                seq: 1,
                generation: 0,
                new_epoch: true,
                since_checkpoint: 0,
                moved: 0,
                log_start: Lsn(0),
                named: Some(BTreeSet::new()),
                appended_after: None,
                separation: Separation::new(options, rt.now()),
            }),
        }))
    }

    pub(super) fn block_size(&self) -> usize {
        self.media.block_size()
    }

    /// Leaf pages of the map; each has a group of blocks.
    pub(super) fn groups(&self) -> u64 {
        self.size_blocks.div_ceil(self.fanout as u64)
    }

    pub(super) fn stats(&self) -> HomeStats {
        let (state, counted) = (self.state.borrow(), self.media.stats.get());
        let separation = state.separation.as_ref();
        let segments = SegmentStats {
            count: state.table.len(),
            free_segments: state.table.free_and_held().0,
            held_segments: state.table.held_from(state.log_start),
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
