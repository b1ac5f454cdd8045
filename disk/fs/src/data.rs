//! The content of files.

use crate::attrs::{SetAttr, check_regular};
use crate::error::FsError;
use crate::fs::{Fs, Use};
use crate::meta::{Meta, orphan_key};
use crate::refusal::Stop;
use crate::step::Step;
use crate::types::{Attr, Number};
use async_recursion::async_recursion as boxed;
use std::iter::once;
use std::ops::{Deref, Range};
use tonearm_base::{LooseBuf, Lsn};
use tonearm_disk::{BlockId, ListId, Piece};
use tonearm_format::{FILE_BYTES_MAX as SIZE_MAX, FileExtent, Inode, Time};
use tonearm_rt::Permit;

/// Most extents that a search looks at in one step.
const EXTENTS_STEP: u64 = 1024;
/// Most bytes that a copy within the store reads at a time.
pub(crate) const COPY_BYTES: u64 = 1 << 20;

/// What [`Fs::allocate`] does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocate {
    /// Takes space, and enlarges the file.
    Grow,
    /// Takes space.
    KeepSize,
    /// Gives space back. The range reads as zeroes.
    Punch,
    /// Makes the range zeroes that have space, and enlarges the file.
    Zero,
    /// Makes the range zeroes that have space.
    ZeroKeepSize,
}

/// What [`Fs::seek`] looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek {
    /// Bytes that have space.
    Data,
    /// Bytes that have none; the end of the file is one.
    Hole,
}

/// Adjacent blocks of a file, and where they are; `None` for a hole.
#[derive(Clone, Copy, Debug)]
struct Run {
    at: u64,
    count: u64,
    block: Option<u64>,
}

impl Run {
    /// The last block's place in the file, and where it is.
    fn last(&self) -> Option<(u64, u64)> {
        let block = self.block? + self.count - 1;
        Some((self.at + self.count - 1, block))
    }

    fn is_followed_by(&self, next: &Self) -> bool {
        let end = self.block.map(|block| block + self.count);
        self.at + self.count == next.at && end.is_some() && end == next.block
    }
}

/// The data of a write.
enum Bytes<'a> {
    Borrowed(&'a [u8]),
    Owned(LooseBuf),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(data) => data,
            Self::Owned(data) => data,
        }
    }
}

/// Ranges of blocks in order, those joined that overlap or touch.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Writes `data` at byte `offset` of a file whose blocks are in `runs`, in order.
async fn put_bytes(
    unit: &mut Step,
    runs: &[Run],
    block: u64,
    offset: u64,
    data: Bytes<'_>,
) -> Result<(), FsError> {
    let end = offset + data.len() as u64;
    let first = runs.partition_point(|run| (run.at + run.count) * block <= offset);
    let runs = runs[first..].iter();
    let mut runs = runs.take_while(|run| run.at * block < end).peekable();
    let place = |run: &Run, byte: u64| {
        let home = run.block.expect("each run has blocks");
        home * block + (byte - run.at * block)
    };
    let whole = runs.peek();
    let whole = whole.filter(|run| (run.at + run.count) * block >= end);
    let data = match (data, whole) {
        (Bytes::Owned(data), Some(run)) => {
            return Ok(unit.write_blocks_buf(place(run, offset), data).await?);
        }
        (data, _) => data,
    };
    for run in runs {
        let from = (run.at * block).max(offset);
        let stop = ((run.at + run.count) * block).min(end);
        let part = &data[(from - offset) as usize..(stop - offset) as usize];
        unit.write_blocks(place(run, from), part).await?;
    }
    Ok(())
}

