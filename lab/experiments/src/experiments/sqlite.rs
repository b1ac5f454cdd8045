//! SQLite's durable commits on a hard disk: one atomic unit against a journal and writes in place.

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{
    IN_PLACE_VFS, Session, SimStore, Spent, StoreShape, Transaction, account, mount,
};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use rusqlite::{Connection, OpenFlags};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tonearm_disk::HomeParams;
use tonearm_drive_file::DriveFile;
use tonearm_store::Store;
use tonearm_store::files::LocalFiles;

pub const EXPERIMENT: Experiment = Experiment {
    name: "sqlite",
    title: "Durable commits of SQLite",
    source: "ARU 1; beyond the paper",
    about: "Commits per second of SQLite in virtual time, with synchronous=FULL: on files that SQLite writes in place \
            behind a journal, and in a store, where a transaction is one atomic unit.",
    drives: Drives::Some(&["st41601n", "sata2tb"]),
    run,
};

/// How SQLite keeps its database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// In a store with its log on a second drive of the same kind, whose head the log follows.
    StoreOfTwo,
    /// In a store on the drive.
    StoreOfOne,
    /// On files of the drive, with this journal mode.
    Files(&'static str),
}

const WAYS: [(Way, &str); 6] = [
    (Way::StoreOfTwo, "store, log on a drive of its own"),
    (Way::StoreOfOne, "store on one drive"),
    (Way::Files("DELETE"), "files, DELETE"),
    (Way::Files("TRUNCATE"), "files, TRUNCATE"),
    (Way::Files("PERSIST"), "files, PERSIST"),
    (Way::Files("WAL"), "files, WAL"),
];
/// Places in [`WAYS`].
const STORES: [usize; 2] = [0, 1];
const DELETE: usize = 2;
const WAL: usize = 5;
/// By what factor a store with its log on a drive of its own must be faster than DELETE, by drive and transaction: about
/// two thirds of what is measured, in a full or a quick run.
const DELETE_MIN: [(&str, [f64; 3]); 2] = [
    ("st41601n", [15.0, 13.0, 4.5]),
    ("sata2tb", [22.0, 16.0, 20.0]),
];

const MIB: u64 = 1 << 20;

const TRANSACTIONS: [(Transaction, &str); 3] = [
    (Transaction::Insert, "insert 1 row"),
    (Transaction::Update(1), "update 1 row"),
    (Transaction::Update(10), "update 10 rows"),
];

const ROWS: u64 = 100_000;

impl Way {
    fn session(self, drive: &DriveFile, seed: u64) -> rusqlite::Result<Session> {
        let (connection, spent): (_, Box<dyn Fn() -> Spent>) = match self {
            Self::Files(_) => {
                mount(drive, seed);
                let spent = || {
                    let (time, sent) = account().expect("a drive is mounted");
                    Spent {
                        time,
                        bytes: sent.bytes,
                        flushes: sent.flushes,
                    }
                };
                (open("app.db", IN_PLACE_VFS)?, Box::new(spent))
            }
            Self::StoreOfTwo => in_store(drive, Some(drive), seed)?,
            Self::StoreOfOne => in_store(drive, None, seed)?,
        };
        if let Self::Files(mode) = self {
            if mode == "WAL" {
                // Without shared memory. This saves SQLite some work, but no write.
                connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            }
            connection.pragma_update(None, "journal_mode", mode)?;
        }
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(Session { connection, spent })
    }
}

/// A database in a new store.
fn in_store(
    drive: &DriveFile,
    log_drive: Option<&DriveFile>,
    seed: u64,
) -> rusqlite::Result<(Connection, Box<dyn Fn() -> Spent>)> {
    // Experiments run concurrently in one process, and a VFS knows stores by name.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let shape = StoreShape {
        log_drive,
        log_bytes: Some(64 * MIB),
        memory_bytes: 64 * MIB,
        ..StoreShape::new(drive, HomeParams::Overwrite, 256 * MIB)
    };
    let world = Rc::new(SimStore::create(&shape, seed).expect("a store is made"));
    let opening = world.clone();
    let disk = world
        .rt
        .block_on(async move { opening.open().await })
        .expect("a store is opened");
    let store = Store::over(world.rt.clone(), disk.clone());
    let files = LocalFiles::new(&store).expect("a session begins");
    let path = format!("lab-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    tonearm_sqlite::register(false).expect("SQLite takes a VFS");
    tonearm_sqlite::provide(&path, Arc::new(files));
    let connection = open(&format!("file:app.db?store={path}"), "tonearm");
    // The connection keeps it.
    tonearm_sqlite::withdraw(&path);
    let spent = move || {
        let stats = disk.stats();
        Spent {
            time: world.rt.now(),
            bytes: stats.log_bytes,
            // A write with FUA needs no flush after it.
            flushes: stats.log_flushes + stats.log_durable_writes,
        }
    };
    Ok((connection?, Box::new(spent)))
}

