//! The items that an application's unit has changed, over those of the committed tree.
//!
//! Invariants:
//! 1. An item's change remembers the item as it was committed when the unit first changed it.
//! 2. An operation changes an [`Edit`] of its own. So an operation that fails or runs again has changed nothing.

use crate::error::damaged;
use crate::refusal::Stop;
use crate::tree::{Key, OWNER_WORDS, Tree};
use crate::types::Number;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use tonearm_disk::TreePages;
use tonearm_format::{DirEntry, INO_MAX, Inode, LIST_ID_LIMIT, item};

/// Memory that a changed item takes beside its two values.
const ITEM_BYTES: usize = 128;

/// A changed item. `None` stands for no item.
#[derive(Clone)]
pub(crate) struct Change {
    /// As it was committed when the unit first changed it.
    pub base: Option<Vec<u8>>,
    pub now: Option<Vec<u8>>,
}

impl Change {
    fn bytes(&self) -> u64 {
        let len = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
        (ITEM_BYTES + len(&self.base) + len(&self.now)) as u64
    }
}

/// Changes of items, and of the owner's numbers.
#[derive(Default)]
pub(crate) struct Overlay {
    pub items: BTreeMap<Key, Change>,
    pub numbers: [i64; OWNER_WORDS],
    /// Behind the last inode that was made; 0 when none was.
    pub next_ino: u64,
}

/// The changes of one operation.
pub(crate) type Edit = Overlay;

impl Overlay {
    /// The files that were changed, directories too.
    pub fn inodes(&self) -> impl Iterator<Item = u64> {
        let inodes = self.items.keys().filter(|key| key.kind == item::INODE);
        inodes.map(|key| key.ino)
    }

    /// The bytes of memory that the changes of an operation add.
    pub fn added_by(&self, edit: &Edit) -> u64 {
        let items = edit.items.iter().map(|(key, change)| {
            let old = self.items.get(key).map_or(0, Change::bytes);
            change.bytes().saturating_sub(old)
        });
        items.sum()
    }

    /// Takes the changes of an operation.
    pub fn take(&mut self, edit: Edit) {
        self.items.extend(edit.items);
        for (number, more) in self.numbers.iter_mut().zip(edit.numbers) {
            *number += more;
        }
        self.next_ino = self.next_ino.max(edit.next_ino);
    }
}

/// What a change of the committed tree changes.
#[derive(Default)]
pub(crate) struct Changed {
    /// Inodes and their sizes; `None` for those that are gone.
    pub inodes: Vec<(u64, Option<u64>)>,
    /// Files without a name, among the inodes.
    pub unlinked: Vec<u64>,
    /// Files that have other blocks, or were cut off.
    pub extents: BTreeSet<u64>,
    /// Names with their directories.
    pub names: Vec<(u64, Vec<u8>)>,
    /// Files of which other items than the inode were changed. A unit may leave the inode as it was: it has replaced a name
    /// within one tick of the clock.
    pub others: BTreeSet<u64>,
}

impl Changed {
    fn note(&mut self, key: Key, value: Option<&[u8]>) {
        if key.kind != item::INODE {
            self.others.insert(key.ino);
        }
        match key.kind {
            item::INODE => {
                let inode = value.and_then(|value| Inode::decode(value).ok());
                self.inodes
                    .push((key.ino, inode.as_ref().map(|inode| inode.size)));
                let is_unlinked = inode.is_some_and(|inode| inode.nlink == 0);
                self.unlinked.extend(is_unlinked.then_some(key.ino));
            }
            item::EXTENT => {
                self.extents.insert(key.ino);
            }
            item::ENTRY => {
                let entry = value.and_then(|value| DirEntry::decode(key.at, value).ok());
                self.names.extend(entry.map(|entry| (key.ino, entry.name)));
            }
            _ => {}
        }
    }
}

/// The items that an operation sees: those of the committed tree, or with a unit's changes over them.
pub(crate) struct Items<'a, 'b> {
    tree: Tree<'a, TreePages<'b>>,
    unit: Option<(&'a Overlay, &'a mut Edit)>,
    /// What is changed in the committed tree.
    changed: Changed,
}

