//! How far the archive of an open store is.

use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::fmt;
use tonearm_base::Lsn;
use tonearm_rt::{Notify, Rt};

/// What the archiver of a store is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArchiveState {
    /// It takes the archive over.
    #[default]
    Starting,
    /// It archives what becomes durable.
    Running,
    /// The bucket does not answer.
    Waiting,
    /// It has ended.
    Ended,
}

impl ArchiveState {
    /// Its number among the numbers of a store, where 0 means that there is no archive.
    pub fn number(self) -> u64 {
        self as u64 + 1
    }
}

impl fmt::Display for ArchiveState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Ended => "ended",
        })
    }
}

/// How far the archive of an open store is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ArchiveInfo {
    /// The address.
    pub url: String,
    /// What the archiver is doing.
    pub state: ArchiveState,
    /// Why it waits or has ended.
    pub why: Option<String>,
    /// Last commit that is archived; 0 while nothing can be restored.
    pub archived_lsn: u64,
    /// Durable commits that are not archived.
    pub lag_commits: u64,
    /// The store can be restored.
    pub restorable: bool,
    /// Percent of the base that is being made.
    pub base_percent: Option<u64>,
    /// Objects put since the start.
    pub objects: u64,
    /// Bytes of changes and blocks since the start.
    pub raw_bytes: u64,
    /// Bytes put since the start.
    pub stored_bytes: u64,
    /// Times that commits were lost for the archive: the log has overtaken it, or a unit was too large.
    pub gaps: u64,
    /// Ranges of commits that were merged since the start.
    pub merged: u64,
    /// Why ranges are not merged any more.
    pub unmerged: Option<String>,
    /// What else is not as it should be.
    pub notes: Box<ArchiveNotes>,
    /// How the clock of the machine was set last, if it was.
    pub clock: Option<String>,
    /// Times that it was set since the start.
    pub clock_jumps: u64,
}

/// What of an archive is not as it should be, while commits are archived.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ArchiveNotes {
    /// Objects that are none of this archive, and what becomes of them.
    pub odd: Option<String>,
    /// Why what is too old is not deleted.
    pub undeleted: Option<String>,
    /// Why there is no new base.
    pub unbased: Option<String>,
}

/// How far the archive is.
pub(crate) struct Archived {
    /// Last archived commit. It stays when an archive ends, until another one begins.
    pub lsn: Cell<Lsn>,
    /// The last archive since the opening.
    pub last: RefCell<Option<ArchiveInfo>>,
    pub changed: Notify,
}

impl Archived {
    /// There is no archive.
    pub fn none(rt: &Rt) -> Self {
        Self {
            lsn: Cell::default(),
            last: RefCell::default(),
            changed: Notify::new(rt),
        }
    }

    /// The last archive since the opening, of a store that is durable up to `durable`.
    pub fn info(&self, durable: Lsn) -> Option<ArchiveInfo> {
        let mut info = self.last.borrow().clone()?;
        info.lag_commits = durable.0.saturating_sub(info.archived_lsn);
        Some(info)
    }

    /// Why nothing more will be archived, if that is so.
    pub fn ended(&self) -> Option<String> {
        match &*self.last.borrow() {
            None => Some("the store has no archive".into()),
            Some(info) if info.state == ArchiveState::Ended => {
                Some(info.why.clone().unwrap_or_default())
            }
            Some(_) => None,
        }
    }
}
