//! The micro-benchmarks of the paper on atomic recovery units, on the Logical Disk.

use crate::experiment::{Context, Drives, Experiment, Outcome, Random};
use crate::harness::{Brackets, Client, Deletion, SimStore, StoreShape};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_disk::{Disk, DiskError, HomeParams};
use tonearm_drive_file::DriveFile;
use tonearm_format::Placement;
use tonearm_rt::Rt;

pub const EXPERIMENT: Experiment = Experiment {
    name: "aru",
    title: "Atomic recovery units: small files, a large file, the smallest units",
    source: "ARU 5.2 and 5.3, Figures 5 and 6",
    about: "Small files are created and written, read, and deleted, each on a list of its own; a large file is written \
            and read in sequence and at random; half a million units are begun and ended with nothing in them, and with \
            the least that a unit can have. Units are compared with the same operations without units, and eight clients \
            with units side by side with one client with one unit at a time.",
    drives: Drives::One("hp_c3010"),
    known: &[],
    run,
};

const MIB: u64 = 1 << 20;
/// The partition of ARU 5.3: 100,000 blocks.
const STORE_BYTES: u64 = 400 * MIB;
/// The segments of ARU 5.3.
const SEGMENTS: HomeParams = HomeParams::Segments {
    segment_bytes: 512 << 10,
    spare_percent: 10,
    placement: Placement::Append,
};
/// Homes on which the large file is written.
const HOMES: [(&str, HomeParams); 2] =
    [("segments", SEGMENTS), ("overwrite", HomeParams::Overwrite)];
const LOG_BYTES: u64 = 32 * MIB;
const MEMORY_BYTES: u64 = 8 * MIB;
/// Clients with units side by side.
const CLIENTS: usize = 8;
/// Reads that a file system has under way in the large file.
const READS: usize = 8;

/// One way to run the load: the number of clients, and how they use units.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    clients: usize,
    brackets: Brackets,
    deletion: Deletion,
}

const WAYS: [Way; 4] = [
    Way {
        name: "no units",
        clients: 1,
        brackets: Brackets::None,
        deletion: Deletion::Blocks,
    },
    Way {
        name: "one unit at a time",
        clients: 1,
        brackets: Brackets::Aru,
        deletion: Deletion::Blocks,
    },
    Way {
        name: "the same, list delete",
        clients: 1,
        brackets: Brackets::Aru,
        deletion: Deletion::List,
    },
    Way {
        name: "units of 8 clients side by side, list delete",
        clients: CLIENTS,
        brackets: Brackets::Aru,
        deletion: Deletion::List,
    },
];

/// Files of so many, KB, and blocks each.
const SIZES: [(u64, &str, usize); 2] = [(10_000, "1 KB", 1), (1_000, "10 KB", 3)];
const PHASES: [&str; 3] = ["create and write", "read", "delete"];

/// The cost of a phase.
#[derive(Clone, Copy, Default)]
struct Phase {
    time: Nanos,
    log_bytes: u64,
}

/// Measures the cost of a phase from now on.
struct Meter {
    rt: Rt,
    began: Nanos,
    log_bytes: u64,
}

impl Meter {
    fn new(rt: &Rt, disk: &Disk) -> Self {
        Self {
            rt: rt.clone(),
            began: rt.now(),
            log_bytes: disk.stats().log_bytes,
        }
    }

    fn end(self, disk: &Disk) -> Phase {
        Phase {
            time: Nanos(self.rt.now().0 - self.began.0),
            log_bytes: disk.stats().log_bytes - self.log_bytes,
        }
    }
}

fn store(drive: &DriveFile, home: HomeParams, seed: u64) -> Result<SimStore, DiskError> {
    let shape = StoreShape {
        log_bytes: Some(LOG_BYTES),
        memory_bytes: MEMORY_BYTES,
        ..StoreShape::new(drive, home, STORE_BYTES)
    };
    SimStore::create(&shape, seed)
}

