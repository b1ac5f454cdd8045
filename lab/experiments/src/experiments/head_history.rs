//! A log whose head is followed, beside a reader of its history (Trail 4.3: "the log disk never services reads").

use crate::experiment::{Context, Drives, Experiment, Outcome, Random};
use crate::harness::{
    Arrivals, Rig, SimStore, StoreShape, Times, all_tracks, numbered_block, turn,
};
use crate::report::{Bound, Figure, Finding, Table, number};
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::{BufPool, Lsn, Nanos};
use tonearm_disk::{DiskError, HomeParams};
use tonearm_drive_file::DriveFile;
use tonearm_engine::Engine;
use tonearm_format::HeadKind;
use tonearm_rt::Rt;

pub const EXPERIMENT: Experiment = Experiment {
    name: "head-history",
    title: "A followed log beside a reader of its history",
    source: "Trail 4.3, with an archive, which Trail does not have",
    about: "A client writes 4 KiB durably with pauses. An archive reads the commits of the log meanwhile: one that keeps up, \
            and one that begins anew each time, far back, and so has to read the drive. This is the product's log.",
    drives: Drives::Some(&["st41601n", "hp_c3010", "atlas10k", "hylog2003", "sata2tb"]),
    run,
};

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
const VOLUME_BYTES: u64 = 64 * MIB;
const LOG_BYTES: u64 = 256 * MIB;
/// Writes from which the predictor learns a drive.
const LEARNT: u64 = 500;
/// Writes beside a reader before those that are measured: the first commits and the current track come from the drive.
const BESIDE: u64 = 100;
/// Shortest pause between two writes.
const PAUSE: Nanos = Nanos::from_millis(10);
/// Time between two reads of a reader.
const READ_EVERY: Nanos = Nanos::from_millis(200);
/// Bytes that it reads at once.
const READ_BYTES: u64 = MIB;
/// Reads of tracks of which the longest time is taken, and the tracks.
const TRACK_READS: u64 = 200;
const TRACKS_READ: u64 = 300;
/// Commits by which the reader that begins anew is late.
const LATE: u64 = 200;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    None,
    KeepsUp,
    BeginsAnew,
}

const READERS: [(Reader, &str); 3] = [
    (Reader::None, "none"),
    (Reader::KeepsUp, "keeps up"),
    (Reader::BeginsAnew, "begins anew"),
];

struct Measured {
    times: Times,
    /// Commits that the reader has got for each write.
    read: f64,
}

/// Reads commits until `ended`. Returns their number.
async fn read(rt: Rt, engine: Engine, reader: Reader, ended: Rc<Cell<bool>>) -> u64 {
    let (mut history, mut count) = (None, 0);
    while !ended.get() {
        if reader == Reader::BeginsAnew || history.is_none() {
            drop(history.take());
            let durable = engine.marks().durable;
            let from = match reader {
                Reader::BeginsAnew => Lsn(durable.0.saturating_sub(LATE).max(1)),
                _ => durable + 1,
            };
            history = Some(engine.history(from).await.expect("the log has the commit"));
        }
        let history = history.as_mut().expect("a reader");
        loop {
            let commits = history
                .read(READ_BYTES)
                .await
                .expect("the log has the commits");
            if commits.is_empty() {
                break;
            }
            count += commits.len() as u64;
        }
        rt.sleep(READ_EVERY).await;
    }
    count
}

