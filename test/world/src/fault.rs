//! What may go wrong with a simulated drive, as data: which drive, when, what, and where.
//!
//! Honest faults tell: an error, or no answer yet. Lies do not: the drive says that all is well. No store on
//! one copy can survive every lie; what it owes then is an error in place of wrong data, where the loss can
//! be seen at all.

mod state;
mod text;

pub(crate) use state::{DriveFaults, Mischief, place};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use tonearm_base::Nanos;
use tonearm_rt::Op;

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FaultKind {
    /// Reads of a page fail until each of its sectors has been written anew.
    LatentError,
    /// One bit on the medium turns over. A lie.
    BitRot,
    /// A write is reported as done, and nothing is written. A lie.
    LostWrite,
    /// A write goes elsewhere and is reported as done. A lie.
    MisdirectedWrite,
    /// A read brings the content of another place. A lie.
    MisdirectedRead,
    /// A read brings what the medium has, without what is in the cache. A lie.
    StaleRead,
    /// Nothing is completed for the fault's span, or for ever.
    Stuck,
    /// Everything takes several times as long, for the fault's span, or for ever.
    Slow,
    /// A flush fails; what was in the cache may or may not reach the medium, ever.
    FailedFlush,
    /// A flush is reported as done, and nothing is flushed. A lie.
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

    /// True when the drive says that all is well.
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

    /// True for a state that lasts for the fault's span; other faults strike a number of times.
    pub fn lasts(self) -> bool {
        matches!(
            self,
            FaultKind::Stuck | FaultKind::Slow | FaultKind::Full | FaultKind::Failed
        )
    }
}

/// Where a fault strikes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// At this byte.
    At(u64),
    /// In one of the pages that are in use when it strikes; the number chooses which.
    Used(u64),
    /// Anywhere on the drive; the number chooses.
    Any(u64),
}

/// One fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Which drive.
    pub drive: u32,
    /// It comes when the drive has been given so many requests.
    pub after: u64,
    /// What happens.
    pub kind: FaultKind,
    /// Where rot, a latent error, or a misdirected request goes.
    pub place: Place,
    /// How long a state lasts; 0 is for ever.
    pub span: Nanos,
    /// How often another fault strikes; of a slow drive, how many times slower it is.
    pub times: u32,
}

/// A fault that has struck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Struck {
    /// The fault.
    pub fault: Fault,
    /// When.
    pub at: Nanos,
    /// What it changed, for those that change a request.
    pub op: Option<Op>,
    /// First byte of the medium or the request that it concerns.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// How much may go wrong.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Most faults.
    pub faults: u32,
    /// Of these kinds.
    pub kinds: Vec<FaultKind>,
    /// Drives that may be struck: those below this number.
    pub drives: u32,
    /// They come within so many requests of their drive.
    pub requests: u64,
}

impl Budget {
    /// Between one and all of the faults that the budget allows, in the order of their coming; none when it
    /// allows none.
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
