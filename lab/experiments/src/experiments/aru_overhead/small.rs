//! Small files, created, written, read and deleted by one program (ARU 5.2, Figure 5).

use super::shares::percent_of;
use super::system::{Spent, System, Way};
use crate::experiment::{Context, Outcome};
use crate::harness::median;
use crate::minix_ld::{Deletion, FileError, FileSystem, ROOT};
use crate::report::{Bound, Figure, Finding, Table, number};
use std::rc::Rc;
use tonearm_drive_file::DriveFile;

/// ARU, Table 1.
const WAYS: [Way; 3] = [
    way("old", true, Deletion::HeadFirst),
    way("new", false, Deletion::HeadFirst),
    way("new, delete", false, Deletion::List),
];
/// Their places above.
const OLD: usize = 0;
const NEW: usize = 1;
const NEW_DELETE: usize = 2;

const fn way(name: &'static str, sequential: bool, deletion: Deletion) -> Way {
    Way {
        name,
        sequential,
        deletion,
    }
}

/// The phases.
const PHASES: [&str; 3] = ["create and write", "read", "delete"];
/// Their places above.
const CREATE: usize = 0;
const READ: usize = 1;
const DELETE: usize = 2;

/// Files, and the time of the paper's "new" in percent of that of "old".
struct Load {
    size: &'static str,
    files: u64,
    bytes: usize,
    create: f64,
    delete: f64,
    delete_list: f64,
}

/// ARU 5.2 and 5.3.
const LOADS: [Load; 2] = [
    Load {
        size: "1 KB",
        files: 10_000,
        bytes: 1 << 10,
        create: 107.2,
        delete: 124.6,
        delete_list: 120.5,
    },
    Load {
        size: "10 KB",
        files: 1_000,
        bytes: 10 << 10,
        create: 104.0,
        delete: 125.5,
        delete_list: 117.9,
    },
];

/// Files of a directory, whose entries are one block.
const DIRECTORY_FILES: u64 = 100;

/// Runs the phases on a new store. Each ends when everything is durable.
fn phases(
    drive: &DriveFile,
    seed: u64,
    way: Way,
    (files, bytes): (u64, usize),
) -> Result<[Spent; 3], FileError> {
    let system = Rc::new(System::new(drive, seed)?);
    let own = system.clone();
    system.machine.rt.block_on(async move {
        let blocks = files * (bytes.div_ceil(4096) as u64 + 1) + 1000;
        let disk = own.open(blocks, way.sequential).await?;
        let files_of = FileSystem::format(&disk, &own.machine.rt, way.deletion).await?;
        let mut directories = Vec::new();
        for number in 0..files.div_ceil(DIRECTORY_FILES) {
            let name = format!("directory{number}");
            directories.push(files_of.make_directory(ROOT, &name).await?);
        }
        let data = vec![0x5a; bytes];
        let mut phases = [Spent::default(); 3];
        for (index, phase) in phases.iter_mut().enumerate() {
            let work = async {
                for file in 0..files {
                    let directory = directories[(file / DIRECTORY_FILES) as usize];
                    let name = format!("file{file:06}");
                    match index {
                        CREATE => {
                            let file = files_of.make(directory, &name).await?;
                            files_of.write(file, 0, &data).await?;
                        }
                        READ => {
                            let file = files_of.look_up(directory, &name).await?;
                            let read = files_of.read(file, 0, bytes as u64).await?;
                            assert!(read == data, "a file has what was written");
                        }
                        _ => files_of.delete(directory, &name).await?,
                    }
                }
                Ok::<_, FileError>(())
            };
            *phase = own.measure(disk.store(), work).await?;
        }
        disk.store().close().await?;
        Ok(phases)
    })
}

