//! A small store, and a naive model of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::{Buf, BufPool, Nanos, crc32c};
use tonearm_device::{Device, DeviceIo, RawDevice};
use tonearm_format::{Geometry, HEADER_AREA_BYTES};
use tonearm_layout::{
    Home, HomeBlock, HomeError, Overwrite, OverwriteMember, Piece, Reader, ZeroRange,
};
use tonearm_rt::{Data, DeviceId, Op, Rt};
use tonearm_world::filters::{Fault, FaultPlan};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

/// The parameters of a store.
#[derive(Clone, Copy)]
pub struct Shape {
    pub block_size: u32,
    pub groups: [u64; 2],
    /// Blocks at the end of the last group that do not exist.
    pub cut: u64,
    pub cache_bytes: usize,
}

pub const SMALL: Shape = Shape {
    block_size: 4096,
    groups: [2, 2],
    cut: 100,
    cache_bytes: 1 << 20,
};

pub const LARGE_BLOCKS: Shape = Shape {
    block_size: 16384,
    groups: [1, 2],
    cut: 7,
    cache_bytes: 1 << 20,
};

impl Shape {
    pub fn geometry(&self, member: usize) -> Geometry {
        Geometry {
            block_size: self.block_size,
            data_offset: HEADER_AREA_BYTES,
            groups: self.groups[member],
        }
    }

    pub fn group_blocks(&self) -> u64 {
        self.geometry(0).group_blocks()
    }

    pub fn size_blocks(&self) -> u64 {
        self.groups.iter().sum::<u64>() * self.group_blocks() - self.cut
    }

    pub fn images(&self) -> Vec<DiskImage> {
        (0..2)
            .map(|member| DiskImage::new(self.geometry(member).end_offset()))
            .collect()
    }

    pub fn content(&self, block: u64, version: u32) -> Vec<u8> {
        let mut bytes = vec![(version % 251) as u8; self.block_size as usize];
        for sector in bytes.chunks_exact_mut(512) {
            sector[..8].copy_from_slice(&block.to_le_bytes());
            sector[8..12].copy_from_slice(&version.to_le_bytes());
        }
        bytes
    }
}

/// A store that is open in a simulated world.
pub struct Store {
    pub shape: Shape,
    pub world: SimWorld,
    pub rt: Rt,
    pub pool: BufPool,
    pub home: Overwrite,
    pub faults: FaultPlan,
}

impl Store {
    pub fn new(shape: Shape) -> Self {
        Self::on(shape, shape.images(), 1)
    }

    pub fn on(shape: Shape, images: Vec<DiskImage>, seed: u64) -> Self {
        let options = SimOptions {
            seed,
            ..SimOptions::default()
        };
        let world = SimWorld::new(options, images);
        let rt = Rt::new(world.driver());
        Self::in_world(shape, world, rt, Nanos(0))
    }

    /// A read returns what the medium held when it ended, `late` after that moment.
    pub fn with_late_reads(shape: Shape, images: Vec<DiskImage>, late: Nanos) -> Self {
        let world = SimWorld::new(SimOptions::default(), images);
        let rt = Rt::new(world.driver());
        Self::in_world(shape, world, rt, late)
    }

    fn in_world(shape: Shape, world: SimWorld, rt: Rt, late: Nanos) -> Self {
        let pool = BufPool::new(8 << 20);
        let faults = FaultPlan::new();
        let members = (0..2).map(|member| {
            let id = DeviceId(member as u32);
            let geometry = shape.geometry(member);
            let name = ["left.tn", "right.tn"][member];
            let raw = RawDevice::new(&rt, id, geometry.end_offset(), 4096, name);
            let raw = LateReads {
                inner: raw,
                rt: rt.clone(),
                late,
            };
            let device: Rc<dyn Device> = Rc::new(Fault::new(Rc::new(raw), &faults));
            OverwriteMember { device, geometry }
        });
        let size = shape.size_blocks();
        let home = Overwrite::new(&rt, &pool, members.collect(), size, shape.cache_bytes, 8);
        Self {
            shape,
            world,
            rt,
            pool,
            home,
            faults,
        }
    }

    /// A new process on the same devices, whose caches keep what was not flushed.
    pub fn killed_and_reopened(self) -> Self {
        Self::in_world(self.shape, self.world, self.rt, Nanos(0))
    }

    pub fn try_apply(&self, batch: &Batch) -> Result<(), HomeError> {
        let (home, zeroes) = (self.home.clone(), batch.zeroes.clone());
        let blocks = batch.home_blocks(self);
        let result = self
            .rt
            .block_on(async move { home.write_back(zeroes, blocks).await });
        assert_eq!(self.rt.in_flight(), 0, "nothing is under way after a call");
        result
    }

    pub fn apply(&self, batch: &Batch) {
        self.try_apply(batch).expect("a write-back without faults");
    }

    pub fn pieces(&self, first: u64, count: u64) -> Result<Vec<Piece>, HomeError> {
        let home = self.home.clone();
        self.rt
            .block_on(async move { home.read(first, count, Reader::Client).await })
    }

    pub fn read(&self, first: u64, count: u64) -> Result<Vec<u8>, HomeError> {
        let mut bytes = Vec::new();
        for piece in self.pieces(first, count)? {
            piece.append_to(&mut bytes);
        }
        assert_eq!(bytes.len() as u64, count * u64::from(self.shape.block_size));
        Ok(bytes)
    }