impl<'a, 'b> Items<'a, 'b> {
    pub fn new(pages: &'a mut TreePages<'b>, unit: Option<(&'a Overlay, &'a mut Edit)>) -> Self {
        Self {
            tree: Tree(pages),
            unit,
            changed: Changed::default(),
        }
    }

    /// Notes that a file has other blocks, or another end within one.
    pub fn note_blocks(&mut self, ino: u64) {
        self.changed.extents.insert(ino);
    }

    /// What was changed in the committed tree.
    pub fn into_changed(self) -> Changed {
        self.changed
    }

    /// Behind the last block that there is.
    pub fn area_end(&self) -> u64 {
        self.tree.0.list_blocks_end()
    }

    /// The committed tree below.
    pub fn tree(&mut self) -> &mut Tree<'a, TreePages<'b>> {
        &mut self.tree
    }

    pub fn number(&mut self, number: Number) -> Result<u64, Stop> {
        let at = number as usize;
        let header = self.tree.header()?;
        let committed = header.owner[at];
        let most = match number {
            // In the middle of a removal there may be fewer items than inodes.
            Number::NextIno | Number::Inodes => INO_MAX,
            Number::Blocks => LIST_ID_LIMIT,
            Number::HashKey | Number::HashKey1 => u64::MAX,
        };
        if committed > most {
            return Err(damaged("page 0 counts more inodes or blocks than there can be").into());
        }
        let more = match &self.unit {
            Some((overlay, edit)) => overlay.numbers[at] + edit.numbers[at],
            None => 0,
        };
        let number = committed.checked_add_signed(more);
        Ok(number.ok_or_else(|| damaged("a count goes below zero"))?)
    }

    pub fn add(&mut self, number: Number, more: i64) -> Result<(), Stop> {
        let at = number as usize;
        let after = self.number(number)?.checked_add_signed(more);
        let after = after.ok_or_else(|| damaged("a count goes below zero"))?;
        match &mut self.unit {
            Some((_, edit)) => edit.numbers[at] += more,
            None => {
                let mut owner = self.tree.header()?.owner;
                owner[at] = after;
                self.tree.set_header(owner)?;
            }
        }
        Ok(())
    }

    /// The number of a new inode. Those below `taken` belong to units that are open or have been.
    pub fn take_ino(&mut self, taken: u64) -> Result<u64, Stop> {
        let next = self.number(Number::NextIno)?.max(taken);
        match &mut self.unit {
            Some((overlay, edit)) => {
                let ino = next.max(overlay.next_ino).max(edit.next_ino);
                edit.next_ino = ino + 1;
                Ok(ino)
            }
            None => {
                self.raise_next_ino(next + 1)?;
                Ok(next)
            }
        }
    }

    /// Makes the number of the next inode at least `next`.
    pub fn raise_next_ino(&mut self, next: u64) -> Result<(), Stop> {
        let mut owner = self.tree.header()?.owner;
        let known = &mut owner[Number::NextIno as usize];
        if *known < next {
            *known = next;
            self.tree.set_header(owner)?;
        }
        Ok(())
    }

    /// The unit's change of an item.
    fn own(&self, key: Key) -> Option<&Change> {
        let (overlay, edit) = self.unit.as_ref()?;
        edit.items.get(&key).or_else(|| overlay.items.get(&key))
    }

    pub fn get(&mut self, key: Key) -> Result<Option<Vec<u8>>, Stop> {
        match self.own(key) {
            Some(change) => Ok(change.now.clone()),
            None => Ok(self.tree.get(key)?),
        }
    }

    pub fn put(&mut self, key: Key, value: &[u8]) -> Result<(), Stop> {
        match self.unit {
            Some(_) => self.set(key, Some(value.to_vec())).map(drop),
            None => {
                self.changed.note(key, Some(value));
                Ok(self.tree.put(key, value)?)
            }
        }
    }

    /// False when there was no such item.
    pub fn remove(&mut self, key: Key) -> Result<bool, Stop> {
        match self.unit {
            Some(_) => self.set(key, None),
            None => {
                let is_name = key.kind == item::ENTRY;
                // The name is in the entry.
                let entry = is_name.then(|| self.tree.get(key)).transpose()?;
                self.changed.note(key, entry.flatten().as_deref());
                Ok(self.tree.remove(key)?)
            }
        }
    }

