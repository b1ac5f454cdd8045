//! How full the tracks of a log get under concurrency (Trail 5.2).

use super::trail_tpcc::setup::{Size, Trail, generator, options};
use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::all_tracks;
use crate::pagedb::tpcc;
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_disk::{DiskError, OpenOptions};
use tonearm_drive_file::DriveFile;

pub const EXPERIMENT: Experiment = Experiment {
    name: "trail-utilisation",
    title: "Utilisation of tracks with one batched write on each",
    source: "Trail 5.2",
    about: "TPC-C runs on a store whose log goes to the next track after each write. What waits when the log is free goes into one \
            write. How much of a track does a write take, by the number of terminals? Database and drives are those of trail-tpcc.",
    drives: Drives::Some(&["wd2500jd", "st41601n"]),
    run,
};

/// Terminals, and the paper's utilisation in percent.
const PAPER: [(usize, f64, &str); 3] = [(4, 12.0, "12"), (8, 21.0, "21"), (12, 30.0, "over 30")];
const TERMINALS: [usize; 4] = [1, 4, 8, 12];
/// Pages in memory: as in trail-tpcc, or all of them.
const POOLS: [(bool, &str); 2] = [(false, "pool of trail-tpcc"), (true, "all pages in memory")];

struct Measured {
    used_percent: f64,
    /// Durable writes of the database, to its log and to its pages, in a write of the store's log.
    batch: f64,
    /// Writes of the store's log in a second.
    writes_s: f64,
    /// Transactions per minute.
    rate: f64,
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let transactions = [
        context.count(50_000, 10_000),
        0,
        context.count(4_000, 1_000),
    ];
    let cases = POOLS.map(|(whole, _)| TERMINALS.map(|terminals| (whole, terminals)));
    let measured = context.map(cases.as_flattened(), |(whole, terminals)| {
        measure(drives, *whole, *terminals, transactions, context.seed(1)).expect("a store works")
    });
    let (own, whole) = measured.split_at(TERMINALS.len());
    let mut outcome = Outcome::default();
    let mut table = Table::new(&[
        "terminals",
        "database",
        "paper, %",
        "here, %",
        "durable writes in a batch",
        "batches/s",
        "transactions, 1/min",
    ]);
    for ((terminals, (_, pool)), found) in POOLS
        .iter()
        .flat_map(|pool| TERMINALS.map(|terminals| (terminals, pool)))
        .zip(&measured)
    {
        let paper = PAPER.iter().find(|(known, ..)| *known == terminals);
        table.row(vec![
            terminals.to_string(),
            (*pool).into(),
            paper.map_or(String::new(), |(.., text)| (*text).into()),
            number(found.used_percent),
            number(found.batch),
            number(found.writes_s),
            number(found.rate),
        ]);
    }
    for (terminals, percent, text) in PAPER {
        let at = TERMINALS.iter().position(|known| *known == terminals);
        let found = &own[at.expect("it is measured")];
        let what = format!("utilisation with {terminals} terminals");
        let bound = Bound::Within {
            value: percent,
            percent: 20.0,
        };
        outcome.findings.push(
            Finding::shown(what, found.used_percent, "%")
                .paper(text)
                .bound(bound),
        );
    }
    let line = |name, color, measured: &[Measured]| {
        let points = TERMINALS.iter().zip(measured);
        let points = points.map(|(terminals, found)| (*terminals as f64, found.used_percent));
        Line::new(name, Style::Marked, color, points.collect())
    };
    let papers = PAPER.map(|(terminals, percent, _)| (terminals as f64, percent));
    outcome.figures.push(
        Figure::plot(
            "trail-utilisation",
            "Share of a track that one batched write uses",
            "Terminals do transactions without think time; the log takes all that wait.",
            vec![Panel {
                title: drives.last().expect("a log drive").name.clone(),
                x: Axis::linear("terminals"),
                y: Axis::linear("used share of a track, %"),
                lines: vec![
                    Line::new("paper", Style::Dots, 1, papers.to_vec()),
                    line(POOLS[0].1, 0, own),
                    line(POOLS[1].1, 2, whole),
                ],
                legend: Legend::TopLeft,
            }],
        )
        .with(table),
    );
    outcome.notes = vec![
        "The log is the product's, with the threshold at 0 % of a track. Its records have sectors of the database's log, and whole pages of \
         4 KiB that leave the pool."
            .into(),
        "The database sends one write of its log at a time; transactions that commit meanwhile go into the next one. Where the paper's \
         database writes for each transaction, its driver joins them."
            .into(),
        "With all pages in memory a transaction waits for its log alone. The paper's database has 300 MB in memory of 0.5 to 1 GB."
            .into(),
        "Nothing is fitted to the paper's percentages. The size of the database and of its log records are those of trail-tpcc."
            .into(),
    ];
    outcome
}

fn measure(
    drives: &[DriveFile],
    whole: bool,
    terminals: usize,
    transactions: [u64; 3],
    seed: u64,
) -> Result<Measured, DiskError> {
    let generator = generator(Size::Small, transactions, seed);
    let mut options = options(Size::Small, &generator);
    if whole {
        options.pool_pages = options.pages as usize;
    }
    let rule = OpenOptions {
        track_threshold_percent: 0,
        ..OpenOptions::default()
    };
    let mut drives = drives.to_vec();
    drives[0].spec.write_cache.enabled = false;
    let Trail { machine, disk } = Trail::new(&drives, options.pages, rule, seed)?;
    let before = disk.stats();
    let measured = machine.measure(options, terminals, transactions, tpcc(generator));
    let after = disk.stats();
    let writes = (after.log_writes - before.log_writes) as f64;
    let bytes = (after.log_bytes - before.log_bytes) as f64;
    let track = f64::from(all_tracks(&drives[1]).track(0).sectors) * 512.0;
    let seconds = measured.elapsed.0 as f64 / 1e9;
    Ok(Measured {
        used_percent: 100.0 * bytes / writes / track,
        batch: (after.commits - before.commits) as f64 / writes,
        writes_s: writes / seconds,
        rate: measured.transactions as f64 * 60.0 / seconds,
    })
}
