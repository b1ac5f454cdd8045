//! What the engine asks of a layout: the [`Home`] trait, and its types.

use crate::error::HomeError;
use crate::queue::Reader;
use crate::report::{GroupReport, RepairOptions, RepairReport};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{Lsn, Slice};
use tonearm_device::{Device, DirtyRanges, RepairOutcome};
use tonearm_format::Superblock;
use tonearm_rt::Boxed;

/// The home of all blocks of one open store: their permanent places, outside of the log.
///
/// The engine uses a layout through this trait alone. The functions of [`crate::layouts`] do what is needed while no
/// home is open (plan, create, open, grow, rebuild), each with one `match` over the layouts.
///
/// # What every layout must keep
///
/// 1. No byte of a block is returned that fails its checksum. A hole reads as zeroes.
/// 2. When [`Home::write_back`] has returned `Ok`, everything that it was given is durable, and reads return it.
/// 3. A power cut at any moment leaves a home that can be opened. Every block and range that was not given to an
///    interrupted `write_back` reads as before. Reads of the others may return anything, errors included.
/// 4. Calls of `write_back` and those that check, scrub or repair may overlap; the layout orders them.
/// 5. Memory is bounded by the cache that the opening allows, and a few bytes for each unit of space.
/// 6. The order of I/O depends on the calls alone: the layout uses no clock but the executor's, no random source, and
///    no map with a random order.
///
/// # What every layout may rely on
///
/// - Everything that is given to `write_back` stays in the durable log until the call has returned `Ok`. After a crash
///   the log replays it, in any portions, together with newer changes.
/// - The engine does not read a block while it gives it to `write_back`. Blocks that the layout moves by itself
///   (cleaning) may be read meanwhile; the layout orders that.
/// - The data area of a new store reads as zeroes.
/// - The futures of calls that write are polled until they end.
///
/// # What a new layout must provide
///
/// An implementation of this trait; an arm in each function of [`crate::layouts`]; a variant of
/// `tonearm_format::Layout`, with its fields in the superblock; a page in `docs/format/`. A layout that only chooses other
/// places for blocks needs none of this: see decision 23. Decision 20 checks the trait against a layout that does not
/// exist yet:
///
/// - **Segments as objects in a bucket.** A segment is one object that is put once and deleted once, so `write_back`
///   ends with a put instead of a write and a flush, and there is no [`ParityHome`]. Rounds are as large as an object,
///   oldest blocks first. The layout retries after transient network errors; [`HomeError::NoSpace`] makes the engine
///   repeat the round later, and the store stays in use meanwhile.
pub trait Home {
    /// Its properties.
    fn shape(&self) -> HomeShape;

    /// Most bytes in the next call of [`Home::write_back`]; a larger round gains nothing.
    fn round_bytes_max(&self) -> usize;

    /// When the layout wants to choose the blocks of the next round: out of how many at most. Otherwise 0. Only a layout
    /// with [`RoundOrder::OldestFirst`] chooses.
    fn sample_max(&self) -> usize {
        0
    }

