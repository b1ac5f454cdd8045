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

/// The effect of one commit. The identity is that of the volume when the operation began.
#[derive(Clone)]
pub enum Effect {
    /// Writes bytes.
    Write {
        volume: u8,
        id: u64,
        offset: u64,
        data: Rc<[u8]>,
    },
    /// Zeroes exactly this range, up to the end of the volume.
    Zero {
        volume: u8,
        id: u64,
        offset: u64,
        len: u64,
    },
    /// Zeroes the whole blocks of the range.
    Trim {
        volume: u8,
        id: u64,
        offset: u64,
        len: u64,
    },
    /// Creates a volume.
    Create { volume: u8, id: u64, size: u64 },
    /// Deletes a volume.
    Delete { volume: u8, id: u64 },
    /// Changes the size of a volume.
    Resize { volume: u8, id: u64, size: u64 },
}

/// The bytes that an effect has changed.
pub(super) struct Touched {
    pub volume: u8,
    pub from: u64,
    pub to: u64,
}

impl Effect {
    /// The volume that it changes.
    pub fn volume(&self) -> u8 {
        match self {
            Effect::Write { volume, .. }
            | Effect::Zero { volume, .. }
            | Effect::Trim { volume, .. }
            | Effect::Create { volume, .. }
            | Effect::Delete { volume, .. }
            | Effect::Resize { volume, .. } => *volume,
        }
    }

    /// True when it changes more than bytes.
    pub fn is_administrative(&self) -> bool {
        matches!(
            self,
            Effect::Create { .. } | Effect::Delete { .. } | Effect::Resize { .. }
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
        let number = effect.volume();
        if let Effect::Create { id, size, .. } = effect {
            let volume = Volume {
                id: *id,
                size: *size,
                content: DiskImage::new(*size),
            };
            if self.volumes.insert(number, volume).is_some() {
                return Err(format!("volume {number} was made twice"));
            }
            return Ok(touched(number, 0, *size));
        }
        let (Effect::Write { id, .. }
        | Effect::Zero { id, .. }
        | Effect::Trim { id, .. }
        | Effect::Create { id, .. }
        | Effect::Delete { id, .. }
        | Effect::Resize { id, .. }) = effect;
        let Some(volume) = self.volumes.get_mut(&number).filter(|v| v.id == *id) else {
            return Err(format!("a commit to volume {number} after its end"));
        };
        let size = volume.size;
        let inside = |end: u64| {
            let beyond = format!("a commit up to byte {end} of volume {number}, which has {size}");
            (end <= size).then_some(()).ok_or(beyond)
        };
        match effect {
            Effect::Write { offset, data, .. } => {
                inside(offset + data.len() as u64)?;
                volume.content.write(*offset, data);
                Ok(touched(number, *offset, offset + data.len() as u64))
            }
            Effect::Zero { offset, len, .. } => {
                inside(offset + len)?;
                volume.content.zero(*offset, *len);
                Ok(touched(number, *offset, offset + len))
            }
            Effect::Trim { offset, len, .. } => {
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
            Effect::Resize { size: new, .. } => {
                if *new < size {
                    volume.content.zero(*new, size - new);
                }
                volume.size = *new;
                Ok(touched(number, (*new).min(size) / block * block, *new))
            }
            Effect::Delete { .. } | Effect::Create { .. } => {
                self.volumes.remove(&number);
                Ok(touched(number, 0, 0))
            }
        }
    }
}

fn touched(volume: u8, from: u64, to: u64) -> Touched {
    Touched { volume, from, to }
}
