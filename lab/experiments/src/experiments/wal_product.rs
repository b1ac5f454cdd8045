//! A page database on a volume of the product, on a drive with a volatile cache: what each treatment of the cache costs, when
//! the product flushes, and what power cuts leave.

mod cuts;
mod setup;

use super::wal_sync;
use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::Mean;
use crate::pagedb::{Database, Rule, TpccRun};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use setup::{MIB, Opening, Product, Run, Sizes, Way, log_flushes};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_engine::{StoreStats, WriteCache};

pub const EXPERIMENT: Experiment = Experiment {
    name: "wal-product",
    title: "A page database on the product without write-through",
    source: "Durable WAL 5.2, 5.5, 6.2 and 6.3",
    about: "The page database runs on a volume of a store of the product, on one drive with a volatile cache: with \
            `--write-cache ordered`, which sends no flush, with the default, with the drive's cache off, with a flush for each \
            commit, and with FUA. Pairs of runs with the same seed give the cost of each with its confidence interval. The \
            product's flushes are counted against `--memory`, and power cuts show what each leaves.",
    drives: Drives::One("wd2500jd"),
    run,
};

/// New orders per minute of the paper's A.
const PAPER_A: f64 = 4083.0;

/// The ways, and the paper's tpmC of what they correspond to: A, B and C. The first one is the base of each pair.
const WAYS: [(Way, Option<f64>); 5] = [
    (
        Way {
            name: "ordered: no flush",
            write_cache: WriteCache::Ordered,
            drive_cache: true,
            rule: Rule::Trusting,
        },
        Some(PAPER_A),
    ),
    (
        Way {
            name: "default",
            write_cache: WriteCache::Volatile,
            drive_cache: true,
            rule: Rule::Trusting,
        },
        Some(3994.0),
    ),
    (
        Way {
            name: "cache off",
            write_cache: WriteCache::Volatile,
            drive_cache: false,
            rule: Rule::Trusting,
        },
        Some(3673.0),
    ),
    (
        Way {
            name: "default, a flush for each commit",
            write_cache: WriteCache::Volatile,
            drive_cache: true,
            rule: Rule::EachCommit,
        },
        None,
    ),
    (
        Way {
            name: "default, FUA",
            write_cache: WriteCache::Volatile,
            drive_cache: true,
            rule: Rule::Through,
        },
        None,
    ),
];
const DEFAULT: usize = 1;
const OFF: usize = 2;

const STORE_LOG: u64 = 256 * MIB;
/// As in `wal-tpcc`, but smaller: a log of this size begins a checkpoint about every 4,000 transactions.
const LOG: u64 = 64 * MIB;
const PAGE: u32 = 8192;
const POOL: f64 = 0.6;
/// As in `wal-tpcc`, and fewer: the paper does not give its number.
const TERMINALS: usize = 100;
const FEW: usize = 4;
/// With the pairs of each.
const TERMINAL_COUNTS: [(usize, u64); 2] = [(FEW, 20), (TERMINALS, 5)];

/// `--memory` in MiB.
const MEMORIES: [u64; 6] = [4, 8, 16, 32, 64, 128];
/// Ages at which blocks are written back: the product's choice, and none.
const AGES: [(Nanos, &str); 2] = [
    (Nanos::from_secs(5), "blocks written back after 5 s"),
    (Nanos::from_secs(3600), "by memory alone"),
];

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    let mut outcome = Outcome::default();
    throughput(context, drive, &mut outcome);
    downloads(context, drive, &mut outcome);
    memories(context, drive, &mut outcome);
    cuts::cuts(context, drive, &mut outcome);
    outcome.notes = notes();
    outcome
}

fn notes() -> Vec<String> {
    vec![
        format!(
            "The database: that of `wal-tpcc` with one warehouse ({:.0} % of it in memory), and that of \
             `wal-sync`, on a volume of a store whose log and data area are on the same drive. The store is opened as `tonearm serve` \
             opens it. A write of the database ends when the store's log device has completed it, as for the disk of a virtual machine. \
             The host sorts waiting requests by their places.",
            100.0 * POOL
        ),
        "The rule of 5.2 is the store's own: it writes a block back when its log is durable as far as the block needs. So the database \
         sends no flush, and can be recovered: `ordered` corresponds to the paper's A, the default to B, and the drive's cache off to C. With a flush \
         for each commit, or FUA for each write, no answered transaction is lost; the paper's B does not promise that."
            .into(),
        "Each pair of runs has the same transactions, drive and seed: 20 pairs, and 5 with 100 terminals and for the largest mailbox. The interval is that of \
         Student's distribution."
            .into(),
        "What the default costs with few terminals depends on the transactions that are measured: when 6,000 to 24,000 were tried, by other numbers in \
         `tpcc` of the experiment, the mean was between -21 and +2 %. The fewest have one checkpoint, the most six. Here 16,000 are measured after 4,000."
            .into(),
        "The paper's largest mailbox has 200,000 messages; the one here has 10,000, and is compared with the paper's value for 200,000."
            .into(),
        "With `ordered` nothing is ever flushed, so the simulated power cut may take any write since the store was opened. \
         A drive writes its cache when it is idle, so it loses less."
            .into(),
        "What the store can know of a loss with `ordered`: each record names the one before it, and how far the log had been completed, so a lost \
         record before one that is left is proven, and the opening is refused. A block whose checksum does not match is an error. The store cannot know that the \
         end of its log is lost when no later record is left, nor that a block and its checksum are both old."
            .into(),
    ]
}

