//! "old" of ARU, Table 1: a Logical Disk with one recovery unit at a time.
//!
//! Operations change copies of the committed pages of records, which are the product's (`docs/format/lists.md`), and the end of
//! the unit commits these copies. There is no shadow, no log of list operations, and nothing is done again. A free record is
//! chosen as the product chooses it, so both disks give the same identifiers and write the same commits. What the product takes
//! more is what concurrent units cost.
//!
//! While this disk is used, nothing else changes the lists of the store.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tonearm_base::{Buf, BufPool, Slice};
use tonearm_disk::{BlockId, Disk, DiskError, ListId, Piece, VolumeKind};
use tonearm_engine::CommitChange;
use tonearm_format::{BlockRecord, Extent, LIST_RECORD_BYTES, ListRecord, RecordAt, Zones};

/// The disk. Clones are the same one.
#[derive(Clone)]
pub struct Sequential(Rc<State>);

struct State {
    disk: Disk,
    pool: BufPool,
    zones: Zones,
    zone_count: u64,
    /// Homes of the lists area.
    extents: Vec<Extent>,
    /// The committed pages of records.
    pages: RefCell<BTreeMap<u64, Slice>>,
    /// Pages of records without a free one.
    full: RefCell<BTreeSet<u64>>,
    /// The zones where a list and a block were found last.
    last: [Cell<u64>; 2],
    is_open: Cell<bool>,
}

/// The open recovery unit.
pub struct Unit {
    disk: Sequential,
    /// Copies of pages of records, with the unit's changes.
    pages: BTreeMap<u64, Buf>,
    /// Blocks that it has written.
    blocks: BTreeMap<u64, Slice>,
    /// Blocks that it has freed.
    freed: BTreeSet<u64>,
}

/// A record of a list, or of a block.
#[derive(Clone, Copy)]
enum Kind {
    List,
    Block,
}

impl Sequential {
    /// The lists of `disk`. Its lists area must be as large as it will have to be.
    ///
    /// # Errors
    /// When a page of records cannot be read.
    ///
    /// # Panics
    /// When there is no lists area.
    pub async fn open(disk: &Disk) -> Result<Self, DiskError> {
        let entries = disk.entries();
        let area = entries.iter().find(|entry| entry.kind == VolumeKind::Lists);
        let area = area.expect("the store has lists");
        let zones = Zones::new(disk.block_size());
        let blocks: u64 = area.extents.iter().map(|extent| extent.count).sum();
        let state = State {
            disk: disk.clone(),
            pool: BufPool::new(4 << 20),
            zones,
            zone_count: blocks / zones.blocks(),
            extents: area.extents.clone(),
            pages: RefCell::default(),
            full: RefCell::default(),
            last: Default::default(),
            is_open: Cell::new(false),
        };
        for zone in 0..state.zone_count {
            for page in [zones.list_page(zone), zones.block_page(zone)] {
                let read = disk.engine().read(state.home(page), 1).await?;
                let mut data = state.pool.alloc_zeroed(disk.block_size() as usize);
                if let Some(Piece::Data(read)) = read.first() {
                    data.copy_from_slice(read);
                }
                state.pages.borrow_mut().insert(page, data.share());
            }
        }
        Ok(Self(Rc::new(state)))
    }

    /// Begins a unit.
    ///
    /// # Panics
    /// When another unit is open.
    pub fn begin(&self) -> Unit {
        assert!(!self.0.is_open.replace(true), "one unit at a time");
        Unit {
            disk: self.clone(),
            pages: BTreeMap::new(),
            blocks: BTreeMap::new(),
            freed: BTreeSet::new(),
        }
    }

    /// Reads a block, as committed.
    ///
    /// # Errors
    /// When there is no such block, or failed.
    pub async fn read_block(&self, block: BlockId) -> Result<Piece, DiskError> {
        let state = &self.0;
        if state.block(block.0)?.is_none() {
            return Err(DiskError::NoBlock(block.0));
        }
        let read = state.disk.engine().read(state.home(block.0), 1).await?;
        let block_size = state.disk.block_size() as usize;
        Ok(read.into_iter().next().unwrap_or(Piece::Zero(block_size)))
    }

