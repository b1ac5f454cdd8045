//! `tonearm bench`: measures a store on this drive, in process, on a volume of its own.

use super::files::copy::Stop;
use crate::cli::{AckMode, Bench};
use crate::control::create_volume;
use crate::opening;
use anyhow::{Context, bail};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::process::ExitCode;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_disk::{Disk, DiskError, Volume};
use tonearm_rt::Rt;
use tonearm_store::Executor;
use tonearm_terminal::{report, size};

/// The scratch volume.
const VOLUME: &str = "tonearm-bench";
const SMALL: u64 = 4 << 10;
const LARGE: u64 = 1 << 20;
/// Smallest scratch volume with useful results.
const SIZE_MIN: u64 = 16 << 20;
const SECOND: f64 = 1e9;

/// One measurement.
#[derive(Clone, Copy)]
struct Work {
    name: &'static str,
    kind: Kind,
    /// Bytes of a request.
    bytes: u64,
    /// Requests at a time.
    depth: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A write at random, then a flush.
    WriteFlush,
    /// A write at random.
    Write,
    /// A read at random.
    Read,
    /// Writes from the start on.
    WriteOn,
    /// Reads from the start on.
    ReadOn,
}

/// In this order: the reads find the data of the sequential writes.
const WORKS: [Work; 8] = [
    Work::new("write + flush, 1 client", Kind::WriteFlush, SMALL, 1),
    Work::new("write + flush, 32 clients", Kind::WriteFlush, SMALL, 32),
    Work::new("random write, depth 32", Kind::Write, SMALL, 32),
    Work::new("sequential write", Kind::WriteOn, LARGE, 4),
    Work::new("sequential read", Kind::ReadOn, LARGE, 4),
    Work::new("random read, depth 1", Kind::Read, SMALL, 1),
    Work::new("random read, depth 32", Kind::Read, SMALL, 32),
    Work::new("write + flush, 1 client, again", Kind::WriteFlush, SMALL, 1),
];

impl Work {
    const fn new(name: &'static str, kind: Kind, bytes: u64, depth: u64) -> Self {
        Self {
            name,
            kind,
            bytes,
            depth,
        }
    }
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    request_bytes: u64,
    depth: u64,
    seconds: f64,
    requests: u64,
    iops: f64,
    mib_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    flushes: u64,
}