/// TPC-C with one warehouse.
fn tpcc(context: &Context<'_>, seed: u64) -> TpccRun {
    TpccRun {
        rule: Rule::Trusting,
        warehouses: 1,
        page_bytes: PAGE,
        pool_share: POOL,
        log_bytes: LOG,
        checkpoint_at: 0.1,
        terminals: TERMINALS,
        processor: Nanos(1_000_000),
        transactions: [
            4_000,
            context.count(4_000, 1_500),
            context.count(16_000, 1_500),
        ],
        seed,
    }
}

/// A store with the loaded database of `run`.
fn store(drive: &DriveFile, run: &TpccRun) -> Product {
    let options = run.options(&run.generator());
    let sizes = Sizes {
        log: run.log_bytes,
        data: Database::data_bytes(run.page_bytes, options.pages),
        loaded: Database::data_bytes(run.page_bytes, options.loaded),
        store_log: STORE_LOG,
    };
    Product::new(drive, sizes, run.seed).expect("a store is made")
}

/// The runs of all ways with a number of terminals, for each seed.
struct Pairs {
    terminals: usize,
    runs: Vec<Vec<Run>>,
}

impl Pairs {
    fn rates(&self, way: usize) -> Vec<f64> {
        let all = self.runs.iter();
        all.map(|runs| runs[way].measured.per_minute()).collect()
    }

    fn mean(&self, way: usize, of: impl Fn(&Run) -> f64) -> f64 {
        self.runs.iter().map(|runs| of(&runs[way])).sum::<f64>() / self.runs.len() as f64
    }

    /// By how many percent the rate of a way differs from that of another one.
    fn against(&self, way: usize, base: usize) -> Mean {
        Mean::of_differences(&self.rates(way), &self.rates(base))
    }
}

fn throughput(context: &Context<'_>, drive: &DriveFile, outcome: &mut Outcome) {
    let counts: &[(usize, u64)] = if context.is_full() {
        &TERMINAL_COUNTS
    } else {
        &[(FEW, 2)]
    };
    let cases: Vec<(usize, u64)> = counts
        .iter()
        .flat_map(|(terminals, pairs)| (0..*pairs).map(|seed| (*terminals, seed)))
        .collect();
    let mut measured = context
        .map(&cases, |(terminals, seed)| {
            let run = TpccRun {
                terminals: *terminals,
                ..tpcc(context, context.seed(10 + seed))
            };
            let product = store(drive, &run);
            let on = |way: &Way| product.tpcc(way, &run, Opening::plain(run.seed));
            let runs = WAYS.iter().map(|(way, _)| on(way).expect("a store works"));
            runs.collect::<Vec<Run>>()
        })
        .into_iter();
    let mut pairs = Vec::new();
    for (terminals, seeds) in counts {
        let runs = measured.by_ref().take(*seeds as usize).collect();
        pairs.push(Pairs {
            terminals: *terminals,
            runs,
        });
    }
    // Two pairs say little about a few percent.
    outcome.is_partial = !context.is_full();
    if context.is_full() {
        let rate = Mean::of(&pairs[0].rates(0)).mean;
        let what = format!("{FEW} terminals: ordered, new orders");
        outcome
            .findings
            .push(near(what, rate, "1/min", PAPER_A, 15.0));
        for of in &pairs {
            outcome.findings.extend(costs(of));
        }
    }
    outcome
        .figures
        .push(figure(&pairs).with(throughput_table(&pairs)));
}

fn near(what: impl Into<String>, ours: f64, unit: &str, paper: f64, percent: f64) -> Finding {
    let of = Finding::shown(what, ours, unit).paper(number(paper));
    of.bound(Bound::within(paper, percent))
}