    /// Changes an item in the unit. True when it was there.
    fn set(&mut self, key: Key, now: Option<Vec<u8>>) -> Result<bool, Stop> {
        let (base, was) = match self.own(key) {
            Some(change) => (change.base.clone(), change.now.is_some()),
            None => {
                let base = self.tree.get(key)?;
                let was = base.is_some();
                (base, was)
            }
        };
        if let Some((_, edit)) = &mut self.unit {
            edit.items.insert(key, Change { base, now });
        }
        Ok(was)
    }

    /// The last item whose key is `from` or smaller.
    pub fn previous(&mut self, mut from: Key) -> Result<Option<(Key, Vec<u8>)>, Stop> {
        loop {
            let own = self.changed_before(from);
            let committed = self.tree.previous(from)?;
            let at = match (own, &committed) {
                (Some(own), Some((key, _))) if own < *key => return Ok(committed),
                (None, _) => return Ok(committed),
                (Some(own), _) => own,
            };
            let now = self.own(at).and_then(|change| change.now.clone());
            match (now, before(at)) {
                (Some(value), _) => return Ok(Some((at, value))),
                (None, Some(next)) => from = next,
                (None, None) => return Ok(None),
            }
        }
    }

    /// The last key of the unit's changes that is `from` or smaller.
    fn changed_before(&self, from: Key) -> Option<Key> {
        let (overlay, edit) = self.unit.as_ref()?;
        let last =
            |items: &BTreeMap<Key, Change>| items.range(..=from).next_back().map(|(k, _)| *k);
        last(&overlay.items).max(last(&edit.items))
    }

    /// Calls `each` for the items from `from` on, in the order of their keys, until it returns `false`.
    pub fn scan(
        &mut self,
        from: Key,
        mut each: impl FnMut(Key, &[u8]) -> bool,
    ) -> Result<(), Stop> {
        let Some((overlay, edit)) = &self.unit else {
            return Ok(self.tree.scan(from, each)?);
        };
        let next = None;
        let mut own = Merged {
            overlay,
            edit,
            next,
        };
        own.seek(Included(from));
        let mut goes_on = true;
        self.tree.scan(from, |key, value| {
            while let Some((at, now)) = own.next
                && at < key
                && goes_on
            {
                goes_on = now.is_none_or(|value| each(at, value));
                own.advance();
            }
            match own.next {
                _ if !goes_on => {}
                Some((at, now)) if at == key => {
                    goes_on = now.is_none_or(|value| each(at, value));
                    own.advance();
                }
                _ => goes_on = each(key, value),
            }
            goes_on
        })?;
        while let Some((at, now)) = own.next
            && goes_on
        {
            goes_on = now.is_none_or(|value| each(at, value));
            own.advance();
        }
        Ok(())
    }
}

/// A unit's changes in the order of their keys, with those of the operation over the others.
struct Merged<'a> {
    overlay: &'a Overlay,
    edit: &'a Edit,
    next: Option<(Key, Option<&'a [u8]>)>,
}

impl Merged<'_> {
    fn advance(&mut self) {
        if let Some((at, _)) = self.next {
            self.seek(Excluded(at));
        }
    }

    fn seek(&mut self, from: Bound<Key>) {
        let first = |items: &BTreeMap<Key, Change>| {
            items.range((from, Unbounded)).next().map(|(key, _)| *key)
        };
        let (one, other) = (first(&self.overlay.items), first(&self.edit.items));
        let key = match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.next = key.map(|key| {
            let change = self.edit.items.get(&key);
            let change = change.unwrap_or_else(|| &self.overlay.items[&key]);
            (key, change.now.as_deref())
        });
    }
}

/// The key before `key`.
fn before(key: Key) -> Option<Key> {
    let Key { ino, kind, at } = key;
    let (kind, ino, at) = match (at.checked_sub(1), kind.checked_sub(1)) {
        (Some(at), _) => (kind, ino, at),
        (None, Some(kind)) => (kind, ino, u64::MAX),
        (None, None) => (u8::MAX, ino.checked_sub(1)?, u64::MAX),
    };
    Some(Key { ino, kind, at })
}