/// Measures.
///
/// # Errors
/// When the store cannot be opened, has no room, or fails.
pub fn run(arguments: Bench) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let executor = Executor::new()?;
    let options = tonearm_disk::OpenOptions {
        map_cache_bytes: arguments.map_cache as usize,
        ..opening::open_options(arguments.memory, AckMode::Flush, arguments.write_cache)
    };
    let disk = opening::open_disk(&executor, &arguments.path, &arguments.members, options)?;
    let size_bytes = arguments.size.min(disk.free_bytes()) / LARGE * LARGE;
    let (closing, measured) = (disk.clone(), executor.clone());
    let seconds = arguments.seconds;
    let interrupted = stop.clone();
    let rows = executor.rt.block_on(async move {
        let rows = on_scratch_volume(&measured, &disk, size_bytes, seconds, &interrupted).await;
        let closed = closing.close().await;
        let rows = rows?;
        closed?;
        anyhow::Ok(rows)
    })?;
    if arguments.json {
        report::json(&rows)?;
    } else {
        report::line(table(&rows))?;
    }
    if stop.has_come() {
        bail!("interrupted; the measurements up to then are above");
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the volume, measures, and deletes it again, also after an error.
async fn on_scratch_volume(
    executor: &Executor,
    disk: &Disk,
    size_bytes: u64,
    seconds: u64,
    stop: &Stop,
) -> anyhow::Result<Vec<Row>> {
    if disk.volumes().iter().any(|volume| volume.name == VOLUME) {
        // No other program uses this name: an earlier run was killed.
        disk.delete_volume(VOLUME).await?;
    }
    if size_bytes < SIZE_MIN {
        bail!(
            "the store has {} free, the measurement needs {} in no volume; make room first, \
             as with `tonearm volume resize STORE main --size ...`, or measure a new store",
            size::text(disk.free_bytes()),
            size::text(SIZE_MIN)
        );
    }
    create_volume(disk, VOLUME, size_bytes)
        .await
        .context("cannot make the scratch volume")?;
    let result = measure_all(executor, disk, seconds, stop).await;
    let deleted = disk.delete_volume(VOLUME).await;
    let rows = result?;
    deleted.context("cannot delete the scratch volume")?;
    Ok(rows)
}

async fn measure_all(
    executor: &Executor,
    disk: &Disk,
    seconds: u64,
    stop: &Stop,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for work in WORKS {
        if stop.has_come() {
            break;
        }
        report::note(format_args!("measuring {} for {seconds} s", work.name));
        rows.push(measure(executor, disk, work, seconds, stop).await?);
        // The writes of one measurement must not slow down the next.
        disk.engine().drain().await?;
    }
    Ok(rows)
}

/// State that the clients of one measurement share.
struct Bed {
    rt: Rt,
    pool: BufPool,
    volume: Volume,
    work: Work,
    end: Nanos,
    stop: Stop,
    next: Cell<u64>,
    requests: Cell<u64>,
    latencies: RefCell<Histogram<u64>>,
}

async fn measure(
    executor: &Executor,
    disk: &Disk,
    work: Work,
    seconds: u64,
    stop: &Stop,
) -> anyhow::Result<Row> {
    let rt = &executor.rt;
    let started = rt.now();
    let flushes = flushes_of(disk);
    let bed = Rc::new(Bed {
        rt: rt.clone(),
        pool: executor.pool.clone(),
        volume: disk.volume(VOLUME)?,
        work,
        end: started + Nanos::from_secs(seconds).0,
        stop: stop.clone(),
        next: Cell::new(0),
        requests: Cell::new(0),
        latencies: RefCell::new(Histogram::new_with_bounds(1, 3_600_000_000_000, 3)?),
    });
    let clients: Vec<_> = (0..work.depth)
        .map(|number| rt.spawn(client(bed.clone(), number)))
        .collect();
    for client in clients {
        client.await?;
    }
    let seconds = rt.now().since(started).0 as f64 / SECOND;
    let latencies = bed.latencies.borrow();
    let requests = bed.requests.get();
    Ok(Row {
        name: work.name,
        request_bytes: work.bytes,
        depth: work.depth,
        seconds,
        requests,
        iops: requests as f64 / seconds,
        mib_per_s: (requests * work.bytes) as f64 / seconds / (1 << 20) as f64,
        p50_us: latencies.value_at_quantile(0.5) as f64 / 1e3,
        p99_us: latencies.value_at_quantile(0.99) as f64 / 1e3,
        flushes: flushes_of(disk) - flushes,
    })
}

/// Flushes that the log device has had, as such or with a write.
fn flushes_of(disk: &Disk) -> u64 {
    let stats = disk.stats();
    stats.log_flushes + stats.log_durable_writes
}

async fn client(bed: Rc<Bed>, number: u64) -> Result<(), DiskError> {
    // Any fixed sequence will do; each client has its own.
    let mut state = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let places = bed.volume.size_bytes() / bed.work.bytes;
    while bed.rt.now() < bed.end && !bed.stop.has_come() {
        let place = match bed.work.kind {
            Kind::WriteOn | Kind::ReadOn => {
                let place = bed.next.get();
                bed.next.set(place + 1);
                place % places
            }
            _ => next_random(&mut state) % places,
        };
        let started = bed.rt.now();
        one(&bed, place * bed.work.bytes, &mut state).await?;
        let took = bed.rt.now().since(started).0;
        bed.latencies.borrow_mut().saturating_record(took.max(1));
        bed.requests.set(bed.requests.get() + 1);
        // A request that ends at once must still let the other clients run.
        bed.rt.yield_now().await;
    }
    Ok(())
}

async fn one(bed: &Bed, offset: u64, state: &mut u64) -> Result<(), DiskError> {
    let bytes = bed.work.bytes;
    if matches!(bed.work.kind, Kind::Read | Kind::ReadOn) {
        return bed.volume.read(offset, bytes).await.map(drop);
    }
    let permit = bed.volume.reserve(bytes).await?;
    let mut buf = bed.pool.alloc(bytes as usize);
    // Every word is new: the log records only the words of a block that change.
    let first = next_random(state);
    for (index, word) in (0..).zip(buf.chunks_exact_mut(8)) {
        word.copy_from_slice(&(first ^ index).to_le_bytes());
    }
    buf.attach(Rc::new(permit));
    bed.volume.write(offset, buf.share(), false).await?;
    if bed.work.kind == Kind::WriteFlush {
        bed.volume.flush().await?;
    }
    Ok(())
}

/// SplitMix64 (Steele, Lea, Flood 2014).
pub fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn table(rows: &[Row]) -> tonearm_terminal::Table {
    let mut table = report::table(&[
        "measurement",
        "request",
        "IOPS",
        "MiB/s",
        "p50 us",
        "p99 us",
        "flushes",
    ]);
    for row in rows {
        table.add_row([
            row.name,
            &size::text(row.request_bytes),
            &report::count(row.iops.round() as u64),
            &format!("{:.1}", row.mib_per_s),
            &format!("{:.1}", row.p50_us),
            &format!("{:.1}", row.p99_us),
            &report::count(row.flushes),
        ]);
    }
    report::align_right(&mut table, 1..7);
    table
}
