//! SQLite's locks on files, for all sessions of a store (`src/os.h` of SQLite: SHARED, RESERVED, PENDING,
//! EXCLUSIVE).

use crate::files::{FilesError, FilesErrorKind, Level};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A handle of a session.
pub(crate) type Holder = (u64, u64);

/// The holders of locks on each file (its serial number). Handles without a lock are not listed.
#[derive(Default)]
pub(crate) struct Locks(BTreeMap<u64, BTreeMap<Holder, Level>>);

/// A step that SQLite's rules do not allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WrongStep {
    pub from: Level,
    pub to: Level,
}

impl Locks {
    /// The lock of `holder`.
    pub fn level(&self, file: u64, holder: Holder) -> Level {
        let of_file = self.0.get(&file);
        let level = of_file.and_then(|holders| holders.get(&holder));
        level.copied().unwrap_or_default()
    }

    /// Raises the lock. False when locks of others prevent it.
    pub fn lock(&mut self, file: u64, holder: Holder, to: Level) -> Result<bool, WrongStep> {
        let from = self.level(file, holder);
        if to <= from {
            return Ok(true);
        }
        let others = self.others(file, holder);
        let granted = match (from, to) {
            (Level::None, Level::Shared) => (others < Level::Pending).then_some(to),
            (Level::Shared, Level::Reserved) => (others < Level::Reserved).then_some(to),
            (Level::Shared | Level::Reserved | Level::Pending, Level::Exclusive) => match others {
                Level::None => Some(Level::Exclusive),
                // New readers are kept out from now on; present readers may finish.
                Level::Shared => Some(Level::Pending),
                _ => None,
            },
            _ => return Err(WrongStep { from, to }),
        };
        if let Some(level) = granted {
            self.0.entry(file).or_default().insert(holder, level);
        }
        Ok(granted == Some(to))
    }

    /// Lowers the lock to `Shared` or `None`.
    pub fn unlock(&mut self, file: u64, holder: Holder, to: Level) -> Result<(), WrongStep> {
        let from = self.level(file, holder);
        if to > Level::Shared {
            return Err(WrongStep { from, to });
        }
        if to >= from {
            return Ok(());
        }
        let holders = self.0.entry(file).or_default();
        match to {
            Level::None => holders.remove(&holder),
            _ => holders.insert(holder, to),
        };
        if holders.is_empty() {
            self.0.remove(&file);
        }
        Ok(())
    }

    /// Whether any handle has `Reserved` or more.
    pub fn reserved(&self, file: u64) -> bool {
        let holders = self.0.get(&file);
        holders.is_some_and(|holders| holders.values().any(|level| *level >= Level::Reserved))
    }

    /// Releases all locks of a session.
    pub fn release(&mut self, session: u64) {
        self.0.retain(|_, holders| {
            holders.retain(|(of, _), _| *of != session);
            !holders.is_empty()
        });
    }

    /// The strongest lock of other handles.
    fn others(&self, file: u64, holder: Holder) -> Level {
        let holders = self.0.get(&file).into_iter().flatten();
        let others = holders.filter(|(of, _)| **of != holder);
        others.map(|(_, level)| *level).max().unwrap_or_default()
    }
}

/// The locks as all threads see them, without the engine; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct SharedLocks(Arc<Mutex<Locks>>);

impl SharedLocks {
    fn locks(&self) -> MutexGuard<'_, Locks> {
        // A panic leaves nothing half done here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Locks::lock`].
    pub fn lock(&self, file: u64, holder: Holder, to: Level) -> Result<bool, FilesError> {
        self.locks().lock(file, holder, to).map_err(failed)
    }

    /// [`Locks::unlock`].
    pub fn unlock(&self, file: u64, holder: Holder, to: Level) -> Result<(), FilesError> {
        self.locks().unlock(file, holder, to).map_err(failed)
    }

    /// [`Locks::reserved`].
    pub fn reserved(&self, file: u64) -> bool {
        self.locks().reserved(file)
    }

    /// [`Locks::release`].
    pub fn release(&self, session: u64) {
        self.locks().release(session);
    }
}

fn failed(WrongStep { from, to }: WrongStep) -> FilesError {
    let text = format!("there is no step from the lock {from:?} to {to:?}");
    FilesError::new(FilesErrorKind::Failed, text)
}

#[cfg(test)]
#[path = "locks_test.rs"]
mod locks_test;
