//! The deletion of lists, block by block and as a whole (ARU 5.3: "the order of operations also influences this overhead").

use super::shares::percent_of;
use super::system::{Spent, System, Way};
use crate::experiment::{Context, Outcome};
use crate::harness::median;
use crate::minix_ld::Deletion;
use crate::report::{Bound, Figure, Finding, Table, number};
use std::rc::Rc;
use tonearm_disk::DiskError;
use tonearm_drive_file::DriveFile;

/// Blocks of a list, and how many such lists are deleted.
const LISTS: [(u64, u64); 3] = [(1, 3000), (3, 2000), (100, 100)];

const HEAD_FIRST: usize = 0;
const TAIL_FIRST: usize = 1;
const WITH_LIST: usize = 2;
const DELETIONS: [(&str, Deletion); 3] = [
    ("DeleteBlock, head first", Deletion::HeadFirst),
    ("DeleteBlock, tail first", Deletion::TailFirst),
    ("DeleteList", Deletion::List),
];

/// Deletes `count` lists of `len` blocks, each in a unit.
fn delete(
    drive: &DriveFile,
    seed: u64,
    way: Way,
    (len, count): (u64, u64),
) -> Result<Spent, DiskError> {
    let system = Rc::new(System::new(drive, seed)?);
    let own = system.clone();
    system.machine.rt.block_on(async move {
        let disk = own.open(len * count + 1000, way.sequential).await?;
        let mut lists = Vec::new();
        for _ in 0..count {
            let mut unit = disk.begin();
            let (list, mut blocks) = (unit.new_list().await?, Vec::new());
            for _ in 0..len {
                let block = unit.new_block(list, blocks.last().copied()).await?;
                blocks.push(block);
            }
            unit.end().await?;
            lists.push((list, blocks));
        }
        let work = async {
            for (list, blocks) in &lists {
                let mut unit = disk.begin();
                way.deletion.free(&mut unit, *list, blocks).await?;
                unit.end().await?;
            }
            Ok::<_, DiskError>(())
        };
        let spent = own.measure(disk.store(), work).await?;
        disk.store().close().await?;
        Ok(spent)
    })
}

/// Deletes lists in each order, on both disks.
pub fn deletions(context: &Context<'_>, drive: &DriveFile, outcome: &mut Outcome) {
    let runs = context.count(10, 1);
    let mut table = Table::new(&[
        "blocks of a list",
        "way",
        "old, us for a list",
        "new, us for a list",
        "of old, %",
        "log bytes for a list",
    ]);
    for (len, lists) in LISTS {
        let count = context.count(lists, 10);
        let run = |run| {
            [true, false].map(|sequential| {
                DELETIONS.map(|(name, deletion)| {
                    let way = Way {
                        name,
                        sequential,
                        deletion,
                    };
                    delete(drive, context.seed(run), way, (len, count)).expect("lists")
                })
            })
        };
        let runs: Vec<[[Spent; 3]; 2]> = (0..runs).map(run).collect();
        for (at, (name, _)) in DELETIONS.iter().enumerate() {
            let us = |disk: usize| {
                let values = runs.iter().map(|run| run[disk][at].cpu_ns / 1e3);
                median(values.collect()) / count as f64
            };
            table.row(vec![
                number(len as f64),
                (*name).into(),
                number(us(0)),
                number(us(1)),
                number(percent_of(&runs, |run| (&run[1][at], &run[0][at]))),
                number(runs[0][1][at].log_bytes / count as f64),
            ]);
        }
        findings(context, len, &runs, outcome);
    }
    outcome.figures.push(Figure::table(
        "aru-deletions",
        "Lists deleted block by block and as a whole",
        "Each list in a unit of its own; processor time, median of the runs, with the simulated drive's.",
        table,
    ));
}

fn findings(context: &Context<'_>, len: u64, runs: &[[[Spent; 3]; 2]], outcome: &mut Outcome) {
    let new = &runs[0][1];
    for (way, name) in [(TAIL_FIRST, "tail first"), (WITH_LIST, "with the list")] {
        let percent = 100.0 * new[way].log_bytes / new[HEAD_FIRST].log_bytes;
        let what = format!("lists of {len}, deleted {name}: log in percent of head first");
        outcome
            .findings
            .push(Finding::shown(what, percent, "%").bound(Bound::within(100.0, 1.0)));
    }
    if context.is_full() {
        let percent = percent_of(runs, |run| (&run[1][TAIL_FIRST], &run[1][HEAD_FIRST]));
        let what =
            format!("lists of {len}, deleted tail first: processor time in percent of head first");
        outcome.findings.push(
            Finding::shown(what, percent, "%")
                .bound(Bound::within(100.0, 10.0))
                .because(
                    "Blocks are linked both ways, so no predecessor is searched (decision 14).",
                ),
        );
    }
}