/// What each way costs, next to the paper's values.
fn costs(of: &Pairs) -> Vec<Finding> {
    let what = |what: &str| format!("{} terminals: {what}", of.terminals);
    let default = of.against(DEFAULT, 0);
    vec![
        near(
            what("default against ordered"),
            default.mean,
            "%",
            -2.2,
            100.0,
        ),
        Finding::shown(
            what("default against ordered, half of the 95 % interval"),
            default.half,
            "%",
        ),
        near(
            what("cache off against ordered"),
            of.against(OFF, 0).mean,
            "%",
            -10.0,
            50.0,
        ),
        near(
            what("default against cache off"),
            of.against(DEFAULT, OFF).mean,
            "%",
            8.7,
            50.0,
        ),
        Finding::shown(
            what("a flush for each commit against ordered"),
            of.against(3, 0).mean,
            "%",
        ),
        Finding::shown(what("FUA against ordered"), of.against(4, 0).mean, "%"),
    ]
}

fn throughput_table(pairs: &[Pairs]) -> Table {
    let mut table = Table::new(&[
        "terminals",
        "store and drive",
        "tpmC",
        "against ordered, %",
        "paper, %",
        "median response, ms",
        "store's log writes for 1,000 transactions",
        "flushes and FUA of the log for commits",
        "before write-back",
        "for log space",
        "flushes of the data device",
        "blocks written back",
    ]);
    for of in pairs {
        for (way, (name, paper)) in WAYS.iter().enumerate() {
            let each =
                |count: fn(&StoreStats) -> u64| number(of.mean(way, |run| run.thousand(count)));
            let of_pairs = |text: String| if way == 0 { String::new() } else { text };
            let against = of.against(way, 0);
            let paper = paper.map(|paper| format!("{:+.1}", 100.0 * (paper / PAPER_A - 1.0)));
            table.row(vec![
                of.terminals.to_string(),
                name.name.into(),
                number(Mean::of(&of.rates(way)).mean),
                of_pairs(format!("{:+.1} ± {:.1}", against.mean, against.half)),
                of_pairs(paper.unwrap_or_default()),
                number(of.mean(way, |run| run.measured.times.quantile_ms(0.5))),
                each(|stats| stats.log_writes),
                each(|stats| stats.commit_flushes),
                each(|stats| stats.home_write_flushes),
                each(|stats| stats.log_space_flushes),
                each(|stats| stats.home_flushes),
                each(|stats| stats.written_back_blocks),
            ]);
        }
    }
    table
}

fn figure(pairs: &[Pairs]) -> Figure {
    let others = || (1..WAYS.len()).map(|way| (way, way as f64));
    let ours = pairs.iter().zip([0, 2]).map(|(of, color)| {
        let share = |way| 100.0 + of.against(way, 0).mean;
        let points = others().map(|(way, at)| (at, share(way))).collect();
        Line::new(
            &format!("{} terminals", of.terminals),
            Style::Dots,
            color,
            points,
        )
    });
    let papers = others().filter_map(|(way, at)| Some((at, 100.0 * WAYS[way].1? / PAPER_A)));
    let paper = Line::new("paper", Style::Dots, 1, papers.collect());
    let names = WAYS[1..].iter().map(|(way, _)| way.name.into());
    Figure::plot(
        "wal-product",
        "Throughput with each treatment of the cache, against `ordered` (6.3)",
        "The mean of the pairs. The table has the 95 % intervals.",
        vec![Panel {
            title: String::new(),
            x: Axis::of("", names.collect()),
            y: Axis::linear("new orders, % of those with ordered"),
            lines: ours.chain([paper]).collect(),
            legend: Legend::Outside,
        }],
    )
}

