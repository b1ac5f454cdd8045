//! The operations of clients on volumes.

use super::client::{Client, Done, done};
use super::content::{CELLS, bytes_of};
use super::model::{MAIN, Unit, blocks_of, cells};
use rand_chacha::rand_core::Rng;
use std::rc::Rc;
use tonearm_disk::{Aru, DiskError, ErrorKind, Volume};
use tonearm_format::Uuid;

/// Largest size of a volume in blocks, except for `main` and one that fills the store.
const VOLUME_BLOCKS: u64 = 40;
/// If at most this many blocks are free, a volume may take all of them.
const FEW_BLOCKS: u64 = 60;

impl Client {
    /// A random volume that the unit sees, or none.
    fn pick(&mut self, aru: &Aru, unit: &Unit) -> Result<Option<(String, Uuid, Volume)>, String> {
        let name = match self.below(4) {
            0 if self.only.is_none() => "main".to_string(),
            _ => self.name(),
        };
        let (expected, found) = (unit.look_up(&self.now(), &name), aru.volume(&name));
        match (expected, found) {
            (Some(id), Ok(volume)) => Ok(Some((name, id, volume))),
            (None, Err(DiskError::NoVolume(_))) => Ok(None),
            (expected, found) => Err(format!(
                "a unit sees {name}: {}, which should be {}",
                found.is_ok(),
                expected.is_some()
            )),
        }
    }

    pub async fn create(&mut self, aru: &mut Aru, unit: &mut Unit) -> Result<Done, String> {
        let (name, id) = (self.name(), self.rng.next_u64());
        let mut uuid = [7; 16];
        uuid[..8].copy_from_slice(&id.to_le_bytes());
        let taken = unit.look_up(&self.now(), &name).is_some();
        let size = 1 + self.below(6 * CELLS as u64);
        let bytes = size * self.cell() as u64;
        match aru.create_volume(&name, bytes, uuid, 0).await {
            Ok(_) if !taken => unit.create(&name, uuid, size),
            Err(error) if error.kind() == ErrorKind::NoSpace => return Ok(Done::NoRoom),
            Err(DiskError::VolumeExists(_)) if taken => {}
            Ok(_) => return Err(format!("a unit has made {name}, which is there")),
            Err(error) => return Err(format!("a unit makes {name}: {error}")),
        }
        Ok(Done::Yes)
    }

    pub async fn delete(&mut self, aru: &mut Aru, unit: &mut Unit) -> Result<Done, String> {
        let Some((name, id, _)) = self.pick(aru, unit)?.filter(|(_, id, _)| *id != MAIN) else {
            return Ok(Done::Yes);
        };
        let state = self.now();
        let done = done(aru.delete_volume(&name).await, "a deletion")?;
        if matches!(done, Done::Yes) {
            unit.delete(&state, &name, id);
        }
        Ok(done)
    }

    pub async fn rename(&mut self, aru: &mut Aru, unit: &mut Unit) -> Result<Done, String> {
        let Some((from, id, _)) = self.pick(aru, unit)?.filter(|(_, id, _)| *id != MAIN) else {
            return Ok(Done::Yes);
        };
        let (to, state) = (self.name(), self.now());
        let taken = unit.look_up(&state, &to).is_some();
        match aru.rename_volume(&from, &to).await {
            Ok(()) if from == to => {}
            Ok(()) if !taken => unit.rename(&state, &from, &to, id),
            Err(DiskError::VolumeExists(_)) if taken => {}
            Err(error) if error.kind() == ErrorKind::Deleted => return Ok(Done::Gone),
            other => return Err(format!("a unit renames {from} to {to}: {other:?}")),
        }
        Ok(Done::Yes)
    }

    pub async fn write(&mut self, aru: &mut Aru, unit: &mut Unit) -> Result<Done, String> {
        let Some((_, id, volume)) = self.pick(aru, unit)? else {
            return Ok(Done::Yes);
        };
        let cells = CELLS as u64;
        let size = unit.size(&self.now(), id);
        let end = match id == MAIN {
            true => size,
            false => (size + 6 * cells).min(VOLUME_BLOCKS * cells),
        };
        let longest = match self.below(8) {
            _ if self.large => VOLUME_BLOCKS,
            0 => 30,
            _ => 4,
        };
        let longest = longest * cells;
        let (mut from, mut count) = (self.below(end), 1 + self.below(longest));
        if self.below(2) == 0 {
            from -= from % cells;
            count = count.next_multiple_of(cells);
        }
        count = count.min(end - from);
        let (cell, stop) = (self.cell(), from + count);
        let written = self.stamps(count);
        let data = bytes_of(&written, cell);
        if stop > size {
            let done = self.set_size(aru, unit, &volume, id, stop).await?;
            if !matches!(done, Done::Yes) {
                return Ok(done);
            }
        }
        let before = self.now();
        let offset = from * cell as u64;
        let done = done(aru.write(&volume, offset, &data).await, "a write")?;
        if !matches!(done, Done::Yes) {
            return Ok(done);
        }
        unit.touch(&before, id);
        for (place, stamp) in (from..stop).zip(&written) {
            unit.put(id, place, *stamp);
        }
        for index in [blocks_of(from + 1) - 1, blocks_of(stop) - 1] {
            self.check_block(aru, unit, &volume, id, index).await?;
        }
        Ok(Done::Yes)
    }

