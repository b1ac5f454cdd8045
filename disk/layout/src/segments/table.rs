//! The segment table: live blocks, age and use of each segment. It takes 32 bytes of memory for each.
//!
//! A segment without live blocks becomes free with the next flush: then the newer versions of its content are durable,
//! and in the chain of partials that recovery follows. It waits for the next checkpoint if recovery itself needs it,
//! because it is part of this chain, or has a page of the map that the newest checkpoint uses. It is used again when
//! every read that may still use it has ended.
//!
//! Recovery does not learn that the cleaner has copied tombstones and notes. So a segment that had some is free in this
//! process, but after a crash it would be in use. Such segments are counted apart until the next checkpoint.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tonearm_base::Lsn;
use tonearm_format::SegmentEntry;

#[derive(Clone, Copy, Default)]
struct Segment {
    entry: SegmentEntry,
    /// Empty by the newest checkpoint.
    free: bool,
    /// The cleaner has found fewer live blocks in it than counted: it is damaged and is not cleaned.
    stuck: bool,
    /// The cleaner has copied its live blocks. Pages of the map stay counted until they are written again.
    drained: bool,
    /// Recovery from the newest checkpoint reads it.
    needed: bool,
    /// The newest checkpoint says that it has tombstones or notes. The cleaner has copied them since.
    copied: bool,
    /// Tombstones and notes in it, as far as this process knows.
    holes: u32,
}

impl Segment {
    fn is_empty(&self) -> bool {
        let holds = self.entry.has_holes || self.entry.has_notes || self.entry.has_indirect;
        !self.free && self.entry.live == 0 && !holds
    }
}

/// When segments are to be cleaned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Candidates {
    Now,
    /// Recovery needs none of them then.
    AfterCheckpoint,
}

/// See the module.
pub(crate) struct SegmentTable {
    /// Index 0 is no segment.
    segments: Vec<Segment>,
    /// Free segments, each with the first read that began after it became free.
    free: VecDeque<(u64, u64)>,
    /// Likewise those that an opening after a crash would find in use.
    copied: VecDeque<(u64, u64)>,
    /// Those in use that have become empty.
    empty: BTreeSet<u64>,
    /// Drained segments that still have pages of the map.
    drained: BTreeSet<u64>,
    /// Segments in which the log may name places, each with the last commit that does.
    held: BTreeMap<u64, Lsn>,
    /// Live blocks of all.
    live: u64,
    /// Reads under way.
    reads: BTreeSet<u64>,
    next_read: u64,
}

impl SegmentTable {
    /// `entries` of segments 1 and following. All are in use until [`SegmentTable::free_all`].
    pub fn new(entries: impl Iterator<Item = SegmentEntry>) -> Self {
        let used = |entry| Segment {
            entry,
            ..Segment::default()
        };
        let segments = std::iter::once(Segment::default()).chain(entries.map(used));
        let segments: Vec<Segment> = segments.collect();
        let live = segments.iter().map(|own| u64::from(own.entry.live));
        let held = (0..)
            .zip(&segments)
            .filter(|(_, own)| own.entry.has_indirect);
        Self {
            held: held.map(|(segment, _)| (segment, Lsn(0))).collect(),
            live: live.sum(),
            segments,
            free: VecDeque::new(),
            copied: VecDeque::new(),
            empty: BTreeSet::new(),
            drained: BTreeSet::new(),
            reads: BTreeSet::new(),
            next_read: 0,
        }
    }

    pub fn len(&self) -> u64 {
        self.segments.len() as u64 - 1
    }

    pub fn entry(&self, segment: u64) -> SegmentEntry {
        self.segments[segment as usize].entry
    }

    pub fn entry_mut(&mut self, segment: u64) -> &mut SegmentEntry {
        &mut self.segments[segment as usize].entry
    }

    /// All entries, from segment 1 on.
    pub fn entries(&self) -> impl Iterator<Item = SegmentEntry> {
        self.segments[1..].iter().map(|segment| segment.entry)
    }

