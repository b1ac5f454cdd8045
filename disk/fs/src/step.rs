//! The recovery unit of one operation, and the attempts of one that begins again.

use crate::error::{FsError, damaged};
use crate::unit::UnitState;
use async_recursion::async_recursion as boxed;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use tonearm_base::Lsn;
use tonearm_disk::{Aru, Disk};
use tonearm_rt::Permit;

/// The recovery unit of one operation: one of its own, or that of the application's unit.
pub(crate) struct Step {
    aru: Option<Aru>,
    of: Option<(Rc<UnitState>, Permit)>,
    /// The application's unit has changes whose items are not in its overlay yet.
    is_partial: bool,
}

impl Step {
    pub fn own(aru: Aru) -> Self {
        Self {
            aru: Some(aru),
            of: None,
            is_partial: false,
        }
    }

    /// Waits until the unit's operation before has ended. The unit has a recovery unit from its first change on: before, it holds
    /// nothing, not even space that others free.
    #[boxed(?Send)]
    pub async fn of(unit: &Rc<UnitState>, disk: &Disk) -> Result<Self, FsError> {
        unit.check()?;
        let turn = unit.turn.acquire(1).await;
        unit.check()?;
        Ok(Self {
            aru: Some(unit.aru.take().unwrap_or_else(|| disk.begin())),
            of: Some((unit.clone(), turn)),
            is_partial: false,
        })
    }

    pub fn into_aru(mut self) -> Aru {
        self.aru.take().expect("a step has its unit until it ends")
    }

    /// The operation's items are in the overlay.
    pub fn complete(&mut self) {
        self.is_partial = false;
    }
}

impl Deref for Step {
    type Target = Aru;

    fn deref(&self) -> &Aru {
        self.aru
            .as_ref()
            .expect("a step has its unit until it ends")
    }
}

impl DerefMut for Step {
    fn deref_mut(&mut self) -> &mut Aru {
        self.is_partial = true;
        self.aru
            .as_mut()
            .expect("a step has its unit until it ends")
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        let Some((unit, _)) = &self.of else { return };
        if self.is_partial {
            unit.fail(FsError::UnitEnded("one of its operations has failed"));
        }
        if unit.check_failed().is_ok() {
            unit.aru
                .replace(self.aru.take().filter(|aru| !aru.is_empty()));
        }
    }
}

/// Times that an operation begins again while nobody commits: a file may come into use, and leave it.
const ATTEMPTS: u32 = 8;

/// The attempts of an operation that begins again when others have changed what it has looked up.
#[derive(Default)]
pub(crate) struct Attempts {
    last: Lsn,
    count: u32,
}

impl Attempts {
    /// Notes that it begins again.
    ///
    /// # Errors
    /// When nobody has committed for some attempts: the tree contradicts itself, as with two items of one key.
    pub fn again(&mut self, disk: &Disk) -> Result<(), FsError> {
        let now = disk.engine().marks().appended;
        if self.last != now {
            *self = Self {
                last: now,
                count: 0,
            };
        }
        self.count += 1;
        if self.count < ATTEMPTS {
            Ok(())
        } else {
            Err(damaged("an item is another one each time it is looked up"))
        }
    }
}
