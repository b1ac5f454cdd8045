//! A store without content, a bucket that fails on request, and a clock that goes on when somebody waits. Nothing of it is
//! ever pending, so an archiver runs to its end in one poll.

use super::*;
use crate::catalog::Catalog;
use crate::source::{Blocks, KnownCommit};
use crate::testing::{BLOCK, BLOCKS, MemoryBucket, START_MS, WRITTEN, now};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::crc32c;
use tonearm_engine::EngineError;
use tonearm_format::ArchiveWriter;
use tonearm_rt::Boxed;

/// A request to the bucket.
pub(super) enum Asked<'a> {
    Put(&'a str),
    Get(&'a str),
    Head(&'a str),
    List,
    Delete,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Sound,
    /// A put is carried out, and its answer is lost.
    AnswerLost,
    /// There is no such object.
    Absent,
    /// It takes a second.
    Slow,
}

type Fault = Box<dyn FnMut(&Asked<'_>) -> Fate>;
type Event = Box<dyn FnOnce(&Rig)>;

pub(super) struct Rig {
    pub(super) memory: MemoryBucket,
    pub(super) fault: RefCell<Fault>,
    pub(super) asked: Cell<u64>,
    pub(super) now: Rc<Cell<Nanos>>,
    /// How far the clock of the machine is ahead, in milliseconds.
    pub(super) ahead_ms: Cell<u64>,
    pub(super) durable: Cell<u64>,
    read: Cell<u64>,
    pub(super) events: RefCell<Vec<(Nanos, Event)>>,
    ending: Cell<bool>,
    pub(super) marks: RefCell<Vec<MarkRequest>>,
    pub(super) bad_block: Cell<bool>,
    pub(super) reports: RefCell<Vec<(Nanos, ArchiveInfo)>>,
    pub(super) store: Cell<Uuid>,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self {
            memory: MemoryBucket::default(),
            fault: RefCell::new(Box::new(|_| Fate::Sound)),
            asked: Cell::new(0),
            now: Rc::new(Cell::new(Nanos::from_secs(1000))),
            ahead_ms: Cell::new(0),
            durable: Cell::new(10),
            read: Cell::new(0),
            events: RefCell::default(),
            ending: Cell::new(false),
            marks: RefCell::default(),
            bad_block: Cell::new(false),
            reports: RefCell::default(),
            store: Cell::new([3; 16]),
        }
    }

    pub(super) fn fault(&self, fault: impl FnMut(&Asked<'_>) -> Fate + 'static) {
        *self.fault.borrow_mut() = Box::new(fault);
    }

    /// Does something so many milliseconds from now.
    pub(super) fn after(&self, ms: u64, event: impl FnOnce(&Rig) + 'static) {
        let at = Nanos(self.now.get().0 + ms * 1_000_000);
        self.events.borrow_mut().push((at, Box::new(event)));
    }

    /// A commit each second, and the end of the archiver a second after the last one.
    pub(super) fn commits(&self, count: u64) {
        for at in 1..=count {
            self.after(1000 * at, |rig| rig.durable.set(rig.durable.get() + 1));
        }
        self.after(1000 * (count + 1), |rig| rig.ending.set(true));
    }

    /// One opening of the archive, until the last event.
    pub(super) fn open(&self, options: &ArchiverOptions) -> Result<(), ArchiveError> {
        self.ending.set(false);
        let ran = now(Archiver::new(self, self, options.clone()).run());
        self.events.borrow_mut().clear();
        ran
    }

    pub(super) fn run(&self, commits: u64) -> Result<(), ArchiveError> {
        self.commits(commits);
        self.open(&options())
    }

    pub(super) fn info(&self) -> ArchiveInfo {
        let reports = self.reports.borrow();
        reports.last().expect("it reports").1.clone()
    }

    /// True when the archiver has reported so.
    pub(super) fn has_reported(&self, so: impl Fn(&ArchiveInfo) -> bool) -> bool {
        self.reports.borrow().iter().any(|(_, info)| so(info))
    }

    pub(super) fn catalog(&self) -> Catalog {
        now(Catalog::load(&self.memory)).expect("there is an archive")
    }

    /// The last commit that can be restored.
    pub(super) fn restorable(&self) -> u64 {
        let catalog = self.catalog();
        let plan = crate::Plan::make(&self.memory, &catalog, &crate::Target::Latest);
        now(plan).map_or(0, |plan| plan.lsn.0)
    }

    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let objects = self.memory.objects.borrow();
        let names = objects.keys().filter(|name| name.starts_with(folder));
        names.cloned().collect()
    }

    pub(super) fn object(&self, name: &str) -> Vec<u8> {
        self.memory.objects.borrow()[name].clone()
    }

    pub(super) fn place(&self, name: &str, object: Vec<u8>) {
        let mut objects = self.memory.objects.borrow_mut();
        objects.insert(name.to_string(), object);
    }

    pub(super) fn remove(&self, name: &str) {
        self.memory.objects.borrow_mut().remove(name);
    }

    pub(super) fn header(&self, name: &str) -> ArchiveHeader {
        ArchiveHeader::decode(&self.object(name)).expect("a header")
    }

    /// The names of objects of the chain of a kind.
    pub(super) fn of_kind(&self, kind: ArchiveKind) -> Vec<String> {
        let mut names = self.names("chain/");
        names.retain(|name| {
            let header = ArchiveHeader::decode(&self.object(name));
            header.is_ok_and(|header| header.kind == kind)
        });
        names
    }

    fn fate(&self, asked: Asked<'_>) -> Fate {
        self.asked.set(self.asked.get() + 1);
        assert!(self.asked.get() < 2_000_000, "requests without end");
        let fate = (self.fault.borrow_mut())(&asked);
        if fate == Fate::Slow {
            self.pass(Nanos::from_secs(1));
        }
        fate
    }

    fn pass(&self, span: Nanos) {
        let until = Nanos(self.now.get().0 + span.0);
        loop {
            let mut events = self.events.borrow_mut();
            let due = events.iter().enumerate().filter(|(_, it)| it.0 <= until);
            let Some((at, _)) = due.min_by_key(|(_, it)| it.0) else {
                break;
            };
            let (at, event) = events.remove(at);
            drop(events);
            self.now.set(at.max(self.now.get()));
            event(self);
        }
        self.now.set(until.max(self.now.get()));
    }
}

pub(super) fn options() -> ArchiverOptions {
    ArchiverOptions {
        interval: Nanos::from_millis(500),
        ..ArchiverOptions::default()
    }
}

impl Bucket for Rig {
    fn put_new<'a>(&'a self, name: &'a str, object: Bytes) -> Boxed<'a, Result<bool, BucketError>> {
        let fate = self.fate(Asked::Put(name));
        let put = self.memory.put_new(name, object);
        Box::pin(async move {
            let put = put.await;
            match fate {
                Fate::AnswerLost => Err(BucketError::Transient("no answer".into())),
                _ => put,
            }
        })
    }

    fn get<'a>(
        &'a self,
        name: &'a str,
        most: u64,
    ) -> Boxed<'a, Result<Option<Vec<u8>>, BucketError>> {
        match self.fate(Asked::Get(name)) {
            Fate::Absent => Box::pin(async { Ok(None) }),
            _ => self.memory.get(name, most),
        }
    }

    fn heads<'a>(
        &'a self,
        names: &'a [String],
        bytes: usize,
    ) -> Boxed<'a, Result<Vec<Option<Vec<u8>>>, BucketError>> {
        let heads = names.iter().map(|name| {
            let fate = self.fate(Asked::Head(name));
            let head = now(self.memory.heads(std::slice::from_ref(name), bytes));
            let head = head.map(|mut heads| heads.remove(0));
            head.map(|head| head.filter(|_| fate != Fate::Absent))
        });
        let heads: Result<Vec<_>, _> = heads.collect();
        Box::pin(async { heads })
    }

    fn list<'a>(&'a self, folder: &'a str) -> Boxed<'a, Result<Vec<String>, BucketError>> {
        self.fate(Asked::List);
        self.memory.list(folder)
    }

    fn delete<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<(), BucketError>> {
        self.fate(Asked::Delete);
        self.memory.delete(name)
    }

    fn url(&self) -> String {
        self.memory.url()
    }
}

