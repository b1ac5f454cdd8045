//! Counters and latencies. They are plain cells of the engine thread, which also exports them.

use crate::proto;
use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};
use tonearm_base::Nanos;

/// A command as it is counted.
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
    /// A number that means nothing.
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

    pub(super) fn of(command: u16) -> Self {
        match command {
            proto::CMD_READ => CommandKind::Read,
            proto::CMD_WRITE => CommandKind::Write,
            proto::CMD_FLUSH => CommandKind::Flush,
            proto::CMD_TRIM => CommandKind::Trim,
            proto::CMD_WRITE_ZEROES => CommandKind::WriteZeroes,
            proto::CMD_CACHE => CommandKind::Cache,
            proto::CMD_BLOCK_STATUS => CommandKind::BlockStatus,
            _ => CommandKind::Unknown,
        }
    }
}

/// Counters of one command; a request counts when its reply is handed to the socket.
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

    pub(super) fn record(&self, kind: CommandKind, bytes: u64, failed: bool) {
        let counters = self.of(kind);
        add(&counters.requests, 1);
        if failed {
            add(&counters.errors, 1);
        } else {
            add(&counters.bytes, bytes);
        }
    }
}

/// Latencies in nanoseconds, from the arrival of a request's first bytes in this process to the
/// moment at which its reply is handed to the socket.
pub struct Latency(RefCell<Histogram<u64>>);

impl Default for Latency {
    fn default() -> Self {
        // Two digits: 1 per cent; an hour is the end of the scale.
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 2)
            .expect("the bounds are in order and the digits in range");
        Self(RefCell::new(histogram))
    }
}

impl Latency {
    /// A look at the histogram; the engine thread must not serve meanwhile.
    pub fn with<R>(&self, look: impl FnOnce(&Histogram<u64>) -> R) -> R {
        look(&self.0.borrow())
    }

    fn record(&self, span: Nanos) {
        self.0.borrow_mut().saturating_record(span.0);
    }
}

/// What all connections of one [`super::Connections`] have done.
#[derive(Default)]
pub struct Metrics {
    /// Sums over all connections, those that are gone included.
    pub total: Counters,
    /// Connections open now.
    pub connections_open: Cell<u64>,
    /// Connections ever added.
    pub connections_opened: Cell<u64>,
    /// Connections cut because the client stalled.
    pub connections_stalled: Cell<u64>,
    /// Connections ended because the client broke the protocol.
    pub connections_violated: Cell<u64>,
    /// `Send` operations: replies divided by it is the size of a batch.
    pub sends: Cell<u64>,
    /// `Recv` and `RecvAll` operations.
    pub receives: Cell<u64>,
    /// Latency of reads.
    pub read_latency: Latency,
    /// Latency of writes (trims and zeroes not included).
    pub write_latency: Latency,
    /// Latency of flushes.
    pub flush_latency: Latency,
}

impl Metrics {
    pub(super) fn record_latency(&self, kind: CommandKind, span: Nanos) {
        match kind {
            CommandKind::Read => self.read_latency.record(span),
            CommandKind::Write => self.write_latency.record(span),
            CommandKind::Flush => self.flush_latency.record(span),
            _ => {}
        }
    }
}

pub(super) fn add(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get() + more);
}
