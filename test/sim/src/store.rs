//! Small stores on simulated devices.

use crate::runtime::{open_options, time, within_time};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_device::RawDevice;
use tonearm_disk::{
    CreateParams, Disk, DiskError, HeadParams, HomeParams, LogDrive, MemberDevice, MemberSpace,
    NewMember, OpenOptions, plan_create,
};
use tonearm_engine::{Engine, EngineError};
use tonearm_format::{HeadKind, Placement, Roles, SECTOR, SYSTEM_BLOCKS, SkipAxis, SkipTable};
use tonearm_fs::Fs;
use tonearm_head::{Delta, Deltas, Track, TrackMap};
use tonearm_rt::{DeviceId, Rt};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

/// Identity of all simulated stores.
pub const STORE: [u8; 16] = *b"simulated store!";

/// Layout of a simulated store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// Size of a home block in bytes.
    pub block_size: u32,
    /// Size of a log track in bytes.
    pub track_bytes: u32,
    /// Number of tracks of the log.
    pub tracks: u64,
    /// Number of blocks that workloads use.
    pub blocks: u64,
    /// Log and data are on different members.
    pub split: bool,
    /// How the store follows the heads of the log's drives. This needs `split`.
    #[serde(skip)]
    pub heads: Heads,
    /// Layout of the home.
    #[serde(skip)]
    pub home: HomeParams,
}

/// How the store follows the heads of the log's drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Heads {
    /// The store does not follow heads.
    #[default]
    None,
    /// With the online predictor, on stripes of `track_bytes`, in log sectors of 512 bytes.
    Stripes {
        /// Number of log drives.
        drives: u64,
    },
    /// On physical tracks of different lengths, some of them left out, in log sectors of 512 bytes.
    Tracks {
        /// The predictor.
        kind: HeadKind,
        /// Number of log drives.
        drives: u64,
    },
}

impl Heads {
    /// One of the four ways to follow the heads of so many drives, by `choice`.
    pub fn chosen(choice: u32, drives: u64) -> Self {
        let kinds = [HeadKind::Formula, HeadKind::Mimic, HeadKind::Online];
        match choice % 4 {
            0 => Self::Stripes { drives },
            other => Self::Tracks {
                kind: kinds[other as usize - 1],
                drives,
            },
        }
    }

    fn drives(self) -> u64 {
        match self {
            Heads::None => 1,
            Heads::Stripes { drives } | Heads::Tracks { drives, .. } => drives,
        }
    }

    fn params(self) -> Option<HeadParams> {
        let (kind, drive) = match self {
            Heads::None => return None,
            Heads::Stripes { .. } => (HeadKind::Online, LogDrive::default()),
            Heads::Tracks { kind, .. } => (kind, drive_with_tracks()),
        };
        Some(HeadParams {
            kind,
            sector_bytes: 512,
            drives: vec![drive; self.drives() as usize],
        })
    }
}

/// A drive with four tracks a cylinder in three zones, with spares at the end of each cylinder. One track in 23 is left
/// out.
fn drive_with_tracks() -> LogDrive {
    let (mut first, mut angle) = (0u64, 0u32);
    let mut tracks = Vec::new();
    for index in 0..400u64 {
        let turn_sectors = [91, 85, 77][(index / 80 % 3) as usize];
        let sectors = turn_sectors - if index % 4 == 3 { 6 } else { 0 };
        if index % 23 != 22 {
            tracks.push(Track {
                index: 0,
                first,
                sectors,
                turn_sectors,
                angle,
            });
        }
        first += u64::from(sectors);
        angle = angle.wrapping_add(if index % 4 == 3 {
            0x3000_0000
        } else {
            0x0800_0000
        });
    }
    LogDrive {
        tracks: TrackMap::from_tracks(tracks.into_iter()).ok(),
        period_ps: 11_117_000_000,
        deltas: Some(Deltas::one(Delta {
            sectors: 12,
            turn_sectors: 91,
        })),
        switch_ns: 1_500_000,
        table: Some(SkipTable {
            axes: [(8, 8, 10), (0, 1_000_000, 12), (0, 1, 90)]
                .map(|(first, step, count)| SkipAxis { first, step, count }),
            turn_ns: 11_117_000,
            skips: (0..120).map(|point| point * 37 % 90).collect(),
        }),
    }
}

/// The drives of a store that is not running. `S` is its layout.
#[derive(Clone)]
pub struct Image<S> {
    /// Layout of the store.
    pub shape: S,
    /// Contents of the drives.
    pub disks: Vec<DiskImage>,
}

/// The members of a store that is not running.
pub type StoreImage = Image<Shape>;

/// Time between two decisions which blocks are hot: short, so that blocks change their side in a run.
pub const SEPARATION_INTERVAL: Nanos = Nanos::from_millis(40);

