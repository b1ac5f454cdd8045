//! TPC-C of a database whose log is synchronous writes in place, the same with group commit, or on Trail (Trail 5.2,
//! Tables 2 and 3).

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{Alternating, SimStore, StoreShape, VolumeDevice};
use crate::pagedb::{Commit, Database, DatabaseOptions, Machine, Measured, Rule, tpcc};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::Device;
use tonearm_disk::HomeParams;
use tonearm_drive_file::DriveFile;
use tonearm_workload::tpcc::TpccOptions;
use tonearm_workload::{Tpcc, Workload};

pub const EXPERIMENT: Experiment = Experiment {
    name: "trail-tpcc",
    title: "Transactions with a log in place, with group commit, and on Trail",
    source: "Trail 5.2, Tables 2 and 3",
    about: "A small page database runs TPC-C with one warehouse. Its log is written synchronously in place, or when a buffer of \
            50 KB is full, or all of its writes go to a store whose log follows the head of a drive of its own. The last is the \
            product itself.",
    drives: Drives::Some(&["wd2500jd", "st41601n"]),
    run,
};

const PAGE: u32 = 4096;
const KIB: usize = 1024;
const MIB: u64 = 1 << 20;
/// Bytes of each drive: of the log, which is never full, or for half of the pages.
const DRIVE_BYTES: u64 = 1400 * MIB;
/// The paper's log has 44.8 MB for 10,000 transactions (Table 3); the generator's records have 1.6 KB for one. The rest is in
/// the headers of the records.
const RECORD_HEADER: u32 = 147;
/// Pages in memory, as a share of the loaded database.
const POOL: f64 = 0.15;
/// Memory of the store for blocks that are not at home yet.
const STAGING: u64 = 8 * MIB;
const PROCESSOR: Nanos = Nanos(2_000_000);

/// Where the log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// In a store with its log on the second drive.
    Trail,
    /// On a drive of its own, in place.
    InPlace,
    /// The same, with group commit: a group in one write, or its blocks of 4 KB one after the other.
    Grouped { blocks: bool },
}

/// The paper's response time in s, time of the log's writes in s, and transactions per minute.
const TABLE_2: [(Way, &str, [f64; 3]); 4] = [
    (Way::Trail, "on Trail", [0.059, 17.6, 1004.0]),
    (Way::InPlace, "in place", [0.097, 30.4, 616.0]),
    (
        Way::Grouped { blocks: false },
        "in place, group commit",
        GROUPED,
    ),
    (
        Way::Grouped { blocks: true },
        "in place, group commit, block by block",
        GROUPED,
    ),
];
const GROUPED: [f64; 3] = [0.90, 28.8, 663.0];

/// Bytes of the log's buffer, and the paper's group commits.
const TABLE_3: [(usize, f64); 5] = [
    (4, 10_960.0),
    (100, 448.0),
    (400, 113.0),
    (800, 57.0),
    (1200, 39.0),
];

impl Way {
    fn commit(self) -> Commit {
        match self {
            Self::Grouped { .. } => Commit::Buffered(50 * KIB),
            _ => Commit::Written,
        }
    }

    fn piece(self) -> Option<usize> {
        match self {
            Self::Grouped { blocks: true } => Some(4 * KIB),
            _ => None,
        }
    }
}

fn generator(transactions: [u64; 3], seed: u64) -> Tpcc {
    let options = TpccOptions {
        warehouses: 1,
        transactions: transactions.iter().sum(),
        seed,
        page_bytes: PAGE,
        log_header_bytes: RECORD_HEADER,
        ..TpccOptions::default()
    };
    Tpcc::new(&options).expect("options within their limits")
}

fn options(generator: &Tpcc, commit: Commit, log_piece: Option<usize>) -> DatabaseOptions {
    let loaded = generator.allocated();
    DatabaseOptions {
        page_bytes: PAGE,
        pages: generator.pages(),
        loaded,
        pool_pages: (loaded as f64 * POOL) as usize,
        rule: Rule::Through,
        commit,
        log_piece,
        checkpoint_at: 0.7,
        processor: PROCESSOR,
    }
}

/// A row of Table 2.
fn measure(drives: &[DriveFile], way: Way, transactions: [u64; 3], seed: u64) -> Measured {
    let generator = generator(transactions, seed);
    let options = options(&generator, way.commit(), way.piece());
    let machine = match way {
        Way::Trail => {
            let bytes = Database::data_bytes(PAGE, options.pages);
            on_trail(drives, bytes.div_ceil(2).next_multiple_of(MIB), seed)
        }
        _ => in_place(&drives[0], seed),
    };
    machine.measure(options, 1, transactions, tpcc(generator))
}

/// The log on one drive, the pages on two others, as in the paper.
fn in_place(drive: &DriveFile, seed: u64) -> Machine {
    let (rt, devices) = Machine::drives(&[(drive, DRIVE_BYTES); 3], false, seed);
    let [log, one, other] = &devices[..] else {
        unreachable!("three drives");
    };
    let tables = Alternating::new([one.clone(), other.clone()], u64::from(PAGE));
    Machine::new(rt, log.clone(), Rc::new(tables))
}

