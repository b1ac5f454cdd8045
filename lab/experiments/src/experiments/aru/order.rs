//! The order of reads against that of writes: why programs side by side may read slower than one program.

use super::files::LoadError;
use super::programs::{Order, Phase, Small, orders};
use super::setup::{SEGMENTS, store};
use super::tonearm::Tonearm;
use crate::experiment::{Context, Outcome};
use crate::report::{Bound, Figure, Finding, Table, number};
use tonearm_drive_file::{DriveFile, Scheduler};

const PROGRAMS: usize = 8;
const LOAD: Small = Small {
    files: 10_000,
    bytes: 1 << 10,
};

const ORDERS: [(Order, &str); 3] = [
    (Order::SideBySide, "side by side"),
    (Order::Turns, "in turn"),
    (Order::OneByOne, "one program after the other"),
];

/// Segments of the buffer of a drive that can read ahead for every program.
const MANY_SEGMENTS: u32 = 16;

fn run(drive: &DriveFile, seed: u64, writes: Order) -> Result<Vec<Phase>, LoadError> {
    let (machine, store) = store(drive, SEGMENTS, seed)?;
    let own = machine.clone();
    machine.rt.block_on(async move {
        let system = Tonearm::open(&own, &store).await?;
        let reads = ORDERS.map(|(order, _)| order);
        let phases = orders(&own, &system, (PROGRAMS, LOAD), writes, &reads).await?;
        system.close().await?;
        Ok(phases)
    })
}

/// The drive, and what it would be with another order of requests and another buffer.
fn drives(drive: &DriveFile) -> [(&'static str, DriveFile); 3] {
    let (mut nearest, mut segments) = (drive.clone(), drive.clone());
    if let Some(disk) = &mut nearest.spec.disk {
        disk.scheduler = Scheduler::Sptf;
    }
    if let Some(disk) = &mut segments.spec.disk {
        disk.buffer.segments = disk.buffer.segments.max(MANY_SEGMENTS);
    }
    [
        ("as it is", drive.clone()),
        ("the nearest request first", nearest),
        ("16 segments of buffer", segments),
    ]
}

/// Runs the matrix.
pub fn read_orders(context: &Context<'_>, drive: &DriveFile, outcome: &mut Outcome) {
    let drives = drives(drive);
    // The other drives and the writes side by side have no bound.
    let drives = &drives[..if context.is_full() { 3 } else { 1 }];
    let writes = &ORDERS[usize::from(!context.is_full())..];
    let mut cases = Vec::new();
    for (name, drive) in drives {
        for &(writes, written) in writes {
            cases.push((*name, drive, writes, written));
        }
    }
    let seed = context.seed(0);
    let results = context.map(&cases, |(_, drive, writes, _)| {
        run(drive, seed, *writes).expect("small files")
    });
    let mut table = Table::new(&[
        "drive",
        "written",
        "read",
        "files/s",
        "requests not near the one before, %",
    ]);
    let mut rates = Vec::new();
    for ((name, _, _, written), phases) in cases.iter().zip(&results) {
        for ((_, read), phase) in ORDERS.iter().zip(phases) {
            let rate = LOAD.files as f64 * 1e9 / phase.spent.time.0 as f64;
            rates.push(rate);
            table.row(vec![
                (*name).into(),
                (*written).into(),
                (*read).into(),
                number(rate),
                number(100.0 * phase.spent.jump_share()),
            ]);
        }
    }
    // Places in the table: the drive, the order of writing, that of reading.
    let skipped = ORDERS.len() - writes.len();
    let rate = |drive: usize, order: usize, reads: usize| {
        rates[3 * (writes.len() * drive + order - skipped) + reads]
    };
    findings(&rate, outcome);
    if context.is_full() {
        other_drives(&rate, outcome);
    }
    outcome.figures.push(Figure::table(
        "aru-orders",
        "1-KB files read in the order in which they were written, and in others",
        "Eight programs with a directory each. Side by side: all at once, each in the order of its own files. In turn: one file of \
         each program, one at a time.",
        table,
    ));
}

fn findings(rate: &dyn Fn(usize, usize, usize) -> f64, outcome: &mut Outcome) {
    const SIDE_BY_SIDE: usize = 0;
    const TURNS: usize = 1;
    const ONE_BY_ONE: usize = 2;
    let own_order = rate(0, ONE_BY_ONE, ONE_BY_ONE);
    outcome.findings.extend([
        Finding::shown(
            "1 KB files, written in turn: read side by side, times as fast as one program reads what it wrote",
            rate(0, TURNS, SIDE_BY_SIDE) / own_order,
            "",
        )
        .bound(Bound::AtLeast(0.9))
        .because("Programs that read side by side are as fast as one, if they read in the order of the writes."),
        Finding::shown(
            "1 KB files, written one program after the other: read side by side, times slower than in the order of the writes",
            own_order / rate(0, ONE_BY_ONE, SIDE_BY_SIDE),
            "",
        )
        .bound(Bound::AtLeast(3.0))
        .because(
            "Each program reads in sequence, but the drive gets requests of eight sequences in turn, and moves its arm for each. It \
             reads ahead after one of them at a time.",
        ),
        Finding::shown(
            "1 KB files, written in turn: read one program after the other, times slower than in the order of the writes",
            rate(0, TURNS, TURNS) / rate(0, TURNS, ONE_BY_ONE),
            "",
        )
        .bound(Bound::AtLeast(3.0))
        .because("Between two files of a program lie those of seven others."),
    ]);
}

/// What does not make reads side by side faster.
fn other_drives(rate: &dyn Fn(usize, usize, usize) -> f64, outcome: &mut Outcome) {
    const SIDE_BY_SIDE: usize = 0;
    outcome.findings.extend([
        Finding::shown(
            "1 KB files, written side by side: read so, with 16 segments of the drive's buffer, times as fast as without",
            rate(2, SIDE_BY_SIDE, SIDE_BY_SIDE) / rate(0, SIDE_BY_SIDE, SIDE_BY_SIDE),
            "",
        ),
        Finding::shown(
            "1 KB files, written side by side: read so, the nearest request first, times as fast as first come, first served",
            rate(1, SIDE_BY_SIDE, SIDE_BY_SIDE) / rate(0, SIDE_BY_SIDE, SIDE_BY_SIDE),
            "",
        ),
    ]);
}
