//! The tree's items as one operation sees them. Everything here is without an await: the operation runs over pages in memory,
//! and again when one was missing ([`tonearm_disk::TreeEdit`]).

use crate::error::{FsError, damaged};
use crate::overlay::{Changed, Edit, Items, Overlay};
use crate::refusal::Stop;
use crate::tree::{Check, Key, Pages, Wait};
use crate::types::Number;
use std::ops::RangeInclusive;
use tonearm_disk::{TreePages, TreeStop};
use tonearm_format::{DirEntry, FileExtent, FormatError, Inode, Xattr, decode_orphan, item};

impl Pages for TreePages<'_> {
    fn page(&mut self, page: u64) -> Result<&[u8], Wait> {
        TreePages::page(self, page).map_err(wait)
    }

    fn page_mut(&mut self, page: u64) -> Result<&mut [u8], Wait> {
        TreePages::page_mut(self, page).map_err(wait)
    }

    fn count(&self) -> u64 {
        TreePages::count(self)
    }

    fn kept(&self) -> u64 {
        TreePages::kept(self)
    }
}

fn wait(stop: TreeStop) -> Wait {
    match stop {
        TreeStop::Missing(page) => Wait::Missing(page),
        TreeStop::Full | TreeStop::Refused => Wait::Full,
    }
}

/// Items with their types.
pub(crate) struct Meta<'a, 'b> {
    items: Items<'a, 'b>,
    naming: Naming,
}

/// What new names and inodes need.
#[derive(Clone, Copy, Default)]
pub(crate) struct Naming {
    /// The key of the hash of names.
    pub hash_key: (u64, u64),
    /// Inodes below this number belong to units that are open or have been.
    pub taken: u64,
}

impl<'a, 'b> Meta<'a, 'b> {
    /// The committed tree.
    pub fn new(pages: &'a mut TreePages<'b>, naming: Naming) -> Self {
        let items = Items::new(pages, None);
        Self { items, naming }
    }

    /// The tree as a unit sees it that has changed `overlay`. Changes go to `edit`.
    pub fn over(
        pages: &'a mut TreePages<'b>,
        naming: Naming,
        overlay: &'a Overlay,
        edit: &'a mut Edit,
    ) -> Self {
        let items = Items::new(pages, Some((overlay, edit)));
        Self { items, naming }
    }

    /// Notes that a file has other blocks, or another end within one.
    pub fn note_blocks(&mut self, ino: u64) {
        self.items.note_blocks(ino);
    }

    /// What was changed in the committed tree.
    pub fn into_changed(self) -> Changed {
        self.items.into_changed()
    }

    pub fn number(&mut self, number: Number) -> Result<u64, Stop> {
        self.items.number(number)
    }

    pub fn add(&mut self, number: Number, more: i64) -> Result<(), Stop> {
        self.items.add(number, more)
    }

    /// The number of a new inode.
    pub fn take_ino(&mut self) -> Result<u64, Stop> {
        self.items.take_ino(self.naming.taken)
    }

    /// Makes the number of the next inode at least `next`.
    pub fn raise_next_ino(&mut self, next: u64) -> Result<(), Stop> {
        self.items.raise_next_ino(next)
    }

    /// An inode, which must be there.
    pub fn inode(&mut self, ino: u64) -> Result<Inode, Stop> {
        let found = self.items.get(inode_key(ino))?;
        let found = found.ok_or(FsError::NotFound)?;
        Ok(Inode::decode(&found).map_err(damage_of(ino))?)
    }

    /// The inode that an entry names, or an inode as its parent.
    pub fn named_inode(&mut self, ino: u64) -> Result<Inode, Stop> {
        self.inode(ino).map_err(|stop| match stop {
            Stop::Error(FsError::NotFound) => {
                FsError::Damaged(format!("inode {ino} is named and is not there")).into()
            }
            stop => stop,
        })
    }