/// Runs Figure 5.
pub fn small_files(context: &Context<'_>, drive: &DriveFile, outcome: &mut Outcome) {
    let runs = context.count(10, 1);
    let mut table = Table::new(&[
        "phase",
        "files",
        "way",
        "processor, us for a file",
        "of old, %",
        "commits for a file",
        "log bytes for a file",
        "files/s of the drive",
    ]);
    for load in &LOADS {
        let files = context.count(load.files, 100);
        let run = |run| {
            let of = |way| phases(drive, context.seed(run), way, (files, load.bytes));
            WAYS.map(|way| of(way).expect("small files"))
        };
        let runs: Vec<[[Spent; 3]; 3]> = (0..runs).map(run).collect();
        for (phase, name) in PHASES.iter().enumerate() {
            for (way, of_way) in WAYS.iter().enumerate() {
                let each = |value: &dyn Fn(&Spent) -> f64| {
                    let values = runs.iter().map(|run| value(&run[way][phase]));
                    median(values.collect()) / files as f64
                };
                let of_old = percent_of(&runs, |run| (&run[way][phase], &run[OLD][phase]));
                table.row(vec![
                    (*name).into(),
                    format!("{files} of {}", load.size),
                    of_way.name.into(),
                    number(each(&|spent| spent.cpu_ns / 1e3)),
                    number(of_old),
                    number(each(&|spent| spent.commits)),
                    number(each(&|spent| spent.log_bytes)),
                    number(1e9 / each(&|spent| spent.drive_ns)),
                ]);
            }
        }
        same_work(load, &runs, outcome);
        if context.is_full() {
            processor_time(load, &runs, outcome);
        }
    }
    outcome.figures.push(Figure::table(
        "aru-overhead",
        "Small files on the Logical Disk",
        "Processor time for a file, median of the runs, with the simulated drive's. The share of old is the median over pairs of runs \
         with one seed.",
        table,
    ));
}

/// What the drive gets does not depend on how units are kept until they end.
fn same_work(load: &Load, runs: &[[[Spent; 3]; 3]], outcome: &mut Outcome) {
    for (way, phase) in [(NEW, CREATE), (NEW, DELETE), (NEW_DELETE, DELETE)] {
        let (new, old) = (&runs[0][way][phase], &runs[0][OLD][phase]);
        let what = format!(
            "{} files, {}: log of {}, in percent of old's",
            load.size, PHASES[phase], WAYS[way].name
        );
        let percent = 100.0 * new.log_bytes / old.log_bytes;
        outcome
            .findings
            .push(Finding::shown(what, percent, "%").bound(Bound::within(100.0, 1.0)));
    }
}

fn processor_time(load: &Load, runs: &[[[Spent; 3]; 3]], outcome: &mut Outcome) {
    let Load {
        create,
        delete,
        delete_list,
        ..
    } = *load;
    let mut found = |what: &str, percent: f64, paper: f64, printed: String, bound: Bound| {
        let what = format!("{} files, {what}", load.size);
        let finding = Finding::shown(what, percent, "%").paper(printed);
        let share = number(paper);
        outcome.findings.push(finding.bound(bound).because(format!(
            "The paper's share of {share} % is of the whole time, with the drive's; here it is of the processor's."
        )));
    };
    let cases = [
        ("create and write: new", NEW, CREATE, create),
        ("delete: new", NEW, DELETE, delete),
        ("delete: new, delete", NEW_DELETE, DELETE, delete_list),
    ];
    for (what, way, phase, paper) in cases {
        let percent = percent_of(runs, |run| (&run[way][phase], &run[OLD][phase]));
        let what = format!("{what}, processor time in percent of old's");
        found(
            &what,
            percent,
            paper,
            number(paper),
            Bound::within(paper, 5.0),
        );
    }
    let read = percent_of(runs, |run| (&run[NEW][READ], &run[OLD][READ]));
    let what = "read: new, processor time in percent of old's";
    let printed = "slightly less than 100".into();
    found(what, read, 100.0, printed, Bound::within(100.0, 5.0));
    let list = percent_of(runs, |run| (&run[NEW_DELETE][DELETE], &run[NEW][DELETE]));
    let paper = 100.0 * delete_list / delete;
    let what = "delete: new, delete, processor time in percent of new's";
    found(what, list, paper, number(paper), Bound::within(paper, 5.0));
}
