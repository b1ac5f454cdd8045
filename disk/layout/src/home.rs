//! The home of all blocks, in either layout.

use crate::error::HomeError;
use crate::overwrite::Overwrite;
use crate::report::{GroupReport, RepairOptions, RepairReport};
use crate::segments::{Policy, RebuildReport, Segments};
use std::collections::BTreeSet;
use std::rc::Rc;
use tonearm_base::{BufPool, Slice};
use tonearm_device::{Device, Interrupted};
use tonearm_format::{Geometry, Uuid};
use tonearm_rt::{Boxed, Rt};

/// One data member of the overwrite layout.
pub struct HomeMember {
    /// Its device.
    pub device: Rc<dyn Device>,
    /// Where its groups lie.
    pub geometry: Geometry,
}

/// One data member of the segments layout.
#[derive(Clone)]
pub struct SegmentsMember {
    /// Its device.
    pub device: Rc<dyn Device>,
    /// Byte offset of its first segment; the checkpoint lies before that of the first member.
    pub first_segment: u64,
    /// Segments on it.
    pub segments: u64,
}

/// How the segments layout is opened.
#[derive(Clone, Copy, Debug)]
pub struct SegmentsOptions {
    /// Identity of the store.
    pub store: Uuid,
    /// Bytes of a block.
    pub block_size: u32,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// Blocks of the store.
    pub size_blocks: u64,
    /// Bound on map pages in memory.
    pub map_cache_bytes: usize,
    /// Which segments are cleaned.
    pub policy: Policy,
    /// Nothing is written.
    pub read_only: bool,
}

/// A part of what was read.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Whole blocks, verified.
    Data(Slice),
    /// So many zero bytes.
    Zero(usize),
}

/// Blocks to make zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroRange {
    /// First block.
    pub first: u64,
    /// Blocks.
    pub count: u64,
    /// Keep the space allocated, so that a later write does not run out of it.
    pub keep_space: bool,
}

/// A block to write home.
#[derive(Clone, Debug)]
pub struct HomeBlock {
    /// Its number.
    pub block: u64,
    /// Its content, exactly one block.
    pub data: Slice,
    /// CRC-32C of the content.
    pub crc: u32,
}

/// What was done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HomeStats {
    /// Device reads, those of tables included.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Device writes, those of tables included.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Punch and zero operations.
    pub zeroes: u64,
    /// Device flushes.
    pub flushes: u64,
    /// Tables or map pages read from the devices.
    pub table_loads: u64,
    /// Tables found in the cache.
    pub table_hits: u64,
    /// Tables or map pages written.
    pub table_writes: u64,
    /// Tables with one damaged slot, read from the other.
    pub table_fallbacks: u64,
    /// Tables with no valid slot that a write-back began anew.
    pub tables_lost: u64,
    /// Blocks that failed their checksum.
    pub checksum_errors: u64,
    /// Segments of the store; 0 in the overwrite layout, as all that follows.
    pub segments: u64,
    /// Of them, free ones.
    pub free_segments: u64,
    /// Blocks that a segment holds beside its summaries.
    pub segment_blocks: u64,
    /// Blocks and map pages that live in all segments.
    pub live_blocks: u64,
    /// Blocks and holes that write-backs have brought.
    pub written_blocks: u64,
    /// Segments that the cleaner has emptied.
    pub cleaned_segments: u64,
    /// Live blocks in them, which it has copied.
    pub cleaned_blocks: u64,
    /// Blocks of segment summaries written.
    pub summary_blocks: u64,
    /// Checkpoints of the block map.
    pub checkpoints: u64,
    /// Bytes written into their slots; changed pages are counted as `table_writes`.
    pub checkpoint_bytes: u64,
    /// Partial segments that the opening has found behind the checkpoint.
    pub recovered_partials: u64,
    /// Bytes of the tables or map pages in the cache now.
    pub map_cache_bytes: usize,
}

/// The home of all blocks; clones are handles on the same one.
#[derive(Clone)]
pub enum Home {
    /// Every block has one fixed place.
    Overwrite(OverwriteHome),
    /// Blocks are appended to segments.
    Segments(SegmentsHome),
}