    /// The blocks of a list in order, as committed.
    ///
    /// # Errors
    /// When there is no such list.
    pub fn list_blocks(&self, list: ListId) -> Result<Vec<BlockId>, DiskError> {
        let state = &self.0;
        let place = state.list_place(list.0)?;
        let record = ListRecord::decode(words_at(&state.pages.borrow()[&place.page], place.at));
        let record = record.map_err(damaged)?.ok_or(DiskError::NoList(list.0))?;
        let (mut blocks, mut at) = (Vec::new(), record.first);
        while at != 0 {
            blocks.push(BlockId(at));
            at = state.block(at)?.ok_or(DiskError::NoBlock(at))?.next;
        }
        Ok(blocks)
    }

    /// The store below.
    pub fn store(&self) -> &Disk {
        &self.0.disk
    }
}

impl State {
    fn home(&self, mut block: u64) -> u64 {
        for extent in &self.extents {
            if block < extent.count {
                return extent.start + block;
            }
            block -= extent.count;
        }
        unreachable!("the extents cover the area")
    }

    fn block_place(&self, block: u64) -> Result<RecordAt, DiskError> {
        let place = self.zones.block_record(block);
        let place = place.filter(|_| self.zones.zone_of_block(block) < self.zone_count);
        place.ok_or(DiskError::NoBlock(block))
    }

    fn list_place(&self, list: u64) -> Result<RecordAt, DiskError> {
        let place = self.zones.list_record(list);
        let place = place.filter(|_| self.zones.zone_of_list(list) < self.zone_count);
        place.ok_or(DiskError::NoList(list))
    }

    /// The committed record of a block.
    fn block(&self, block: u64) -> Result<Option<BlockRecord>, DiskError> {
        let place = self.block_place(block)?;
        let words = words_at(&self.pages.borrow()[&place.page], place.at);
        BlockRecord::decode(words).map_err(damaged)
    }
}

impl Unit {
    /// Makes an empty list.
    ///
    /// # Errors
    /// When there is no free record.
    pub fn new_list(&mut self) -> Result<ListId, DiskError> {
        let list = self.take(Kind::List, None)?;
        self.set_list(list, Some(ListRecord::default()))?;
        Ok(ListId(list))
    }

    /// Deletes a list with its blocks.
    ///
    /// # Errors
    /// When there is no such list.
    pub fn delete_list(&mut self, list: ListId) -> Result<(), DiskError> {
        let mut at = self.list(list.0)?.first;
        while at != 0 {
            let record = self.block(at)?;
            self.free_block(at)?;
            at = record.next;
        }
        self.set_list(list.0, None)
    }

    /// Makes a block of zeroes on a list, after `after` or at the head.
    ///
    /// # Errors
    /// When there is no such list, `after` is not on it, or there is no free block.
    pub fn new_block(
        &mut self,
        list: ListId,
        after: Option<BlockId>,
    ) -> Result<BlockId, DiskError> {
        let (list, after) = (list.0, after.map(|after| after.0));
        let mut of_list = self.list(list)?;
        let before = match after {
            None => None,
            Some(after) => Some((after, self.block(after)?)),
        };
        if let Some((block, record)) = before
            && record.list != list
        {
            return Err(DiskError::NotOnList { block, list });
        }
        let zones = self.disk.0.zones;
        let near = match after.unwrap_or(of_list.first) {
            0 => (zones.zone_of_list(list), 0),
            near => (
                zones.zone_of_block(near),
                (near % zones.blocks()).saturating_sub(1),
            ),
        };
        let block = self.take(Kind::Block, Some(near))?;
        let next = before.map_or(of_list.first, |(_, record)| record.next);
        match before {
            Some((id, record)) => {
                let next = block;
                self.set_block(id, Some(BlockRecord { next, ..record }))?;
            }
            None => of_list.first = block,
        }
        match next {
            0 => of_list.last = block,
            next => {
                let prev = block;
                let record = self.block(next)?;
                self.set_block(next, Some(BlockRecord { prev, ..record }))?;
            }
        }
        let prev = after.unwrap_or(0);
        self.set_block(block, Some(BlockRecord { next, prev, list }))?;
        of_list.count += 1;
        self.set_list(list, Some(of_list))?;
        Ok(BlockId(block))
    }

