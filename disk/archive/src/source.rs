//! What an archiver reads of a store.

use crate::chain::is_mark;
use crate::error::ArchiveError;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tonearm_base::{Lsn, Nanos, crc32c};
use tonearm_engine::{
    ArchiveInfo, ArchiveState, Engine, EngineError, History, HistoryError, RecoveredCommit,
};
use tonearm_format::{ArchiveWriter, EntryKind, SYSTEM_BLOCKS, Uuid, chain_digest};
use tonearm_layout::Piece;
use tonearm_rt::{Boxed, Rt};

/// How an archiver reaches a store. It may run on another thread than the engine: then the calls go there.
pub trait Source {
    /// The store's identity and shape.
    ///
    /// # Errors
    /// When the store is gone.
    fn shape(&self) -> Boxed<'_, Result<StoreShape, ArchiveError>>;

    /// Makes [`Source::read`] go on after the last of these commits, whose histories must have these digests as far back as the
    /// log still has them. With none, after the last durable one.
    ///
    /// # Errors
    /// When the store is gone.
    fn seek(&self, known: Vec<KnownCommit>) -> Boxed<'_, Result<SeekResult, ArchiveError>>;

    /// Waits for so long. True when so much has been written since the last read that the log may soon overtake the reader;
    /// then it does not wait to the end.
    ///
    /// # Errors
    /// When the store is gone.
    fn rest(&self, span: Nanos) -> Boxed<'_, Result<bool, ArchiveError>>;

    /// Durable commits of about `bytes` bytes of log. A commit that has moved blocks of more than `moved_max` bytes is lost:
    /// their content is not in the log, and all of it would wait in memory.
    ///
    /// # Errors
    /// When the store has failed, or a block cannot be read.
    fn read(&self, bytes: u64, moved_max: u64) -> Boxed<'_, Result<ReadResult, ArchiveError>>;

    /// Allocated blocks from `first` on, of about `bytes` bytes.
    ///
    /// # Errors
    /// When a block cannot be read.
    fn blocks(&self, first: u64, bytes: u64) -> Boxed<'_, Result<Blocks, ArchiveError>>;

    /// Tells how far the archiver is. Returns the wishes for marks that came since the last report.
    ///
    /// # Errors
    /// When the store is gone.
    fn report(&self, info: ArchiveInfo) -> Boxed<'_, Result<Vec<MarkRequest>, ArchiveError>>;

    /// Waits.
    fn sleep(&self, span: Nanos) -> Boxed<'_, ()>;

    /// Milliseconds since 1970. The clock may be set at any time.
    fn unix_ms(&self) -> u64;

    /// The time since some moment. It never goes back, and setting the clock does not change it.
    fn now(&self) -> Nanos;

    /// True when the archiver is to end once everything durable is archived.
    fn is_ending(&self) -> bool;
}

/// A store's identity and shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreShape {
    /// Identity.
    pub store: Uuid,
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks, those of the system included.
    pub size_blocks: u64,
}

/// A commit of which an archive knows the digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownCommit {
    /// The commit.
    pub lsn: Lsn,
    /// Its digest; 0 when it is not known.
    pub digest: u32,
    /// The digest is that of this commit alone, with which a history begins. Otherwise it is that of the history up to it.
    pub begins: bool,
}

/// Where reading goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeekResult {
    /// Behind this commit, which alone has this digest; 0 when that is not known. With it a history begins.
    After(Lsn, u32),
    /// Nowhere: the log does not have the next commit any more.
    Lost,
    /// Nowhere: one of the commits has another digest.
    Differs,
    /// Nowhere: the store has no such commit. Its last durable one is this.
    Ahead(Lsn),
}

/// What reading has found.
#[derive(Debug)]
pub enum ReadResult {
    /// Commits.
    Commits(CommitBatch),
    /// No more are durable.
    Nothing,
    /// The next one cannot be had: the log does not have it any more, or it moved too many blocks.
    Lost,
}

/// Blocks as entries of an archive object.
#[derive(Debug)]
pub struct Blocks {
    /// The first block that was not looked at.
    pub next: u64,
    /// Entries.
    pub entries: Vec<u8>,
    /// The last commit that may be in what was read.
    pub appended: Lsn,
}

