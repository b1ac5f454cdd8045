//! Home space for shadows that do not fit in memory (ARU 4: shadow versions on disk).
//!
//! The space is a hidden volume. It is made when it is first needed, and grows. It is given back when the store is
//! otherwise full and no shadow is in it, and at the next opening. Shadows that are left there at an opening belong to
//! units that never ended. The blocks that ended units moved from there are at home by then.
//!
//! Invariants:
//! 1. A block is written here only when no recovery sees a commit that changes it or moves from it (`Engine::retire`).
//!    The store makes sure of this when the volume gets the block, and again when the content that was moved from the
//!    block is at home.
//! 2. A block is of one shadow at most.

use crate::error::DiskError;
use crate::map;
use crate::state::{Life, SharedVolume};
use crate::table::{self, SPILL, SharedTable, Table};
use async_recursion::async_recursion as boxed;
use std::cell::RefCell;
use std::collections::BTreeMap;
use tonearm_base::{BufPool, Lsn, Slice};
use tonearm_engine::{ArchiveState, Engine};
use tonearm_format::{Extent, VolumeEntry, VolumeKind};
use tonearm_rt::{Rt, Semaphore};

/// With an archive, the space is up to this many times the memory for shadows, so that it is reused later.
const ARCHIVE_SPACE: u64 = 4;

/// Where a shadow lies at home, before its commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spilled {
    /// Home block.
    pub block: u64,
    /// CRC-32C of its content.
    pub crc: u32,
}

/// The space.
pub(crate) struct Spill {
    engine: Engine,
    pool: BufPool,
    table: SharedTable,
    /// Bytes that shadows may hold in memory.
    memory_bytes: u64,
    /// One unit looks for space at a time.
    turn: Semaphore,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Free runs: first block and count.
    free: BTreeMap<u64, u64>,
    /// Blocks from which commits up to `through` move. They are free once `through` is retired.
    moved: Vec<u64>,
    through: Lsn,
}

impl State {
    fn free_blocks(&self) -> u64 {
        self.free.values().sum()
    }

    fn release(&mut self, mut first: u64, mut count: u64) {
        if let Some((before, len)) = self.free.range(..first).next_back().map(|(a, b)| (*a, *b))
            && before + len == first
        {
            self.free.remove(&before);
            (first, count) = (before, len + count);
        }
        if let Some(len) = self.free.remove(&(first + count)) {
            count += len;
        }
        self.free.insert(first, count);
    }

    /// Takes runs of `count` blocks together, if there are as many.
    fn take(&mut self, count: u64) -> Option<Vec<Extent>> {
        if self.free_blocks() < count {
            return None;
        }
        let (mut taken, mut left) = (Vec::new(), count);
        while left > 0 {
            let (start, len) = self.free.pop_first()?;
            let part = len.min(left);
            if part < len {
                self.free.insert(start + part, len - part);
            }
            taken.push(Extent { start, count: part });
            left -= part;
        }
        Some(taken)
    }
}

impl Spill {
    pub fn new(
        rt: &Rt,
        pool: &BufPool,
        engine: &Engine,
        table: &SharedTable,
        memory_bytes: u64,
    ) -> Self {
        Self {
            engine: engine.clone(),
            pool: pool.clone(),
            table: table.clone(),
            memory_bytes,
            turn: Semaphore::new(rt, 1),
            state: RefCell::default(),
        }
    }

    /// Frees the block of a shadow that has been dropped.
    pub fn release(&self, spilled: Spilled) {
        self.state.borrow_mut().release(spilled.block, 1);
    }

    /// Notes that commit `lsn` moves from `blocks`.
    pub fn moved(&self, lsn: Lsn, blocks: impl Iterator<Item = u64>) {
        let mut state = self.state.borrow_mut();
        state.moved.extend(blocks);
        state.through = lsn;
    }

    /// Bytes of the space.
    pub fn bytes(&self) -> u64 {
        self.volume()
            .map_or(0, |space| space.borrow().entry.size_bytes)
    }

    fn volume(&self) -> Option<SharedVolume> {
        self.table.borrow().of_kind(VolumeKind::Spill)
    }