    /// Takes a block off its list and frees it.
    ///
    /// # Errors
    /// When there is no such block.
    pub fn delete_block(&mut self, block: BlockId) -> Result<(), DiskError> {
        let BlockRecord { next, prev, list } = self.block(block.0)?;
        let mut of_list = self.list(list)?;
        match prev {
            0 => of_list.first = next,
            prev => {
                let record = self.block(prev)?;
                self.set_block(prev, Some(BlockRecord { next, ..record }))?;
            }
        }
        match next {
            0 => of_list.last = prev,
            next => {
                let record = self.block(next)?;
                self.set_block(next, Some(BlockRecord { prev, ..record }))?;
            }
        }
        of_list.count -= 1;
        self.set_list(list, Some(of_list))?;
        self.free_block(block.0)
    }

    /// Writes a block, as a whole.
    ///
    /// # Errors
    /// When there is no such block.
    pub fn write_block(&mut self, block: BlockId, data: &[u8]) -> Result<(), DiskError> {
        self.block(block.0)?;
        let data = self.disk.0.pool.copy_of(data).share();
        self.blocks.insert(block.0, data);
        Ok(())
    }

    /// Ends the unit: commits the pages and blocks that it has changed.
    ///
    /// # Errors
    /// When the store is full, or failed.
    pub async fn end(mut self) -> Result<(), DiskError> {
        let disk = self.disk.clone();
        let (state, engine) = (&disk.0, disk.0.disk.engine());
        let mut changes = Vec::new();
        for (block, data) in std::mem::take(&mut self.blocks) {
            let home = state.home(block);
            changes.push(CommitChange::Write { first: home, data });
        }
        let trims = changes.len();
        for block in &self.freed {
            let (home, count) = (state.home(*block), 1);
            match changes[trims..].last_mut() {
                Some(CommitChange::Trim { first, count }) if *first + *count == home => *count += 1,
                _ => changes.push(CommitChange::Trim { first: home, count }),
            }
        }
        let ranges = (changes.len() - trims) as u64;
        let mut pages = Vec::new();
        for (page, data) in std::mem::take(&mut self.pages) {
            if state.pages.borrow()[&page][..] == data[..] {
                continue;
            }
            let (first, data) = (state.home(page), data.share());
            pages.push((page, data.clone()));
            changes.push(CommitChange::Write { first, data });
        }
        if changes.is_empty() {
            return Ok(());
        }
        let blocks = changes.len() as u64 - ranges;
        let bytes = blocks * u64::from(state.disk.block_size());
        let memory = match ranges {
            0 => engine.reserve(bytes).await?,
            _ => engine.reserve_to_free(bytes).await?,
        };
        let admission = engine.admit(blocks, ranges).await?;
        engine.commit(admission, changes)?;
        // The engine has charged each buffer.
        drop(memory);
        for (page, data) in pages {
            // A copy, so that the committed memory is freed when it is written back.
            let data = state.pool.copy_of(&data).share();
            state.pages.borrow_mut().insert(page, data);
        }
        Ok(())
    }

    fn list(&self, list: u64) -> Result<ListRecord, DiskError> {
        let words = self.words(self.disk.0.list_place(list)?);
        let record = ListRecord::decode(words).map_err(damaged)?;
        record.ok_or(DiskError::NoList(list))
    }

