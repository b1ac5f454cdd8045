//! A small store of the segments layout in a simulated world, and a model of it.

use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos, crc32c};
use tonearm_device::{Device, RawDevice};
use tonearm_format::{HEADER_AREA_BYTES, Placement, SegmentLayout, segments_for};
use tonearm_layout::{
    Home, HomeBlock, HomeError, Plugging, Policy, Reader, RebuildReport, Segments, SegmentsMember,
    SegmentsOptions, ZeroRange,
};
use tonearm_rt::{Data, DeviceId, Rt};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

pub const BLOCK: usize = 4096;

#[derive(Clone, Copy)]
pub struct Shape {
    pub blocks: u64,
    pub segment_bytes: u32,
    /// Segments of the store.
    pub segments: u64,
    pub cache_bytes: usize,
    pub policy: Policy,
    pub plugging: Plugging,
    pub placement: Placement,
    /// Which blocks are overwritten in place.
    pub given: Option<Cold>,
}

/// Tells which blocks are overwritten in place.
pub type Cold = fn(u64) -> bool;

/// All blocks are appended, or two of three are overwritten in place.
pub const GIVEN: [Option<Cold>; 2] = [None, Some(|block| block % 3 != 0)];

impl Shape {
    pub fn small(blocks: u64) -> Self {
        Self {
            blocks,
            segment_bytes: 64 << 10,
            segments: segments_for(4096, 64 << 10, blocks, 10),
            cache_bytes: 32 << 10,
            policy: Policy::CostAge,
            plugging: Plugging::Never,
            placement: Placement::Append,
            given: None,
        }
    }

    pub fn layout(&self) -> SegmentLayout {
        SegmentLayout {
            block_size: 4096,
            segment_bytes: self.segment_bytes,
            segments: self.segments,
        }
    }

    pub fn first_segment(&self) -> u64 {
        HEADER_AREA_BYTES + self.layout().checkpoint_bytes()
    }

    fn size(&self) -> u64 {
        self.first_segment() + self.segments * u64::from(self.segment_bytes)
    }

    pub fn options(&self) -> SegmentsOptions {
        SegmentsOptions {
            store: [9; 16],
            block_size: 4096,
            segment_bytes: self.segment_bytes,
            size_blocks: self.blocks,
            map_cache_bytes: self.cache_bytes,
            policy: self.policy,
            plugging: self.plugging,
            placement: self.placement,
            separation_interval: Nanos::from_secs(1200),
            given: self.given,
            writes_while_reading: 8,
            read_only: false,
        }
    }
}

pub struct Store {
    pub shape: Shape,
    pub world: SimWorld,
    pub rt: Rt,
    pub pool: BufPool,
    pub home: Segments,
    /// Version of each block that is no hole.
    pub model: BTreeMap<u64, u32>,
    next: u32,
}

impl Store {
    pub fn new(shape: Shape) -> Self {
        let world = SimWorld::new(SimOptions::default(), vec![DiskImage::new(shape.size())]);
        Self::made(shape, world)
    }

    /// A new store in `world`.
    pub fn made(shape: Shape, world: SimWorld) -> Self {
        let (rt, pool) = (Rt::new(world.driver()), BufPool::new(1 << 20));
        let members = vec![member(&rt, shape)];
        let (rt2, pool2) = (rt.clone(), pool.clone());
        rt.block_on(async move {
            let options = shape.options();
            Segments::create(&rt2, &pool2, members, &options)
                .await
                .unwrap();
        });
        let home = open(&rt, &pool, shape).unwrap();
        let model = BTreeMap::new();
        Self {
            shape,
            world,
            rt,
            pool,
            home,
            model,
            next: 0,
        }
    }

    /// The same medium in a new process, after a power cut that loses only unflushed writes.
    pub fn reopened(&self, cut: u64) -> Result<Self, HomeError> {
        self.on(match cut {
            0 => self.world.images(),
            cut => self.world.crash().images(cut),
        })
    }

