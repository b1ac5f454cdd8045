//! Loads checksum tables and decides which of a group's two slots is valid.
//!
//! The decision, for slots A and B in any order ("damaged" is also a slot of another group or of the
//! other slot's generation parity: a misdirected write):
//!
//! | A       | B       | table                                                   |
//! |---------|---------|---------------------------------------------------------|
//! | empty   | empty   | empty: all holes, generation 0                          |
//! | valid   | empty   | A                                                       |
//! | valid   | valid   | the higher generation                                   |
//! | valid   | damaged | A, as fallback                                          |
//! | empty   | damaged | empty, as fallback                                      |
//! | damaged | damaged | none: an error                                          |
//!
//! A fallback is right, or one write too old. After a torn write this is enough, because the log still has the lost
//! changes. But if the newer slot was damaged later, the older one may have a hole where a block was written since, and
//! a read would return zeroes. The space of a hole reads as zeroes on the medium, so the holes of a fallback are read:
//! a hole with content gets the entry [`LOST`], and reads of it are errors from then on. Blocks with an older entry
//! fail their checksum.
//!
//! A write-back into a group without a valid slot is not refused. It begins a table in which every block that it does
//! not write is [`LOST`], because the checksums of these blocks are already lost. This case is needed: a power cut
//! during a trim of whole groups can damage both slots, and the replay may write the group's blocks in several
//! portions.

use crate::error::HomeError;
use crate::overwrite::home::{Inner, Overwrite};
use crate::overwrite::table_cache::Table;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_format::{FormatError, HOLE, LOST, TableSlot};
use tonearm_rt::Notify;

/// The valid slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The content of a slot, or an empty table.
    Sound(TableSlot),
    /// The other slot is damaged.
    Fallback(TableSlot),
    /// Both are damaged.
    Neither,
}

/// The two slots, as read from the medium.
pub(crate) type Slots = [Result<Option<TableSlot>, FormatError>; 2];

/// Reads both slots of `group` from their adjacent blocks.
pub(crate) fn decode_slots(group: u64, bytes: &[u8]) -> Slots {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    [decode_slot(group, 0, first), decode_slot(group, 1, second)]
}

/// Reads slot `index` of `group`; none if it is empty.
pub(crate) fn decode_slot(
    group: u64,
    index: usize,
    bytes: &[u8],
) -> Result<Option<TableSlot>, FormatError> {
    let slot = TableSlot::decode(group, bytes)?;
    match slot {
        Some(slot) if slot.generation % 2 != index as u64 || slot.generation == 0 => {
            Err(FormatError::Inconsistent {
                what: "checksum table",
                why: "it belongs into the other slot (misdirected)",
            })
        }
        slot => Ok(slot),
    }
}

/// The decision table of the module.
pub(crate) fn choose(slots: Slots, block_size: u32) -> Choice {
    let or_empty = |slot: Option<TableSlot>| slot.unwrap_or_else(|| TableSlot::empty(block_size));
    match slots {
        [Ok(None), Ok(None)] => Choice::Sound(TableSlot::empty(block_size)),
        [Ok(Some(slot)), Ok(None)] | [Ok(None), Ok(Some(slot))] => Choice::Sound(slot),
        [Ok(Some(a)), Ok(Some(b))] => {
            Choice::Sound(if a.generation > b.generation { a } else { b })
        }
        [Ok(slot), Err(_)] | [Err(_), Ok(slot)] => Choice::Fallback(or_empty(slot)),
        [Err(_), Err(_)] => Choice::Neither,
    }
}

/// A load under way, shared by all calls that need its table.
struct Load {
    done: Notify,
    result: RefCell<Option<Result<Rc<Table>, HomeError>>>,
}

/// Loads under way by group. A load that was removed still ends for the calls that wait for it, but is not cached.
#[derive(Default)]
pub(crate) struct Loads(RefCell<BTreeMap<u64, Rc<Load>>>);

impl Inner {
    /// Makes `table` the table of `group`. A load under way does not replace it.
    pub(crate) fn put_table(&self, group: u64, table: &Rc<Table>) {
        self.loads.0.borrow_mut().remove(&group);
        self.cache.borrow_mut().insert(group, table.clone());
    }

    /// Drops the tables of `groups`, in memory or under way, because they have changed on the medium.
    pub(crate) fn forget_tables(&self, groups: std::ops::Range<u64>) {
        self.loads
            .0
            .borrow_mut()
            .extract_if(groups.clone(), |_, _| true)
            .for_each(drop);
        self.cache.borrow_mut().forget(groups);
    }
}