impl Meta<'_, '_> {
    /// The blocks `range` of a file, in order and without a gap.
    fn runs(&mut self, ino: u64, range: Range<u64>) -> Result<Vec<Run>, Stop> {
        let (mut runs, mut next) = (Vec::new(), range.start);
        let hole = |at: u64, end: u64| Run {
            at,
            count: end - at,
            block: None,
        };
        self.extents(ino, range.start, |at, extent| {
            if at >= range.end {
                return false;
            }
            if at > next {
                runs.push(hole(next, at));
                next = at;
            }
            let end = (at + u64::from(extent.count)).min(range.end);
            if end > next {
                let block = Some(extent.block + (next - at));
                runs.push(Run {
                    at: next,
                    count: end - next,
                    block,
                });
                next = end;
            }
            true
        })?;
        if next < range.end {
            runs.push(hole(next, range.end));
        }
        Ok(runs)
    }

    /// One step of a search from block `first` of a file on: the first block that has space, or has none; `None` for a search of
    /// data that is at an end. The error is where the next step goes on.
    fn seek(&mut self, ino: u64, first: u64, what: Seek) -> Result<Result<Option<u64>, u64>, Stop> {
        let (mut next, mut found, mut seen) = (first, None, 0);
        self.extents(ino, first, |at, extent| {
            match what {
                Seek::Data => found = Some(at.max(next)),
                Seek::Hole if at > next => found = Some(next),
                Seek::Hole => next = at + u64::from(extent.count),
            }
            seen += 1;
            found.is_none() && seen < EXTENTS_STEP
        })?;
        Ok(match what {
            _ if found.is_some() => Ok(found),
            Seek::Data => Ok(None),
            Seek::Hole if seen < EXTENTS_STEP => Ok(Some(next)),
            Seek::Hole => Err(next),
        })
    }

    /// A regular file's inode.
    fn file(&mut self, ino: u64) -> Result<Inode, Stop> {
        let inode = self.inode(ino)?;
        check_regular(inode.mode)?;
        Ok(inode)
    }
}

/// Blocks that a unit has taken for a file.
#[derive(Default, Clone)]
struct Taken {
    /// The file's list, if it had none before.
    list: Option<u64>,
    extents: Vec<(u64, FileExtent)>,
    blocks: u64,
}

impl Taken {
    /// Notes block `at` of the file.
    fn add(&mut self, at: u64, block: u64) {
        self.blocks += 1;
        if let Some((first, extent)) = self.extents.last_mut()
            && *first + u64::from(extent.count) == at
            && extent.block + u64::from(extent.count) == block
        {
            extent.count += 1;
            return;
        }
        self.extents.push((at, FileExtent { block, count: 1 }));
    }

    /// Gives them to the file.
    fn put(&self, meta: &mut Meta, ino: u64, inode: &mut Inode) -> Result<(), Stop> {
        if let Some(list) = self.list {
            inode.list = list;
        }
        for (at, extent) in &self.extents {
            meta.put_extent(ino, *at, *extent)?;
        }
        inode.blocks += self.blocks;
        if self.blocks > 0 {
            meta.add(Number::Blocks, self.blocks as i64)?;
        }
        Ok(())
    }
}

/// How a file gets a new size.
struct Resize {
    size: u64,
    /// The file before.
    inode: Inode,
    /// The block that the new end cuts, if the file becomes shorter. Bytes beyond the end must read as zeroes when the file
    /// grows again.
    tail: Option<u64>,
    /// The blocks beyond the end, and the place of the first one in the file.
    cut: Option<(u64, Vec<u64>)>,
    /// They are more than one unit frees, so that none are freed in this one.
    is_large: bool,
}

impl Resize {
    fn plan(
        meta: &mut Meta<'_, '_>,
        ino: u64,
        size: u64,
        block: u64,
        most: u64,
    ) -> Result<Self, Stop> {
        let inode = meta.file(ino)?;
        let first = size.div_ceil(block);
        let tail = meta.runs(ino, size / block..first)?;
        let cut = if inode.size > size || inode.blocks > 0 {
            meta.last_blocks(ino, first, most + 1)?
        } else {
            None
        };
        let is_large = cut.as_ref().is_some_and(|(_, all)| all.len() as u64 > most);
        let tail = tail.first().and_then(|run| run.block);
        Ok(Self {
            size,
            tail: tail.filter(|_| size < inode.size),
            inode,
            cut: cut.filter(|_| !is_large),
            is_large,
        })
    }

