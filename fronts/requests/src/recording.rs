//! Records requests for a trace: when each arrived, what it asked for, and how long it took.
//!
//! Without a recording the cost is one branch for each request. With one, a request is noted where its latency
//! is, when its answer is handed over. So requests are noted in the order in which they end.
//!
//! Invariants:
//! 1. At most [`REQUESTS_MAX`] requests wait to be taken. Those beyond are counted as lost, and nothing waits for them.
//! 2. Only requests that have arrived after the start are noted.

use crate::{Answered, CommandKind, UnderWay};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_rt::Rt;

/// Most requests that are kept until they are taken: 3 MiB.
pub const REQUESTS_MAX: usize = 1 << 16;

/// A request that was answered with success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedRequest {
    /// When its first bytes came, since the start of the recording.
    pub arrival: Nanos,
    /// From then until its answer was handed over.
    pub response: Nanos,
    /// First byte; 0 for a flush.
    pub offset: u64,
    /// Length of the range in bytes; 0 for a flush.
    pub bytes: u64,
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

/// Records the requests of all front ends of an engine, and knows those under way. Clones are handles on the same.
#[derive(Clone)]
pub struct Recorder {
    rt: Rt,
    under_way: UnderWay,
    /// At most one.
    recording: Rc<RefCell<Option<Recording>>>,
}

impl Recorder {
    /// A recorder on the clock of `rt`, without a recording.
    pub fn new(rt: &Rt) -> Self {
        Self {
            rt: rt.clone(),
            under_way: UnderWay::default(),
            recording: Rc::default(),
        }
    }

    /// The requests under way.
    pub fn under_way(&self) -> &UnderWay {
        &self.under_way
    }

    /// Begins to record the requests of one volume or of all; false when a recording is under way already.
    pub fn start(&self, volume: Option<String>) -> bool {
        let mut recording = self.recording.borrow_mut();
        let starts = recording.is_none();
        if starts {
            *recording = Some(Recording::new(volume, self.rt.now()));
        }
        starts
    }

    /// The requests that have ended since the last call; none without a recording.
    pub fn take(&self) -> Option<Recorded> {
        let mut recording = self.recording.borrow_mut();
        recording
            .as_mut()
            .map(|recording| recording.take(self.rt.now()))
    }

    /// Ends the recording, if one is under way, and returns its last requests.
    pub fn stop(&self) -> Option<Recorded> {
        let recorded = self.take();
        *self.recording.borrow_mut() = None;
        recorded
    }

    /// Notes a request of `volume` that is answered at `now`.
    pub fn note(&self, volume: &str, request: &Answered, now: Nanos) {
        if let Some(recording) = &mut *self.recording.borrow_mut() {
            recording.note(volume, request, now);
        }
    }
}

/// A recording under way.
struct Recording {
    /// The only volume of interest; all if none.
    only: Option<String>,
    started: Nanos,
    requests: Vec<RecordedRequest>,
    volumes: Vec<String>,
    lost: u64,
    failed: u64,
}

impl Recording {
    fn new(only: Option<String>, started: Nanos) -> Self {
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
    fn note(&mut self, volume: &str, request: &Answered, now: Nanos) {
        let recorded = matches!(
            request.kind,
            CommandKind::Read
                | CommandKind::Write
                | CommandKind::Flush
                | CommandKind::Trim
                | CommandKind::WriteZeroes
        );
        let wanted = self.only.as_deref().is_none_or(|only| only == volume);
        if !recorded || !wanted || request.arrived < self.started {
            return;
        }
        if request.failed {
            self.failed += 1;
            return;
        }
        if self.requests.len() == REQUESTS_MAX {
            self.lost += 1;
            return;
        }
        let volume = self.number(volume);
        self.requests.push(RecordedRequest {
            arrival: request.arrived.since(self.started),
            response: now.since(request.arrived),
            offset: request.offset,
            bytes: request.bytes,
            volume,
            kind: request.kind,
            fua: request.fua,
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
    fn take(&mut self, now: Nanos) -> Recorded {
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
