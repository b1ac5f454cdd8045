//! Atomic recovery units: several operations that take effect together, or not at all after a crash
//! (Grimm, Hsieh, Kaashoek, de Jonge, "Atomic Recovery Units").
//!
//! Invariants:
//! 1. A unit changes nothing but its own shadow until it ends; its end is one commit of the engine.
//! 2. Slots of the volume table and blocks that a unit has taken are not given to others from then on. This is recorded
//!    in memory alone: a crash frees them.
//! 3. Between the last look at the committed state and the commit there is no await.

mod end;
mod lists;
mod names;
mod volume;

use self::names::Names;
use self::volume::ShadowVolume;
use crate::core::Core;
use crate::error::DiskError;
use crate::lists::shadow::ListShadow;
use crate::map;
use crate::partial::{Ranges, copy_from, fill_around};
use crate::shadow::{Key, Part, Shadow, Version};
use crate::spill::Spilled;
use crate::state::{Life, Watch};
use crate::table;
use crate::tree::TreeEdit;
use crate::volume::{Volume, cut};
use async_recursion::async_recursion as boxed;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{Buf, LooseBuf, Slice};
use tonearm_format::{Uuid, VolumeEntry, VolumeKind};
use tonearm_layout::Piece;

/// Most bytes of one shadow buffer. A block that stays in memory keeps the whole buffer in which it came.
const BUFFER_BYTES: usize = 256 << 10;

/// An open recovery unit. Dropped, it is aborted.
///
/// Its operations are called one at a time. They see the unit's own changes, then the committed state. Units are
/// serialised by their ends. They are atomic with respect to failures and not isolated from each other: if two units
/// write the same bytes, those of the unit that ends last stay. Callers that need isolation must lock.
///
/// A unit changes the bytes that it has written and no others. It keeps what others commit to the rest of a block
/// before the unit ends.
///
/// An example: [`Disk`](crate::Disk).
pub struct Aru {
    core: Rc<Core>,
    epoch: u64,
    shadow: Shadow,
    /// The volumes that it changes.
    volumes: Vec<ShadowVolume>,
    names: Names,
    lists: ListShadow,
    /// What its end changes in the tree of files.
    tree: Option<TreeEdit>,
    /// It frees space, so that its end may use what is kept for that.
    frees: bool,
    /// What must hold at its end for `tree` to be right.
    holds: Option<Box<dyn Fn() -> bool>>,
}

impl Aru {
    pub(crate) fn begin(core: &Rc<Core>) -> Self {
        Self {
            core: core.clone(),
            epoch: core.lists.begin_unit(),
            shadow: Shadow::default(),
            volumes: Vec::new(),
            names: Names::default(),
            lists: ListShadow::default(),
            tree: None,
            frees: false,
            holds: None,
        }
    }

    /// Sets what the end of the unit changes in the tree of files, in place of what was set before.
    pub fn set_tree(&mut self, edit: TreeEdit) {
        self.tree = Some(edit);
    }

    /// Lets the end of the unit use what other units leave free for changes that free space: pages of the tree, and the end of the
    /// log. It may free none by itself: the removal of an empty file or of a directory.
    pub fn set_frees(&mut self) {
        self.frees = true;
    }

    /// Sets a condition on which the change of the tree relies beside the pages. The end of the unit may wait for space in the log
    /// after the change has run. If the condition does not hold any more then, the change runs again, and must refuse.
    pub fn set_precondition(&mut self, holds: impl Fn() -> bool + 'static) {
        self.holds = Some(Box::new(holds));
    }

    /// Blocks of the unit that did not fit in memory.
    pub fn spilled_blocks(&self) -> u64 {
        self.shadow.spilled()
    }

