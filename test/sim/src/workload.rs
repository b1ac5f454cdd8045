//! Seeded workloads on the engine: a few clients make weighted operations on a hot and a cold part of the store.

use crate::content;
use crate::oracle::{Oracle, Stamp};
use crate::store::Shape;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos, Slice};
use tonearm_engine::{Admission, CommitChange, Engine, EngineError};
use tonearm_format::{LOG_SECTOR_MIN, SECTOR};
use tonearm_layout::Piece;
use tonearm_rt::Rt;

const CLIENTS: u64 = 3;

pub type SharedOracle = Rc<RefCell<Oracle>>;

/// Why a workload ended early.
#[derive(Debug)]
pub enum Stop {
    /// An operation failed, which a fault may excuse.
    Failed(EngineError),
    /// A read returned what no fault excuses.
    Wrong(String),
}

impl From<EngineError> for Stop {
    fn from(error: EngineError) -> Self {
        Self::Failed(error)
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Wrong(what) => f.write_str(what),
        }
    }
}

/// Runs `operations` operations over all clients and returns when all clients have ended.
///
/// # Errors
/// When a read returns other content than that of the newest commit, or an operation fails.
pub async fn run(
    rt: Rt,
    engine: Engine,
    oracle: SharedOracle,
    shape: Shape,
    seed: u64,
    operations: u64,
) -> Result<(), Stop> {
    let stamps = Rc::new(Cell::new(seed << 20));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|index| {
            let client = Client {
                rt: rt.clone(),
                engine: engine.clone(),
                oracle: oracle.clone(),
                shape,
                rng: ChaCha8Rng::seed_from_u64(seed ^ (index << 48)),
                stamps: stamps.clone(),
                pool: BufPool::new(1 << 20),
            };
            rt.spawn(client.run(operations / CLIENTS + 1))
        })
        .collect();
    for client in clients {
        client.await?;
    }
    Ok(())
}

struct Client {
    rt: Rt,
    engine: Engine,
    oracle: SharedOracle,
    shape: Shape,
    rng: ChaCha8Rng,
    stamps: Rc<Cell<u64>>,
    pool: BufPool,
}

impl Client {
    async fn run(mut self, operations: u64) -> Result<(), Stop> {
        for _ in 0..operations {
            match self.below(100) {
                0..34 => self.write(8).await?,
                34..50 => self.patch().await?,
                50..56 => self.write(80).await?,
                56..58 => self.write(self.engine.commit_blocks_max() / 3).await?,
                58..66 => self.zero().await?,
                66..74 => self.mixed().await?,
                74..86 => self.flush().await?,
                86..94 => self.check().await?,
                _ => {
                    let micros = self.below(3000);
                    self.rt.sleep(Nanos::from_micros(micros)).await;
                }
            }
        }
        Ok(())
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.rng.next_u64() % bound.max(1)
    }

    /// A range of at most `max` blocks. Half of all ranges lie in the hot eighth.
    fn range(&mut self, max: u64) -> (u64, u64) {
        let blocks = if self.below(2) == 0 {
            self.shape.blocks / 8
        } else {
            self.shape.blocks
        };
        let count = 1 + self.below(max.min(blocks).min(self.engine.commit_blocks_max() / 4));
        let first = self.shape.first_block() + self.below(blocks - count + 1);
        (first, count)
    }

    async fn write(&mut self, max: u64) -> Result<(), EngineError> {
        let (first, count) = self.range(max);
        let permit = self
            .engine
            .reserve(count * u64::from(self.shape.block_size))
            .await?;
        let (data, stamps) = self.content(first, count, Rc::new(permit));
        let changes: Vec<(u64, Stamp)> = (first..).zip(stamps).collect();
        self.commit(vec![CommitChange::Write { first, data }], &changes)
            .await
    }

    async fn zero(&mut self) -> Result<(), EngineError> {
        let (first, _) = self.range(1);
        let count = 1 + self.below(self.shape.first_block() + self.shape.blocks - first);
        let changes: Vec<(u64, Stamp)> = (first..first + count).map(|block| (block, 0)).collect();
        let change = match self.below(2) {
            0 => CommitChange::Trim { first, count },
            _ => CommitChange::Zero { first, count },
        };
        self.commit(vec![change], &changes).await
    }

    /// One commit over several places, which sometimes overlap.
    async fn mixed(&mut self) -> Result<(), EngineError> {
        let (mut changes, mut model) = (Vec::new(), Vec::new());
        // All memory is reserved at once. Clients that hold some and wait for more could deadlock.
        let ranges: Vec<(u64, u64)> = (0..1 + self.below(4)).map(|_| self.range(6)).collect();
        let blocks: u64 = ranges.iter().map(|(_, count)| count).sum();
        let permit = Rc::new(
            self.engine
                .reserve(blocks * u64::from(self.shape.block_size))
                .await?,
        );
        for (first, count) in ranges {
            if self.below(4) == 0 {
                changes.push(CommitChange::Trim { first, count });
                model.extend((first..first + count).map(|block| (block, 0)));
            } else {
                let (data, stamps) = self.content(first, count, permit.clone());
                changes.push(CommitChange::Write { first, data });
                model.extend((first..).zip(stamps));
            }
        }
        self.commit(changes, &model).await
    }

