//! A store whose power fails while writes are in its log alone, and the time of its opening.

use crate::experiment::Random;
use crate::harness::{SimStore, StoreShape, all_tracks, ms, numbered_block};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::{Device, DeviceIo, Filter};
use tonearm_disk::{DiskError, HomeParams, OpenOptions};
use tonearm_drive_file::DriveFile;
use tonearm_engine::Engine;
use tonearm_format::{HEADER_AREA_BYTES, HeadKind, trailer_offset};
use tonearm_rt::{Data, Op, Rt};

const BLOCK: u64 = 4096;
const VOLUME_BYTES: u64 = 1 << 30;
/// Blocks of the volume that get a word each time, which takes one sector of the log.
const WORDS: u64 = 8;

/// The times of an opening, and the tracks that it reads.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    /// The search for the youngest record.
    pub locate_ms: f64,
    /// From then on until the last track is read.
    pub read_ms: f64,
    /// By which an opening that writes home is longer.
    pub home_ms: f64,
    /// The whole opening without writing home, with superblocks.
    pub without_ms: f64,
    pub searched: f64,
    pub read: f64,
    /// Bytes that are written home for a pending block.
    pub home_bytes: f64,
}

impl Cost {
    /// The mean of `all`.
    pub fn mean<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let all: Vec<&Self> = all.into_iter().collect();
        let of = |value: fn(&Self) -> f64| {
            all.iter().map(|cost| value(cost)).sum::<f64>() / all.len() as f64
        };
        Self {
            locate_ms: of(|cost| cost.locate_ms),
            read_ms: of(|cost| cost.read_ms),
            home_ms: of(|cost| cost.home_ms),
            without_ms: of(|cost| cost.without_ms),
            searched: of(|cost| cost.searched),
            read: of(|cost| cost.read),
            home_bytes: of(|cost| cost.home_bytes),
        }
    }

    /// The whole opening with writing home.
    pub fn with_ms(&self) -> f64 {
        self.without_ms + self.home_ms
    }
}

/// The costs of `crashes` power cuts for each number of pending writes, at places that are spread over the log.
///
/// # Errors
/// The error of the engine.
pub fn recover(
    drive: &DriveFile,
    pending: &[u64],
    crashes: u64,
    seed: u64,
) -> Result<Vec<Vec<Cost>>, DiskError> {
    let map = all_tracks(drive);
    let last = map.track(map.tracks() - 1);
    let shape = StoreShape {
        log_drive: Some(drive),
        head: HeadKind::Formula,
        // All tracks between the areas at both ends.
        log_bytes: Some(trailer_offset(last.end() * 512) - 2 * HEADER_AREA_BYTES),
        ..StoreShape::new(drive, HomeParams::Overwrite, VOLUME_BYTES + (2 << 20))
    };
    let store = Rc::new(SimStore::create(&shape, seed)?);
    let mut random = Random::new(seed, 0);
    let own = store.clone();
    store.rt.block_on(async move {
        let disk = own.open().await?;
        disk.resize_volume("main", VOLUME_BYTES).await?;
        disk.close().await
    })?;
    // Once around, and some tracks more.
    write_words(&store, map.tracks() + 100)?;
    let apart = map.tracks() / (crashes * pending.len() as u64);
    let mut costs = vec![Vec::new(); pending.len()];
    for _ in 0..crashes {
        for (count, costs) in pending.iter().zip(&mut costs) {
            write_words(&store, 2 * random.below(apart))?;
            let [cut, same] = cut_power(&store, &shape, *count, &mut random)?;
            let later = Nanos(random.below(1_000_000_000));
            let without = open(&cut, later, false)?;
            let with = open(&same, later, true)?;
            assert_eq!(without.pinned, *count, "all of them are pending");
            assert_eq!(with.pinned, 0, "all of them are at home");
            costs.push(Cost {
                home_ms: with.whole_ms - without.whole_ms,
                without_ms: without.whole_ms,
                home_bytes: (with.written - without.written) as f64 / *count as f64,
                ..without.cost
            });
        }
    }
    Ok(costs)
}

