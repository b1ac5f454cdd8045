//! TPC-C on a drive with a volatile cache: what it costs to enforce write-ahead logging, and what it is worth.

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::pagedb::{Cause, Cut, Cuts, Damage, Measured, Rule, TpccRun, cut_power};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;

pub const EXPERIMENT: Experiment = Experiment {
    name: "wal-tpcc",
    title: "TPC-C without write-through: throughput, flushes and power cuts",
    source: "Durable WAL 5.2, 5.4, 5.5 and 6.3",
    about: "A small page database runs TPC-C on one drive with a volatile cache: without any flush (A), with the paper's \
            rule (B), with the cache off (C), and with a flush for each group of commits. The flushes are counted against \
            the size of the pool, and thousands of power cuts tell which databases can be recovered.",
    drives: Drives::One("wd2500jd"),
    run,
};

/// The configurations: the paper's name, what it is, and the paper's tpmC.
const WAYS: [(Rule, &str, Option<f64>); 4] = [
    (Rule::Trusting, "A: cache on, no flush", Some(4083.0)),
    (Rule::Enforced, "B: cache on, the rule", Some(3994.0)),
    (Rule::Through, "C: cache off", Some(3673.0)),
    (Rule::EachCommit, "cache on, a flush for each commit", None),
];

/// The paper's database in steady state has 1.6 GB and its log 2.9 GB.
const WAREHOUSES: u32 = 16;
/// Those of a quick run, and of the sweeps.
const FEW: u32 = 2;
const LOG_BYTES: u64 = 2_900_000_000 / 4096 * 4096;
/// With it, A has the paper's throughput.
const POOL: f64 = 0.6;
const TERMINALS: usize = 100;
const POOLS: [f64; 5] = [0.3, 0.45, 0.6, 0.75, 0.9];
const TERMINAL_COUNTS: [usize; 4] = [4, 16, 64, 160];

/// Transactions of a run with power cuts: few enough that the drive's cache could have held all of their writes.
const CUT_TRANSACTIONS: u64 = 240;
const CUTS: u64 = 100;

fn base(context: &Context<'_>, warehouses: u32) -> TpccRun {
    let scale = u64::from(warehouses);
    TpccRun {
        rule: Rule::Enforced,
        warehouses,
        page_bytes: 8192,
        pool_share: POOL,
        log_bytes: LOG_BYTES * scale / u64::from(WAREHOUSES) / 4096 * 4096,
        checkpoint_at: 0.1,
        terminals: TERMINALS,
        processor: Nanos(1_000_000),
        // There is a checkpoint every 22,000 transactions for a warehouse.
        transactions: [
            20_000 * scale,
            2_000 * scale,
            context.count(44_000, 22_000) * scale,
        ],
        seed: context.seed(1),
    }
}

/// The warehouses of a sweep.
fn few(context: &Context<'_>) -> u32 {
    if context.is_full() { FEW } else { 1 }
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    let mut outcome = Outcome::default();
    throughput(context, drive, &mut outcome);
    terminals(context, drive, &mut outcome);
    pools(context, drive, &mut outcome);
    cuts(context, drive, &mut outcome);
    outcome.notes = vec![
        "The database: 16 warehouses in pages of 8 KB (1.5 GB; 2 in quick runs and in the sweeps, 1 in the sweeps of quick runs), 100 terminals without \
         think time, a log of 2.9 GB behind the data, a checkpoint when a tenth of it is used, 1 ms of one processor for a \
         transaction. The paper gives the sizes of database and log. The pool, 60 % of the loaded database, is chosen so that A has \
         the paper's throughput."
            .into(),
        "The paper does not give the number of terminals, and what C loses depends on it: see the second table."
            .into(),
        "The throughput of A varies by some percent from seed to seed, more than B costs: in full, with seeds 1, 2 and 3, B is at -3.1, +2.0 \
         and +3.7 % of A, C at -11.9, -7.2 and -5.2 %. B is faster than C by 10.0, 9.9 and 9.4 %."
            .into(),
        "The pool is warmed by transactions that take the drive no time. The host sorts waiting requests by their places."
            .into(),
        "A transaction is one log record, written when it commits, and a page's content is in one sector: torn pages are another \
         problem than order, and the paper has no remedy for it."
            .into(),
        "A power cut keeps or loses each sector of each write since the last flush, in any order. The runs with cuts are so short \
         that the drive's cache of 8 MB could have held all that they write."
            .into(),
    ];
    outcome
}

