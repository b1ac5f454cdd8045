//! A log that takes several drives in turn (Trail 5.1).

use crate::experiment::{Context, Drives, Experiment, Outcome, Random};
use crate::harness::{
    Arrivals, Moves, Rig, SimStore, StoreShape, Times, TrailLog, all_tracks, formula,
    numbered_block,
};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos, Slice};
use tonearm_disk::{DiskError, HomeParams, OpenOptions, Volume};
use tonearm_drive_file::DriveFile;
use tonearm_format::HeadKind;
use tonearm_rt::Rt;

pub const EXPERIMENT: Experiment = Experiment {
    name: "trail-drives",
    title: "A log that takes several drives in turn",
    source: "Trail 5.1, the last optimisation",
    about: "Clients write durably, as soon as they can, to stores whose log has one, two or three drives of its own. While \
            one drive writes, the head of the next one goes to a free track. This is the product's log, once with a new \
            track for each write, as in the paper, and once with its own rule; beside the paper's log of one drive, which moves \
            its head after each write.",
    drives: Drives::Some(&["st41601n", "hp_c3010", "atlas10k", "hylog2003", "sata2tb"]),
    run,
};

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
const VOLUME_BYTES: u64 = 64 * MIB;
const LOG_BYTES: u64 = 256 * MIB;
/// Most log drives.
const MOST: usize = 3;
/// Writes from which a predictor learns a drive.
const LEARNT: u64 = 500;
/// Longer than a head needs to the next track.
const PAUSE: Nanos = Nanos(50_000_000);

/// What a client writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    /// A word of a block that the log has: the record is one sector.
    Word,
    /// Another block each time: a sector and the block.
    Block,
}

const SIZES: [(Size, &str); 2] = [(Size::Word, "one sector"), (Size::Block, "4 KiB")];

/// How the log follows heads, and when it goes to the next track.
#[derive(Clone, Copy)]
struct Rule {
    name: &'static str,
    head: HeadKind,
    threshold_percent: u64,
}

/// Trail 5.1 goes on after each write; the product when 30 % of a track is used, as Trail 4.2.
const RULES: [Rule; 2] = [
    Rule {
        name: "a track for each write",
        head: HeadKind::Formula,
        threshold_percent: 0,
    },
    Rule {
        name: "the product's rule",
        head: HeadKind::Online,
        threshold_percent: 30,
    },
];

/// Places in [`RULES`].
const PAPERS: usize = 0;
const OURS: usize = 1;

/// Clients, and when they write again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    Sparse,
    One,
    Eight,
}

impl Load {
    fn clients(self) -> u64 {
        match self {
            Self::Sparse | Self::One => 1,
            Self::Eight => 8,
        }
    }