/// The same three drives as the home of a store, whose own log is on a fourth one. All pages are at home.
fn on_trail(drives: &[DriveFile], half: u64, seed: u64) -> Machine {
    let mut home = drives[0].clone();
    home.spec.write_cache.enabled = false;
    let all = 3 * DRIVE_BYTES;
    let shape = StoreShape {
        disks: 3,
        log_drive: Some(&drives[1]),
        log_bytes: Some(256 * MIB),
        memory_bytes: STAGING,
        ..StoreShape::new(&home, HomeParams::Overwrite, all + 2 * MIB)
    };
    let store = Rc::new(SimStore::create(&shape, seed).expect("a store is made"));
    let (rt, own) = (store.rt.clone(), store.clone());
    let volume = rt.block_on(async move {
        let disk = own.open().await?;
        disk.resize_volume("main", all).await?;
        let volume = disk.volume("main")?;
        let memory = BufPool::new(MIB as usize);
        let halves =
            [DRIVE_BYTES, 2 * DRIVE_BYTES].map(|start| (start..start + half).step_by(MIB as usize));
        for at in halves.into_iter().flatten() {
            let mut pages = memory.alloc_zeroed(MIB as usize);
            // A block that is zero would take no space, and no time to be read.
            for page in pages.chunks_mut(PAGE as usize) {
                page[8] = 1;
            }
            volume.write(at, pages.share(), false).await?;
        }
        disk.close().await?;
        own.open().await?.volume("main")
    });
    let volume = Rc::new(volume.expect("a store is made and opened"));
    let part = |drive: u64| {
        let part = VolumeDevice::new(&rt, volume.clone(), drive * DRIVE_BYTES, DRIVE_BYTES);
        Rc::new(part) as Rc<dyn Device>
    };
    let tables = Alternating::new([part(1), part(2)], u64::from(PAGE));
    Machine::new(rt.clone(), part(0), Rc::new(tables))
}

/// The writes of the log in 10,000 transactions of four terminals with a buffer of so many bytes. They depend on no drive.
fn group_commits(drive: &DriveFile, buffer: usize, transactions: u64, seed: u64) -> f64 {
    let transactions = [0, 0, transactions];
    let generator = generator(transactions, seed);
    let mut options = options(&generator, Commit::Buffered(buffer), Some(buffer));
    options.pool_pages = options.pages as usize;
    let machine = in_place(drive, seed);
    machine.instant.set(true);
    let measured = machine.measure(options, 4, [transactions[2], 0, 0], tpcc(generator));
    measured.after.log.pieces as f64
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let mut outcome = Outcome::default();
    table_2(context, drives, &mut outcome);
    table_3(context, drives, &mut outcome);
    outcome.notes = vec![
        "As in the paper: one warehouse, a synchronous log on a drive of its own, one terminal for Table 2 and four for Table 3, \
         tpmC of all transactions (60 s over the response time gives the printed tpmC). With group commit a terminal goes on \
         before its transaction is in the log; the response ends there."
            .into(),
        "The paper's data drives are not among the models: wd2500jd has their speed (5400 rpm) and track-to-track seek (2 ms), and is \
         denser, so seeks within the database are shorter. Its cache is off."
            .into(),
        format!(
            "The paper's database has over half a GB at first, with a cache of 300 MB. Here it has 98 MB and a pool of {:.0} % of it; the log \
             records have headers of {RECORD_HEADER} bytes, so that the log has the paper's 4.5 KB for a transaction.",
            100.0 * POOL
        ),
        "On Trail all writes are durable writes to a volume of a store (crates engine and trail) with the predictor that learns, also those of \
         pages that leave the pool; the store writes them home later."
            .into(),
    ];
    outcome
}

