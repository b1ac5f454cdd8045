//! A count of the commits that change something.

#![expect(
    clippy::disallowed_types,
    reason = "only the engine writes the count, and callers on any thread read it"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Counts commits that change something: the content, size or attributes of a volume or file, or names. While the
/// count stays the same, what was read after a look at it is still the committed state. Clones share the count. Any
/// thread may read it.
#[derive(Clone, Default, Debug)]
pub struct Changes(Arc<AtomicU64>);

impl Changes {
    /// Commits so far.
    pub fn count(&self) -> u64 {
        self.0.load(SeqCst)
    }

    /// Counts one more commit, before any caller learns of it.
    pub fn note(&self) {
        self.0.fetch_add(1, SeqCst);
    }
}