    /// The store of `images` in a new process.
    pub fn on(&self, images: Vec<DiskImage>) -> Result<Self, HomeError> {
        self.in_world(SimWorld::new(SimOptions::default(), images))
    }

    /// The content of the drive of `world` in a new process.
    pub fn in_world(&self, world: SimWorld) -> Result<Self, HomeError> {
        let (rt, pool) = (Rt::new(world.driver()), BufPool::new(1 << 20));
        let home = open(&rt, &pool, self.shape)?;
        let (shape, model, next) = (self.shape, self.model.clone(), self.next);
        Ok(Self {
            shape,
            world,
            rt,
            pool,
            home,
            model,
            next,
        })
    }

    pub fn content(block: u64, version: u32) -> Vec<u8> {
        let mut bytes = vec![(version % 251) as u8; BLOCK];
        for sector in bytes.chunks_exact_mut(512) {
            sector[..8].copy_from_slice(&block.to_le_bytes());
            sector[8..12].copy_from_slice(&version.to_le_bytes());
        }
        bytes
    }

    /// Writes new content into `blocks`, in one call.
    pub fn write(&mut self, blocks: &[u64], holes: &[(u64, u64)]) {
        self.try_write(blocks, holes).unwrap();
    }

    /// Writes every block, in calls of at most `call` blocks.
    pub fn fill(&mut self, call: usize) {
        let all: Vec<u64> = (0..self.shape.blocks).collect();
        for part in all.chunks(call) {
            self.write(part, &[]);
        }
    }

    /// As [`Store::write`]; after an error the model is as if the call had been made.
    pub fn try_write(&mut self, blocks: &[u64], holes: &[(u64, u64)]) -> Result<(), HomeError> {
        let mut sorted = blocks.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        for (first, count) in holes {
            let gone = self
                .model
                .range(*first..first + count)
                .map(|(block, _)| *block);
            gone.collect::<Vec<_>>().iter().for_each(|block| {
                self.model.remove(block);
            });
        }
        let mut home_blocks = Vec::new();
        for block in sorted {
            home_blocks.push(self.new_version(block));
        }
        let zeroes = holes.iter().map(|(first, count)| ZeroRange {
            first: *first,
            count: *count,
            keep_space: false,
        });
        let (home, zeroes) = (self.home.clone(), zeroes.collect());
        self.rt
            .block_on(async move { home.write_back(zeroes, home_blocks).await })
    }

    /// New content for a block, which the model has from now on.
    pub fn new_version(&mut self, block: u64) -> HomeBlock {
        let (version, home_block) = self.next_version(block);
        self.model.insert(block, version);
        home_block
    }

    /// New content for a block, and its version.
    pub fn next_version(&mut self, block: u64) -> (u32, HomeBlock) {
        self.next += 1;
        let bytes = Self::content(block, self.next);
        let home_block = HomeBlock {
            block,
            crc: crc32c(&bytes),
            data: self.pool.copy_of(&bytes).share(),
        };
        (self.next, home_block)
    }

    /// Writes the model's content of `blocks` and holes again, as the engine's log does after a crash.
    pub fn replay(&mut self, blocks: &[u64], holes: &[(u64, u64)]) {
        let zeroes = holes.iter().map(|(first, count)| ZeroRange {
            first: *first,
            count: *count,
            keep_space: false,
        });
        let known = blocks.iter().filter_map(|block| {
            let version = self.model.get(block)?;
            Some((*block, Self::content(*block, *version)))
        });
        let home_blocks: BTreeMap<u64, HomeBlock> = known
            .map(|(block, bytes)| {
                let crc = crc32c(&bytes);
                let data = self.pool.copy_of(&bytes).share();
                (block, HomeBlock { block, data, crc })
            })
            .collect();
        let (home, zeroes) = (self.home.clone(), zeroes.collect());
        let blocks = home_blocks.into_values().collect();
        self.rt
            .block_on(async move { home.write_back(zeroes, blocks).await })
            .unwrap();
    }

    pub fn close(&self) {
        let home = self.home.clone();
        self.rt.block_on(async move { home.close().await }).unwrap();
    }