    /// Changes the items, with the other attributes of `set`.
    fn apply(
        &self,
        meta: &mut Meta<'_, '_>,
        ino: u64,
        set: &SetAttr,
        now: Time,
    ) -> Result<Attr, Stop> {
        if let Some((from, blocks)) = &self.cut {
            meta.cut(ino, *from, u64::MAX, blocks.len() as u64)?;
        }
        let mut inode = meta.inode(ino)?;
        if inode.blocks == 0 {
            inode.list = 0;
        }
        if self.is_large {
            // The rest is done after this unit, at the next opening if need be.
            meta.put(orphan_key(ino), &self.size.to_le_bytes())?;
        }
        if self.size < inode.size {
            meta.note_blocks(ino);
        }
        inode.size = self.size;
        set.apply(&mut inode, now);
        meta.keep_acl(ino, set)?;
        meta.put_inode(ino, &inode)?;
        Ok(Attr { ino, inode })
    }
}

impl Fs {
    /// Reads up to `len` bytes at `offset`, fewer at the end of the file.
    ///
    /// # Errors
    /// When it is no regular file, or its blocks cannot be read.
    #[boxed(?Send)]
    pub async fn read(&self, ino: u64, offset: u64, len: u64) -> Result<Vec<Piece>, FsError> {
        let used = self.take(ino);
        let shared = used.shared().await;
        let block = self.block();
        let (end, runs) = self
            .look(|meta| {
                let size = meta.file(ino)?.size;
                let end = offset.saturating_add(len).min(size).max(offset);
                let runs = meta.runs(ino, offset / block..end.div_ceil(block))?;
                Ok((end, runs))
            })
            .await?;
        let mut pieces = Vec::with_capacity(runs.len());
        for run in runs {
            let first = (run.at * block).max(offset);
            let stop = ((run.at + run.count) * block).min(end);
            if first >= stop {
                continue;
            }
            match run.block {
                Some(at) => {
                    let from = at * block + (first - run.at * block);
                    pieces.extend(self.read_blocks(from, stop - first).await?);
                }
                None => pieces.push(Piece::Zero((stop - first) as usize)),
            }
        }
        drop((shared, used));
        Ok(pieces)
    }

    /// Writes `data` at `offset`, in one unit. The file grows as needed, with a hole if `offset` is beyond its end. Returns the
    /// place of the commit, 0 for none.
    ///
    /// # Errors
    /// When it is no regular file, would become too large, or the store is full.
    #[boxed(?Send)]
    pub async fn write(&self, ino: u64, offset: u64, data: &[u8]) -> Result<Lsn, FsError> {
        self.put(ino, vec![(offset, Bytes::Borrowed(data))]).await
    }

    /// As [`Fs::write`] for several ranges, the later ones over the earlier ones. Whole aligned blocks become the store's without
    /// a copy.
    ///
    /// # Errors
    /// As for [`Fs::write`].
    #[boxed(?Send)]
    pub async fn write_all(&self, ino: u64, writes: Vec<(u64, LooseBuf)>) -> Result<Lsn, FsError> {
        let writes = writes.into_iter();
        let writes = writes.map(|(offset, data)| (offset, Bytes::Owned(data)));
        self.put(ino, writes.collect()).await
    }

