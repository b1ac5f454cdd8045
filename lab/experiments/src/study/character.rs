//! What a trace is like.

use super::case::BLOCK;
use super::load::Request;
use serde::Serialize;
use tonearm_trace::Op;

const SECOND: u64 = 1_000_000_000;

/// Figures of the part of a trace that is studied.
#[derive(Serialize, Clone, Debug, Default, PartialEq)]
pub struct Character {
    /// Its name, as given.
    pub trace: String,
    /// Its format.
    pub format: String,
    /// False when the trace continues after that part.
    pub complete: bool,
    /// Requests.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Flushes among them.
    pub flushes: u64,
    /// Writes that wait until they are durable: those with FUA, or all if the trace has neither flush nor FUA.
    pub durable_writes: u64,
    /// Discards and requests of no bytes, which are left out.
    pub left_out: u64,
    /// Requests of other devices, which are left out.
    pub other_devices: u64,
    /// Arrivals that lay before the line above.
    pub moved_up: u64,
    /// True when each request waits for the one before.
    pub closed_loop: bool,
    /// Time from the first to the last arrival; absent in a closed loop.
    pub seconds: Option<f64>,
    /// Requests per second over that time.
    pub requests_per_s: Option<f64>,
    /// Requests of the busiest second, as a multiple of the mean.
    pub busiest_second: Option<f64>,
    /// Bytes that are read.
    pub read_bytes: u64,
    /// Bytes that are written.
    pub write_bytes: u64,
    /// Median size of reads and writes.
    pub request_bytes_p50: u64,
    /// Size that 90 % of them do not exceed.
    pub request_bytes_p90: u64,
    /// Largest one.
    pub request_bytes_max: u64,
    /// Share of the requests that begin where the one before ended.
    pub sequential_percent: f64,
    /// Bytes of the blocks that are touched.
    pub footprint_bytes: u64,
    /// Where the last sector that is touched ends, in bytes from the beginning of its device.
    pub reach_bytes: u64,
    /// Bytes of the blocks that are written.
    pub written_footprint_bytes: u64,
    /// Bytes of the blocks that get 90 % of the accesses, the hottest ones.
    pub working_set_bytes: u64,
    /// Share of the writes that goes to the hottest tenth of the written blocks.
    pub writes_to_hottest_tenth_percent: Option<f64>,
}

impl Character {
    /// The figures that follow from the requests.
    pub(super) fn of(requests: &[Request], open: bool, blocks: u64) -> Self {
        let count = |op| requests.iter().filter(|r| r.op == op).count() as u64;
        let bytes = |op| {
            requests
                .iter()
                .filter(|r| r.op == op)
                .map(|r| r.bytes)
                .sum()
        };
        let mut sizes: Vec<u64> = requests
            .iter()
            .filter(|r| r.op != Op::Flush)
            .map(|r| r.bytes)
            .collect();
        sizes.sort_unstable();
        let size = |quantile: f64| sizes[((sizes.len() - 1) as f64 * quantile) as usize];
        let (mut accesses, mut writes) = (vec![0u32; blocks as usize], vec![0u32; blocks as usize]);
        for request in requests.iter().filter(|r| r.op != Op::Flush) {
            let first = (request.offset / BLOCK) as usize;
            for block in first..first + request.blocks() as usize {
                accesses[block] += 1;
                writes[block] += u32::from(request.op == Op::Write);
            }
        }
        writes.retain(|count| *count > 0);
        let followers = requests
            .windows(2)
            .filter(|two| two[0].bytes > 0 && two[0].offset + two[0].bytes == two[1].offset)
            .count();
        let seconds = requests[requests.len() - 1].time as f64 / 1e9;
        let seconds = (open && seconds > 0.0).then_some(seconds);
        let rate = seconds.map(|seconds| (requests.len() - 1) as f64 / seconds);
        Self {
            requests: requests.len() as u64,
            reads: count(Op::Read),
            writes: count(Op::Write),
            flushes: count(Op::Flush),
            durable_writes: requests.iter().filter(|r| r.durable).count() as u64,
            closed_loop: !open,
            seconds,
            requests_per_s: rate,
            // Of a trace of a few seconds each second is the busiest.
            busiest_second: rate
                .filter(|_| seconds >= Some(10.0))
                .map(|rate| busiest_second(requests) as f64 / rate),
            read_bytes: bytes(Op::Read),
            write_bytes: bytes(Op::Write),
            request_bytes_p50: size(0.5),
            request_bytes_p90: size(0.9),
            request_bytes_max: size(1.0),
            sequential_percent: 100.0 * followers as f64 / requests.len() as f64,
            footprint_bytes: blocks * BLOCK,
            written_footprint_bytes: writes.len() as u64 * BLOCK,
            working_set_bytes: hottest(&mut accesses, 0.9) * BLOCK,
            writes_to_hottest_tenth_percent: (!writes.is_empty())
                .then(|| 100.0 * share_of_hottest(&mut writes, 0.1)),
            ..Self::default()
        }
    }
}

fn busiest_second(requests: &[Request]) -> u64 {
    let (mut most, mut run, mut second) = (0, 0, 0);
    for request in requests {
        if request.time / SECOND != second {
            (run, second) = (0, request.time / SECOND);
        }
        run += 1;
        most = most.max(run);
    }
    most
}

/// The fewest blocks that have the share `share` of all counts.
fn hottest(counts: &mut [u32], share: f64) -> u64 {
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    let wanted = (all as f64 * share).ceil() as u64;
    let mut sum = 0;
    let enough = counts.iter().position(|count| {
        sum += u64::from(*count);
        sum >= wanted
    });
    enough.map_or(0, |index| index as u64 + 1)
}

/// The share of all counts that the largest `part` of them have.
fn share_of_hottest(counts: &mut [u32], part: f64) -> f64 {
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    let hot = (counts.len() as f64 * part).ceil() as usize;
    let sum: u64 = counts[..hot].iter().map(|count| u64::from(*count)).sum();
    sum as f64 / all as f64
}
