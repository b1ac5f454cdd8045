//! The time of a durable write with each kind of log, on each drive.

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{
    Arrivals, Load, Moves, Rig, Times, TrailLog, group_commit, in_place, journal, online,
    sequential, tracks_within,
};
use crate::report::{Axis, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::Nanos;
use tonearm_drive_file::{DriveFile, TODAY};
use tonearm_head::Span;

pub const EXPERIMENT: Experiment = Experiment {
    name: "log-latency",
    title: "A durable 4-KiB write: a predicted log, a journal, and writing in place",
    source: "Disk Mimic 1; Trail 5.1",
    about: "One client, and eight, write 4 KiB durably on each drive: to a log that knows where the head is, to a log \
            that does not, to a journal that waits for descriptor, data and commit block in turn, and in place.",
    drives: Drives::All,
    run,
};

const SECTORS: u32 = 8;
const CLIENTS: u32 = 8;
const THRESHOLD: f64 = 0.3;
/// Sectors of the logs without tracks: 500 MB, as in Disk Mimic 4.1.
const RING: u64 = 1_000_000;
/// Sectors of the predicted log: the first 64 GiB, of which a run takes some MiB.
const TRACKS: Span = Span {
    start: 0,
    end: 1 << 27,
};
/// A client's pause between writes, when it is alone.
const PAUSE: Nanos = Nanos(4_000_000);

/// Name, and whether waiting writes share one device write.
const KINDS: [&str; 5] = [
    "predicted log",
    "sequential log, group commit",
    "sequential log",
    "journal, three waits",
    "in place",
];

fn measure(drive: &DriveFile, kind: usize, load: &Load, seed: u64) -> Times {
    match kind {
        // Where no head can be followed there is nothing to predict: the next free sector is the best.
        0 if !drive.spec.has_head() => group_commit(drive, load, RING, seed),
        0 => {
            let map = tracks_within(drive, TRACKS);
            let rig = Rig::new(drive, seed);
            TrailLog::new(rig, &map, online(&map), Moves::Used(THRESHOLD)).serve(load, seed)
        }
        1 => group_commit(drive, load, RING, seed),
        2 => sequential(drive, load, RING, seed),
        3 => journal(drive, load, RING, seed),
        _ => in_place(drive, load, None, seed),
    }
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let writes = context.count(10_000, 500);
    let mut cases = Vec::new();
    for drive in drives {
        for processes in [1, CLIENTS] {
            cases.extend((0..KINDS.len()).map(|kind| (drive, processes, kind)));
        }
    }
    let times = context.map(&cases, |(drive, processes, kind)| {
        let load = Load {
            processes: *processes,
            arrivals: if *processes == 1 {
                Arrivals::Sparse(PAUSE)
            } else {
                Arrivals::Clustered
            },
            sectors: SECTORS,
            writes,
            warm_up: writes / 4,
        };
        measure(drive, *kind, &load, context.seed(3))
    });
    let at = |drive: usize, eight: bool, kind: usize| {
        &times[(drive * 2 + usize::from(eight)) * KINDS.len() + kind]
    };
    let mut outcome = Outcome::default();
    let mut heads = vec!["drive", "clients"];
    let columns = KINDS.map(|kind| format!("{kind}, ms"));
    heads.extend(columns.iter().map(String::as_str));
    heads.push("99 %: predicted log, ms");
    let mut table = Table::new(&heads);
    for (index, drive) in drives.iter().enumerate() {
        for eight in [false, true] {
            let mut row = vec![
                drive.name.clone(),
                if eight { CLIENTS } else { 1 }.to_string(),
            ];
            row.extend((0..KINDS.len()).map(|kind| number(at(index, eight, kind).mean_ms())));
            row.push(number(at(index, eight, 0).quantile_ms(0.99)));
            table.row(row);
        }
        if drive.spec.has_head() {
            let mean = |kind| at(index, false, kind).mean_ms();
            outcome.findings.push(Finding::shown(
                format!("{}: times faster than the journal, one client", drive.name),
                mean(3) / mean(0),
                "",
            ));
        }
    }
    let panel = |shown: &[usize], eight: bool| {
        let line = |kind: usize, color| {
            let points = shown.iter().zip(1..).map(|(drive, place)| {
                let mean = at(*drive, eight, kind).mean_ms();
                (f64::from(place), mean)
            });
            Line::new(KINDS[kind], Style::Dots, color, points.collect())
        };
        Panel {
            title: if eight {
                format!("{CLIENTS} clients, as fast as they can")
            } else {
                "One client, with pauses".into()
            },
            x: Axis::of(
                "",
                shown
                    .iter()
                    .map(|drive| drives[*drive].name.clone())
                    .collect(),
            ),
            y: Axis::log("mean response time, ms"),
            lines: vec![line(4, 1), line(3, 3), line(2, 4), line(1, 2), line(0, 0)],
            legend: Legend::Outside,
        }
    };
    let panels = |shown: &[usize]| vec![panel(shown, false), panel(shown, true)];
    let all: Vec<usize> = (0..drives.len()).collect();
    let is_today = |drive: &usize| TODAY.contains(&drives[*drive].name.as_str());
    let today: Vec<usize> = all.iter().copied().filter(is_today).collect();
    if today.len() == TODAY.len() {
        outcome.figures.push(Figure::plot(
            "log-latency-today",
            "Durable writes of 4 KiB on drives of today",
            "Where a log can follow the head (sata8tb), a durable write waits for no turn. A drive with shingled tracks \
             (smr8tb) writes elsewhere than it is told, and an SSD does not turn: there the predicted log is a sequential \
             one. A journal waits three times on each. With power-loss protection (nvme_plp) a durable write \
             costs a command, without it (nvme_consumer) the programming of a page.",
            panels(&today),
        ));
    }
    outcome.figures.push(
        Figure::plot(
            "log-latency",
            "Durable writes of 4 KiB",
            "A log that does not know where the head is waits most of a turn for its next sector; the journal does \
             so three times.",
            panels(&all),
        )
        .with(table),
    );
    outcome.notes = vec![
        format!(
            "One client pauses for {} to {} ms after each write, by chance; eight do not.",
            PAUSE.0 as f64 / 1e6,
            PAUSE.0 as f64 / 5e5
        ),
        "The predicted log is the laboratory's own, as the other logs are: all of them have the same clients and records, and no \
         engine above them. The experiment trail-drives measures the product's log."
            .into(),
        "The drives' write caches are passed over (force unit access) by all of them.".into(),
        "nvme_consumer takes 4.0 ms for a write with force unit access and 1.6 ms for a flush, as it was measured on a drive; \
         a log that sends a write and a flush takes 1.6 ms there. smr8tb takes a few thousand such writes into its media \
         cache; a longer run fills it, and a write at a random place then takes half a second (docs/drives.md)."
            .into(),
        "Journal: a block of 4 KiB as descriptor, the data, a block as commit record, one after the other on the \
         disk, each sent when the one before is on the medium; transactions of one client do not wait for others."
            .into(),
    ];
    outcome
}