/// The three phases of small files. The disk is flushed at the end of each, and its memory is written home before the
/// next.
fn small(
    drive: &DriveFile,
    seed: u64,
    way: Way,
    files: u64,
    blocks: usize,
) -> Result<[Phase; 3], DiskError> {
    let store = Rc::new(store(drive, SEGMENTS, seed)?);
    let own = store.clone();
    store.rt.block_on(async move {
        let disk = own.open().await?;
        let each = files as usize / way.clients;
        let mut clients = Vec::new();
        for _ in 0..way.clients {
            let how = (way.brackets, way.deletion);
            clients.push(Rc::new(Client::new(&disk, each, blocks, how).await?));
        }
        disk.flush().await?;
        let mut phases = [Phase::default(); 3];
        for (index, phase) in phases.iter_mut().enumerate() {
            let meter = Meter::new(&own.rt, &disk);
            let mut running = Vec::new();
            for client in &clients {
                let client = client.clone();
                running.push(own.rt.spawn(async move {
                    for file in 0..each {
                        match index {
                            0 => client.create().await?,
                            1 => client.read(file).await?,
                            _ => client.delete(file).await?,
                        }
                    }
                    Ok::<_, DiskError>(())
                }));
            }
            for client in running {
                client.await?;
            }
            disk.flush().await?;
            *phase = meter.end(&disk);
            // The content of memory is written home, so that reads go to the drive.
            own.rt.sleep(Nanos::from_secs(60)).await;
        }
        disk.close().await?;
        Ok(phases)
    })
}

/// Phases of the large file, with the paper's names.
const LARGE: [&str; 5] = [
    "write1, in sequence",
    "read1, in sequence",
    "write2, at random",
    "read2, at random",
    "read3, in sequence",
];

fn large(
    drive: &DriveFile,
    home: HomeParams,
    seed: u64,
    blocks: u64,
) -> Result<[Phase; 5], DiskError> {
    let store = Rc::new(store(drive, home, seed)?);
    let own = store.clone();
    store.rt.block_on(async move {
        let disk = own.open().await?;
        let list = disk.new_list().await?;
        let page = vec![0xa5; 4096];
        let mut file = Vec::new();
        let mut random = Random::new(seed, 7);
        let mut phases = [Phase::default(); 5];
        for (index, phase) in phases.iter_mut().enumerate() {
            let mut order: Vec<usize> = (0..blocks as usize).collect();
            if index == 2 || index == 3 {
                shuffle(&mut order, &mut random);
            }
            let meter = Meter::new(&own.rt, &disk);
            match index {
                0 => {
                    for _ in order {
                        let block = disk.new_block(list, file.last().copied()).await?;
                        disk.write_block(block, &page).await?;
                        file.push(block);
                    }
                }
                2 => {
                    for at in order {
                        disk.write_block(file[at], &page).await?;
                    }
                }
                _ => {
                    for ahead in order.chunks(READS) {
                        let reads = ahead.iter().map(|at| {
                            let (disk, block) = (disk.clone(), file[*at]);
                            own.rt.spawn(async move { disk.read_block(block).await })
                        });
                        for read in reads.collect::<Vec<_>>() {
                            read.await?;
                        }
                    }
                }
            }
            disk.flush().await?;
            *phase = meter.end(&disk);
            own.rt.sleep(Nanos::from_secs(60)).await;
        }
        disk.close().await?;
        Ok(phases)
    })
}

fn shuffle(order: &mut [usize], random: &mut Random) {
    for index in (1..order.len()).rev() {
        order.swap(index, random.below(index as u64 + 1) as usize);
    }
}

