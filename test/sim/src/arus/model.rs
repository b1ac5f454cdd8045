//! The model of a store: its state after each end of a unit, and the effect that an open unit will have.

use super::content::{Block, CELLS, stamps_of};
use super::lists::{self, List, ListOp, UnitLists};
use crate::counts::{Counts, Met};
use crate::history::{self, History};
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_disk::{Disk, Piece, VolumeInfo};
use tonearm_format::Uuid;

/// A volume. Sizes are in cells.
#[derive(Clone, Debug)]
pub struct Volume {
    pub id: Uuid,
    pub size: u64,
    pub blocks: Vec<Block>,
    /// How often the volume has been shortened. The store does not show it, so comparisons ignore it.
    pub cuts: u64,
}

impl PartialEq for Volume {
    fn eq(&self, other: &Self) -> bool {
        (self.id, self.size, &self.blocks) == (other.id, other.size, &other.blocks)
    }
}

impl Eq for Volume {}

impl Volume {
    /// A volume without content.
    pub fn new(id: Uuid) -> Self {
        Self {
            id,
            size: 0,
            blocks: Vec::new(),
            cuts: 0,
        }
    }
}

/// The committed state.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct State {
    pub volumes: BTreeMap<String, Rc<Volume>>,
    pub lists: BTreeMap<u64, Rc<List>>,
}

/// Identity of the volume `main`.
pub const MAIN: Uuid = [2; 16];

/// Number of blocks for `size` cells.
pub fn blocks_of(size: u64) -> u64 {
    size.div_ceil(CELLS as u64)
}

impl State {
    /// The state of a new store.
    pub fn with_main(main_bytes: u64, block_size: u32) -> Self {
        let blocks = main_bytes / u64::from(block_size);
        let main = Volume {
            id: MAIN,
            size: blocks * CELLS as u64,
            blocks: vec![Block::default(); blocks as usize],
            cuts: 0,
        };
        Self {
            volumes: BTreeMap::from([("main".to_string(), Rc::new(main))]),
            lists: BTreeMap::new(),
        }
    }

    /// Reads the whole state of `disk`.
    ///
    /// # Errors
    /// When something cannot be read, or is torn.
    pub async fn read(disk: &Disk) -> Result<Self, String> {
        let mut volumes = BTreeMap::new();
        for VolumeInfo {
            name,
            uuid,
            size_bytes,
            ..
        } in disk.volumes()
        {
            let cell = disk.block_size() as usize / CELLS;
            let volume = disk.volume(&name).map_err(|error| error.to_string())?;
            let pieces = volume.read(0, size_bytes).await;
            let pieces = pieces.map_err(|error| format!("{name} cannot be read: {error}"))?;
            let mut stamps = cells(&pieces, cell).map_err(|what| format!("{name}: {what}"))?;
            if !size_bytes.is_multiple_of(cell as u64) {
                return Err(format!("{name} has {size_bytes} bytes"));
            }
            let size = size_bytes / cell as u64;
            stamps.resize(blocks_of(size) as usize * CELLS, 0);
            let blocks = stamps.as_chunks().0.to_vec();
            let volume = Volume {
                id: uuid,
                size,
                blocks,
                cuts: 0,
            };
            volumes.insert(name, Rc::new(volume));
        }
        let lists = lists::read(disk).await?;
        Ok(Self { volumes, lists })
    }

    /// The volume `id` and its name.
    pub fn by_id(&self, id: Uuid) -> Option<(&String, &Rc<Volume>)> {
        self.volumes.iter().find(|(_, volume)| volume.id == id)
    }

    /// The cells of a block, if the volume has the block.
    pub fn block(&self, id: Uuid, index: u64) -> Option<Block> {
        self.by_id(id)?.1.blocks.get(index as usize).copied()
    }