    pub async fn resize(&mut self, aru: &mut Aru, unit: &mut Unit) -> Result<Done, String> {
        let Some((_, id, volume)) = self.pick(aru, unit)?.filter(|(_, id, _)| *id != MAIN) else {
            return Ok(Done::Yes);
        };
        let cells = CELLS as u64;
        let old_size = unit.size(&self.now(), id);
        let block = u64::from(self.disk.block_size());
        let free = self.disk.free_bytes() / block;
        let size = match self.below(8) {
            // All that is free or held by large units, or somewhat more.
            0 if free <= FEW_BLOCKS => {
                let whole = blocks_of(old_size) + free + self.disk.spill_bytes() / block;
                whole * cells + self.below(6 * cells) - self.below((3 * cells).min(free * cells))
            }
            // Near the current size, where other clients may write to the same block.
            1..3 => (old_size + self.below(2 * cells)).saturating_sub(cells),
            _ => self.below(VOLUME_BLOCKS * cells),
        };
        let size = if self.below(2) == 0 {
            size - size % cells
        } else {
            size
        };
        self.set_size(aru, unit, &volume, id, size.max(1)).await
    }

    async fn set_size(
        &mut self,
        aru: &mut Aru,
        unit: &mut Unit,
        volume: &Volume,
        id: Uuid,
        size: u64,
    ) -> Result<Done, String> {
        let cells = CELLS as u64;
        let before = self.now();
        let bytes = size * self.cell() as u64;
        let done = done(aru.resize(volume, bytes).await, "a resize")?;
        if !matches!(done, Done::Yes) {
            return Ok(done);
        }
        unit.resize(&before, id, size);
        for beyond in size..blocks_of(size) * cells {
            unit.put(id, beyond, 0);
        }
        if !size.is_multiple_of(cells) {
            let index = size / cells;
            self.check_block(aru, unit, volume, id, index).await?;
        }
        Ok(Done::Yes)
    }

    /// Reads a block that the unit has written, and compares it with the unit's cells over the committed state.
    async fn check_block(
        &mut self,
        aru: &Aru,
        unit: &Unit,
        volume: &Volume,
        id: Uuid,
        index: u64,
    ) -> Result<(), String> {
        let cell = self.cell() as u64;
        let offset = index * CELLS as u64 * cell;
        let before = self.now();
        // Another client may have shortened the volume. The unit sees that size, and cannot end.
        let len = (CELLS as u64 * cell).min(aru.size_bytes(volume).saturating_sub(offset));
        if len == 0 {
            return Ok(());
        }
        let pieces = match aru.read(volume, offset, len).await {
            Ok(pieces) => pieces,
            // Another client has deleted the volume. The unit cannot end.
            Err(error) if error.kind() == ErrorKind::Deleted => return Ok(()),
            Err(error) => return Err(format!("a unit reads its own block {index}: {error}")),
        };
        let found = cells(&pieces, cell as usize)?;
        let expected = unit.block(&before, id, index);
        match found[..] == expected[..found.len()] || !Rc::ptr_eq(&before, &self.now()) {
            true => Ok(()),
            false => Err(format!(
                "a unit's own block {index} is {found:x?} in place of {expected:x?}"
            )),
        }
    }

    /// Reads some blocks as the unit sees them, and compares them with the model.
    pub async fn look(&mut self, aru: &Aru, unit: &Unit) -> Result<Done, String> {
        let Some((name, id, volume)) = self.pick(aru, unit)? else {
            return Ok(Done::Yes);
        };
        let before = self.now();
        let size = unit.size(&before, id);
        let index = self.below(blocks_of(size));
        let end = (index + 3).min(blocks_of(size));
        let cell = self.cell() as u64;
        let from = index * CELLS as u64;
        let stop = (end * CELLS as u64).min(size);
        if from >= stop {
            return Ok(Done::Yes);
        }
        let pieces = match aru.read(&volume, from * cell, (stop - from) * cell).await {
            Ok(pieces) => pieces,
            // Another client has deleted or shortened the volume.
            Err(error) if matches!(error.kind(), ErrorKind::Deleted | ErrorKind::OutOfRange) => {
                return Ok(Done::Yes);
            }
            Err(error) => return Err(format!("a unit reads {name}: {error}")),
        };
        let after = self.now();
        let found = cells(&pieces, cell as usize)?;
        for (place, found) in (from..stop).zip(found) {
            let (index, at) = (place / CELLS as u64, (place % CELLS as u64) as usize);
            let versions = [&before, &after].map(|state| unit.block(state, id, index)[at]);
            // After more than one commit the read may have seen any of the states.
            if versions[0] == versions[1] && found != versions[0] && Rc::ptr_eq(&before, &after) {
                return Err(format!(
                    "a unit sees cell {place} of {name} as {found:x} in place of {:x}",
                    versions[0]
                ));
            }
        }
        Ok(Done::Yes)
    }
}