fn measure(
    drive: &DriveFile,
    reader: Reader,
    writes: u64,
    seed: u64,
) -> Result<Measured, DiskError> {
    let shape = StoreShape {
        log_drive: Some(drive),
        log_drives: 1,
        head: HeadKind::Online,
        log_bytes: Some(LOG_BYTES),
        ..StoreShape::new(drive, HomeParams::Overwrite, 2 * VOLUME_BYTES)
    };
    let store = Rc::new(SimStore::create(&shape, seed)?);
    let own = store.clone();
    store.rt.block_on(async move {
        let disk = own.open().await?;
        disk.resize_volume("main", VOLUME_BYTES).await?;
        let (volume, pool) = (disk.volume("main")?, BufPool::new(MIB as usize));
        let mut random = Random::new(seed, 1);
        let (mut times, ended) = (Times::default(), Rc::new(Cell::new(false)));
        let mut reading = None;
        for number in 0..LEARNT + writes {
            if number == LEARNT - BESIDE && reader != Reader::None {
                reading = Some(own.rt.spawn(read(
                    own.rt.clone(),
                    disk.engine().clone(),
                    reader,
                    ended.clone(),
                )));
            }
            let due = Arrivals::Sparse(PAUSE).after(own.rt.now(), &mut random);
            own.rt.sleep_until(due).await;
            let block = random.below(VOLUME_BYTES / BLOCK);
            let data = numbered_block(&pool, number, BLOCK as usize);
            volume.write(block * BLOCK, data, true).await?;
            if number >= LEARNT {
                times.push(own.rt.now().since(due));
            }
        }
        ended.set(true);
        let read = match reading {
            Some(reading) => reading.await as f64,
            None => 0.0,
        };
        disk.close().await?;
        Ok(Measured {
            times,
            read: read / writes as f64,
        })
    })
}

/// The longest time in ms of a read of one of the first tracks, which are the log's.
fn longest_track_read_ms(drive: &DriveFile, seed: u64) -> f64 {
    let (mut rig, map, mut random) = (
        Rig::new(drive, seed),
        all_tracks(drive),
        Random::new(seed, 2),
    );
    let reads = (0..TRACK_READS).map(|_| {
        let track = map.track(random.below(TRACKS_READ));
        let read = rig.read(track.first, track.sectors);
        read.done.since(read.sent).0
    });
    reads.max().unwrap_or(0) as f64 / 1e6
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let writes = context.count(2_000, 300);
    let indexes = 0..drives.len() * READERS.len();
    let cases: Vec<usize> = indexes.collect();
    let measured = context.map(&cases, |case| {
        let (drive, reader) = (
            &drives[case / READERS.len()],
            READERS[case % READERS.len()].0,
        );
        measure(drive, reader, writes, context.seed(0)).expect("a log of its own")
    });
    let mut table = Table::new(&[
        "drive",
        "reader",
        "commits read for a write",
        "mean, ms",
        "99 %, ms",
        "longest, ms",
    ]);
    let mut findings = Vec::new();
    for (drive, measured) in drives.iter().zip(measured.chunks(READERS.len())) {
        for ((_, reader), measured) in READERS.iter().zip(measured) {
            table.row(vec![
                drive.name.clone(),
                (*reader).into(),
                number(measured.read),
                number(measured.times.mean_ms()),
                number(measured.times.quantile_ms(0.99)),
                number(measured.times.quantile_ms(1.0)),
            ]);
        }
        let [alone, keeps_up, anew] = measured else {
            unreachable!("a run for each reader");
        };
        let ratio = keeps_up.times.mean_ms() / alone.times.mean_ms();
        let what = format!(
            "{}, a reader that keeps up: times the latency without one",
            drive.name
        );
        findings.push(Finding::shown(what, ratio, "").bound(Bound::AtMost(1.02)));
        let longer = anew.times.quantile_ms(0.99) - alone.times.quantile_ms(0.99);
        // A write waits for the read of one track, and may miss its place once when the head comes back.
        let read_ms = longest_track_read_ms(drive, context.seed(1));
        let wait_ms = read_ms + turn(drive).0 as f64 / 1e6;
        let what = format!(
            "{}, a reader that begins anew: 99 % longer, by the longest read of a track and a turn",
            drive.name
        );
        findings.push(Finding::shown(what, longer / wait_ms, "times").bound(Bound::AtMost(1.0)));
    }
    Outcome {
        findings,
        figures: vec![Figure::table(
            "head-history",
            "Latency of durable writes beside a reader of the log's history",
            "A reader that keeps up gets its commits from memory. One that begins anew reads whole tracks, in turn with the writes.",
            table,
        )],
        notes: vec![format!(
            "{} to {} ms between two writes. The reader reads each {} ms; the one that begins anew gets the last {LATE} commits each \
             time.",
            PAUSE.0 / 1_000_000,
            PAUSE.0 / 500_000,
            READ_EVERY.0 / 1_000_000
        )],
        ..Outcome::default()
    }
}
