//! Figure 6: a large file.

use super::programs::{LARGE, Large, Phase};
use super::runs::Spread;
use super::setup::{self, LargeFile, NEW, OLD, SEGMENTS, System};
use crate::experiment::{Context, Outcome};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_disk::HomeParams;
use tonearm_drive_file::DriveFile;

/// Operations under way at a time, where units are concurrent.
const DEPTH: usize = 8;
/// Blocks of the file (ARU 5.2: 78.125 MB).
const BLOCKS: usize = 20_000;
const BYTES: f64 = BLOCKS as f64 * 4096.0;

/// A system, and the operations that the program has under way.
const WAYS: [(&str, System, usize); 5] = [
    ("old", OLD, 1),
    ("new", NEW, 1),
    ("store, one operation at a time", System::Store(SEGMENTS), 1),
    (
        "store, overwrite",
        System::Store(HomeParams::Overwrite),
        DEPTH,
    ),
    ("Minix, one operation at a time", System::Minix, 1),
];
/// Their places above.
const OLD_AT: usize = 0;
const NEW_AT: usize = 1;
const ALONE_AT: usize = 2;
const OVERWRITE_AT: usize = 3;
const MINIX_AT: usize = 4;

/// The paper's throughput of "new" in percent of "old"'s, and how far ours may be from it.
const PAPER: [(f64, f64); 5] = [
    (97.1, 5.0),
    (99.5, 1.0),
    (99.5, 1.0),
    (99.5, 1.0),
    (99.5, 1.0),
];

/// Runs Figure 6.
pub fn large_file(
    context: &Context<'_>,
    drive: &DriveFile,
    bandwidth: [f64; 2],
    outcome: &mut Outcome,
) {
    let runs = context.count(10, 1);
    let mut cases = Vec::new();
    for way in 0..WAYS.len() {
        cases.extend((0..runs).map(|run| (way, run)));
    }
    let results = context.map(&cases, |(way, run)| {
        let (_, system, depth) = WAYS[*way];
        let load = Large {
            blocks: BLOCKS,
            depth,
        };
        let seed = context.seed(*run);
        setup::run(drive, seed, system, LargeFile { load, seed }).expect("a large file")
    });
    let mut table = Table::new(&[
        "phase",
        "way",
        "MB/s",
        "spread, %",
        "of bandwidth, %",
        "drive busy, %",
        "processor busy, %",
        "requests not near the one before, %",
        "log bytes for a block",
    ]);
    let mut lines = vec![Vec::new(); WAYS.len()];
    for (index, phase) in LARGE.iter().enumerate() {
        for (way, of_way) in results.chunks(runs as usize).enumerate() {
            let each = |value: &dyn Fn(&Phase) -> f64| {
                Spread::of(of_way.iter().map(|phases| value(&phases[index])))
            };
            let rate = each(&|phase| BYTES * 1e3 / phase.spent.time.0 as f64);
            let full = bandwidth[usize::from(phase.starts_with("read"))] / 1e6;
            lines[way].push(((index + 1) as f64, rate.mean));
            table.row(vec![
                (*phase).into(),
                WAYS[way].0.into(),
                number(rate.mean),
                number(rate.percent),
                number(100.0 * rate.mean / full),
                number(100.0 * each(&|phase| phase.spent.busy_share()).mean),
                number(100.0 * each(&|phase| phase.spent.host_share()).mean),
                number(100.0 * each(&|phase| phase.spent.jump_share()).mean),
                number(each(&|phase| phase.log_bytes as f64 / BLOCKS as f64).mean),
            ]);
        }
    }
    findings(&lines, bandwidth, outcome);
    let lines = lines.into_iter().zip(WAYS).enumerate();
    let panel = Panel {
        title: drive.name.clone(),
        x: Axis::of("", LARGE.map(str::to_string).to_vec()),
        y: Axis::linear("throughput, MB/s"),
        lines: lines
            .map(|(color, (points, (name, _, _)))| Line::new(name, Style::Dots, color, points))
            .collect(),
        legend: Legend::Outside,
    };
    outcome.figures.push(
        Figure::plot(
            "aru-large",
            "A file of 78.125 MB",
            "Figure 6 of the paper: written in sequence (write1) and read (read1), written at random (write2), read at random \
             (read2) and in sequence (read3). In segments, as in the paper, blocks lie in the order in which they were written, so \
             read3 is slower after random writes; under overwrite and in Minix they have fixed places.",
            vec![panel],
        )
        .with(table),
    );
}

fn findings(lines: &[Vec<(f64, f64)>], bandwidth: [f64; 2], outcome: &mut Outcome) {
    let rate = |way: usize, phase: usize| lines[way][phase].1;
    for (phase, (value, percent)) in PAPER.into_iter().enumerate() {
        let share = 100.0 * rate(NEW_AT, phase) / rate(OLD_AT, phase);
        let what = format!("a large file, {}: new, in percent of old", LARGE[phase]);
        let printed = if phase == 0 { "97.1" } else { "99.3 to 99.8" };
        outcome.findings.push(
            Finding::shown(what, share, "%")
                .paper(printed)
                .bound(Bound::Within { value, percent }),
        );
    }
    let of_bandwidth = |way: usize| 100.0 * rate(way, 0) * 1e6 / bandwidth[0];
    let again = |way: usize| 100.0 * rate(way, 4) / rate(way, 1);
    outcome.findings.extend([
        Finding::shown(
            "a large file, write1: share of the drive's bandwidth",
            of_bandwidth(NEW_AT),
            "%",
        )
        .paper("85")
        .bound(Bound::AtLeast(85.0)),
        Finding::shown(
            "a large file, write1, file system of the store: share of the drive's bandwidth",
            of_bandwidth(ALONE_AT),
            "%",
        )
        .bound(Bound::AtLeast(85.0)),
        Finding::shown(
            "a large file, write1, Minix: share of the drive's bandwidth",
            of_bandwidth(MINIX_AT),
            "%",
        )
        .paper("13")
        .bound(Bound::AtMost(13.0)),
        Finding::shown(
            "a large file, write1: times as fast as Minix",
            rate(ALONE_AT, 0) / rate(MINIX_AT, 0),
            "",
        )
        .paper("85/13 = 6.5")
        .bound(Bound::AtLeast(3.0)),
        Finding::shown(
            "a large file, write2: times as fast as Minix",
            rate(ALONE_AT, 2) / rate(MINIX_AT, 2),
            "",
        )
        .bound(Bound::AtLeast(3.0)),
        // Fixed places keep their order. Segments have the order of the writes.
        Finding::shown(
            "a large file, segments: read3 against read1",
            again(ALONE_AT),
            "%",
        )
        .bound(Bound::AtMost(50.0)),
        Finding::shown(
            "a large file, overwrite: read3 against read1",
            again(OVERWRITE_AT),
            "%",
        )
        .bound(Bound::AtLeast(95.0)),
    ]);
}
