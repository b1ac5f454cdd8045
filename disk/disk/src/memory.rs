//! The memory of a commit that is planned again until its plan is current.

use tonearm_engine::{Engine, EngineError};
use tonearm_rt::Permit;

/// Memory for the blocks of a commit, until the engine has charged each buffer.
#[derive(Default)]
pub(crate) struct CommitMemory {
    blocks: u64,
    permit: Option<Permit>,
}

impl CommitMemory {
    /// Reserves memory for `blocks` blocks, unless there is so much. A commit with `ranges` frees space, and does not wait for it.
    pub async fn reserve(
        &mut self,
        engine: &Engine,
        (blocks, ranges): (u64, u64),
    ) -> Result<(), EngineError> {
        if blocks <= self.blocks {
            return Ok(());
        }
        // A commit that waits for memory must not hold any.
        self.permit = None;
        let bytes = blocks * engine.block_size() as u64;
        self.permit = Some(match ranges {
            0 => engine.reserve(bytes).await?,
            _ => engine.reserve_to_free(bytes).await?,
        });
        self.blocks = blocks;
        Ok(())
    }
}