    /// Changes some words of a few blocks. Sometimes one block is patched twice, or is also written by the same commit.
    async fn patch(&mut self) -> Result<(), EngineError> {
        let block_size = self.shape.block_size as usize;
        let (first, count) = self.range(4);
        let mut blocks: Vec<u64> = (first..first + count).collect();
        if self.below(3) == 0 {
            blocks.push(first);
        }
        let steps = blocks.len() as u64;
        let bytes = 2 * steps * block_size as u64;
        let permit = Rc::new(self.engine.reserve(bytes).await?);
        let admission = self.engine.admit(steps, 0).await?;
        let stamps = |client: &Self| -> Vec<Stamp> {
            let oracle = client.oracle.borrow();
            (first..first + count)
                .map(|block| oracle.newest(block))
                .collect()
        };
        let mut newest: BTreeMap<u64, Piece> = BTreeMap::new();
        // Read again until no other client has committed to the blocks meanwhile. From there to the commit there is no
        // await.
        loop {
            let before = stamps(self);
            for block in first..first + count {
                let pieces = self.engine.read(block, 1).await?;
                newest.extend(pieces.into_iter().map(|piece| (block, piece)));
            }
            if before == stamps(self) {
                break;
            }
        }
        let (mut changes, mut model) = (Vec::new(), Vec::new());
        for block in blocks {
            let whole = self.below(8) == 0;
            let old = match newest.get(&block) {
                // Zeroes have no stamp, so a patch cannot start from them.
                Some(Piece::Data(data)) if !whole && stamp_of(data) != 0 => {
                    (stamp_of(data) % 256 < 255).then(|| data.clone())
                }
                _ => None,
            };
            let Some(old) = old else {
                let (data, stamps) = self.content(block, 1, permit.clone());
                newest.insert(block, Piece::Data(data.clone()));
                changes.push(CommitChange::Write { first: block, data });
                model.push((block, stamps[0]));
                continue;
            };
            let mut buf = self.pool.copy_of(&old);
            let stamp = stamp_of(&buf) + 1;
            apply(&mut buf, &patch_of(stamp, block_size));
            buf.attach(permit.clone());
            let data = buf.share();
            newest.insert(block, Piece::Data(data.clone()));
            changes.push(CommitChange::Write { first: block, data });
            model.push((block, stamp));
        }
        self.admitted(admission, changes, &model).await
    }

    async fn commit(
        &mut self,
        changes: Vec<CommitChange>,
        model: &[(u64, Stamp)],
    ) -> Result<(), EngineError> {
        let data = |change: &CommitChange| match change {
            CommitChange::Write { data, .. } => {
                data.len() as u64 / u64::from(self.shape.block_size)
            }
            _ => 0,
        };
        let blocks = changes.iter().map(data).sum();
        let admission = self.engine.admit(blocks, changes.len() as u64).await?;
        self.admitted(admission, changes, model).await
    }