    /// Live blocks and pages of all segments.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Sets all live counts to zero for a new count.
    pub fn forget_live(&mut self) {
        self.segments.iter_mut().for_each(|own| own.entry.live = 0);
        self.live = 0;
    }

    /// Counts one more live block of `version` in `segment`. A damaged map may name any segment, so no count exceeds
    /// its field.
    pub fn take(&mut self, segment: u64, version: u64) {
        let entry = self.entry_mut(segment);
        entry.age = entry.age.max(version);
        if entry.live < SegmentEntry::LIVE_MAX {
            entry.live += 1;
            self.live += 1;
        }
        if self.entry(segment).live == 1 {
            self.empty.remove(&segment);
        }
    }

    /// Counts one live block less. A damaged map may name any segment, so no count goes below zero.
    pub fn release(&mut self, segment: u64) {
        if let Some(own) = self.segments.get_mut(segment as usize) {
            self.live -= u64::from(own.entry.live > 0);
            own.entry.live = own.entry.live.saturating_sub(1);
            if own.entry.live == 0 {
                self.note_empty(segment);
            }
        }
    }

    /// Counts one live page of the map less. The newest checkpoint may still use it.
    pub fn release_page(&mut self, segment: u64) {
        if let Some(own) = self.segments.get_mut(segment as usize) {
            own.needed = true;
        }
        self.release(segment);
    }

    /// Puts `segment` to a new use, from partial `first` on.
    pub fn begin_use(&mut self, segment: u64, first: u64) {
        let own = &mut self.segments[segment as usize];
        (own.entry.first, own.entry.age) = (first, 0);
        (own.entry.has_holes, own.entry.has_notes, own.holes) = (false, false, 0);
        own.entry.has_indirect = false;
        self.held.remove(&segment);
    }

    /// Commit `lsn` will name places in `segment`, which has been in use since before.
    pub fn hold_for_log(&mut self, segment: u64, lsn: Lsn) {
        self.segments[segment as usize].entry.has_indirect = true;
        self.empty.remove(&segment);
        self.held.insert(segment, lsn);
    }

    /// No recovery replays a commit before `before` any more. The newest checkpoint may still say that the segments are held.
    pub fn release_from_log(&mut self, before: Lsn) {
        self.end_holds(|_, last| last < before);
    }

    /// Of the segments that an opening has found held, the log names places in `named` alone.
    pub fn keep_held(&mut self, named: &BTreeSet<u64>) {
        self.end_holds(|segment, last| last == Lsn(0) && !named.contains(&segment));
    }

    /// Number of segments in which a commit from `lsn` on may name places.
    pub fn held_from(&self, lsn: Lsn) -> u64 {
        self.held.values().filter(|last| **last >= lsn).count() as u64
    }

    /// Of the held segments only the `most` youngest can be. Those of older uses were released before a crash.
    pub fn limit_held(&mut self, most: u64) {
        let mut held: Vec<u64> = self.held.keys().copied().collect();
        held.sort_unstable_by_key(|segment| std::cmp::Reverse(self.entry(*segment).first));
        held.truncate(most as usize);
        let youngest = BTreeSet::from_iter(held);
        self.end_holds(|segment, _| !youngest.contains(&segment));
    }

    /// Ends the holds of segments, with the last commits that name places there, for which `is_over` is true.
    fn end_holds(&mut self, is_over: impl Fn(u64, Lsn) -> bool) {
        for (segment, _) in self
            .held
            .extract_if(.., |segment, last| is_over(*segment, *last))
        {
            let own = &mut self.segments[segment as usize];
            (own.entry.has_indirect, own.copied) = (false, true);
            if own.is_empty() {
                self.empty.insert(segment);
            }
        }
    }

    /// True when the log may name a place in `segment`.
    pub fn is_held_for_log(&self, segment: u64) -> bool {
        self.held.contains_key(&segment)
    }

    /// The number of such segments, and their live blocks.
    pub fn held_for_log(&self) -> (u64, u64) {
        let live = self.held.keys().map(|segment| self.entry(*segment).live);
        (self.held.len() as u64, live.map(u64::from).sum())
    }

