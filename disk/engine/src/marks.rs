//! How far the commits of a store have come.

use crate::engine::Engine;
use tonearm_base::Lsn;

/// The last commit that has reached each stage: `appended >= flushed >= durable`. While a store is open no mark goes
/// back. After a crash `appended` goes on from the last commit that was recovered, which is never before a commit that
/// was durable: only numbers of commits that a crash has taken back are given again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// Last commit made.
    pub appended: Lsn,
    /// Last commit whose write the log device has completed. A power cut may take it back.
    pub flushed: Lsn,
    /// Last commit that survives any crash.
    pub durable: Lsn,
}

impl Engine {
    /// The marks now. Waits for nothing.
    pub fn marks(&self) -> Marks {
        let trail = &self.0.trail;
        Marks {
            appended: trail.appended(),
            flushed: trail.flushed(),
            durable: trail.durable(),
        }
    }
}
