//! A log on simulated drives, and its replay.

use crate::{
    Case, Change, FlushCause, LogGeometry, RecoveredCommit, RecoveredTail, Replay, Trail,
    TrailError, TrailOptions, TrailStart,
};
use std::future::Future;
use std::ops::Deref;
use std::rc::Rc;
use tonearm_base::{BufPool, Lsn, Slice, crc32c};
use tonearm_device::{Device, RawDevice};
use tonearm_format::{EntryKind, LogState};
use tonearm_rt::{DeviceId, Rt};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

pub(super) const BLOCK: usize = 4096;
pub(super) const OFFSET: u64 = 1 << 20;

pub(super) fn geometry(tracks: u64, track_sectors: u64) -> LogGeometry {
    LogGeometry::even([5; 16], OFFSET, tracks, track_sectors, BLOCK)
}

fn devices(rt: &Rt, geometry: &LogGeometry) -> Vec<Rc<dyn Device>> {
    let device = |index: usize| {
        let id = DeviceId(index as u32);
        Rc::new(RawDevice::new(rt, id, u64::MAX, 512, "log")) as Rc<dyn Device>
    };
    (0..geometry.members.len()).map(device).collect()
}

fn content(block: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![(version % 251) as u8; BLOCK];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    bytes
}

pub(super) fn write(pool: &BufPool, first: u64, count: u64, version: u64) -> Change {
    let blocks = first..first + count;
    let bytes: Vec<u8> = blocks.flat_map(|block| content(block, version)).collect();
    change(first, pool.copy_of(&bytes).share())
}

/// New content for the blocks from `first` on.
pub(super) fn change(first: u64, data: Slice) -> Change {
    let crcs = data.chunks(BLOCK).map(crc32c).collect();
    Change::Write { first, data, crcs }
}

/// The drives of a log, and how it is opened.
pub(super) struct Setup {
    pub geometry: LogGeometry,
    pub options: TrailOptions,
    pub start: TrailStart,
    pub world: SimWorld,
}

impl Setup {
    /// An empty log of `tracks` tracks, in epoch 1.
    pub fn new(tracks: u64, track_sectors: u64) -> Self {
        Self::of(geometry(tracks, track_sectors))
    }

    pub fn of(geometry: LogGeometry) -> Self {
        let image = DiskImage::new(OFFSET + geometry.bytes());
        let images = vec![image; geometry.members.len()];
        Self::on(geometry, SimWorld::new(SimOptions::default(), images))
    }

    pub fn on(geometry: LogGeometry, world: SimWorld) -> Self {
        let start = TrailStart {
            epoch: 1,
            ..TrailStart::default()
        };
        Self {
            geometry,
            options: TrailOptions::default(),
            start,
            world,
        }
    }

    /// Opens the log, and does `work` with it.
    pub fn run<T: 'static, F>(&mut self, work: impl FnOnce(Log) -> F) -> T
    where
        F: Future<Output = T> + 'static,
    {
        let rt = Rt::new(self.world.driver());
        let start = std::mem::take(&mut self.start);
        let log = Log::open(&rt, &self.geometry, start, self.options);
        rt.block_on(work(log))
    }

    pub fn image(&self) -> DiskImage {
        self.world.images().remove(0)
    }

    /// The commits of the log after a power cut: their numbers, and their numbers of changes.
    pub fn recovered(&self) -> (Vec<(u64, usize)>, Case, LogState) {
        let (commits, tail) = replayed(vec![self.image()], &self.geometry, 1, LogState::default());
        for change in commits.iter().flat_map(|commit| &commit.changes) {
            if let (EntryKind::Data { .. }, Some(data)) = (&change.kind, &change.data) {
                assert_eq!(data[..8], change.block.to_le_bytes());
            }
        }
        let commits = commits.iter();
        let commits = commits.map(|commit| (commit.lsn.0, commit.changes.len()));
        (commits.collect(), tail.case, tail.state)
    }
}

/// An open log.
#[derive(Clone)]
pub(super) struct Log {
    pub rt: Rt,
    pub pool: BufPool,
    pub trail: Trail,
}

impl Deref for Log {
    type Target = Trail;

    fn deref(&self) -> &Trail {
        &self.trail
    }
}

impl Log {
    pub fn open(rt: &Rt, geometry: &LogGeometry, start: TrailStart, options: TrailOptions) -> Self {
        let pool = BufPool::new(1 << 20);
        let devices = devices(rt, geometry);
        let trail = Trail::start(rt, &pool, devices, geometry.clone(), start, options);
        Self {
            rt: rt.clone(),
            pool,
            trail,
        }
    }

    pub async fn append(&self, changes: Vec<Change>) -> Lsn {
        let blocks = changes.iter().map(|change| match change {
            Change::Write { crcs, .. } => crcs.len() as u64,
            _ => 0,
        });
        let admission = self.admit(blocks.sum(), changes.len() as u64, true).await;
        self.trail.append(admission.unwrap(), |_| changes)
    }

    /// Appends a commit of `count` blocks.
    pub async fn write(&self, first: u64, count: u64, version: u64) -> Lsn {
        let changes = vec![write(&self.pool, first, count, version)];
        self.append(changes).await
    }

    /// Waits until the commits up to `lsn` are durable.
    pub async fn wait(&self, lsn: Lsn) {
        let durable = self.wait_durable(lsn, FlushCause::Commit);
        durable.await.unwrap();
    }
}

/// The commits of a log, and its tail.
pub(super) fn replayed(
    images: Vec<DiskImage>,
    geometry: &LogGeometry,
    epoch: u64,
    state: LogState,
) -> (Vec<RecoveredCommit>, RecoveredTail) {
    let (commits, tail) = replay(images, geometry, (epoch, state), false, |device| device);
    (commits, tail.unwrap())
}

/// The commits that a replay returns before its end, and the tail or the error. `filter` is put on each drive.
pub(super) fn replay(
    images: Vec<DiskImage>,
    geometry: &LogGeometry,
    (epoch, state): (u64, LogState),
    lenient: bool,
    filter: impl Fn(Rc<dyn Device>) -> Rc<dyn Device>,
) -> (Vec<RecoveredCommit>, Result<RecoveredTail, TrailError>) {
    let world = SimWorld::new(SimOptions::default(), images);
    let rt = Rt::new(world.driver());
    let devices = devices(&rt, geometry).into_iter().map(filter).collect();
    let shape = geometry.clone();
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let mut replay = Replay::start(&pool, devices, shape, epoch, state, lenient).await;
        let mut commits = Vec::new();
        loop {
            match replay.next().await {
                Ok(Some(commit)) => commits.push(commit),
                Ok(None) => break (commits, Ok(replay.into_tail())),
                Err(error) => break (commits, Err(error)),
            }
        }
    })
}
