//! The writer of an archive.
//!
//! It takes turns: one object of commits, one part of a base if one is being made. A base is copied while the store is
//! written, so its blocks have the content of any commit from its begin to its end. Together with all commits of that time
//! it gives the state at its end: to change a block again as a commit did gives what the commit gave.
//!
//! If the log has overtaken the archiver, commits are missing in the archive. Then it goes on after them and makes a new
//! base.

mod ages;
mod end;
mod exact;
mod groups;
mod merging;
mod put;
mod retention;
mod takeover;

use self::ages::Ages;
use self::exact::Exact;
use self::groups::LEVELS;
pub use self::groups::MergeLevel;
use self::merging::Merging;
use crate::bucket::{Bucket, BucketError};
use crate::chain::{FOLDER_BITS, mark_name, part_name};
use crate::error::ArchiveError;
use crate::object::Packer;
use crate::source::{CommitBatch, MarkRequest, ReadResult, SeekResult, Source, StoreShape};
use async_recursion::async_recursion as boxed;
use std::collections::VecDeque;
use tonearm_base::{Lsn, Nanos};
use tonearm_engine::{ArchiveInfo, ArchiveState, EngineError};
use tonearm_format::{ArchiveBase, ArchiveHeader, ArchiveKind, ArchivePart, FormatError, Uuid};

/// The content of moved blocks of one commit may have this many times the bytes of an object.
const MOVED_OBJECTS: u64 = 4;
/// Bytes of log or blocks that are asked for at once. The engine's thread copies them.
const STEP_BYTES: u64 = 1 << 20;
/// How often a waiting archiver looks whether it is to end.
const REST: Nanos = Nanos::from_millis(100);
/// The first pause before a request to the bucket is repeated, if the interval is not shorter, and the longest one.
const PAUSE_MIN: Nanos = Nanos::from_secs(1);
const PAUSE_MAX: Nanos = Nanos::from_secs(10);
/// For how long requests are repeated while the archiver is to end, in pauses of [`PAUSE_MIN`] at most.
const ENDING_MAX: Nanos = Nanos::from_secs(30);
/// For how long an archive that has not begun yet may be denied.
const DENIED_MAX: Nanos = Nanos::from_secs(120);
/// For how long the first base is read at the end.
const LAST_BASE: Nanos = Nanos::from_secs(20);
/// After so long a base is tried again for which a block could not be read.
const BASE_REST: Nanos = Nanos::from_secs(600);
/// Bytes of commits after a base from which on another one pays, if the base is smaller.
const BASE_BYTES_MIN: u64 = 64 << 20;

/// How an archive is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiverOptions {
    /// Longest time for which commits wait before they are put.
    pub interval: Nanos,
    /// Most bytes of entries in one object.
    pub object_bytes: usize,
    /// Most bytes of blocks that are read for a base in a second; 0 for as many as possible.
    pub base_bytes_per_second: u64,
    /// For how long the store can be restored to earlier states, in milliseconds; 0 for ever.
    pub keep_ms: u64,
    /// For how long the state of every commit is kept, in milliseconds; 0 for ever. What is older is merged.
    pub keep_every_commit_ms: u64,
    /// How what is older is merged. Only tests need others than the default ones.
    pub levels: [MergeLevel; 3],
    /// The machine and process, for people.
    pub creator: String,
}

impl Default for ArchiverOptions {
    fn default() -> Self {
        Self {
            interval: Nanos::from_secs(1),
            object_bytes: 16 << 20,
            base_bytes_per_second: 200 << 20,
            keep_ms: 0,
            keep_every_commit_ms: 0,
            levels: LEVELS,
            creator: String::new(),
        }
    }
}

/// What has the name of an object that was put.
enum Placed {
    /// The object.
    Own,
    /// Another one, with this header.
    Other(Result<ArchiveHeader, FormatError>),
}