fn open(name: &str, vfs: &str) -> rusqlite::Result<Connection> {
    Connection::open_with_flags_and_vfs(name, OpenFlags::default(), vfs)
}

fn least(drive: &str) -> Option<[f64; 3]> {
    let known = DELETE_MIN.iter().find(|(name, _)| *name == drive);
    known.map(|(_, least)| *least)
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let count = context.count(2_000, 200);
    let rows = context.count(ROWS, 10_000);
    let mut cases = Vec::new();
    for drive in drives {
        for (transaction, _) in TRANSACTIONS {
            cases.extend(WAYS.map(|(way, _)| (drive, transaction, way)));
        }
    }
    let spent = context.map(&cases, |(drive, transaction, way)| {
        way.session(drive, context.seed(0))
            .and_then(|session| session.run(*transaction, rows, count, context.random(1)))
            .expect("SQLite commits")
    });
    let rate = |spent: &Spent| count as f64 * 1e9 / spent.time.0 as f64;
    let each = |amount: u64| amount as f64 / count as f64;
    let mut outcome = Outcome::default();
    let mut table = Table::new(&[
        "drive",
        "transaction",
        "way",
        "commits/s",
        "bytes written",
        "flushes",
    ]);
    let mut panels = Vec::new();
    let mut results = spent.chunks(WAYS.len());
    for drive in drives {
        let mut lines: Vec<Vec<(f64, f64)>> = vec![Vec::new(); WAYS.len()];
        for (x, (_, transaction)) in TRANSACTIONS.iter().enumerate() {
            let spent = results.next().expect("a result of each case");
            for (index, (spent, (_, way))) in spent.iter().zip(WAYS).enumerate() {
                lines[index].push(((x + 1) as f64, rate(spent)));
                table.row(vec![
                    drive.name.clone(),
                    (*transaction).into(),
                    way.into(),
                    number(rate(spent)),
                    number(each(spent.bytes)),
                    number(each(spent.flushes)),
                ]);
            }
            for store in STORES {
                let times = |than: usize| rate(&spent[store]) / rate(&spent[than]);
                let what = |than: &str| {
                    format!(
                        "{}: {transaction}: {}, times {than}",
                        drive.name, WAYS[store].1
                    )
                };
                let delete = Finding::shown(what("DELETE"), times(DELETE), "");
                outcome.findings.push(match WAYS[store].0 {
                    Way::StoreOfTwo => match least(&drive.name) {
                        Some(least) => delete.bound(Bound::AtLeast(least[x])),
                        None => delete,
                    },
                    _ => delete,
                });
                outcome
                    .findings
                    .push(Finding::shown(what("WAL"), times(WAL), ""));
            }
        }
        let names = TRANSACTIONS.map(|(_, name)| name.to_string()).to_vec();
        let lines = lines.into_iter().zip(WAYS).enumerate();
        panels.push(Panel {
            title: drive.name.clone(),
            x: Axis::of("", names),
            y: Axis::log("durable commits, 1/s"),
            lines: lines
                .map(|(color, (points, (_, way)))| Line::new(way, Style::Dots, color, points))
                .collect(),
            legend: Legend::Outside,
        });
    }
    let caption = "One connection, synchronous=FULL: what SQLite commits on files that it writes in place, with each \
                   journal mode, and in a store.";
    outcome
        .figures
        .push(Figure::plot("sqlite", "Durable commits of SQLite", caption, panels).with(table));
    outcome
}
