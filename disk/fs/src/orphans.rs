//! Files without a name: their deletion, in one unit or in several.

use crate::error::{FsError, LeftOrphan, damaged};
use crate::fs::Fs;
use crate::meta::{Meta, orphan_key, twice};
use crate::refusal::Stop;
use crate::step::{Attempts, Step};
use crate::types::{AccessPath, DIRECTORY, Number, TYPE};
use crate::unit::UNIT_FREES_MAX;
use async_recursion::async_recursion as boxed;
use std::ops::{Range, RangeInclusive};
use tonearm_base::Nanos;
use tonearm_disk::{BlockId, DiskError, ErrorKind, ListId};
use tonearm_format::item;

/// Most blocks that one unit takes or frees, if it has memory for them. More is done in several units.
const BLOCKS_MAX: u64 = 1024;
/// Items of an inode beside itself and its extents, which may be many.
const PARTS: RangeInclusive<u8> = item::XATTR..=item::ENTRY;
/// Most of them that are removed with their inode. More are removed before, in several units.
const PARTS_MAX: u64 = 16;
/// A unit's memory for each block that it takes or frees, and the part of all units' memory that one may use for it.
const OP_BYTES: u64 = 256;
const MEMORY_SHARE: u64 = 4;
/// How long an opening waits for the deletion of a file while there is no space below the store.
const FULL_PATIENCE: Nanos = Nanos::from_millis(500);

impl Fs {
    /// Most blocks that one unit takes or frees.
    pub(crate) fn unit_blocks_max(&self) -> u64 {
        let memory = self.disk().shadow_bytes_max();
        let part = memory / MEMORY_SHARE;
        // All that an operation of an application's unit frees is freed with the unit.
        // In the log each block may change a page of records of its own; the other half is for pages of the tree.
        let logged = self.disk().engine().commit_blocks_max() / 2;
        let (memory, most) = match (self.unit(), self.access()) {
            (None, _) => (part, BLOCKS_MAX.min(logged.max(1))),
            (Some(_), AccessPath::Mount) => (part, UNIT_FREES_MAX),
            (Some(_), AccessPath::Session) => (memory - part, u64::MAX),
        };
        (memory / OP_BYTES).clamp(1, most)
    }
}

/// A file that a unit frees with its list.
pub(crate) struct Freed {
    ino: u64,
    list: u64,
    blocks: u64,
}

impl Freed {
    /// Adds the deletion of the file's list to the unit, if the file has its last name, is not in use, and small. `None` also
    /// when another operation has just deleted it: the end of the unit finds out.
    #[boxed(?Send)]
    pub async fn begin(fs: &Fs, ino: u64, unit: &mut Step) -> Result<Option<Self>, FsError> {
        // An application's unit leaves an orphan, which is deleted when the unit has ended.
        if fs.unit().is_some() {
            return Ok(None);
        }
        let found = fs
            .look(|meta| Ok((meta.inode(ino)?, meta.has_few_parts(ino)?)))
            .await;
        let (inode, has_few_parts) = match found {
            Err(FsError::NotFound) => return Ok(None),
            found => found?,
        };
        let has_names = inode.nlink > 1 && inode.mode & TYPE != DIRECTORY;
        let is_large = inode.blocks > fs.unit_blocks_max() || !has_few_parts;
        if has_names || is_large || fs.is_in_use(ino) {
            return Ok(None);
        }
        let (list, blocks) = (inode.list, inode.blocks);
        if !delete_list(unit, list).await? {
            return Ok(None);
        }
        fs.only_without_use(unit, ino);
        Ok(Some(Self { ino, list, blocks }))
    }

    /// Removes the file's items. The operation begins again when the file is no longer what it was.
    pub fn end(&self, fs: &Fs, meta: &mut Meta, ino: u64, is_last: bool) -> Result<(), Stop> {
        let inode = meta.inode(ino)?;
        let is_same = ino == self.ino && inode.list == self.list && inode.blocks == self.blocks;
        if !is_same || !is_last || fs.is_in_use(ino) {
            return Err(Stop::Again);
        }
        meta.free(ino, self.blocks)
    }
}

/// Adds the deletion of a file's list, if it has one, to the unit. False when another operation has just deleted it.
async fn delete_list(unit: &mut Step, list: u64) -> Result<bool, FsError> {
    if list == 0 {
        return Ok(true);
    }
    match unit.delete_list(ListId(list)).await {
        Err(DiskError::NoList(_)) => Ok(false),
        deleted => Ok(deleted.map(|()| true)?),
    }
}

impl Meta<'_, '_> {
    /// Removes an orphan's items. Its `blocks` blocks are freed with its list.
    fn free(&mut self, ino: u64, blocks: u64) -> Result<(), Stop> {
        self.remove(orphan_key(ino))?;
        self.add(Number::Blocks, -(blocks as i64))?;
        // The inode is one of them.
        self.remove_inode(ino, 1 + PARTS_MAX + blocks)
    }

