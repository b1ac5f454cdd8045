//! A database on one drive with TPC-C, for timed runs.

use super::database::{Commit, Database, DatabaseOptions, Devices};
use super::instant::Instant;
use super::terminals::{Measured, Terminals, Transaction, tpcc};
use super::wal::Rule;
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_device::{Device, RawDevice, Section};
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::{DriveFile, Scheduler};
use tonearm_rt::{DeviceId, Rt};
use tonearm_workload::tpcc::TpccOptions;
use tonearm_workload::{Tpcc, Workload};
use tonearm_world::{DiskImage, SimDisk, SimOptions, SimWorld, Zeroing};

/// A drive, a part of which is the log and a part the data.
pub struct Machine {
    /// Its executor.
    pub rt: Rt,
    /// While it is on, the drives take no time.
    pub instant: Rc<Cell<bool>>,
    /// Log and data.
    pub devices: Devices,
}

impl Machine {
    /// `drives`, each with so many bytes in use, and with its cache on or off. The requests of a host wait in the order of
    /// their places, as the port driver of an operating system sorts them.
    pub fn drives(drives: &[(&DriveFile, u64, bool)], seed: u64) -> (Rt, Vec<Rc<dyn Device>>) {
        let disks = drives.iter().map(|(drive, bytes, cache)| SimDisk {
            image: DiskImage::new(*bytes),
            timing: Box::new(Drive::new(
                &drive.spec,
                &DriveOptions {
                    seed,
                    scheduler: Some(Scheduler::CLook),
                    write_cache: Some(*cache),
                    ..DriveOptions::default()
                },
            )),
            write_cache: *cache,
            zeroing: Zeroing::Command,
        });
        let options = SimOptions {
            seed,
            power_cuts: false,
            ..SimOptions::default()
        };
        let world = SimWorld::with_disks(options, disks.collect());
        let rt = Rt::new(world.driver());
        let devices = drives.iter().zip(0..).map(|((drive, bytes, _), id)| {
            let device = RawDevice::new(&rt, DeviceId(id), *bytes, 512, &drive.name);
            Rc::new(device) as Rc<dyn Device>
        });
        let devices = devices.collect();
        (rt, devices)
    }

    /// The data, and after it the log, on one drive.
    pub fn shared(
        drive: &DriveFile,
        rule: Rule,
        data_bytes: u64,
        log_bytes: u64,
        seed: u64,
    ) -> Self {
        let all = data_bytes + log_bytes;
        let (rt, devices) = Self::drives(&[(drive, all, rule != Rule::Through)], seed);
        let part = |range| Rc::new(Section::new(devices[0].clone(), range)) as Rc<dyn Device>;
        Self::new(rt, part(data_bytes..all), part(0..data_bytes))
    }

    /// Log and data on devices of `rt`.
    pub fn new(rt: Rt, log: Rc<dyn Device>, data: Rc<dyn Device>) -> Self {
        let instant = Rc::new(Cell::new(false));
        Self {
            rt,
            devices: Devices {
                log: Rc::new(Instant::new(log, instant.clone())),
                data: Rc::new(Instant::new(data, instant.clone())),
            },
            instant,
        }
    }

    /// A new database: `warm_up` transactions of `source` that take the drives no time, then `unmeasured` that do, then those that
    /// are measured.
    pub fn measure(
        self,
        options: DatabaseOptions,
        terminals: usize,
        transactions: [u64; 3],
        source: impl FnMut() -> Transaction + 'static,
    ) -> Measured {
        let (measured, _) = self.measure_with(options, terminals, transactions, source, || ());
        measured
    }

    /// The same, and what `state` returns before and after the transactions that are measured.
    pub fn measure_with<T: 'static>(
        self,
        options: DatabaseOptions,
        terminals: usize,
        [warm_up, unmeasured, transactions]: [u64; 3],
        source: impl FnMut() -> Transaction + 'static,
        state: impl Fn() -> T + 'static,
    ) -> (Measured, [T; 2]) {
        let rt = self.rt.clone();
        rt.block_on(async move {
            let database = Database::create(&self.rt, self.devices, options).await;
            let all = Terminals::new(&self.rt, &database, source);
            self.instant.set(true);
            all.run(terminals, warm_up).await;
            self.instant.set(false);
            all.run(terminals, unmeasured).await;
            let before = state();
            let measured = all.run(terminals, transactions).await;
            (measured, [before, state()])
        })
    }
}

/// A run of TPC-C on one drive.
#[derive(Clone, Debug)]
pub struct TpccRun {
    pub rule: Rule,
    pub warehouses: u32,
    pub page_bytes: u32,
    /// Pages in memory, as a share of those of the loaded database.
    pub pool_share: f64,
    /// Bytes of the log.
    pub log_bytes: u64,
    pub checkpoint_at: f64,
    pub terminals: usize,
    pub processor: Nanos,
    /// Transactions: to warm the pool, then until the measurement begins, then measured.
    pub transactions: [u64; 3],
    pub seed: u64,
}

impl TpccRun {
    /// Runs it on `drive`.
    pub fn on(&self, drive: &DriveFile) -> Measured {
        let generator = self.generator();
        let options = self.options(&generator);
        let data_bytes = Database::data_bytes(self.page_bytes, options.pages);
        let machine = Machine::shared(drive, self.rule, data_bytes, self.log_bytes, self.seed);
        machine.measure(options, self.terminals, self.transactions, tpcc(generator))
    }

    /// The database for the transactions of `generator`.
    pub fn options(&self, generator: &Tpcc) -> DatabaseOptions {
        let loaded = generator.allocated();
        DatabaseOptions {
            page_bytes: self.page_bytes,
            pages: generator.pages(),
            loaded,
            pool_pages: (loaded as f64 * self.pool_share) as usize,
            rule: self.rule,
            commit: Commit::Written,
            log_request: None,
            checkpoint_at: self.checkpoint_at,
            processor: self.processor,
        }
    }

    /// The transactions.
    pub fn generator(&self) -> Tpcc {
        let options = TpccOptions {
            warehouses: self.warehouses,
            transactions: self.transactions.iter().sum(),
            seed: self.seed,
            page_bytes: self.page_bytes,
            ..TpccOptions::default()
        };
        Tpcc::new(&options).expect("options within their limits")
    }
}