/// Commits as entries of an archive object.
#[derive(Debug)]
pub struct CommitBatch {
    /// First commit.
    pub first: Lsn,
    /// Last commit.
    pub last: Lsn,
    /// States from the first of these commits on, up to the second, cannot be had from it; none when all can.
    pub inexact: Option<(Lsn, Lsn)>,
    /// Milliseconds since 1970 at which the last commit was durable.
    pub unix_ms: u64,
    /// Digest of the history up to the last commit, from where the reading began.
    pub digest: u32,
    /// They change no block of the volume table.
    pub spares_table: bool,
    /// Entries.
    pub entries: Vec<u8>,
}

impl CommitBatch {
    /// Adds the commits that follow, but for their entries.
    pub(crate) fn join(&mut self, more: &CommitBatch) {
        (self.last, self.digest, self.unix_ms) = (more.last, more.digest, more.unix_ms);
        self.spares_table &= more.spares_table;
        self.inexact = joined(self.inexact, more.inexact);
    }
}

/// The states that cannot be had of commits and of those that follow them.
fn joined(earlier: Option<(Lsn, Lsn)>, later: Option<(Lsn, Lsn)>) -> Option<(Lsn, Lsn)> {
    match (earlier, later) {
        (Some((from, _)), Some((_, until))) => Some((from, until)),
        (one, other) => one.or(other),
    }
}

/// Gets the result of a mark, on any thread. Dropped without one when the archive ends.
pub type MarkDone = Box<dyn FnOnce(Result<(), String>) + Send>;

/// A wish for a mark.
pub struct MarkRequest {
    /// Its name.
    pub name: String,
    /// The commit.
    pub lsn: Lsn,
    /// Gets the result.
    pub done: MarkDone,
}

/// How often the time of the last durable commit is noted.
const SAMPLE: Nanos = Nanos::from_millis(100);
/// How often it is looked how much has been written.
const LOOK: Nanos = Nanos::from_millis(50);
/// Bytes of log that are read at once to compare digests.
const COMPARE_BYTES: u64 = 1 << 20;
/// The reader may be behind by this part of the log, and by half of what a log keeps in memory for it.
const BEHIND: u64 = 8;
/// Bytes of an entry beside a block, at most.
const ENTRY_BYTES: usize = 32;
/// Samples that are kept: of an hour.
const SAMPLES_MAX: usize = 36_000;

/// An open store as a source, on the engine's thread.
#[derive(Clone)]
pub struct EngineSource(Rc<State>);

struct State {
    engine: Engine,
    rt: Rt,
    /// The time of day, in milliseconds since 1970. The executor's clock does not have it: it stands still while the machine
    /// sleeps, and the time of day may be set.
    clock: Box<dyn Fn() -> u64>,
    history: RefCell<Option<History>>,
    /// Digest of the history up to the last commit that was read.
    digest: Cell<u32>,
    /// Commits, and when they were durable at the latest.
    samples: RefCell<VecDeque<(Lsn, u64)>>,
    /// The archiver is to end.
    ending: Cell<bool>,
    /// Bytes of log that were written before the last read.
    read_at: Cell<u64>,
    marks: RefCell<Vec<MarkRequest>>,
}

impl EngineSource {
    /// The store of `engine`. `clock` gives the time of day, in milliseconds since 1970.
    pub fn new(engine: &Engine, rt: &Rt, clock: impl Fn() -> u64 + 'static) -> Self {
        let state = Rc::new(State {
            engine: engine.clone(),
            rt: rt.clone(),
            clock: Box::new(clock),
            history: RefCell::default(),
            digest: Cell::default(),
            samples: RefCell::default(),
            ending: Cell::new(false),
            read_at: Cell::default(),
            marks: RefCell::default(),
        });
        let own = state.clone();
        rt.spawn_detached(async move {
            while !own.ending.get() {
                own.sample();
                own.rt.sleep(SAMPLE).await;
            }
        });
        Self(state)
    }

    /// Lets the archiver end once everything durable is archived.
    pub fn end(&self) {
        self.0.ending.set(true);
    }

    /// Notes that the archiver has ended without a report, for this reason.
    pub fn fail(&self, reason: &str) {
        self.0.engine.note_archive(|info| {
            (info.state, info.why) = (ArchiveState::Ended, Some(reason.to_string()));
        });
        self.end();
        // Their senders notice the end of the channel.
        self.0.marks.take();
    }