    /// Chooses blocks of the next round out of `ready` (ascending), which could be written back now. It returns them ascending,
    /// and none for an ordinary round.
    fn sample(&self, _ready: Vec<u64>) -> Boxed<'_, Vec<u64>> {
        Box::pin(async { Vec::new() })
    }

    /// Counters since the opening, and gauges.
    fn stats(&self) -> HomeStats;

    /// What the home does for the arrays that its members are; `None` where a member cannot be one.
    fn parity(&self) -> Option<&dyn ParityHome> {
        None
    }

    /// Reads and verifies `count` blocks from `first` on. The pieces are in order; a piece of data is one device read
    /// of at most 1 MiB.
    ///
    /// # Errors
    /// The first block (in order) that cannot be read or fails its checksum, or whose table or map page does.
    ///
    /// # Panics
    /// When the range goes beyond the store's end.
    fn read(
        &self,
        first: u64,
        count: u64,
        reader: Reader,
    ) -> Boxed<'_, Result<Vec<Piece>, HomeError>>;

    /// Runs of allocated blocks (true) and holes (false) that together are `count` blocks from `first` on. Blocks whose
    /// table or map page is damaged count as allocated: a read of them gives the error.
    ///
    /// # Errors
    /// When a table or map page cannot be read from its device.
    ///
    /// # Panics
    /// When the range goes beyond the store's end.
    fn status(&self, first: u64, count: u64) -> Boxed<'_, Result<Vec<(u64, bool)>, HomeError>>;

    /// One round of write-back: makes `zeroes`, then `blocks` (ascending, each once) durable at home. All of it is
    /// durable when the call returns `Ok`. Calls wait for each other.
    ///
    /// # Errors
    /// When a device fails or there is no space. No operation is under way then, and the content of the call's blocks
    /// at home is unknown. The call can be repeated, also with newer content.
    ///
    /// # Panics
    /// When blocks are not ascending, of another length, or beyond the store's end.
    fn write_back(
        &self,
        zeroes: Vec<ZeroRange>,
        blocks: Vec<HomeBlock>,
    ) -> Boxed<'_, Result<(), HomeError>>;

    /// Checks `group` on the medium, past the cache. Write-back waits meanwhile.
    ///
    /// # Errors
    /// When the group's table or map page cannot be read at all; unreadable blocks are in the report.
    fn check_group(&self, group: u64) -> Boxed<'_, Result<GroupReport, HomeError>>;

    /// Compares the layout's map with the data from which it can be rebuilt, and returns the contradictions; none if
    /// the layout has no map. `progress` gets the number of parts done, and of all.
    ///
    /// # Errors
    /// When the map cannot be read.
    fn check_map<'a>(
        &'a self,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Boxed<'a, Result<Vec<HomeError>, HomeError>>;

    /// Repairs `group` as far as its right content is known, and makes the repair durable. Write-back waits meanwhile.
    /// The log must have been replayed before.
    ///
    /// # Errors
    /// When a device fails or has no space; the call can be made again.
    fn repair_group(
        &self,
        group: u64,
        options: RepairOptions,
    ) -> Boxed<'_, Result<RepairReport, HomeError>>;

    /// Indirect writes, where the layout has them.
    fn indirect(&self) -> Option<&dyn IndirectHome> {
        None
    }

    /// Growth while the home is open, where the layout has it.
    fn growing(&self) -> Option<&dyn GrowingHome> {
        None
    }

    /// Ends the use of the home in order, so that the next opening has nothing to recover.
    ///
    /// # Errors
    /// When a device fails, or there is no space for what the end writes.
    fn close(&self) -> Boxed<'_, Result<(), HomeError>>;
}

/// The part of a home that can get more blocks while it is open.
pub trait GrowingHome {
    /// The home has the blocks of `superblock` from now on, which [`crate::layouts::grown`] has made of that of the home. The space that is
    /// added reads as zeroes, and the superblock is durable: what was committed to the blocks must be found after a crash.
    fn grow(&self, superblock: &Superblock) -> Boxed<'_, ()>;
}

/// The part of a home that takes blocks before their commits are in the log, which then names their places alone.
///
/// For a block, the engine calls [`IndirectHome::append`], [`IndirectHome::flush`], and writes the log. When the commit is durable,
/// [`IndirectHome::enter`] takes the place of [`Home::write_back`]. Once no recovery replays the commit, [`IndirectHome::release`]
/// ends the protection of the place.
pub trait IndirectHome {
    /// Writes `blocks` of commits up to `lsn`, and gives the place of each. `None` when the home does not take them now. They are durable
    /// after a flush, and no read of the home finds them.
    ///
    /// # Errors
    /// When a device fails or has no space. The home stays usable.
    fn append(
        &self,
        lsn: Lsn,
        blocks: Vec<HomeBlock>,
    ) -> Boxed<'_, Result<Option<Vec<u64>>, HomeError>>;

    /// Makes what was appended durable.
    ///
    /// # Errors
    /// When a device fails.
    fn flush(&self) -> Boxed<'_, Result<(), HomeError>>;

    /// Content of the places from `place` on, of these blocks with these CRC-32Cs.
    ///
    /// # Errors
    /// When a place cannot be read or has other content.
    fn read(&self, place: u64, blocks: Vec<(u64, u32)>) -> Boxed<'_, Result<Slice, HomeError>>;

