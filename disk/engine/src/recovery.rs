//! Recovery: rebuilds the pinned set from the log.
//!
//! Recovery pins blocks in the order of the commits, within the memory budget, and writes home the blocks that do not
//! fit. A patch changes the recovered content of its block. That content is complete, because the log keeps the image
//! of a block as long as it keeps a needed patch of it (invariant 4 of `pinned`). docs/architecture/log.md, "Patches", says why
//! a patch without an image is void.

use crate::error::{EngineError, UnreadableSlot};
use crate::images::{Base, Images};
use crate::log_drives::LogDrives;
use crate::options::OpenOptions;
use crate::pinned::{Known, Moved, Order, Pinned};
use crate::places::Run;
use crate::redundancy::Footprint;
use crate::round::write_back_batch;
use async_recursion::async_recursion as boxed;
use std::cell::{Cell, RefCell};
use std::iter::Peekable;
use std::rc::Rc;
use tonearm_base::{Buf, BufPool, Lsn, Nanos, crc32c};
use tonearm_format::{
    EntryKind, Extent, LogState, SECTOR, SYSTEM_BLOCKS, Superblock, VolumeEntry, VolumeKind,
};
use tonearm_layout::{Home, HomeBlock, HomeError, Piece, Reader};
use tonearm_rt::Semaphore;
use tonearm_trail::{Case, GivenUp, RecordPlace, RecoveredChange, Replay, Word, WriteCache};

/// What recovery is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Reading the log: tracks done and expected.
    Replay {
        /// Tracks read.
        done: u64,
        /// Tracks to read.
        total: u64,
    },
    /// Writing home: blocks left.
    WriteBack {
        /// Blocks left.
        left: u64,
    },
}

/// What happened at the opening.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    /// The store had been shut down in order.
    pub clean: bool,
    /// Superblock slots that could not be read. Opening for writing has written them anew.
    pub unreadable: Vec<UnreadableSlot>,
    /// Tracks read to find the youngest record.
    pub search_tracks: u64,
    /// Tracks read to replay.
    pub replay_tracks: u64,
    /// Records replayed.
    pub records: u64,
    /// Commits recovered.
    pub commits: u64,
    /// Records after a hole of the torn tail, dropped.
    pub discarded_records: u64,
    /// What was given up of a damaged log ([`OpenOptions::give_up_damaged_log`]).
    pub given_up: Option<GivenUp>,
    /// Where the log ended, in the words of recovery's decision table.
    pub end: String,
    /// Blocks that are pinned after it.
    pub pinned_blocks: u64,
    /// Time from the first read to the new superblock.
    pub duration: Nanos,
}

/// Blocks of one write-back round.
const ROUND_BLOCKS: usize = 8192;

pub(crate) struct Recovery<'a> {
    pub pool: &'a BufPool,
    pub home: &'a dyn Home,
    pub memory: &'a Semaphore,
    pub log: &'a LogDrives,
    pub superblock: &'a Superblock,
    pub options: &'a OpenOptions,
    pub pinned: &'a RefCell<Pinned>,
    pub images: Images,
    /// The log has moves.
    pub moves: Cell<bool>,
    pub footprint: &'a RefCell<Footprint>,
}