    /// True when the extended attributes of an inode, and what it has beside them and its blocks, can be removed with it.
    fn has_few_parts(&mut self, ino: u64) -> Result<bool, Stop> {
        Ok(self.keys(ino, PARTS, PARTS_MAX + 1)?.len() as u64 <= PARTS_MAX)
    }
}

impl Fs {
    /// Deletes what the last opening left. Returns what could not be deleted. The other files can be used.
    pub(crate) async fn free_orphans(&self) -> Vec<LeftOrphan> {
        let (mut left, mut from) = (Vec::new(), 0);
        loop {
            let ino = match self.look(|meta| meta.next_orphan(from)).await {
                Ok(Some(ino)) => ino,
                Ok(None) => return left,
                Err(why) => {
                    left.push(LeftOrphan { ino: None, why });
                    return left;
                }
            };
            let freed = self.unless_full(FULL_PATIENCE, self.free_orphan(ino));
            match freed.await {
                Some(Ok(())) => {}
                Some(Err(why)) => left.push(LeftOrphan {
                    ino: Some(ino),
                    why,
                }),
                // The file system is needed, so that others free space.
                None => {
                    self.free_others_in_background(ino);
                    return left;
                }
            }
            let Some(next) = ino.checked_add(1) else {
                return left;
            };
            from = next;
        }
    }

    /// Deletes the files without a name from `from` on beside the caller. The next change of a file that has a name completes
    /// its truncation.
    fn free_others_in_background(&self, mut from: u64) {
        let fs = self.committed();
        self.spawn(async move {
            // What fails is tried again by the next opening.
            while let Ok(Some(ino)) = fs.look(|meta| meta.next_orphan(from)).await {
                let _ = fs.free(ino).await;
                let Some(next) = ino.checked_add(1) else {
                    return;
                };
                from = next;
            }
        });
    }

    /// Completes what the item of an orphan says.
    async fn free_orphan(&self, ino: u64) -> Result<(), FsError> {
        self.complete_cut(ino).await?;
        // Nothing happens to a file with a name.
        self.free(ino).await
    }

    /// Deletes a file without a name beside the caller, if it is one.
    pub(crate) fn free_in_background(&self, ino: u64) {
        let fs = self.committed();
        self.spawn(async move {
            // When it fails, the store has failed, or has no space for it: the next opening tries again.
            let _ = fs.free(ino).await;
        });
    }

    /// The unit, which frees a file, ends only while the file is not in use. It may be opened by a name that it has until then.
    fn only_without_use(&self, unit: &mut Step, ino: u64) {
        let fs = self.clone();
        unit.set_precondition(move || !fs.is_in_use(ino));
    }

    /// Deletes a file that has no name and is not in use.
    async fn free(&self, ino: u64) -> Result<(), FsError> {
        let (mut is_missing, mut attempts) = (false, Attempts::default());
        loop {
            let found = self
                .look(|meta| match meta.orphan(ino)? {
                    Some(_) => Ok(Some((meta.inode(ino)?, meta.has_few_parts(ino)?))),
                    None => Ok(None),
                })
                .await?;
            let Some((inode, has_few_parts)) = found.filter(|(inode, _)| inode.nlink == 0) else {
                return Ok(());
            };
            if self.free_after_use(ino) {
                return Ok(());
            }
            let most = self.unit_blocks_max();
            if inode.blocks > most || !has_few_parts {
                let used = self.take(ino);
                let alone = used.alone().await;
                if !has_few_parts {
                    self.remove_parts(ino).await?;
                } else if self.cut_blocks(ino, 0, most).await? {
                    return Err(damaged("a file has fewer blocks than it counts"));
                }
                drop((alone, used));
                continue;
            }
            let mut unit = self.step().await?;
            if !delete_list(&mut unit, inode.list).await? {
                if std::mem::replace(&mut is_missing, true) {
                    return Err(damaged("the list of a file is not there"));
                }
                continue;
            }
            self.only_without_use(&mut unit, ino);
            let fs = self.clone();
            let freed = self
                .freeing()
                .try_end(unit, move |meta| {
                    if meta.get(orphan_key(ino))?.is_none() {
                        return Err(Stop::Again);
                    }
                    let now = meta.inode(ino)?;
                    let is_same =
                        (now.nlink, now.list, now.blocks) == (0, inode.list, inode.blocks);
                    if is_same && !fs.is_in_use(ino) {
                        meta.free(ino, now.blocks)
                    } else {
                        Err(Stop::Again)
                    }
                })
                .await?;
            if freed.is_some() {
                return Ok(());
            }
            attempts.again(self.disk())?;
        }
    }

    /// Removes some extended attributes of a file without a name.
    async fn remove_parts(&self, ino: u64) -> Result<(), FsError> {
        let fs = self.freeing();
        let removed = fs.change(move |meta| {
            for key in meta.keys(ino, PARTS, PARTS_MAX)? {
                if !meta.remove(key)? {
                    return Err(damaged("an item is not where it was met").into());
                }
            }
            Ok(())
        });
        removed.await.map(drop)
    }

