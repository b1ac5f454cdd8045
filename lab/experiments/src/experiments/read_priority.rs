//! What it gains that reads go before write-back (Trail 4.2).

use crate::experiment::{Context, Drives, Experiment, Outcome, Random};
use crate::harness::{Arrivals, SimStore, StoreShape, Times, numbered_block};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos, Slice};
use tonearm_disk::{DiskError, HomeParams, OpenOptions, Volume};
use tonearm_drive_file::DriveFile;
use tonearm_format::Placement;
use tonearm_rt::Rt;

pub const EXPERIMENT: Experiment = Experiment {
    name: "read-priority",
    title: "Reads before write-back",
    source: "Trail 4.2",
    about: "Clients overwrite blocks at random as fast as the write-back brings them home, and one client reads other \
            blocks from the same drive. The store keeps 64 writes under way on that drive, or fewer while the client reads and for \
            a second after that.",
    drives: Drives::Some(&["st41601n", "atlas10k", "sata2tb"]),
    run,
};

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
const VOLUME_BYTES: u64 = 1024 * MIB;
const LOG_BYTES: u64 = 256 * MIB;
/// Bound on written data in memory: the write-back is always under pressure.
const MEMORY_BYTES: u64 = 8 * MIB;
/// One block in so many is read. The others are written.
const STRIDE: u64 = 64;
/// Clients that write.
const WRITERS: u64 = 64;
/// Time before the measurement.
const WARM_UP: Nanos = Nanos::from_secs(20);
/// Writes under way while a read is: no rule, the product's, and the strictest one.
const DEPTHS: [u64; 3] = [NO_RULE, RULE, STRICT];
const NO_RULE: u64 = 64;
const RULE: u64 = 8;
const STRICT: u64 = 1;
/// The layouts. Those with segments are measured without [`STRICT`].
const LAYOUTS: [(HomeParams, &str); 3] = [
    (HomeParams::Overwrite, "overwrite"),
    (HomeParams::SEGMENTS, "segments"),
    (
        HomeParams::Segments {
            segment_bytes: 1 << 20,
            spare_percent: 10,
            placement: Placement::Hylog,
        },
        "hylog",
    ),
];
/// Added to the name of the drive whose write cache is off.
const NO_CACHE: &str = ", no write cache";
/// Pauses between two reads.
const PAUSES: [(Arrivals, &str); 2] = [
    (Arrivals::Clustered, "one after another"),
    (Arrivals::Sparse(Nanos(250_000_000)), "with pauses"),
];

/// What is measured: indexes of the drive, of the layout and of the pauses, and the writes under way while the client reads.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Case {
    drive: usize,
    layout: usize,
    pauses: usize,
    depth: u64,
}

struct Measured {
    reads: Times,
    reads_s: f64,
    /// Blocks that were written back in a second.
    written_s: f64,
}

/// The clients of a run.
struct Clients {
    rt: Rt,
    volume: Volume,
    pool: BufPool,
    written: Cell<u64>,
    since: Nanos,
    until: Nanos,
    times: RefCell<Times>,
}

impl Clients {
    async fn write(self: Rc<Self>, mut random: Random) -> Result<(), DiskError> {
        while self.rt.now() < self.until {
            let block = random.below(VOLUME_BYTES / BLOCK / STRIDE) * STRIDE;
            let block = block + 1 + random.below(STRIDE - 1);
            let data = self.content();
            self.volume.write(block * BLOCK, data, false).await?;
        }
        Ok(())
    }

    async fn read(self: Rc<Self>, mut random: Random, pauses: Arrivals) -> Result<(), DiskError> {
        while self.rt.now() < self.until {
            let due = pauses.after(self.rt.now(), &mut random);
            self.rt.sleep_until(due).await;
            let block = random.below(VOLUME_BYTES / BLOCK / STRIDE) * STRIDE;
            self.volume.read(block * BLOCK, BLOCK).await?;
            if due >= self.since {
                self.times.borrow_mut().push(self.rt.now().since(due));
            }
        }
        Ok(())
    }

