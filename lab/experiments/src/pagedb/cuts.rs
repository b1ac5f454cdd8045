//! Power cuts: a database runs on simulated storage, and at many of its I/Os what a power cut leaves is recovered and
//! compared with the transactions that were done.

use super::database::{Commit, Database, DatabaseOptions, Devices, page_offset};
use super::page::{PageState, STATE_BYTES};
use super::recovery::{Damage, audit};
use super::terminals::{Terminals, tpcc};
use super::wal::Rule;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_device::{Device, RawDevice, Section};
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::DriveFile;
use tonearm_rt::{DeviceId, Rt};
use tonearm_workload::Tpcc;
use tonearm_workload::tpcc::TpccOptions;
use tonearm_world::{Crash, DiskImage, SimDisk, SimOptions, SimWorld, Zeroing};

/// Bytes of the log: small, so that it is reused many times.
pub const LOG_BYTES: u64 = 384 << 10;
pub const PAGE_BYTES: u32 = 4096;
/// Pages in memory: a fiftieth of the database, so that pages leave it all the time.
const POOL_PAGES: usize = 500;
const TERMINALS: usize = 4;

/// What a power cut has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// A database with the first `end` records, and nothing else.
    Recovered { end: u64 },
    /// Recovery refuses it.
    Refused(Damage),
    /// Recovery gives a database with so many wrong pages.
    Wrong { pages: u64 },
    /// The storage reports damage, before the database is asked.
    Reported(Report),
}

/// When storage reports damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// It cannot be opened.
    Opening,
    /// Blocks cannot be read.
    Reading,
}

/// The cuts of a run.
#[derive(Clone, Default, Debug)]
pub struct Cuts {
    /// What each cut left.
    pub cuts: Vec<Cut>,
    /// Cuts that took a record that the log took for durable.
    pub broken_promises: u64,
    /// Cuts that took transactions that had been answered, and left a database that can be recovered.
    pub losses: u64,
    /// The most transactions that a cut took although they had been answered.
    pub most_lost: u64,
    /// Checkpoints of the run.
    pub checkpoints: u64,
    /// Bytes that it wrote to its storage.
    pub written_bytes: u64,
}

/// Where the database of a run with power cuts is.
pub trait Storage {
    /// Switches it on: its world, its executor, and the devices of an empty database.
    fn start(&self, seed: u64) -> (SimWorld, Rt, Devices);

    /// Recovers what a power cut leaves by `seed`, and compares it with `history`.
    fn recover(
        &self,
        crash: &Crash,
        seed: u64,
        history: &[(u64, u32)],
        options: DatabaseOptions,
    ) -> Cut;
}

/// Runs `transactions` transactions of TPC-C on `drive` by `rule`, and cuts the power `cuts` times, evenly spread.
pub fn cut_power(drive: &DriveFile, rule: Rule, seed: u64, transactions: u64, cuts: u64) -> Cuts {
    let storage = |bytes| OnDrive {
        drive: drive.clone(),
        rule,
        bytes,
    };
    cut_power_of(storage, rule, seed, transactions, cuts)
}

/// The same on storage that `storage` makes, new for each of two runs, for so many bytes of a database with its log.
pub fn cut_power_of<S: Storage + 'static>(
    storage: impl Fn(u64) -> S,
    rule: Rule,
    seed: u64,
    transactions: u64,
    cuts: u64,
) -> Cuts {
    // One run counts the I/Os, the next one has the cuts.
    let events = run(&storage, rule, seed, transactions, u64::MAX).1;
    run(&storage, rule, seed, transactions, (events / cuts).max(1)).0
}

fn run<S: Storage + 'static>(
    storage: &impl Fn(u64) -> S,
    rule: Rule,
    seed: u64,
    transactions: u64,
    every: u64,
) -> (Cuts, u64) {
    let generator = Tpcc::new(&TpccOptions {
        warehouses: 1,
        transactions,
        seed,
        page_bytes: PAGE_BYTES,
        ..TpccOptions::default()
    });
    let generator = generator.expect("options within their limits");
    let pages = tonearm_workload::Workload::pages(&generator);
    let loaded = generator.allocated();
    let storage = storage(LOG_BYTES + Database::data_bytes(PAGE_BYTES, pages));
    let (world, rt, devices) = storage.start(seed);
    let options = options_of(rule, pages, loaded);
    let (own, recovering) = (rt.clone(), options.clone());
    let (hooked, cuts, events) = (
        world.clone(),
        Rc::new(RefCell::new(Cuts::default())),
        Rc::new(Cell::new(0)),
    );
    let (seen, number) = (cuts.clone(), events.clone());
    let counts = rt.block_on(async move {
        let database = Database::create(&own, devices, options).await;
        let watched = database.clone();
        hooked.on_io(move |_, crash| {
            number.set(number.get() + 1);
            if number.get() % every == 0 {
                let (seed, history) = (seed + number.get(), watched.history());
                let cut = storage.recover(crash, seed, &history, recovering.clone());
                note(&mut seen.borrow_mut(), cut, &watched);
            }
        });
        let terminals = Terminals::new(&own, &database, tpcc(generator));
        terminals.run(TERMINALS, transactions).await;
        hooked.clear_hook();
        database.counts()
    });
    rt.shut_down();
    let mut cuts = cuts.take();
    cuts.checkpoints = counts.checkpoints;
    let pages = counts.page_outs + counts.checkpoint_pages;
    cuts.written_bytes = counts.log.bytes + pages * u64::from(PAGE_BYTES);
    (cuts, events.get())
}

