//! The rotational latency that is left, and the cost of moving the head (Trail 5.1).

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{
    Before, Floor, Moves, Rig, Times, TrailLog, all_tracks, formula, ms, online, turn,
};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_head::{Head, TrackMap};

pub const EXPERIMENT: Experiment = Experiment {
    name: "trail-residual",
    title: "Residual rotational latency, and the cost of moving the head",
    source: "Trail 5.1",
    about: "How long each write of a log waits for the platter: with the paper's formula and with the predictor that \
            learns; records of two and of nine sectors, with pauses by chance and without. And how long the reads \
            take that move the head to the next track.",
    drives: Drives::One("st41601n"),
    run,
};

const THRESHOLD: f64 = 0.3;
/// Sectors of a record: a header, and one sector or 4 KiB.
const SIZES: [u32; 2] = [2, 9];
/// Pauses between writes: longer than a move.
const PAUSE: Nanos = Nanos(5_000_000);
const WARM_UP: u64 = 500;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Case {
    /// The paper's formula; otherwise the predictor that learns.
    paper: bool,
    sparse: bool,
    sectors: u32,
}

struct Measured {
    waits: Times,
    move_ms: f64,
    moves: f64,
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    let map = all_tracks(drive);
    let writes = context.count(20_000, 2_000);
    let mut cases = Vec::new();
    for sectors in SIZES {
        for sparse in [true, false] {
            cases.extend([true, false].map(|paper| Case {
                paper,
                sparse,
                sectors,
            }));
        }
    }
    let measured = context.map(&cases, |case| measure(context, drive, &map, *case, writes));
    let each = context.map(&[true, false], |paper| {
        let head = predictor(drive, &map, *paper);
        let rig = Rig::new(drive, context.seed(13));
        TrailLog::new(rig, &map, head, Moves::EachWrite).mean_with_move(2, WARM_UP, writes)
    });
    let of = |paper, sparse| {
        let case = Case {
            paper,
            sparse,
            sectors: SIZES[0],
        };
        let at = cases.iter().position(|other| *other == case);
        &measured[at.expect("each case is measured")]
    };
    let half = ms(turn(drive)) / 2.0;
    let near = |value| Bound::Within {
        value,
        percent: 10.0,
    };
    let mut findings = vec![
        Finding::shown("mean rotational latency without prediction", half, "ms")
            .paper("5.5")
            .bound(near(5.5)),
    ];
    for (paper, most) in [(true, 0.5), (false, 0.2)] {
        for sparse in [true, false] {
            let what = format!(
                "residual rotational latency, one-sector writes, {}, {}",
                pauses(sparse),
                predictor_name(paper)
            );
            let finding = Finding::shown(what, of(paper, sparse).waits.mean_ms(), "ms");
            let finding = finding.bound(Bound::AtMost(most));
            findings.push(if paper {
                finding.paper("below 0.5")
            } else {
                finding
            });
        }
    }
    findings.extend([
        Finding::shown("a move of the head by a read", of(true, true).move_ms, "ms")
            .paper("1.5")
            .bound(near(1.5))
            .because(least_move(drive)),
        Finding::shown(
            "one-sector writes a second, the head being moved after each, formula",
            1000.0 / each[0],
            "/s",
        )
        .paper("333")
        .bound(near(333.0)),
        Finding::shown("the same, online", 1000.0 / each[1], "/s"),
    ]);
    let line = |paper, sparse, style, color| {
        let waits = &of(paper, sparse).waits;
        let points = (0..=200).map(|share| {
            let share = f64::from(share) / 200.0;
            (waits.quantile_ms(share), 100.0 * share)
        });
        let name = format!("{}, {}", predictor_name(paper), pauses(sparse));
        let shown = points.filter(|(wait, _)| *wait <= 2.0).collect();
        Line::new(&name, style, color, shown)
    };
    let panel = Panel {
        title: drive.name.clone(),
        x: Axis::upto("wait for the platter, ms", 2.0),
        y: Axis::upto("share of writes, %", 100.0),
        lines: vec![
            line(true, true, Style::Solid, 0),
            line(true, false, Style::Dashed, 0),
            line(false, true, Style::Solid, 1),
            line(false, false, Style::Dashed, 1),
        ],
        legend: Legend::BottomRight,
    };
    let figure = Figure::plot(
        "trail-residual",
        "Time that one-sector writes wait for the platter",
        "Response time less command, settling, arm and transfer, by the drive's file. A sector passes in 0.13 ms on \
         the ST41601N.",
        vec![panel],
    );
    Outcome {
        findings,
        figures: vec![figure.with(table(&cases, &measured, half))],
        notes: vec![
            format!(
                "Each record has a header sector. The next track is used when {:.0} % of one is; the wait includes \
                 that for free sectors of a track that is in part used, which is what larger records wait for after \
                 a pause.",
                100.0 * THRESHOLD
            ),
            "The formula moves the head by a read; online when it finds that this gains something."
                .into(),
            "The log is the laboratory's own: the wait of a write is its time less that of the drive's parts, for which the place \
             of each single write must be known. The product's log does not tell it."
                .into(),
        ],
        ..Outcome::default()
    }
}