    /// A block of which no word is as in any write before.
    fn content(&self) -> Slice {
        let number = self.written.replace(self.written.get() + 1);
        numbered_block(&self.pool, number, BLOCK as usize)
    }
}

fn measure(
    drive: &DriveFile,
    home: HomeParams,
    depth: u64,
    pauses: Arrivals,
    time: Nanos,
    seed: u64,
) -> Result<Measured, DiskError> {
    let shape = StoreShape {
        log_drive: Some(drive),
        log_bytes: Some(LOG_BYTES),
        memory_bytes: MEMORY_BYTES,
        ..StoreShape::new(drive, home, VOLUME_BYTES + 16 * MIB)
    };
    let store = Rc::new(SimStore::create(&shape, seed)?);
    let own = store.clone();
    let measured = store.rt.block_on(async move {
        let options = OpenOptions {
            writes_while_reading: depth,
            ..OpenOptions::default()
        };
        let disk = own.open_with(options).await?;
        disk.resize_volume("main", VOLUME_BYTES).await?;
        let mut clients = Clients {
            rt: own.rt.clone(),
            volume: disk.volume("main")?,
            pool: BufPool::new(1 << 20),
            written: Cell::new(0),
            since: Nanos(0),
            until: Nanos(0),
            times: RefCell::default(),
        };
        for block in (0..VOLUME_BYTES / BLOCK).step_by(STRIDE as usize) {
            let data = clients.content();
            clients.volume.write(block * BLOCK, data, false).await?;
        }
        disk.engine().drain().await?;
        clients.since = own.rt.now() + WARM_UP.0;
        clients.until = clients.since + time.0;
        let clients = Rc::new(clients);
        let writers = (0..WRITERS).map(|part| {
            let random = Random::new(seed, 1 + part);
            own.rt.spawn(clients.clone().write(random))
        });
        let mut running: Vec<_> = writers.collect();
        let reader = clients.clone().read(Random::new(seed, 0), pauses);
        running.push(own.rt.spawn(reader));
        own.rt.sleep_until(clients.since).await;
        let before = disk.stats();
        own.rt.sleep_until(clients.until).await;
        let after = disk.stats();
        for client in running {
            client.await?;
        }
        disk.close().await?;
        let written = after.written_back_blocks - before.written_back_blocks;
        let reads = clients.times.take();
        Ok(Measured {
            reads_s: reads.len() as f64 * 1e9 / time.0 as f64,
            reads,
            written_s: written as f64 * 1e9 / time.0 as f64,
        })
    });
    // Otherwise the contents of its drives stay in memory.
    store.rt.shut_down();
    measured
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let time = Nanos::from_secs(context.count(600, 20));
    let mut drives = drives.to_vec();
    // Also without its write cache, to see what is due to that cache.
    if let Some(place) = drives.iter().position(|drive| drive.name == "sata2tb") {
        let mut without = drives[place].clone();
        without.spec.write_cache.enabled = false;
        without.name += NO_CACHE;
        drives.push(without);
    }
    let mut cases = Vec::new();
    for (drive, file) in drives.iter().enumerate() {
        for (layout, _) in LAYOUTS.iter().enumerate() {
            let of_layout = match layout {
                0 => &DEPTHS[..],
                _ if file.name.ends_with(NO_CACHE) => &[],
                _ => &[NO_RULE, RULE],
            };
            for pauses in 0..PAUSES.len() {
                cases.extend(of_layout.iter().map(|depth| Case {
                    drive,
                    layout,
                    pauses,
                    depth: *depth,
                }));
            }
        }
    }
    let measured = context.map(&cases, |case| {
        let (home, pauses) = (LAYOUTS[case.layout].0, PAUSES[case.pauses].0);
        let drive = &drives[case.drive];
        let result = measure(drive, home, case.depth, pauses, time, context.seed(0));
        result.expect("reads and writes")
    });
    let at = |case: Case| {
        let index = cases.iter().position(|other| *other == case);
        &measured[index.expect("each case is measured")]
    };
    let mut findings = Vec::new();
    for case in cases.iter().filter(|case| case.depth == RULE) {
        let without = at(Case {
            depth: NO_RULE,
            ..*case
        });
        let with = at(*case);
        let (pauses, layout) = (PAUSES[case.pauses].1, LAYOUTS[case.layout].1);
        let drive = &drives[case.drive].name;
        let what = |what: &str| format!("{drive}, {layout}, reads {pauses}: {what}");
        let gain = |value: &dyn Fn(&Times) -> f64| value(&without.reads) / value(&with.reads);
        // Segments are few writes of 1 MiB, which take 8 ms on sata2tb: there a read hardly waits without the rule, either.
        let least = match case.layout {
            0 => 2.0,
            _ if drive == "sata2tb" => 0.8,
            _ => 1.4,
        };
        // A short run has too few reads for the slowest hundredth of them, where no gain is expected.
        let slowest = Finding::shown(
            what("99 % of them, times shorter"),
            gain(&|times| times.quantile_ms(0.99)),
            "",
        );
        let slowest = match context.is_full() || least > 1.0 {
            true => slowest.bound(Bound::AtLeast(least)),
            false => slowest,
        };
        let lost = 100.0 * (1.0 - with.written_s / without.written_s);
        findings.extend([
            Finding::shown(
                what("times shorter on average than without the rule"),
                gain(&Times::mean_ms),
                "",
            )
            .bound(Bound::AtLeast(least)),
            slowest,
            Finding::shown(what("the write-back loses"), lost, "%").bound(Bound::AtMost(45.0)),
        ]);
    }
    Outcome {
        findings,
        figures: vec![figure(&drives, &cases, &measured, &at)],
        notes: vec![
            format!(
                "{WRITERS} clients write 4 KiB anywhere in a volume of {} MiB, as soon as the memory of {} MiB has room; each \
                 64th block is read and not written. The log has a drive of its own.",
                VOLUME_BYTES / MIB,
                MEMORY_BYTES / MIB
            ),
            "With pauses: 250 to 500 ms after each read. With 64 writes under way there is no rule; 8 is the product's; with 1 \
             a read waits for one write at most, as in the paper's driver, whose queue has the reads first. With a write cache a \
             read waits while the drive is flushed, which the rule keeps short."
                .into(),
        ],
        ..Outcome::default()
    }
}