/// A base that is being made.
struct BaseUnderWay {
    folder: u64,
    /// The commit after which the ranges begin.
    from: Lsn,
    next_block: u64,
    parts: Vec<ArchivePart>,
    bytes: u64,
    /// The first commit to which it can be restored, once all blocks are read.
    complete_at: Option<Lsn>,
}

/// The writer of an archive.
pub struct Archiver<'a> {
    bucket: &'a dyn Bucket,
    source: &'a dyn Source,
    options: ArchiverOptions,
    shape: StoreShape,
    epoch: u64,
    /// Last commit of the chain. While no base is complete, nothing can be restored from it.
    archived: Lsn,
    /// Number and checksum of the last object of the chain.
    number: u64,
    crc: u32,
    /// Digest of the history up to the last archived commit; 0 when none is known.
    digest: u32,
    /// Number of the last complete base; 0 when the store cannot be restored yet.
    base_number: u64,
    /// The first commit to which the store can be restored from that base, or from an earlier one that the same commits follow.
    restorable_from: Lsn,
    exact: Exact,
    ages: Ages,
    info: ArchiveInfo,
    base: Option<BaseUnderWay>,
    bases_made: u64,
    /// Bytes of the last base, and of the ranges since.
    base_bytes: u64,
    range_bytes: u64,
    /// The stamp of the last base.
    base_made_ms: u64,
    /// Before then no base is begun, because a block could not be read for one.
    base_rests_until: Nanos,
    /// The archive has been taken over. So the place can be used, and what is refused from now on passes.
    has_begun: bool,
    /// When the archiver first found that it is to end.
    ending_since: Option<Nanos>,
    /// Pauses since then.
    ending_pauses: Nanos,
    marks: Vec<MarkRequest>,
    merging: Merging,
    /// Names of what the last base does not keep any more, in the order in which they are deleted.
    old: VecDeque<String>,
    /// Memory of an object that was put.
    buffer: Vec<u8>,
}

impl<'a> Archiver<'a> {
    /// An archiver of the store of `source` in `bucket`.
    pub fn new(bucket: &'a dyn Bucket, source: &'a dyn Source, options: ArchiverOptions) -> Self {
        Self {
            bucket,
            source,
            options,
            shape: StoreShape {
                store: Uuid::default(),
                block_size: 0,
                size_blocks: 0,
            },
            epoch: 0,
            archived: Lsn(0),
            number: 0,
            crc: 0,
            digest: 0,
            base_number: 0,
            restorable_from: Lsn(0),
            exact: Exact::default(),
            ages: Ages::default(),
            info: ArchiveInfo {
                url: bucket.url(),
                ..ArchiveInfo::default()
            },
            base: None,
            bases_made: 0,
            base_bytes: 0,
            range_bytes: 0,
            base_made_ms: 0,
            base_rests_until: Nanos(0),
            has_begun: false,
            ending_since: None,
            ending_pauses: Nanos(0),
            marks: Vec::new(),
            merging: Merging::default(),
            old: VecDeque::new(),
            buffer: Vec::new(),
        }
    }

    /// Archives until the source ends, and then what is durable. Without a base nothing of that could be restored, so the first
    /// base is completed, too, if that takes no longer than [`LAST_BASE`].
    ///
    /// # Errors
    /// When the archive cannot be continued: another opening has taken over, it belongs to another store, the bucket
    /// refuses, or the source fails.
    #[boxed(?Send)]
    pub async fn run(&mut self) -> Result<(), ArchiveError> {
        let result = self.work().await;
        let reason = match &result {
            Ok(()) => "the archive was stopped".to_string(),
            Err(error) => error.to_string(),
        };
        for mark in self.marks.drain(..) {
            (mark.done)(Err(reason.clone()));
        }
        self.set_state(ArchiveState::Ended, Some(reason));
        // The source may be gone.
        let _ = self.report().await;
        result
    }