/// The e-mail client of 6.2.
fn downloads(context: &Context<'_>, drive: &DriveFile, outcome: &mut Outcome) {
    let sizes: Vec<(u64, f64, f64)> = wal_sync::SIZES
        .iter()
        .map(|(messages, plain, enforced)| {
            (
                context.count(10_000, 1_000).min(*messages),
                *plain,
                *enforced,
            )
        })
        .collect();
    let mut table = Table::new(&[
        "messages",
        "ordered, s",
        "paper, s",
        "default, s",
        "paper, s",
        "default against ordered, %",
        "paper, %",
    ]);
    for (at, (messages, plain, enforced)) in sizes.iter().enumerate() {
        // The largest differs little from seed to seed.
        let seeds = context.count(if at == 2 { 5 } else { 20 }, 2);
        let cases: Vec<u64> = (0..seeds).collect();
        let times = context.map(&cases, |seed| {
            let seed = context.seed(1000 * (at as u64 + 1) + seed);
            let sizes = Sizes {
                log: wal_sync::LOG,
                data: wal_sync::data_bytes(*messages),
                loaded: wal_sync::LOADED * wal_sync::PAGE,
                store_log: STORE_LOG,
            };
            let product = Product::new(drive, sizes, seed).expect("a store is made");
            [0, DEFAULT].map(|way| {
                let (way, _) = &WAYS[way];
                let open = product.open(way, Opening::plain(seed));
                let open = open.expect("a store is opened");
                let of = wal_sync::download(open.machine(), way.rule, *messages, seed);
                open.switch_off();
                wal_sync::seconds(&of)
            })
        });
        let [base, enforced_s] =
            [0, 1].map(|way| times.iter().map(|of| of[way]).collect::<Vec<f64>>());
        let cost = Mean::of_differences(&enforced_s, &base);
        let paper = 100.0 * (enforced / plain - 1.0);
        table.row(vec![
            messages.to_string(),
            number(Mean::of(&base).mean),
            number(*plain),
            number(Mean::of(&enforced_s).mean),
            number(*enforced),
            format!("{:+.2} ± {:.2}", cost.mean, cost.half),
            format!("{paper:+.1}"),
        ]);
        let mailbox = if at == 2 {
            "the largest mailbox".to_string()
        } else {
            format!("{messages} messages")
        };
        let what = format!("{mailbox}: default against ordered");
        if context.is_full() {
            outcome
                .findings
                .push(near(what, cost.mean, "%", paper, 50.0));
        }
    }
    outcome.figures.push(Figure::table(
        "wal-product-sync",
        "What the default costs an e-mail client (6.2)",
        "The means of the pairs, with the 95 % interval of the difference. The start of the client is a part of the time.",
        table,
    ));
}

/// The economy of 5.5: flushes against the memory for what is not written back.
fn memories(context: &Context<'_>, drive: &DriveFile, outcome: &mut Outcome) {
    let memories: &[u64] = if context.is_full() {
        &MEMORIES
    } else {
        &[4, 64]
    };
    let run = TpccRun {
        checkpoint_at: 0.7,
        transactions: [
            20_000,
            context.count(4_000, 1_000),
            context.count(12_000, 2_000),
        ],
        ..tpcc(context, context.seed(2))
    };
    let cases: Vec<(u64, Nanos)> = AGES
        .iter()
        .flat_map(|(age, _)| memories.iter().map(|memory| (*memory, *age)))
        .collect();
    let measured = context.map(&cases, |(memory, age)| {
        let opening = Opening {
            memory_bytes: memory * MIB,
            write_back_after: *age,
            ..Opening::plain(run.seed)
        };
        let of = store(drive, &run).tpcc(&WAYS[DEFAULT].0, &run, opening);
        of.expect("a store works")
    });
    let mut table = Table::new(&[
        "written back",
        "memory, MiB",
        "tpmC",
        "store's log writes",
        "flushes of the log before write-back",
        "for log space",
        "flushes of the data device",
        "blocks written back for a flush of the log",
    ]);
    let mut panels = Vec::new();
    for ((_, name), of) in AGES.iter().zip(measured.chunks(memories.len())) {
        let (mut log, mut data, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        for (memory, run) in memories.iter().zip(of) {
            let flushes = run.thousand(log_flushes);
            table.row(vec![
                (*name).into(),
                memory.to_string(),
                number(run.measured.per_minute()),
                number(run.thousand(|stats| stats.log_writes)),
                number(run.thousand(|stats| stats.home_write_flushes)),
                number(run.thousand(|stats| stats.log_space_flushes)),
                number(run.thousand(|stats| stats.home_flushes)),
                number(run.thousand(|stats| stats.written_back_blocks) / flushes.max(0.001)),
            ]);
            let at = *memory as f64;
            log.push((at, flushes.max(0.01)));
            data.push((at, run.thousand(|stats| stats.home_flushes).max(0.01)));
            writes.push((at, run.thousand(|stats| stats.log_writes)));
        }
        let (small, large) = (log[0].1, log[log.len() - 1].1);
        let what = format!("{name}: flushes of the log, the smallest memory over the largest");
        outcome.findings.push(
            Finding::shown(what, small / large, "times")
                .paper("once the pool is full")
                .bound(Bound::AtLeast(3.0)),
        );
        panels.push(Panel {
            title: (*name).into(),
            x: Axis::log("memory, MiB"),
            y: Axis::log("for 1,000 transactions, number"),
            lines: vec![
                Line::new("flushes of the log", Style::Marked, 0, log),
                Line::new("flushes of the data device", Style::Marked, 1, data),
                Line::new("writes of the log", Style::Marked, 2, writes),
            ],
            legend: Legend::Outside,
        });
    }
    outcome.figures.push(
        Figure::plot(
            "wal-product-memory",
            "Flushes of the product against `--memory` (5.5)",
            "Blocks are written back when they are old, or when the memory for what is not written back is short. Before that the log is \
             flushed. The default with one warehouse, without checkpoints of the database.",
            panels,
        )
        .with(table),
    );
}
