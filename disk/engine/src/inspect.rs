//! Inspecting a store that is not in use, without changing it: for `tonearm info` and `tonearm check`.
//!
//! After a crash recovery will write some blocks home from the log. A dry run over the log finds these blocks, so that
//! home writes that the crash left half done are not reported as damage.

use crate::error::EngineError;
use crate::log_drives::LogDrives;
use crate::members::{Assembled, assemble};
use crate::options::OpenOptions;
use crate::places::Run;
use crate::recovery::describe;
use crate::superblocks::MemberDevice;
use async_recursion::async_recursion as boxed;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{Buf, BufPool, Lsn};
use tonearm_format::{
    EntryKind, SYSTEM_BLOCKS, State, Superblock, VolumeEntry, VolumeKind, volume_faults,
};
use tonearm_layout::layouts;
use tonearm_layout::{GroupReport, Home, HomeError, Piece, Reader, RebuildReport};
use tonearm_rt::Rt;
use tonearm_trail::Replay;

/// Memory for checksum tables during a look.
const TABLE_CACHE_BYTES: usize = 8 << 20;
/// Most blocks that one status call looks at; the caller calls again for the rest.
const STATUS_BLOCKS_MAX: u64 = 1 << 16;

/// What recovery would find in the log.
#[derive(Clone, Debug, Default)]
pub struct LogReport {
    /// The store was shut down in order: the log holds nothing that counts.
    pub clean: bool,
    /// Records that recovery would replay.
    pub records: u64,
    /// Commits in them.
    pub commits: u64,
    /// Blocks that they change.
    pub blocks: u64,
    /// Records beyond the end, never durable, which recovery drops.
    pub discarded_records: u64,
    /// Where the log ends, in words.
    pub end: String,
    /// Why recovery would refuse.
    pub damage: Option<EngineError>,
}

/// Blocks that the log changes, as disjoint runs: first block to the block after the last.
#[derive(Default)]
struct Covered(BTreeMap<u64, u64>);

impl Covered {
    fn add(&mut self, mut first: u64, mut end: u64) {
        // Runs that overlap or touch the new one become part of it; the last of them is looked at first.
        while let Some((&start, &stop)) = self.0.range(..=end).next_back() {
            if stop < first {
                break;
            }
            self.0.remove(&start);
            (first, end) = (first.min(start), end.max(stop));
        }
        self.0.insert(first, end);
    }

    fn meets(&self, first: u64, end: u64) -> bool {
        self.0
            .range(..end)
            .next_back()
            .is_some_and(|(_, stop)| *stop > first)
    }

    fn blocks(&self) -> u64 {
        self.0.iter().map(|(first, end)| end - first).sum()
    }
}

/// What the log leaves in the blocks that it changes, as disjoint runs: first block, the block after the last, and whether they
/// hold data.
#[derive(Default)]
struct Content(BTreeMap<u64, (u64, bool)>);

impl Content {
    /// Notes that the last change of `blocks` so far leaves data there, or holes.
    fn set(&mut self, blocks: Range<u64>, is_data: bool) {
        let (first, end) = (blocks.start, blocks.end);
        // What older runs have on either side stays.
        while let Some((&start, &(stop, was_data))) = self.0.range(..end).next_back() {
            if stop <= first {
                break;
            }
            self.0.remove(&start);
            if stop > end {
                self.0.insert(end, (stop, was_data));
            }
            if start < first {
                self.0.insert(start, (first, was_data));
            }
        }
        self.0.insert(first, (end, is_data));
    }

    /// Blocks at the beginning of `blocks` that the log leaves alike, and whether they hold data; `None` where it does not change
    /// them.
    fn first_run(&self, blocks: Range<u64>) -> (u64, Option<bool>) {
        let (first, end) = (blocks.start, blocks.end);
        let before = self.0.range(..=first).next_back();
        if let Some((_, &(stop, is_data))) = before.filter(|(_, (stop, _))| *stop > first) {
            return (stop.min(end) - first, Some(is_data));
        }
        let next = self.0.range(first..end).next();
        (next.map_or(end, |(start, _)| *start) - first, None)
    }
}

/// An inspection in progress.
pub struct Inspection {
    superblock: Superblock,
    home: Rc<dyn Home>,
    log: LogReport,
    covered: Covered,
    content: Content,
    /// System blocks as the log leaves them; `None` is a hole.
    system: BTreeMap<u64, Option<Buf>>,
}

