//! A store on simulated drives: log and home on one drive, or the log on a drive of its own, with its head followed.

use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::{Device, RawDevice};
use tonearm_disk::{
    CreateParams, Disk, DiskError, HeadParams, HomeParams, LogDrive, MemberDevice, MemberSpace,
    NewMember, OpenOptions, plan_create,
};
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::DriveFile;
use tonearm_drive_file::{track_map, turn};
use tonearm_format::{HEADER_AREA_BYTES, HeadKind, Roles};
use tonearm_rt::{DeviceId, Rt};
use tonearm_world::{DiskImage, SimDisk, SimOptions, SimWorld, Zeroing};

/// Bytes of a sector of the drives.
const SECTOR: u32 = 512;

/// The drives and parameters of a store.
pub struct StoreShape<'a> {
    /// The drive of the home, and of the log if it has none of its own.
    pub drive: &'a DriveFile,
    /// A drive for the log alone.
    pub log_drive: Option<&'a DriveFile>,
    /// Where its blocks live.
    pub home: HomeParams,
    /// Bytes for volumes, files and lists.
    pub size_bytes: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bound on payload in memory.
    pub memory_bytes: u64,
}

/// A store and the executor of its world.
pub struct SimStore {
    /// Its executor, whose clock is the drives'.
    pub rt: Rt,
    sizes: Vec<u64>,
    memory_bytes: u64,
}

impl SimStore {
    /// Creates the store, with a volume of 1 MiB; the rest is free.
    ///
    /// # Errors
    /// The error of the engine.
    pub fn create(shape: &StoreShape<'_>, seed: u64) -> Result<Self, DiskError> {
        let head = shape.log_drive.and_then(follow);
        let params = CreateParams {
            size_bytes: shape.size_bytes,
            log_bytes: Some(shape.log_bytes),
            track_bytes: None,
            head,
            block_size: 4096,
            home: shape.home,
            store: *b"a store of a lab",
            created_unix_s: 0,
        };
        let space = |log: bool, data: bool, path: &str| MemberSpace {
            roles: Roles { log, data },
            available_bytes: None,
            uuid: [1; 16],
            path: path.into(),
        };
        let spaces = match shape.log_drive {
            None => vec![space(true, true, "")],
            Some(_) => vec![space(false, true, ""), space(true, false, "log")],
        };
        let plan = plan_create(&params, &spaces)?;
        let drives = [Some(shape.drive), shape.log_drive].into_iter().flatten();
        let disks = drives.zip(&plan.member_bytes).zip(0..);
        let disks = disks.map(|((drive, bytes), index)| SimDisk {
            image: DiskImage::new(*bytes),
            timing: Box::new(Drive::new(
                &drive.spec,
                &DriveOptions {
                    seed: seed + index,
                    ..DriveOptions::default()
                },
            )),
            write_cache: drive.spec.write_cache.enabled,
            zeroing: Zeroing::Command,
        });
        let options = SimOptions {
            seed,
            power_cuts: false,
            ..SimOptions::default()
        };
        let world = SimWorld::with_disks(options, disks.collect());
        let store = Self {
            rt: Rt::new(world.driver()),
            sizes: plan.member_bytes.clone(),
            memory_bytes: shape.memory_bytes,
        };
        let members = store.devices().map(|device| NewMember {
            device,
            blank: true,
            log_written: false,
        });
        let (rt, members) = (store.rt.clone(), members.collect());
        store.rt.block_on(async move {
            let pool = BufPool::new(1 << 20);
            tonearm_disk::create(&rt, &pool, &plan, members, 1 << 20, [2; 16], |_, _| {}).await
        })?;
        Ok(store)
    }

    /// Opens it.
    ///
    /// # Errors
    /// The error of the engine.
    pub async fn open(&self) -> Result<Disk, DiskError> {
        let pool = BufPool::new(4 << 20);
        let members = self.devices().zip(0..).map(|(device, index)| MemberDevice {
            device,
            path: format!("member-{index}"),
        });
        let options = OpenOptions {
            memory_bytes: self.memory_bytes,
            ..OpenOptions::default()
        };
        Disk::open(&self.rt, &pool, members.collect(), options, |_| {}).await
    }

    fn devices(&self) -> impl Iterator<Item = Rc<dyn Device>> {
        self.sizes.iter().enumerate().map(|(index, bytes)| {
            let id = DeviceId(index as u32);
            let device = RawDevice::new(&self.rt, id, *bytes, SECTOR, "drive");
            Rc::new(device) as Rc<dyn Device>
        })
    }
}

/// How the head of `drive` is followed; `None` if it has no head.
fn follow(drive: &DriveFile) -> Option<HeadParams> {
    let disk = drive.spec.disk.as_ref()?;
    let first = HEADER_AREA_BYTES / u64::from(SECTOR);
    let log = LogDrive {
        tracks: Some(track_map(&drive.spec, first..u64::MAX)?),
        period_ps: turn(disk).0 * 1000,
        ..LogDrive::default()
    };
    Some(HeadParams {
        kind: HeadKind::Online,
        sector_bytes: SECTOR as u16,
        drives: vec![log],
    })
}
