//! A counter by which other threads tell that nothing has changed.

#![expect(
    clippy::disallowed_types,
    reason = "only the engine writes the count, and callers on any thread read it"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Counts commits that change something: a volume's content, size or entry, or the names of all volumes. What was read
/// after a look at the count is what is committed, as long as the count is the same. Clones share the count; it may
/// be read on any thread.
#[derive(Clone, Default, Debug)]
pub struct Changes(Arc<AtomicU64>);

impl Changes {
    /// Commits so far.
    pub fn count(&self) -> u64 {
        self.0.load(SeqCst)
    }

    /// One more, before any caller learns of it.
    pub(crate) fn note(&self) {
        self.0.fetch_add(1, SeqCst);
    }
}
