//! Back-pressure: a commit gets its memory and its log space before it is made.

use crate::engine::Engine;
use crate::error::EngineError;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use tonearm_base::Nanos;
use tonearm_rt::Permit;
use tonearm_trail::Admission;

/// Pending ranges from which on new ranges wait.
const RANGES_MAX: usize = 4096;
/// Commits kept in the log's account from which on new ones wait: bounds the account's memory.
const COMMITS_MAX: usize = 1 << 20;

impl Engine {
    /// Memory for `bytes` of payload, first come first served. Attach the permit to the payload's buffer.
    ///
    /// # Errors
    /// When the store has failed or is closed, or the call would have to wait while the home is full.
    pub async fn reserve(&self, bytes: u64) -> Result<Permit, EngineError> {
        self.0.check_writable()?;
        let delay = self.0.write_back.delay(bytes);
        if delay > Nanos(0) {
            self.0.rt.sleep(delay).await;
            self.0.check_writable()?;
        }
        let acquire = self.0.memory.acquire(bytes);
        if self.0.memory.used() + bytes > self.0.memory.limit() {
            self.0.work.notify();
        }
        let permit = self.unless_full(acquire).await?;
        self.0.check_writable()?;
        Ok(permit)
    }

    /// Waits for log space for a commit of `blocks` blocks of data and `ranges` ranges, and until fewer ranges and
    /// commits are pending. Take the payload's memory ([`Engine::reserve`]) before.
    ///
    /// While the home is full, data is refused when memory or log are nearly used up: the rest is for commits that make
    /// space.
    ///
    /// # Errors
    /// When the store has failed or is read-only, the log could never hold such a commit, or the home is full.
    pub async fn admit(&self, blocks: u64, ranges: u64) -> Result<Admission, EngineError> {
        self.0.check_writable()?;
        if !self.fits(blocks, ranges) {
            let geometry = self.0.trail.geometry();
            return Err(EngineError::CommitTooLarge {
                bytes: geometry.commit_sectors(blocks, ranges) * geometry.sector_bytes(),
                max_bytes: geometry.commit_sectors_max() * geometry.sector_bytes(),
            });
        }
        loop {
            let pending = self.0.pinned.borrow().range_count();
            if (ranges == 0 || pending < RANGES_MAX)
                && self.0.trail.retained_commits() < COMMITS_MAX
            {
                break;
            }
            let changed = self.0.access.changed.wait();
            self.0.work.notify();
            self.unless_full(changed).await?;
            self.0.check_writable()?;
        }
        if ranges == 0 && self.0.write_back.is_pressed() {
            self.0.write_back.check_full()?;
        }
        let admission = match self.unless_full(self.0.trail.admit(blocks, ranges)).await? {
            Ok(admission) => admission,
            Err(error) => return Err(self.0.fail(error.into())),
        };
        self.0.check_writable()?;
        Ok(admission)
    }

    /// The outcome of `space`.
    ///
    /// # Errors
    /// When `space` would have to be waited for while the home is full, or the store has failed or is being closed.
    async fn unless_full<T>(&self, space: impl Future<Output = T>) -> Result<T, EngineError> {
        let mut space = pin!(space);
        let mut refusal = self.0.refusals.wait();
        poll_fn(|context| {
            if let Poll::Ready(done) = space.as_mut().poll(context) {
                return Poll::Ready(Ok(done));
            }
            let full = || self.0.write_back.check_full();
            if let Err(refused) = self.0.check_writable().and_then(|()| full()) {
                return Poll::Ready(Err(refused));
            }
            while Pin::new(&mut refusal).poll(context).is_ready() {
                refusal = self.0.refusals.wait();
            }
            Poll::Pending
        })
        .await
    }
}