    pub fn put_inode(&mut self, ino: u64, inode: &Inode) -> Result<(), Stop> {
        self.items.put(inode_key(ino), &inode.encode())
    }

    /// Removes all items of an inode, of which there are at most `most`.
    pub fn remove_inode(&mut self, ino: u64, most: u64) -> Result<(), Stop> {
        let keys = self.keys(ino, 0..=u8::MAX, most + 1)?;
        if keys.len() as u64 > most {
            let text = format!("inode {ino} has more items than it counts");
            return Err(FsError::Damaged(text).into());
        }
        for key in keys {
            self.items.remove(key)?;
        }
        self.add(Number::Inodes, -1)?;
        Ok(())
    }

    /// The first `most` keys of items of an inode, of these kinds.
    pub fn keys(
        &mut self,
        ino: u64,
        kinds: RangeInclusive<u8>,
        most: u64,
    ) -> Result<Vec<Key>, Stop> {
        let mut keys = Vec::new();
        let from = Key {
            kind: *kinds.start(),
            ..first_key(ino)
        };
        self.items.scan(from, |key, _| {
            let is_in = key.ino == ino && kinds.contains(&key.kind);
            keys.extend(is_in.then_some(key));
            is_in && (keys.len() as u64) < most
        })?;
        Ok(keys)
    }

    /// The entry `name` of a directory, and its key.
    pub fn entry(&mut self, dir: u64, name: &[u8]) -> Result<Option<(Key, DirEntry)>, Stop> {
        let of = |at: u64, bytes: &[u8]| {
            DirEntry::decode(at, bytes).map(|entry| (entry.name == name).then_some(entry))
        };
        self.find_by_hash(dir, item::ENTRY, name, of)
            .map(Result::ok)
    }

    /// Adds an entry to a directory that has none of this name.
    pub fn put_entry(&mut self, dir: u64, entry: &DirEntry) -> Result<(), Stop> {
        let of = |_, _: &[u8]| Ok(None::<()>);
        match self.find_by_hash(dir, item::ENTRY, &entry.name, of)? {
            Err(free) => self.items.put(free, &entry.encode()),
            Ok(_) => Err(damaged("a name is there twice").into()),
        }
    }

    /// The extended attribute `name`, and its key.
    pub fn xattr(&mut self, ino: u64, name: &[u8]) -> Result<Result<(Key, Xattr), Key>, Stop> {
        let of = |_, bytes: &[u8]| {
            Xattr::decode(bytes).map(|xattr| (xattr.name == name).then_some(xattr))
        };
        self.find_by_hash(ino, item::XATTR, name, of)
    }

    /// Looks up a name among the items of its hash. Gives the item that `of` takes, or else the first free key.
    fn find_by_hash<T>(
        &mut self,
        ino: u64,
        kind: u8,
        name: &[u8],
        of: impl Fn(u64, &[u8]) -> Result<Option<T>, FormatError>,
    ) -> Result<Result<(Key, T), Key>, Stop> {
        let hash = hash(self.naming.hash_key, name);
        let (mut free, mut found, mut failed) = (Some(hash), None, None);
        let first = Key {
            ino,
            kind,
            at: hash,
        };
        self.items.scan(first, |key, value| {
            if (key.ino, key.kind) != (ino, kind) || key.at > hash | SLOTS {
                return false;
            }
            if free == Some(key.at) {
                free = (key.at < hash | SLOTS).then_some(key.at + 1);
            }
            match of(key.at, value) {
                Ok(Some(item)) => found = Some((key, item)),
                Ok(None) => return true,
                Err(error) => failed = Some(error),
            }
            false
        })?;
        if let Some(error) = failed {
            return Err(damage_of(ino)(error).into());
        }
        let full = || FsError::Invalid("too many names of the directory have the same hash");
        match found {
            Some(found) => Ok(Ok(found)),
            None => Ok(Err(Key {
                ino,
                kind,
                at: free.ok_or_else(full)?,
            })),
        }
    }

