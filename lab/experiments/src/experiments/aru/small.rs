//! Figure 5: small files.

use super::programs::{Phase, SMALL, Small};
use super::runs::Spread;
use super::setup::{self, NEW, NEW_DELETE, OLD, SEGMENTS, SmallFiles, System};
use crate::experiment::{Context, Outcome};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_drive_file::DriveFile;

/// The count of writes that ended in a conflict, although no other program writes to their files.
pub const CONFLICTS: &str = "small files: writes that ended in a conflict, and were done again";

/// Programs side by side.
const PROGRAMS: usize = 8;

/// A system under so many programs.
struct Way {
    name: &'static str,
    system: System,
    /// File systems in one store, and programs on each.
    side: (usize, usize),
}

const WAYS: [Way; 7] = [
    way("old", OLD, (1, 1)),
    way("new", NEW, (1, 1)),
    way("new, delete", NEW_DELETE, (1, 1)),
    way("new, delete, two file systems", NEW_DELETE, (2, 1)),
    way("store, eight programs", STORE, (1, PROGRAMS)),
    way("store, one program", STORE, (1, 1)),
    way("Minix, one program", System::Minix, (1, 1)),
];
/// Their places above.
const OLD_AT: usize = 0;
const NEW_AT: usize = 1;
const NEW_DELETE_AT: usize = 2;
const TWO_AT: usize = 3;
const EIGHT_AT: usize = 4;
const ALONE_AT: usize = 5;
const MINIX_AT: usize = 6;

/// The file system of a store.
const STORE: System = System::Store(SEGMENTS);

const fn way(name: &'static str, system: System, side: (usize, usize)) -> Way {
    Way { name, system, side }
}

/// The loads of ARU 5.2.
const LOADS: [(&str, Small); 2] = [
    (
        "1 KB",
        Small {
            files: 10_000,
            bytes: 1 << 10,
        },
    ),
    (
        "10 KB",
        Small {
            files: 1_000,
            bytes: 10 << 10,
        },
    ),
];

/// Runs Figure 5.
pub fn small_files(
    context: &Context<'_>,
    drive: &DriveFile,
    bandwidth: [f64; 2],
    outcome: &mut Outcome,
) {
    let runs = context.count(10, 1);
    let mut cases = Vec::new();
    for load in 0..LOADS.len() {
        for way in 0..WAYS.len() {
            cases.extend((0..runs).map(|run| (load, way, run)));
        }
    }
    let results = context.map(&cases, |(load, way, run)| {
        let way = &WAYS[*way];
        let (systems, programs) = way.side;
        let files = SmallFiles {
            systems,
            programs,
            load: LOADS[*load].1,
        };
        setup::run(drive, context.seed(*run), way.system, files).expect("small files")
    });
    let conflicts: u64 = results.iter().map(|phases| phases[2].conflicts).sum();
    outcome
        .findings
        .push(Finding::shown(CONFLICTS, conflicts as f64, "writes").bound(Bound::AtMost(0.0)));
    let mut table = Table::new(&[
        "phase",
        "files",
        "way",
        "files/s",
        "spread, %",
        "content, % of bandwidth",
        "drive busy, %",
        "processor busy, %",
        "requests not near the one before, %",
        "log bytes for a file",
    ]);
    let mut lines = vec![Vec::new(); WAYS.len()];
    let mut names = Vec::new();
    for (of_load, (size, load)) in results.chunks(WAYS.len() * runs as usize).zip(LOADS) {
        for (index, phase) in SMALL.iter().enumerate() {
            names.push(format!("{phase}, {size}"));
            for (way, of_way) in of_load.chunks(runs as usize).enumerate() {
                let each = |value: &dyn Fn(&Phase) -> f64| {
                    Spread::of(of_way.iter().map(|phases| value(&phases[index])))
                };
                let files = load.files as f64;
                let rate = each(&|phase| files * 1e9 / phase.spent.time.0 as f64);
                let full = bandwidth[usize::from(index == 1)];
                lines[way].push((names.len() as f64, rate.mean));
                let busy = 100.0 * each(&|phase| phase.spent.busy_share()).mean;
                if way == EIGHT_AT && index != 1 {
                    let what = format!("{size} files, {phase}: eight programs, drive busy");
                    let found = Finding::shown(what, busy, "%");
                    outcome.findings.push(found.bound(Bound::AtLeast(95.0)));
                }
                table.row(vec![
                    (*phase).into(),
                    format!("{} of {size}", load.files),
                    WAYS[way].name.into(),
                    number(rate.mean),
                    number(rate.percent),
                    match index {
                        2 => String::new(),
                        _ => number(100.0 * rate.mean * load.bytes as f64 / full),
                    },
                    number(busy),
                    number(100.0 * each(&|phase| phase.spent.host_share()).mean),
                    number(100.0 * each(&|phase| phase.spent.jump_share()).mean),
                    number(each(&|phase| phase.log_bytes as f64 / files).mean),
                ]);
            }
        }
    }
    findings(&lines, outcome);
    let lines = lines.into_iter().enumerate();
    let panel = Panel {
        title: drive.name.clone(),
        x: Axis::of("", names),
        y: Axis::linear("files, 1/s"),
        lines: lines
            .map(|(way, points)| Line::new(WAYS[way].name, Style::Dots, way, points))
            .collect(),
        legend: Legend::Outside,
    };
    outcome.figures.push(
        Figure::plot(
            "aru-small",
            "Small files",
            "Figure 5 of the paper: small files are made, read and deleted.",
            vec![panel],
        )
        .with(table),
    );
}

/// `lines` has for each way the rates of all phases of each load.
fn findings(lines: &[Vec<(f64, f64)>], outcome: &mut Outcome) {
    for (load, (size, _)) in LOADS.iter().enumerate() {
        let rate = |way: usize, phase: usize| lines[way][load * SMALL.len() + phase].1;
        let share = |what: &str, phase: usize, (way, of): (usize, usize), percent: f64| {
            let what = format!("{size} files, {}: {what}", SMALL[phase]);
            let value = 100.0;
            Finding::shown(what, 100.0 * rate(way, phase) / rate(of, phase), "%")
                .bound(Bound::Within { value, percent })
        };
        let phases = 0..SMALL.len();
        let of_old = |phase| share("new, in percent of old", phase, (NEW_AT, OLD_AT), 1.0);
        outcome.findings.extend(phases.clone().map(of_old));
        let ways = (TWO_AT, NEW_DELETE_AT);
        let of_one = |phase| share("two file systems, in percent of one", phase, ways, 20.0);
        outcome.findings.extend(phases.map(of_one));
        let against_one = |phase: usize| {
            let what = format!(
                "{size} files, {}: eight programs, times as fast as one",
                SMALL[phase]
            );
            let times = rate(EIGHT_AT, phase) / rate(ALONE_AT, phase);
            Finding::shown(what, times, "").bound(Bound::AtLeast(0.95))
        };
        outcome.findings.extend((0..SMALL.len()).map(against_one));
        let against_minix = |phase: usize| {
            let what = SMALL[phase];
            let times = rate(ALONE_AT, phase) / rate(MINIX_AT, phase);
            Finding::shown(
                format!("{size} files, {what}: times as fast as Minix, one program"),
                times,
                "",
            )
        };
        outcome.findings.extend([
            against_minix(0).bound(Bound::AtLeast(3.0)),
            against_minix(1).bound(Bound::AtLeast(0.9)),
            against_minix(2).bound(Bound::AtLeast(1.0 / 1.5)).because(
                "Minix changes bitmaps, inodes and the directory in memory, and writes their blocks once, at the end of the phase.",
            ),
        ]);
    }
}