    /// Wishes for a mark.
    pub fn mark(&self, request: MarkRequest) {
        let has_ended = |info: ArchiveInfo| info.state == ArchiveState::Ended;
        if !is_mark(&request.name) {
            let text = "a mark has 1 to 100 letters, digits, or characters of . _ -, and does not begin with a dot";
            (request.done)(Err(text.to_string()));
        } else if !self.0.engine.archive().is_some_and(has_ended) {
            self.0.marks.borrow_mut().push(request);
        }
    }
}

impl Source for EngineSource {
    fn shape(&self) -> Boxed<'_, Result<StoreShape, ArchiveError>> {
        let engine = &self.0.engine;
        let shape = StoreShape {
            store: engine.superblock().store,
            block_size: engine.block_size() as u32,
            size_blocks: engine.size_blocks(),
        };
        Box::pin(async move { Ok(shape) })
    }

    fn seek(&self, known: Vec<KnownCommit>) -> Boxed<'_, Result<SeekResult, ArchiveError>> {
        Box::pin(async move { Ok(self.0.seek(&known).await) })
    }

    fn rest(&self, span: Nanos) -> Boxed<'_, Result<bool, ArchiveError>> {
        Box::pin(async move { Ok(self.0.rest(span).await) })
    }

    fn read(&self, bytes: u64, moved_max: u64) -> Boxed<'_, Result<ReadResult, ArchiveError>> {
        Box::pin(async move { Ok(self.0.read(bytes, moved_max).await?) })
    }

    fn blocks(&self, first: u64, bytes: u64) -> Boxed<'_, Result<Blocks, ArchiveError>> {
        Box::pin(async move { Ok(self.0.blocks(first, bytes).await?) })
    }

    fn report(&self, info: ArchiveInfo) -> Boxed<'_, Result<Vec<MarkRequest>, ArchiveError>> {
        if info.state == ArchiveState::Ended {
            self.end();
        }
        self.0.engine.note_archive(|known| *known = info);
        let marks = self.0.marks.take();
        Box::pin(async move { Ok(marks) })
    }

    fn sleep(&self, span: Nanos) -> Boxed<'_, ()> {
        Box::pin(self.0.rt.sleep(span))
    }

    fn unix_ms(&self) -> u64 {
        (self.0.clock)()
    }

    fn now(&self) -> Nanos {
        self.0.rt.now()
    }

    fn is_ending(&self) -> bool {
        self.0.ending.get()
    }
}

impl State {
    fn sample(&self) {
        let (durable, mut samples) = (self.engine.marks().durable, self.samples.borrow_mut());
        if samples.back().is_none_or(|(last, _)| *last < durable) {
            samples.push_back((durable, (self.clock)()));
            if samples.len() > SAMPLES_MAX {
                samples.pop_front();
            }
        }
    }

    async fn seek(&self, known: &[KnownCommit]) -> SeekResult {
        *self.history.borrow_mut() = None;
        let durable = self.engine.marks().durable;
        let (after, is_known) = match known.last() {
            Some(last) => (last.lsn, last.digest != 0),
            None => (durable, false),
        };
        if after > durable {
            return SeekResult::Ahead(durable);
        }
        if is_known {
            match self.has(known).await {
                Some(true) => {}
                Some(false) => return SeekResult::Differs,
                None => return SeekResult::Lost,
            }
        }
        let own = self.digest_at(after).await.unwrap_or(0);
        match self.engine.history(after + 1).await {
            Ok(history) => {
                *self.history.borrow_mut() = Some(history);
                self.digest.set(own);
                SeekResult::After(after, own)
            }
            Err(_) => SeekResult::Lost,
        }
    }