    /// The first difference of this state from the expected one, `other`.
    fn difference(&self, other: &Self) -> String {
        let names = |state: &Self| state.volumes.keys().cloned().collect::<Vec<_>>().join(" ");
        if !self.volumes.keys().eq(other.volumes.keys()) {
            return format!("there is [{}] in place of [{}]", names(self), names(other));
        }
        for (name, volume) in &self.volumes {
            let expected = &other.volumes[name];
            if (volume.id, volume.size) != (expected.id, expected.size) {
                let (found, size) = (volume.size, expected.size);
                return format!("{name} has {found} cells in place of {size}, or is another one");
            }
            let mut pairs = volume.blocks.iter().zip(&expected.blocks).enumerate();
            if let Some((index, (found, wanted))) = pairs.find(|(_, (a, b))| a != b) {
                return format!("{name} block {index} is {found:x?} in place of {wanted:x?}");
            }
        }
        let lists = |state: &Self| {
            let ids = |list: &Rc<List>| list.iter().map(|(block, _)| *block).collect::<Vec<_>>();
            let lists = state.lists.iter();
            lists
                .map(|(list, blocks)| (*list, ids(blocks)))
                .collect::<Vec<_>>()
        };
        match lists(self) == lists(other) {
            true => "blocks on lists have other content".into(),
            false => format!(
                "the lists are {:?} in place of {:?}",
                lists(self),
                lists(other)
            ),
        }
    }
}

impl history::State for State {
    fn differences(&self, found: &Self) -> Vec<String> {
        vec![found.difference(self)]
    }
}

/// The stamps of the cells in `pieces`.
///
/// # Errors
/// When a cell is torn.
pub fn cells(pieces: &[Piece], cell: usize) -> Result<Vec<u64>, String> {
    let mut bytes = Vec::new();
    for piece in pieces {
        piece.append_to(&mut bytes);
    }
    stamps_of(&bytes, cell)
}

/// The states after each end, and what has happened.
#[derive(Clone)]
pub struct Model {
    pub states: History<State>,
    /// Number of ends that created, deleted, renamed or shortened something.
    pub structural: u64,
    /// Counts of events.
    pub counts: Counts,
}

impl Model {
    pub fn new(state: State) -> Self {
        Self {
            states: History::new(state),
            structural: 0,
            counts: Counts::default(),
        }
    }

    /// State `number` becomes the start of the next generation.
    pub fn go_on(&mut self, number: u64) {
        self.states.go_on(number);
        (self.structural, self.counts) = (0, Counts::default());
    }

    /// Adds the end of `unit`, which makes the state `after`. Returns its number.
    pub fn end(&mut self, unit: &Unit, after: State) -> u64 {
        unit.count(&self.states.now(), &mut self.counts);
        self.structural += u64::from(unit.is_structural());
        self.states.commit(after)
    }
}

enum Naming {
    Create(String, Uuid),
    Delete(Uuid),
    Rename(Uuid, String),
}

/// A volume that a unit changes.
#[derive(Clone)]
pub struct UnitVolume {
    /// The volume when the unit first changed it.
    first: Option<Rc<Volume>>,
    /// How often the volume had been shortened by then.
    cuts: u64,
    /// The size that the unit has set.
    size: Option<u64>,
    /// The first block that the unit has cut off.
    cut: u64,
    /// Cells that the unit has written, by block.
    shadow: BTreeMap<u64, [Option<u64>; CELLS]>,
    created: bool,
    deleted: bool,
}

/// An open unit.
#[derive(Default)]
pub struct Unit {
    volumes: BTreeMap<Uuid, UnitVolume>,
    overlay: BTreeMap<String, Option<Uuid>>,
    namings: Vec<Naming>,
    pub lists: UnitLists,
}

impl Unit {
    /// The volume `name` as the unit sees it.
    pub fn look_up(&self, state: &State, name: &str) -> Option<Uuid> {
        match self.overlay.get(name) {
            Some(known) => *known,
            None => state.volumes.get(name).map(|volume| volume.id),
        }
    }

    /// True when the unit creates, deletes, renames or shortens something.
    pub fn is_structural(&self) -> bool {
        !self.lists.log.is_empty()
            || !self.namings.is_empty()
            || self.volumes.values().any(|volume| volume.size.is_some())
    }