impl Source for Rig {
    fn shape(&self) -> Boxed<'_, Result<StoreShape, ArchiveError>> {
        let shape = StoreShape {
            store: self.store.get(),
            block_size: BLOCK as u32,
            size_blocks: BLOCKS,
        };
        Box::pin(async move { Ok(shape) })
    }

    fn seek(&self, known: Vec<KnownCommit>) -> Boxed<'_, Result<SeekResult, ArchiveError>> {
        let durable = self.durable.get();
        let after = known.last().map_or(durable, |last| last.lsn.0);
        self.read.set(after);
        Box::pin(async move {
            Ok(if after > durable {
                SeekResult::Ahead(Lsn(durable))
            } else {
                SeekResult::After(Lsn(after), after as u32)
            })
        })
    }

    fn rest(&self, span: Nanos) -> Boxed<'_, Result<bool, ArchiveError>> {
        self.pass(span);
        Box::pin(async { Ok(false) })
    }

    fn read(&self, _: u64, _: u64) -> Boxed<'_, Result<ReadResult, ArchiveError>> {
        let (first, last) = (self.read.get() + 1, self.durable.get());
        self.read.set(last);
        let mut writer = ArchiveWriter::default();
        for lsn in first..=last {
            let data = [lsn as u8; BLOCK];
            writer.data(WRITTEN, crc32c(&data), &data);
            writer.commit(Lsn(lsn));
        }
        let found = if first <= last {
            ReadResult::Commits(CommitBatch {
                first: Lsn(first),
                last: Lsn(last),
                inexact: None,
                unix_ms: self.unix_ms(),
                digest: last as u32,
                spares_table: true,
                entries: writer.into_bytes(),
            })
        } else {
            ReadResult::Nothing
        };
        Box::pin(async { Ok(found) })
    }

    fn blocks(&self, _: u64, _: u64) -> Boxed<'_, Result<Blocks, ArchiveError>> {
        let mut writer = ArchiveWriter::default();
        let data = [self.durable.get() as u8; BLOCK];
        writer.data(WRITTEN, crc32c(&data), &data);
        let blocks = Blocks {
            next: BLOCKS,
            entries: writer.into_bytes(),
            appended: Lsn(self.durable.get()),
        };
        let is_bad = self.bad_block.get();
        Box::pin(async move {
            if is_bad {
                Err(ArchiveError::Engine(EngineError::OpenReadOnly))
            } else {
                Ok(blocks)
            }
        })
    }

    fn report(&self, info: ArchiveInfo) -> Boxed<'_, Result<Vec<MarkRequest>, ArchiveError>> {
        self.reports.borrow_mut().push((self.now.get(), info));
        let marks = self.marks.take();
        Box::pin(async { Ok(marks) })
    }

    fn sleep(&self, span: Nanos) -> Boxed<'_, ()> {
        self.pass(span);
        Box::pin(async {})
    }

    fn unix_ms(&self) -> u64 {
        START_MS + self.now.get().0 / 1_000_000 + self.ahead_ms.get()
    }

    fn now(&self) -> Nanos {
        self.now.get()
    }

    fn is_ending(&self) -> bool {
        self.ending.get()
    }
}
