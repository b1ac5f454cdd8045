//! The smallest units: the third benchmark of ARU 5.2.

use super::system::{Spent, System};
use crate::experiment::{Context, Outcome};
use crate::harness::median;
use crate::report::{Bound, Finding};
use std::rc::Rc;
use tonearm_disk::DiskError;
use tonearm_drive_file::DriveFile;

/// The paper's time of an empty unit, in us.
const PAPER_US: f64 = 78.47;
/// The clock rate of a present processor over that of the paper's, which has 70 MHz.
const CLOCK_RATIO: f64 = 3500.0 / 70.0;

/// Takes `count` units, which are empty or `change` one word of a block.
fn smallest(drive: &DriveFile, seed: u64, count: u64, change: bool) -> Result<Spent, DiskError> {
    let system = Rc::new(System::new(drive, seed)?);
    let own = system.clone();
    system.machine.rt.block_on(async move {
        let disk = own.open(10, false).await?;
        let mut unit = disk.begin();
        let list = unit.new_list().await?;
        let block = unit.new_block(list, None).await?;
        let mut page = vec![0xa5; 4096];
        unit.write_block(block, &page).await?;
        unit.end().await?;
        let store = disk.store();
        let work = async {
            for number in 0..count {
                let mut unit = disk.begin();
                if change {
                    page[..8].copy_from_slice(&number.to_le_bytes());
                    unit.write_block(block, &page).await?;
                }
                unit.end().await?;
            }
            Ok::<_, DiskError>(())
        };
        let spent = own.measure(store, work).await?;
        store.close().await?;
        Ok(spent)
    })
}

/// Runs it.
pub fn smallest_units(context: &Context<'_>, drive: &DriveFile, outcome: &mut Outcome) {
    let units = context.count(500_000, 50_000);
    let runs = context.count(5, 1);
    let of = |change| {
        let run = |run| smallest(drive, context.seed(run), units, change).expect("units end");
        (0..runs).map(run).collect::<Vec<Spent>>()
    };
    let (empty, changed) = (of(false), of(true));
    let log = |runs: &[Spent]| runs[0].log_bytes / units as f64;
    let us = |runs: &[Spent]| {
        let each = runs.iter().map(|spent| spent.cpu_ns / 1e3 / units as f64);
        median(each.collect())
    };
    outcome.findings.extend([
        Finding::shown(
            "the smallest unit, one word of a block: log",
            log(&changed),
            "bytes",
        )
        .paper("25, an empty one (24 segments of 0.5 MB for 500,000)")
        .bound(Bound::within(25.0, 20.0)),
        Finding::shown("an empty unit: log", log(&empty), "bytes")
            .paper("25")
            .because(
                "A unit without changes has nothing to tell the log. The smallest unit with a change does the work of the paper's empty \
                 unit, whose end is a record in the log.",
            ),
    ]);
    if context.is_full() {
        let paper = PAPER_US / CLOCK_RATIO;
        outcome.findings.extend([
            Finding::shown("the smallest unit: processor time", us(&changed), "us")
                .paper("78.47, an empty one, at 70 MHz")
                .bound(Bound::within(paper, 50.0))
                .because(
                    "The bound is of as many cycles as in the paper, at 3.5 GHz, up to a factor of about two.",
                ),
            Finding::shown("an empty unit: processor time", us(&empty), "us"),
        ]);
    }
}
