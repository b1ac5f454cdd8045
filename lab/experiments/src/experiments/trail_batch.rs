//! 32 one-sector writes in batches (Trail 5.1, Table 1).

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{Moves, Rig, TrailLog, all_tracks, formula, ms, online};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::Nanos;
use tonearm_drive::{ClosedLoop, Drive, DriveOptions};
use tonearm_drive_file::DriveFile;
use tonearm_head::{Track, TrackMap};
use tonearm_world::Kind;

pub const EXPERIMENT: Experiment = Experiment {
    name: "trail-batch",
    title: "One batch costs little more than one write",
    source: "Trail 5.1, Table 1",
    about: "32 synchronous writes of one sector go to the log in batches of 1 to 32; after each physical write the \
            head is moved to the next track by a read.",
    drives: Drives::One("st41601n"),
    run,
};

const BATCHES: [&str; 6] = [
    "32 one-sector writes in batches of 1, formula",
    "32 one-sector writes in batches of 2, formula",
    "32 one-sector writes in batches of 4, formula",
    "32 one-sector writes in batches of 8, formula",
    "32 one-sector writes in batches of 16, formula",
    "32 one-sector writes in batches of 32, formula",
];

/// Batch size, and elapsed time in the paper's Table 1, in ms.
const TABLE_1: [(u32, f64); 6] = [
    (1, 129.9),
    (2, 69.6),
    (4, 33.1),
    (8, 17.7),
    (16, 10.9),
    (32, 8.4),
];
const WRITES: u32 = 32;
/// Time of a host between two requests.
const HOST: Nanos = Nanos::from_micros(10);
/// Physical writes before those that are measured.
const WARM_UP: u32 = 300;

struct Elapsed {
    total_ms: f64,
    write_ms: f64,
    move_ms: f64,
    /// The whole time, if each write had taken the least that the drive could have given at that moment.
    best_ms: f64,
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    let map = all_tracks(drive);
    let sequences = context.count(1_000, 40);
    let cases = [true, false].map(|paper| TABLE_1.map(|(batch, _)| (batch, paper)));
    let measured = context.map(cases.as_flattened(), |(batch, paper)| {
        let rig = Rig::new(drive, context.seed(1));
        let head = if *paper {
            formula(drive, &map)
        } else {
            online(&map)
        };
        let log = TrailLog::new(rig, &map, head, Moves::EachWrite);
        elapsed(log, *batch, sequences)
    });
    let (formula, online) = measured.split_at(TABLE_1.len());
    let mut outcome = Outcome::default();
    let mut table = Table::new(&[
        "batch",
        "paper, ms",
        "formula, ms",
        "off by, %",
        "one write, ms",
        "one move, ms",
        "the drive's least, ms",
        "best free place each time, ms",
        "online, ms",
    ]);
    for (index, (batch, paper)) in TABLE_1.iter().enumerate() {
        let elapsed = &formula[index];
        let (least, why) = least(drive, &map, *batch);
        table.row(vec![
            batch.to_string(),
            number(*paper),
            number(elapsed.total_ms),
            format!("{:+.1}", 100.0 * (elapsed.total_ms / paper - 1.0)),
            number(elapsed.write_ms),
            number(elapsed.move_ms),
            number(least),
            number(elapsed.best_ms),
            number(online[index].total_ms),
        ]);
        if drive.name == "st41601n" {
            let within = Bound::Within {
                value: *paper,
                percent: 10.0,
            };
            let finding = Finding::shown(BATCHES[index], elapsed.total_ms, "ms")
                .paper(number(*paper))
                .bound(within);
            outcome.findings.push(finding.because(format!(
                "At least {} ({:+.0} %) on this drive: {why}. With the best free place at each moment {} ({:+.0} %).",
                number(least),
                100.0 * (least / paper - 1.0),
                number(elapsed.best_ms),
                100.0 * (elapsed.best_ms / paper - 1.0)
            )));
        }
    }
    let line = |name: &str, style, color, time: &dyn Fn(usize) -> f64| {
        let points = (0..TABLE_1.len()).map(|index| (f64::from(TABLE_1[index].0), time(index)));
        Line::new(name, style, color, points.collect())
    };
    let panel = Panel {
        title: drive.name.clone(),
        x: Axis::log("writes in a batch"),
        y: Axis::log("elapsed time, ms"),
        lines: vec![
            line("paper", Style::Dashed, 1, &|index| TABLE_1[index].1),
            line("formula", Style::Marked, 0, &|index| {
                formula[index].total_ms
            }),
            line("online", Style::Marked, 2, &|index| online[index].total_ms),
        ],
        legend: Legend::TopRight,
    };
    let figure = Figure::plot(
        "trail-batch",
        "Elapsed time of 32 one-sector writes",
        "Each physical write costs a command after a read, the wait for a sector, its sectors (one of them the \
         header), and a read that moves the head.",
        vec![panel],
    );
    outcome.figures.push(figure.with(table));
    outcome.notes = vec![
        "The formula moves the head by a read after each physical write, as the paper's driver did for this table. \
         online finds that a change of heads costs this drive next to nothing, and writes to the next track at once."
            .into(),
        "The log is the laboratory's own: the product's log does not move the head before a write that waits already, as the \
         writes of this table do."
            .into(),
    ];
    outcome
}

