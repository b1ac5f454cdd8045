//! Counters and latencies: plain cells of the engine's thread.

use crate::Answered;
use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};
use tonearm_base::Nanos;

/// The kind of a command, for its counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandKind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Flush.
    Flush,
    /// Trim.
    Trim,
    /// Write zeroes.
    WriteZeroes,
    /// Cache.
    Cache,
    /// Block status.
    BlockStatus,
    /// A command that the protocol does not have.
    Unknown,
}

impl CommandKind {
    /// Every kind, in the order of [`Counters::commands`].
    pub const ALL: [CommandKind; 8] = [
        CommandKind::Read,
        CommandKind::Write,
        CommandKind::Flush,
        CommandKind::Trim,
        CommandKind::WriteZeroes,
        CommandKind::Cache,
        CommandKind::BlockStatus,
        CommandKind::Unknown,
    ];

    /// Name for people and for labels.
    pub const fn name(self) -> &'static str {
        match self {
            CommandKind::Read => "read",
            CommandKind::Write => "write",
            CommandKind::Flush => "flush",
            CommandKind::Trim => "trim",
            CommandKind::WriteZeroes => "write_zeroes",
            CommandKind::Cache => "cache",
            CommandKind::BlockStatus => "block_status",
            CommandKind::Unknown => "unknown",
        }
    }
}

/// Counters of one command; a request counts when it has its answer.
#[derive(Default, Debug)]
pub struct CommandCounters {
    /// Requests answered.
    pub requests: Cell<u64>,
    /// Bytes of the ranges of those that succeeded.
    pub bytes: Cell<u64>,
    /// Requests answered with an error.
    pub errors: Cell<u64>,
}

/// Counters of one connection or of all.
#[derive(Default, Debug)]
pub struct Counters {
    /// One for each of [`CommandKind::ALL`], in that order.
    pub commands: [CommandCounters; CommandKind::ALL.len()],
}

impl Counters {
    /// Counters of one command.
    pub fn of(&self, kind: CommandKind) -> &CommandCounters {
        &self.commands[kind as usize]
    }

    /// Counts a request.
    pub fn note(&self, request: &Answered) {
        let counters = self.of(request.kind);
        add(&counters.requests, 1);
        if request.failed {
            add(&counters.errors, 1)
        } else {
            add(&counters.bytes, request.bytes)
        }
    }
}

/// Span of one of the two windows for recent latencies.
const WINDOW: Nanos = Nanos::from_secs(5);

/// Latencies in nanoseconds, from the arrival of a request until its answer is handed over.
#[derive(Default)]
pub struct Latency(RefCell<Histograms>);

struct Histograms {
    all: Histogram<u64>,
    /// The window that `ends` at this time, and the one before it.
    recent: [Histogram<u64>; 2],
    ends: Nanos,
}

impl Default for Histograms {
    fn default() -> Self {
        // Two digits: 1 per cent; an hour is the end of the scale.
        let new = || {
            Histogram::new_with_bounds(1, 3_600_000_000_000, 2)
                .expect("the bounds are in order and the digits in range")
        };
        Self {
            all: new(),
            recent: [new(), new()],
            ends: Nanos(0),
        }
    }
}

impl Histograms {
    /// Forgets what is older than the window before that of `now`.
    fn turn(&mut self, now: Nanos) {
        if now < self.ends {
            return;
        }
        self.recent.swap(0, 1);
        self.recent[0].reset();
        if now >= self.ends + WINDOW.0 {
            self.recent[1].reset();
        }
        self.ends = now + WINDOW.0;
    }
}

impl Latency {
    /// Reads the histogram of all latencies. The engine thread must not serve meanwhile.
    pub fn with<R>(&self, look: impl FnOnce(&Histogram<u64>) -> R) -> R {
        look(&self.0.borrow().all)
    }

    /// The latencies of the last 5 to 10 seconds before `now`.
    pub fn recent(&self, now: Nanos) -> Histogram<u64> {
        let mut histograms = self.0.borrow_mut();
        histograms.turn(now);
        let [present, before] = &histograms.recent;
        let mut both = present.clone();
        both.add(before).expect("they have the same bounds");
        both
    }

    fn record(&self, span: Nanos, now: Nanos) {
        let mut histograms = self.0.borrow_mut();
        histograms.turn(now);
        histograms.all.saturating_record(span.0);
        histograms.recent[0].saturating_record(span.0);
    }
}

/// Counters and latencies of all requests of a front end.
#[derive(Default)]
pub struct RequestMetrics {
    /// Sums over all clients, those that are gone included.
    pub total: Counters,
    /// Latency of reads.
    pub read_latency: Latency,
    /// Latency of writes (trims and zeroes not included).
    pub write_latency: Latency,
    /// Latency of flushes.
    pub flush_latency: Latency,
}

impl RequestMetrics {
    /// Counts a request that is answered at `now`.
    pub fn note(&self, request: &Answered, now: Nanos) {
        self.total.note(request);
        let latency = match request.kind {
            CommandKind::Read => &self.read_latency,
            CommandKind::Write => &self.write_latency,
            CommandKind::Flush => &self.flush_latency,
            _ => return,
        };
        latency.record(now.since(request.arrived), now);
    }
}

fn add(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get() + more);
}

#[cfg(test)]
#[path = "counters_test.rs"]
mod counters_test;
