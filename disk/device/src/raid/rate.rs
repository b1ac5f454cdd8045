//! The caller's hold on a rebuild.

use crate::pace::ByteRate;
use std::cell::Cell;
use std::rc::Rc;

/// How a rebuild runs: its speed, which may be changed while it runs, and whether it goes on where a stripe cannot be
/// computed. Clones share it.
#[derive(Clone, Default)]
pub struct RebuildRate(Rc<Rate>);

#[derive(Default)]
struct Rate {
    bytes: ByteRate,
    stopped: Cell<bool>,
    skips_unreadable: Cell<bool>,
}

impl RebuildRate {
    /// At most this many bytes of the replacement a second; 0 means no limit.
    pub fn new(bytes_per_second: u64) -> Self {
        let rate = Self::default();
        rate.set(bytes_per_second);
        rate
    }

    /// Changes the rate.
    pub fn set(&self, bytes_per_second: u64) {
        self.0.bytes.set(bytes_per_second);
    }

    /// Has the rebuild give up sectors that cannot be read where a member is missing. They are lost, each with the bytes
    /// of the missing member that it was to restore. The rebuild ends with [`RebuiltInPart`](super::RaidError::RebuiltInPart) then.
    pub fn skip_unreadable(self) -> Self {
        self.0.skips_unreadable.set(true);
        self
    }

    /// Ends the rebuild at the next stripe. Another one goes on from there.
    pub fn stop(&self) {
        self.0.stopped.set(true);
    }

    pub(super) fn bytes(&self) -> &ByteRate {
        &self.0.bytes
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0.stopped.get()
    }

    pub(super) fn skips_unreadable(&self) -> bool {
        self.0.skips_unreadable.get()
    }
}
