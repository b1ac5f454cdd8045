//! The volumes and files that a recovery unit makes, deletes and renames. Each change is made in the unit's shadow at
//! once, and again at its end.

use crate::error::DiskError;
use crate::state::{Life, SharedVolume};
use std::collections::BTreeMap;
use std::rc::Rc;

enum Change {
    Create(String, SharedVolume),
    Delete(SharedVolume),
    Rename(SharedVolume, String),
}

/// Names that differ from the committed ones. `None` stands for a name that no volume has.
pub(super) type Overlay = BTreeMap<String, Option<SharedVolume>>;

/// The name space as a unit sees it.
#[derive(Default)]
pub(super) struct Names {
    overlay: Overlay,
    changes: Vec<Change>,
}

impl Names {
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The unit's change of a name; `None` when it has not changed the name.
    pub fn look_up(&self, name: &str) -> Option<&Option<SharedVolume>> {
        self.overlay.get(name)
    }

    pub fn create(&mut self, name: &str, volume: &SharedVolume) {
        self.overlay.insert(name.to_string(), Some(volume.clone()));
        self.changes
            .push(Change::Create(name.to_string(), volume.clone()));
    }

    pub fn delete(&mut self, name: &str, volume: &SharedVolume) {
        self.overlay.insert(name.to_string(), None);
        self.changes.push(Change::Delete(volume.clone()));
    }

    pub fn rename(&mut self, from: &str, to: &str, volume: &SharedVolume) {
        self.overlay.insert(from.to_string(), None);
        self.overlay.insert(to.to_string(), Some(volume.clone()));
        self.changes
            .push(Change::Rename(volume.clone(), to.to_string()));
    }

    /// Makes all changes again, over the committed names.
    ///
    /// # Errors
    /// When one is not possible any more.
    pub fn replay(&self, committed: &BTreeMap<String, SharedVolume>) -> Result<Overlay, DiskError> {
        let mut overlay = Overlay::new();
        for change in &self.changes {
            match change {
                Change::Create(name, volume) => take(committed, &mut overlay, name, volume)?,
                Change::Delete(volume) => {
                    let name = name_of(&overlay, volume)?;
                    overlay.insert(name, None);
                }
                Change::Rename(volume, to) => {
                    let name = name_of(&overlay, volume)?;
                    overlay.insert(name, None);
                    take(committed, &mut overlay, to, volume)?;
                }
            }
        }
        Ok(overlay)
    }
}

fn take(
    committed: &BTreeMap<String, SharedVolume>,
    overlay: &mut Overlay,
    name: &str,
    volume: &SharedVolume,
) -> Result<(), DiskError> {
    let taken = match overlay.get(name) {
        Some(known) => known.is_some(),
        None => committed.contains_key(name),
    };
    if taken {
        return Err(DiskError::Conflict(format!(
            "there is a volume {name:?} now"
        )));
    }
    overlay.insert(name.to_string(), Some(volume.clone()));
    Ok(())
}

/// The volume's name now.
fn name_of(overlay: &Overlay, volume: &SharedVolume) -> Result<String, DiskError> {
    let own = overlay.iter().find(|(_, other)| {
        other
            .as_ref()
            .is_some_and(|other| Rc::ptr_eq(other, volume))
    });
    if let Some((name, _)) = own {
        return Ok(name.clone());
    }
    let state = volume.borrow();
    match state.life {
        Life::Live => Ok(state.entry.name.clone()),
        _ => Err(super::volume::deleted(&state.entry.name)),
    }
}
