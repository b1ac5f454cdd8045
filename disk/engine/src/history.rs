//! What an archive reads of an open store: its durable commits, and its blocks. And what it reports: the last commit that is
//! archived.

use crate::archived::{ArchiveInfo, ArchiveState};
use crate::engine::Engine;
use crate::error::EngineError;
use async_recursion::async_recursion as boxed;
use tonearm_base::{Lsn, Nanos, crc32c};
use tonearm_format::EntryKind;
use tonearm_layout::Piece;
use tonearm_rt::Notified;
use tonearm_trail::{History, HistoryError};

/// Content of a block that a commit moved.
#[derive(Clone, Debug)]
pub struct MovedContent {
    /// The content.
    pub piece: Piece,
    /// It is what the commit put there. Otherwise later commits have changed the block.
    pub is_exact: bool,
}

impl Engine {
    /// The last commit that is archived.
    pub fn archived(&self) -> Lsn {
        self.0.archived.lsn.get()
    }

    /// How far the last archive since the opening is; `None` when there was none.
    pub fn archive(&self) -> Option<ArchiveInfo> {
        self.0.archived.info(self.marks().durable)
    }

    /// Notes that an archive at `url` begins.
    ///
    /// # Errors
    /// When the store is archived already, is open read-only, or grows at the moment.
    pub fn begin_archive(&self, url: &str) -> Result<(), EngineError> {
        let archived = &self.0.archived;
        if archived.ended().is_none() {
            let last = archived.last.borrow();
            let url = last.as_ref().map(|info| info.url.clone());
            return Err(EngineError::Archived(url.unwrap_or_default()));
        }
        if self.options().read_only {
            return Err(EngineError::OpenReadOnly);
        }
        if self.0.growth.used() > 0 {
            return Err(EngineError::Growing);
        }
        *archived.last.borrow_mut() = Some(ArchiveInfo {
            url: url.to_string(),
            ..ArchiveInfo::default()
        });
        // What another archive has is not in this one.
        archived.lsn.set(Lsn(0));
        archived.changed.notify();
        Ok(())
    }

    /// Notes how far the archive is.
    pub fn note_archive(&self, change: impl FnOnce(&mut ArchiveInfo)) {
        let archived = &self.0.archived;
        let mut last = archived.last.borrow_mut();
        let info = last.get_or_insert_default();
        change(info);
        let lsn = Lsn(info.archived_lsn);
        archived.lsn.set(lsn.max(archived.lsn.get()));
        drop(last);
        archived.changed.notify();
    }

    /// Resolves when the archiver has reported something, or an archive begins.
    pub fn archive_changed(&self) -> Notified {
        self.0.archived.changed.wait()
    }

    /// Waits until the archive has been taken over, its bucket does not answer, or it has ended. No longer than until
    /// `deadline`.
    pub async fn archive_begun(&self, deadline: Nanos) {
        let archived = &self.0.archived;
        loop {
            let changed = archived.changed.wait();
            let state = archived.last.borrow().as_ref().map(|info| info.state);
            if state != Some(ArchiveState::Starting) || self.0.rt.now() >= deadline {
                return;
            }
            changed.until(deadline).await;
        }
    }

    /// Waits until commit `lsn`, which is durable, is archived; false when it is not by `deadline`.
    ///
    /// # Errors
    /// When the store has no archive, or nothing more is archived, or the store fails.
    pub async fn wait_archived(
        &self,
        lsn: Lsn,
        deadline: Option<Nanos>,
    ) -> Result<bool, EngineError> {
        let archived = &self.0.archived;
        loop {
            let changed = archived.changed.wait();
            if archived.lsn.get() >= lsn {
                return Ok(true);
            }
            if let Some(reason) = archived.ended() {
                return Err(EngineError::NotArchived(lsn, reason));
            }
            self.0.check_alive()?;
            match deadline {
                None => changed.await,
                Some(at) if self.0.rt.now() < at => changed.until(at).await,
                Some(_) => return Ok(false),
            }
        }
    }

    /// Bytes of log that were written since the opening.
    pub fn log_written_bytes(&self) -> u64 {
        self.0.trail.stats().bytes
    }

    /// Bytes of log that are kept in memory for a reader that keeps up; `None` where no drive's head is followed.
    pub fn log_kept_bytes(&self) -> Option<u64> {
        self.0.trail.kept_bytes()
    }

    /// A reader of the durable commits from `from` on. It holds nothing: the log goes on, and overtakes a slow reader.
    ///
    /// # Errors
    /// When the log does not have that commit any more.
    #[boxed(?Send)]
    pub async fn history(&self, from: Lsn) -> Result<History, HistoryError> {
        History::open(&self.0.trail, from).await
    }

    /// Content of block `to` after an earlier commit, whose entry `kind` in the log says where it was. When `to` has changed since,
    /// the content is often still there: the space is used in turn.
    ///
    /// # Errors
    /// When a block cannot be read.
    #[boxed(?Send)]
    pub async fn moved_content(
        &self,
        to: u64,
        kind: EntryKind,
    ) -> Result<MovedContent, EngineError> {
        let crc = match kind {
            EntryKind::Move { crc, .. } | EntryKind::Indirect { crc, .. } => Some(crc),
            _ => None,
        };
        let has_moved =
            |piece: &Piece| matches!(piece, Piece::Data(data) if Some(crc32c(data)) == crc);
        let now = self.read_block(to).await?;
        if has_moved(&now) {
            return Ok(MovedContent {
                piece: now,
                is_exact: true,
            });
        }
        let before = match (kind, self.0.home.indirect()) {
            // No read of the home may meet a write of the same blocks. A spill waits for the reads that are under way.
            (EntryKind::Move { from, .. }, _) if !self.0.access.is_spilled(from, from + 1) => {
                Some(self.read_block(from).await?)
            }
            (EntryKind::Indirect { place, crc }, Some(home)) => {
                let read = home.read(place, vec![(to, crc)]).await;
                read.ok().map(Piece::Data)
            }
            _ => None,
        };
        if let Some(piece) = before.filter(has_moved) {
            return Ok(MovedContent {
                piece,
                is_exact: true,
            });
        }
        Ok(MovedContent {
            piece: now,
            is_exact: false,
        })
    }

    async fn read_block(&self, block: u64) -> Result<Piece, EngineError> {
        let pieces = self.read(block, 1).await?;
        let zero = || Piece::Zero(self.block_size());
        Ok(pieces.into_iter().next().unwrap_or_else(zero))
    }
}
