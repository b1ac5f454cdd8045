//! A store on simulated drives: log and home on one drive, or the log on a drive of its own, with its head followed; the
//! home on one drive, on several, or on an array.

use super::heads::head_switch;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::{Device, RawDevice, Section};
use tonearm_disk::{
    CreateParams, Disk, DiskError, HeadParams, HomeParams, LogDrive, MemberDevice, MemberSpace,
    NewMember, OpenOptions, plan_create,
};
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::DriveFile;
use tonearm_drive_file::{track_map, turn};
use tonearm_engine::{
    ArrayAccess, ArrayParams, ArrayPlan, Candidate, CreatePlan, EngineError, StoreArray,
    create_array, open_array, plan_array,
};
use tonearm_format::{ArrayLevel, HEADER_AREA_BYTES, HeadKind, Roles};
use tonearm_rt::{DeviceId, Op, Rt};
use tonearm_world::filters::Counted;
use tonearm_world::{DiskImage, SimDisk, SimOptions, SimWorld, Zeroing};

/// Bytes of a sector of the drives.
const SECTOR: u32 = 512;
/// Bytes of a stripe unit of an array, as `tonearm create` chooses it.
pub const STRIPE_BYTES: u64 = 64 << 10;

/// Revolutions by which the platter of a log drive is ahead of that of the one before.
const PHASE: f64 = 0.618;

/// The drives and parameters of a store.
pub struct StoreShape<'a> {
    /// The drive of the home, and of the log if it has none of its own.
    pub drive: &'a DriveFile,
    /// How many such drives the home has.
    pub disks: usize,
    /// How the home is spread over them; `None` for one after the other.
    pub array: Option<ArrayLevel>,
    /// A drive for the log alone.
    pub log_drive: Option<&'a DriveFile>,
    /// How many such drives the log takes in turn (Trail 5.1). An array has one.
    pub log_drives: usize,
    /// How the log follows their heads.
    pub head: HeadKind,
    /// Where its blocks live.
    pub home: HomeParams,
    /// Bytes for volumes, files and lists.
    pub size_bytes: u64,
    /// Bytes of the log; `None` for as many as the product chooses.
    pub log_bytes: Option<u64>,
    /// Bound on payload in memory.
    pub memory_bytes: u64,
    /// The world keeps what a power cut may take. Without it, it is faster.
    pub power_cuts: bool,
}

impl<'a> StoreShape<'a> {
    /// A store with log and home on one drive, and the product's choice of everything else.
    pub fn new(drive: &'a DriveFile, home: HomeParams, size_bytes: u64) -> Self {
        Self {
            drive,
            disks: 1,
            array: None,
            log_drive: None,
            log_drives: 1,
            head: HeadKind::Online,
            home,
            size_bytes,
            log_bytes: None,
            memory_bytes: OpenOptions::default().memory_bytes,
            power_cuts: false,
        }
    }

    /// What goes where.
    ///
    /// # Errors
    /// When the parameters are not possible.
    pub fn plan(&self) -> Result<Planned, EngineError> {
        let params = CreateParams {
            log_bytes: self.log_bytes,
            head: self
                .log_drive
                .and_then(|drive| follow(drive, self.head, self.log_drives)),
            home: self.home,
            ..CreateParams::new(self.size_bytes, *b"a store of a lab")
        };
        let space = |log: bool, data: bool, path: String| MemberSpace {
            roles: Roles { log, data },
            available_bytes: None,
            uuid: [1; 16],
            path,
        };
        let own_log = self.log_drive.is_some();
        let homes = (0..self.disks).map(|index| {
            let path = format!("{index}");
            match (index, self.array) {
                (0, None) => space(!own_log, true, String::new()),
                _ => space(false, true, path),
            }
        });
        let homes: Vec<MemberSpace> = homes.collect();
        let Some(level) = self.array else {
            let logs = (0..self.log_drives).map(|index| space(true, false, format!("log {index}")));
            let logs = logs.take(if own_log { self.log_drives } else { 0 });
            let spaces: Vec<MemberSpace> = homes.into_iter().chain(logs).collect();
            let plan = plan_create(&params, &spaces)?;
            let parts = (0..).zip(&plan.member_bytes);
            let parts = parts.map(|(drive, bytes)| (drive, 0..*bytes)).collect();
            return Ok(Planned {
                plan,
                array: None,
                parts,
            });
        };
        let array = ArrayParams {
            level,
            stripe_bytes: STRIPE_BYTES,
            uuid: [3; 16],
        };
        let primary = space(true, false, String::new());
        let members = homes
            .into_iter()
            .zip(0u8..)
            .map(|(member, index)| MemberSpace {
                uuid: [16 + index; 16],
                ..member
            });
        let members: Vec<MemberSpace> = members.collect();
        let (plan, array) = plan_array(&params, &array, &primary, &members)?;
        // Without a drive of its own the log is on the first part of the first drive.
        let log = array.primary_bytes.next_multiple_of(1 << 20);
        let mut parts = vec![if own_log {
            (self.disks, 0..array.primary_bytes)
        } else {
            (0, 0..array.primary_bytes)
        }];
        parts.extend((0..self.disks).map(|drive| {
            let first = if drive == 0 && !own_log { log } else { 0 };
            (drive, first..first + array.member_bytes)
        }));
        Ok(Planned {
            plan,
            array: Some(array),
            parts,
        })
    }
}