/// Share of the segments that stay free, in percent, in stores that choose no other.
pub(crate) const SPARE_PERCENT: u64 = 10;

/// Layout of a store, for arguments and scripts.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Layout {
    Overwrite,
    Segments,
    Wolf,
    Hylog,
}

impl Layout {
    /// The parameters of the home. Segments are small, so that the cleaner runs and checkpoints are written often.
    pub const fn home(self, block_size: u32, spare_percent: u64) -> HomeParams {
        let placement = match self {
            Self::Overwrite => return HomeParams::Overwrite,
            Self::Segments => Placement::Append,
            Self::Wolf => Placement::Wolf,
            Self::Hylog => Placement::Hylog,
        };
        HomeParams::Segments {
            segment_bytes: 16 * block_size,
            spare_percent,
            placement,
        }
    }

    /// The layout of `home`.
    pub fn of(home: &HomeParams) -> Self {
        match home {
            HomeParams::Overwrite => Self::Overwrite,
            HomeParams::Segments { placement, .. } => match placement {
                Placement::Append => Self::Segments,
                Placement::Wolf => Self::Wolf,
                Placement::Hylog => Self::Hylog,
            },
        }
    }
}

impl Shape {
    /// A store on one member, with blocks of 4096 bytes and a log of so many tracks.
    pub const fn small(layout: Layout, tracks: u64, blocks: u64) -> Self {
        Self {
            block_size: 4096,
            track_bytes: 64 << 10,
            tracks,
            blocks,
            split: false,
            heads: Heads::None,
            home: layout.home(4096, SPARE_PERCENT),
        }
    }

    /// First block that workloads use.
    pub fn first_block(&self) -> u64 {
        SYSTEM_BLOCKS
    }

    /// Size of a log sector in bytes.
    pub fn log_sector(&self) -> usize {
        match self.heads {
            Heads::None => SECTOR,
            _ => 512,
        }
    }

    /// Size of the volume of an empty store in bytes.
    pub fn main_bytes(&self) -> u64 {
        (self.blocks * u64::from(self.block_size)).max(1 << 20)
    }

    /// The parameters of a store without spare bytes.
    pub(crate) fn params(&self) -> CreateParams {
        CreateParams {
            size_bytes: self.main_bytes(),
            log_bytes: Some(self.tracks * u64::from(self.track_bytes)),
            track_bytes: Some(self.track_bytes),
            block_size: self.block_size,
            head: self.heads.params(),
            home: self.home,
            store: STORE,
            created_unix_s: 0,
        }
    }

    /// Puts the log on drives of its own, whose heads are followed.
    pub fn follow(&mut self, heads: Heads) {
        (self.split, self.heads) = (true, heads);
        if let Heads::Tracks { drives, .. } = heads {
            // The log has about the size that it has in other runs, on tracks of at most half their size.
            self.track_bytes = 40 << 10;
            self.tracks *= 2 * drives;
        }
    }

    /// Creates an empty store.
    ///
    /// # Panics
    /// When the shape is invalid.
    pub fn create(&self) -> StoreImage {
        self.create_with_spare(0)
    }

    /// Creates an empty store with `spare_bytes` that belong to no volume.
    ///
    /// # Panics
    /// When the shape is invalid.
    pub fn create_with_spare(&self, spare_bytes: u64) -> StoreImage {
        let params = CreateParams {
            size_bytes: self.main_bytes() + spare_bytes,
            ..self.params()
        };
        let (log, data) = (true, true);
        let roles = match self.split {
            true => {
                let mut roles = vec![Roles { log, data: false }; self.heads.drives() as usize];
                roles.push(Roles { log: false, data });
                roles
            }
            false => vec![Roles { log, data }],
        };
        let disks =
            create(&params, &roles, self.main_bytes()).expect("a simulated store can be made");
        Image {
            shape: *self,
            disks,
        }
    }
}

/// Makes an empty store on new members with these roles, whose first volume has `main_bytes`.
///
/// # Errors
/// When the parameters do not work.
pub fn create(
    params: &CreateParams,
    roles: &[Roles],
    main_bytes: u64,
) -> Result<Vec<DiskImage>, DiskError> {
    let space = |(index, roles): (usize, &Roles)| MemberSpace {
        roles: *roles,
        available_bytes: None,
        uuid: [1; 16],
        path: match (index, roles.log) {
            (0, _) => "",
            (_, true) => "log",
            (_, false) => "data",
        }
        .into(),
    };
    let spaces: Vec<MemberSpace> = roles.iter().enumerate().map(space).collect();
    let plan = plan_create(params, &spaces)?;
    let disks = plan.member_bytes.iter().copied().map(DiskImage::new);
    let sector = usize::from(plan.superblock.log_sector_bytes);
    let world = SimWorld::new(SimOptions::default(), disks.collect());
    let rt = Rt::new(world.driver());
    let member = |(index, bytes): (usize, &u64)| NewMember::blank(raw(&rt, index, *bytes, sector));
    let sizes = plan.member_bytes.iter().enumerate();
    let (own, members) = (rt.clone(), sizes.map(member).collect());
    rt.block_on(async move {
        let pool = tonearm_base::BufPool::new(1 << 20);
        tonearm_disk::create(&own, &pool, &plan, members, main_bytes, [2; 16], |_, _| {}).await
    })?;
    rt.shut_down();
    Ok(world.images())
}

