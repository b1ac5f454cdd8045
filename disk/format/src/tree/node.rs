//! A node of a tree: slots in the order of the keys after the header, and a heap of items that grows down from the end of
//! the page.
//!
//! The engine logs the 8-byte words of a page that change. So an item never moves without need: items are aligned to
//! words, a removed item leaves a hole, and a later item of its size takes the hole.
//!
//! Every offset is checked before its use. A method that returns an error may have changed a part of the page.

use super::Key;
use crate::{FormatError, TREE_LEVELS_MAX};
use std::mem::offset_of;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 4] = *b"TNND";
const WHAT: &str = "tree node";
/// Offsets and lengths in the heap count units of this many bytes, so that those of a page of 64 KiB fit into 16 bits.
const UNIT: usize = 8;
const HEADER_BYTES: usize = size_of::<Raw>();
const SLOT_BYTES: usize = 2;
const ITEM_BYTES: usize = size_of::<RawItem>();

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 4],
    level: u8,
    reserved: u8,
    count: U16,
    heap: U16,
    dead: U16,
    reserved_2: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawItem {
    ino: U64,
    at: U64,
    kind: u8,
    len: U16,
}

const _: () = assert!(HEADER_BYTES == 16 && offset_of!(Raw, heap) == UNIT);
const _: () = assert!(ITEM_BYTES == 19 && offset_of!(RawItem, len) == 17);

const fn item_units(value_len: usize) -> usize {
    (ITEM_BYTES + value_len).div_ceil(UNIT)
}

/// Most bytes of a value in pages of `page_len` bytes: an item with its slot takes at most a quarter of what a page can
/// hold, so that each half of a full page has room for one more.
pub const fn max_value(page_len: usize) -> usize {
    ((page_len - HEADER_BYTES) / 4 - SLOT_BYTES) / UNIT * UNIT - ITEM_BYTES
}

/// The value of an inner node's item that names a child.
pub fn child_value(page: u64) -> [u8; 8] {
    page.to_le_bytes()
}

const fn bad(why: &'static str) -> FormatError {
    FormatError::Inconsistent { what: WHAT, why }
}

/// Where an item lies, in units, and the number of its slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Extent {
    at: usize,
    units: usize,
    slot: usize,
}

/// A node over the bytes `B` of its page. Level 0 is a leaf. In an inner node the value of an item is the number of a child,
/// and the first key counts as minus infinity.
pub struct TreeNode<B>(B);

impl<B: AsRef<[u8]>> TreeNode<B> {
    /// The node in a page.
    ///
    /// # Errors
    /// When the page is no node, or its header is inconsistent.
    pub fn open(page: B) -> Result<Self, FormatError> {
        let len = page.as_ref().len();
        match Raw::ref_from_prefix(page.as_ref()) {
            Ok((raw, _)) if raw.magic == MAGIC => {
                let (heap, dead) = (usize::from(raw.heap.get()), usize::from(raw.dead.get()));
                let slots_end = HEADER_BYTES + usize::from(raw.count.get()) * SLOT_BYTES;
                if u32::from(raw.level) >= TREE_LEVELS_MAX {
                    return Err(bad("its level is above all levels"));
                }
                if slots_end > heap * UNIT || (heap + dead) * UNIT > len {
                    return Err(bad("its slots and its heap do not fit into the page"));
                }
            }
            _ => return Err(FormatError::Signature(WHAT)),
        }
        Ok(Self(page))
    }

    fn bytes(&self) -> &[u8] {
        self.0.as_ref()
    }

    fn raw(&self) -> &Raw {
        let raw = Raw::ref_from_prefix(self.bytes());
        raw.expect("a node was opened with its header").0
    }

    /// Distance from the leaves.
    pub fn level(&self) -> u32 {
        self.raw().level.into()
    }

    /// Its items.
    pub fn count(&self) -> usize {
        self.raw().count.get().into()
    }