    /// Makes `blocks` the content of the home, durably, as [`Home::write_back`] does.
    ///
    /// # Errors
    /// As for [`Home::write_back`].
    fn enter(&self, blocks: Vec<PlacedBlock>) -> Boxed<'_, Result<(), HomeError>>;

    /// Recovery has read all places that the log names. Until then the home protects more.
    fn end_recovery(&self);

    /// No recovery replays a commit before `before` any more. After an opening, the first call says so for all earlier commits.
    fn release(&self, before: Lsn);
}

/// The part of a home whose members may be arrays: where a crash may have interrupted parity, and what is right where an array
/// has to repair.
pub trait ParityHome {
    /// The data members, in their order.
    fn members(&self) -> Vec<Rc<dyn Device>>;

    /// Bytes of each data member, in their order, that an interrupted write-back of `zeroes` and `blocks` may have
    /// changed. After a crash an array corrects its parity there.
    ///
    /// # Panics
    /// When a range or block goes beyond the store's end.
    fn interrupted(&self, zeroes: Vec<ZeroRange>, blocks: &BTreeSet<u64>) -> Vec<DirtyRanges>;

    /// As [`Home::check_group`]. What is damaged is computed by the array of its member, if there is one, and written where
    /// it is right by its checksum. The report is that after the repair.
    ///
    /// # Errors
    /// As for [`Home::check_group`].
    fn scrub_group(&self, group: u64) -> Boxed<'_, Result<GroupReport, HomeError>>;

    /// Repairs the content of `stripes`, bytes of data member `member`, as [`ParityHome::scrub_group`] does. Where nothing is damaged
    /// then, the parity of the stripes is made right. Write-back waits meanwhile.
    ///
    /// # Errors
    /// When a table or map page cannot be read at all, or the array is lost.
    fn scrub_stripes(
        &self,
        member: usize,
        stripes: Range<u64>,
    ) -> Boxed<'_, Result<RepairOutcome, HomeError>>;
}

/// The properties of an open home. Only its size can change ([`GrowingHome`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomeShape {
    /// Bytes of a block.
    pub block_size: usize,
    /// Blocks of the store.
    pub size_blocks: u64,
    /// Blocks of a group, the unit of [`Home::check_group`] and [`Home::repair_group`]; the last group may have fewer.
    pub group_blocks: u64,
    /// The order in which the engine should write blocks home.
    pub order: RoundOrder,
}

impl HomeShape {
    /// Groups of the store.
    pub fn groups(&self) -> u64 {
        self.size_blocks.div_ceil(self.group_blocks)
    }
}

/// The order in which the engine writes blocks home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundOrder {
    /// Ascending block numbers, from the end of the last round on. Adjacent blocks share a device write, and a larger
    /// round has more of them.
    Sweep,
    /// Blocks whose commits have been in the log longest. For layouts in which sorting gains nothing: memory and log
    /// space become free in small steps. Some rounds take many times as long as others, because the layout cleans, so
    /// the engine admits writers at the mean rate of the rounds.
    OldestFirst,
}

/// A part of what was read.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Whole blocks, verified.
    Data(Slice),
    /// So many zero bytes.
    Zero(usize),
}

impl Piece {
    /// Its bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Zero(bytes) => *bytes,
        }
    }

    /// True when it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True when it is known to be zeroes without a look at its content.
    pub fn is_zero(&self) -> bool {
        matches!(self, Self::Zero(_))
    }

    /// Its bytes `range`.
    pub fn slice(&self, range: Range<usize>) -> Self {
        match self {
            Self::Data(data) => Self::Data(data.slice(range)),
            Self::Zero(_) => Self::Zero(range.len()),
        }
    }

    /// Copies its first bytes into `into`, which is no longer than it.
    pub fn copy_to(&self, into: &mut [u8]) {
        match self {
            Self::Data(data) => into.copy_from_slice(&data[..into.len()]),
            Self::Zero(_) => into.fill(0),
        }
    }

    /// Appends its bytes to `bytes`.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Data(data) => bytes.extend_from_slice(data),
            Self::Zero(zeroes) => bytes.resize(bytes.len() + zeroes, 0),
        }
    }

    /// The bytes of `pieces`, one after the other.
    pub fn concat(pieces: &[Self]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(pieces.iter().map(Self::len).sum());
        pieces.iter().for_each(|piece| piece.append_to(&mut bytes));
        bytes
    }
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