    /// True when the store has the commits of which an archive knows the digests. A copy of the store that went its own way may
    /// have the same last commit. So the digests are computed again from the first of these commits on that the log still has.
    /// `None` when the log does not have the last one.
    async fn has(&self, known: &[KnownCommit]) -> Option<bool> {
        let (mut known, end) = (known, known.last()?.lsn);
        let mut history = loop {
            match self.engine.history(known[0].lsn.max(Lsn(1))).await {
                Ok(history) => break history,
                Err(_) if known.len() == 1 => return None,
                Err(_) => known = &known[known.len() / 2..],
            }
        };
        let (mut known, mut digest) = (known.iter().peekable(), None);
        loop {
            let commits = history.read(COMPARE_BYTES).await.ok()?;
            // All of them are durable.
            commits.first()?;
            for commit in &commits {
                let own = digest_of(commit);
                while let Some(before) = known.next_if(|known| known.lsn < commit.lsn) {
                    digest = Some(before.digest);
                }
                digest = digest.map(|before| chain_digest(before, own));
                while let Some(at) = known.next_if(|known| known.lsn == commit.lsn) {
                    let found = if at.begins { Some(own) } else { digest };
                    if at.digest != 0 && found.is_some_and(|found| found != at.digest) {
                        return Some(false);
                    }
                    digest = Some(at.digest);
                }
                if commit.lsn >= end {
                    return Some(true);
                }
            }
        }
    }

    /// The digest of commit `lsn`, if the log still has it.
    async fn digest_at(&self, lsn: Lsn) -> Option<u32> {
        let mut history = self.engine.history(lsn).await.ok()?;
        let commits = history.read(1).await.ok()?;
        commits.first().map(digest_of)
    }

    async fn rest(&self, span: Nanos) -> bool {
        let until = self.rt.now() + span.0;
        let part = self.engine.superblock().log_size_bytes() / BEHIND;
        let kept = self.engine.log_kept_bytes().unwrap_or(part);
        let behind_max = part.min(kept / 2);
        loop {
            let written = self.engine.log_written_bytes() - self.read_at.get();
            let is_urgent = written >= behind_max;
            if is_urgent || self.rt.now() >= until {
                return is_urgent;
            }
            self.rt.sleep(LOOK.min(until.since(self.rt.now()))).await;
        }
    }

    async fn read(&self, bytes: u64, moved_max: u64) -> Result<ReadResult, EngineError> {
        let written = self.engine.log_written_bytes();
        let Some(mut history) = self.history.take() else {
            return Ok(ReadResult::Lost);
        };
        let mut commits = match history.read(bytes).await {
            Ok(commits) => commits,
            Err(HistoryError::Lost(_)) => return Ok(ReadResult::Lost),
            Err(HistoryError::Log(error)) => return Err(error.into()),
        };
        // What follows a commit that is skipped cannot be applied. The next read reports that it is lost. Large commits from before
        // the archive are so small in the log that one read may have many.
        let most = moved_max / self.engine.block_size() as u64;
        let mut indirect = 0;
        let skipped = commits.iter().position(|commit| {
            let count = |is: fn(&EntryKind) -> bool| {
                let changes = commit.changes.iter();
                changes.filter(|change| is(&change.kind)).count() as u64
            };
            indirect += count(|kind| matches!(kind, EntryKind::Indirect { .. }));
            count(|kind| matches!(kind, EntryKind::Move { .. })) > most || indirect > most
        });
        commits.truncate(skipped.unwrap_or(commits.len()));
        if skipped.is_none() {
            *self.history.borrow_mut() = Some(history);
        }
        let (Some(first), Some(last)) = (commits.first(), commits.last()) else {
            self.read_at.set(written);
            return Ok(match skipped {
                None => ReadResult::Nothing,
                Some(_) => ReadResult::Lost,
            });
        };
        let (first, last, mut inexact) = (first.lsn, last.lsn, None);
        let mut changes = commits.iter().flat_map(|commit| &commit.changes);
        let spares_table = changes.all(|change| change.block >= SYSTEM_BLOCKS);
        let data = |commit: &RecoveredCommit| -> usize {
            let data = commit
                .changes
                .iter()
                .filter_map(|change| change.data.as_ref());
            data.map(|data| data.len() + ENTRY_BYTES).sum()
        };
        let mut writer = ArchiveWriter::with_capacity(commits.iter().map(data).sum());
        self.sample();
        let mut unix_ms = (self.clock)();
        for commit in commits {
            let lsn = commit.lsn;
            let until = self.write(commit, &mut writer, &mut unix_ms).await?;
            inexact = joined(inexact, until.map(|until| (lsn, until)));
            let digest = chain_digest(self.digest.get(), writer.last_digest());
            self.digest.set(digest);
        }
        if let Some((_, until)) = inexact {
            // What was read has content of these commits. A power cut must not take them back once it is archived.
            self.engine.wait_durable(until).await?;
        }
        Ok(ReadResult::Commits(CommitBatch {
            first,
            last,
            inexact,
            unix_ms,
            digest: self.digest.get(),
            spares_table,
            entries: writer.into_bytes(),
        }))
    }