/// The members of a store in the world of `rt`: drives of these bytes with sectors of `sector` bytes.
pub fn members(rt: &Rt, bytes: impl Iterator<Item = u64>, sector: usize) -> Vec<MemberDevice> {
    let member = |(index, bytes)| MemberDevice::new(raw(rt, index, bytes, sector));
    bytes.enumerate().map(member).collect()
}

fn raw(rt: &Rt, index: usize, bytes: u64, sector: usize) -> Rc<dyn tonearm_device::Device> {
    let name = format!("member-{index}");
    Rc::new(RawDevice::new(
        rt,
        DeviceId(index as u32),
        bytes,
        sector as u32,
        &name,
    ))
}

impl<S: Copy> Image<S> {
    /// The same store with other contents of its drives.
    pub fn with(&self, disks: Vec<DiskImage>) -> Self {
        let shape = self.shape;
        Self { shape, disks }
    }

    /// A world of these drives.
    pub fn start(&self, seed: u64) -> (SimWorld, Rt) {
        let options = SimOptions {
            seed,
            ..SimOptions::default()
        };
        let world = SimWorld::new(options, self.disks.clone());
        let rt = Rt::new(world.driver());
        (world, rt)
    }

    /// Runs `work` in a world of these drives. Returns its result and the world.
    pub fn run<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        seed: u64,
        work: impl FnOnce(SimWorld, Rt, Self) -> F,
    ) -> (T, SimWorld) {
        let (world, rt) = self.start(seed);
        let result = rt.block_on(work(world.clone(), rt.clone(), self.clone()));
        rt.shut_down();
        (result, world)
    }

    /// As [`Image::run`], for at most an hour of virtual time.
    pub(crate) fn within_time<T: 'static, F: Future<Output = Result<T, String>> + 'static>(
        &self,
        seed: u64,
        work: impl FnOnce(SimWorld, Rt, Self) -> F,
    ) -> (Result<T, String>, SimWorld) {
        let (world, rt) = self.start(seed);
        let work = work(world.clone(), rt.clone(), self.clone());
        let result = within_time(&rt, Rc::default(), work);
        rt.shut_down();
        (result, world)
    }
}

impl StoreImage {
    /// Runs `work` on the open store, as [`Image::run`] does, with the options of [`open_options`].
    ///
    /// # Panics
    /// When the opening is refused.
    pub fn with_disk<T: 'static>(
        &self,
        seed: u64,
        work: impl AsyncFnOnce(SimWorld, Rt, Disk) -> T + 'static,
    ) -> T {
        let (result, _) = self.run(seed, |world, rt, image| async move {
            let disk = image.open_disk(&rt, open_options()).await;
            work(world, rt, disk.expect("the store opens")).await
        });
        result
    }

    /// As [`StoreImage::with_disk`], on the file system of the store.
    ///
    /// # Panics
    /// When an opening is refused.
    pub fn with_fs<T: 'static>(
        &self,
        seed: u64,
        work: impl AsyncFnOnce(SimWorld, Rt, Fs) -> T + 'static,
    ) -> T {
        self.with_disk(seed, async move |world, rt, disk| {
            let fs = Fs::open(&disk, &rt, time(&rt)).await;
            work(world, rt, fs.expect("the file system opens")).await
        })
    }

    /// Opens the store in `world`, which must have this image's devices.
    ///
    /// # Errors
    /// The errors of the engine.
    pub async fn open(&self, rt: &Rt, options: OpenOptions) -> Result<Engine, EngineError> {
        let pool = tonearm_base::BufPool::new(1 << 20);
        Engine::open(rt, &pool, self.members(rt), options, |_| {}).await
    }

    /// Opens the store with its volumes, as [`StoreImage::open`] does.
    ///
    /// # Errors
    /// The errors of the disk.
    pub async fn open_disk(&self, rt: &Rt, options: OpenOptions) -> Result<Disk, DiskError> {
        let pool = tonearm_base::BufPool::new(1 << 20);
        Disk::open(rt, &pool, self.members(rt), options, |_| {}).await
    }

    /// The members' devices in the world of `rt`.
    pub fn members(&self, rt: &Rt) -> Vec<MemberDevice> {
        let bytes = self.disks.iter().map(|disk| disk.size);
        members(rt, bytes, self.shape.log_sector())
    }
}