fn table_2(context: &Context<'_>, drives: &[DriveFile], outcome: &mut Outcome) {
    let transactions = [
        context.count(200_000, 20_000),
        500,
        context.count(5_000, 1_000),
    ];
    let measured = context.map(&TABLE_2, |(way, ..)| {
        measure(drives, *way, transactions, context.seed(1))
    });
    let rate = |of: &Measured| of.transactions as f64 * 60e9 / of.elapsed.0 as f64;
    // Of 5,000 transactions.
    let log_s = |of: &Measured| {
        of.count(|counts| counts.log.write_nanos) as f64 / 1e9 * 5_000.0 / of.transactions as f64
    };
    let mut table = Table::new(&[
        "log",
        "response, s",
        "paper",
        "log I/O for 5,000, s",
        "paper",
        "tpmC",
        "paper",
        "bytes in the log",
        "pages read",
        "pages written",
    ]);
    for ((_, name, paper), of) in TABLE_2.iter().zip(&measured) {
        let each = |count: u64| number(count as f64 / of.transactions as f64);
        let papers = |at: usize| number(paper[at]);
        table.row(vec![
            (*name).into(),
            number(of.times.mean_ms() / 1e3),
            papers(0),
            number(log_s(of)),
            papers(1),
            number(rate(of)),
            papers(2),
            each(of.count(|counts| counts.log.bytes)),
            each(of.count(|counts| counts.reads)),
            each(of.count(|counts| counts.page_outs)),
        ]);
    }
    let [trail, plain, grouped, blocks] = &measured[..] else {
        unreachable!("four rows");
    };
    let near = |what: &str, ours: f64, unit: &str, paper: f64, percent: f64| {
        Finding::shown(what, ours, unit)
            .paper(number(paper))
            .bound(Bound::Within {
                value: paper,
                percent,
            })
    };
    let percent = |one: f64, other: f64| 100.0 * (one / other - 1.0);
    outcome.findings = vec![
        near("in place: tpmC", rate(plain), "1/min", 616.0, 10.0),
        near(
            "in place: log I/O for 5,000 transactions",
            log_s(plain),
            "s",
            30.4,
            30.0,
        ),
        near(
            "in place, group commit: log I/O for 5,000 transactions",
            log_s(grouped),
            "s",
            28.8,
            30.0,
        ),
        near(
            "in place, group commit, block by block: log I/O for 5,000 transactions",
            log_s(blocks),
            "s",
            28.8,
            30.0,
        ),
        near(
            "in place, group commit: tpmC over in place",
            rate(grouped) / rate(plain),
            "times",
            1.08,
            10.0,
        ),
        near(
            "in place, group commit: response over in place",
            grouped.times.mean_ms() / plain.times.mean_ms(),
            "times",
            9.3,
            50.0,
        ),
        near(
            "on Trail: log I/O for 5,000 transactions",
            log_s(trail),
            "s",
            17.6,
            30.0,
        ),
        Finding::shown(
            "on Trail against in place: log I/O",
            percent(log_s(trail), log_s(plain)),
            "%",
        )
        .paper("-42")
        .bound(Bound::AtMost(-30.0)),
        Finding::shown(
            "on Trail against in place: tpmC",
            percent(rate(trail), rate(plain)),
            "%",
        )
        .paper("+62.9")
        .bound(Bound::AtLeast(40.0)),
        Finding::shown(
            "on Trail against group commit: tpmC",
            rate(trail) / rate(grouped),
            "times",
        )
        .paper("1.51")
        .bound(Bound::AtLeast(1.2)),
    ];
    let points = |value: &dyn Fn(usize) -> f64| {
        let all = (0..TABLE_2.len()).map(|row| ((row + 1) as f64, value(row)));
        all.collect()
    };
    let panel = |label: &str, ours: &dyn Fn(usize) -> f64, at: usize| Panel {
        title: String::new(),
        x: Axis::of("", TABLE_2.map(|(_, name, _)| name.into()).to_vec()),
        y: Axis::linear(label),
        lines: vec![
            Line::new("here", Style::Dots, 0, points(&ours)),
            Line::new("paper", Style::Dots, 1, points(&|row| TABLE_2[row].2[at])),
        ],
        legend: Legend::BottomRight,
    };
    outcome.figures.push(
        Figure::plot(
            "trail-tpcc",
            "Transactions with each kind of log (Table 2)",
            "One terminal, one warehouse. On Trail the log's writes wait for no turn of the platter, and neither do the pages that leave \
             the pool.",
            vec![
                panel("transactions, 1/min", &|row| rate(&measured[row]), 2),
                panel("log I/O for 5,000 transactions, s", &|row| log_s(&measured[row]), 1),
            ],
        )
        .with(table),
    );
}

fn table_3(context: &Context<'_>, drives: &[DriveFile], outcome: &mut Outcome) {
    let transactions = context.count(10_000, 2_000);
    let counts = context.map(&TABLE_3, |(kib, _)| {
        let counted = group_commits(&drives[0], kib * KIB, transactions, context.seed(2));
        counted * 10_000.0 / transactions as f64
    });
    let mut table = Table::new(&["log buffer, KB", "group commits in 10,000", "paper"]);
    let (mut ours, mut papers) = (Vec::new(), Vec::new());
    for ((kib, paper), counted) in TABLE_3.iter().zip(&counts) {
        table.row(vec![kib.to_string(), number(*counted), number(*paper)]);
        let what = format!("log buffer of {kib} KB: group commits in 10,000 transactions");
        outcome.findings.push(
            Finding::shown(what, *counted, "")
                .paper(number(*paper))
                .bound(Bound::Within {
                    value: *paper,
                    percent: 25.0,
                }),
        );
        ours.push((*kib as f64, *counted));
        papers.push((*kib as f64, *paper));
    }
    outcome.figures.push(
        Figure::plot(
            "trail-group-commits",
            "Group commits against the size of the log's buffer (Table 3)",
            "Four terminals. The log is written when the buffer is full.",
            vec![Panel {
                title: String::new(),
                x: Axis::log("log buffer, KB"),
                y: Axis::log("writes in 10,000 transactions"),
                lines: vec![
                    Line::new("here", Style::Marked, 0, ours),
                    Line::new("paper", Style::Dashed, 1, papers),
                ],
                legend: Legend::TopRight,
            }],
        )
        .with(table),
    );
}
