//! A store on two simulated drives, one for the log and one for the home.

use crate::meter;
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::{Device, RawDevice};
use tonearm_disk::{
    CreateParams, Disk, DiskError, HomeParams, MemberDevice, MemberSpace, NewMember, OpenOptions,
    plan_create,
};
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::DriveSpec;
use tonearm_engine::{Engine, EngineError};
use tonearm_format::{Roles, SECTOR};
use tonearm_rt::{Completion, DeviceId, Driver, Request, Rt};
use tonearm_world::{DiskImage, SimDisk, SimOptions, SimWorld, Zeroing};

/// A store that is not running.
pub struct Store {
    disks: Vec<DiskImage>,
}

impl Store {
    /// An empty store with `blocks` blocks of 4 KiB and a log of `log_bytes`.
    ///
    /// # Errors
    /// When the parameters are invalid.
    pub fn create(blocks: u64, log_bytes: u64, home: HomeParams) -> anyhow::Result<Self> {
        let params = CreateParams {
            size_bytes: (blocks * 4096).max(1 << 20),
            log_bytes: Some(log_bytes),
            track_bytes: None,
            head: None,
            home,
            block_size: 4096,
            store: *b"virtual-time run",
            created_unix_s: 0,
        };
        let space = |log: bool, path: &str| MemberSpace {
            roles: Roles { log, data: !log },
            available_bytes: None,
            uuid: [1; 16],
            path: path.into(),
        };
        let plan = plan_create(&params, &[space(true, ""), space(false, "data")])?;
        let disks = plan.member_bytes.iter().map(|bytes| DiskImage::new(*bytes));
        let world = SimWorld::new(SimOptions::default(), disks.collect());
        let rt = Rt::new(world.driver());
        let members = plan.member_bytes.iter().enumerate();
        let members = members
            .map(|(index, bytes)| NewMember {
                device: raw(&rt, index, *bytes),
                blank: true,
                log_written: false,
            })
            .collect();
        let own = rt.clone();
        rt.block_on(async move {
            let pool = BufPool::new(1 << 20);
            let size = params.size_bytes;
            tonearm_disk::create(&own, &pool, &plan, members, size, [2; 16], |_, _| {}).await
        })?;
        let disks = world.images();
        rt.shut_down();
        Ok(Self { disks })
    }

    /// Starts the store in a simulated world.
    pub fn start(self, settings: &Settings<'_>) -> Running {
        let sizes = self.disks.iter().map(|disk| disk.size).collect();
        let options = SimOptions {
            seed: settings.seed,
            power_cuts: settings.power_cuts,
            ..SimOptions::default()
        };
        let world = match settings.drives {
            None => SimWorld::new(options, self.disks),
            Some(specs) => {
                let disks = specs.iter().zip(self.disks).map(|((_, spec), image)| {
                    let drive = DriveOptions {
                        seed: settings.seed,
                        ..DriveOptions::default()
                    };
                    SimDisk {
                        image,
                        timing: Box::new(Drive::new(spec, &drive)),
                        write_cache: spec.write_cache.enabled,
                        zeroing: Zeroing::Command,
                    }
                });
                SimWorld::with_disks(options, disks.collect())
            }
        };
        let spent = Rc::new(Cell::new(0));
        let mut driver = world.driver();
        if settings.split {
            driver = Box::new(TimedDriver {
                inner: driver,
                spent: spent.clone(),
            });
        }
        Running {
            rt: Rt::new(driver),
            world,
            sizes,
            spent,
        }
    }
}

/// Settings of a run.
pub struct Settings<'a> {
    /// Seed of all random choices in the world.
    pub seed: u64,
    /// Models of the drives of log and home. Without them operations take random latencies.
    pub drives: Option<&'a [(String, DriveSpec); 2]>,
    /// The world tracks what a power cut may lose.
    pub power_cuts: bool,
    /// Measure the simulated world's share.
    pub split: bool,
}

/// A store that is running.
#[derive(Clone)]
pub struct Running {
    /// Its executor.
    pub rt: Rt,
    /// Its drives.
    pub world: SimWorld,
    sizes: Vec<u64>,
    spent: Rc<Cell<u64>>,
}

impl Running {
    /// Opens the store.
    ///
    /// # Errors
    /// The errors of the engine.
    pub async fn open(&self, options: OpenOptions) -> Result<Engine, EngineError> {
        let pool = BufPool::new(4 << 20);
        Engine::open(&self.rt, &pool, self.members(), options, |_| {}).await
    }

    /// Opens the store as a logical disk.
    ///
    /// # Errors
    /// The errors of the disk.
    pub async fn open_disk(&self, options: OpenOptions) -> Result<Disk, DiskError> {
        // The size that the `tonearm` program uses.
        let pool = BufPool::new(64 << 20);
        Disk::open(&self.rt, &pool, self.members(), options, |_| {}).await
    }

    fn members(&self) -> Vec<MemberDevice> {
        let sizes = self.sizes.iter().enumerate();
        let member = |(index, bytes): (usize, &u64)| MemberDevice {
            device: raw(&self.rt, index, *bytes),
            path: format!("member-{index}"),
        };
        sizes.map(member).collect()
    }

    /// Nanoseconds spent in the simulated world so far, if that is measured.
    pub fn world_ns(&self) -> u64 {
        self.spent.get()
    }
}

fn raw(rt: &Rt, index: usize, bytes: u64) -> Rc<dyn Device> {
    let (id, name) = (DeviceId(index as u32), format!("member-{index}"));
    Rc::new(RawDevice::new(rt, id, bytes, SECTOR as u32, &name))
}

/// A driver that measures its own time.
struct TimedDriver {
    inner: Box<dyn Driver>,
    spent: Rc<Cell<u64>>,
}

impl TimedDriver {
    fn spend(&self, since: u64) {
        self.spent.set(self.spent.get() + meter::wall_ns() - since);
    }
}

impl Driver for TimedDriver {
    fn now(&self) -> tonearm_base::Nanos {
        self.inner.now()
    }

    fn submit(&mut self, token: u64, request: Request) {
        let since = meter::wall_ns();
        self.inner.submit(token, request);
        self.spend(since);
    }

    fn wait(&mut self, deadline: Option<tonearm_base::Nanos>, completions: &mut Vec<Completion>) {
        let since = meter::wall_ns();
        self.inner.wait(deadline, completions);
        self.spend(since);
    }
}