fn elapsed(mut log: TrailLog<'_>, batch: u32, sequences: u64) -> Elapsed {
    for _ in 0..WARM_UP {
        log.write(1 + batch);
        log.after_write();
    }
    let before = log.totals.move_time;
    let (mut elapsed, mut least) = (0, 0);
    for _ in 0..sequences {
        log.think(Nanos(20_000_000));
        let start = log.rig.now();
        for _ in 0..WRITES / batch {
            least += log.least_write(1 + batch).0;
            log.write(1 + batch);
            log.after_write();
        }
        elapsed += log.rig.now().since(start).0;
    }
    let physical = sequences as f64 * f64::from(WRITES / batch);
    let (elapsed, moved) = (
        ms(Nanos(elapsed)),
        ms(Nanos(log.totals.move_time.0 - before.0)),
    );
    Elapsed {
        total_ms: elapsed / sequences as f64,
        write_ms: (elapsed - moved) / physical,
        move_ms: moved / physical,
        best_ms: (ms(Nanos(least)) + moved) / sequences as f64,
    }
}

/// The least time of 32 writes in batches of `batch`, each followed by a move, and its parts. Every place is tried on
/// the drive's model, so no predictor can be better.
fn least(drive: &DriveFile, map: &TrackMap, batch: u32) -> (f64, String) {
    let sectors = 1 + batch;
    let inside = map.track(3);
    let next = map.track(4);
    let user = || {
        let mut user = ClosedLoop::new(Drive::new(&drive.spec, &DriveOptions::default()));
        user.think(HOST);
        user
    };
    let shortest = |first: (Kind, u64, u32), kind, track: &Track, sectors| {
        let last = track.end() - u64::from(sectors);
        let times = (track.first..=last).map(|place| {
            let mut user = user();
            user.serve(first.0, first.1, first.2);
            user.think(HOST);
            user.serve(kind, place, sectors)
        });
        ms(times.min().unwrap_or_default())
    };
    let wrote = (Kind::Write, inside.first + 20, sectors);
    let moved = shortest(wrote, Kind::Read, &next, 1);
    let (crosses, border) = border(map);
    let wrote = (Kind::Write, crosses.first + 20, sectors);
    let far = shortest(wrote, Kind::Read, &border, 1);
    let write = shortest(
        (Kind::Read, next.first + 20, 1),
        Kind::Write,
        &next,
        sectors,
    );
    let share = 1.0 / f64::from(map.runs()[0].group);
    let times = f64::from(WRITES / batch);
    let least = times * (write + moved * (1.0 - share) + far * share);
    let disk = drive.spec.disk.as_ref().expect("a drive that turns");
    let overhead = &disk.overhead;
    let why = format!(
        "{times} times a write of {sectors} sectors after a read, {write:.2} ms (write_miss_ms.read {:.2}, same_track_ms \
         {:.2}), and the read that moves the head, {moved:.2} ms (read_miss_ms.write {:.2}, read_done_ms {:.2}; \
         {far:.2} to another cylinder; the paper: 1.5)",
        overhead.write_miss_ms.read,
        disk.seek.same_track_ms,
        overhead.read_miss_ms.write,
        overhead.read_done_ms,
    );
    (least, why)
}

/// The first two neighbouring tracks of different cylinders.
fn border(map: &TrackMap) -> (Track, Track) {
    let pairs = (0..map.tracks() - 1).map(|index| (map.track(index), map.track(index + 1)));
    let mut far = pairs
        .filter(|(one, next)| !map.same_cylinder(one.index, next.index) && one.end() == next.first);
    far.next().unwrap_or((map.track(0), map.track(1)))
}
