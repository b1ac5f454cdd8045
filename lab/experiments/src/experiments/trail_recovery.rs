//! The cost of recovery (Trail 5.3, Figure 4).

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{Moves, Rig, TrailLog, all_tracks, formula, ms};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::{Nanos, RecordSeq};
use tonearm_drive_file::DriveFile;
use tonearm_head::TrackMap;
use tonearm_trail::Search;

pub const EXPERIMENT: Experiment = Experiment {
    name: "trail-recovery",
    title: "Recovery: finding the end of the log, reading it, writing it home",
    source: "Trail 5.3, Figure 4",
    about: "The youngest record is found by binary search over the tracks; then the tracks that hold pending records \
            are read. Writing them home before service begins is optional, and left out by default.",
    drives: Drives::One("st41601n"),
    run,
};

const PENDING: [u32; 8] = [32, 64, 96, 128, 160, 192, 224, 256];
/// Sectors of a pending write.
const SECTORS: u32 = 2;
const THRESHOLD: f64 = 0.3;
const LOGS: [u64; 6] = [300, 1_000, 3_000, 10_000, 35_717, 100_000];

#[derive(Clone, Copy, Default)]
struct Cost {
    locate_ms: f64,
    read_ms: f64,
    home_ms: f64,
    searched: f64,
    read: f64,
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    let map = all_tracks(drive);
    let crashes = context.count(40, 8);
    let costs = context.map(&PENDING, |pending| {
        let each = (0..crashes).map(|crash| recover(context, drive, &map, *pending, crash));
        each.fold(Cost::default(), |sum, cost| Cost {
            locate_ms: sum.locate_ms + cost.locate_ms / crashes as f64,
            read_ms: sum.read_ms + cost.read_ms / crashes as f64,
            home_ms: sum.home_ms + cost.home_ms / crashes as f64,
            searched: sum.searched + cost.searched / crashes as f64,
            read: sum.read + cost.read / crashes as f64,
        })
    });
    let places = context.count(20_000, 2_000);
    let searches = context.map(&LOGS, |tracks| {
        let mut random = context.random(*tracks);
        let counts = (0..places).map(|_| {
            search(
                *tracks,
                random.below(*tracks),
                random.below(*tracks),
                |_| (),
            )
        });
        let counts: Vec<u64> = counts.collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        (counts.iter().sum::<u64>() as f64 / places as f64, most)
    });
    let last = costs[costs.len() - 1];
    let without = last.locate_ms + last.read_ms;
    let ratio = (without + last.home_ms) / without;
    let most = searches.iter().map(|(_, most)| *most).max().unwrap_or(0);
    let findings = vec![
        Finding::shown(
            "256 pending: times longer with writing home than without",
            ratio,
            "",
        )
        .paper("more than 3.5")
        .bound(Bound::AtLeast(3.5)),
        Finding::shown(
            "most tracks read to find the end of a log of up to 100,000 tracks",
            most as f64,
            "tracks",
        )
        .paper("less than 30")
        .bound(Bound::AtMost(20.0)),
        Finding::shown(
            format!("tracks read in a log of {} tracks, mean", map.tracks()),
            last.searched,
            "tracks",
        )
        .paper("about 20 of 35,717"),
        Finding::shown("time to find the end of the log", last.locate_ms, "ms").paper("450"),
    ];
    let notes = vec![
        format!(
            "Pending writes of {} KiB lie where the log put them, tracks being used to {:.0} %; a track is read with \
             one request. A log of this drive that has come around at least once; the crash is anywhere.",
            SECTORS / 2,
            100.0 * THRESHOLD
        ),
        "Tracks with pending records are read forward from the oldest, each once (the paper follows the chain of \
         records back, then replays it). Writing home: one write after the other, to random places of a data drive \
         of the same model."
            .into(),
        "The search is the product's. The log is the laboratory's own, because the pending writes have 1 KiB as in the paper, \
         and the product's blocks 4 KiB."
            .into(),
    ];
    Outcome {
        findings,
        figures: vec![times(&costs), tracks(&searches)],
        notes,
        ..Outcome::default()
    }
}