impl Overwrite {
    /// The table of `group`, from the cache or the device.
    pub(crate) async fn table(&self, group: u64) -> Result<Rc<Table>, HomeError> {
        if let Some(table) = self.cache.borrow_mut().get(group) {
            self.count(|stats| stats.overwrite.table_hits += 1);
            return Ok(table);
        }
        let load = self.start_load(group);
        loop {
            if let Some(result) = &*load.result.borrow() {
                return result.clone();
            }
            let done = load.done.wait();
            done.await;
        }
    }

    /// Starts loading the table of `group`, unless it is cached or being loaded.
    pub(crate) fn prefetch_table(&self, group: u64) {
        if !self.cache.borrow().contains(group) {
            self.start_load(group);
        }
    }

    fn start_load(&self, group: u64) -> Rc<Load> {
        let mut loads = self.loads.0.borrow_mut();
        if let Some(load) = loads.get(&group) {
            return load.clone();
        }
        let load = Rc::new(Load {
            done: Notify::new(&self.rt),
            result: RefCell::new(None),
        });
        loads.insert(group, load.clone());
        let (home, own) = (self.clone(), load.clone());
        // A task of its own: other calls wait for the load even if the first one is dropped.
        self.rt.spawn(async move {
            let result = home.load(group).await;
            let mut loads = home.loads.0.borrow_mut();
            if loads.get(&group).is_some_and(|load| Rc::ptr_eq(load, &own)) {
                loads.remove(&group);
                if let Ok(table) = &result {
                    home.cache.borrow_mut().insert(group, table.clone());
                }
            }
            *own.result.borrow_mut() = Some(result);
            own.done.notify();
        });
        load
    }

    async fn load(&self, group: u64) -> Result<Rc<Table>, HomeError> {
        self.count(|stats| stats.table_loads += 1);
        let slots = self.read_slots(group).await?;
        let slot = match choose(slots, self.places.block_size as u32) {
            Choice::Sound(slot) => slot,
            Choice::Fallback(slot) => self.mark_false_holes(group, slot).await?,
            Choice::Neither => return Err(self.table_error(group)),
        };
        Ok(Rc::new(Table::new(slot)))
    }

    /// Both slots of `group` from the medium.
    pub(crate) async fn read_slots(&self, group: u64) -> Result<Slots, HomeError> {
        let offset = self.places.slot_offset(group, 0);
        let member = self.places.member_of(group);
        let _turn = self.places.members[member].queue.read_turn().await;
        let buf = self
            .read_bytes(member, offset, 2 * self.places.block_size)
            .await?;
        Ok(decode_slots(group, &buf))
    }

    pub(crate) fn table_error(&self, group: u64) -> HomeError {
        HomeError::Table {
            group,
            member: self.places.name(self.places.member_of(group)).to_string(),
            offset: self.places.slot_offset(group, 0),
        }
    }

    /// Gives holes of `slot` that have content on the medium the entry [`LOST`].
    pub(crate) async fn mark_false_holes(
        &self,
        group: u64,
        mut slot: TableSlot,
    ) -> Result<TableSlot, HomeError> {
        self.count(|stats| stats.overwrite.table_fallbacks += 1);
        let blocks = self.places.blocks_of(group);
        let mut at = blocks.start;
        while at < blocks.end {
            let within = (at - blocks.start) as usize;
            let count = (blocks.end - at).min(self.io_blocks());
            let entries = &mut slot.entries[within..within + count as usize];
            at += count;
            if !entries.contains(&HOLE) {
                continue;
            }
            let bytes = self.read_raw(at - count, count).await?;
            let contents = bytes.chunks_exact(self.places.block_size);
            for (entry, content) in entries.iter_mut().zip(contents) {
                if *entry == HOLE && !is_zero(content) {
                    *entry = LOST;
                }
            }
        }
        Ok(slot)
    }

    /// The bytes of `count` adjacent blocks of one group, not verified.
    pub(crate) async fn read_raw(
        &self,
        first: u64,
        count: u64,
    ) -> Result<tonearm_base::Buf, HomeError> {
        let member = self.places.member_of(self.places.group_of(first));
        let offset = self.places.block_offset(first);
        let len = count as usize * self.places.block_size;
        let _turn = self.places.members[member].queue.read_turn().await;
        self.read_bytes(member, offset, len).await
    }

    /// A whole read at `offset` of `member`. The caller has the turn of a read.
    pub(crate) async fn read_bytes(
        &self,
        member: usize,
        offset: u64,
        len: usize,
    ) -> Result<tonearm_base::Buf, HomeError> {
        let data = tonearm_rt::Data::whole(self.pool.alloc(len));
        let data = self.fill(member, offset, data).await?;
        Ok(data.into_buf())
    }
}

/// True when `bytes` are zeroes. Comparing whole pages is many times faster than comparing bytes.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    const ZEROES: [u8; 4096] = [0; 4096];
    bytes
        .chunks(ZEROES.len())
        .all(|page| *page == ZEROES[..page.len()])
}
