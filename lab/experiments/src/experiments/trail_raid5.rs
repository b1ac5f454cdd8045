//! Small durable writes on RAID-5, with and without a log that follows its drive's head (Trail 7).

use crate::experiment::{Context, Drives, Experiment, Outcome, Random};
use crate::harness::{Arrivals, SimStore, StoreShape, Times, numbered_block};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::Device;
use tonearm_disk::{DiskError, HomeParams, Volume};
use tonearm_drive_file::DriveFile;
use tonearm_format::{ArrayLevel, HeadKind};
use tonearm_rt::{Data, IoError, Op, Rt};

pub const EXPERIMENT: Experiment = Experiment {
    name: "trail-raid5",
    title: "Small writes on RAID-5",
    source: "Trail 7, the last sentence",
    about: "Clients write 4 KiB at random and durably to RAID-5 on five drives: in place, where each write reads and \
            writes data and parity, and through the product's log on a sixth drive, with its head followed or not, until the log \
            is full and after that.",
    drives: Drives::Some(&["atlas10k", "sata2tb"]),
    run,
};

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
const VOLUME_BYTES: u64 = 256 * MIB;
const LOG_BYTES: u64 = 256 * MIB;
const MEMORY_BYTES: u64 = 64 * MIB;
/// Drives of the array.
const DISKS: usize = 5;
/// Writes of which the times are not measured: the predictor learns the drive.
const LEARNT: u64 = 1000;
/// Writes before log or memory are short: a followed log uses a third of its tracks.
const UNTIL_FULL: u64 = 5000;

/// How the writes become durable.
#[derive(Clone, Copy)]
enum Way {
    InPlace,
    Log { head: HeadKind, home: HomeParams },
}

const WAYS: [(Way, &str); 4] = [
    (Way::InPlace, "in place"),
    (
        Way::Log {
            head: HeadKind::Sequential,
            home: HomeParams::Overwrite,
        },
        "log, not followed",
    ),
    (
        Way::Log {
            head: HeadKind::Online,
            home: HomeParams::Overwrite,
        },
        "log, followed",
    ),
    (
        Way::Log {
            head: HeadKind::Online,
            home: HomeParams::SEGMENTS,
        },
        "log, followed, segments",
    ),
];
/// Places in [`WAYS`].
const IN_PLACE: usize = 0;
const PLAIN: usize = 1;
const FOLLOWED: usize = 2;
const SEGMENTS: usize = 3;

const LOADS: [(u64, Arrivals, &str); 2] = [
    (
        1,
        Arrivals::Sparse(Nanos(50_000_000)),
        "one client with pauses",
    ),
    (16, Arrivals::Clustered, "16 clients"),
];
/// Places in [`LOADS`].
const PAUSES: usize = 0;
const MANY: usize = 1;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Case {
    drive: usize,
    way: usize,
    load: usize,
}

/// The times of writes, and how many there are in a second: until the log is full, and in the last half.
struct Measured {
    first: Times,
    first_s: f64,
    last: Times,
    last_s: f64,
}

/// What is written to.
enum Target {
    Array(Rc<dyn Device>),
    Volume(Volume),
}

/// The clients of a run.
struct Run {
    rt: Rt,
    target: Target,
    pool: BufPool,
    arrivals: Arrivals,
    end: u64,
    sent: Cell<u64>,
    /// Of each write: its number, when it was due, and when it had ended.
    ended: RefCell<Vec<(u64, Nanos, Nanos)>>,
}

impl Run {
    async fn client(self: Rc<Self>, mut random: Random) -> Result<(), DiskError> {
        while self.sent.get() < self.end {
            let number = self.sent.replace(self.sent.get() + 1);
            let due = self.arrivals.after(self.rt.now(), &mut random);
            self.rt.sleep_until(due).await;
            let at = random.below(VOLUME_BYTES / BLOCK) * BLOCK;
            self.write(at, number).await?;
            let ended = (number, due, self.rt.now());
            self.ended.borrow_mut().push(ended);
        }
        Ok(())
    }