/// The database of these runs.
pub fn options_of(rule: Rule, pages: u64, loaded: u64) -> DatabaseOptions {
    DatabaseOptions {
        page_bytes: PAGE_BYTES,
        pages,
        loaded,
        pool_pages: POOL_PAGES,
        rule,
        commit: Commit::Written,
        log_request: None,
        checkpoint_at: 0.3,
        processor: Nanos(0),
    }
}

/// One drive, with its cache on unless the rule wants it off.
struct OnDrive {
    drive: DriveFile,
    rule: Rule,
    bytes: u64,
}

impl Storage for OnDrive {
    fn start(&self, seed: u64) -> (SimWorld, Rt, Devices) {
        let cache = self.rule != Rule::Through;
        let timing = Drive::new(
            &self.drive.spec,
            &DriveOptions {
                seed,
                write_cache: Some(cache),
                ..DriveOptions::default()
            },
        );
        let disk = SimDisk {
            image: DiskImage::new(self.bytes),
            timing: Box::new(timing),
            write_cache: cache,
            zeroing: Zeroing::Command,
        };
        let options = SimOptions {
            seed,
            ..SimOptions::default()
        };
        let world = SimWorld::with_disks(options, vec![disk]);
        let rt = Rt::new(world.driver());
        let devices = devices(&rt, self.bytes);
        (world, rt, devices)
    }

    fn recover(
        &self,
        crash: &Crash,
        seed: u64,
        history: &[(u64, u32)],
        options: DatabaseOptions,
    ) -> Cut {
        let images = crash.images(whole(seed));
        let world = SimWorld::new(SimOptions::default(), images);
        let rt = Rt::new(world.driver());
        let (own, devices) = (rt.clone(), devices(&rt, self.bytes));
        let opened = rt.block_on(async move { Database::open(&own, devices, options).await });
        let end = match opened {
            Ok(database) => database.flush_lsn(),
            Err(damage) => return Cut::Refused(damage),
        };
        let image = &world.images()[0];
        Cut::of(history, end, |page| on_image(image, page))
    }
}

impl Cut {
    /// A recovered database with the first `end` records of `history`, the pages of which `read` returns.
    pub fn of(history: &[(u64, u32)], end: u64, read: impl Fn(u32) -> PageState) -> Self {
        match audit(history, end, read) {
            0 => Self::Recovered { end },
            pages => Self::Wrong { pages },
        }
    }
}

/// Log and data on the first drive of `rt`.
pub fn devices(rt: &Rt, bytes: u64) -> Devices {
    let drive: Rc<dyn Device> = Rc::new(RawDevice::new(rt, DeviceId(0), bytes, 512, "drive"));
    Devices {
        log: Rc::new(Section::new(drive.clone(), 0..LOG_BYTES)),
        data: Rc::new(Section::new(drive, LOG_BYTES..bytes)),
    }
}

/// The next seed from `seed` on that leaves each sector as it was before a write or after it.
pub fn whole(seed: u64) -> u64 {
    let mut seeds = seed..;
    let found = seeds.find(|seed| !Crash::garbles(*seed, false));
    found.expect("most seeds garble nothing")
}

/// A page on the drive.
pub fn on_image(image: &DiskImage, page: u32) -> PageState {
    let mut bytes = [0; STATE_BYTES];
    image.read(LOG_BYTES + page_offset(page, PAGE_BYTES), &mut bytes);
    PageState::decode(&bytes)
}

fn note(cuts: &mut Cuts, cut: Cut, database: &Database) {
    cuts.cuts.push(cut);
    if let Cut::Recovered { end } = cut {
        let lost = database.answered().saturating_sub(end);
        cuts.broken_promises += u64::from(end < database.durable_lsn());
        cuts.losses += u64::from(lost > 0);
        cuts.most_lost = cuts.most_lost.max(lost);
    }
}