impl Inspection {
    /// Looks at the store of `members` (the first is the primary one), and reads its log if it was not shut down in
    /// order. `progress` gets tracks read and tracks expected.
    ///
    /// # Errors
    /// When the members are no store, do not belong together, or are truncated. Damage of the log is in
    /// the report.
    pub async fn start(
        rt: &Rt,
        pool: &BufPool,
        members: Vec<MemberDevice>,
        progress: impl FnMut(u64, u64),
    ) -> Result<Self, EngineError> {
        let options = OpenOptions {
            map_cache_bytes: TABLE_CACHE_BYTES,
            read_only: true,
            ..OpenOptions::default()
        };
        let Assembled {
            superblock,
            devices,
            ..
        } = assemble(pool, members, &options).await?;
        let home = layouts::open(rt, pool, &superblock, &devices, options.home()).await?;
        let mut look = Self {
            home,
            log: LogReport {
                clean: superblock.state == State::Clean,
                ..LogReport::default()
            },
            covered: Covered::default(),
            content: Content::default(),
            system: BTreeMap::new(),
            superblock,
        };
        if !look.log.clean {
            let log = LogDrives::load(pool, &look.superblock, &devices).await?;
            let (epoch, before) = (look.superblock.epoch, look.superblock.log);
            let (devices, geometry) = (log.devices, log.geometry);
            let replay = Replay::start(pool, devices, geometry, epoch, before, false).await;
            look.read_log(replay, progress).await;
            look.log.blocks = look.covered.blocks();
            look.leave_spill_out().await;
        }
        Ok(look)
    }

    async fn read_log(&mut self, mut replay: Replay, mut progress: impl FnMut(u64, u64)) {
        loop {
            let commit = match replay.next().await {
                Ok(Some(commit)) => commit,
                Ok(None) => break,
                Err(error) => {
                    self.log.damage = Some(error.into());
                    return;
                }
            };
            self.log.commits += 1;
            let mut changes = commit.changes.into_iter().peekable();
            while let Some(change) = changes.next() {
                if let Some(run) = Run::of(&change, &mut changes) {
                    if let Err(error) = self.take_indirect(commit.lsn, run).await {
                        self.log.damage = Some(error);
                        return;
                    }
                    continue;
                }
                let (block, data) = (change.block, change.data);
                let count = change.kind.blocks();
                let size_blocks = self.superblock.size_blocks;
                let Some(end) = block.checked_add(count).filter(|end| *end <= size_blocks) else {
                    self.log.damage = Some(EngineError::ForeignCommit { block, size_blocks });
                    return;
                };
                if let EntryKind::Patch { at, value } = change.kind {
                    // A patch changes a block that an earlier entry has covered, or has no effect.
                    if let Some(Some(data)) = self.system.get_mut(&block) {
                        let at = at as usize;
                        data[at..at + 8].copy_from_slice(&value.to_le_bytes());
                    }
                    continue;
                }
                self.covered.add(block, end);
                let is_hole =
                    matches!(change.kind, EntryKind::Trim { .. } | EntryKind::Zero { .. });
                self.content.set(block..end, !is_hole);
                if let Some(data) = data {
                    if block < SYSTEM_BLOCKS {
                        self.system.insert(block, Some(data));
                    }
                } else {
                    self.system
                        .extend((block..end.min(SYSTEM_BLOCKS)).map(|block| (block, None)));
                }
            }
            let (done, total) = replay.progress();
            progress(done, total);
        }
        let tail = replay.into_tail();
        self.log.records = tail.stats.records;
        self.log.discarded_records = tail.stats.discarded;
        self.log.end = describe(tail.case).to_string();
    }

    /// Reads and verifies content at places of the home.
    async fn take_indirect(&mut self, lsn: Lsn, run: Run) -> Result<(), EngineError> {
        let content = run.content(&*self.home, lsn).await?;
        let (size, size_blocks) = (self.home.shape().block_size, self.superblock.size_blocks);
        for ((block, _), part) in run.blocks.into_iter().zip(content.chunks_exact(size)) {
            if block >= size_blocks {
                return Err(EngineError::ForeignCommit { block, size_blocks });
            }
            self.covered.add(block, block + 1);
            self.content.set(block..block + 1, true);
            if block < SYSTEM_BLOCKS {
                let data = BufPool::new(0).copy_of(part);
                self.system.insert(block, Some(data));
            }
        }
        Ok(())
    }

    /// Blocks that were being spilled into when the store stopped are unused: the next opening frees them.
    async fn leave_spill_out(&mut self) {
        let (entries, _) = self.volumes().await;
        let spill = entries
            .iter()
            .filter(|entry| entry.kind == VolumeKind::Spill);
        for extent in spill.flat_map(|entry| &entry.extents) {
            self.covered.add(extent.start, extent.start + extent.count);
        }
    }

    /// The superblock that counts.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// What is in the log.
    pub fn log(&self) -> &LogReport {
        &self.log
    }