    async fn work(&mut self) -> Result<(), ArchiveError> {
        self.open().await?;
        loop {
            let ending = self.source.is_ending();
            let more = self.put_range().await?;
            self.put_marks().await?;
            let lacks_base = ending && self.base_number == 0;
            if lacks_base && self.is_late() {
                return Err(ArchiveError::Unfinished {
                    url: self.bucket.url(),
                    error: "its first base is not complete, so nothing can be restored yet".into(),
                });
            }
            if ending && !more && !lacks_base {
                return Ok(());
            }
            if !ending || lacks_base {
                self.step_base().await?;
            }
            if !ending {
                self.step_merging().await?;
                self.step_deleting().await?;
            }
            self.report().await?;
            if !more && !self.is_copying() {
                if ending {
                    // The base waits for commits that are not durable yet.
                    self.source.rest(REST).await?;
                } else {
                    self.rest().await?;
                }
            }
        }
    }

    /// True when the archiver was to end long ago.
    fn is_late(&mut self) -> bool {
        let now = self.source.now();
        let since = *self.ending_since.get_or_insert(now);
        now.since(since) > LAST_BASE
    }

    /// Waits for the interval, or less when the log is written so fast that it could overtake the archiver. Ranges are merged
    /// in this time: a step counts as a part of the wait.
    async fn rest(&mut self) -> Result<(), ArchiveError> {
        let mut left = self.options.interval;
        while left > Nanos(0) && !self.source.is_ending() {
            let part = left.min(REST);
            let merged = self.step_merging().await?;
            let deleted = self.step_deleting().await?;
            if self
                .source
                .rest(if merged || deleted { Nanos(0) } else { part })
                .await?
            {
                return Ok(());
            }
            left = Nanos(left.0 - part.0);
        }
        Ok(())
    }

    fn is_copying(&self) -> bool {
        let base = self.base.as_ref();
        base.is_some_and(|base| base.complete_at.is_none())
    }

    /// Notes when the clock is set. Nothing depends on it here, but times of states do.
    fn look_at_clock(&mut self) {
        let (now, unix_ms) = (self.source.now(), self.source.unix_ms());
        if let Some(by_ms) = self.ages.jump(now, unix_ms) {
            self.info.clock_jumps += 1;
            let way = if by_ms > 0 { "ahead" } else { "back" };
            self.info.clock = Some(format!(
                "the clock of the machine was set {way} by {} s; ages of objects do not follow it, but the times of states do",
                by_ms.unsigned_abs() / 1000
            ));
        }
    }

    fn set_state(&mut self, state: ArchiveState, why: Option<String>) {
        (self.info.state, self.info.why) = (state, why);
    }

    async fn report(&mut self) -> Result<(), ArchiveError> {
        let base = self.base.as_ref();
        let percent = |base: &BaseUnderWay| 100 * base.next_block / self.shape.size_blocks.max(1);
        self.info.base_percent = base.map(percent);
        // What is archived need not be a state that can be had.
        let last = self.exact.last(self.archived);
        self.info.restorable = self.base_number > 0 && last >= self.restorable_from;
        if self.info.restorable {
            self.info.archived_lsn = last.0;
        }
        self.look_at_clock();
        let marks = self.source.report(self.info.clone()).await?;
        self.marks.extend(marks);
        Ok(())
    }