    /// Gives back the space that the last opening left. It is not needed: recovery has brought home what was moved from
    /// it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn drop_all(&self) -> Result<(), DiskError> {
        let Some(shared) = self.volume() else {
            return Ok(());
        };
        let (slot, extents) = {
            let state = shared.borrow();
            (state.slot, state.entry.extents.clone())
        };
        let admission = self.engine.admit(1, extents.len() as u64).await?;
        let mut changes: Vec<_> = extents.iter().map(map::trim_of).collect();
        changes.push(table::clear(&self.engine, &self.pool, slot));
        self.engine.commit(admission, changes)?;
        self.table.borrow_mut().volumes.remove(SPILL);
        Ok(())
    }

    /// Gives the space back to the store, if no shadow is in it. Returns whether it has. Called when the store is full.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn give_back(&self) -> Result<bool, DiskError> {
        // While this is held, no unit takes space.
        let _turn = self.turn.acquire(1).await;
        let Some(shared) = self.volume() else {
            return Ok(false);
        };
        let (moved, through) = {
            let state = self.state.borrow();
            (state.moved.len(), state.through)
        };
        if moved > 0 {
            self.engine.retire(through).await?;
        }
        let all = map::blocks(&shared.borrow().entry.extents);
        {
            let mut state = self.state.borrow_mut();
            let more = state.moved.split_off(moved);
            for block in std::mem::replace(&mut state.moved, more) {
                state.release(block, 1);
            }
            if state.free_blocks() < all {
                return Ok(false);
            }
            state.free.clear();
        }
        self.drop_all().await?;
        Ok(true)
    }

    /// Writes blocks to home space of their own. They are durable there on return.
    ///
    /// # Errors
    /// When there is no space, or the store fails. Nothing is kept then.
    #[boxed(?Send)]
    pub async fn write(&self, data: Vec<Slice>) -> Result<Vec<Spilled>, DiskError> {
        let runs = self.take_space(data.len() as u64).await?;
        let (mut data, mut spilled) = (data.into_iter(), Vec::new());
        let mut failed = None;
        for run in &runs {
            let part = data.by_ref().take(run.count as usize).collect();
            match self.engine.spill(run.start, part).await {
                Ok(crcs) => spilled.extend((run.start..).zip(crcs)),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        match failed {
            None => Ok(spilled
                .into_iter()
                .map(|(block, crc)| Spilled { block, crc })
                .collect()),
            Some(error) => {
                let mut state = self.state.borrow_mut();
                for run in runs {
                    state.release(run.start, run.count);
                }
                Err(error.into())
            }
        }
    }

    async fn take_space(&self, blocks: u64) -> Result<Vec<Extent>, DiskError> {
        let _turn = self.turn.acquire(1).await;
        loop {
            let (moved, through) = {
                let mut state = self.state.borrow_mut();
                if let Some(taken) = state.take(blocks) {
                    return Ok(taken);
                }
                (state.moved.len(), state.through)
            };
            // Blocks that were moved from are free once their content is at home. The space grows only when these
            // blocks are not enough.
            let enough = moved as u64 + self.state.borrow().free_blocks() >= blocks;
            if !enough || self.is_awaited(through) {
                match self.grow(blocks).await {
                    Ok(()) => continue,
                    Err(error) if moved == 0 => return Err(error),
                    Err(_) => {}
                }
            }
            self.engine.retire(through).await?;
            let mut state = self.state.borrow_mut();
            // Units that have ended meanwhile have added their blocks at the end.
            let more = state.moved.split_off(moved);
            for block in std::mem::replace(&mut state.moved, more) {
                state.release(block, 1);
            }
        }
    }

    /// True while an archive may still have to read blocks from which commits up to `through` move. The space grows a few times
    /// for that.
    fn is_awaited(&self, through: Lsn) -> bool {
        let engine = &self.engine;
        let is_read = engine
            .archive()
            .is_some_and(|archive| archive.state != ArchiveState::Ended);
        let most = ARCHIVE_SPACE * self.memory_bytes;
        is_read && engine.archived() < through && self.bytes() < most
    }

    async fn grow(&self, blocks: u64) -> Result<(), DiskError> {
        let admission = self.engine.admit(1, 0).await?;
        let (lsn, held) = {
            let mut table = self.table.borrow_mut();
            let known = table.of_kind(VolumeKind::Spill);
            let shared = match known {
                Some(shared) => shared,
                None => {
                    let slot = table.hold_slot()?;
                    let entry = VolumeEntry {
                        uuid: [0; 16],
                        name: SPILL.to_string(),
                        size_bytes: 0,
                        kind: VolumeKind::Spill,
                        read_only: false,
                        created_unix_s: 0,
                        extents: Vec::new(),
                    };
                    table.state(slot, entry, Life::Pending)
                }
            };
            let made = shared.borrow().life == Life::Pending;
            let slot = shared.borrow().slot;
            let grown = self.grow_entry(&mut table, &shared.borrow().entry, blocks);
            let committed = grown.and_then(|(entry, held)| {
                let put = table::put(&self.engine, &self.pool, slot, &entry);
                let committed = self.engine.commit(admission, vec![put]);
                table.release_blocks(&held);
                Ok((committed?, entry, held))
            });
            if made {
                table.release_slot(slot);
            }
            let (lsn, entry, held) = committed?;
            let mut state = shared.borrow_mut();
            (state.entry, state.life) = (entry, Life::Live);
            drop(state);
            table.volumes.insert(SPILL.to_string(), shared);
            (lsn, held)
        };
        self.engine.retire(lsn).await?;
        let mut state = self.state.borrow_mut();
        for extent in held {
            state.release(extent.start, extent.count);
        }
        Ok(())
    }

    fn grow_entry(
        &self,
        table: &mut Table,
        entry: &VolumeEntry,
        blocks: u64,
    ) -> Result<(VolumeEntry, Vec<Extent>), DiskError> {
        let engine = &self.engine;
        let block_size = self.engine.block_size() as u64;
        let have = map::blocks(&entry.extents);
        // The first allocation is as large as the memory for shadows.
        let ahead = self.memory_bytes / block_size;
        let wanted = have.max(ahead).max(blocks);
        let size_blocks = engine.size_blocks();
        let held = table.hold_blocks(&entry.extents, blocks, wanted, size_blocks, block_size)?;
        let extents = map::append(entry.extents.clone(), &held);
        let size_bytes = map::blocks(&extents) * block_size;
        let entry = VolumeEntry {
            size_bytes,
            extents,
            ..entry.clone()
        };
        Ok((entry, held))
    }
}
