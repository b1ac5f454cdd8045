//! Reads, allocation status, and operations on the devices.
//!
//! Every block is verified before a read returns it. No read is repeated, so that no fault is hidden.

use crate::error::HomeError;
use crate::home::{HomeStats, Piece};
use crate::overwrite::load::Loads;
use crate::overwrite::place::{OverwriteMember, Places};
use crate::overwrite::table_cache::TableCache;
use crate::queue::{ClientRead, Reader};
use std::cell::{Cell, RefCell};
use std::ops::{Deref, Range};
use std::rc::Rc;
use tonearm_base::{BufPool, Slice, crc32c};
use tonearm_format::{HOLE, entry_of_crc};
use tonearm_rt::{Data, IoError, Op, Permit, Rt, Semaphore};

/// Most bytes of one device operation on blocks.
pub(crate) const IO_BYTES_MAX: usize = 1 << 20;
/// Groups that are written at a time, and so tables that are pinned.
const GROUP_JOBS_MAX: u64 = 32;
/// Tables that a walk over many groups loads ahead.
const PREFETCH_GROUPS: u64 = 16;

/// The home of all blocks; clones are handles on the same one.
#[derive(Clone)]
pub struct Overwrite(Rc<Inner>);

/// The state that all handles share.
pub struct Inner {
    pub(crate) rt: Rt,
    pub(crate) pool: BufPool,
    pub(crate) places: Places,
    pub(crate) cache: RefCell<TableCache>,
    pub(crate) loads: Loads,
    /// Bounds the groups that are written at a time, and so the tables that are pinned.
    pub(crate) group_jobs: Semaphore,
    /// Held by a call that changes tables, or during which they must not change.
    pub(crate) writer: Semaphore,
    stats: Cell<HomeStats>,
}

impl Deref for Overwrite {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// Blocks with entries, adjacent on their device, read with one operation.
struct Run {
    first: u64,
    expected: Vec<u32>,
}

/// The parts of a read.
enum Part {
    Zero(usize),
    Run(Run),
}

impl Overwrite {
    /// The home of `size_blocks` blocks on `members` in their order. Nothing is read yet. Tables take at most
    /// `map_cache_bytes` of memory, and those in use a little more. While clients read, at most
    /// `writes_while_reading` writes are under way on a member (1 to 64).
    ///
    /// # Panics
    /// When the members do not cover the size or differ in block size.
    pub fn new(
        rt: &Rt,
        pool: &BufPool,
        members: Vec<OverwriteMember>,
        size_blocks: u64,
        map_cache_bytes: usize,
        writes_while_reading: u64,
    ) -> Self {
        let places = Places::new(rt, members, size_blocks, writes_while_reading);
        let cache = TableCache::new(map_cache_bytes, places.block_size);
        Self(Rc::new(Inner {
            rt: rt.clone(),
            pool: pool.clone(),
            places,
            cache: RefCell::new(cache),
            loads: Loads::default(),
            group_jobs: Semaphore::new(rt, GROUP_JOBS_MAX),
            writer: Semaphore::new(rt, 1),
            stats: Cell::default(),
        }))
    }

    /// Counters, and the memory of the table cache.
    pub(crate) fn stats(&self) -> HomeStats {
        HomeStats {
            map_cache_bytes: self.cache.borrow().bytes(),
            ..self.stats.get()
        }
    }

    /// See [`Home::read`](crate::Home::read).
    pub(crate) async fn read(
        &self,
        first: u64,
        count: u64,
        reader: Reader,
    ) -> Result<Vec<Piece>, HomeError> {
        let mut parts = Vec::new();
        let end = self.checked_end(first, count);
        let _reads = self.note_reads(first..end, reader);
        let mut at = first;
        while at < end {
            let group = self.places.group_of(at);
            let blocks = self.places.blocks_of(group);
            let part = at..end.min(blocks.end);
            self.prefetch_tables(group, end);
            let table = self.table(group).await?;
            let slot = table.slot.borrow();
            let within = (part.start - blocks.start) as usize..(part.end - blocks.start) as usize;
            self.plan_reads(part.start, &slot.entries[within], &mut parts);
            at = part.end;
        }
        self.read_parts(parts).await
    }

    /// Notes that `blocks` are read for `reader`, on each of their members.
    fn note_reads(&self, blocks: Range<u64>, reader: Reader) -> Vec<ClientRead> {
        if reader == Reader::Store || blocks.is_empty() {
            return Vec::new();
        }
        let member = |block| self.places.member_of(self.places.group_of(block));
        let members = &self.places.members[member(blocks.start)..=member(blocks.end - 1)];
        let reads = members.iter().map(|member| member.queue.note_client_read());
        reads.collect()
    }

    async fn read_parts(&self, parts: Vec<Part>) -> Result<Vec<Piece>, HomeError> {
        let runs = parts.iter().filter(|part| matches!(part, Part::Run(_)));
        let alone = runs.take(2).count() < 2;
        let mut pieces = Vec::with_capacity(parts.len());
        let mut under_way = Vec::new();
        for part in parts {
            match part {
                Part::Zero(bytes) => pieces.push(Piece::Zero(bytes)),
                Part::Run(run) => {
                    let member = self.places.member_of(self.places.group_of(run.first));
                    let queue = &self.places.members[member].queue;
                    let turn = queue.read_turn().await;
                    let read = self.clone().read_run(member, run, turn);
                    if alone {
                        pieces.push(Piece::Data(read.await?));
                    } else {
                        under_way.push((pieces.len(), self.rt.spawn(read)));
                        pieces.push(Piece::Zero(0));
                    }
                }
            }
        }
        for (index, read) in under_way {
            pieces[index] = Piece::Data(read.await?);
        }
        Ok(pieces)
    }