fn measure(
    context: &Context<'_>,
    drive: &DriveFile,
    map: &TrackMap,
    case: Case,
    writes: u64,
) -> Measured {
    let floor = Floor::new(drive);
    let mut random = context.random(11);
    let rig = Rig::new(drive, context.seed(12));
    let head = predictor(drive, map, case.paper);
    let mut log = TrailLog::new(rig, map, head, Moves::Used(THRESHOLD));
    let mut waits = Times::default();
    let mut before = Before {
        was_write: false,
        last: 0,
    };
    for number in 0..WARM_UP + writes {
        if case.sparse {
            log.think(Nanos(PAUSE.0 + random.below(PAUSE.0)));
        }
        if let Some(read) = log.last_read() {
            before = Before {
                was_write: false,
                last: read.first,
            };
        }
        let write = log.write(case.sectors);
        if number >= WARM_UP {
            waits.push(floor.rotation(before, &write));
        }
        before = Before {
            was_write: true,
            last: write.end() - 1,
        };
        log.after_write();
    }
    Measured {
        waits,
        move_ms: log.totals.move_ms(),
        moves: log.totals.moves as f64 / log.totals.writes as f64,
    }
}

fn table(cases: &[Case], measured: &[Measured], half: f64) -> Table {
    let mut table = Table::new(&[
        "predictor",
        "load",
        "sectors",
        "mean wait, ms",
        "median, ms",
        "99 %, ms",
        "over 3/4 of a turn, %",
        "moves by a read per write",
        "one move, ms",
    ]);
    for (case, found) in cases.iter().zip(measured) {
        table.row(vec![
            predictor_name(case.paper).into(),
            pauses(case.sparse).into(),
            case.sectors.to_string(),
            number(found.waits.mean_ms()),
            number(found.waits.quantile_ms(0.5)),
            number(found.waits.quantile_ms(0.99)),
            number(100.0 * found.waits.share_above(half * 1.5)),
            number(found.moves),
            number(found.move_ms),
        ]);
    }
    table
}

fn predictor_name(paper: bool) -> &'static str {
    if paper { "formula" } else { "online" }
}

fn pauses(sparse: bool) -> &'static str {
    if sparse { "sparse" } else { "clustered" }
}

fn predictor(drive: &DriveFile, map: &TrackMap, paper: bool) -> Box<dyn Head> {
    if paper {
        formula(drive, map)
    } else {
        online(map)
    }
}

/// The reasons for the duration of a move.
fn least_move(drive: &DriveFile) -> String {
    let disk = drive.spec.disk.as_ref().expect("a drive that turns");
    let sector = 60e3 / disk.rotation.rpm / f64::from(disk.geometry.zones[0].track_sectors);
    let command = disk.overhead.read_miss_ms.write;
    let end = disk.overhead.read_done_ms;
    format!(
        "The least is {:.2}: read_miss_ms.write {command:.2}, one sector {sector:.2}, read_done_ms {end:.2}; then a \
         sector has to come by.",
        command + sector + end
    )
}
