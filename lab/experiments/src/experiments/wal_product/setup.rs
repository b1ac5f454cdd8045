//! The page database on a volume of a store, whose log and data area share one drive.

use crate::harness::{SimStore, StoreShape, VolumeDevice};
use crate::pagedb::{Devices, Machine, Measured, Rule, TpccRun, tpcc};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::Device;
use tonearm_disk::{Disk, DiskError, HomeParams, OpenOptions, Volume};
use tonearm_drive_file::{DriveFile, Scheduler};
use tonearm_engine::{StoreStats, WriteCache};
use tonearm_world::DiskImage;

pub const MIB: u64 = 1 << 20;
/// The smallest block that is written and read as one.
const BLOCK: usize = 4096;

/// How store, drive and database make writes durable.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub name: &'static str,
    /// The store's `--write-cache`.
    pub write_cache: WriteCache,
    /// The drive's cache is on.
    pub drive_cache: bool,
    /// What the database does. On a store, `Trusting` is enough for it to be recovered: the store keeps the order.
    pub rule: Rule,
}

/// Bytes of what is on the drive.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The database's log, at the start of the volume.
    pub log: u64,
    /// Its pages, after the log.
    pub data: u64,
    /// So many of these have a content at the start.
    pub loaded: u64,
    /// The store's own log.
    pub store_log: u64,
}

impl Sizes {
    fn volume(&self) -> u64 {
        (self.log + self.data).next_multiple_of(MIB)
    }

    fn shape<'a>(&self, drive: &'a DriveFile) -> StoreShape<'a> {
        StoreShape {
            log_bytes: Some(self.store_log),
            ..StoreShape::new(drive, HomeParams::Overwrite, self.volume() + 2 * MIB)
        }
    }
}

/// How a store is opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// `--memory`.
    pub memory_bytes: u64,
    /// Age at which blocks are written back.
    pub write_back_after: Nanos,
    /// The world keeps what a power cut may take.
    pub power_cuts: bool,
    pub seed: u64,
}

impl Opening {
    /// As `tonearm serve` opens a store.
    pub fn plain(seed: u64) -> Self {
        let options = OpenOptions::default();
        Self {
            memory_bytes: options.memory_bytes,
            write_back_after: options.write_back_after,
            power_cuts: false,
            seed,
        }
    }
}

/// A store that is closed, with the volume of a database.
pub struct Product {
    drive: DriveFile,
    sizes: Sizes,
    store: SimStore,
}

/// The store while it is open.
pub struct Open {
    pub store: Rc<SimStore>,
    pub disk: Disk,
    volume: Rc<Volume>,
    sizes: Sizes,
}

/// A run, and the numbers of the store before and after the transactions that are measured.
pub struct Run {
    pub measured: Measured,
    stats: [StoreStats; 2],
}

impl Run {
    /// The difference of a number of the store.
    pub fn store(&self, of: impl Fn(&StoreStats) -> u64) -> u64 {
        of(&self.stats[1]) - of(&self.stats[0])
    }

    /// The same for 1,000 transactions.
    pub fn thousand(&self, of: impl Fn(&StoreStats) -> u64) -> f64 {
        1000.0 * self.store(of) as f64 / self.measured.transactions as f64
    }
}

/// Flushes of the log, and its writes with FUA, of all causes.
pub fn log_flushes(stats: &StoreStats) -> u64 {
    stats.commit_flushes
        + stats.home_write_flushes
        + stats.checkpoint_flushes
        + stats.bound_flushes
        + stats.log_space_flushes
}