/// The overwrite layout, opaque.
#[derive(Clone)]
pub struct OverwriteHome(pub(crate) Overwrite);

/// The segments layout, opaque.
#[derive(Clone)]
pub struct SegmentsHome(pub(crate) Segments);

impl Home {
    /// Makes the segments layout of a new store on `members` in their order.
    ///
    /// # Errors
    /// When a device fails.
    pub fn create_segments<'a>(
        rt: &'a Rt,
        pool: &'a BufPool,
        members: Vec<SegmentsMember>,
        options: &'a SegmentsOptions,
    ) -> Boxed<'a, Result<(), HomeError>> {
        Box::pin(Segments::create(rt, pool, members, options))
    }

    /// Opens the segments layout on `members` in their order, and recovers it if need be.
    ///
    /// # Errors
    /// When there is no checkpoint, or what was written since cannot be read.
    pub fn open_segments<'a>(
        rt: &'a Rt,
        pool: &'a BufPool,
        members: Vec<SegmentsMember>,
        options: &'a SegmentsOptions,
    ) -> Boxed<'a, Result<Self, HomeError>> {
        Box::pin(async move {
            let home = Segments::open(rt, pool, members, options).await?;
            Ok(Self::Segments(SegmentsHome(home)))
        })
    }

    /// Makes the block map of the segments layout anew from the segment summaries. `progress` is told
    /// segments read and segments to read.
    ///
    /// # Errors
    /// When a device fails, or no segment is free for the map.
    pub async fn rebuild_segments(
        rt: &Rt,
        pool: &BufPool,
        members: Vec<SegmentsMember>,
        options: &SegmentsOptions,
        progress: impl FnMut(u64, u64),
    ) -> Result<RebuildReport, HomeError> {
        Segments::rebuild(rt, pool, members, options, progress).await
    }

    /// Compares the segment table and the summaries with the block map; nothing in the overwrite layout.
    /// `progress` is told segments done and all segments.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub async fn check_segments(
        &self,
        progress: impl FnMut(u64, u64),
    ) -> Result<Vec<HomeError>, HomeError> {
        match self {
            Self::Overwrite(_) => Ok(Vec::new()),
            Self::Segments(home) => home.0.check_segments(progress).await,
        }
    }

    /// The overwrite layout of `size_blocks` blocks on `members` in their order. Nothing is read yet.
    /// Tables take at most `map_cache_bytes` of memory, and those in use a little more.
    ///
    /// # Panics
    /// When the members do not cover the size or differ in block size.
    pub fn overwrite(
        rt: &Rt,
        pool: &BufPool,
        members: Vec<HomeMember>,
        size_blocks: u64,
        map_cache_bytes: usize,
    ) -> Self {
        Self::Overwrite(OverwriteHome(Overwrite::new(
            rt,
            pool,
            members,
            size_blocks,
            map_cache_bytes,
        )))
    }

    /// Bytes of a block.
    pub fn block_size(&self) -> usize {
        match self {
            Self::Overwrite(home) => home.0.block_size(),
            Self::Segments(home) => home.0.block_size(),
        }
    }

    /// Blocks of the store.
    pub fn size_blocks(&self) -> u64 {
        match self {
            Self::Overwrite(home) => home.0.size_blocks(),
            Self::Segments(home) => home.0.size_blocks(),
        }
    }

    /// Groups of the store.
    pub fn groups(&self) -> u64 {
        match self {
            Self::Overwrite(home) => home.0.groups(),
            Self::Segments(home) => home.0.groups(),
        }
    }

    /// Blocks of a group; the last one may have fewer.
    pub fn group_blocks(&self) -> u64 {
        match self {
            Self::Overwrite(home) => home.0.group_blocks(),
            Self::Segments(home) => home.0.group_blocks(),
        }
    }

    /// Most bytes that are worth one call of [`Home::write_back`]: where blocks have places, sorting gains by
    /// each one more.
    pub fn round_bytes(&self) -> usize {
        match self {
            Self::Overwrite(_) => usize::MAX,
            Self::Segments(home) => home.0.round_bytes(),
        }
    }

    /// Counters, and the memory of the map cache.
    pub fn stats(&self) -> HomeStats {
        match self {
            Self::Overwrite(home) => home.0.stats(),
            Self::Segments(home) => home.0.stats(),
        }
    }

    /// Reads and verifies `count` blocks from `first` on; the pieces are in order. A piece of data is
    /// one device read of at most 1 MiB.
    ///
    /// # Errors
    /// The first block (in order) that cannot be read or fails its checksum, or whose table or map page does.
    ///
    /// # Panics
    /// When the range goes beyond the store's end.
    pub fn read(&self, first: u64, count: u64) -> Boxed<'_, Result<Vec<Piece>, HomeError>> {
        match self {
            Self::Overwrite(home) => Box::pin(home.0.read(first, count)),
            Self::Segments(home) => Box::pin(home.0.read(first, count)),
        }
    }

    /// Runs of allocated blocks (true) and holes (false) that together are `count` blocks from
    /// `first` on. Blocks whose table or map page is damaged count as allocated: reads tell more.
    ///
    /// # Errors
    /// When a table or map page cannot be read from its device.
    ///
    /// # Panics
    /// When the range goes beyond the store's end.
    pub fn status(&self, first: u64, count: u64) -> Boxed<'_, Result<Vec<(u64, bool)>, HomeError>> {
        match self {
            Self::Overwrite(home) => Box::pin(home.0.status(first, count)),
            Self::Segments(home) => Box::pin(home.0.status(first, count)),
        }
    }

    /// Makes `zeroes`, then `blocks` (ascending, each once) durable at home; they are when it returns
    /// `Ok`. Calls wait for each other.
    ///
    /// # Errors
    /// When a device fails or has no space. Nothing is under way then, and what is at home of the
    /// call's blocks is unknown; the call can be made again, also with newer content.
    ///
    /// # Panics
    /// When blocks are not ascending, of another length, or beyond the store's end.
    pub fn write_back(
        &self,
        zeroes: Vec<ZeroRange>,
        blocks: Vec<HomeBlock>,
    ) -> Boxed<'_, Result<(), HomeError>> {
        match self {
            Self::Overwrite(home) => Box::pin(home.0.write_back(zeroes, blocks)),
            Self::Segments(home) => Box::pin(home.0.write_back(zeroes, blocks)),
        }
    }

    /// Ends the use of the home in order, so that the next opening has nothing to recover here.
    ///
    /// # Errors
    /// When a device fails.
    pub fn close(&self) -> Boxed<'_, Result<(), HomeError>> {
        match self {
            Self::Overwrite(_) => Box::pin(async { Ok(()) }),
            Self::Segments(home) => Box::pin(home.0.close()),
        }
    }

    /// Checks `group` on the medium, past the cache. Write-back waits meanwhile.
    ///
    /// # Errors
    /// When the group's table or map page cannot be read at all; unreadable blocks are in the report.
    pub fn check_group(&self, group: u64) -> Boxed<'_, Result<GroupReport, HomeError>> {
        match self {
            Self::Overwrite(home) => Box::pin(home.0.check_group(group)),
            Self::Segments(home) => Box::pin(home.0.check_group(group)),
        }
    }

    /// Repairs `group` and makes that durable. Write-back waits meanwhile.
    ///
    /// # Errors
    /// When a device fails or has no space; the call can be made again.
    pub fn repair_group(
        &self,
        group: u64,
        options: RepairOptions,
    ) -> Boxed<'_, Result<RepairReport, HomeError>> {
        match self {
            Self::Overwrite(home) => Box::pin(home.0.repair_group(group, options)),
            Self::Segments(home) => Box::pin(home.0.repair_group(group, options)),
        }
    }

    /// Bytes of each member, in their order, that an interrupted write-back of `zeroes` and `blocks` may
    /// have changed.
    ///
    /// # Panics
    /// When a range or block goes beyond the store's end.
    pub fn interrupted(&self, zeroes: Vec<ZeroRange>, blocks: &BTreeSet<u64>) -> Vec<Interrupted> {
        match self {
            Self::Overwrite(home) => home.0.interrupted(zeroes, blocks),
            Self::Segments(home) => home.0.interrupted(),
        }
    }
}