    pub fn read(&self, first: u64, count: u64) -> Result<Vec<u8>, HomeError> {
        let home = self.home.clone();
        let pieces = self
            .rt
            .block_on(async move { home.read(first, count, Reader::Client).await })?;
        let mut bytes = Vec::new();
        for piece in pieces {
            piece.append_to(&mut bytes);
        }
        Ok(bytes)
    }

    /// Compares every block with the model, and the map with the summaries.
    pub fn compare(&self) {
        self.compare_but(|_| false);
    }

    /// As [`Store::compare`], except for blocks with unknown content.
    pub fn compare_but(&self, any: impl Fn(u64) -> bool) {
        let mut at = 0;
        while at < self.shape.blocks {
            let count = 300.min(self.shape.blocks - at);
            let bytes = self.read(at, count).unwrap_or_else(|error| {
                let read = |block| match self.read(block, 1) {
                    Ok(bytes) => bytes,
                    Err(_) if any(block) => vec![0; BLOCK],
                    Err(_) => panic!("{error}"),
                };
                (at..at + count).flat_map(read).collect()
            });
            for (block, found) in (at..).zip(bytes.chunks_exact(BLOCK)) {
                let expected = match self.model.get(&block) {
                    Some(version) => Self::content(block, *version),
                    None => vec![0; BLOCK],
                };
                assert!(
                    found == expected || any(block),
                    "block {block}, version {:?}",
                    self.model.get(&block)
                );
            }
            at += count;
        }
        let home = self.home.clone();
        let wrong = self
            .rt
            .block_on(async move { home.check_map(&mut |_, _| {}).await });
        assert_eq!(wrong, Ok(Vec::new()));
    }

    /// Byte offset of a copy of the newest version of each block; of several, any one.
    pub fn places(&self) -> BTreeMap<u64, u64> {
        let (device, pool) = (self.device(), self.pool.clone());
        let (from, to) = (self.shape.first_segment(), self.shape.size());
        let model = self.model.clone();
        self.rt.block_on(async move {
            let mut places = BTreeMap::new();
            for offset in (from..to).step_by(BLOCK) {
                let bytes = device.read(offset, pool.alloc(BLOCK)).await.unwrap();
                let block = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                let version = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
                if model.get(&block) == Some(&version) && bytes[..] == Self::content(block, version)
                {
                    places.insert(block, offset);
                }
            }
            places
        })
    }

    pub fn device(&self) -> Rc<dyn Device> {
        member(&self.rt, self.shape).device
    }

    /// Overwrites `len` bytes at `offset` with rubbish.
    pub fn destroy(&self, offset: u64, len: usize) {
        let (device, buf) = (
            self.device(),
            self.pool.copy_of(&vec![0xa5; len.next_multiple_of(BLOCK)]),
        );
        let writing = async move { device.write(offset, Data::whole(buf)).await };
        self.rt.block_on(writing).unwrap();
    }

    pub fn rebuild(&self, cache_bytes: usize) -> RebuildReport {
        let (rt, pool, shape) = (self.rt.clone(), self.pool.clone(), self.shape);
        let options = SegmentsOptions {
            map_cache_bytes: cache_bytes,
            ..shape.options()
        };
        self.rt.block_on(async move {
            let members = vec![member(&rt, shape)];
            Segments::rebuild(&rt, &pool, members, &options, |_, _| {})
                .await
                .unwrap()
        })
    }
}

pub fn open(rt: &Rt, pool: &BufPool, shape: Shape) -> Result<Segments, HomeError> {
    let (rt2, pool) = (rt.clone(), pool.clone());
    rt.block_on(async move {
        let members = vec![member(&rt2, shape)];
        Segments::open(&rt2, &pool, members, &shape.options()).await
    })
}

fn member(rt: &Rt, shape: Shape) -> SegmentsMember {
    let raw = RawDevice::new(rt, DeviceId(0), shape.size(), 4096, "home.tn");
    SegmentsMember {
        device: Rc::new(raw),
        first_segment: shape.first_segment(),
        segments: shape.segments,
    }
}

/// A small random generator.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