    async fn write(&self, at: u64, number: u64) -> Result<(), DiskError> {
        let data = numbered_block(&self.pool, number, BLOCK as usize);
        match &self.target {
            Target::Volume(volume) => volume.write(at, data, true).await,
            Target::Array(array) => {
                let io = array.io(Op::WriteDurable, at, BLOCK, Data::Slices(vec![data]));
                let (result, _) = io.await;
                assert_eq!(result, Ok::<_, IoError>(BLOCK as usize), "the array works");
                Ok(())
            }
        }
    }

    /// The times of the writes with these numbers, and how many there are in a second.
    fn of(&self, numbers: std::ops::Range<u64>) -> (Times, f64) {
        let mut times = Times::default();
        let (mut began, mut last) = (Nanos(u64::MAX), Nanos(0));
        for (_, due, ended) in self
            .ended
            .borrow()
            .iter()
            .filter(|(number, ..)| numbers.contains(number))
        {
            times.push(ended.since(*due));
            (began, last) = (began.min(*due), last.max(*ended));
        }
        let seconds = last.since(began).0 as f64 / 1e9;
        let rate = times.len() as f64 / seconds;
        (times, rate)
    }
}

fn measure(
    drive: &DriveFile,
    (way, load): (usize, usize),
    writes: u64,
    seed: u64,
) -> Result<Measured, DiskError> {
    let (head, home) = match WAYS[way].0 {
        Way::InPlace => (HeadKind::Sequential, HomeParams::Overwrite),
        Way::Log { head, home } => (head, home),
    };
    let shape = StoreShape {
        log_drive: Some(drive),
        head,
        log_bytes: Some(LOG_BYTES),
        memory_bytes: MEMORY_BYTES,
        disks: DISKS,
        array: Some(ArrayLevel::Raid5),
        ..StoreShape::new(drive, home, VOLUME_BYTES + 16 * MIB)
    };
    let store = Rc::new(SimStore::create(&shape, seed)?);
    let own = store.clone();
    let (clients, arrivals, _) = LOADS[load];
    let measured = store.rt.block_on(async move {
        let mut disk = None;
        let target = match WAYS[way].0 {
            Way::InPlace => {
                let array = own.open_array(&BufPool::new(4 << 20)).await?;
                Target::Array(array.member().device)
            }
            Way::Log { .. } => {
                let open = own.open().await?;
                open.resize_volume("main", VOLUME_BYTES).await?;
                let volume = open.volume("main")?;
                disk = Some(open);
                Target::Volume(volume)
            }
        };
        let run = Rc::new(Run {
            rt: own.rt.clone(),
            target,
            pool: BufPool::new(1 << 20),
            arrivals,
            end: LEARNT + writes,
            sent: Cell::new(0),
            ended: RefCell::default(),
        });
        let clients =
            (0..clients).map(|client| own.rt.spawn(run.clone().client(Random::new(seed, client))));
        for client in clients.collect::<Vec<_>>() {
            client.await?;
        }
        let (first, first_s) = run.of(LEARNT..UNTIL_FULL.min(LEARNT + writes));
        let (last, last_s) = run.of(LEARNT + writes / 2..LEARNT + writes);
        if let Some(disk) = disk {
            disk.close().await?;
        }
        Ok(Measured {
            first,
            first_s,
            last,
            last_s,
        })
    });
    // Otherwise the contents of its drives stay in memory.
    store.rt.shut_down();
    measured
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let mut cases = Vec::new();
    for drive in 0..drives.len() {
        for way in 0..WAYS.len() {
            cases.extend((0..LOADS.len()).map(|load| Case { drive, way, load }));
        }
    }
    let measured = context.map(&cases, |case| {
        let writes = match case.load {
            PAUSES => context.count(2_000, 400),
            _ => context.count(100_000, 40_000),
        };
        let drive = &drives[case.drive];
        measure(drive, (case.way, case.load), writes, context.seed(0)).expect("writes")
    });
    let at = |drive: usize, way: usize, load: usize| {
        let case = Case { drive, way, load };
        let index = cases.iter().position(|other| *other == case);
        &measured[index.expect("each case is measured")]
    };
    let mut findings = Vec::new();
    for (index, drive) in drives.iter().enumerate() {
        let what = |what: String| format!("{}, {what}", drive.name);
        let pauses = |way: usize| at(index, way, PAUSES).first.mean_ms();
        for (way, least) in [(PLAIN, 1.0), (FOLLOWED, 5.0)] {
            let name = format!("one client with pauses, {}: times shorter", WAYS[way].1);
            let times = pauses(IN_PLACE) / pauses(way);
            findings.push(Finding::shown(what(name), times, "").bound(Bound::AtLeast(least)));
        }
        let many = |way: usize| at(index, way, MANY);
        for (way, least) in [(PLAIN, 2.0), (FOLLOWED, 5.0)] {
            let name = format!(
                "16 clients until the log is full, {}: times faster",
                WAYS[way].1
            );
            let times = many(way).first_s / many(IN_PLACE).first_s;
            findings.push(Finding::shown(what(name), times, "").bound(Bound::AtLeast(least)));
        }
        for (way, least) in [(FOLLOWED, 1.0), (SEGMENTS, 2.0)] {
            let name = format!("16 clients after that, {}: times faster", WAYS[way].1);
            let times = many(way).last_s / many(IN_PLACE).last_s;
            findings.push(Finding::shown(what(name), times, "").bound(Bound::AtLeast(least)));
        }
    }
    Outcome {
        findings,
        figures: vec![figure(drives, &cases, &measured)],
        notes: vec![format!(
            "RAID-5 on {DISKS} drives in stripe units of 64 KiB, and a drive for the log of {} MiB; {} MiB of memory for written \
             blocks; a volume of {} MiB. In place is the product's RAID-5 without a log: two writes of a power cut can \
             leave data and parity that do not match. \"Until the log is full\" are writes {LEARNT} to {UNTIL_FULL}, \"after that\" the second \
             half of all.",
            LOG_BYTES / MIB,
            MEMORY_BYTES / MIB,
            VOLUME_BYTES / MIB
        )],
        ..Outcome::default()
    }
}

