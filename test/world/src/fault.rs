//! Faults of simulated drives, as data: which drive, when, what, and where.
//!
//! Some faults are reported: an error, or no answer yet. Others are silent: the drive reports success. A store with
//! a single copy cannot survive every silent fault. It must then return an error instead of wrong data, if the loss
//! can be detected at all.

mod state;

pub(crate) use state::{DriveFaults, Mischief, place};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};
use std::fmt;
use tonearm_base::Nanos;
use tonearm_rt::Op;

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Reads of a page fail until each of its sectors has been rewritten.
    LatentError,
    /// One bit on the medium is inverted. Silent.
    BitRot,
    /// A write is reported as done, and nothing is written. Silent.
    LostWrite,
    /// A write goes to another place and is reported as done. Silent.
    MisdirectedWrite,
    /// A read returns the content of another place. Silent.
    MisdirectedRead,
    /// A read returns the content of the medium without that of the cache. Silent.
    StaleRead,
    /// No request completes for the fault's span, or for ever.
    Stuck,
    /// Every request takes several times as long, for the fault's span, or for ever.
    Slow,
    /// A flush fails. The content of the cache may or may not ever reach the medium.
    FailedFlush,
    /// A flush is reported as done, and nothing is flushed. Silent.
    LyingFlush,
    /// Writes fail for lack of space, for the fault's span, or for ever.
    Full,
    /// Everything fails, for the fault's span, or for ever.
    Failed,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [FaultKind; 12] = [
        FaultKind::LatentError,
        FaultKind::BitRot,
        FaultKind::LostWrite,
        FaultKind::MisdirectedWrite,
        FaultKind::MisdirectedRead,
        FaultKind::StaleRead,
        FaultKind::Stuck,
        FaultKind::Slow,
        FaultKind::FailedFlush,
        FaultKind::LyingFlush,
        FaultKind::Full,
        FaultKind::Failed,
    ];

    /// True for silent faults: the drive reports success.
    pub fn is_lie(self) -> bool {
        matches!(
            self,
            FaultKind::BitRot
                | FaultKind::LostWrite
                | FaultKind::MisdirectedWrite
                | FaultKind::MisdirectedRead
                | FaultKind::StaleRead
                | FaultKind::LyingFlush
        )
    }

    /// True for a state that lasts for the fault's span. Other faults change a number of requests.
    pub fn lasts(self) -> bool {
        matches!(
            self,
            FaultKind::Stuck | FaultKind::Slow | FaultKind::Full | FaultKind::Failed
        )
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Place of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// At this byte.
    At(u64),
    /// In a page that is in use when the fault strikes; the number selects the page.
    Used(u64),
    /// Anywhere on the drive; the number selects the place.
    Any(u64),
}

/// One fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// The drive.
    pub drive: u32,
    /// Number of requests to the drive before it begins.
    pub after: u64,
    /// The kind of fault.
    pub kind: FaultKind,
    /// Place of rot or a latent error, or target of a misdirected request.
    pub place: Place,
    /// How long a state lasts; 0 means for ever.
    #[serde(rename = "span_ns", with = "crate::nanos")]
    pub span: Nanos,
    /// Number of requests that another fault changes; for a slow drive, the factor by which it is slower.
    pub times: u32,
}

/// A fault that has struck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Struck {
    /// The fault.
    pub fault: Fault,
    /// When it struck.
    pub at: Nanos,
    /// The operation that it changed, for a fault that changes requests.
    pub op: Option<Op>,
    /// First byte that it concerns, of the medium or the request.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// Bounds of a random plan of faults.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Most faults.
    pub faults: u32,
    /// Allowed kinds.
    pub kinds: Vec<FaultKind>,
    /// Number of drives with faults: the drives below this number.
    pub drives: u32,
    /// Faults begin within this number of requests to their drive.
    pub requests: u64,
}

impl Budget {
    /// A plan of at least one fault, in order, if the budget allows any.
    pub fn draw(&self, rng: &mut ChaCha8Rng) -> Vec<Fault> {
        let mut below = |bound: u64| rng.next_u64() % bound.max(1);
        let count = match self.faults.min(self.kinds.len() as u32) {
            0 => 0,
            _ => 1 + below(u64::from(self.faults)),
        };
        let mut faults: Vec<Fault> = (0..count)
            .map(|_| {
                let kind = self.kinds[below(self.kinds.len() as u64) as usize];
                let pick = below(1 << 32);
                let magnitude = 4 + below(16);
                Fault {
                    drive: below(u64::from(self.drives)) as u32,
                    after: below(self.requests),
                    kind,
                    place: if below(4) == 0 {
                        Place::Any(pick)
                    } else {
                        Place::Used(pick)
                    },
                    span: Nanos::from_micros(1 + below(1 << magnitude)),
                    times: if kind == FaultKind::Slow {
                        2 + below(60) as u32
                    } else {
                        1 + below(2) as u32
                    },
                }
            })
            .collect();
        faults.sort_by_key(|fault| (fault.after, fault.drive));
        faults
    }
}