/// Searches a log of `tracks` tracks that has wrapped around, whose epoch began on track `start` and whose youngest
/// record is on `youngest`. Calls `read` for each track. Returns the number of tracks.
fn search(tracks: u64, start: u64, youngest: u64, mut read: impl FnMut(u64)) -> u64 {
    let mut search = Search::new(tracks, start);
    let mut count = 0;
    while let Some(track) = search.probe() {
        read(track);
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

fn recover(
    context: &Context<'_>,
    drive: &DriveFile,
    map: &TrackMap,
    pending: u32,
    crash: u64,
) -> Cost {
    let mut random = context.random(crash);
    let start = random.below(map.tracks());
    // The log runs up to a crash: `pending` records are not at home yet.
    let rig = Rig::new(drive, context.seed(crash));
    let mut log = TrailLog::new(rig, map, formula(drive, map), Moves::Used(THRESHOLD)).from(start);
    let mut oldest = None;
    for _ in 0..pending {
        let write = log.write(1 + SECTORS);
        oldest.get_or_insert(write.first);
        log.think(Nanos(5_000_000));
        log.after_write();
    }
    let oldest = map
        .find(oldest.expect("something is pending"))
        .expect("a track of the log")
        .index;
    let youngest = map
        .find(log.last().end() - 1)
        .expect("a track of the log")
        .index;
    // The machine starts again.
    let mut rig = log.into_rig();
    rig.think(Nanos(random.below(1_000_000_000)));
    let begin = rig.now();
    let read = |rig: &mut Rig, track: u64| {
        let track = map.track(track);
        rig.read(track.first, track.sectors);
    };
    let epoch = random.below(map.tracks());
    let searched = search(map.tracks(), epoch, youngest, |track| read(&mut rig, track));
    let located = rig.now();
    let live = (youngest + map.tracks() - oldest) % map.tracks() + 1;
    for offset in 0..live {
        read(&mut rig, (oldest + offset) % map.tracks());
    }
    let rebuilt = rig.now();
    let mut home = Rig::new(drive, context.seed(crash) + 1);
    let places = home.sectors() / u64::from(SECTORS);
    for _ in 0..pending {
        home.write(random.below(places) * u64::from(SECTORS), SECTORS);
    }
    Cost {
        locate_ms: ms(Nanos(located.0 - begin.0)),
        read_ms: ms(Nanos(rebuilt.0 - located.0)),
        home_ms: ms(home.now()),
        searched: searched as f64,
        read: live as f64,
    }
}

fn times(costs: &[Cost]) -> Figure {
    let line = |name, style, color, value: fn(&Cost) -> f64| {
        let points = PENDING
            .iter()
            .zip(costs)
            .map(|(pending, cost)| (f64::from(*pending), value(cost)));
        Line::new(name, style, color, points.collect())
    };
    let mut table = Table::new(&[
        "pending",
        "locate, ms",
        "read, ms",
        "write home, ms",
        "times longer",
        "tracks searched",
        "tracks read",
    ]);
    for (pending, cost) in PENDING.iter().zip(costs) {
        let without = cost.locate_ms + cost.read_ms;
        table.row(vec![
            pending.to_string(),
            number(cost.locate_ms),
            number(cost.read_ms),
            number(cost.home_ms),
            number((without + cost.home_ms) / without),
            number(cost.searched),
            number(cost.read),
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
                    line("with writing home", Style::Marked, 1, |c| c.locate_ms + c.read_ms + c.home_ms),
                    line("without", Style::Marked, 0, |c| c.locate_ms + c.read_ms),
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
        "Binary search over tracks, for an epoch that began and a log that ended on random tracks.",
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
