//! The orderly end of a store.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::superblocks;
use async_recursion::async_recursion as boxed;
use tonearm_format::State;
use tonearm_layout::HomeError;
use tonearm_trail::WriteCache;

impl Engine {
    /// Says that a store which a restore has filled has all of its content.
    ///
    /// # Errors
    /// When the superblocks cannot be written.
    pub async fn complete(&self) -> Result<(), EngineError> {
        let superblock = {
            let mut superblock = self.0.superblock.borrow_mut();
            superblock.incomplete = false;
            superblock.generation += 1;
            superblock.clone()
        };
        superblocks::store(&self.0.pool, &self.0.members, &superblock, true).await
    }

    /// Refuses further commits, also those of callers that wait for space. Then writes everything home, marks the store
    /// clean and ends it. Later calls are errors.
    ///
    /// While the medium below is full, this call waits. If the home itself is full, the blocks that have no space there
    /// stay durable in the log. The store is then not marked clean, and the next opening recovers it.
    ///
    /// # Errors
    /// When something cannot be written. The store then stays marked as open, and the next opening recovers it.
    #[boxed(?Send)]
    pub async fn close(&self) -> Result<(), EngineError> {
        self.0.check_alive()?;
        if self.0.options.read_only {
            self.0.shut();
            return Ok(());
        }
        if std::mem::replace(&mut self.0.life.borrow_mut().closing, true) {
            return Err(EngineError::Closing);
        }
        // A growth that is under way ends, and none begins.
        let _turn = self.0.growth.acquire(1).await;
        self.0.write_back.try_full_again();
        self.0.refusals.notify();
        self.flush().await?;
        let is_home = self.close_home().await?;
        if let Err(error) = self.0.trail.finish().await {
            return Err(self.0.fail(error.into()));
        }
        self.0.shut();
        while self.0.is_home_written() {
            self.0.access.changed.wait().await;
        }
        self.0.trail.stop();
        if !is_home {
            return Ok(());
        }
        let superblock = {
            let mut superblock = self.0.superblock.borrow_mut();
            superblock.log = self.0.trail.end_state();
            superblock.state = State::Clean;
            superblock.generation += 1;
            superblock.clone()
        };
        let flush = self.0.options.write_cache == WriteCache::Volatile;
        superblocks::store(&self.0.pool, &self.0.members, &superblock, flush).await?;
        for array in self.0.members.iter().filter_map(|m| m.redundancy()) {
            array.close().await?;
        }
        Ok(())
    }

    /// Writes everything home and ends the use of the home; false when there is no space for all of it.
    ///
    /// # Errors
    /// When a device fails.
    async fn close_home(&self) -> Result<bool, EngineError> {
        match self.drain().await {
            Err(EngineError::Home(HomeError::Full { .. })) => return Ok(false),
            other => other?,
        }
        while self.0.access.has_spill() {
            self.0.access.changed.wait().await;
        }
        match self.0.home.close().await {
            Ok(()) => Ok(true),
            Err(HomeError::NoSpace { .. } | HomeError::Full { .. }) => Ok(false),
            Err(error) => Err(self.0.fail(error.into())),
        }
    }
}