    /// Counts the events of the unit, which has ended on `state`.
    pub fn count(&self, state: &State, counts: &mut Counts) {
        for (id, volume) in &self.volumes {
            let wrote = *id != MAIN && !volume.shadow.is_empty();
            counts.met(Met::VolumeWrite, u64::from(wrote));
            let found = state.by_id(*id).map(|(_, found)| found);
            let changed = volume.first.as_ref().zip(found);
            let changed = changed.is_some_and(|(first, found)| !Rc::ptr_eq(first, found));
            let sizes = volume.size.into_iter();
            let into_a_block = sizes
                .into_iter()
                .any(|size| !size.is_multiple_of(CELLS as u64));
            counts.met(Met::SharedResize, u64::from(changed && into_a_block));
        }
        for naming in &self.namings {
            let what = match naming {
                Naming::Create(..) => Met::Creation,
                Naming::Delete(..) => Met::Deletion,
                Naming::Rename(..) => Met::Rename,
            };
            counts.met(what, 1);
        }
        for op in &self.lists.log {
            let what = match op {
                ListOp::NewList(_) => Met::List,
                ListOp::DeleteList(_) => Met::ListDeletion,
                ListOp::Insert { .. } => Met::Insert,
                ListOp::Delete(_) => Met::Removal,
            };
            counts.met(what, 1);
        }
        counts.met(Met::BlockWrite, self.lists.written.len() as u64);
    }

    pub fn create(&mut self, name: &str, id: Uuid, size: u64) {
        self.overlay.insert(name.to_string(), Some(id));
        self.namings.push(Naming::Create(name.to_string(), id));
        let created = UnitVolume {
            created: true,
            size: Some(size),
            ..new_volume(None)
        };
        self.volumes.insert(id, created);
    }

    pub fn delete(&mut self, state: &State, name: &str, id: Uuid) {
        self.overlay.insert(name.to_string(), None);
        self.namings.push(Naming::Delete(id));
        let volume = self.touch(state, id);
        volume.deleted = true;
        volume.shadow.clear();
    }

    pub fn rename(&mut self, state: &State, from: &str, to: &str, id: Uuid) {
        self.overlay.insert(from.to_string(), None);
        self.overlay.insert(to.to_string(), Some(id));
        self.namings.push(Naming::Rename(id, to.to_string()));
        self.touch(state, id);
    }

    /// Size of the volume as the unit sees it.
    pub fn size(&self, state: &State, id: Uuid) -> u64 {
        let committed = state.by_id(id).map_or(0, |(_, volume)| volume.size);
        self.volumes
            .get(&id)
            .and_then(|volume| volume.size)
            .unwrap_or(committed)
    }

    /// Content of the block as the unit sees it.
    pub fn block(&self, state: &State, id: Uuid, index: u64) -> Block {
        let volume = self.volumes.get(&id);
        let cut = volume.map_or(u64::MAX, |volume| volume.cut);
        let mut block = match index < cut {
            true => state.block(id, index).unwrap_or_default(),
            false => Block::default(),
        };
        if let Some(own) = volume.and_then(|volume| volume.shadow.get(&index)) {
            write_over(&mut block, own);
        }
        block
    }

    /// Records a written cell.
    pub fn put(&mut self, id: Uuid, cell: u64, stamp: u64) {
        let volume = self.volumes.get_mut(&id);
        let volume = volume.expect("a cell of a volume that the unit changes");
        let cells = CELLS as u64;
        let block = volume.shadow.entry(cell / cells).or_default();
        block[(cell % cells) as usize] = Some(stamp);
    }

    /// Records a new size that was set in the state `before`. The end of the unit discards everything beyond that size,
    /// including what other clients have written there meanwhile.
    pub fn resize(&mut self, before: &State, id: Uuid, size: u64) {
        let volume = self.touch(before, id);
        let kept = blocks_of(size);
        volume.shadow.retain(|index, _| *index < kept);
        volume.cut = volume.cut.min(kept);
        volume.size = Some(size);
    }

