//! Records requests for a trace: when each arrived, what it asked for, and how long it took.
//!
//! Without a recording the cost is one branch for each batch of replies. With one, a request is noted where its latency
//! is, when its reply is handed to the socket. So requests are noted in the order in which they end.
//!
//! Invariants:
//! 1. At most [`REQUESTS_MAX`] requests wait to be taken. Those beyond are counted as lost, and nothing waits for them.
//! 2. Only requests that have arrived after the start are noted.

use super::connections::CommandKind;
use super::link::Ticket;
use tonearm_base::Nanos;

/// Most requests that are kept until they are taken: 3 MiB.
pub const REQUESTS_MAX: usize = 1 << 16;

/// A request that was answered with success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedRequest {
    /// When its first bytes came, since the start of the recording.
    pub arrival: Nanos,
    /// From then until its reply was handed to the socket.
    pub response: Nanos,
    /// First byte; 0 for a flush.
    pub offset: u64,
    /// Length of the range in bytes; 0 for a flush.
    pub bytes: u32,
    /// Number of its volume in [`Recorded::volumes`].
    pub volume: u32,
    /// Read, write, flush, trim or write zeroes.
    pub kind: CommandKind,
    /// Durable before the reply.
    pub fua: bool,
}

/// The requests since they were taken last, and counts since the start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// In the order in which they have ended.
    pub requests: Vec<RecordedRequest>,
    /// Names of the volumes, each in the order of its first request.
    pub volumes: Vec<String>,
    /// Requests that are missing because they were not taken in time.
    pub lost: u64,
    /// Requests that are left out because they were answered with an error.
    pub failed: u64,
    /// Until when the recording has all requests that have ended, since the start.
    pub until: Nanos,
}

/// A recording under way.
pub(super) struct Recording {
    /// The only volume of interest; all if none.
    only: Option<String>,
    started: Nanos,
    requests: Vec<RecordedRequest>,
    volumes: Vec<String>,
    lost: u64,
    failed: u64,
}

impl Recording {
    pub fn new(only: Option<String>, started: Nanos) -> Self {
        Self {
            only,
            started,
            requests: Vec::new(),
            volumes: Vec::new(),
            lost: 0,
            failed: 0,
        }
    }

    /// Notes a request of `volume` that ends now.
    pub fn note(&mut self, volume: &str, ticket: &Ticket, now: Nanos) {
        let recorded = matches!(
            ticket.kind,
            CommandKind::Read
                | CommandKind::Write
                | CommandKind::Flush
                | CommandKind::Trim
                | CommandKind::WriteZeroes
        );
        let wanted = self.only.as_deref().is_none_or(|only| only == volume);
        if !recorded || !wanted || ticket.arrived < self.started {
            return;
        }
        if ticket.failed {
            self.failed += 1;
            return;
        }
        if self.requests.len() == REQUESTS_MAX {
            self.lost += 1;
            return;
        }
        let volume = self.number(volume);
        self.requests.push(RecordedRequest {
            arrival: ticket.arrived.since(self.started),
            response: now.since(ticket.arrived),
            offset: ticket.offset,
            bytes: ticket.bytes,
            volume,
            kind: ticket.kind,
            fua: ticket.fua,
        });
    }

    /// A store has few volumes: a search is faster than a map.
    fn number(&mut self, volume: &str) -> u32 {
        let found = self.volumes.iter().position(|name| name == volume);
        let number = found.unwrap_or_else(|| {
            self.volumes.push(volume.to_owned());
            self.volumes.len() - 1
        });
        number as u32
    }

    /// Takes the requests that have ended by `now`.
    pub fn take(&mut self, now: Nanos) -> Recorded {
        // The next ones are probably as many.
        let room = Vec::with_capacity(self.requests.len());
        Recorded {
            requests: std::mem::replace(&mut self.requests, room),
            volumes: self.volumes.clone(),
            lost: self.lost,
            failed: self.failed,
            until: now.since(self.started),
        }
    }
}
