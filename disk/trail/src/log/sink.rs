//! Where the blocks of large commits are written, and how far that is (`log/indirect.rs`).

use crate::pack::IndirectBlock;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_rt::Boxed;

/// Where the blocks of large commits are written.
pub trait IndirectSink {
    /// Writes blocks, in the order of their commits, and gives the place of each. `None` when the log must write them.
    fn append(&self, blocks: Rc<[IndirectBlock]>) -> Boxed<'static, Option<Vec<u64>>>;

    /// Makes durable what was appended.
    ///
    /// # Errors
    /// When that is not possible: why. Nothing more may be logged then.
    fn flush(&self) -> Boxed<'static, Result<(), String>>;
}

/// What is written outside the log.
#[derive(Default)]
pub(crate) struct Indirect {
    pub sink: Option<Rc<dyn IndirectSink>>,
    /// An append or a flush is under way. The queue stands still then.
    pub busy: bool,
    /// When a caller has last waited for a commit.
    pub waited_at: Option<Nanos>,
    /// Bytes in place that may not be durable.
    pub unflushed: u64,
    /// There was no space for the last append. What was appended before is logged before the next one, so that space becomes free.
    pub refused: bool,
}