    /// `count` tombstones are written in `segment`.
    pub fn add_holes(&mut self, segment: u64, count: u32) {
        let own = &mut self.segments[segment as usize];
        own.entry.has_holes |= count > 0;
        own.holes += count;
    }

    /// `count` notes of blocks that were overwritten in place are written in `segment`.
    pub fn add_notes(&mut self, segment: u64, count: u32) {
        let own = &mut self.segments[segment as usize];
        own.entry.has_notes |= count > 0;
        own.holes += count;
    }

    /// True when `segment` has been in use since before partial `version`, so a block that was overwritten then may
    /// still lie there.
    pub fn is_older(&self, segment: u64, version: u64) -> bool {
        self.segments
            .get(segment as usize)
            .is_some_and(|own| own.entry.first <= version)
    }

    /// True when a block of `version` in `segment` was overwritten in place after everything there had been appended.
    /// While the chain still goes on in the segment, such a block may count as appended.
    pub fn is_rewritten(&self, segment: u64, version: u64) -> bool {
        self.segments
            .get(segment as usize)
            .is_some_and(|own| own.entry.age < version)
    }

    fn note_empty(&mut self, segment: u64) {
        if self.segments[segment as usize].is_empty() {
            self.empty.insert(segment);
            self.drained.remove(&segment);
        }
    }

    /// Recovery reads `segment`: a partial is written there.
    pub fn set_needed(&mut self, segment: u64) {
        self.segments[segment as usize].needed = true;
    }

    /// Segments without live blocks that are not free yet, except `end`.
    pub fn dead(&self, end: Option<u64>) -> Vec<u64> {
        let numbered = self.segments.iter().enumerate().skip(1);
        let dead =
            numbered.filter(|(number, segment)| segment.is_empty() && end != Some(*number as u64));
        dead.map(|(number, _)| number as u64).collect()
    }

    /// Those of the emptied segments that recovery does not need. They are free after a flush.
    pub fn reusable(&self, end: Option<u64>) -> Vec<u64> {
        let empty = self.empty.iter().copied();
        empty
            .filter(|segment| !self.segments[*segment as usize].needed && end != Some(*segment))
            .collect()
    }

    /// Segments that are empty, or will be with the next checkpoint.
    pub fn emptied(&self) -> u64 {
        (self.empty.len() + self.drained.len()) as u64
    }

    /// Frees `dead`, which recovery never uses again.
    pub fn free_all(&mut self, dead: &[u64]) {
        for segment in dead {
            let own = &mut self.segments[*segment as usize];
            (own.free, own.stuck, own.drained) = (true, false, false);
            self.empty.remove(segment);
            let queue = if own.copied {
                &mut self.copied
            } else {
                &mut self.free
            };
            queue.push_back((self.next_read, *segment));
        }
    }

    /// A checkpoint is durable: recovery needs nothing older.
    pub fn checkpointed(&mut self, dead: &[u64]) {
        for own in &mut self.segments {
            (own.needed, own.copied) = (false, false);
        }
        let copied = std::mem::take(&mut self.copied);
        let copied: Vec<u64> = copied.into_iter().map(|(_, segment)| segment).collect();
        self.free_all(&copied);
        self.free_all(dead);
    }

    /// Sorts the free segments by the age of their content, oldest first.
    pub fn sort_free(&mut self) {
        let segments = &self.segments;
        let free = self.free.make_contiguous();
        free.sort_by_key(|(_, segment)| segments[*segment as usize].entry.first);
    }

    /// Takes a free segment that no read uses any more. Those that would be free after a crash, too, are taken last.
    pub fn allocate(&mut self) -> Option<u64> {
        let oldest = self.oldest_read();
        let mut queues = [&mut self.copied, &mut self.free].into_iter();
        let (_, segment) =
            queues.find_map(|queue| queue.pop_front_if(|(mark, _)| *mark <= oldest))?;
        let own = &mut self.segments[segment as usize];
        (own.free, own.copied) = (false, false);
        Some(segment)
    }