/// The plan of a store.
#[derive(Clone)]
pub struct Planned {
    plan: CreatePlan,
    array: Option<ArrayPlan>,
    /// The drive of each member, and its bytes there. The log's own drives come after those of the home.
    parts: Vec<(usize, Range<u64>)>,
}

impl Planned {
    /// How many drives it needs.
    fn drives(&self) -> usize {
        let parts = self.parts.iter().map(|(drive, _)| drive + 1);
        parts.max().unwrap_or(0)
    }

    /// Bytes that are needed of drive `index`.
    pub fn bytes_of(&self, index: usize) -> u64 {
        let parts = self.parts.iter().filter(|(drive, _)| *drive == index);
        parts.map(|(_, range)| range.end).max().unwrap_or(0)
    }
}

/// A store and the executor of its world.
pub struct SimStore {
    /// Its executor, whose clock is the drives'.
    pub rt: Rt,
    planned: Planned,
    /// Unless it is on a part of a drive of another world.
    world: Option<SimWorld>,
    drives: Vec<Rc<Counted>>,
    memory_bytes: u64,
}

impl SimStore {
    /// Creates the store, with a volume of 1 MiB; the rest is free.
    ///
    /// # Errors
    /// The error of the engine.
    pub fn create(shape: &StoreShape<'_>, seed: u64) -> Result<Self, DiskError> {
        let planned = shape.plan()?;
        let drives = 0..planned.drives();
        let blank = drives.map(|index| DiskImage::new(planned.bytes_of(index)));
        Self::write(Self::on(shape, planned.clone(), blank.collect(), seed))
    }

    /// The store after a power cut now: on drives like those of `shape`, with the writes that had completed.
    ///
    /// # Panics
    /// When the store is on a part of a drive.
    #[must_use]
    pub fn after_power_cut(&self, shape: &StoreShape<'_>, seed: u64) -> Self {
        self.with_content(shape, self.world().images(), seed)
    }

    /// The store on drives like those of `shape` with this content.
    #[must_use]
    pub fn with_content(&self, shape: &StoreShape<'_>, images: Vec<DiskImage>, seed: u64) -> Self {
        Self::on(shape, self.planned.clone(), images, seed)
    }

    /// Its world.
    ///
    /// # Panics
    /// When the store is on a part of a drive.
    pub fn world(&self) -> &SimWorld {
        let own = self.world.as_ref();
        own.expect("a store with a world of its own")
    }

    /// A store on drives with this content.
    fn on(shape: &StoreShape<'_>, planned: Planned, images: Vec<DiskImage>, seed: u64) -> Self {
        let homes = std::iter::repeat_n(shape.drive, shape.disks);
        let logs = shape.log_drive.into_iter();
        let logs = logs.flat_map(|drive| std::iter::repeat_n(drive, shape.log_drives));
        let files: Vec<&DriveFile> = homes.chain(logs).collect();
        let disks = files.iter().zip(images).zip(0..);
        let disks = disks.map(|((drive, image), index)| SimDisk {
            image,
            timing: Box::new(Drive::new(
                &drive.spec,
                &DriveOptions {
                    seed: seed + index,
                    // The platters of several log drives do not turn in step.
                    phase: (index.saturating_sub(shape.disks as u64) as f64 * PHASE).fract(),
                    ..DriveOptions::default()
                },
            )),
            write_cache: drive.spec.write_cache.enabled,
            zeroing: Zeroing::Command,
        });
        let options = SimOptions {
            seed,
            power_cuts: shape.power_cuts,
            ..SimOptions::default()
        };
        let world = SimWorld::with_disks(options, disks.collect());
        let rt = Rt::new(world.driver());
        let drives = (0..files.len()).map(|index| {
            let (id, bytes) = (DeviceId(index as u32), planned.bytes_of(index));
            let device = RawDevice::new(&rt, id, bytes, SECTOR, &format!("drive {index}"));
            Rc::new(Counted::new(Rc::new(device)))
        });
        Self {
            drives: drives.collect(),
            rt,
            planned,
            world: Some(world),
            memory_bytes: shape.memory_bytes,
        }
    }