/// A block whose content the home has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedBlock {
    /// Its number.
    pub block: u64,
    /// Where its content is.
    pub place: u64,
    /// CRC-32C of the content.
    pub crc: u32,
}

/// Counters since the start, and gauges.
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
    /// Tables or map pages written.
    pub table_writes: u64,
    /// Tables or map pages without a valid copy that a write-back began again.
    pub tables_lost: u64,
    /// Blocks that failed their checksum.
    pub checksum_errors: u64,
    /// Bytes of the tables or map pages in the cache now.
    pub map_cache_bytes: usize,
    /// Those of the layout that has one place for each block.
    pub overwrite: OverwriteStats,
    /// Those of the layout with segments.
    pub segments: SegmentStats,
}

/// Numbers of the overwrite layout; 0 in others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverwriteStats {
    /// Tables found in the cache.
    pub table_hits: u64,
    /// Tables with one damaged slot, read from the other.
    pub table_fallbacks: u64,
}

/// Numbers of the layout with segments; 0 in others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentStats {
    /// Segments of the store.
    pub count: u64,
    /// Those of them that are free.
    pub free_segments: u64,
    /// Blocks that a segment holds beside its summaries.
    pub segment_blocks: u64,
    /// Live blocks and map pages of all segments.
    pub live_blocks: u64,
    /// Blocks and holes that write-backs have brought.
    pub written_blocks: u64,
    /// Blocks that were appended before their commits were in the log.
    pub indirect_blocks: u64,
    /// Segments that are held, because the log may name places in them.
    pub held_segments: u64,
    /// Those of the blocks that were overwritten in place.
    pub overwritten_blocks: u64,
    /// Those of the blocks overwritten in place that had been appended the time before: they have become cold.
    pub cooled_blocks: u64,
    /// Those of the blocks appended that had been overwritten in place the time before: they have become hot, and each
    /// has left a hole. As the field before, with those that the opening has found after the checkpoint.
    pub heated_blocks: u64,
    /// Notes of overwritten blocks that the cleaner has copied.
    pub carried_notes: u64,
    /// Segments that the cleaner has emptied.
    pub cleaned_segments: u64,
    /// Live blocks in them, which it has copied.
    pub cleaned_blocks: u64,
    /// Live blocks of emptied segments that were moved into holes of other segments.
    pub plugged_blocks: u64,
    /// Passes of the cleaner that moved blocks into holes.
    pub plug_passes: u64,
    /// Passes of the cleaner that chose segments by cost and age.
    pub age_passes: u64,
    /// Passes that chose the emptiest segments, because free ones were short.
    pub greedy_passes: u64,
    /// Blocks of segment summaries written.
    pub summary_blocks: u64,
    /// Checkpoints of the block map.
    pub checkpoints: u64,
    /// Bytes written into their slots; changed pages are counted as `table_writes`.
    pub checkpoint_bytes: u64,
    /// Partial segments that the opening found after the checkpoint.
    pub recovered_partials: u64,
    /// What the last decision which blocks are hot was.
    pub hot: HotStats,
}

/// The last decision which blocks are hot; 0 before the first one, and in placements that make none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotStats {
    /// Hot blocks, in thousandths of the live ones.
    pub share_permille: u64,
    /// Writes of hot blocks, in thousandths of all.
    pub writes_permille: u64,
    /// Writes, those of earlier intervals halved in each, from which on a block is hot.
    pub threshold: u64,
    /// Measured segment I/O efficiency when all blocks are overwritten, in thousandths (HyLog, equation 1).
    pub efficiency_milli: u64,
    /// Expected cost of a write, in thousandths of an appended one without cleaning (HyLog, equation 8).
    pub write_cost_milli: u64,
}