    /// Frees up to `most` blocks of a file from its end on, none before block `first`. The caller has the file alone. Returns
    /// true when the file has none left from `first` on.
    pub(crate) async fn cut_blocks(
        &self,
        ino: u64,
        first: u64,
        most: u64,
    ) -> Result<bool, FsError> {
        let (list, last) = self
            .look(|meta| Ok((meta.inode(ino)?.list, meta.last_blocks(ino, first, most)?)))
            .await?;
        let Some((from, blocks)) = last else {
            return Ok(true);
        };
        let mut unit = self.step().await?;
        self.free_blocks(&mut unit, (ino, list), &blocks).await?;
        let count = blocks.len() as u64;
        let (_, lsn) = self
            .freeing()
            .end(unit, move |meta| meta.cut(ino, from, u64::MAX, count))
            .await?;
        self.note_content(ino, lsn);
        Ok(false)
    }

    /// Frees blocks of a file with this list. The caller has the file alone.
    pub(crate) async fn free_blocks(
        &self,
        unit: &mut Step,
        (ino, list): (u64, u64),
        blocks: &[u64],
    ) -> Result<(), FsError> {
        for block in blocks {
            let deleted = unit.delete_block_of(ListId(list), BlockId(*block)).await;
            deleted.map_err(|error| match error.kind() {
                ErrorKind::NotFound | ErrorKind::Invalid => {
                    FsError::Damaged(format!("inode {ino}: {error}"))
                }
                _ => error.into(),
            })?;
        }
        Ok(())
    }

    /// Completes a truncation of a large file of which a part has failed, before the content changes again. The caller has the
    /// file alone.
    pub(crate) async fn complete_cut(&self, ino: u64) -> Result<(), FsError> {
        match self.look(|meta| meta.orphan(ino)).await? {
            Some(Some(size)) => self.finish_cut(ino, size).await,
            _ => Ok(()),
        }
    }

    /// Frees the blocks beyond a new size of a large file, and removes the note that they are to be freed. A file without a
    /// name stays an orphan.
    pub(crate) async fn finish_cut(&self, ino: u64, size: u64) -> Result<(), FsError> {
        let first = size.div_ceil(self.block());
        let most = self.unit_blocks_max();
        while !self.cut_blocks(ino, first, most).await? {}
        let fs = self.freeing();
        let done = fs.change(move |meta| match meta.inode(ino)?.nlink {
            0 => meta.put(orphan_key(ino), &[]),
            _ => meta.remove(orphan_key(ino)).map(drop),
        });
        done.await.map(drop)
    }
}

impl Meta<'_, '_> {
    /// Up to `most` blocks that a file has in a part of it, and where in the file the rest begins.
    pub(crate) fn blocks_in(
        &mut self,
        ino: u64,
        part: Range<u64>,
        most: u64,
    ) -> Result<(Vec<u64>, u64), Stop> {
        let (mut blocks, mut rest) = (Vec::new(), part.end);
        self.extents(ino, part.start, |at, extent| {
            let first = at.max(part.start);
            let stop = part.end.min(at + u64::from(extent.count));
            if first >= stop {
                return false;
            }
            let stop = stop.min(first + (most - blocks.len() as u64));
            blocks.extend(extent.block + (first - at)..extent.block + (stop - at));
            let is_full = blocks.len() as u64 == most;
            if is_full {
                rest = stop;
            }
            !is_full
        })?;
        Ok((blocks, rest))
    }

    /// The last `most` blocks of a file, none before block `first` of it: the first one's place, and where they are.
    pub(crate) fn last_blocks(
        &mut self,
        ino: u64,
        first: u64,
        most: u64,
    ) -> Result<Option<(u64, Vec<u64>)>, Stop> {
        let (mut end, mut blocks) = (u64::MAX, Vec::new());
        while end > first
            && (blocks.len() as u64) < most
            && let Some((at, extent)) = self.extent_before(ino, end)?
        {
            let stop = at + u64::from(extent.count);
            if stop > end {
                return Err(twice(ino, end).into());
            }
            let left = most - blocks.len() as u64;
            let from = first.max(at).max(stop.saturating_sub(left));
            if from >= stop {
                break;
            }
            blocks.extend((extent.block + (from - at)..extent.block + (stop - at)).rev());
            end = from;
        }
        Ok((!blocks.is_empty()).then_some((end, blocks)))
    }

    /// Takes `count` blocks away from a file, those of `first .. end`.
    pub(crate) fn cut(&mut self, ino: u64, first: u64, end: u64, count: u64) -> Result<(), Stop> {
        let mut inode = self.inode(ino)?;
        let cut = self.cut_extents(ino, first, end)?;
        if cut != count {
            return Err(damaged("a file has other blocks than were looked up").into());
        }
        let left = inode.blocks.checked_sub(cut);
        inode.blocks = left.ok_or_else(|| damaged("a file has more blocks than it counts"))?;
        self.add(Number::Blocks, -(cut as i64))?;
        self.put_inode(ino, &inode)
    }
}