    /// Writes a commit. Where the content of a moved block has changed since, it has that of a later commit: then the state
    /// at this commit cannot be had, nor those up to the commit that is returned.
    async fn write(
        &self,
        commit: RecoveredCommit,
        writer: &mut ArchiveWriter,
        unix_ms: &mut u64,
    ) -> Result<Option<Lsn>, EngineError> {
        let mut exact_from = None;
        let mut words: Vec<(u32, u64)> = Vec::new();
        let mut changes = commit.changes.into_iter().peekable();
        while let Some(change) = changes.next() {
            match (change.kind, change.data) {
                (EntryKind::Data { crc }, Some(data)) => writer.data(change.block, crc, &data),
                (EntryKind::Data { .. }, None) => panic!("a recovered block has content"),
                (EntryKind::Trim { count }, _) => writer.zero(change.block, count, false),
                (EntryKind::Zero { count }, _) => writer.zero(change.block, count, true),
                (EntryKind::Patch { at, value }, _) => {
                    words.push((at, value));
                    let goes_on = changes.peek().is_some_and(|next| {
                        next.block == change.block && matches!(next.kind, EntryKind::Patch { .. })
                    });
                    if !goes_on {
                        writer.patch(change.block, &std::mem::take(&mut words));
                    }
                }
                (EntryKind::Move { crc, .. } | EntryKind::Indirect { crc, .. }, _) => {
                    let content = self.engine.moved_content(change.block, change.kind).await?;
                    if !content.is_exact {
                        // What was read may have any commit so far.
                        exact_from = Some(self.engine.marks().appended);
                    }
                    match content.piece {
                        Piece::Data(data) => {
                            let content = Some((crc32c(&data), &data[..]));
                            writer.moved(change.block, crc, content);
                        }
                        Piece::Zero(_) => writer.moved(change.block, crc, None),
                    }
                }
            }
        }
        writer.commit(commit.lsn);
        let mut samples = self.samples.borrow_mut();
        while let Some((lsn, at)) = samples.pop_front_if(|(lsn, _)| *lsn <= commit.lsn) {
            // An earlier commit's time says nothing of this one: it may have become durable later.
            if lsn == commit.lsn {
                *unix_ms = at;
                writer.time(at);
            }
        }
        Ok(exact_from)
    }

    /// Allocated blocks from `first` on.
    async fn blocks(&self, first: u64, bytes: u64) -> Result<Blocks, EngineError> {
        let (block_size, end) = (self.engine.block_size() as u64, self.engine.size_blocks());
        let (mut next, mut writer) = (first, ArchiveWriter::default());
        let most = (bytes / block_size).max(1);
        let runs = self.engine.status(first, end - first).await?;
        for (count, is_data) in runs {
            let count = if is_data { count.min(most) } else { count };
            if is_data {
                let mut block = next;
                for piece in self.engine.read(next, count).await? {
                    match piece {
                        Piece::Data(data) => {
                            for part in data.chunks(block_size as usize) {
                                writer.data(block, crc32c(part), part);
                                block += 1;
                            }
                        }
                        Piece::Zero(bytes) => block += bytes as u64 / block_size,
                    }
                }
            }
            next += count;
            if is_data {
                break;
            }
        }
        Ok(Blocks {
            next,
            entries: writer.into_bytes(),
            appended: self.engine.marks().appended,
        })
    }
}

/// The digest that [`ArchiveWriter`] gives the commit.
fn digest_of(commit: &RecoveredCommit) -> u32 {
    let mut writer = ArchiveWriter::default();
    for change in &commit.changes {
        match change.kind {
            EntryKind::Data { crc } => writer.digest_moved(change.block, crc),
            EntryKind::Move { crc, .. } | EntryKind::Indirect { crc, .. } => {
                writer.digest_moved(change.block, crc)
            }
            EntryKind::Trim { count } => writer.zero(change.block, count, false),
            EntryKind::Zero { count } => writer.zero(change.block, count, true),
            EntryKind::Patch { at, value } => writer.patch(change.block, &[(at, value)]),
        }
    }
    writer.commit(commit.lsn);
    writer.last_digest()
}

#[cfg(test)]
#[path = "source_test.rs"]
mod source_test;