impl Recovery<'_> {
    #[boxed(?Send)]
    pub async fn run(
        &self,
        report: &mut RecoveryReport,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(LogState, Vec<RecordPlace>), EngineError> {
        if self.options.write_cache == WriteCache::Volatile {
            // The records that recovery reads may be in the storage's cache alone. Recovery writes their content home,
            // and nothing is known to be durable before the first explicit flush (Durable WAL 5.3).
            for device in &self.log.devices {
                let flushed = device.flush().await;
                flushed.map_err(|error| tonearm_trail::TrailError::Device {
                    device: device.name().to_string(),
                    what: "flush",
                    offset: self.superblock.log_offset,
                    error,
                })?;
            }
        }
        let lenient = self.options.give_up_damaged_log;
        let (epoch, before) = (self.superblock.epoch, self.superblock.log);
        let (log, geometry) = (self.log.devices.clone(), self.log.geometry.clone());
        let mut replay = Replay::start(self.pool, log, geometry, epoch, before, lenient).await;
        while let Some(commit) = replay.next().await? {
            let mut changes = commit.changes.into_iter().peekable();
            while let Some(change) = changes.next() {
                self.check(&change)?;
                self.footprint.borrow_mut().add(&change);
                let words = words_of(&change, &mut changes);
                if let Some(run) = Run::of(&change, &mut changes) {
                    for (block, _) in &run.blocks[1..] {
                        let change = RecoveredChange {
                            block: *block,
                            kind: change.kind,
                            data: None,
                        };
                        self.check(&change)?;
                        self.footprint.borrow_mut().add(&change);
                    }
                    self.take_indirect(commit.lsn, run, progress).await?;
                } else if words.is_empty() {
                    self.apply(commit.lsn, change, progress).await?
                } else {
                    self.patch(commit.lsn, change.block, &words, progress)
                        .await?
                }
            }
            let (done, total) = replay.progress();
            progress(Progress::Replay { done, total });
        }
        if self.footprint.borrow().is_wanted() {
            self.note_spill().await?;
        }
        let tail = replay.into_tail();
        report.search_tracks = tail.stats.search_tracks;
        report.replay_tracks = tail.stats.replay_tracks;
        report.records = tail.stats.records;
        report.commits = tail.stats.commits;
        report.discarded_records = tail.stats.discarded;
        report.end = describe(tail.case).to_string();
        report.given_up = tail.given_up;
        if !matches!(tail.case, Case::End | Case::TornTail) {
            self.footprint.borrow_mut().lose();
        }
        let (mut state, mut live) = (tail.state, tail.records);
        let used = self.tracks_between(state.log_start_sector, state.start_track);
        let nearly_full = used + 4 > self.log.geometry.tracks;
        // No recovery sees the moves once the new epoch's superblock is durable. All blocks that they came from are
        // free then.
        let all = self.options.write_back_on_recovery || lenient || nearly_full;
        if all || self.moves.get() {
            while self.write_back(progress).await? {}
        }
        if self.pinned.borrow().is_empty() {
            (state.log_start_sector, state.log_start_seq) =
                (state.log_end_sector, state.log_end_seq + 1);
            live.clear();
        }
        Ok((state, live))
    }

    /// Adds the blocks that are written without the log to the footprint.
    async fn note_spill(&self) -> Result<(), EngineError> {
        for slot in 0..SYSTEM_BLOCKS {
            let known = match self.pinned.borrow().get(slot) {
                Some(Known::Data(data)) => Some(Piece::Data(data.clone())),
                Some(_) => Some(Piece::Zero(self.home.shape().block_size)),
                None => None,
            };
            let pieces = match known {
                Some(piece) => vec![piece],
                None => self.home.read(slot, 1, Reader::Store).await?,
            };
            // An entry that cannot be read is an error of the volume table, later.
            if let [Piece::Data(block)] = pieces.as_slice()
                && let Ok(Some(entry)) = VolumeEntry::decode(&block[..SECTOR])
                && entry.kind == VolumeKind::Spill
            {
                let mut footprint = self.footprint.borrow_mut();
                // An entry that is not possible is an error of the volume table, later.
                let size_blocks = self.home.shape().size_blocks;
                let inside = |extent: &Extent| extent.start + extent.count <= size_blocks;
                for extent in entry.extents.into_iter().filter(inside) {
                    footprint.add_spill(extent.start, extent.count);
                }
            }
        }
        Ok(())
    }

    fn tracks_between(&self, log_start_sector: u64, start_track: u64) -> u64 {
        let start = self.log.geometry.track_of(log_start_sector);
        (start_track + self.log.geometry.tracks - start) % self.log.geometry.tracks
    }

    /// A change of blocks that the store does not have belongs to another store.
    fn check(&self, change: &RecoveredChange) -> Result<(), EngineError> {
        let size_blocks = self.home.shape().size_blocks;
        let end = change.block.checked_add(change.kind.blocks());
        let from = match change.kind {
            EntryKind::Move { from, .. } => from,
            _ => 0,
        };
        if end.is_some_and(|end| end <= size_blocks) && from < size_blocks {
            Ok(())
        } else {
            Err(EngineError::ForeignCommit {
                block: change.block,
                size_blocks,
            })
        }
    }

    async fn apply(
        &self,
        lsn: Lsn,
        change: RecoveredChange,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), EngineError> {
        let first = change.block;
        match (change.kind, change.data) {
            (EntryKind::Data { crc }, Some(data)) => {
                let data = self.charge(data, progress).await?.share();
                let mut pinned = self.pinned.borrow_mut();
                pinned
                    .slot(first)
                    .put(lsn, lsn, data, Some(crc), &self.images);
            }
            (EntryKind::Data { .. }, None) => panic!("a recovered block has content"),
            (EntryKind::Patch { .. } | EntryKind::Indirect { .. }, _) => {
                panic!("patches and places are taken together")
            }
            (EntryKind::Move { from, crc }, _) => {
                self.moves.set(true);
                let moved = Moved {
                    block: first,
                    from,
                    crc,
                };
                self.pinned.borrow_mut().moved(lsn, moved, &self.images);
            }
            (EntryKind::Trim { count }, _) => {
                let mut pinned = self.pinned.borrow_mut();
                pinned.zero(lsn, first, count, false, &self.images);
            }
            (EntryKind::Zero { count }, _) => {
                let mut pinned = self.pinned.borrow_mut();
                pinned.zero(lsn, first, count, true, &self.images);
            }
        }
        Ok(())
    }

    /// Takes blocks whose content lies at places of the home.
    ///
    /// # Errors
    /// When it is not there. It was durable before the commit, so it is damaged.
    async fn take_indirect(
        &self,
        lsn: Lsn,
        run: Run,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), EngineError> {
        let content = match run.content(self.home, lsn).await {
            Ok(content) => content,
            Err(EngineError::IndirectLost { .. }) if run.blocks.len() > 1 => {
                for one in run.singly() {
                    Box::pin(self.take_indirect(lsn, one, progress)).await?;
                }
                return Ok(());
            }
            Err(EngineError::IndirectLost { .. }) if self.options.give_up_damaged_log => {
                return self.lose(lsn, run.blocks[0], progress).await;
            }
            Err(error) => return Err(error),
        };
        let size = self.home.shape().block_size;
        for ((block, crc), part) in run.blocks.into_iter().zip(content.chunks_exact(size)) {
            let data = self
                .charge(self.pool.copy_of(part), progress)
                .await?
                .share();
            let mut pinned = self.pinned.borrow_mut();
            pinned
                .slot(block)
                .put(lsn, lsn, data, Some(crc), &self.images);
        }
        Ok(())
    }

    /// The content that commit `lsn` gave a block, with this CRC-32C, is not at its place. If the home has it elsewhere, it is taken from
    /// there. Else it is lost: reads of the block are errors from now on.
    async fn lose(
        &self,
        lsn: Lsn,
        (block, crc): (u64, u32),
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), EngineError> {
        // Older changes of the block come home before, or not at all.
        while self.write_back(progress).await? {}
        let found = self.home.read(block, 1, Reader::Store).await;
        if let Ok([Piece::Data(data)]) = found.as_deref()
            && crc32c(data) == crc
        {
            let mut pinned = self.pinned.borrow_mut();
            let slot = pinned.slot(block);
            slot.put(lsn, lsn, data.clone(), Some(crc), &self.images);
            return Ok(());
        }
        self.pinned.borrow_mut().forget(block);
        self.images.forget(block);
        let data = self.pool.alloc_zeroed(self.home.shape().block_size).share();
        let lost = HomeBlock { block, data, crc };
        Ok(self.home.write_back(Vec::new(), vec![lost]).await?)
    }

    /// Applies patches to what has been recovered of `block`, in memory or written home since.
    async fn patch(
        &self,
        lsn: Lsn,
        block: u64,
        words: &[Word],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), EngineError> {
        if matches!(self.images.base(&self.pinned.borrow(), block), Base::None) {
            return Ok(());
        }
        let buf = self.pool.alloc_zeroed(self.home.shape().block_size);
        // This may write the block home.
        let mut buf = self.charge(buf, progress).await?;
        let base = self.images.base(&self.pinned.borrow(), block);
        match base {
            Base::Memory(data) => buf.copy_from_slice(&data),
            Base::Home => {
                if let [Piece::Data(data)] =
                    self.home.read(block, 1, Reader::Store).await?.as_slice()
                {
                    buf.copy_from_slice(data);
                }
            }
            Base::None => return Ok(()),
        }
        for word in words {
            let at = word.at as usize;
            buf[at..at + 8].copy_from_slice(&word.value.to_le_bytes());
        }
        let mut pinned = self.pinned.borrow_mut();
        self.images
            .put_patched(&mut pinned, lsn, block, buf.share());
        Ok(())
    }

    /// Charges the memory budget for a recovered block, and writes home while the budget is used up.
    async fn charge(
        &self,
        mut data: Buf,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Buf, EngineError> {
        let bytes = data.capacity() as u64;
        while self.memory.used() + bytes > self.memory.limit() {
            if !self.write_back(progress).await? {
                break;
            }
        }
        data.attach(Rc::new(self.memory.take(bytes)));
        Ok(data)
    }

    /// One round; false when everything is at home, or the home is full: then the log keeps the rest, and once the
    /// store is open a trim can make space. All that was replayed is durable in the log.
    async fn write_back(&self, progress: &mut dyn FnMut(Progress)) -> Result<bool, EngineError> {
        let everything = Lsn(u64::MAX);
        let done = write_back_batch(
            self.home,
            self.pinned,
            &self.images,
            everything,
            Order::Sweep(0),
            ROUND_BLOCKS,
            |_| false,
        )
        .await;
        let done = match done {
            Err(HomeError::Full { .. })
                if !self.moves.get() && !self.options.give_up_damaged_log =>
            {
                return Ok(false);
            }
            done => done?,
        };
        progress(Progress::WriteBack {
            left: self.pinned.borrow().block_count() as u64,
        });
        Ok(done.is_some())
    }
}

/// The words of `first` and of the patches of the same block that follow at once, which are taken out of
/// `rest`; none when it is no patch.
fn words_of(
    first: &RecoveredChange,
    rest: &mut Peekable<impl Iterator<Item = RecoveredChange>>,
) -> Vec<Word> {
    let word = |change: &RecoveredChange| match change.kind {
        EntryKind::Patch { at, value } => Some(Word { at, value }),
        _ => None,
    };
    let mut words = Vec::from_iter(word(first));
    while !words.is_empty()
        && let Some(next) = rest.next_if(|next| next.block == first.block && word(next).is_some())
    {
        words.extend(word(&next));
    }
    words
}

pub(crate) fn describe(case: Case) -> &'static str {
    match case {
        Case::Replay | Case::AbandonedCommit => "under way",
        Case::End => "end of the log",
        Case::TornTail => "torn tail: records after a hole were never durable and are dropped",
        Case::DamagedBeforeTail | Case::DamagedProven => {
            "damage: durable records after it were given up"
        }
        Case::Unreadable => "unreadable place: records after it were given up",
        Case::BrokenCommit => "records that do not fit together: given up",
    }
}
