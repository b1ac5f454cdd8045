//! Power cuts while the database runs on a store.

use super::setup::{MIB, Open, Opening, Product, Sizes, Way};
use crate::experiment::Context;
use crate::experiment::Outcome;
use crate::pagedb::cuts::{LOG_BYTES, PAGE_BYTES};
use crate::pagedb::database::page_offset;
use crate::pagedb::page::PageState;
use crate::pagedb::{
    Cut, Cuts, Database, DatabaseOptions, Devices, Report, Rule, Storage, cut_power_of,
};
use crate::report::{Bound, Figure, Finding, Table};
use std::collections::BTreeMap;
use tonearm_base::{BufPool, Nanos};
use tonearm_disk::DiskError;
use tonearm_drive_file::DriveFile;
use tonearm_engine::WriteCache;
use tonearm_rt::Rt;
use tonearm_world::{Crash, SimWorld};

/// Transactions of a run: few enough that the drive's cache could have held all of the database's writes.
const TRANSACTIONS: u64 = 240;
/// Memory and log of the store: small, so that blocks are written back all the time, and the log is used anew.
const MEMORY: u64 = MIB;
const STORE_LOG: u64 = 4 * MIB;
const AGE: Nanos = Nanos::from_millis(50);

/// What a power cut does to the drive's cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keeps {
    /// Nothing that completed is lost: the cache has a battery.
    Everything,
    /// Each sector that was not flushed is kept, lost or garbled, in any order.
    Flushed,
}

use Keeps::{Everything, Flushed};

/// The ways, and the drive's cache.
const WAYS: [(Way, Keeps); 5] = [
    (
        way(
            "ordered, the drive keeps the order",
            WriteCache::Ordered,
            Rule::Trusting,
        ),
        Everything,
    ),
    (
        way(
            "ordered, the drive reorders",
            WriteCache::Ordered,
            Rule::Trusting,
        ),
        Flushed,
    ),
    (
        way("default", WriteCache::Volatile, Rule::Trusting),
        Flushed,
    ),
    (
        way(
            "default, a flush for each commit",
            WriteCache::Volatile,
            Rule::EachCommit,
        ),
        Flushed,
    ),
    (
        way("default, FUA", WriteCache::Volatile, Rule::Through),
        Flushed,
    ),
];

const fn way(name: &'static str, write_cache: WriteCache, rule: Rule) -> Way {
    Way {
        name,
        write_cache,
        drive_cache: true,
        rule,
    }
}

/// A store with a database whose power is cut.
struct OnStore {
    product: Product,
    way: Way,
    keeps: Keeps,
}

impl OnStore {
    fn new(drive: &DriveFile, way: Way, keeps: Keeps, bytes: u64, seed: u64) -> Self {
        let sizes = Sizes {
            log: LOG_BYTES,
            data: bytes - LOG_BYTES,
            loaded: 0,
            store_log: STORE_LOG,
        };
        let product = Product::new(drive, sizes, seed);
        Self {
            product: product.expect("a store is made"),
            way,
            keeps,
        }
    }

    fn opening(power_cuts: bool, seed: u64) -> Opening {
        Opening {
            memory_bytes: MEMORY,
            write_back_after: AGE,
            power_cuts,
            seed,
        }
    }
}

impl Storage for OnStore {
    fn start(&self, seed: u64) -> (SimWorld, Rt, Devices) {
        let open = self.product.open(&self.way, OnStore::opening(true, seed));
        let open = open.expect("a new store is opened");
        let devices = open.devices();
        (open.store.world().clone(), open.store.rt.clone(), devices)
    }

    fn recover(
        &self,
        crash: &Crash,
        seed: u64,
        history: &[(u64, u32)],
        options: DatabaseOptions,
    ) -> Cut {
        let images = match self.keeps {
            Everything => crash.images_ordered(seed),
            Flushed => crash.images(seed),
        };
        let opening = OnStore::opening(false, seed);
        let Ok(open) = self.product.open_with(images, &self.way, opening) else {
            return Cut::Reported(Report::Opening);
        };
        let cut = examine(&open, history, options);
        open.switch_off();
        cut.unwrap_or(Cut::Reported(Report::Reading))
    }
}

/// Reads all of the volume, then recovers the database and compares all of its pages.
fn examine(
    open: &Open,
    history: &[(u64, u32)],
    options: DatabaseOptions,
) -> Result<Cut, DiskError> {
    let (rt, volume, devices) = (open.store.rt.clone(), open.volume(), open.devices());
    let changed: Vec<(u64, u32)> = history.to_vec();
    open.store.rt.block_on(async move {
        volume.cache(0, volume.size_bytes()).await?;
        let opened = Database::open(&rt, devices.clone(), options).await;
        let database = match opened {
            Ok(database) => database,
            Err(damage) => return Ok(Cut::Refused(damage)),
        };
        let (memory, mut pages) = (BufPool::new(1 << 16), BTreeMap::new());
        for (_, page) in &changed {
            let read = devices.data.read(
                page_offset(*page, PAGE_BYTES),
                memory.alloc(PAGE_BYTES as usize),
            );
            let bytes = read.await.expect("all of the volume could be read");
            pages.insert(*page, PageState::decode(&bytes));
        }
        let end = database.flush_lsn();
        Ok(Cut::of(&changed, end, |page| pages[&page]))
    })
}