    /// Memory that the unit holds until it ends, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.shadow.memory_bytes()
    }

    /// True when the unit has changed nothing and is charged for nothing.
    pub fn is_empty(&self) -> bool {
        self.has_no_changes() && self.tree.is_none() && self.memory_bytes() == 0
    }

    pub(super) fn has_no_changes(&self) -> bool {
        self.shadow.len() == 0 && self.volumes.is_empty() && self.lists.log.is_empty()
    }

    /// True when the end of the unit would make space: it has blocks of its own, or others have freed some since it began.
    pub fn holds_space(&self) -> bool {
        self.spilled_blocks() > 0
            || !self.lists.taken.is_empty()
            || self.core.lists.is_awaited(self.epoch)
    }

    /// Charges the unit for memory that its caller holds until the unit ends.
    ///
    /// # Errors
    /// When open units hold as much as they may.
    pub fn charge(&mut self, bytes: u64) -> Result<(), DiskError> {
        self.shadow.charge(&self.core.shadows, bytes)
    }

    /// Sends blocks to home space until the unit holds at most `bytes` of memory, or none of its blocks is in memory.
    ///
    /// # Errors
    /// When there is no home space, or the store fails.
    #[boxed(?Send)]
    pub async fn spill_to(&mut self, bytes: u64) -> Result<(), DiskError> {
        while self.memory_bytes() > bytes && self.shadow.in_memory() > 0 {
            self.spill_oldest().await?;
        }
        Ok(())
    }

    /// Ends the unit without any effect.
    pub fn abort(self) {}

    /// Reads `len` bytes at `offset`; the pieces are in order and as long together.
    ///
    /// # Errors
    /// Beyond the volume's end as the unit sees it, damaged, or failed.
    #[boxed(?Send)]
    pub async fn read(
        &self,
        volume: &Volume,
        offset: u64,
        len: u64,
    ) -> Result<Vec<Piece>, DiskError> {
        if !self.volumes.iter().any(|known| known.is(volume.shared())) {
            return volume.read(offset, len).await;
        }
        self.check(volume, offset, len)?;
        if len == 0 {
            return Ok(Vec::new());
        }
        let block = self.block();
        let (first, end) = (offset / block, (offset + len).div_ceil(block));
        let pieces = self.blocks(volume, first, end).await?;
        Ok(cut(pieces, (offset - first * block) as usize, len as usize))
    }

    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// Beyond the volume's end, read-only, no room in the store or in memory, or failed. The unit goes on
    /// without the write.
    #[boxed(?Send)]
    pub async fn write(
        &mut self,
        volume: &Volume,
        offset: u64,
        data: &[u8],
    ) -> Result<(), DiskError> {
        self.put(volume, offset, data, None).await
    }

    /// As [`Aru::write`]. Whole aligned blocks become the unit's without a copy.
    ///
    /// # Errors
    /// As for [`Aru::write`].
    #[boxed(?Send)]
    pub async fn write_buf(
        &mut self,
        volume: &Volume,
        offset: u64,
        data: LooseBuf,
    ) -> Result<(), DiskError> {
        let content = Content::of(&self.core, offset, data);
        self.write_content(volume, offset, &content).await
    }

    pub(crate) async fn write_content(
        &mut self,
        volume: &Volume,
        offset: u64,
        content: &Content,
    ) -> Result<(), DiskError> {
        match content {
            Content::Bytes(data) => self.put(volume, offset, data, None).await,
            Content::Blocks(data) => self.put(volume, offset, data, Some(data)).await,
        }
    }

    /// Writes `data`; `blocks` also has it if it is whole blocks.
    async fn put(
        &mut self,
        volume: &Volume,
        offset: u64,
        data: &[u8],
        blocks: Option<&Slice>,
    ) -> Result<(), DiskError> {
        self.check_writable(volume)?;
        let len = data.len() as u64;
        self.check(volume, offset, len)?;
        if len == 0 {
            return Ok(());
        }
        let block = self.block();
        let stop = offset + len;
        let (first, end) = (offset / block, stop.div_ceil(block));
        // From here on a truncation by others is a conflict: otherwise the content that is read below would come back
        // beyond the new end.
        let at = self.touch(volume)?;
        let (starts, ends) = (offset.is_multiple_of(block), stop.is_multiple_of(block));
        if !(starts && ends) {
            self.shadow.check_parts(&self.core.shadows)?;
        }
        self.make_room((end - first) * block).await?;
        // The content beside the written bytes is read before anything changes.
        let bytes = |index: u64| {
            let start = index * block;
            let written = offset.max(start) - start..stop.min(start + block) - start;
            written.start as usize..written.end as usize
        };
        let mut edges = Vec::new();
        if !starts {
            edges.push(self.edge(at, volume, first, bytes(first)).await?);
        }
        if !ends && (end - first > 1 || starts) {
            edges.push(self.edge(at, volume, end - 1, bytes(end - 1)).await?);
        }
        // All blocks go to memory, or all go to home space. If there is too little home space, nothing has changed.
        let in_memory = self
            .shadow
            .has_room(&self.core.shadows, (end - first) * block);
        let mut versions = Vec::with_capacity((end - first) as usize);
        let buffer_blocks = (BUFFER_BYTES as u64 / block).max(1);
        let mut from = first;
        while from < end {
            let to = end.min(from + buffer_blocks);
            let bytes = ((to - from) * block) as usize;
            let data = match blocks {
                Some(blocks) => {
                    let skipped = ((from - first) * block) as usize;
                    blocks.slice(skipped..skipped + bytes)
                }
                None => self.buffer(from..to, offset, data, &edges),
            };
            let parts = (0..bytes).step_by(block as usize);
            let parts = parts.map(|start| data.slice(start..start + block as usize));
            if in_memory {
                versions.extend(parts.map(Version::Memory));
            } else {
                match self.core.shadows.spill.write(parts.collect()).await {
                    Ok(spilled) => versions.extend(spilled.into_iter().map(Version::Spilled)),
                    Err(error) => return Err(self.drop_versions(versions, error)),
                }
            }
            from = to;
        }
        let serial = self.volumes[at].serial;
        for (index, version) in (first..).zip(versions) {
            let edge = edges.iter_mut().find(|edge| edge.index == index);
            let part = edge.and_then(|edge| edge.part.take());
            self.shadow
                .put(&self.core.shadows, (serial, index), version, part);
        }
        Ok(())
    }

    /// The blocks `of` with their part of `data`, which is written at `offset`, and with what was before at `edges`.
    fn buffer(&self, of: Range<u64>, offset: u64, data: &[u8], edges: &[Edge]) -> Slice {
        let block = self.block();
        let (base, stop) = (of.start * block, of.end * block);
        let mut buf = self.core.pool.alloc((stop - base) as usize);
        let (from, to) = (offset.max(base), stop.min(offset + data.len() as u64));
        let part = &data[(from - offset) as usize..(to - offset) as usize];
        buf[(from - base) as usize..(to - base) as usize].copy_from_slice(part);
        for edge in edges.iter().filter(|edge| of.contains(&edge.index)) {
            let start = (edge.index * block - base) as usize;
            let block = &mut buf[start..start + block as usize];
            fill_around(block, [edge.written.clone()], &edge.pieces);
        }
        buf.share()
    }

    /// Sets a volume's size. What is cut off is gone; what is added reads as zeroes.
    ///
    /// # Errors
    /// Read-only, no room, a volume of no bytes, or failed. The unit goes on without the new size.
    #[boxed(?Send)]
    pub async fn resize(&mut self, volume: &Volume, size_bytes: u64) -> Result<(), DiskError> {
        self.check_writable(volume)?;
        if size_bytes == 0 {
            return Err(DiskError::BadSize);
        }
        let block = self.block();
        let (index, stays) = (size_bytes / block, (size_bytes % block) as usize);
        // Before the read of what stays, as for a write.
        let at = self.touch(volume)?;
        // The tail of the last block must read as zeroes when the volume grows again, also if others write there before
        // this unit ends. So the unit writes it.
        let mut last = None;
        if stays > 0 {
            self.shadow.check_parts(&self.core.shadows)?;
            self.make_room(block).await?;
            let tail = stays..block as usize;
            last = Some(self.edge(at, volume, index, tail).await?);
        }
        match self.hold(at, size_bytes) {
            Err(DiskError::StoreFull { .. }) if self.core.shadows.spill.give_back().await? => {
                self.hold(at, size_bytes)?;
            }
            held => held?,
        }
        let (serial, kept) = (self.volumes[at].serial, size_bytes.div_ceil(block));
        if let Some(last) = last {
            let mut buf = self.core.pool.alloc(block as usize);
            fill_around(&mut buf, [last.written], &last.pieces);
            buf[stays..].fill(0);
            let version = Version::Memory(buf.share());
            self.shadow
                .put(&self.core.shadows, (serial, index), version, last.part);
        }
        self.shadow.cut(&self.core.shadows, serial, kept);
        self.volumes[at].cut = self.volumes[at].cut.min(kept);
        self.volumes[at].size = Some(size_bytes);
        Ok(())
    }

    /// The volume's size in bytes as the unit sees it.
    pub fn size_bytes(&self, volume: &Volume) -> u64 {
        let committed = volume.size_bytes();
        let known = self.volumes.iter().find(|known| known.is(volume.shared()));
        known.and_then(|known| known.size).unwrap_or(committed)
    }

    /// Makes a volume, which reads as zeroes. Others see it when the unit ends.
    ///
    /// # Errors
    /// When the name is taken or impossible, there is no room, or the volume table is full.
    #[boxed(?Send)]
    pub async fn create_volume(
        &mut self,
        name: &str,
        size_bytes: u64,
        uuid: Uuid,
        created_unix_s: u64,
    ) -> Result<Volume, DiskError> {
        table::check_name(name)?;
        if size_bytes == 0 {
            return Err(DiskError::BadSize);
        }
        let volume = self.create(name, VolumeKind::Plain, uuid, created_unix_s)?;
        match self.resize(&volume, size_bytes).await {
            Ok(()) => Ok(volume),
            Err(error) => {
                self.delete_volume(name).await?;
                Err(error)
            }
        }
    }

    /// Deletes a volume.
    ///
    /// # Errors
    /// When there is none, or it is read-only.
    #[boxed(?Send)]
    pub async fn delete_volume(&mut self, name: &str) -> Result<(), DiskError> {
        let volume = self.volume(name)?;
        volume.shared().borrow().check_mode()?;
        let at = self.touch(&volume)?;
        let serial = self.volumes[at].serial;
        self.shadow.cut(&self.core.shadows, serial, 0);
        self.volumes[at].deleted = true;
        self.names.delete(name, volume.shared());
        Ok(())
    }

    /// Renames a volume. It replaces nothing.
    ///
    /// # Errors
    /// When there is none, it is read-only, or the new name is taken or impossible.
    #[boxed(?Send)]
    pub async fn rename_volume(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let volume = self.volume(from)?;
        volume.shared().borrow().check_mode()?;
        table::check_name(to)?;
        if from == to {
            return Ok(());
        }
        self.check_free(to)?;
        self.touch(&volume)?;
        self.names.rename(from, to, volume.shared());
        Ok(())
    }

    /// The volume `name` as the unit sees it.
    ///
    /// # Errors
    /// When there is none.
    pub fn volume(&self, name: &str) -> Result<Volume, DiskError> {
        match self.names.look_up(name) {
            None => self.core.volume(name),
            Some(Some(shared)) => Ok(self.core.handle(shared.clone())),
            Some(None) => Err(DiskError::NoVolume(name.to_string())),
        }
    }

    pub(crate) fn create(
        &mut self,
        name: &str,
        kind: VolumeKind,
        uuid: Uuid,
        created_unix_s: u64,
    ) -> Result<Volume, DiskError> {
        self.check_free(name)?;
        let entry = VolumeEntry {
            uuid,
            name: name.to_string(),
            size_bytes: 0,
            kind,
            read_only: false,
            created_unix_s,
            extents: Vec::new(),
        };
        let shared = {
            let mut table = self.core.table();
            let slot = table.hold_slot()?;
            table.state(slot, entry, Life::Pending)
        };
        self.volumes.push(ShadowVolume::new(&shared));
        self.names.create(name, &shared);
        Ok(self.core.handle(shared))
    }

    fn block(&self) -> u64 {
        self.core.block_size()
    }

    fn check_free(&self, name: &str) -> Result<(), DiskError> {
        let taken = match self.names.look_up(name) {
            Some(known) => known.is_some(),
            None => self.core.table().volumes.contains_key(name),
        };
        if taken {
            Err(DiskError::VolumeExists(name.to_string()))
        } else {
            Ok(())
        }
    }

    /// Checks that the unit has the volume, and that the bytes are within it.
    fn check(&self, volume: &Volume, offset: u64, len: u64) -> Result<(), DiskError> {
        self.check_there(volume)?;
        let size_bytes = self.size_bytes(volume);
        volume
            .shared()
            .borrow()
            .check_range(offset, len, size_bytes)
    }

    fn check_there(&self, volume: &Volume) -> Result<(), DiskError> {
        let known = self.volumes.iter().find(|known| known.is(volume.shared()));
        let there = match known {
            Some(known) if known.deleted => false,
            Some(known) if known.created => true,
            _ => volume.shared().borrow().life == Life::Live,
        };
        if there {
            Ok(())
        } else {
            Err(DiskError::Deleted)
        }
    }

    fn check_writable(&self, volume: &Volume) -> Result<(), DiskError> {
        volume.shared().borrow().check_mode()?;
        self.check_there(volume)
    }

    /// Index of the volume among those that the unit changes. Adds it if need be.
    fn touch(&mut self, volume: &Volume) -> Result<usize, DiskError> {
        self.check_there(volume)?;
        let mut known = self.volumes.iter();
        Ok(match known.position(|known| known.is(volume.shared())) {
            Some(at) => at,
            None => {
                self.volumes.push(ShadowVolume::new(volume.shared()));
                self.volumes.len() - 1
            }
        })
    }

    /// Takes the blocks that the volume needs for `size_bytes`.
    fn hold(&mut self, at: usize, size_bytes: u64) -> Result<(), DiskError> {
        let (block, volume) = (self.block(), &self.volumes[at]);
        let needed = size_bytes.div_ceil(block);
        let extents = {
            let state = volume.shared.borrow();
            let have = map::blocks(&state.entry.extents) + map::blocks(&volume.held);
            if needed <= have {
                return Ok(());
            }
            map::append(state.entry.extents.clone(), &volume.held)
        };
        let more = needed - map::blocks(&extents);
        let size_blocks = self.core.engine.size_blocks();
        let held = self
            .core
            .table()
            .hold_blocks(&extents, more, more, size_blocks, block)?;
        self.volumes[at].held.extend(held);
        Ok(())
    }

    /// Reads a block whose bytes `written` are about to be written. `at` is the index of the volume among the unit's.
    async fn edge(
        &self,
        at: usize,
        volume: &Volume,
        index: u64,
        written: Range<usize>,
    ) -> Result<Edge, DiskError> {
        let known = &self.volumes[at];
        let key = (known.serial, index);
        let part = match (self.shadow.get(key), self.shadow.part(key)) {
            (Some(_), None) => None,
            (Some(_), Some(part)) => {
                let mut part = part.clone();
                part.written.add(written.clone());
                (!part.written.cover(self.block() as usize)).then_some(part)
            }
            // The rest of the block is zeroes that belong to the unit.
            (None, _) if known.created || index >= known.cut => None,
            (None, _) => {
                let watch = Rc::new(Watch::new(&known.shared.borrow().watched, index));
                watch.look();
                let written = Ranges::of(written.clone());
                Some(Part { written, watch })
            }
        };
        Ok(Edge {
            pieces: self.blocks(volume, index, index + 1).await?,
            part: part.map(Box::new),
            index,
            written,
        })
    }

    /// Fills `buf` with a block of which the unit has written a part: the unit's bytes over the committed content.
    async fn merge(&self, volume: &Volume, index: u64, buf: &mut Buf) -> Result<(), DiskError> {
        let key = (volume.shared().borrow().serial, index);
        let mut rest = Vec::new();
        self.committed(volume, index, index + 1, &mut rest).await?;
        let own = match self.shadow.get(key) {
            Some(Version::Memory(data)) => vec![Piece::Data(data.clone())],
            Some(Version::Spilled(spilled)) => self.core.engine.read(spilled.block, 1).await?,
            None => return Ok(()),
        };
        copy_from(buf, 0, &own);
        let written = self.shadow.part(key).map(|part| part.written.iter());
        fill_around(buf, written.into_iter().flatten(), &rest);
        Ok(())
    }

    /// The blocks `first .. end` as the unit sees them. After the volume's end they are zeroes.
    async fn blocks(&self, volume: &Volume, first: u64, end: u64) -> Result<Vec<Piece>, DiskError> {
        let serial = volume.shared().borrow().serial;
        let (mut pieces, mut at) = (Vec::new(), first);
        while at < end {
            if self.shadow.is_stale((serial, at)) {
                let mut buf = self.core.pool.alloc(self.block() as usize);
                self.merge(volume, at, &mut buf).await?;
                pieces.push(Piece::Data(buf.share()));
                at += 1;
                continue;
            }
            match self.shadow.get((serial, at)) {
                Some(Version::Memory(data)) => {
                    push_data(&mut pieces, data.clone());
                    at += 1;
                }
                Some(Version::Spilled(spilled)) => {
                    let run = self.spilled_run((serial, at), *spilled, end - at);
                    pieces.extend(self.core.engine.read(spilled.block, run).await?);
                    at += run;
                }
                None => {
                    let stop = self.shadow.next(serial, at..end).unwrap_or(end);
                    self.committed(volume, at, stop, &mut pieces).await?;
                    at = stop;
                }
            }
        }
        Ok(pieces)
    }

    /// Blocks from the spilled one of `key` on, `count` at most, that are adjacent in home space too.
    fn spilled_run(&self, (serial, index): Key, first: Spilled, count: u64) -> u64 {
        let next = |run: &u64| match self.shadow.get((serial, index + run)) {
            Some(Version::Spilled(spilled)) => {
                spilled.block == first.block + run && !self.shadow.is_stale((serial, index + run))
            }
            _ => false,
        };
        (0..count).take_while(next).count() as u64
    }

    /// Sends the unit's oldest shadows to home space until `bytes` more fit in memory, or no shadow is left in memory.
    ///
    /// # Errors
    /// When there is no home space either, or the store fails.
    async fn make_room(&mut self, bytes: u64) -> Result<(), DiskError> {
        while self.shadow.in_memory() > 0 && !self.shadow.has_room(&self.core.shadows, bytes) {
            self.spill_oldest().await?;
        }
        Ok(())
    }

    /// Sends some of the unit's oldest shadows to home space.
    ///
    /// # Errors
    /// As for `make_room`.
    async fn spill_oldest(&mut self) -> Result<(), DiskError> {
        let (keys, data): (Vec<Key>, Vec<Slice>) =
            self.shadow.oldest(&self.core.shadows).into_iter().unzip();
        let spilled = self.core.shadows.spill.write(data).await?;
        for (key, spilled) in keys.into_iter().zip(spilled) {
            self.shadow.sent_home(&self.core.shadows, key, spilled);
        }
        Ok(())
    }

    /// Drops versions that have not become shadows.
    fn drop_versions(&self, versions: Vec<Version>, error: DiskError) -> DiskError {
        for version in versions {
            if let Version::Spilled(spilled) = version {
                self.core.shadows.spill.release(spilled);
            }
        }
        error
    }

    /// The committed blocks `first .. end`: zeroes where the unit has cut them off, and beyond the end.
    async fn committed(
        &self,
        volume: &Volume,
        first: u64,
        end: u64,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), DiskError> {
        let block = self.block();
        let known = self.volumes.iter().find(|known| known.is(volume.shared()));
        let cut = known.map_or(u64::MAX, |known| known.cut);
        let stop = volume.size_bytes().min(end.min(cut).saturating_mul(block));
        let from = first * block;
        let read = stop.saturating_sub(from);
        if read > 0 {
            pieces.extend(volume.read(from, read).await?);
        }
        let zeroes = (end - first) * block - read;
        if zeroes > 0 {
            pieces.push(Piece::Zero(zeroes as usize));
        }
        Ok(())
    }
}