fn throughput(context: &Context<'_>, drive: &DriveFile, outcome: &mut Outcome) {
    let warehouses = if context.is_full() { WAREHOUSES } else { FEW };
    let measured = context.map(&WAYS, |(rule, ..)| {
        TpccRun {
            rule: *rule,
            ..base(context, warehouses)
        }
        .on(drive)
    });
    let rate = |way: usize| measured[way].per_minute();
    let against = |way: usize, other: usize| 100.0 * (rate(way) / rate(other) - 1.0);
    let mut table = Table::new(&[
        "configuration",
        "tpmC",
        "paper",
        "against A, %",
        "paper, %",
        "median response, ms",
        "commits in a log write",
        "pages read",
        "paged out",
        "by checkpoints",
        "flushes for page-outs",
        "for checkpoints",
        "for commits",
    ]);
    for (way, (_, name, paper)) in WAYS.iter().enumerate() {
        let of = &measured[way];
        let each = |count: u64| number(count as f64 / of.transactions as f64);
        let flushes = |cause: Cause| {
            of.count(|counts| counts.log.flushes[cause as usize])
                .to_string()
        };
        table.row(vec![
            (*name).into(),
            number(rate(way)),
            paper.map(number).unwrap_or_default(),
            format!("{:+.1}", against(way, 0)),
            paper
                .map(|paper| format!("{:+.1}", 100.0 * (paper / 4083.0 - 1.0)))
                .unwrap_or_default(),
            number(of.times.quantile_ms(0.5)),
            number(of.transactions as f64 / of.count(|counts| counts.log.writes) as f64),
            each(of.count(|counts| counts.reads)),
            each(of.count(|counts| counts.page_outs)),
            each(of.count(|counts| counts.checkpoint_pages)),
            flushes(Cause::PageOut),
            flushes(Cause::Checkpoint),
            flushes(Cause::Commit),
        ]);
    }
    let finding = |what: &str, ours: f64, unit: &str, paper: &str, bound: Bound| {
        Finding::shown(what, ours, unit).paper(paper).bound(bound)
    };
    outcome.findings = vec![
        finding(
            "A, new orders",
            rate(0),
            "1/min",
            "4083",
            Bound::Within {
                value: 4083.0,
                percent: 15.0,
            },
        ),
        finding(
            "B against A",
            against(1, 0),
            "%",
            "-2.2",
            Bound::AtLeast(-8.0),
        ),
        finding(
            "C against A",
            against(2, 0),
            "%",
            "-10.0",
            Bound::AtMost(-5.0),
        ),
        finding(
            "B against C",
            against(1, 2),
            "%",
            "+8.7",
            Bound::AtLeast(3.0),
        ),
        Finding::shown("a flush for each commit, against A", against(3, 0), "%"),
        Finding::shown(
            "B: flushes for 1,000 commits",
            1000.0 * flushes(&measured[1]) / measured[1].transactions as f64,
            "",
        )
        .paper("not a frequent operation")
        .bound(Bound::AtMost(10.0)),
    ];
    let points = |values: &[f64]| (1..).map(f64::from).zip(values.iter().copied()).collect();
    let ours: Vec<f64> = (0..WAYS.len()).map(rate).collect();
    let papers: Vec<f64> = WAYS.iter().filter_map(|(_, _, paper)| *paper).collect();
    outcome.figures.push(
        Figure::plot(
            "wal-tpcc",
            "New orders per minute with each configuration (6.3)",
            "The rule costs little, since the drive's cache is flushed once for many commits; without the cache each write \
             waits for the platter.",
            vec![Panel {
                title: drive.name.clone(),
                x: Axis::of("", WAYS.map(|(_, name, _)| name.into()).to_vec()),
                y: Axis::linear("new orders, 1/min"),
                lines: vec![
                    Line::new("here", Style::Dots, 0, points(&ours)),
                    Line::new("paper", Style::Dots, 1, points(&papers)),
                ],
                legend: Legend::Outside,
            }],
        )
        .with(table),
    );
}

/// Flushes of all causes.
fn flushes(measured: &Measured) -> f64 {
    measured.count(|counts| counts.log.flushes.iter().sum()) as f64
}

