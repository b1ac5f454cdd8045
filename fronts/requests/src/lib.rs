//! What clients of a block device have asked for: counters, latencies, and recordings for traces. NBD and the disks of virtual machines
//! are counted alike.
//!
//! All is for the engine's thread, which also exports it.

#![forbid(unsafe_code)]

mod counters;
mod recording;
mod under_way;

pub use counters::{CommandCounters, CommandKind, Counters, Latency, RequestMetrics};
pub use recording::{REQUESTS_MAX, Recorded, RecordedRequest, Recorder};
pub use under_way::{Begun, UnderWay};

use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_rt::Rt;

/// A request that has its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered {
    /// Its kind.
    pub kind: CommandKind,
    /// First byte of its range; 0 for a flush.
    pub offset: u64,
    /// Length of its range in bytes; 0 for a flush.
    pub bytes: u64,
    /// It was answered when its change was durable.
    pub fua: bool,
    /// The answer was an error.
    pub failed: bool,
    /// When it came.
    pub arrived: Nanos,
}

/// Counts the requests of a front end, and records them. Clones are handles on the same.
#[derive(Clone)]
pub struct Requests {
    rt: Rt,
    metrics: Rc<RequestMetrics>,
    recorder: Recorder,
}

impl Requests {
    /// Nothing counted yet; `recorder` records, once it is started.
    pub fn new(rt: &Rt, recorder: &Recorder) -> Self {
        Self {
            rt: rt.clone(),
            metrics: Rc::default(),
            recorder: recorder.clone(),
        }
    }

    /// Counters and latencies.
    pub fn metrics(&self) -> &RequestMetrics {
        &self.metrics
    }

    /// A request begins: when it has arrived, for [`Answered::arrived`], and what ends it.
    pub fn begin(&self) -> (Nanos, Begun) {
        let now = self.rt.now();
        (now, self.recorder.under_way().begin(now))
    }

    /// Runs a call of the engine ([`Rt::engine`]).
    pub async fn engine<T>(&self, call: impl Future<Output = T>) -> T {
        self.rt.engine(call).await
    }

    /// A request for `volume` has its answer now.
    pub fn answered(&self, volume: &str, request: &Answered) {
        let now = self.rt.now();
        self.metrics.note(request, now);
        self.recorder.note(volume, request, now);
    }
}
