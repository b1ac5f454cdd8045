//! The archive of a store that threads share.
//!
//! The archiver has a thread of its own, which calls the store as other threads do. It does not keep the store open: the
//! end of the store lets it archive everything that is durable, and then waits for its end.

mod thread;

use crate::error::StoreError;
use crate::store::Store;
use std::sync::mpsc::channel;
pub use thread::{ARCHIVE_GRACE, ArchiveEnd, ArchiveThread, Call, Caller, archive_unfinished};
use tonearm_archive::{ArchiverOptions, Bucket, EngineSource, MarkRequest};
use tonearm_base::{Lsn, Nanos};
use tonearm_engine::{ArchiveInfo, ArchiveState, Engine};
use tonearm_rt::Rt;

/// How long [`Store::start_archive`] waits until the archive is taken over.
const TAKE_OVER: Nanos = Nanos::from_secs(10);

/// Begins an archive at `url`, on the engine's thread. Returns what its archiver reads.
///
/// # Errors
/// When the store is archived already, or is open read-only.
pub fn begin_archive(engine: &Engine, rt: &Rt, url: &str) -> Result<EngineSource, StoreError> {
    engine.begin_archive(url)?;
    Ok(EngineSource::new(engine, rt, thread::unix_ms))
}

impl Store {
    /// Begins to archive the store in `bucket`, where an earlier archive of the store there has ended. Returns when the
    /// archive has been taken over. When the bucket does not answer it returns, too, and the archiver tries again until it
    /// does. The end of the store archives everything that is durable, which takes at most 30 seconds.
    ///
    /// # Errors
    /// When the store is archived already or is open read-only, when the archive belongs to another store, or has commits
    /// that this one does not have, or when the bucket refuses.
    pub fn start_archive(
        &self,
        bucket: impl Bucket + Send + 'static,
        options: ArchiverOptions,
    ) -> Result<(), StoreError> {
        let leader = self.leader().clone();
        if !leader.is_shared() {
            return Err(StoreError::WrongThread);
        }
        self.check()?;
        let mut running = self.archive_thread();
        let url = bucket.url();
        self.run(move |context| async move {
            let source = begin_archive(context.disk.engine(), &context.rt, &url)?;
            context.archive.replace(Some(source));
            Ok::<_, StoreError>(())
        })??;
        let caller = move |call: Call| {
            let made = leader.run(move |context| async move {
                let source = context.archive.borrow().clone();
                match source {
                    Some(source) => call(source).await,
                    None => return false,
                }
                true
            });
            made.unwrap_or(false)
        };
        match ArchiveThread::start(bucket, options, Box::new(caller), |_| {}) {
            Ok(thread) => *running = Some(thread),
            Err(error) => {
                self.run(|context| async move {
                    if let Some(source) = context.archive.take() {
                        source.fail("no thread could be started");
                    }
                })?;
                return Err(StoreError::Thread(error));
            }
        }
        let begun = self.run(|context| async move {
            let engine = context.disk.engine();
            engine.archive_begun(context.rt.now() + TAKE_OVER.0).await;
            engine.archive()
        })?;
        match begun {
            Some(info) if info.state == ArchiveState::Ended => {
                *running = None;
                Err(StoreError::Archive(info.why.unwrap_or_default()))
            }
            _ => Ok(()),
        }
    }

    /// How far the archive is; of one that has ended, why. `None` when the store was not archived since it was opened.
    ///
    /// # Errors
    /// As for [`Store::stats`].
    pub fn archive(&self) -> Result<Option<ArchiveInfo>, StoreError> {
        self.run(|context| async move { context.disk.engine().archive() })
    }

    /// The last archived commit: the store can be restored to it, and to those before it as far as they are kept. 0 while
    /// there is none. Waits for nothing, so that a program can look from time to time.
    ///
    /// # Errors
    /// As for [`Store::stats`].
    pub fn archived(&self) -> Result<Lsn, StoreError> {
        self.run(|context| async move { context.disk.engine().archived() })
    }

    /// Waits until the unit that ended with `lsn`, and all before it, are durable and archived. While the bucket does not
    /// answer, it goes on waiting.
    ///
    /// # Errors
    /// As for [`Store::wait_durable`]; when the store has no archive, or it has ended or ends meanwhile.
    pub fn wait_archived(&self, lsn: Lsn) -> Result<(), StoreError> {
        Ok(self.run(move |context| async move { context.disk.wait_archived(lsn).await })??)
    }

    /// Gives the present state a name in the archive, and returns its LSN. `tonearm restore --to-mark` finds it.
    ///
    /// # Errors
    /// When the store has no archive, when nothing can be restored from it yet, when the name is in use, or is none of 1 to
    /// 100 letters, digits and characters of `. _ -`.
    pub fn mark(&self, name: &str) -> Result<Lsn, StoreError> {
        let (done, result) = channel();
        let name = name.to_string();
        let lsn = self.run(move |context| async move {
            let lsn = context.disk.marks().appended;
            context.disk.wait_durable(lsn).await?;
            let source = context.archive.borrow().clone();
            let source = source.ok_or(StoreError::NotArchived)?;
            source.mark(MarkRequest { name, lsn, done });
            Ok::<_, StoreError>(lsn)
        })??;
        let result = result.recv().map_err(|_| StoreError::NotArchived)?;
        result.map_err(StoreError::Archive)?;
        Ok(lsn)
    }

    /// Archives what is durable, and ends the archive.
    ///
    /// # Errors
    /// When there is none; when it has ended before, or not everything was archived within 30 seconds.
    pub fn stop_archive(&self) -> Result<(), StoreError> {
        self.check()?;
        let mut running = self.archive_thread();
        let thread = running.as_ref().ok_or(StoreError::NotArchived)?;
        if !thread.has_ended_in_time() {
            return Err(archive_unfinished());
        }
        let ended = running.take().map_or(Ok(()), ArchiveThread::join);
        ended.map_err(StoreError::Archive)
    }
}