    /// The extents of a file from the one that has block `first` on, or lies after it, in order, until `each` returns false.
    pub fn extents(
        &mut self,
        ino: u64,
        first: u64,
        mut each: impl FnMut(u64, FileExtent) -> bool,
    ) -> Result<(), Stop> {
        let mut from = extent_key(ino, first);
        if let Some((at, extent)) = self.extent_up_to(ino, first)?
            && at + u64::from(extent.count) > first
        {
            from.at = at;
        }
        let (mut next, mut failed, area_end) = (0, None, self.items.area_end());
        self.items.scan(from, |key, value| {
            if (key.ino, key.kind) != (ino, item::EXTENT) {
                return false;
            }
            match extent(key, value, area_end) {
                Ok(_) if key.at < next => failed = Some(twice(ino, key.at)),
                Ok(extent) => {
                    next = key.at + u64::from(extent.count);
                    return each(key.at, extent);
                }
                Err(error) => failed = Some(error),
            }
            false
        })?;
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// The last extent that begins before block `end` of the file.
    pub fn extent_before(&mut self, ino: u64, end: u64) -> Result<Option<(u64, FileExtent)>, Stop> {
        match end.checked_sub(1) {
            Some(last) => self.extent_up_to(ino, last),
            None => Ok(None),
        }
    }

    /// The last extent that begins at block `last` of the file or before it.
    fn extent_up_to(&mut self, ino: u64, last: u64) -> Result<Option<(u64, FileExtent)>, Stop> {
        match self.items.previous(extent_key(ino, last))? {
            Some((key, value)) if (key.ino, key.kind) == (ino, item::EXTENT) => {
                let extent = extent(key, &value, self.items.area_end())?;
                Ok(Some((key.at, extent)))
            }
            _ => Ok(None),
        }
    }

    /// The note that a file is to be deleted, or to be cut off beyond a size.
    pub fn orphan(&mut self, ino: u64) -> Result<Option<Option<u64>>, Stop> {
        let note = self.items.get(orphan_key(ino))?;
        let note = note.as_deref().map(decode_orphan).transpose();
        Ok(note.map_err(damage_of(ino))?)
    }

    /// The first file from `from` on with such a note.
    pub fn next_orphan(&mut self, from: u64) -> Result<Option<u64>, Stop> {
        let mut found = None;
        self.scan(orphan_key(from), |key, _| {
            let is_orphan = (key.ino, key.kind) == (0, item::ORPHAN);
            found = is_orphan.then_some(key.at);
            false
        })?;
        Ok(found)
    }

    /// Adds blocks to a file that has none there.
    pub fn put_extent(&mut self, ino: u64, at: u64, extent: FileExtent) -> Result<(), Stop> {
        if let Some((before, known)) = self.extent_before(ino, at)? {
            let count = u64::from(known.count);
            if before + count > at {
                return Err(twice(ino, at).into());
            }
            if before + count == at
                && known.block + count == extent.block
                && let Some(count) = known.count.checked_add(extent.count)
            {
                let joined = FileExtent { count, ..known };
                return self.items.put(extent_key(ino, before), &joined.encode());
            }
        }
        self.items.put(extent_key(ino, at), &extent.encode())
    }

    /// Takes blocks `first .. end` from a file, as far as it has them. Returns how many it had.
    pub fn cut_extents(&mut self, ino: u64, first: u64, end: u64) -> Result<u64, Stop> {
        let mut found = Vec::new();
        self.extents(ino, first, |at, extent| {
            let is_in = at < end;
            if is_in {
                found.push((at, extent));
            }
            is_in
        })?;
        let mut cut = 0;
        for (at, extent) in found {
            let stop = at + u64::from(extent.count);
            self.items.remove(extent_key(ino, at))?;
            for (from, to) in [(at, first.min(stop)), (end.max(at), stop)] {
                if from < to {
                    let part = FileExtent {
                        block: extent.block + (from - at),
                        count: (to - from) as u32,
                    };
                    self.items.put(extent_key(ino, from), &part.encode())?;
                }
            }
            cut += stop.min(end) - at.max(first);
        }
        Ok(cut)
    }

    pub fn get(&mut self, key: Key) -> Result<Option<Vec<u8>>, Stop> {
        self.items.get(key)
    }

    pub fn put(&mut self, key: Key, value: &[u8]) -> Result<(), Stop> {
        self.items.put(key, value)
    }

    pub fn remove(&mut self, key: Key) -> Result<bool, Stop> {
        self.items.remove(key)
    }

    /// Begins to verify the tree's pages.
    pub fn begin_check(&mut self) -> Result<Check, Stop> {
        Ok(self.items.tree().begin_check()?)
    }

    /// Verifies up to `steps` pages more. Returns true when all are verified.
    pub fn check_pages(&mut self, check: &mut Check, steps: usize) -> Result<bool, Stop> {
        for _ in 0..steps {
            if check.step(self.items.tree())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Items from `from` on, in order, until `each` returns false.
    pub fn scan(&mut self, from: Key, each: impl FnMut(Key, &[u8]) -> bool) -> Result<(), Stop> {
        self.items.scan(from, each)
    }
}

/// The keys of names of one hash differ in these bits.
const SLOTS: u64 = 0xff;

/// A hash of a name: a positive number whose last byte is 0. Places in a directory, which kernels take as signed numbers,
/// are keys of entries. The first few numbers stay free.
pub(crate) fn hash((k0, k1): (u64, u64), name: &[u8]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = siphasher::sip::SipHasher13::new_with_keys(k0, k1);
    hasher.write(name);
    ((hasher.finish() >> 1) & !SLOTS).max(SLOTS + 1)
}

/// The places that an item with this name may have.
pub(crate) fn places(hash_key: (u64, u64), name: &[u8]) -> std::ops::RangeInclusive<u64> {
    let first = hash(hash_key, name);
    first..=first | SLOTS
}

pub(crate) fn first_key(ino: u64) -> Key {
    Key {
        ino,
        kind: 0,
        at: 0,
    }
}

pub(crate) fn inode_key(ino: u64) -> Key {
    Key {
        ino,
        kind: item::INODE,
        at: 0,
    }
}

pub(crate) fn extent_key(ino: u64, at: u64) -> Key {
    Key {
        ino,
        kind: item::EXTENT,
        at,
    }
}

pub(crate) fn entry_key(ino: u64, at: u64) -> Key {
    Key {
        ino,
        kind: item::ENTRY,
        at,
    }
}

pub(crate) fn orphan_key(ino: u64) -> Key {
    Key {
        ino: 0,
        kind: item::ORPHAN,
        at: ino,
    }
}

/// The extent of an item. `area_end` is after the last block that there is.
pub(crate) fn extent(key: Key, value: &[u8], area_end: u64) -> Result<FileExtent, FsError> {
    let extent = FileExtent::decode(key.at, value).map_err(damage_of(key.ino))?;
    if extent.block + u64::from(extent.count) > area_end {
        let (ino, at) = (key.ino, key.at);
        let text = format!("the blocks of inode {ino} from {at} on are beyond all blocks");
        return Err(FsError::Damaged(text));
    }
    Ok(extent)
}

/// The error of an item of inode `ino` that means nothing.
pub(crate) fn damage_of(ino: u64) -> impl Fn(FormatError) -> FsError {
    move |error| FsError::Damaged(format!("inode {ino}: {error}"))
}

/// The error of a file with two extents that have its block `at`.
pub(crate) fn twice(ino: u64, at: u64) -> FsError {
    FsError::Damaged(format!("inode {ino} has block {at} twice"))
}