    /// The volume table as recovery will leave it: the entries that can be read and go with each other, and what is
    /// wrong with the others.
    #[boxed(?Send)]
    pub async fn volumes(&self) -> (Vec<VolumeEntry>, Vec<String>) {
        let (mut entries, mut problems) = (Vec::new(), Vec::new());
        for slot in 0..SYSTEM_BLOCKS {
            let content = match self.system.get(&slot) {
                Some(Some(block)) => VolumeEntry::decode(&block[..tonearm_format::SECTOR]),
                Some(None) => Ok(None),
                None => match self.home.read(slot, 1, Reader::Store).await.as_deref() {
                    Ok([Piece::Data(block)]) => {
                        VolumeEntry::decode(&block[..tonearm_format::SECTOR])
                    }
                    Ok(_) => Ok(None),
                    Err(error) => {
                        problems.push(format!("entry {slot} of the volume table: {error}"));
                        continue;
                    }
                },
            };
            match content {
                Ok(entry) => entries.extend(entry.map(|entry| (slot, entry))),
                Err(error) => problems.push(format!("entry {slot} of the volume table: {error}")),
            }
        }
        let by_slot = entries.iter().map(|(slot, entry)| (*slot, entry));
        let faults = volume_faults(
            by_slot,
            self.superblock.size_blocks,
            self.superblock.block_size,
        );
        entries.retain(|(slot, _)| faults.iter().all(|fault| fault.slot != *slot));
        problems.extend(faults.iter().map(ToString::to_string));
        let mut entries: Vec<VolumeEntry> = entries.into_iter().map(|(_, entry)| entry).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        (entries, problems)
    }

    /// Runs of blocks and whether recovery will leave data there, for the first blocks of the range at least. The log must not be
    /// damaged.
    ///
    /// # Errors
    /// When a table or map page cannot be read.
    pub async fn status(&self, first: u64, count: u64) -> Result<Vec<(u64, bool)>, EngineError> {
        let run = self
            .content
            .first_run(first..first + count.min(STATUS_BLOCKS_MAX));
        match run {
            (count, Some(is_data)) => Ok(vec![(count, is_data)]),
            (count, None) => Ok(self.home.status(first, count).await?),
        }
    }

    /// Compares the home's map with what it is made from ([`Home::check_map`]). `progress` gets parts done and all
    /// parts.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub async fn check_map(
        &self,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Vec<HomeError>, EngineError> {
        Ok(self.home.check_map(&mut progress).await?)
    }

    /// Groups of the home.
    pub fn groups(&self) -> u64 {
        self.home.shape().groups()
    }

    /// Verifies group `group`, except for what recovery is going to write anew.
    ///
    /// # Errors
    /// When its table cannot be read from the device at all.
    #[boxed(?Send)]
    pub async fn check_group(&self, group: u64) -> Result<GroupReport, EngineError> {
        let mut report = self.home.check_group(group).await?;
        let blocks = self.home.shape().group_blocks;
        let touched = self.covered.meets(group * blocks, (group + 1) * blocks);
        report.leave_out(|block| self.covered.meets(block, block + 1), touched);
        Ok(report)
    }
}

/// Makes the map of the home of the store of `members` anew ([`layouts::rebuild_map`]). The store must not be in use.
/// `progress` gets parts done and all parts.
///
/// # Errors
/// When the members do not belong together, the layout has no map, or a device fails.
pub async fn rebuild_map(
    rt: &Rt,
    pool: &BufPool,
    members: Vec<MemberDevice>,
    map_cache_bytes: usize,
    progress: impl FnMut(u64, u64),
) -> Result<RebuildReport, EngineError> {
    let Assembled {
        superblock,
        devices,
        ..
    } = assemble(pool, members, &OpenOptions::default()).await?;
    let cache = map_cache_bytes;
    Ok(layouts::rebuild_map(rt, pool, &superblock, &devices, cache, progress).await?)
}

#[cfg(test)]
mod covered_tests {
    use super::{Content, Covered};

    #[test]
    fn covered_runs_join_where_they_touch_or_overlap() {
        let mut covered = Covered::default();
        for (first, end) in [(10, 12), (20, 30), (12, 15), (5, 6), (14, 21), (5, 6)] {
            covered.add(first, end);
        }
        assert_eq!(
            covered.0.into_iter().collect::<Vec<_>>(),
            [(5, 6), (10, 30)]
        );
    }

    #[test]
    fn a_range_meets_what_it_overlaps_alone() {
        let mut covered = Covered::default();
        covered.add(10, 20);
        assert!(covered.meets(19, 20) && covered.meets(0, 11) && covered.meets(12, 13));
        assert!(!covered.meets(20, 30) && !covered.meets(0, 10));
        assert_eq!(covered.blocks(), 10);
    }

    /// The last change of a block counts, whatever the runs of earlier ones were.
    #[test]
    fn content_is_what_the_last_change_leaves() {
        let mut random = 1u32;
        let mut below = |limit: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            u64::from((random >> 8) % limit)
        };
        for _ in 0..200 {
            let (mut content, mut model) = (Content::default(), [None; 40]);
            for _ in 0..below(12) {
                let first = below(40);
                let end = first + 1 + below((40 - first) as u32);
                let is_data = below(2) == 1;
                content.set(first..end, is_data);
                model[first as usize..end as usize].fill(Some(is_data));
            }
            let mut at = 0;
            while at < 40 {
                let (count, found) = content.first_run(at..40);
                assert!(count > 0);
                let run = &model[at as usize..(at + count) as usize];
                assert!(run.iter().all(|known| *known == found), "{model:?} at {at}");
                at += count;
            }
        }
    }
}