/// How the loss of B and C depends on the number of terminals, which the paper does not give.
fn terminals(context: &Context<'_>, drive: &DriveFile, outcome: &mut Outcome) {
    let counts: &[usize] = if context.is_full() {
        &TERMINAL_COUNTS
    } else {
        &[4, 160]
    };
    let rules = [Rule::Trusting, Rule::Enforced, Rule::Through];
    let cases: Vec<(usize, Rule)> = counts
        .iter()
        .flat_map(|count| rules.map(|rule| (*count, rule)))
        .collect();
    let measured = context.map(&cases, |(terminals, rule)| {
        let run = TpccRun {
            rule: *rule,
            terminals: *terminals,
            ..base(context, few(context))
        };
        run.on(drive).per_minute()
    });
    let mut table = Table::new(&[
        "terminals",
        "A, tpmC",
        "B, tpmC",
        "C, tpmC",
        "B against A, %",
        "C against A, %",
    ]);
    let mut lines = [Vec::new(), Vec::new()];
    for (count, rates) in counts.iter().zip(measured.chunks(rules.len())) {
        let against = |way: usize| 100.0 * (rates[way] / rates[0] - 1.0);
        let mut row = vec![count.to_string()];
        row.extend(rates.iter().map(|rate| number(*rate)));
        row.extend([1, 2].map(|way| format!("{:+.1}", against(way))));
        table.row(row);
        for way in [1, 2] {
            lines[way - 1].push((*count as f64, 100.0 * rates[way] / rates[0]));
        }
    }
    let [b, c] = lines;
    outcome.figures.push(
        Figure::plot(
            "wal-terminals",
            "Throughput of B and C against A, by the number of terminals",
            "With the cache off, terminals wait for the platter at each commit. The more there are, the more of them share a \
             write of the log.",
            vec![Panel {
                title: String::new(),
                x: Axis::log("number of terminals, users"),
                y: Axis::upto("throughput, % of A", 110.0),
                lines: vec![Line::new("B", Style::Marked, 0, b), Line::new("C", Style::Marked, 1, c)],
                legend: Legend::BottomRight,
            }],
        )
        .with(table),
    );
}

/// The economy of 5.5.
fn pools(context: &Context<'_>, drive: &DriveFile, outcome: &mut Outcome) {
    let pools: &[f64] = if context.is_full() {
        &POOLS
    } else {
        &[0.3, 0.9]
    };
    let measured = context.map(pools, |pool| {
        let run = TpccRun {
            pool_share: *pool,
            // No checkpoint, whose flushes would make those of page-outs rarer.
            checkpoint_at: 0.7,
            ..base(context, few(context))
        };
        run.on(drive)
    });
    let mut table = Table::new(&[
        "pool, share of the database",
        "tpmC",
        "pages paged out for each commit",
        "flushes for 1,000 commits",
        "log writes for 1,000 commits",
        "page-outs for a flush",
    ]);
    let (mut flushed, mut written) = (Vec::new(), Vec::new());
    for (pool, of) in pools.iter().zip(&measured) {
        let commits = of.transactions as f64;
        let outs = of.count(|counts| counts.page_outs) as f64;
        let writes = 1000.0 * of.count(|counts| counts.log.writes) as f64 / commits;
        let thousand = 1000.0 * flushes(of) / commits;
        table.row(
            [
                *pool,
                of.per_minute(),
                outs / commits,
                thousand,
                writes,
                outs / flushes(of).max(1.0),
            ]
            .map(number)
            .to_vec(),
        );
        flushed.push((*pool, thousand.max(0.001)));
        written.push((*pool, writes));
    }
    let (small, large) = (flushed[0].1, flushed[pools.len() - 1].1);
    outcome.findings.push(
        Finding::shown(
            "flushes for 1,000 commits: the smallest pool over the largest",
            small / large,
            "times",
        )
        .paper("once the pool is full")
        .bound(Bound::AtLeast(3.0)),
    );
    let least = measured
        .iter()
        .map(|of| of.count(|counts| counts.page_outs) as f64 / flushes(of).max(1.0));
    outcome.findings.push(
        Finding::shown(
            "page-outs for a flush, least of all pools",
            least.fold(f64::MAX, f64::min),
            "",
        )
        .bound(Bound::AtLeast(100.0)),
    );
    outcome.figures.push(
        Figure::plot(
            "wal-flushes",
            "Flushes of the drive's cache against the size of the pool (5.5)",
            "A page leaves the pool long after its last change. Its records are durable then, unless the whole pool has been \
             used anew since the last flush.",
            vec![Panel {
                title: "B, without checkpoints".into(),
                x: Axis::upto("pool, share of the database", 1.0),
                y: Axis::log("for 1,000 commits, number"),
                lines: vec![
                    Line::new("flushes", Style::Marked, 0, flushed),
                    Line::new("writes of the log", Style::Marked, 1, written),
                ],
                legend: Legend::Outside,
            }],
        )
        .with(table),
    );
}

