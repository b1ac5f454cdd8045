//! The implicit unit of a connection. All its writes to databases of one store, from the first write under an exclusive
//! lock to the end of its transaction, are one atomic recovery unit.
//!
//! 1. The unit begins with the first write to any of the connection's databases, and the other databases join it.
//! 2. It ends once: with the first `COMMIT_PHASETWO` of a member, or, if there is a super-journal, with the deletion of
//!    that. SQLite has by then ended phase one of all databases, so the transaction has no later writes.
//! 3. A member that unlocks, closes or begins again before that rolls back, and the whole unit is aborted. What the
//!    other members still write is void ("lost") until they unlock too: they are about to roll back as well.

use crate::failure::{Failure, Result};
use crate::ffi;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tonearm_store::files::{AruId, Files};

/// LSN of the last commit of a connection in a store; 0 before the first one.
pub type LastCommit = AtomicU64;

/// A transaction of one connection in one store.
pub struct Transaction {
    files: Arc<dyn Files>,
    last: Arc<LastCommit>,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    members: usize,
    durable: bool,
}

/// The state of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Its unit is open.
    Open(AruId),
    /// The unit has ended. Later calls of a member belong to a new transaction.
    Ended,
    /// One member has aborted the unit, and others have not noticed yet.
    Lost,
}

impl Transaction {
    /// Opens a unit, with one member. Its end puts the LSN into `last`.
    ///
    /// # Errors
    /// Those of [`Files::begin`].
    pub fn begin(files: &Arc<dyn Files>, last: Arc<LastCommit>) -> Result<Self> {
        let aru = files.begin().map_err(Failure::of(ffi::IOERR_WRITE))?;
        Ok(Self {
            files: files.clone(),
            last,
            state: Mutex::new(State {
                phase: Phase::Open(aru),
                members: 1,
                durable: false,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its state.
    pub fn phase(&self) -> Phase {
        self.state().phase
    }

    /// Adds another member. False when the transaction is over.
    pub fn join(&self) -> bool {
        let mut state = self.state();
        let is_open = matches!(state.phase, Phase::Open(_));
        state.members += usize::from(is_open);
        is_open
    }

    /// Makes the end wait until it is durable.
    pub fn make_durable(&self) {
        self.state().durable = true;
    }

    /// Fails when another member has aborted the unit.
    ///
    /// # Errors
    /// `IOERR`: the transaction has to be rolled back.
    pub fn check(&self) -> Result<()> {
        match self.phase() {
            Phase::Lost => Err(lost()),
            _ => Ok(()),
        }
    }

    /// Ends the unit with all its writes. `whole` says that the connection itself commits, so that all members do.
    ///
    /// # Errors
    /// `FULL` or `IOERR`: none of the unit has taken effect.
    pub fn end(&self, whole: bool) -> Result<()> {
        let (aru, durable) = {
            let mut state = self.state();
            let Phase::Open(aru) = state.phase else {
                drop(state);
                return self.check();
            };
            if state.members > 1 && !whole {
                drop(state);
                self.abort();
                let text = "a backup into a database ends while its connection has a transaction open on another one; \
                            give the backup a connection of its own";
                return Err(Failure::new(ffi::IOERR_COMMIT_ATOMIC, text));
            }
            state.phase = Phase::Ended;
            (aru, state.durable)
        };
        let lsn = self.files.end(aru, durable).map_err(Failure::at_end)?;
        // A unit without changes has no LSN.
        self.last.fetch_max(lsn.0, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the unit without any effect, if it is still open.
    pub fn abort(&self) {
        let mut state = self.state();
        if let Phase::Open(aru) = state.phase {
            state.phase = if state.members > 1 {
                Phase::Lost
            } else {
                Phase::Ended
            };
            drop(state);
            self.files.abort(aru);
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.abort();
    }
}

fn lost() -> Failure {
    let text = "the transaction was rolled back in another database of its connection";
    Failure::new(ffi::IOERR_COMMIT_ATOMIC, text)
}