/// What power cuts leave.
pub fn cuts(context: &Context<'_>, drive: &DriveFile, outcome: &mut Outcome) {
    let (seeds, cuts) = if context.is_full() { (2, 90) } else { (1, 40) };
    let cases = WAYS.map(|case| (0..seeds).map(move |seed| (case, seed)).collect::<Vec<_>>());
    let runs = context.map(&cases.concat(), |((way, keeps), seed)| {
        let seed = context.seed(100 + seed);
        let storage = |bytes| OnStore::new(drive, *way, *keeps, bytes, seed);
        cut_power_of(storage, way.rule, seed, TRANSACTIONS, cuts)
    });
    let mut table = Table::new(&[
        "store and drive",
        "power cuts",
        "all answered transactions there",
        "answered transactions lost, no error",
        "most lost",
        "refused by the store",
        "blocks unreadable",
        "a page is ahead of or behind the log, no error",
        "recovered, but wrong",
    ]);
    for ((way, keeps), runs) in WAYS.iter().zip(runs.chunks(seeds as usize)) {
        let tally = Tally::of(runs);
        table.row(
            [
                tally.cuts,
                tally.cuts - tally.lost - tally.refused - tally.unreadable - tally.wrong(),
                tally.lost,
                tally.most_lost,
                tally.refused,
                tally.unreadable,
                tally.mixed,
                tally.wrong_pages,
            ]
            .iter()
            .map(u64::to_string)
            .fold(vec![way.name.into()], |mut row, cell| {
                row.push(cell);
                row
            }),
        );
        outcome.findings.extend(tally.findings(way, *keeps));
    }
    outcome.figures.push(Figure::table(
        "wal-product-cuts",
        "What a power cut leaves on the product",
        &format!(
            "Each run has {TRANSACTIONS} transactions of 4 terminals, on a store with 1 MiB of memory and a log of 4 MiB. After a cut the \
             store is opened, all of its volume is read, the database is recovered, and each page is compared with the transactions that \
             the log has."
        ),
        table,
    ));
}

/// The cuts of a way.
#[derive(Default)]
struct Tally {
    cuts: u64,
    /// Cuts that took answered transactions, and of which nothing is reported.
    lost: u64,
    most_lost: u64,
    refused: u64,
    unreadable: u64,
    /// The store reports nothing, and the database finds pages and log of different ages.
    mixed: u64,
    wrong_pages: u64,
    broken_promises: u64,
}

impl Tally {
    fn of(runs: &[Cuts]) -> Self {
        let all = || runs.iter().flat_map(|run| &run.cuts);
        let count = |is: &dyn Fn(&Cut) -> bool| all().filter(|cut| is(cut)).count() as u64;
        Self {
            cuts: all().count() as u64,
            lost: runs.iter().map(|run| run.losses).sum(),
            most_lost: runs.iter().map(|run| run.most_lost).max().unwrap_or(0),
            refused: count(&|cut| *cut == Cut::Reported(Report::Opening)),
            unreadable: count(&|cut| *cut == Cut::Reported(Report::Reading)),
            mixed: count(&|cut| matches!(cut, Cut::Refused(_))),
            wrong_pages: count(&|cut| matches!(cut, Cut::Wrong { .. })),
            broken_promises: runs.iter().map(|run| run.broken_promises).sum(),
        }
    }

    /// Cuts after which a state that never was is presented as good.
    fn wrong(&self) -> u64 {
        self.mixed + self.wrong_pages
    }

    fn findings(&self, way: &Way, keeps: Keeps) -> Vec<Finding> {
        let share = |what: &str, count: u64| {
            let share = 100.0 * count as f64 / self.cuts as f64;
            Finding::shown(format!("{}: power cuts {what}", way.name), share, "%")
        };
        let none = |what: &str, count: u64| share(what, count).bound(Bound::AtMost(0.0));
        let damage = "after which the store reports damage";
        let reported = self.refused + self.unreadable;
        let mut findings = vec![none(
            "that leave a state that never was, without an error",
            self.wrong(),
        )];
        if way.write_cache == WriteCache::Ordered && keeps == Flushed {
            let lost = "that take answered transactions, without an error";
            findings.extend([none(lost, self.lost), share(damage, reported)]);
            return findings;
        }
        findings.push(none(damage, reported));
        // By default a write is answered before it is durable.
        if way.write_cache == WriteCache::Ordered || way.rule != Rule::Trusting {
            findings.push(none("that take answered transactions", self.lost));
        }
        if way.rule != Rule::Trusting {
            let broken = self.broken_promises;
            findings.push(none("that take what was known to be durable", broken));
        }
        findings
    }
}