/// Bytes of log and the drive's time for `count` units, which are empty or `change` one word of a block.
fn smallest(drive: &DriveFile, seed: u64, count: u64, change: bool) -> Result<Phase, DiskError> {
    let store = Rc::new(store(drive, SEGMENTS, seed)?);
    let own = store.clone();
    store.rt.block_on(async move {
        let disk = own.open().await?;
        let list = disk.new_list().await?;
        let block = disk.new_block(list, None).await?;
        let mut page = vec![0xa5; 4096];
        disk.write_block(block, &page).await?;
        disk.flush().await?;
        let meter = Meter::new(&own.rt, &disk);
        for number in 0..count {
            let mut unit = disk.begin();
            if change {
                page[..8].copy_from_slice(&number.to_le_bytes());
                unit.write_block(block, &page).await?;
            }
            unit.end().await?;
        }
        disk.flush().await?;
        let phase = meter.end(&disk);
        disk.close().await?;
        Ok(phase)
    })
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    let seed = context.seed(0);
    let mut outcome = Outcome::default();
    small_files(context, drive, seed, &mut outcome);
    large_file(context, drive, seed, &mut outcome);
    smallest_units(context, drive, seed, &mut outcome);
    outcome.notes = vec![
        "Drive time alone: what the host takes for it is not in these figures; tonearm-bench-virtual measures it.".into(),
        "Creation and deletion are units as in the paper: the list, the inode's block and the directory's block; the \
         file's own blocks are written by simple operations. Each client has a directory of its own, and changes its inodes \
         of 64 bytes and entries of 16."
            .into(),
        "The paper compares two versions of its prototype, with one unit at a time and with concurrent units. Here it is \
         one store: without units, with one unit at a time, and with units of eight clients side by side."
            .into(),
        "Each phase ends with a flush; before the next one everything is written home, so that reads are of the drive."
            .into(),
        format!(
            "Blocks of 4 KiB, a store of {} MiB in segments of 0.5 MB with a log of {} MiB on one drive, {} MiB of memory for \
             written blocks. Each block is written twice, to the log and to a segment; the paper's prototype has its \
             segments alone.",
            STORE_BYTES / MIB,
            LOG_BYTES / MIB,
            MEMORY_BYTES / MIB
        ),
    ];
    outcome
}

fn smallest_units(context: &Context<'_>, drive: &DriveFile, seed: u64, outcome: &mut Outcome) {
    let units = context.count(500_000, 50_000);
    let phases = context.map(&[false, true], |change| {
        smallest(drive, seed, units, *change).expect("units end")
    });
    let each = |amount: u64| amount as f64 / units as f64;
    outcome.findings.extend([
        Finding::shown("an empty unit: log", each(phases[0].log_bytes), "bytes")
            .paper("25 (24 segments of 0.5 MB for 500,000)")
            .bound(Bound::AtMost(0.0))
            .because("A unit without changes has nothing to tell the log. It is dropped, so it is not the paper's empty unit."),
        Finding::shown(
            "the smallest unit that is not empty, one word of a block: log",
            each(phases[1].log_bytes),
            "bytes",
        )
        .paper("25, an empty one")
        .bound(Bound::AtMost(32.0)),
        Finding::shown(
            "the smallest unit that is not empty: time of the drive",
            each(phases[1].time.0) / 1e3,
            "us",
        )
        .paper("78.47, an empty one, with the processor's"),
    ]);
}