    fn arrivals(self) -> Arrivals {
        match self {
            Self::Sparse => Arrivals::Sparse(PAUSE),
            Self::One | Self::Eight => Arrivals::Clustered,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Case {
    drive: usize,
    rule: usize,
    size: usize,
    load: Load,
    log_drives: usize,
}

/// What a case costs.
struct Measured {
    times: Times,
    writes_s: f64,
    /// Device writes of the log, and reads that moved a head, for each write.
    device_writes: f64,
    moves: f64,
}

/// The clients of a run.
struct Run {
    rt: Rt,
    volume: Volume,
    pool: BufPool,
    size: Size,
    arrivals: Arrivals,
    warm_up: u64,
    end: u64,
    sent: Cell<u64>,
    began: Cell<Nanos>,
    times: RefCell<Times>,
}

impl Run {
    async fn client(self: Rc<Self>, client: u64, seed: u64) -> Result<(), DiskError> {
        let mut random = Random::new(seed, client);
        while self.sent.get() < self.end {
            let number = self.sent.replace(self.sent.get() + 1);
            let due = self.arrivals.after(self.rt.now(), &mut random);
            self.rt.sleep_until(due).await;
            if number == self.warm_up {
                self.began.set(due);
            }
            let block = match self.size {
                Size::Word => client,
                Size::Block => random.below(VOLUME_BYTES / BLOCK),
            };
            let data = self.content(number);
            self.volume.write(block * BLOCK, data, true).await?;
            if number >= self.warm_up {
                self.times.borrow_mut().push(self.rt.now().since(due));
            }
        }
        Ok(())
    }

    /// A block of which the first word, or each word, is as in no write before.
    fn content(&self, number: u64) -> Slice {
        let changed = match self.size {
            Size::Word => 8,
            Size::Block => BLOCK as usize,
        };
        numbered_block(&self.pool, number, changed)
    }
}

/// Sectors of the longest tracks.
fn track_sectors(drive: &DriveFile) -> u64 {
    let disk = drive.spec.disk.as_ref().expect("a drive that turns");
    let zones = disk.geometry.zones.iter();
    let longest = zones.map(|zone| zone.track_sectors).max();
    u64::from(longest.expect("a drive has zones"))
}

fn measure(drive: &DriveFile, case: &Case, writes: u64, seed: u64) -> Result<Measured, DiskError> {
    let (rule, size) = (RULES[case.rule], SIZES[case.size].0);
    let shape = StoreShape {
        log_drive: Some(drive),
        log_drives: case.log_drives,
        head: rule.head,
        log_bytes: Some(LOG_BYTES),
        ..StoreShape::new(drive, HomeParams::Overwrite, 2 * VOLUME_BYTES)
    };
    let store = Rc::new(SimStore::create(&shape, seed)?);
    let (own, case, longest) = (store.clone(), *case, track_sectors(drive));
    store.rt.block_on(async move {
        let options = OpenOptions {
            track_threshold_percent: rule.threshold_percent,
            ..OpenOptions::default()
        };
        let disk = own.open_with(options).await?;
        disk.resize_volume("main", VOLUME_BYTES).await?;
        let warm_up = match rule.head {
            // Each drive has its first write only when the one before it has been left.
            HeadKind::Online => {
                let track = case.log_drives.saturating_sub(1) as u64 * longest;
                track + LEARNT * case.log_drives as u64 * case.load.clients().min(4)
            }
            _ => LEARNT / 10,
        };
        let run = Rc::new(Run {
            rt: own.rt.clone(),
            volume: disk.volume("main")?,
            pool: BufPool::new(1 << 20),
            size,
            arrivals: case.load.arrivals(),
            warm_up,
            end: warm_up + writes,
            sent: Cell::new(0),
            began: Cell::default(),
            times: RefCell::default(),
        });
        let before = disk.stats();
        let clients = 0..case.load.clients();
        let clients = clients.map(|client| own.rt.spawn(run.clone().client(client, seed)));
        for client in clients.collect::<Vec<_>>() {
            client.await?;
        }
        let (after, times) = (disk.stats(), run.times.take());
        let seconds = own.rt.now().since(run.began.get()).0 as f64 / 1e9;
        let each = |count: u64| count as f64 / run.end as f64;
        disk.close().await?;
        Ok(Measured {
            writes_s: times.len() as f64 / seconds,
            times,
            device_writes: each(after.log_writes - before.log_writes),
            moves: each(after.log_repositions - before.log_repositions),
        })
    })
}

fn cases(drives: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    for drive in 0..drives {
        for (rule, size) in [(PAPERS, 0), (OURS, 0), (OURS, 1)] {
            let case = |load, log_drives| Case {
                drive,
                rule,
                size,
                load,
                log_drives,
            };
            cases.push(case(Load::Sparse, 1));
            cases.extend((1..=MOST).map(|count| case(Load::One, count)));
            if rule == OURS {
                cases.extend((1..=MOST).map(|count| case(Load::Eight, count)));
            }
        }
    }
    cases
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let writes = context.count(2_000, 300);
    let cases = cases(drives.len());
    let measured = context.map(&cases, |case| {
        measure(&drives[case.drive], case, writes, context.seed(0)).expect("a log of drives")
    });
    let at = |case: Case| {
        let index = cases.iter().position(|other| *other == case);
        &measured[index.expect("each case is measured")]
    };
    let moving_ms = context.map(drives, |drive| {
        let (map, rig) = (all_tracks(drive), Rig::new(drive, context.seed(1)));
        let head = formula(drive, &map);
        TrailLog::new(rig, &map, head, Moves::EachWrite).mean_with_move(1, LEARNT / 10, writes)
    });
    Outcome {
        findings: findings(drives, &moving_ms, &at),
        figures: vec![figure(drives, &moving_ms, &cases, &measured, &at)],
        notes: vec![
            "The log drives are all of the same kind as the home's drive, 256 MiB of log in all; their platters do not turn in \
             step. A write of one sector changes a word of a block that the log has already."
                .into(),
            "A move after each write: a log of the laboratory with Trail's formula, because the product's log does not move a head \
             before a write that waits already. Its time is that of the write and of the read that moves the head."
                .into(),
            "A track for each write: Trail's formula, and the threshold at 0 % of a track. The product's rule: the predictor \
             that learns, after 500 writes to each drive, and the threshold at 30 %. Moves are reads that only move a \
             head; the learning predictor makes them when the next write gains more than it waits for them."
                .into(),
            format!(
                "With pauses: {} to {} ms after each write, longer than a head needs to the next track.",
                PAUSE.0 / 1_000_000,
                PAUSE.0 / 500_000
            ),
        ],
        ..Outcome::default()
    }
}

fn findings<'a>(
    drives: &[DriveFile],
    moving_ms: &[f64],
    at: &dyn Fn(Case) -> &'a Measured,
) -> Vec<Finding> {
    let of = |drive, (rule, size), load, log_drives| {
        at(Case {
            drive,
            rule,
            size,
            load,
            log_drives,
        })
    };
    let (papers, ours) = ((PAPERS, 0), [(OURS, 0), (OURS, 1)]);
    let gain =
        |drive, way, load| of(drive, way, load, 2).writes_s / of(drive, way, load, 1).writes_s;
    let mut findings = Vec::new();
    for (drive, DriveFile { name, .. }) in drives.iter().enumerate() {
        if name == "st41601n" {
            let rate = of(drive, ours[0], Load::One, 1).writes_s;
            let what = format!("{name}, the product's rule, one log drive: writes of one sector");
            let found = Finding::shown(what, rate, "writes/s").bound(Bound::AtLeast(500.0));
            findings.push(found.paper("333, with a move after each"));
        }
        let what = format!(
            "{name}, a track for each write, two log drives: times the writes/s of one that moves its head after each"
        );
        let two = of(drive, papers, Load::One, 2).writes_s;
        let found = Finding::shown(what, two * moving_ms[drive] / 1e3, "");
        findings.push(if name == "st41601n" {
            let paper = found.paper("2.14: 3.0 ms with a move, 1.40 ms without");
            paper.bound(Bound::Within {
                value: 2.14,
                percent: 20.0,
            })
        } else {
            found.bound(Bound::AtLeast(1.3))
        });
    }
    // The greatest value of a drive and a size of the product's rule, with their names.
    let greatest = |value: &dyn Fn(usize, (usize, usize)) -> f64| {
        let all = (0..drives.len()).flat_map(|drive| ours.map(|way| (drive, way)));
        let values = all.map(|(drive, way)| (value(drive, way), drive, way.1));
        let greatest = values.max_by(|a, b| a.0.total_cmp(&b.0));
        let (value, drive, size) = greatest.expect("there are drives");
        (value, format!("{}, {}", drives[drive].name, SIZES[size].1))
    };
    let mean = |drive, way, load| of(drive, way, load, 1).times.mean_ms();
    let (value, place) =
        greatest(&|drive, way| mean(drive, way, Load::One) / mean(drive, way, Load::Sparse));
    let what = "the product's rule, one log drive: latency against that after a pause, greatest";
    findings.push(
        Finding::shown(what, value, "times")
            .paper("2.14")
            // In a pause a read has moved the head already.
            .bound(Bound::AtMost(1.1))
            .because(place),
    );
    for (load, clients) in [(Load::One, "one client"), (Load::Eight, "eight clients")] {
        let (value, place) = greatest(&|drive, way| 1.0 / gain(drive, way, load));
        let what = format!(
            "the product's rule, two log drives, {clients}: times the writes/s of one, least"
        );
        findings.push(
            Finding::shown(what, 1.0 / value, "")
                .bound(Bound::AtLeast(0.95))
                .because(place),
        );
    }
    findings
}

fn figure<'a>(
    drives: &[DriveFile],
    moving_ms: &[f64],
    cases: &[Case],
    measured: &[Measured],
    at: &dyn Fn(Case) -> &'a Measured,
) -> Figure {
    let mut table = Table::new(&[
        "drive",
        "log",
        "write",
        "clients",
        "log drives",
        "mean, ms",
        "99 %, ms",
        "writes/s",
        "device writes for a write",
        "moves for a write",
    ]);
    for (drive, moving_ms) in drives.iter().zip(moving_ms) {
        let (mean, rate) = (number(*moving_ms), number(1e3 / moving_ms));
        let cells = [
            "a move after each write",
            SIZES[0].1,
            "1",
            "1",
            &mean,
            "",
            &rate,
            "1",
            "1",
        ];
        let mut row = vec![drive.name.clone()];
        row.extend(cells.map(String::from));
        table.row(row);
    }
    for (case, measured) in cases.iter().zip(measured) {
        table.row(vec![
            drives[case.drive].name.clone(),
            RULES[case.rule].name.into(),
            SIZES[case.size].1.into(),
            match case.load {
                Load::Sparse => "1, with pauses".into(),
                load => load.clients().to_string(),
            },
            case.log_drives.to_string(),
            number(measured.times.mean_ms()),
            number(measured.times.quantile_ms(0.99)),
            number(measured.writes_s),
            number(measured.device_writes),
            number(measured.moves),
        ]);
    }
    let panel = |rule: usize| {
        let line = |log_drives: usize| {
            let point = |drive: usize| {
                let case = Case {
                    drive,
                    rule,
                    size: 0,
                    load: Load::One,
                    log_drives,
                };
                ((drive + 1) as f64, at(case).writes_s)
            };
            let name = match log_drives {
                1 => "one log drive".into(),
                count => format!("{count} log drives"),
            };
            let points = (0..drives.len()).map(point).collect();
            Line::new(&name, Style::Dots, log_drives, points)
        };
        Panel {
            title: RULES[rule].name.into(),
            x: Axis::of("", drives.iter().map(|drive| drive.name.clone()).collect()),
            y: Axis::log("durable writes of one sector/s"),
            lines: (1..=MOST).map(line).collect(),
            legend: Legend::Outside,
        }
    };
    Figure::plot(
        "trail-drives",
        "Durable writes with one log drive and with several",
        "One client. A second drive hides the move of the head where each write takes a new track. By the product's rule \
         one drive has no move to hide.",
        (0..RULES.len()).map(panel).collect(),
    )
    .with(table)
}