fn figure<'a>(
    drives: &[DriveFile],
    cases: &[Case],
    measured: &[Measured],
    at: &dyn Fn(Case) -> &'a Measured,
) -> Figure {
    let mut table = Table::new(&[
        "drive",
        "layout",
        "reads",
        "writes under way",
        "reads/s",
        "50 %, ms",
        "90 %, ms",
        "99 %, ms",
        "mean, ms",
        "blocks home/s",
    ]);
    for (case, measured) in cases.iter().zip(measured) {
        table.row(vec![
            drives[case.drive].name.clone(),
            LAYOUTS[case.layout].1.into(),
            PAUSES[case.pauses].1.into(),
            case.depth.to_string(),
            number(measured.reads_s),
            number(measured.reads.quantile_ms(0.5)),
            number(measured.reads.quantile_ms(0.9)),
            number(measured.reads.quantile_ms(0.99)),
            number(measured.reads.mean_ms()),
            number(measured.written_s),
        ]);
    }
    let panel = |pauses: usize| {
        let line = |(color, depth): (usize, u64)| {
            let points = (0..drives.len()).map(|drive| {
                let case = Case {
                    drive,
                    layout: 0,
                    pauses,
                    depth,
                };
                let mean = at(case).reads.mean_ms();
                ((drive + 1) as f64, mean)
            });
            let name = format!("{depth} writes under way");
            Line::new(&name, Style::Dots, color, points.collect())
        };
        Panel {
            title: format!("Layout overwrite, reads {}", PAUSES[pauses].1),
            x: Axis::of("", drives.iter().map(|drive| drive.name.clone()).collect()),
            y: Axis::log("mean time of a read, ms"),
            lines: DEPTHS.into_iter().enumerate().map(line).collect(),
            legend: Legend::Outside,
        }
    };
    Figure::plot(
        "read-priority",
        "Reads beside a busy write-back",
        "With fewer writes under way while a client reads, a read waits for few of them.",
        vec![panel(0), panel(1)],
    )
    .with(table)
}