fn small_files(context: &Context<'_>, drive: &DriveFile, seed: u64, outcome: &mut Outcome) {
    // As many in a quick run: with fewer files there is less write-back, and units cost the drive less than none.
    let sizes = SIZES;
    let mut cases = Vec::new();
    for size in sizes {
        cases.extend(WAYS.map(|way| (size, way)));
    }
    let results = context.map(&cases, |((files, _, blocks), way)| {
        small(drive, seed, *way, *files, *blocks).expect("small files")
    });
    let rate = |files: u64, phase: &Phase| files as f64 * 1e9 / phase.time.0 as f64;
    let mut table = Table::new(&["phase", "files", "way", "files/s", "log bytes for a file"]);
    let mut lines = vec![Vec::new(); WAYS.len()];
    let mut names = Vec::new();
    for ((files, size, _), results) in sizes.into_iter().zip(results.chunks(WAYS.len())) {
        for (index, phase) in PHASES.iter().enumerate() {
            names.push(format!("{phase}, {size}"));
            for (way, phases) in results.iter().enumerate() {
                let files_s = rate(files, &phases[index]);
                lines[way].push((names.len() as f64, files_s));
                table.row(vec![
                    (*phase).into(),
                    format!("{files} of {size}"),
                    WAYS[way].name.into(),
                    number(files_s),
                    number(phases[index].log_bytes as f64 / files as f64),
                ]);
            }
        }
        let percent = |phase: usize, way: usize, than: usize| {
            let time = |way: usize| results[way][phase].time.0 as f64;
            100.0 * (time(way) / time(than) - 1.0)
        };
        // As the paper has it: create, delete, delete with the list.
        let [create, delete, delete_list] = match size {
            "1 KB" => [7.2, 24.6, 20.5],
            _ => [4.0, 25.5, 17.9],
        };
        let finding = |what: &str, percent: f64, paper: f64| {
            Finding::shown(format!("{size} files, {what}"), percent, "%")
                .paper(number(paper))
                .bound(Bound::AtMost(paper))
        };
        outcome.findings.extend([
            finding(
                "create and write: units side by side, dearer than one at a time",
                percent(0, 3, 2),
                create,
            ),
            finding(
                "delete: units, dearer than no units",
                percent(2, 1, 0),
                delete,
            ),
            finding(
                "delete: units with list delete, dearer than no units",
                percent(2, 2, 0),
                delete_list,
            ),
        ]);
    }
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
            "Small files on lists",
            "Figure 5 of the paper. A creation costs the log its patched list and allocation records and two blocks; \
             units cost the drive nothing that simple operations do not.",
            vec![panel],
        )
        .with(table),
    );
}

fn large_file(context: &Context<'_>, drive: &DriveFile, seed: u64, outcome: &mut Outcome) {
    // 78.125 MB of 4-KiB blocks.
    let blocks = context.count(20_000, 2_000);
    let results = context.map(&HOMES, |(_, home)| {
        large(drive, *home, seed, blocks).expect("a large file")
    });
    let rate = |phase: &Phase| blocks as f64 * 4096.0 * 1e9 / phase.time.0 as f64 / 1e6;
    let mut table = Table::new(&["phase", "home", "MB/s", "log bytes for a block"]);
    let mut lines = Vec::new();
    for (color, ((home, _), phases)) in HOMES.iter().zip(&results).enumerate() {
        let mut points = Vec::new();
        for (index, (name, phase)) in LARGE.iter().zip(phases).enumerate() {
            points.push(((index + 1) as f64, rate(phase)));
            table.row(vec![
                (*name).into(),
                (*home).into(),
                number(rate(phase)),
                number(phase.log_bytes as f64 / blocks as f64),
            ]);
        }
        lines.push(Line::new(home, Style::Dots, color, points));
        let again = Finding::shown(
            format!("a large file, {home}: read in sequence after random writes, against before"),
            100.0 * rate(&phases[4]) / rate(&phases[1]),
            "%",
        );
        // Fixed places keep their order. Segments have the order of the writes.
        outcome.findings.push(match *home {
            "overwrite" => again.bound(Bound::AtLeast(95.0)),
            _ => again.bound(Bound::AtMost(50.0)),
        });
    }
    let panel = Panel {
        title: drive.name.clone(),
        x: Axis::of("", LARGE.map(str::to_string).to_vec()),
        y: Axis::linear("throughput, MB/s"),
        lines,
        legend: Legend::Outside,
    };
    outcome.figures.push(
        Figure::plot(
            "aru-large",
            "A file of 78.125 MB on one list",
            "Figure 6 of the paper. In segments, as in the paper, blocks lie in the order in which they were written, so \
             read3 is slower after random writes; under overwrite they have fixed places.",
            vec![panel],
        )
        .with(table),
    );
}