    /// True when the archive has been taken over, so that an error of [`Archiver::run`] is none of its start.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Repeats a request until the bucket answers.
    async fn retry<T>(
        &mut self,
        request: impl AsyncFn(&dyn Bucket) -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError> {
        self.repeat(request, Self::may_pass).await
    }

    /// Repeats a request for as long as it `may_pass`, given the time for which it was tried.
    async fn repeat<T>(
        &mut self,
        request: impl AsyncFn(&dyn Bucket) -> Result<T, ArchiveError>,
        may_pass: impl Fn(&Self, &BucketError, Nanos) -> bool,
    ) -> Result<T, ArchiveError> {
        let mut pause = self.options.interval.min(PAUSE_MIN);
        let mut waited = Nanos(0);
        loop {
            match request(self.bucket).await {
                Err(ArchiveError::Bucket { error, .. }) if may_pass(self, &error, waited) => {
                    waited = Nanos(waited.0 + pause.0);
                    self.pause(&mut pause, error.to_string()).await?;
                }
                ended => {
                    self.set_state(ArchiveState::Running, None);
                    return ended;
                }
            }
        }
    }

    /// True when the request is to be repeated, `waited` after it was made first.
    fn may_pass(&self, error: &BucketError, waited: Nanos) -> bool {
        match error {
            BucketError::Transient(_) => true,
            BucketError::Denied(_) => self.has_begun || waited < DENIED_MAX,
            BucketError::Refused(_) => self.has_begun,
        }
    }

    /// Waits before a request is repeated. At the end of the archive, it is not repeated for ever.
    async fn pause(&mut self, pause: &mut Nanos, reason: String) -> Result<(), ArchiveError> {
        if self.source.is_ending() {
            if self.ending_pauses >= ENDING_MAX {
                return Err(ArchiveError::Unfinished {
                    url: self.bucket.url(),
                    error: reason,
                });
            }
            *pause = (*pause).min(PAUSE_MIN);
            self.ending_pauses = Nanos(self.ending_pauses.0 + pause.0);
        }
        self.set_state(ArchiveState::Waiting, Some(reason));
        self.report().await?;
        self.source.sleep(*pause).await;
        *pause = Nanos(2 * pause.0).min(PAUSE_MAX);
        Ok(())
    }

    /// Goes on after what the log does not have any more.
    async fn skip(&mut self) -> Result<(), ArchiveError> {
        match self.source.seek(Vec::new()).await? {
            SeekResult::After(lsn, digest) => {
                self.info.gaps += u64::from(self.number > 0);
                (self.archived, self.digest) = (lsn, digest);
                self.base_number = 0;
                self.exact.clear();
                Ok(())
            }
            _ => Err(ArchiveError::Log {
                url: self.bucket.url(),
            }),
        }
    }

    fn begin_base(&mut self) {
        self.bases_made += 1;
        self.base = Some(BaseUnderWay {
            folder: self.epoch << FOLDER_BITS | self.bases_made,
            from: self.archived,
            next_block: 0,
            parts: Vec::new(),
            bytes: 0,
            complete_at: None,
        });
    }

    /// Puts what is durable and not archived, one object at most. True when there may be more at once.
    async fn put_range(&mut self) -> Result<bool, ArchiveError> {
        let (mut packer, mut range) = (None, None::<CommitBatch>);
        let (mut is_full, mut is_lost) = (false, false);
        let (object_bytes, source) = (self.options.object_bytes as u64, self.source);
        while !is_full && !is_lost {
            match source
                .read(STEP_BYTES, MOVED_OBJECTS * object_bytes)
                .await?
            {
                ReadResult::Commits(more) => {
                    let packer = packer.get_or_insert_with(|| self.packer());
                    packer.add(&more.entries);
                    is_full = packer.raw_bytes() >= object_bytes;
                    match &mut range {
                        None => range = Some(more),
                        Some(range) => range.join(&more),
                    }
                }
                ReadResult::Nothing => break,
                ReadResult::Lost => is_lost = true,
            }
        }
        if let (Some(packer), Some(range)) = (packer, range) {
            let (first, last) = (range.first.0, range.last.0);
            self.digest = range.digest;
            let mut header = self.header(ArchiveKind::Range, first, last);
            header.unix_ms = range.unix_ms;
            header.spares_table = range.spares_table;
            if let Some((from, until)) = range.inexact {
                self.exact.note(from, until);
                (header.inexact_from, header.exact_from) = (from.0, until.0);
            } else if let Some(until) = self.exact.pending(range.first) {
                // An earlier range says that as well. The next opening looks only at the last one.
                (header.inexact_from, header.exact_from) = (first, until.0);
            }
            let stored = self.put_link(header, packer).await?;
            self.archived = range.last;
            self.range_bytes += stored;
        }
        if is_lost {
            self.skip().await?;
            self.begin_base();
        }
        Ok(is_full || is_lost)
    }

    fn header(&self, kind: ArchiveKind, first: u64, last: u64) -> ArchiveHeader {
        ArchiveHeader {
            kind,
            store: self.shape.store,
            number: self.number + 1,
            epoch: self.epoch,
            first,
            last,
            inexact_from: 0,
            exact_from: 0,
            unix_ms: self.source.unix_ms(),
            raw_bytes: 0,
            stored_bytes: 0,
            payload_crc: 0,
            digest: self.digest,
            previous_crc: self.crc,
            base: self.base_number,
            encrypted: false,
            spares_table: false,
            level: 0,
        }
    }

    /// An empty object, in the memory of an earlier one.
    fn packer(&mut self) -> Packer {
        Packer::new(std::mem::take(&mut self.buffer))
    }

    /// Reads one part of the base, or completes it.
    async fn step_base(&mut self) -> Result<(), ArchiveError> {
        let Some(base) = &self.base else {
            if self.wants_base() && self.source.now() >= self.base_rests_until {
                self.begin_base();
            }
            return Ok(());
        };
        if let Some(complete_at) = base.complete_at {
            if self.archived >= complete_at {
                self.complete_base(complete_at).await?;
            }
            return Ok(());
        }
        let (folder, first, part) = (base.folder, base.next_block, base.parts.len() as u64);
        let (mut next, mut packer, mut last) = (first, self.packer(), Lsn(0));
        let object_bytes = self.options.object_bytes as u64;
        while next < self.shape.size_blocks && packer.raw_bytes() < object_bytes {
            let blocks = match self.source.blocks(next, STEP_BYTES).await {
                Ok(blocks) => blocks,
                Err(ArchiveError::Engine(error)) => {
                    self.give_up_base(&error);
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            (next, last) = (blocks.next, blocks.appended);
            self.pace(blocks.entries.len() as u64).await;
            packer.add(&blocks.entries);
        }
        let mut header = self.header(ArchiveKind::BasePart, first, next);
        (header.number, header.previous_crc, header.digest) = (part, 0, 0);
        let (header, object) = packer.seal(self.bucket.keys(), header);
        let bytes = object.len() as u64;
        if let Placed::Other(_) = self.put(&part_name(folder, part), &object).await? {
            // An object that an earlier archive of this address has left. The next folder is another one.
            self.begin_base();
            return Ok(());
        }
        self.recycle(object);
        self.info.raw_bytes += header.raw_bytes;
        if let Some(base) = &mut self.base {
            base.parts.push(ArchivePart {
                end_block: next,
                crc: header.crc(),
            });
            base.bytes += bytes;
            base.next_block = next;
            base.complete_at = (next >= self.shape.size_blocks).then_some(last);
        }
        Ok(())
    }

    /// A block of the store cannot be read, for a base. That is no reason not to archive commits: they are in the log. The base
    /// before this one stays, and its ranges go on.
    fn give_up_base(&mut self, error: &EngineError) {
        self.base = None;
        self.base_rests_until = Nanos(self.source.now().0 + BASE_REST.0);
        self.info.notes.unbased = Some(format!(
            "{error}; commits are archived meanwhile, and it is tried again in {} minutes",
            BASE_REST.0 / 60_000_000_000
        ));
    }

    async fn pace(&self, bytes: u64) {
        let rate = self.options.base_bytes_per_second;
        // At the end, time is short.
        if rate > 0 && !self.source.is_ending() {
            let nanos = bytes as f64 * 1e9 / rate as f64;
            self.source.sleep(Nanos(nanos as u64)).await;
        }
    }

    /// Another base pays once the commits after the last one are larger than it is, or when it is what old objects are kept
    /// for.
    fn wants_base(&self) -> bool {
        let (number, now) = (self.base_number, self.source.now());
        if number == 0 {
            return true;
        }
        // A wrong clock may make a base too early, which costs its bytes.
        let age = self.ages.by_stamp(number, self.base_made_ms, now);
        let is_old = self.options.keep_ms > 0 && age > self.options.keep_ms / 2;
        self.range_bytes > self.base_bytes.max(BASE_BYTES_MIN) || is_old && self.range_bytes > 0
    }

    async fn complete_base(&mut self, at: Lsn) -> Result<(), ArchiveError> {
        let Some(base) = self.base.take() else {
            return Ok(());
        };
        let payload = ArchiveBase {
            block_size: self.shape.block_size,
            size_blocks: self.shape.size_blocks,
            folder: base.folder,
            parts: base.parts,
        };
        let kept = self.kept(base.folder).await;
        self.info.notes.undeleted = kept.as_ref().err().cloned();
        let kept = kept.ok();
        let mut header = self.header(ArchiveKind::Base, base.from.0, at.0);
        header.exact_from = self.archived.0;
        // In this object itself, and from here on, headers name it. Nothing can be restored before it is there.
        header.base = header.number;
        header.inexact_from = kept.as_ref().map_or(0, |kept| kept.first);
        let gaps = self.info.gaps;
        self.put_link(header, Packer::of(&payload.encode())).await?;
        if self.info.gaps > gaps {
            // An object before it is gone, which it may need.
            return Ok(());
        }
        if self.base_number == 0 {
            self.restorable_from = at;
        }
        self.base_number = self.number;
        (self.base_bytes, self.range_bytes) = (base.bytes, 0);
        self.base_made_ms = self.source.unix_ms();
        self.info.notes.unbased = None;
        self.old = kept.map_or_else(VecDeque::new, |kept| kept.old.into());
        self.merging.forget();
        Ok(())
    }

    /// Puts the marks whose commits are archived. A commit before the end of the first base can never be restored.
    async fn put_marks(&mut self) -> Result<(), ArchiveError> {
        if self.base_number == 0 {
            for mark in self.marks.drain(..) {
                let text = "no base is complete, so the present state could not be restored; wait until \
                            `tonearm archive status` says that one is";
                (mark.done)(Err(text.into()));
            }
        }
        let is_ready = |mark: &MarkRequest, archived| mark.lsn <= archived;
        while let Some(at) = self
            .marks
            .iter()
            .position(|mark| is_ready(mark, self.archived))
        {
            let mark = &self.marks[at];
            if mark.lsn < self.restorable_from || !self.exact.has(mark.lsn) {
                let mark = self.marks.swap_remove(at);
                let text = format!(
                    "the state of commit {} cannot be had from the archive: later commits had changed its blocks when it was \
                     archived; set the mark again",
                    mark.lsn
                );
                (mark.done)(Err(text));
                continue;
            }
            let mut header = self.header(ArchiveKind::Mark, mark.lsn.0, mark.lsn.0);
            header.exact_from = self.archived.0;
            // First in the chain. There it ends what may be merged, also when names are not listed yet.
            self.put_link(header, Packer::of(&[])).await?;
            let mark = self.marks.swap_remove(at);
            if self.base_number == 0 {
                let text = "an object of the archive is gone, so this state could not be restored; set the mark again when \
                            `tonearm archive status` says that a base is complete";
                (mark.done)(Err(text.into()));
                continue;
            }
            (header.exact_from, header.base) = (0, 0);
            (header.number, header.previous_crc, header.digest) = (0, 0, 0);
            let (_, object) = Packer::of(&[]).seal(self.bucket.keys(), header);
            let name = mark_name(&mark.name);
            let done = matches!(self.put(&name, &object).await?, Placed::Own);
            let taken = ArchiveError::MarkExists {
                url: self.bucket.url(),
                name: mark.name,
            };
            let result = if done { Ok(()) } else { Err(taken.to_string()) };
            (mark.done)(result);
        }
        Ok(())
    }
}

fn hex(uuid: &Uuid) -> String {
    uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "archiver/archiver_test.rs"]
mod archiver_test;
#[cfg(test)]
#[path = "archiver/hostile_test.rs"]
mod hostile_test;
#[cfg(test)]
#[path = "archiver/rig_test.rs"]
mod rig_test;