    /// Creates a store of one drive on `drive`, a part of a drive of the world of `rt`.
    ///
    /// # Errors
    /// The error of the engine.
    pub fn create_on(
        shape: &StoreShape<'_>,
        rt: &Rt,
        drive: Rc<dyn Device>,
    ) -> Result<Self, DiskError> {
        Self::write(Self {
            drives: vec![Rc::new(Counted::new(drive))],
            rt: rt.clone(),
            planned: shape.plan()?,
            world: None,
            memory_bytes: shape.memory_bytes,
        })
    }

    /// Writes what a new store has.
    fn write(store: Self) -> Result<Self, DiskError> {
        let members: Vec<NewMember> = store
            .members()
            .into_iter()
            .map(|member| NewMember::blank(member.device))
            .collect();
        let rt = store.rt.clone();
        let (plan, array) = (store.planned.plan.clone(), store.planned.array.clone());
        store.rt.block_on(async move {
            let pool = BufPool::new(1 << 20);
            let mut members = members;
            if let Some(array) = &array {
                let primary = members.remove(0);
                members = create_array(&rt, &pool, array, primary, &members, |_, _| {}).await?;
            }
            tonearm_disk::create(&rt, &pool, &plan, members, 1 << 20, [2; 16], |_, _| {}).await
        })?;
        Ok(store)
    }

    /// Opens it.
    ///
    /// # Errors
    /// The error of the engine.
    pub async fn open(&self) -> Result<Disk, DiskError> {
        self.open_with(OpenOptions::default()).await
    }

    /// Opens it with these options, but with the memory of its shape.
    ///
    /// # Errors
    /// The error of the engine.
    pub async fn open_with(&self, options: OpenOptions) -> Result<Disk, DiskError> {
        let pool = BufPool::new(4 << 20);
        let mut members = self.members();
        if self.planned.array.is_some() {
            let array = self.open_array(&pool).await?;
            members.truncate(1);
            members.push(array.member());
        }
        let options = OpenOptions {
            memory_bytes: self.memory_bytes,
            ..options
        };
        Disk::open(&self.rt, &pool, members, options, |_| {}).await
    }

    /// Opens its array alone.
    ///
    /// # Errors
    /// The error of the engine.
    pub async fn open_array(&self, pool: &BufPool) -> Result<StoreArray, DiskError> {
        let mut members = self.members();
        let primary = members.remove(0);
        let candidates = members.into_iter().enumerate();
        let candidates = candidates.map(|(index, device)| Candidate {
            device,
            expected: Some(index),
        });
        let (candidates, access) = (candidates.collect(), ArrayAccess::Write);
        let array = open_array(&self.rt, pool, &primary, candidates, Vec::new(), access);
        Ok(array.await?)
    }

    /// Bytes that all drives have read and written since they were switched on.
    pub fn moved(&self) -> (u64, u64) {
        let sum = |ops: &[Op]| {
            let all = self.drives.iter().flat_map(|drive| {
                let bytes = ops.iter().map(|op| drive.count(*op).bytes);
                bytes.collect::<Vec<_>>()
            });
            all.sum()
        };
        (sum(&[Op::Read]), sum(&[Op::Write, Op::WriteDurable]))
    }

    /// Its members: the drives of the home, then those of the log; or the log of an array first.
    pub fn members(&self) -> Vec<MemberDevice> {
        let parts = self.planned.parts.iter().enumerate();
        let members = parts.map(|(index, (drive, range))| {
            let drive: Rc<dyn Device> = self.drives[*drive].clone();
            MemberDevice {
                device: Rc::new(Section::new(drive, range.clone())),
                path: format!("member-{index}"),
            }
        });
        members.collect()
    }
}

/// How the heads of `count` drives like `drive` are followed by `kind`; `None` if it has no head.
fn follow(drive: &DriveFile, kind: HeadKind, count: usize) -> Option<HeadParams> {
    if kind == HeadKind::Sequential {
        return None;
    }
    let disk = drive.spec.disk.as_ref()?;
    let first = HEADER_AREA_BYTES / u64::from(SECTOR);
    let map = track_map(&drive.spec, first..u64::MAX)?;
    let mut log = LogDrive {
        period_ps: turn(disk).0 * 1000,
        ..LogDrive::default()
    };
    if kind == HeadKind::Formula {
        log.deltas = Some(tonearm_calibrate::deltas(&drive.spec, &map)?);
        log.switch_ns = head_switch(drive).0;
    }
    log.tracks = Some(map);
    Some(HeadParams {
        kind,
        sector_bytes: SECTOR as u16,
        drives: vec![log; count],
    })
}