/// The test that the paper only argues.
fn cuts(context: &Context<'_>, drive: &DriveFile, outcome: &mut Outcome) {
    let seeds = context.count(10, 1);
    let cases = WAYS.map(|(rule, ..)| (0..seeds).map(move |seed| (rule, seed)).collect::<Vec<_>>());
    let runs = context.map(&cases.concat(), |(rule, seed)| {
        cut_power(
            drive,
            *rule,
            context.seed(10 + seed),
            CUT_TRANSACTIONS,
            CUTS,
        )
    });
    let mut table = Table::new(&[
        "configuration",
        "power cuts",
        "recovered",
        "a page is ahead of the log",
        "a page is behind the log",
        "the log is too short",
        "recovered, but wrong",
        "answered transactions lost, most",
        "records lost that were known to be durable",
    ]);
    for ((rule, name, _), runs) in WAYS.iter().zip(runs.chunks(seeds as usize)) {
        let all: Vec<Cut> = runs
            .iter()
            .flat_map(|run| run.cuts.iter().copied())
            .collect();
        let count = |is: &dyn Fn(&Cut) -> bool| all.iter().filter(|cut| is(cut)).count();
        let recovered = count(&|cut| matches!(cut, Cut::Recovered { .. }));
        let most = |of: &dyn Fn(&Cuts) -> u64| runs.iter().map(of).max().unwrap_or(0);
        let lost = most(&|run| run.most_lost);
        let broken: u64 = runs.iter().map(|run| run.broken_promises).sum();
        table.row(vec![
            (*name).into(),
            all.len().to_string(),
            recovered.to_string(),
            count(&|cut| matches!(cut, Cut::Refused(Damage::Ahead { .. }))).to_string(),
            count(&|cut| matches!(cut, Cut::Refused(Damage::Behind { .. }))).to_string(),
            count(&|cut| matches!(cut, Cut::Refused(Damage::Log { .. } | Damage::Boot)))
                .to_string(),
            count(&|cut| matches!(cut, Cut::Wrong { .. })).to_string(),
            lost.to_string(),
            broken.to_string(),
        ]);
        let damaged = 100.0 * (all.len() - recovered) as f64 / all.len() as f64;
        let what = format!("{name}: power cuts after which the database is lost");
        let findings = &mut outcome.findings;
        let bound = match rule {
            Rule::Trusting => Bound::AtLeast(20.0),
            _ => Bound::AtMost(0.0),
        };
        findings.push(Finding::shown(what, damaged, "%").bound(bound));
        let mut none = |what: &str, count: u64| {
            let what = format!("{name}: {what}");
            findings.push(Finding::shown(what, count as f64, "").bound(Bound::AtMost(0.0)));
        };
        if *rule != Rule::Trusting {
            none("records lost that were known to be durable", broken);
        }
        if matches!(rule, Rule::Through | Rule::EachCommit) {
            none("answered transactions lost, most", lost);
        }
    }
    let written = runs.iter().map(|run| run.written_bytes).max();
    outcome.findings.push(
        Finding::shown(
            "bytes written in a run with power cuts, most",
            written.unwrap_or(0) as f64 / 1e6,
            "MB",
        )
        .bound(Bound::AtMost(8.4))
        .because("The drive's cache has 8 MB."),
    );
    let checkpoints: u64 = runs.iter().map(|run| run.checkpoints).sum();
    outcome.figures.push(Figure::table(
        "wal-cuts",
        "What a power cut leaves",
        &format!(
            "Each run has {CUT_TRANSACTIONS} transactions of 4 terminals on a log of 384 KiB; the runs had {checkpoints} checkpoints in \
             all. After a cut the database is recovered and each page compared with the transactions that the log has."
        ),
        table,
    ));
}
