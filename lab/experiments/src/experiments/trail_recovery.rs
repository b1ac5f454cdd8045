//! The cost of recovery (Trail 5.3, Figure 4).

mod crashes;

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use crashes::{Cost, recover};
use tonearm_base::RecordSeq;
use tonearm_drive_file::DriveFile;
use tonearm_trail::Search;

pub const EXPERIMENT: Experiment = Experiment {
    name: "trail-recovery",
    title: "Recovery: finding the end of the log, reading it, writing it home",
    source: "Trail 5.3, Figure 4",
    about: "The power fails while a store has writes that are in its log alone. The opening of the store finds the youngest record by \
            binary search over the tracks, and reads the tracks that hold pending records. Writing them home before service begins \
            is optional, and left out by default. All of it is the product.",
    drives: Drives::One("st41601n"),
    run,
};

const PENDING: [u64; 8] = [32, 64, 96, 128, 160, 192, 224, 256];
const LOGS: [u64; 6] = [300, 1_000, 3_000, 10_000, 35_717, 100_000];

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    // Each has a log of its own, which it fills once.
    let workers: Vec<u64> = (0..context.count(4, 2)).collect();
    let crashes = context.count(10, 2);
    let measured = context.map(&workers, |worker| {
        recover(drive, &PENDING, crashes, context.seed(*worker)).expect("a store recovers")
    });
    let costs: Vec<Cost> = (0..PENDING.len())
        .map(|pending| Cost::mean(measured.iter().flat_map(|worker| &worker[pending])))
        .collect();
    let places = context.count(20_000, 2_000);
    let searches = context.map(&LOGS, |tracks| {
        let mut random = context.random(*tracks);
        let counts =
            (0..places).map(|_| search(*tracks, random.below(*tracks), random.below(*tracks)));
        let counts: Vec<u64> = counts.collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        (counts.iter().sum::<u64>() as f64 / places as f64, most)
    });
    Outcome {
        findings: findings(&costs, &searches),
        figures: vec![times(&costs), tracks(&searches)],
        notes: vec![
            "The store has a log of its own on all of this drive, whose head the formula follows, and its blocks on another drive of the \
             same model. The log wraps around once before the first crash. The crashes are spread over it. Its tracks are used to 30 %."
                .into(),
            "A pending write is a block of 4 KiB at a random place. The paper does not say how large its requests are."
                .into(),
            "Tracks with pending records are read forward from the oldest, each once, three at a time (the paper follows the chain of \
             records back, then replays it). Writing home is the time by \
             which an opening with it is longer: eight blocks at a time, in the order of their places."
                .into(),
        ],
        ..Outcome::default()
    }
}

fn findings(costs: &[Cost], searches: &[(f64, u64)]) -> Vec<Finding> {
    let last = &costs[costs.len() - 1];
    let most = searches.iter().map(|(_, most)| *most).max().unwrap_or(0);
    let mean = Cost::mean(costs);
    let near = |what: &str, ours: f64, unit: &str, paper: &str, value: f64| {
        let bound = Bound::Within {
            value,
            percent: 20.0,
        };
        Finding::shown(what, ours, unit).paper(paper).bound(bound)
    };
    vec![
        near(
            "256 pending: times longer with writing home than without",
            last.with_ms() / last.without_ms,
            "",
            "more than 3.5",
            3.5,
        ),
        near(
            "tracks read to find the end of the log, mean",
            mean.searched,
            "tracks",
            "about 20 of 35,717",
            20.0,
        ),
        near(
            "time to find the end of the log",
            mean.locate_ms,
            "ms",
            "450",
            450.0,
        ),
        Finding::shown(
            "most tracks read to find the end of a log of up to 100,000 tracks",
            most as f64,
            "tracks",
        )
        .paper("less than 30")
        .bound(Bound::AtMost(29.0)),
    ]
}

/// Searches a log of `tracks` tracks that has wrapped around, whose epoch began on track `start` and whose youngest
/// record is on `youngest`. Returns the number of tracks that are read.
fn search(tracks: u64, start: u64, youngest: u64) -> u64 {
    let mut search = Search::new(tracks, start);
    let mut count = 0;
    while let Some(track) = search.probe() {
        count += 1;
        // Records get younger along the ring up to the youngest one. After it are those of the previous lap.
        let age = (youngest + tracks - track) % tracks;
        search.feed(Some(RecordSeq(1 + 2 * tracks - age)));
    }
    assert_eq!(
        search.result(),
        Some(youngest),
        "the search finds the youngest record"
    );
    count
}

fn times(costs: &[Cost]) -> Figure {
    let line = |name, style, color, value: fn(&Cost) -> f64| {
        let points = PENDING
            .iter()
            .zip(costs)
            .map(|(pending, cost)| (*pending as f64, value(cost)));
        Line::new(name, style, color, points.collect())
    };
    let mut table = Table::new(&[
        "pending",
        "locate, ms",
        "read, ms",
        "write home, ms",
        "whole opening without, ms",
        "times longer with",
        "tracks searched",
        "tracks read",
        "KiB written home for a block",
    ]);
    for (pending, cost) in PENDING.iter().zip(costs) {
        table.row(vec![
            pending.to_string(),
            number(cost.locate_ms),
            number(cost.read_ms),
            number(cost.home_ms),
            number(cost.without_ms),
            number(cost.with_ms() / cost.without_ms),
            number(cost.searched),
            number(cost.read),
            number(cost.home_bytes / 1024.0),
        ]);
    }
    let panel = |title: &str, lines| Panel {
        title: title.into(),
        x: Axis::linear("pending writes"),
        y: Axis::linear("time, ms"),
        lines,
        legend: Legend::TopLeft,
    };
    Figure::plot(
        "trail-recovery",
        "Recovery time against pending writes",
        "As Figure 4: on the left the three steps, on the right recovery with and without writing home.",
        vec![
            panel(
                "The steps",
                vec![
                    line("write home", Style::Marked, 1, |cost| cost.home_ms),
                    line("read pending records", Style::Marked, 2, |cost| cost.read_ms),
                    line("find the youngest record", Style::Marked, 0, |cost| cost.locate_ms),
                ],
            ),
            panel(
                "Until service begins",
                vec![
                    line("with writing home", Style::Marked, 1, Cost::with_ms),
                    line("without", Style::Marked, 0, |cost| cost.without_ms),
                ],
            ),
        ],
    )
    .with(table)
}

fn tracks(searches: &[(f64, u64)]) -> Figure {
    let points = |value: fn(&(f64, u64)) -> f64| {
        LOGS.iter()
            .zip(searches)
            .map(|(tracks, found)| (*tracks as f64, value(found)))
            .collect()
    };
    Figure::plot(
        "trail-search",
        "Tracks read to find the youngest record",
        "The product's binary search over tracks, for an epoch that began and a log that ended on random tracks.",
        vec![Panel {
            title: "Binary search".into(),
            x: Axis::log("tracks of the log"),
            y: Axis::upto("tracks read", 32.0),
            lines: vec![
                Line::new("most", Style::Marked, 1, points(|(_, most)| *most as f64)),
                Line::new("mean", Style::Marked, 0, points(|(mean, _)| *mean)),
                Line::new(
                    "paper's bound",
                    Style::Dashed,
                    7,
                    LOGS.map(|tracks| (tracks as f64, 30.0)).to_vec(),
                ),
            ],
            legend: Legend::BottomRight,
        }],
    )
}