    /// Makes a commit, and sometimes waits until it is durable.
    async fn admitted(
        &mut self,
        admission: Admission,
        changes: Vec<CommitChange>,
        model: &[(u64, Stamp)],
    ) -> Result<(), EngineError> {
        let lsn = self.engine.commit(admission, changes)?;
        let index = self.oracle.borrow_mut().change(model);
        if self.below(4) == 0 {
            self.engine.wait_durable(lsn).await?;
            self.oracle.borrow_mut().acknowledge(index);
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), EngineError> {
        let index = self.oracle.borrow().last();
        self.engine.flush().await?;
        self.oracle.borrow_mut().acknowledge(index);
        Ok(())
    }

    /// Reads a range and compares it with the model. The read may or may not see commits that other clients make
    /// meanwhile.
    async fn check(&mut self) -> Result<(), Stop> {
        let (first, count) = self.range(40);
        let expected = |client: &Self| -> Vec<Stamp> {
            (first..first + count)
                .map(|block| client.oracle.borrow().newest(block))
                .collect()
        };
        let before = expected(self);
        let found = read_stamps(&self.engine, first, count).await?;
        let after = expected(self);
        for (index, stamp) in found.iter().enumerate() {
            if before[index] == after[index] && *stamp != before[index] {
                let block = first + index as u64;
                return Err(Stop::Wrong(format!(
                    "read of block {block}: found {stamp:x}, expected {:x}",
                    before[index]
                )));
            }
        }
        Ok(())
    }

    /// New content for `count` blocks: stamped, and sometimes in the form of a log record of this store.
    fn content(
        &mut self,
        first: u64,
        count: u64,
        permit: Rc<tonearm_rt::Permit>,
    ) -> (Slice, Vec<Stamp>) {
        let block_size = self.shape.block_size as usize;
        let mut buf = self.pool.alloc(count as usize * block_size);
        let mut stamps = Vec::new();
        for (index, block) in buf.chunks_exact_mut(block_size).enumerate() {
            self.stamps.set(self.stamps.get() + 1);
            let stamp = self.stamps.get() << 8;
            let evil = self.rng.next_u64().is_multiple_of(8);
            fill(block, stamp, first + index as u64, evil);
            stamps.push(stamp);
        }
        buf.attach(permit);
        (buf.share(), stamps)
    }
}

/// Most runs of adjacent words in a patch, and most words of a run. For a large patch the log takes the whole block.
const PATCH_RUNS_MAX: u64 = 6;
const RUN_WORDS_MAX: u64 = 120;

/// The stamp of a block that is not all zeroes.
fn stamp_of(block: &[u8]) -> Stamp {
    let end = block.len();
    u64::from_le_bytes(block[end - 8..].try_into().expect("eight bytes"))
}

/// The patch that turns the version before `stamp` into version `stamp`: byte offsets and the words at them. The low
/// byte of a stamp counts the patches since the block was written whole.
fn patch_of(stamp: Stamp, block_size: usize) -> Vec<(usize, u64)> {
    let mix = |index: u64| {
        let mixed = (stamp ^ (index << 56)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    // Every word but the last three, which describe the block.
    let places = (block_size / 8 - 3) as u64;
    let count = mix(0) % PATCH_RUNS_MAX;
    let words = (1..=count).flat_map(|index| {
        let first = (mix(index) >> 32) % places;
        let run = match mix(index) % 3 {
            0 => 1 + mix(index) % RUN_WORDS_MAX,
            _ => 1,
        };
        let run = first..(first + run).min(places);
        run.map(move |word| (8 * word as usize, mix(index).wrapping_add(word)))
    });
    words.chain([(block_size - 8, stamp)]).collect()
}

fn apply(block: &mut [u8], words: &[(usize, u64)]) {
    for (at, value) in words {
        block[*at..][..8].copy_from_slice(&value.to_le_bytes());
    }
}

/// Fills the content of block `number` in version `stamp`. With `evil` it looks like a log record of this store that is
/// younger than any real one.
pub fn fill(block: &mut [u8], stamp: Stamp, number: u64, evil: bool) {
    for (index, word) in block.chunks_exact_mut(8).enumerate() {
        let value = stamp
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(index as u64)
            ^ number;
        word.copy_from_slice(&value.to_le_bytes());
    }
    // The forged record is as large as a log sector of 4096 or of 512 bytes.
    let sector = if (stamp >> 8).is_multiple_of(2) {
        SECTOR
    } else {
        LOG_SECTOR_MIN
    };
    if evil {
        content::forged(stamp).encode(&[], &mut block[..sector]);
    }
    let end = block.len();
    block[end - 24..end - 16].copy_from_slice(&u64::from(evil).to_le_bytes());
    block[end - 16..end - 8].copy_from_slice(&number.to_le_bytes());
    block[end - 8..].copy_from_slice(&stamp.to_le_bytes());
    if evil {
        // The trailer lies in the unused end of the header. The new checksum keeps the record valid.
        let mut sealed = block[..sector].to_vec();
        sealed[12..16].fill(0);
        let crc = tonearm_base::crc32c(&sealed);
        block[12..16].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Stamps of `count` blocks from `first` on. Every byte of each block is verified.
///
/// # Errors
/// When a block cannot be read, or does not have the content of one stamp.
pub async fn read_stamps(engine: &Engine, first: u64, count: u64) -> Result<Vec<Stamp>, Stop> {
    let block_size = engine.block_size();
    let mut stamps = Vec::with_capacity(count as usize);
    let mut expected = vec![0; block_size];
    for piece in engine.read(first, count).await? {
        match piece {
            Piece::Zero(bytes) => stamps.extend(std::iter::repeat_n(0, bytes / block_size)),
            Piece::Data(data) => {
                for block in data.chunks_exact(block_size) {
                    let number = first + stamps.len() as u64;
                    let word = |back: usize| {
                        let at = block_size - back;
                        u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"))
                    };
                    let stamp = word(8);
                    if stamp != 0 {
                        let whole = stamp & !255;
                        fill(&mut expected, whole, number, word(24) != 0);
                        for patched in whole + 1..=stamp {
                            apply(&mut expected, &patch_of(patched, block_size));
                        }
                    } else {
                        expected.fill(0);
                    }
                    if block != expected {
                        return Err(Stop::Wrong(format!(
                            "block {number} is neither zero nor whole (stamp {stamp:x})"
                        )));
                    }
                    stamps.push(stamp);
                }
            }
        }
    }
    Ok(stamps)
}