    fn heap(&self) -> usize {
        self.raw().heap.get().into()
    }

    fn dead(&self) -> usize {
        self.raw().dead.get().into()
    }

    fn units(&self) -> usize {
        self.bytes().len() / UNIT
    }

    /// Bytes between the slots and the heap.
    fn gap(&self) -> usize {
        self.heap() * UNIT - slot_at(self.count())
    }

    /// Bytes for items and slots.
    pub fn room(&self) -> usize {
        self.bytes().len() - HEADER_BYTES
    }

    /// Bytes that items and slots take.
    pub fn used(&self) -> usize {
        self.room() - self.gap() - self.dead() * UNIT
    }

    /// Offset of an item in units.
    fn slot(&self, index: usize) -> Result<usize, FormatError> {
        let slots = &self.bytes()[HEADER_BYTES..slot_at(self.count())];
        let slot = slots.as_chunks::<SLOT_BYTES>().0.get(index);
        let at = u16::from_le_bytes(*slot.ok_or(bad("it has too few items"))?);
        Ok(at.into())
    }

    /// Key and value of an item.
    ///
    /// # Errors
    /// When there is no such item, or it does not lie in the heap.
    pub fn item(&self, index: usize) -> Result<(Key, &[u8]), FormatError> {
        const OUTSIDE: FormatError = bad("an item lies outside of the heap");
        let at = self.slot(index)?;
        let bytes = self.bytes().get(at * UNIT..).filter(|_| at >= self.heap());
        let item = RawItem::ref_from_prefix(bytes.ok_or(OUTSIDE)?);
        let (raw, rest) = item.map_err(|_| OUTSIDE)?;
        let key = Key {
            ino: raw.ino.get(),
            kind: raw.kind,
            at: raw.at.get(),
        };
        let value = rest.get(..raw.len.get().into()).ok_or(OUTSIDE)?;
        Ok((key, value))
    }

    /// Page number of a child.
    ///
    /// # Errors
    /// As [`Self::item`], and when the value is no page number.
    pub fn child(&self, index: usize) -> Result<u64, FormatError> {
        let (_, value) = self.item(index)?;
        let child = U64::read_from_bytes(value).map(U64::get);
        child.map_err(|_| bad("the value of an inner item is no page number"))
    }