/// The data of a write.
pub(crate) enum Content {
    /// Any bytes.
    Bytes(LooseBuf),
    /// Whole aligned blocks.
    Blocks(Slice),
}

impl Content {
    pub fn of(core: &Core, offset: u64, data: LooseBuf) -> Self {
        let block = core.block_size();
        let whole = offset.is_multiple_of(block) && (data.len() as u64).is_multiple_of(block);
        if whole {
            Self::Blocks(core.pool.adopt(data).share())
        } else {
            Self::Bytes(data)
        }
    }
}

/// A block of which a write writes a part.
struct Edge {
    index: u64,
    /// The bytes that the write writes.
    written: Range<usize>,
    /// Its content before.
    pieces: Vec<Piece>,
    /// Which bytes the unit had written before, unless it had written all of them.
    part: Option<Box<Part>>,
}

fn push_data(pieces: &mut Vec<Piece>, data: Slice) {
    match pieces.last_mut() {
        Some(Piece::Data(last)) if last.is_followed_by(&data) => *last = last.joined(&data),
        _ => pieces.push(Piece::Data(data)),
    }
}

impl Drop for Aru {
    fn drop(&mut self) {
        self.shadow.clear(&self.core.shadows);
        if !self.volumes.is_empty() {
            let mut table = self.core.table();
            for volume in &self.volumes {
                volume.give_back(&mut table);
            }
        }
        self.core.lists.free(std::mem::take(&mut self.lists.taken));
        self.core.lists.end_unit(self.epoch);
    }
}