    /// The volume among those that the unit changes, as it was in `state` if it is new there.
    pub fn touch(&mut self, state: &State, id: Uuid) -> &mut UnitVolume {
        let first = || state.by_id(id).map(|(_, volume)| volume.clone());
        let known = self.volumes.entry(id);
        known.or_insert_with(|| new_volume(first()))
    }

    /// The state that the end of the unit makes of `state`.
    ///
    /// # Errors
    /// Why the unit cannot end.
    pub fn apply(&self, state: &State) -> Result<State, String> {
        let mut next = state.clone();
        self.lists.apply(&mut next.lists)?;
        for (id, unit) in &self.volumes {
            if unit.deleted && unit.created {
                continue;
            }
            let committed = state.by_id(*id).map(|(_, volume)| volume.clone());
            if committed.is_none() && !unit.created {
                return Err("another client has deleted a volume".into());
            }
            if unit.deleted {
                continue;
            }
            let mut volume = committed.map_or(Volume::new(*id), |volume| (*volume).clone());
            if volume.cuts != unit.cuts {
                return Err("another client has shortened a volume".into());
            }
            let size = volume.size;
            volume.size = unit.size.unwrap_or(size);
            let kept = blocks_of(volume.size);
            let cut = unit.size.map_or(unit.cut, |_| unit.cut.min(kept));
            let left = cut.saturating_mul(CELLS as u64).min(volume.size);
            volume.cuts += u64::from(left < size);
            volume.blocks.resize(kept as usize, Block::default());
            for block in volume.blocks.iter_mut().skip(cut.min(kept) as usize) {
                *block = Block::default();
            }
            for (index, own) in &unit.shadow {
                let block = volume.blocks.get_mut(*index as usize);
                write_over(block.ok_or("a written block is beyond the end")?, own);
            }
            zero_tail(&mut volume);
            // A new volume has no name yet. Until it gets one it is stored under a name that no volume can have.
            let name = match state.by_id(*id) {
                Some((name, _)) => name.clone(),
                None => waiting(*id),
            };
            next.volumes.insert(name, Rc::new(volume));
        }
        for naming in &self.namings {
            match naming {
                Naming::Create(name, id) => {
                    let gone = self.volumes.get(id).is_some_and(|volume| volume.deleted);
                    let volume = match gone {
                        // The volume is deleted again later in this unit, and only takes the name until then.
                        true => Rc::new(Volume::new(*id)),
                        false => next.volumes.remove(&waiting(*id)).ok_or("no such volume")?,
                    };
                    take(&mut next, name, volume)?;
                }
                Naming::Delete(id) => {
                    let name = next.by_id(*id).ok_or("no volume to delete")?.0.clone();
                    next.volumes.remove(&name);
                }
                Naming::Rename(id, to) => {
                    let name = next.by_id(*id).ok_or("no volume to rename")?.0.clone();
                    let volume = next.volumes.remove(&name).ok_or("no volume")?;
                    take(&mut next, to, volume)?;
                }
            }
        }
        Ok(next)
    }
}

fn new_volume(first: Option<Rc<Volume>>) -> UnitVolume {
    UnitVolume {
        cuts: first.as_ref().map_or(0, |volume| volume.cuts),
        first,
        size: None,
        cut: u64::MAX,
        shadow: BTreeMap::new(),
        created: false,
        deleted: false,
    }
}

fn write_over(block: &mut Block, own: &[Option<u64>; CELLS]) {
    for (cell, own) in block.iter_mut().zip(own) {
        *cell = own.unwrap_or(*cell);
    }
}

fn waiting(id: Uuid) -> String {
    format!("\u{0}{id:?}")
}

fn take(state: &mut State, name: &str, volume: Rc<Volume>) -> Result<(), String> {
    match state.volumes.insert(name.to_string(), volume) {
        None => Ok(()),
        Some(_) => Err(format!("{name} is taken")),
    }
}

/// Zeroes the cells beyond the end. They read as zeroes when the volume grows again.
fn zero_tail(volume: &mut Volume) {
    let end = (volume.size % CELLS as u64) as usize;
    if end > 0
        && let Some(last) = volume.blocks.last_mut()
    {
        last[end..].fill(0);
    }
}