    /// `Ok` with the number of the item of `key`, or `Err` with the number that it would get.
    ///
    /// # Errors
    /// As [`Self::item`].
    pub fn search(&self, key: Key) -> Result<Result<usize, usize>, FormatError> {
        // The first key of an inner node counts as minus infinity, whatever its bytes are.
        let (mut low, mut high) = (usize::from(self.level() > 0), self.count());
        while low < high {
            let middle = low.midpoint(high);
            match self.item(middle)?.0.cmp(&key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(Ok(middle)),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(Err(low))
    }

    /// Items that stay on the left when the node is split before an item with a value of `value_len` bytes is inserted at
    /// `index`. The inserted item counts, so that the number is from 1 to [`Self::count`]. The halves are about equal in
    /// bytes.
    ///
    /// # Errors
    /// As [`Self::item`], and when there are too few items for two halves.
    pub fn middle(&self, index: usize, value_len: usize) -> Result<usize, FormatError> {
        let mut sums = vec![0];
        for position in 0..=self.count() {
            let len = match position.cmp(&index) {
                std::cmp::Ordering::Less => self.item(position)?.1.len(),
                std::cmp::Ordering::Equal => value_len,
                std::cmp::Ordering::Greater => self.item(position - 1)?.1.len(),
            };
            sums.push(sums[position] + item_units(len) * UNIT + SLOT_BYTES);
        }
        let total = sums[self.count() + 1];
        let cuts = 1..=self.count();
        cuts.min_by_key(|cut| (2 * sums[*cut]).abs_diff(total))
            .ok_or(bad("an empty node has no room for an item"))
    }

    /// Extents of the items in the order of the slots.
    fn extents(&self) -> Result<Vec<Extent>, FormatError> {
        let extent = |slot| {
            let (at, (_, value)) = (self.slot(slot)?, self.item(slot)?);
            let units = item_units(value.len());
            Ok(Extent { at, units, slot })
        };
        (0..self.count()).map(extent).collect()
    }

    /// Extents of the items in the order of their offsets.
    ///
    /// # Errors
    /// When the items overlap, or the header does not agree with them.
    fn heap_order(&self) -> Result<Vec<Extent>, FormatError> {
        let mut extents = self.extents()?;
        extents.sort_unstable();
        let mut free_at = self.heap();
        let mut dead = 0;
        for extent in &extents {
            let hole = extent.at.checked_sub(free_at);
            dead += hole.ok_or(bad("two items overlap"))?;
            free_at = extent.at + extent.units;
        }
        let first = extents.first().map_or(self.units(), |extent| extent.at);
        let rest = self.units().checked_sub(free_at);
        dead += rest.ok_or(bad("an item ends beyond the page"))?;
        if first != self.heap() || dead != self.dead() {
            return Err(bad("its heap or its dead bytes are not those of its items"));
        }
        Ok(extents)
    }

    /// Verifies header, items and the order of the keys.
    ///
    /// # Errors
    /// When the node is damaged.
    pub fn check(&self) -> Result<(), FormatError> {
        self.heap_order()?;
        let mut last = None;
        for index in usize::from(self.level() > 0)..self.count() {
            let key = Some(self.item(index)?.0);
            if last >= key {
                return Err(bad("its keys are not in ascending order"));
            }
            last = key;
        }
        if self.level() > 0 {
            (0..self.count()).try_for_each(|index| self.child(index).map(drop))?;
        }
        Ok(())
    }

    /// Start of the smallest hole that has at least `units`.
    fn hole(&self, units: usize) -> Result<Option<usize>, FormatError> {
        let order = self.heap_order()?;
        let starts = order.iter().map(|extent| extent.at + extent.units);
        let ends = order.iter().skip(1).map(|extent| extent.at);
        let holes = starts.zip(ends.chain([self.units()]));
        let large = holes.filter(|(start, end)| end - start >= units);
        Ok(large
            .min_by_key(|(start, end)| end - start)
            .map(|(start, _)| start))
    }
}

/// Byte offset of a slot.
fn slot_at(index: usize) -> usize {
    HEADER_BYTES + index * SLOT_BYTES
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> TreeNode<B> {
    /// Makes an empty node of a page. The bytes after the header stay.
    ///
    /// # Panics
    /// When the page is no block of 4096 to 65536 bytes.
    pub fn format(mut page: B, level: u32) -> Self {
        let mut raw = Raw::new_zeroed();
        raw.magic = MAGIC;
        raw.level = u8::try_from(level).expect("a tree has few levels");
        let units = page.as_ref().len() / UNIT;
        raw.heap = u16::try_from(units).expect("a page is a block").into();
        raw.write_to_prefix(page.as_mut())
            .expect("a page is longer than its header");
        Self(page)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_mut()
    }

    fn set_header(&mut self, count: usize, heap: usize, dead: usize) {
        let raw = Raw::mut_from_prefix(self.bytes_mut());
        let (raw, _) = raw.expect("a node was opened with its header");
        raw.count = (count as u16).into();
        raw.heap = (heap as u16).into();
        raw.dead = (dead as u16).into();
    }

    fn set_slot(&mut self, index: usize, at: usize) {
        let bytes = &mut self.bytes_mut()[slot_at(index)..slot_at(index + 1)];
        bytes.copy_from_slice(&(at as u16).to_le_bytes());
    }

    fn write_item(&mut self, at: usize, key: Key, value: &[u8]) {
        let raw = RawItem {
            ino: key.ino.into(),
            at: key.at.into(),
            kind: key.kind,
            len: (value.len() as u16).into(),
        };
        let end = (at + item_units(value.len())) * UNIT;
        let (head, rest) = self.bytes_mut()[at * UNIT..end].split_at_mut(ITEM_BYTES);
        head.copy_from_slice(raw.as_bytes());
        let (content, padding) = rest.split_at_mut(value.len());
        content.copy_from_slice(value);
        padding.fill(0);
    }

    /// Inserts an item at `index`, which must be at most [`Self::count`] and keep the order of the keys. `false` when the
    /// page has no room for it; then nothing has changed.
    ///
    /// # Errors
    /// When the node is damaged.
    pub fn insert(&mut self, index: usize, key: Key, value: &[u8]) -> Result<bool, FormatError> {
        let units = item_units(value.len());
        let Some(at) = self.place(units)? else {
            return Ok(false);
        };
        let (count, heap, dead) = (self.count(), self.heap(), self.dead());
        let after = slot_at(index)..slot_at(count);
        self.bytes_mut()
            .copy_within(after, slot_at(index) + SLOT_BYTES);
        let dead = if at < heap { dead } else { dead - units };
        self.set_header(count + 1, heap.min(at), dead);
        self.set_slot(index, at);
        self.write_item(at, key, value);
        Ok(true)
    }

    /// Where an item of `units` and its slot have room: in a hole, else in the gap, else in the gap once the heap is compact.
    /// The hole comes first because only the gap has room for slots: without a gap the next item moves all others.
    fn place(&mut self, units: usize) -> Result<Option<usize>, FormatError> {
        let needed = units * UNIT + SLOT_BYTES;
        if self.room() - self.used() < needed {
            return Ok(None);
        }
        if self.gap() >= SLOT_BYTES
            && self.dead() >= units
            && let Some(hole) = self.hole(units)?
        {
            return Ok(Some(hole));
        }
        if self.gap() < needed {
            self.compact()?;
        }
        Ok(Some(self.heap() - units))
    }

    /// Moves the items to the end of the page.
    fn compact(&mut self) -> Result<(), FormatError> {
        let mut end = self.units();
        for Extent { at, units, slot } in self.heap_order()?.into_iter().rev() {
            end -= units;
            let bytes = at * UNIT..(at + units) * UNIT;
            self.bytes_mut().copy_within(bytes, end * UNIT);
            self.set_slot(slot, end);
        }
        self.set_header(self.count(), end, 0);
        Ok(())
    }

    /// Replaces a value where the item lies. `false` when its bytes do not fit there exactly; then nothing has changed.
    ///
    /// # Errors
    /// As [`Self::item`].
    pub fn replace(&mut self, index: usize, value: &[u8]) -> Result<bool, FormatError> {
        let at = self.slot(index)?;
        let (key, old) = self.item(index)?;
        let fits = item_units(old.len()) == item_units(value.len());
        if fits {
            self.write_item(at, key, value);
        }
        Ok(fits)
    }

    /// Removes an item.
    ///
    /// # Errors
    /// As [`Self::item`].
    pub fn remove(&mut self, index: usize) -> Result<(), FormatError> {
        self.slot(index)?;
        let after = slot_at(index + 1)..slot_at(self.count());
        self.bytes_mut().copy_within(after, slot_at(index));
        self.truncate(self.count() - 1)
    }

    /// Removes all items but the first `count`, which must be at most [`Self::count`].
    ///
    /// # Errors
    /// As [`Self::item`].
    pub fn truncate(&mut self, count: usize) -> Result<(), FormatError> {
        self.set_header(count, self.heap(), self.dead());
        let extents = self.extents()?;
        let heap = extents.iter().map(|extent| extent.at).min();
        let heap = heap.unwrap_or(self.units());
        let live: usize = extents.iter().map(|extent| extent.units).sum();
        let dead = (self.units() - heap).checked_sub(live);
        self.set_header(count, heap, dead.ok_or(bad("two items overlap"))?);
        Ok(())
    }
}