impl Product {
    /// A new store on `drive`. The host sorts its requests by their places, as in the experiments on the drive itself.
    ///
    /// # Errors
    /// The error of the engine.
    pub fn new(drive: &DriveFile, sizes: Sizes, seed: u64) -> Result<Self, DiskError> {
        let mut drive = drive.clone();
        if let Some(disk) = &mut drive.spec.disk {
            disk.scheduler = Scheduler::CLook;
        }
        let store = Rc::new(SimStore::create(&sizes.shape(&drive), seed)?);
        let own = store.clone();
        store.rt.block_on(async move {
            let disk = own.open().await?;
            disk.resize_volume("main", sizes.volume()).await?;
            let volume = disk.volume("main")?;
            let memory = BufPool::new(MIB as usize);
            for at in (0..sizes.loaded).step_by(MIB as usize) {
                let mut pages = memory.alloc_zeroed(MIB.min(sizes.data - at) as usize);
                // A block that is zero would take no space, and no time to be read.
                for block in pages.chunks_mut(BLOCK) {
                    block[8] = 1;
                }
                volume.write(sizes.log + at, pages.share(), false).await?;
            }
            disk.close().await
        })?;
        store.rt.shut_down();
        let store = Rc::into_inner(store).expect("no task has it any more");
        Ok(Self {
            drive,
            sizes,
            store,
        })
    }

    /// Opens it as it was made.
    ///
    /// # Errors
    /// The error of the engine.
    pub fn open(&self, way: &Way, opening: Opening) -> Result<Open, DiskError> {
        self.open_with(self.store.world().images(), way, opening)
    }

    /// Opens it with this content of its drive.
    ///
    /// # Errors
    /// The error of the engine.
    pub fn open_with(
        &self,
        images: Vec<DiskImage>,
        way: &Way,
        opening: Opening,
    ) -> Result<Open, DiskError> {
        let mut drive = self.drive.clone();
        drive.spec.write_cache.enabled = way.drive_cache;
        let shape = StoreShape {
            memory_bytes: opening.memory_bytes,
            power_cuts: opening.power_cuts,
            ..self.sizes.shape(&drive)
        };
        let store = Rc::new(self.store.with_content(&shape, images, opening.seed));
        let options = OpenOptions {
            write_cache: way.write_cache,
            write_back_after: opening.write_back_after,
            ..OpenOptions::default()
        };
        let own = store.clone();
        let opened = store.rt.block_on(async move {
            let disk = own.open_with(options).await?;
            let volume = disk.volume("main")?.for_kernel_client();
            Ok::<_, DiskError>((disk, Rc::new(volume)))
        });
        let (disk, volume) = opened.inspect_err(|_| store.rt.shut_down())?;
        Ok(Open {
            store,
            disk,
            volume,
            sizes: self.sizes,
        })
    }

    /// The transactions of `run` on it.
    ///
    /// # Errors
    /// The error of the engine.
    pub fn tpcc(&self, way: &Way, run: &TpccRun, opening: Opening) -> Result<Run, DiskError> {
        let open = self.open(way, opening)?;
        let generator = run.generator();
        let options = TpccRun {
            rule: way.rule,
            ..run.clone()
        }
        .options(&generator);
        let disk = open.disk.clone();
        let (terminals, transactions) = (run.terminals, run.transactions);
        let stats = move || disk.stats();
        let (measured, stats) =
            open.machine()
                .measure_with(options, terminals, transactions, tpcc(generator), stats);
        open.switch_off();
        Ok(Run { measured, stats })
    }
}

impl Open {
    /// Log and pages of the database. A write has ended when the store's log device has completed it, as for the disk of a
    /// virtual machine.
    pub fn devices(&self) -> Devices {
        let part = |start, bytes| {
            let part = VolumeDevice::new(&self.store.rt, self.volume.clone(), start, bytes);
            Rc::new(part) as Rc<dyn Device>
        };
        Devices {
            log: part(0, self.sizes.log),
            data: part(self.sizes.log, self.sizes.data),
        }
    }

    /// The machine of a database.
    pub fn machine(&self) -> Machine {
        let Devices { log, data } = self.devices();
        Machine::new(self.store.rt.clone(), log, data)
    }

    /// The volume.
    pub fn volume(&self) -> Rc<Volume> {
        self.volume.clone()
    }

    /// Ends all tasks, which would keep its memory.
    pub fn switch_off(self) {
        self.store.rt.shut_down();
    }
}
