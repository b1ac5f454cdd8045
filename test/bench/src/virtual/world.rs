//! A store on simulated drives: one for the log, and one or an array of them for the home.

use crate::array::{self, Array};
use crate::meter;
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_disk::{CreateParams, Disk, DiskError, HomeParams, MemberDevice, OpenOptions};
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::DriveSpec;
use tonearm_engine::{Engine, EngineError};
use tonearm_format::{Roles, SECTOR};
use tonearm_rt::{Completion, Driver, Request, Rt};
use tonearm_world::{DiskImage, SimDisk, SimOptions, SimWorld, Zeroing};

/// A store that is not running.
pub struct Store {
    disks: Vec<DiskImage>,
    has_array: bool,
}

impl Store {
    /// An empty store with `blocks` blocks of 4 KiB and a log of `log_bytes`. Its home is on one drive, or on `array`.
    ///
    /// # Errors
    /// When the parameters are invalid.
    pub fn create(
        blocks: u64,
        log_bytes: u64,
        home: HomeParams,
        array: Option<Array>,
    ) -> anyhow::Result<Self> {
        let params = CreateParams {
            log_bytes: Some(log_bytes),
            home,
            ..CreateParams::new((blocks * 4096).max(1 << 20), *b"virtual-time run")
        };
        let disks = match array {
            Some(array) => array.create(&params)?,
            None => {
                let roles = [true, false].map(|log| Roles { log, data: !log });
                tonearm_sim::create(&params, &roles, params.size_bytes)?
            }
        };
        Ok(Self {
            disks,
            has_array: array.is_some(),
        })
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
            Some([log, home]) => {
                let specs = std::iter::once(log).chain(std::iter::repeat(home));
                let disks = specs.zip(self.disks).zip(0..);
                let disks = disks.map(|(((_, spec), image), index): (_, u64)| {
                    let drive = DriveOptions {
                        // The first drive of the home has the seed that a single one has.
                        seed: settings.seed + index.saturating_sub(1),
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
            has_array: self.has_array,
            spent,
        }
    }
}

/// Settings of a run.
pub struct Settings<'a> {
    /// Seed of all random choices in the world.
    pub seed: u64,
    /// Models of the drives of log and home; all drives of an array are alike. Without them operations take random latencies.
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
    has_array: bool,
    spent: Rc<Cell<u64>>,
}

impl Running {
    /// Opens the store.
    ///
    /// # Errors
    /// The errors of the engine.
    pub async fn open(&self, options: OpenOptions) -> Result<Engine, EngineError> {
        let pool = BufPool::new(4 << 20);
        let members = self.members(&pool).await?;
        Engine::open(&self.rt, &pool, members, options, |_| {}).await
    }

    /// Opens the store as a logical disk.
    ///
    /// # Errors
    /// The errors of the disk.
    pub async fn open_disk(&self, options: OpenOptions) -> Result<Disk, DiskError> {
        // The size that the `tonearm` program uses.
        let pool = BufPool::new(64 << 20);
        let members = self.members(&pool).await?;
        Disk::open(&self.rt, &pool, members, options, |_| {}).await
    }

    async fn members(&self, pool: &BufPool) -> Result<Vec<MemberDevice>, EngineError> {
        let drives = tonearm_sim::members(&self.rt, self.sizes.iter().copied(), SECTOR);
        match self.has_array {
            true => array::open(&self.rt, pool, drives).await,
            false => Ok(drives),
        }
    }

    /// Nanoseconds spent in the simulated world so far, if that is measured.
    pub fn world_ns(&self) -> u64 {
        self.spent.get()
    }
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