    async fn put(&self, ino: u64, mut writes: Vec<(u64, Bytes<'_>)>) -> Result<Lsn, FsError> {
        writes.retain(|(_, data)| !data.is_empty());
        let (block, mut end, mut ranges) = (self.block(), 0, Vec::with_capacity(writes.len()));
        for (offset, data) in &writes {
            let stop = offset.checked_add(data.len() as u64);
            let stop = stop.filter(|stop| *stop <= SIZE_MAX);
            let stop = stop.ok_or(FsError::TooLarge)?;
            ranges.push(offset / block..stop.div_ceil(block));
            end = end.max(stop);
        }
        if writes.is_empty() {
            return Ok(Lsn(0));
        }
        let (used, alone) = self.take_alone(ino).await?;
        let mut unit = self.step().await?;
        let (runs, taken) = self.take_blocks(&mut unit, ino, joined(ranges)).await?;
        for (offset, data) in writes {
            put_bytes(&mut unit, &runs, block, offset, data).await?;
        }
        let now = self.now();
        let (_, lsn) = self
            .end(unit, move |meta| {
                let mut inode = meta.inode(ino)?;
                taken.put(meta, ino, &mut inode)?;
                inode.size = inode.size.max(end);
                (inode.mtime, inode.ctime) = (now, now);
                meta.put_inode(ino, &inode)
            })
            .await?;
        used.note_content(lsn);
        drop(alone);
        Ok(lsn)
    }

    /// Takes a file into use whose content is to be changed, and has it alone.
    async fn take_alone(&self, ino: u64) -> Result<(Use, Permit), FsError> {
        if self.unit().is_some() {
            // What an earlier truncation has left is no change of the unit.
            let committed = self.committed();
            let used = committed.take(ino);
            let _alone = used.alone().await;
            committed.complete_cut(ino).await?;
        }
        let used = self.take(ino);
        let alone = used.alone().await;
        self.complete_cut(ino).await?;
        Ok((used, alone))
    }

    /// Reads bytes of blocks that are on lists.
    async fn read_blocks(&self, offset: u64, len: u64) -> Result<Vec<Piece>, FsError> {
        Ok(match self.unit() {
            Some(_) => self.step().await?.read_blocks(offset, len).await?,
            None => self.disk().read_blocks(offset, len).await?,
        })
    }

    /// Takes blocks for the holes of `ranges`, which ascend and do not touch each other. Returns where all blocks of the ranges
    /// are.
    async fn take_blocks(
        &self,
        unit: &mut Step,
        ino: u64,
        ranges: Vec<Range<u64>>,
    ) -> Result<(Vec<Run>, Taken), FsError> {
        let (inode, found) = self
            .look(|meta| {
                let inode = meta.file(ino)?;
                let mut found = Vec::with_capacity(ranges.len());
                for range in &ranges {
                    let before = meta.extent_before(ino, range.start)?;
                    found.push((before, meta.runs(ino, range.clone())?));
                }
                Ok((inode, found))
            })
            .await?;
        let mut taken = Taken::default();
        let mut list = ListId(inode.list);
        let has_holes = |runs: &[Run]| runs.iter().any(|run| run.block.is_none());
        if inode.list == 0 && found.iter().any(|(_, runs)| has_holes(runs)) {
            list = unit.new_list().await?;
            taken.list = Some(list.0);
        }
        let mut placed: Vec<Run> = Vec::with_capacity(found.len());
        for (range, (before, runs)) in ranges.into_iter().zip(found) {
            // The order of the list is that of the file, so that its blocks are placed side by side.
            let last_placed = placed.last().and_then(Run::last);
            let before = before.map(|(at, extent)| {
                let count = u64::from(extent.count).min(range.start - at);
                (at + count - 1, extent.block + count - 1)
            });
            let mut last = last_placed.max(before).map(|(_, block)| BlockId(block));
            for run in runs {
                if let Some(block) = run.block {
                    last = Some(BlockId(block + run.count - 1));
                    placed.push(run);
                    continue;
                }
                for at in run.at..run.at + run.count {
                    let block = unit.new_block(list, last).await?;
                    last = Some(block);
                    taken.add(at, block.0);
                    let new = Run {
                        at,
                        count: 1,
                        block: Some(block.0),
                    };
                    match placed.last_mut() {
                        Some(run) if run.is_followed_by(&new) => run.count += 1,
                        _ => placed.push(new),
                    }
                }
            }
        }
        Ok((placed, taken))
    }

    /// Sets the size of a file, and the other attributes of `set`, at once.
    pub(crate) async fn set_size(
        &self,
        ino: u64,
        size: u64,
        set: SetAttr,
    ) -> Result<Attr, FsError> {
        if size > SIZE_MAX {
            return Err(FsError::TooLarge);
        }
        let (used, alone) = self.take_alone(ino).await?;
        let (block, most) = (self.block(), self.unit_blocks_max());
        let plan = self.look(|meta| Resize::plan(meta, ino, size, block, most));
        let plan = plan.await?;
        let is_large = plan.is_large;
        if is_large && self.unit().is_some() {
            return Err(FsError::UnitTooLarge);
        }
        let mut unit = self.step().await?;
        if let Some(at) = plan.tail {
            let stays = size % block;
            let zeroes = vec![0; (block - stays) as usize];
            unit.write_blocks(at * block + stays, &zeroes).await?;
        }
        let inode = &plan.inode;
        if inode.blocks == 0 && inode.list != 0 {
            // A file without blocks has no list.
            unit.delete_list(ListId(inode.list)).await?;
        }
        if let Some((_, blocks)) = &plan.cut {
            if blocks.len() as u64 == inode.blocks {
                unit.delete_list(ListId(inode.list)).await?;
            } else {
                self.free_blocks(&mut unit, (ino, inode.list), blocks)
                    .await?;
            }
        }
        let now = self.now();
        let own = if size < inode.size {
            self.freeing()
        } else {
            self.clone()
        };
        let (attr, lsn) = own
            .end(unit, move |meta| plan.apply(meta, ino, &set, now))
            .await?;
        used.note_content(lsn);
        if is_large {
            self.finish_cut(ino, size).await?;
        }
        drop(alone);
        Ok(attr)
    }

    /// Takes or gives back space of a range.
    ///
    /// # Errors
    /// When it is no regular file, the range is empty or too large, or the store is full. Then a part of the range may be done.
    #[boxed(?Send)]
    pub async fn allocate(
        &self,
        ino: u64,
        offset: u64,
        len: u64,
        how: Allocate,
    ) -> Result<(), FsError> {
        let end = offset.checked_add(len).filter(|end| *end <= SIZE_MAX);
        let end = end.ok_or(FsError::TooLarge)?;
        if len == 0 {
            return Err(FsError::Invalid("the range is empty"));
        }
        let (used, alone) = self.take_alone(ino).await?;
        if matches!(
            how,
            Allocate::Punch | Allocate::Zero | Allocate::ZeroKeepSize
        ) {
            self.punch(ino, offset, end).await?;
        }
        if how != Allocate::Punch {
            self.fill(ino, offset, end).await?;
        }
        let (now, grows) = (self.now(), matches!(how, Allocate::Grow | Allocate::Zero));
        let (_, lsn) = self
            .change(move |meta| {
                let mut inode = meta.file(ino)?;
                if grows {
                    inode.size = inode.size.max(end);
                }
                (inode.mtime, inode.ctime) = (now, now);
                meta.put_inode(ino, &inode)
            })
            .await?;
        used.note_content(lsn);
        drop(alone);
        Ok(())
    }

    /// Takes blocks for the holes of a range, in units of some thousand blocks.
    async fn fill(&self, ino: u64, offset: u64, end: u64) -> Result<(), FsError> {
        let block = self.block();
        let (mut at, stop) = (offset / block, end.div_ceil(block));
        while at < stop {
            let to = stop.min(at + self.unit_blocks_max());
            let mut unit = self.step().await?;
            let (_, taken) = self
                .take_blocks(&mut unit, ino, once(at..to).collect())
                .await?;
            if taken.blocks > 0 {
                let ended = self.end(unit, move |meta| {
                    let mut inode = meta.inode(ino)?;
                    taken.put(meta, ino, &mut inode)?;
                    meta.put_inode(ino, &inode)
                });
                self.note_content(ino, ended.await?.1);
            }
            at = to;
        }
        Ok(())
    }

    /// Makes a range a hole, but for the parts of blocks at its edges, which become zeroes.
    async fn punch(&self, ino: u64, offset: u64, end: u64) -> Result<(), FsError> {
        let block = self.block();
        let whole = offset.div_ceil(block)..end / block;
        let list = self.look(|meta| Ok(meta.file(ino)?.list)).await?;
        let mut unit = self.step().await?;
        let edges = if whole.start <= whole.end {
            [offset..whole.start * block, whole.end * block..end]
        } else {
            [offset..end, end..end]
        };
        for edge in edges {
            if edge.is_empty() {
                continue;
            }
            let index = edge.start / block;
            let runs = self.look(|meta| meta.runs(ino, index..index + 1)).await?;
            if let Some(at) = runs.first().and_then(|run| run.block) {
                let zeroes = vec![0; (edge.end - edge.start) as usize];
                let from = at * block + edge.start % block;
                unit.write_blocks(from, &zeroes).await?;
            }
        }
        let (mut first, most) = (whole.start, self.unit_blocks_max());
        loop {
            // A unit frees some of the blocks, and the next one goes on after them.
            let (freed, stop) = if first < whole.end {
                self.look(|meta| meta.blocks_in(ino, first..whole.end, most))
                    .await?
            } else {
                (Vec::new(), whole.end)
            };
            self.free_blocks(&mut unit, (ino, list), &freed).await?;
            let count = freed.len() as u64;
            let frees = self.freeing();
            let ended = frees.end(unit, move |meta| match count {
                0 => Ok(()),
                count => meta.cut(ino, first, stop, count),
            });
            self.note_content(ino, ended.await?.1);
            if stop >= whole.end {
                return Ok(());
            }
            first = stop;
            unit = self.step().await?;
        }
    }

    /// The next byte from `offset` on that has space, or has none.
    ///
    /// # Errors
    /// When there is none, or `offset` is beyond the end.
    #[boxed(?Send)]
    pub async fn seek(&self, ino: u64, offset: u64, what: Seek) -> Result<u64, FsError> {
        let used = self.take(ino);
        let shared = used.shared().await;
        let block = self.block();
        let size = self.look(|meta| Ok(meta.file(ino)?.size)).await?;
        if offset >= size {
            return Err(FsError::NothingBehind);
        }
        let (mut next, end) = (offset / block, size.div_ceil(block));
        let found = loop {
            let look = |meta: &mut Meta<'_, '_>| meta.seek(ino, next, what);
            match self.look(look).await? {
                Ok(found) => break found.filter(|at| *at < end),
                Err(rest) if rest >= end => break None,
                Err(rest) => next = rest,
            }
            // Others go on between the steps.
            self.rt().yield_now().await;
        };
        drop((shared, used));
        match (found, what) {
            (Some(at), _) => Ok((at * block).max(offset)),
            (None, Seek::Hole) => Ok(size),
            (None, Seek::Data) => Err(FsError::NothingBehind),
        }
    }

    /// Copies bytes of a file, as `source` sees it, to another one. Each MiB is a unit. Returns how many there were to copy.
    ///
    /// # Errors
    /// As for a read and a write. Then a part may be copied.
    #[boxed(?Send)]
    pub async fn copy(
        &self,
        source: &Self,
        from: (u64, u64),
        to: (u64, u64),
        len: u64,
    ) -> Result<u64, FsError> {
        let is_over = from.0 == to.0 && from.1.abs_diff(to.1) < len;
        if is_over {
            return Err(FsError::Invalid("the ranges overlap"));
        }
        let mut done = 0;
        while done < len {
            let part = COPY_BYTES.min(len - done);
            let pieces = source.read(from.0, from.1 + done, part).await?;
            let mut bytes = Vec::with_capacity(part as usize);
            for piece in pieces {
                piece.append_to(&mut bytes);
            }
            let read = bytes.len() as u64;
            self.write(to.0, to.1 + done, &bytes).await?;
            done += read;
            if read < part {
                break;
            }
        }
        Ok(done)
    }
}
