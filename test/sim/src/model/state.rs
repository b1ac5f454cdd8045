//! The state of all volumes, and the effects of commits.

use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_world::DiskImage;

/// A volume in the model.
#[derive(Clone)]
pub struct Volume {
    /// Identity. It distinguishes a volume from an earlier one of the same name.
    pub id: u64,
    /// Size in bytes.
    pub size: u64,
    /// Content. It is zero beyond the end.
    pub content: DiskImage,
}

/// All volumes. A clone is cheap.
#[derive(Clone, Default)]
pub struct State {
    /// The volumes by number.
    pub volumes: BTreeMap<u8, Volume>,
}

/// The effect of one commit on a volume.
#[derive(Clone)]
pub struct Effect {
    /// Number of the volume.
    pub volume: u8,
    /// Identity of the volume when the operation began.
    pub id: u64,
    /// What it changes.
    pub change: Change,
}

/// A change of a volume.
#[derive(Clone)]
pub enum Change {
    /// Writes bytes.
    Write { offset: u64, data: Rc<[u8]> },
    /// Zeroes exactly this range, up to the end of the volume.
    Zero { offset: u64, len: u64 },
    /// Zeroes the whole blocks of the range.
    Trim { offset: u64, len: u64 },
    /// Creates the volume, of this size.
    Create(u64),
    /// Deletes it.
    Delete,
    /// Changes its size.
    Resize(u64),
}

/// The bytes that an effect has changed.
#[derive(Clone)]
pub(super) struct Touched {
    pub volume: u8,
    pub from: u64,
    pub to: u64,
}

impl Effect {
    /// True when it changes more than bytes.
    pub fn is_administrative(&self) -> bool {
        matches!(
            self.change,
            Change::Create(_) | Change::Delete | Change::Resize(_)
        )
    }
}

impl State {
    /// A state with only the volume `main`.
    pub fn with_main(size: u64) -> Self {
        let main = Volume {
            id: 0,
            size,
            content: DiskImage::new(size),
        };
        Self {
            volumes: BTreeMap::from([(0, main)]),
        }
    }

    /// Numbers of the volumes.
    pub fn names(&self) -> impl Iterator<Item = u8> + use<> {
        let names: Vec<u8> = self.volumes.keys().copied().collect();
        names.into_iter()
    }

    /// Applies `effect`.
    ///
    /// # Errors
    /// When a store must not commit this effect in this state.
    pub(super) fn apply(&mut self, effect: &Effect, block: u64) -> Result<Touched, String> {
        let (number, id) = (effect.volume, effect.id);
        if let Change::Create(size) = effect.change {
            let content = DiskImage::new(size);
            let volume = Volume { id, size, content };
            if self.volumes.insert(number, volume).is_some() {
                return Err(format!("volume {number} was made twice"));
            }
            return Ok(touched(number, 0, size));
        }
        let Some(volume) = self.volumes.get_mut(&number).filter(|v| v.id == id) else {
            return Err(format!("a commit to volume {number} after its end"));
        };
        let size = volume.size;
        let inside = |end: u64| {
            let beyond = format!("a commit up to byte {end} of volume {number}, which has {size}");
            (end <= size).then_some(()).ok_or(beyond)
        };
        match &effect.change {
            Change::Write { offset, data } => {
                inside(offset + data.len() as u64)?;
                volume.content.write(*offset, data);
                Ok(touched(number, *offset, offset + data.len() as u64))
            }
            Change::Zero { offset, len } => {
                inside(offset + len)?;
                volume.content.zero(*offset, *len);
                Ok(touched(number, *offset, offset + len))
            }
            Change::Trim { offset, len } => {
                inside(offset + len)?;
                let from = offset.next_multiple_of(block);
                let to = match offset + len == size {
                    true => size,
                    false => (offset + len) / block * block,
                };
                if from < to {
                    volume.content.zero(from, to - from);
                }
                Ok(touched(number, from, to.max(from)))
            }
            Change::Resize(new) => {
                if *new < size {
                    volume.content.zero(*new, size - new);
                }
                volume.size = *new;
                Ok(touched(number, (*new).min(size) / block * block, *new))
            }
            Change::Delete | Change::Create(_) => {
                self.volumes.remove(&number);
                Ok(touched(number, 0, 0))
            }
        }
    }
}

fn touched(volume: u8, from: u64, to: u64) -> Touched {
    Touched { volume, from, to }
}