/// Writes a word durably `count` times, each of which takes a track of the log.
fn write_words(store: &Rc<SimStore>, count: u64) -> Result<(), DiskError> {
    let options = OpenOptions {
        track_threshold_percent: 0,
        ..OpenOptions::default()
    };
    let own = store.clone();
    store.rt.block_on(async move {
        let disk = own.open_with(options).await?;
        let (volume, pool) = (disk.volume("main")?, BufPool::new(1 << 20));
        for number in 0..count {
            let word = numbered_block(&pool, number, 8);
            volume.write(number % WORDS * BLOCK, word, true).await?;
        }
        disk.close().await
    })
}

/// Writes `pending` blocks durably, after which the power fails. Returns the store that is left, twice.
fn cut_power(
    store: &Rc<SimStore>,
    shape: &StoreShape<'_>,
    pending: u64,
    random: &mut Random,
) -> Result<[SimStore; 2], DiskError> {
    let options = OpenOptions {
        write_back_after: Nanos::from_secs(3_600),
        ..OpenOptions::default()
    };
    let mut blocks = BTreeSet::new();
    while (blocks.len() as u64) < pending {
        blocks.insert(random.below(VOLUME_BYTES / BLOCK));
    }
    // Not in the order of their places.
    let mut blocks: Vec<(u64, u64)> = blocks
        .into_iter()
        .map(|block| (random.number(), block))
        .collect();
    blocks.sort_unstable();
    let own = store.clone();
    let disk = store.rt.block_on(async move {
        let disk = own.open_with(options).await?;
        let (volume, pool) = (disk.volume("main")?, BufPool::new(1 << 20));
        for (number, block) in blocks {
            let content = numbered_block(&pool, number, BLOCK as usize);
            volume.write(block * BLOCK, content, true).await?;
        }
        Ok::<_, DiskError>(disk)
    })?;
    let seed = random.number() >> 8;
    let left = [seed, seed].map(|seed| store.after_power_cut(shape, seed));
    store.rt.block_on(async move { disk.close().await })?;
    Ok(left)
}

/// One opening.
struct Opened {
    cost: Cost,
    whole_ms: f64,
    /// Blocks that are not at home after it.
    pinned: u64,
    /// Bytes that it has written.
    written: u64,
}

/// Opens `store` after `later`, and writes home what is pending, or not.
fn open(store: &SimStore, later: Nanos, home: bool) -> Result<Opened, DiskError> {
    let rt = &store.rt;
    let mut members = store.members();
    let log = members.last_mut().expect("a store has members");
    let reads = Rc::new(TrackReads::new(rt, log.device.clone()));
    log.device = reads.clone();
    let options = OpenOptions {
        write_back_on_recovery: home,
        ..OpenOptions::default()
    };
    let own = rt.clone();
    let report = rt.block_on(async move {
        own.sleep(later).await;
        let pool = BufPool::new(4 << 20);
        let engine = Engine::open(&own, &pool, members, options, |_| {}).await?;
        Ok::<_, DiskError>(engine.recovery().clone())
    })?;
    let (begun, ends) = (reads.begun.get(), reads.ends.borrow());
    let found = ends[report.search_tracks as usize - 1];
    let all = ends.last().expect("tracks are read");
    Ok(Opened {
        cost: Cost {
            locate_ms: ms(found.since(begun.expect("tracks are read"))),
            read_ms: ms(all.since(found)),
            searched: report.search_tracks as f64,
            read: report.replay_tracks as f64,
            ..Cost::default()
        },
        whole_ms: ms(report.duration),
        pinned: report.pinned_blocks,
        written: store.moved().1,
    })
}

/// A log drive, with the times of the reads of its tracks.
struct TrackReads {
    inner: Rc<dyn Device>,
    rt: Rt,
    begun: Cell<Option<Nanos>>,
    ends: Rc<RefCell<Vec<Nanos>>>,
}

impl TrackReads {
    fn new(rt: &Rt, inner: Rc<dyn Device>) -> Self {
        Self {
            inner,
            rt: rt.clone(),
            begun: Cell::default(),
            ends: Rc::default(),
        }
    }
}

impl Filter for TrackReads {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn filter_io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        let io = self.inner.io(op, offset, len, data);
        let of_log = HEADER_AREA_BYTES..trailer_offset(self.inner.size_bytes());
        if op != Op::Read || !of_log.contains(&offset) {
            return io;
        }
        self.begun.set(self.begun.get().or(Some(self.rt.now())));
        let (rt, ends) = (self.rt.clone(), self.ends.clone());
        Box::pin(async move {
            let ended = io.await;
            ends.borrow_mut().push(rt.now());
            ended
        })
    }
}