fn figure(drives: &[DriveFile], cases: &[Case], measured: &[Measured]) -> Figure {
    let mut table = Table::new(&[
        "drive",
        "way",
        "load",
        "until the log is full: writes/s",
        "mean, ms",
        "99 %, ms",
        "after that: writes/s",
        "mean, ms",
        "99 %, ms",
    ]);
    let mut panels = Vec::new();
    for (drive, file) in drives.iter().enumerate() {
        let mut lines = vec![Vec::new(); 2];
        for (case, found) in cases.iter().zip(measured) {
            if case.drive != drive {
                continue;
            }
            table.row(vec![
                file.name.clone(),
                WAYS[case.way].1.into(),
                LOADS[case.load].2.into(),
                number(found.first_s),
                number(found.first.mean_ms()),
                number(found.first.quantile_ms(0.99)),
                number(found.last_s),
                number(found.last.mean_ms()),
                number(found.last.quantile_ms(0.99)),
            ]);
            if case.load == MANY {
                let x = (case.way + 1) as f64;
                lines[0].push((x, found.first_s));
                lines[1].push((x, found.last_s));
            }
        }
        let lines = ["until the log is full", "after that"]
            .iter()
            .zip(lines)
            .enumerate();
        panels.push(Panel {
            title: format!("{}, 16 clients", file.name),
            x: Axis::of("", WAYS.iter().map(|way| way.1.into()).collect()),
            y: Axis::log("durable writes of 4 KiB, 1/s"),
            lines: lines
                .map(|(color, (name, points))| Line::new(name, Style::Dots, color, points))
                .collect(),
            legend: Legend::Outside,
        });
    }
    Figure::plot(
        "trail-raid5",
        "Small writes on RAID-5",
        "With a log that follows its head, a small write costs the array nothing until the log is full.",
        panels,
    )
    .with(table)
}
