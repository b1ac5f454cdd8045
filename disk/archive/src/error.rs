//! Errors of archives. Each says what, where, and what to do.

use crate::bucket::BucketError;
use crate::keys::KeyError;
use tonearm_base::Lsn;
use tonearm_engine::EngineError;
use tonearm_format::FormatError;
use tonearm_layout::HomeError;

/// An error of an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The bucket does not do what it should.
    #[error("archive {url}: {error}")]
    Bucket {
        /// The archive.
        url: String,
        /// The cause.
        error: BucketError,
    },
    /// There is nothing at that place.
    #[error("{url} has no archive: no object is there; check the address")]
    Empty {
        /// The archive.
        url: String,
    },
    /// An object cannot be used.
    #[error("archive {url}: object {name}: {error}; {advice}", advice = advice(error))]
    Object {
        /// The archive.
        url: String,
        /// The object.
        name: String,
        /// The cause.
        error: FormatError,
    },
    /// An object cannot be decrypted.
    #[error("archive {url}: object {name}: {error}")]
    Key {
        /// The archive.
        url: String,
        /// The object.
        name: String,
        /// The cause.
        error: KeyError,
    },
    /// An object that must be there is not.
    #[error(
        "archive {url}: object {name} is missing; commits {first} to {last} cannot be restored unless it is put back \
         (`tonearm history` shows which can)"
    )]
    Missing {
        /// The archive.
        url: String,
        /// The object.
        name: String,
        /// The last commit before it, plus 1.
        first: Lsn,
        /// The last commit for which it is needed.
        last: Lsn,
    },
    /// Objects were merged and deleted, again and again, while the archive was read.
    #[error("archive {url} has changed while it was read; run the command again")]
    Changing {
        /// The archive.
        url: String,
    },
    /// An object does not follow the one before it.
    #[error(
        "archive {url}: object {name} does not follow the object before it: it was put in the place of another, or \
         belongs to another archive; put the right one back, or restore to a commit before it"
    )]
    Unlinked {
        /// The archive.
        url: String,
        /// The object.
        name: String,
    },
    /// The archive is that of another store.
    #[error(
        "archive {url} belongs to another store ({found}); archive this store ({own}) at another address"
    )]
    OtherStore {
        /// The archive.
        url: String,
        /// Identity of its store.
        found: String,
        /// Identity of the store at hand.
        own: String,
    },
    /// Another server archives the same store.
    #[error(
        "archive {url}: another opening of the store has taken over ({creator}); this one does not archive any more. If it is \
         a copy of the store that should not run, stop it",
        creator = shown(creator)
    )]
    Fenced {
        /// The archive.
        url: String,
        /// Who it is.
        creator: String,
    },
    /// The archive knows commits that the store does not have.
    #[error(
        "archive {url} has commits up to {archived}, and the store only up to {own}: the store is an older copy, or has \
         lost commits. Restore it from the archive, or archive it at another address"
    )]
    Behind {
        /// The archive.
        url: String,
        /// Last commit in the archive.
        archived: Lsn,
        /// Last commit of the store.
        own: Lsn,
    },
    /// The archive has another commit of the same number.
    #[error(
        "archive {url}: its commit {lsn} is another one than the store's: the store is a copy that has gone its own way. \
         Archive it at another address"
    )]
    Diverged {
        /// The archive.
        url: String,
        /// The commit.
        lsn: Lsn,
    },
    /// There is no base, or no path from one, for what was asked for.
    #[error("archive {url}: {what}; {ranges}")]
    NotRestorable {
        /// The archive.
        url: String,
        /// What was asked for.
        what: String,
        /// What can be restored instead.
        ranges: String,
    },
    /// A name that is in use.
    #[error("archive {url} has a mark {name} already; choose another name")]
    MarkExists {
        /// The archive.
        url: String,
        /// The mark.
        name: String,
    },
    /// No such name.
    #[error("archive {url} has no mark {name}; `tonearm history {url}` lists them")]
    NoMark {
        /// The archive.
        url: String,
        /// The mark.
        name: String,
    },
    /// The place takes two objects of one name.
    #[error(
        "archive {url}: this place takes two objects of one name, so two servers could write one archive; use a folder, or a \
         bucket with conditional puts (If-None-Match)"
    )]
    Unconditional {
        /// The archive.
        url: String,
    },
    /// The log cannot be read, not even after its last durable commit.
    #[error(
        "archive {url}: the log of the store cannot be read; `tonearm check` reports what is wrong with it"
    )]
    Log {
        /// The archive.
        url: String,
    },
    /// The volume table of a commit is damaged.
    #[error(
        "archive {url}: the volume table at commit {lsn}: {why}; restore the whole store, and let `tonearm check` look \
         at it"
    )]
    Table {
        /// The archive.
        url: String,
        /// The commit.
        lsn: Lsn,
        /// What is wrong.
        why: String,
    },
    /// What is made from an archive cannot be written, or read again.
    #[error(transparent)]
    Output(#[from] std::io::Error),
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
    /// The home of the store that is being made fails.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The store fails.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The archive is to end, and not everything could be archived.
    #[error("archive {url}: ended before everything was archived: {error}")]
    Unfinished {
        /// The archive.
        url: String,
        /// What happened last.
        error: String,
    },
}

impl ArchiveError {
    /// What is wrong with the object that is missing or damaged, if that is what is wrong. Says nothing of what follows from it.
    pub fn damage(&self) -> Option<String> {
        Some(match self {
            Self::Object { name, error, .. } => format!("object {name}: {error}"),
            Self::Missing { name, .. } => format!("object {name} is missing"),
            Self::Unlinked { name, .. } => format!("object {name} is not the one that is named"),
            Self::Key {
                name,
                error: KeyError::Damaged(why),
                ..
            } => format!("object {name} cannot be decrypted ({why})"),
            _ => return None,
        })
    }

    /// The name of the object that is missing or damaged, if that is what is wrong. Other objects may still be right.
    pub fn damaged_object(&self) -> Option<&str> {
        match self {
            Self::Object { name, .. }
            | Self::Missing { name, .. }
            | Self::Unlinked { name, .. }
            | Self::Key {
                name,
                error: KeyError::Damaged(_),
                ..
            } => Some(name),
            _ => None,
        }
    }
}

/// Most characters of a text of an object that are shown.
const SHOWN_MAX: usize = 200;

/// A text that an object has, for a terminal: anybody who can write to the archive chooses it.
fn shown(text: &str) -> String {
    let is_format = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let escaped = |c: char| {
        if c.is_control() || is_format(c) {
            c.escape_default().to_string()
        } else {
            c.to_string()
        }
    };
    text.chars().take(SHOWN_MAX).map(escaped).collect()
}

/// What to do about an object that cannot be used.
pub(crate) fn advice(error: &FormatError) -> &'static str {
    match error {
        FormatError::Version { .. } => "use the tonearm that made it",
        _ => "put an undamaged copy of it back, or restore to a commit before it",
    }
}

#[cfg(test)]
#[path = "error_test.rs"]
mod error_test;