    async fn read_run(self, member: usize, run: Run, turn: Permit) -> Result<Slice, HomeError> {
        let offset = self.places.block_offset(run.first);
        let size = self.places.block_size;
        let buf = self
            .read_bytes(member, offset, run.expected.len() * size)
            .await?;
        drop(turn);
        for (index, (content, expected)) in buf.chunks_exact(size).zip(&run.expected).enumerate() {
            let found = entry_of_crc(crc32c(content));
            if found != *expected {
                self.count(|stats| stats.checksum_errors += 1);
                return Err(HomeError::Checksum {
                    block: run.first + index as u64,
                    member: self.places.name(member).to_string(),
                    offset: offset + (index * size) as u64,
                    expected: *expected,
                    found,
                });
            }
        }
        Ok(buf.share())
    }

    /// Cuts blocks with the given entries, the first of which is `first`, into reads and holes.
    fn plan_reads(&self, first: u64, entries: &[u32], parts: &mut Vec<Part>) {
        for (index, chunk) in runs_of(entries) {
            let is_hole = entries[index] == HOLE;
            let bytes = chunk.len() * self.places.block_size;
            match parts.last_mut() {
                Some(Part::Zero(zeroes)) if is_hole => *zeroes += bytes,
                _ if is_hole => parts.push(Part::Zero(bytes)),
                _ => {
                    let mut first = first + index as u64;
                    for expected in chunk.chunks(self.io_blocks() as usize) {
                        let expected = expected.to_vec();
                        let count = expected.len() as u64;
                        parts.push(Part::Run(Run { first, expected }));
                        first += count;
                    }
                }
            }
        }
    }

    /// See [`Home::status`](crate::Home::status).
    pub(crate) async fn status(
        &self,
        first: u64,
        count: u64,
    ) -> Result<Vec<(u64, bool)>, HomeError> {
        let mut runs: Vec<(u64, bool)> = Vec::new();
        let mut add = |blocks: u64, allocated: bool| match runs.last_mut() {
            Some(last) if last.1 == allocated => last.0 += blocks,
            _ => runs.push((blocks, allocated)),
        };
        let end = self.checked_end(first, count);
        let mut at = first;
        while at < end {
            let group = self.places.group_of(at);
            let blocks = self.places.blocks_of(group);
            let part = at..end.min(blocks.end);
            self.prefetch_tables(group, end);
            at = part.end;
            match self.table(group).await {
                Ok(table) => {
                    let slot = table.slot.borrow();
                    let within =
                        (part.start - blocks.start) as usize..(part.end - blocks.start) as usize;
                    for (_, run) in runs_of(&slot.entries[within]) {
                        add(run.len() as u64, run[0] != HOLE);
                    }
                }
                Err(HomeError::Table { .. }) => add(part.end - part.start, true),
                Err(error) => return Err(error),
            }
        }
        Ok(runs)
    }

    fn checked_end(&self, first: u64, count: u64) -> u64 {
        let end = first.saturating_add(count);
        assert!(
            end <= self.places.size_blocks.get(),
            "blocks {first}..{end} of a store of {}",
            self.places.size_blocks.get()
        );
        end
    }

    /// Loads the tables that a walk up to block `end`, which is at `group`, needs next.
    fn prefetch_tables(&self, group: u64, end: u64) {
        let last = self.places.group_of(end - 1);
        if last > group {
            for group in group..=last.min(group + PREFETCH_GROUPS) {
                self.prefetch_table(group);
            }
        }
    }
}

impl Inner {
    /// Blocks of the largest device operation.
    pub(crate) fn io_blocks(&self) -> u64 {
        (IO_BYTES_MAX / self.places.block_size) as u64
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut HomeStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// A read of all of `data` at `offset`. The operation starts at the first poll.
    pub(crate) async fn fill(
        &self,
        member: usize,
        offset: u64,
        data: Data,
    ) -> Result<Data, HomeError> {
        let len = data.len();
        self.count(|stats| {
            stats.reads += 1;
            stats.read_bytes += len as u64;
        });
        let queue = &self.places.members[member].queue;
        let io = queue.device.io(Op::Read, offset, len as u64, data);
        let (result, data) = io.await;
        let whole = result.and_then(|moved| {
            if moved == len {
                Ok(data)
            } else {
                Err(IoError::EIO)
            }
        });
        whole.map_err(|error| queue.error(Op::Read, offset, error))
    }

    /// Counts a changing operation of `len` bytes.
    pub(crate) fn count_change(&self, op: Op, len: u64) {
        self.count(|stats| match op {
            Op::Write => {
                stats.writes += 1;
                stats.write_bytes += len;
            }
            _ => stats.zeroes += 1,
        });
    }
}

/// Cuts `entries` into runs of holes and runs of blocks, each with its index.
fn runs_of(entries: &[u32]) -> impl Iterator<Item = (usize, &[u32])> {
    let mut index = 0;
    entries
        .chunk_by(|a, b| (*a == HOLE) == (*b == HOLE))
        .map(move |run| {
            let at = index;
            index += run.len();
            (at, run)
        })
}