    fn block(&self, block: u64) -> Result<BlockRecord, DiskError> {
        let words = self.words(self.disk.0.block_place(block)?);
        let record = BlockRecord::decode(words).map_err(damaged)?;
        record.ok_or(DiskError::NoBlock(block))
    }

    fn set_list(&mut self, list: u64, record: Option<ListRecord>) -> Result<(), DiskError> {
        let place = self.disk.0.list_place(list)?;
        self.set(place, ListRecord::encode(record), record.is_none());
        Ok(())
    }

    fn set_block(&mut self, block: u64, record: Option<BlockRecord>) -> Result<(), DiskError> {
        let place = self.disk.0.block_place(block)?;
        self.set(place, BlockRecord::encode(record), record.is_none());
        Ok(())
    }

    fn free_block(&mut self, block: u64) -> Result<(), DiskError> {
        self.blocks.remove(&block);
        self.freed.insert(block);
        self.set_block(block, None)
    }

    fn words(&self, place: RecordAt) -> [u64; 2] {
        match self.pages.get(&place.page) {
            Some(page) => words_at(page, place.at),
            None => words_at(&self.disk.0.pages.borrow()[&place.page], place.at),
        }
    }

    fn set(&mut self, place: RecordAt, words: [u64; 2], frees: bool) {
        let state = &self.disk.0;
        if frees {
            state.full.borrow_mut().remove(&place.page);
        }
        let page = self.pages.entry(place.page);
        let copy = || state.pool.copy_of(&state.pages.borrow()[&place.page]);
        let page = page.or_insert_with(copy);
        for (word, at) in words.iter().zip((place.at as usize..).step_by(8)) {
            page[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Takes a free identifier, as `lists/take.rs` of the product: from a record of the zone `near` on, else of the zone where one was
    /// found last or those after it.
    fn take(&self, kind: Kind, near: Option<(u64, u64)>) -> Result<u64, DiskError> {
        let state = self.disk.0.clone();
        let last = state.last[kind as usize].get();
        let others = (last..state.zone_count)
            .chain(0..last)
            .map(|zone| (zone, 0));
        for (zone, slot) in near.into_iter().chain(others) {
            if let Some(found) = self.take_in(kind, zone, slot) {
                state.last[kind as usize].set(zone);
                return Ok(found);
            }
        }
        Err(DiskError::StoreFull {
            free_bytes: 0,
            needed_bytes: u64::from(state.disk.block_size()),
        })
    }

    fn take_in(&self, kind: Kind, zone: u64, slot: u64) -> Option<u64> {
        let state = &self.disk.0;
        let (zones, mut full) = (state.zones, state.full.borrow_mut());
        let number = match kind {
            Kind::List => zones.list_page(zone),
            Kind::Block => zones.block_page(zone),
        };
        if full.contains(&number) {
            return None;
        }
        let committed = state.pages.borrow();
        let page = match self.pages.get(&number) {
            Some(page) => &page[..],
            None => &committed[&number][..],
        };
        let slots = (slot..zones.records()).chain(0..slot.min(zones.records()));
        let is_free = |slot: &u64| words_at(page, *slot as u32 * LIST_RECORD_BYTES) == [0; 2];
        let mut found = slots.filter(is_free).map(|slot| match kind {
            Kind::List => zones.list(zone, slot),
            Kind::Block => zones.block(zone, slot),
        });
        let found = found.find(|id| matches!(kind, Kind::List) || !self.freed.contains(id));
        if found.is_none() && self.freed.is_empty() {
            full.insert(number);
        }
        found
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        self.disk.0.is_open.set(false);
    }
}

/// The words of the record at byte `at` of a page.
fn words_at(page: &[u8], at: u32) -> [u64; 2] {
    let (words, _) = page[at as usize..at as usize + 16].as_chunks::<8>();
    [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])]
}

fn damaged(error: tonearm_format::FormatError) -> DiskError {
    DiskError::ListsDamaged(error.to_string())
}