    fn oldest_read(&self) -> u64 {
        self.reads.first().copied().unwrap_or(u64::MAX)
    }

    /// Marks `segment` as in use, even if the checkpoint says otherwise: recovery found it in the chain.
    pub fn claim(&mut self, segment: u64) {
        let own = &mut self.segments[segment as usize];
        (own.free, own.needed) = (false, true);
        self.free.retain(|(_, free)| *free != segment);
    }

    /// Free segments that can be used, and those that a read may still use.
    pub fn free_and_held(&self) -> (u64, u64) {
        let usable = self.usable(&self.free) + self.usable(&self.copied);
        let all = (self.free.len() + self.copied.len()) as u64;
        (usable, all - usable)
    }

    /// Those of the free segments that an opening after a crash would find free, too.
    pub fn free_after_crash(&self) -> u64 {
        self.usable(&self.free)
    }

    fn usable(&self, free: &VecDeque<(u64, u64)>) -> u64 {
        free.partition_point(|(mark, _)| *mark <= self.oldest_read()) as u64
    }

    pub fn set_stuck(&mut self, segment: u64) {
        self.segments[segment as usize].stuck = true;
    }

    /// Notes that the cleaner has copied the content of `segment`.
    pub fn set_drained(&mut self, segment: u64) {
        let own = &mut self.segments[segment as usize];
        own.drained = true;
        own.copied |= std::mem::take(&mut own.entry.has_holes);
        own.copied |= std::mem::take(&mut own.entry.has_notes);
        own.holes = 0;
        if own.entry.live > 0 {
            self.drained.insert(segment);
        }
        self.note_empty(segment);
    }

    /// Notes that all changed pages are written. Pages that are still counted in a drained segment stay there.
    pub fn pages_written(&mut self) {
        for segment in std::mem::take(&mut self.drained) {
            let own = &mut self.segments[segment as usize];
            (own.drained, own.stuck) = (false, true);
        }
    }

    /// Segments that are unusable until a rebuild, and their live blocks.
    pub fn stuck(&self) -> (u64, u64) {
        let stuck = self.segments.iter().filter(|segment| segment.stuck);
        stuck.fold((0, 0), |(count, live), own| {
            (count + 1, live + u64::from(own.entry.live))
        })
    }

    /// Segments that can be cleaned. They are free after that without a checkpoint, unless they have a page of the map.
    /// Each comes with its number of tombstones and notes, as far as it is known.
    pub fn candidates(
        &self,
        end: Option<u64>,
        which: Candidates,
    ) -> impl Iterator<Item = (u64, SegmentEntry, u32)> {
        let numbered = self.segments.iter().enumerate().skip(1);
        let usable = numbered.filter(move |(number, segment)| {
            let is_needed = segment.needed && which == Candidates::Now;
            let is_held = is_needed || segment.entry.has_indirect;
            let out = segment.free || segment.stuck || segment.drained || is_held;
            !out && !segment.is_empty() && end != Some(*number as u64)
        });
        usable.map(|(number, segment)| (number as u64, segment.entry, segment.holes))
    }

    /// Number of the oldest partial segment of which a block may still be on the medium.
    pub fn oldest(&self) -> u64 {
        let first = self.segments.iter().map(|segment| segment.entry.first);
        first.filter(|first| *first > 0).min().unwrap_or(0)
    }

    /// Registers a read. Segments that are in use now are not overwritten before its end.
    pub fn begin_read(&mut self) -> u64 {
        self.next_read += 1;
        self.reads.insert(self.next_read - 1);
        self.next_read - 1
    }

    /// Number of the next read.
    pub fn next_read(&self) -> u64 {
        self.next_read
    }

    /// True while a read goes on that began before read `next`.
    pub fn is_read_since(&self, next: u64) -> bool {
        self.oldest_read() < next
    }

    pub fn end_read(&mut self, read: u64) {
        self.reads.remove(&read);
    }
}