    pub fn status(&self, first: u64, count: u64) -> Vec<(u64, bool)> {
        let home = self.home.clone();
        self.rt
            .block_on(async move { home.status(first, count).await })
            .expect("status")
    }

    /// Every block for which `of_interest` holds reads as in the model.
    pub fn verify(&self, model: &Model, of_interest: impl Fn(u64) -> bool) -> Result<(), String> {
        let size = self.shape.size_blocks();
        let mut first = 0;
        while first < size {
            let wanted = of_interest(first);
            let end = (first..size)
                .find(|block| of_interest(*block) != wanted)
                .unwrap_or(size);
            if wanted {
                self.verify_range(model, first, end)?;
            }
            first = end;
        }
        Ok(())
    }

    fn verify_range(&self, model: &Model, first: u64, end: u64) -> Result<(), String> {
        let pieces = self
            .pieces(first, end - first)
            .map_err(|error| error.to_string())?;
        let size = self.shape.block_size as usize;
        let mut block = first;
        for piece in pieces {
            match piece {
                Piece::Zero(bytes) => {
                    let blocks = (bytes / size) as u64;
                    if let Some((block, version)) = model.0.range(block..block + blocks).next() {
                        return Err(format!("block {block}: zeroes, not version {version}"));
                    }
                    block += blocks;
                }
                Piece::Data(data) => {
                    for found in data.chunks_exact(size) {
                        let Some(version) = model.0.get(&block) else {
                            return Err(format!("block {block}: content in a hole"));
                        };
                        if found != self.shape.content(block, *version) {
                            return Err(format!("block {block}: not version {version}"));
                        }
                        block += 1;
                    }
                }
            }
        }
        assert_eq!(block, end, "the pieces are as long as the range");
        Ok(())
    }

    pub fn buf(&self, block: u64, version: u32) -> Buf {
        self.pool.copy_of(&self.shape.content(block, version))
    }
}

struct LateReads {
    inner: RawDevice,
    rt: Rt,
    late: Nanos,
}

impl Device for LateReads {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        let io = self.inner.io(op, offset, len, data);
        if op != Op::Read || self.late == Nanos(0) {
            return io;
        }
        let (rt, late) = (self.rt.clone(), self.late);
        Box::pin(async move {
            let end = io.await;
            rt.sleep(late).await;
            end
        })
    }
}

/// The version of each block that is not a hole.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Model(pub BTreeMap<u64, u32>);

/// The changes of one write-back.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    pub zeroes: Vec<ZeroRange>,
    pub blocks: BTreeMap<u64, u32>,
}

impl Batch {
    pub fn blocks(blocks: impl IntoIterator<Item = u64>, version: u32) -> Self {
        Self {
            zeroes: Vec::new(),
            blocks: blocks.into_iter().map(|block| (block, version)).collect(),
        }
    }

    pub fn zero(first: u64, count: u64, keep_space: bool) -> Self {
        Self {
            zeroes: vec![ZeroRange {
                first,
                count,
                keep_space,
            }],
            ..Self::default()
        }
    }

    pub fn home_blocks(&self, store: &Store) -> Vec<HomeBlock> {
        let blocks = self.blocks.iter().map(|(block, version)| {
            let data = store.buf(*block, *version).share();
            let crc = crc32c(&data);
            HomeBlock {
                block: *block,
                data,
                crc,
            }
        });
        blocks.collect()
    }

    pub fn touches(&self, block: u64) -> bool {
        self.blocks.contains_key(&block)
            || self
                .zeroes
                .iter()
                .any(|zero| (zero.first..zero.first + zero.count).contains(&block))
    }

    pub fn change(&self, model: &mut Model) {
        for zero in &self.zeroes {
            model
                .0
                .retain(|block, _| !(zero.first..zero.first + zero.count).contains(block));
        }
        model.0.extend(&self.blocks);
    }
}

/// A small seeded random generator.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

/// A batch of blocks and zero ranges, many of them near the borders of groups.
pub fn random_batch(shape: &Shape, dice: &mut Dice, version: u32) -> Batch {
    let (size, group) = (shape.size_blocks(), shape.group_blocks());
    let place = |dice: &mut Dice| match dice.below(3) {
        0 => dice.below(size),
        _ => ((dice.below(5) * group + dice.below(24)).saturating_sub(12)).min(size - 1),
    };
    let mut batch = Batch::default();
    for _ in 0..dice.below(5) + 1 {
        let first = place(dice);
        for block in first..(first + dice.below(6) + 1).min(size) {
            batch.blocks.insert(block, version);
        }
    }
    for _ in 0..dice.below(3) {
        let first = place(dice);
        let count = match dice.below(4) {
            0 => dice.below(2 * group) + 1,
            _ => dice.below(20) + 1,
        };
        batch.zeroes.push(ZeroRange {
            first,
            count: count.min(size - first),
            keep_space: dice.one_in(3),
        });
    }
    if dice.one_in(3) {
        let first = dice.below(size / group) * group;
        batch.zeroes.push(ZeroRange {
            first,
            count: (group * (dice.below(2) + 1)).min(size - first),
            keep_space: dice.one_in(3),
        });
    }
    batch
}

/// Collects the crash states of `run`: one after each submission and each completion.
pub fn crash_states(world: &SimWorld, run: impl FnOnce()) -> Vec<tonearm_world::Crash> {
    let states = Rc::new(RefCell::new(Vec::new()));
    let seen = states.clone();
    world.on_io(move |_, crash| seen.borrow_mut().push(crash.clone()));
    run();
    world.clear_hook();
    states.take()
}
