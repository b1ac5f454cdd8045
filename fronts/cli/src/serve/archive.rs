//! The archive of a store that is served.
//!
//! The archiver has a thread of its own, and calls an [`EngineSource`] on the engine's thread. The calls come through a channel
//! of their own, because they are still made when the mailbox is closed: at the end the archiver gets everything that clients
//! have written.

use crate::control::ArchiveStart;
use anyhow::bail;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_archive::{ArchiverOptions, Bucket, EngineSource, MarkRequest};
use tonearm_base::{Lsn, Nanos};
use tonearm_bucket::{RealBucket, Writer};
use tonearm_engine::{ArchiveInfo, ArchiveState, Engine};
use tonearm_rt::{Notify, Receiver, channel};
use tonearm_store::{
    ARCHIVE_GRACE, ArchiveEnd, ArchiveThread, Call, Executor, archive_unfinished, begin_archive,
};
use tonearm_terminal::report;

/// What an archive is to be.
#[derive(Clone)]
pub struct ArchivePlan {
    /// Where it lies.
    pub bucket: RealBucket,
    /// How it is written.
    pub options: ArchiverOptions,
}

impl ArchivePlan {
    /// What `start` asks `writer` for. May read files with keys.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn of(start: &ArchiveStart, writer: Writer) -> anyhow::Result<Self> {
        let bucket = RealBucket::open_to_write(&start.url, writer)?;
        Ok(Self {
            bucket: bucket.with_recipients(&start.recipients)?,
            options: ArchiverOptions {
                interval: Nanos::from_millis(start.interval_ms.max(10)),
                keep_ms: start.keep_ms,
                keep_every_commit_ms: start.keep_every_commit_ms,
                base_bytes_per_second: start.base_bytes_per_second,
                ..ArchiverOptions::default()
            },
        })
    }
}

/// The archives of one server, of which one runs at a time; clones are handles.
#[derive(Clone)]
pub struct Archives(Rc<State>);

struct State {
    executor: Executor,
    engine: Engine,
    running: RefCell<Option<Running>>,
    /// An archiver makes no more calls.
    ended: Notify,
}

struct Running {
    source: EngineSource,
    thread: ArchiveThread,
    bucket: RealBucket,
    /// Its archiver makes no more calls: its thread has ended but for its last steps.
    has_ended: Rc<Cell<bool>>,
}

impl Archives {
    /// None runs yet.
    pub fn new(executor: &Executor, engine: &Engine) -> Self {
        Self(Rc::new(State {
            executor: executor.clone(),
            engine: engine.clone(),
            running: RefCell::default(),
            ended: Notify::new(&executor.rt),
        }))
    }

    /// Starts to archive. `refused` is called when the archive ends before it has been taken over.
    ///
    /// # Errors
    /// When an archive runs already, or the store is read-only.
    pub fn start(
        &self,
        plan: ArchivePlan,
        refused: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<()> {
        let rt = &self.0.executor.rt;
        let source = begin_archive(&self.0.engine, rt, &plan.bucket.url())?;
        let (bucket, has_ended) = (plan.bucket.clone(), Rc::new(Cell::new(false)));
        match self.start_thread(plan, &source, &has_ended, refused) {
            Ok(thread) => {
                rt.spawn_detached(report_states(self.0.engine.clone()));
                *self.0.running.borrow_mut() = Some(Running {
                    source,
                    thread,
                    bucket,
                    has_ended,
                });
            }
            Err(error) => {
                source.fail(&error.to_string());
                return Err(error);
            }
        }
        Ok(())
    }

    fn start_thread(
        &self,
        plan: ArchivePlan,
        source: &EngineSource,
        has_ended: &Rc<Cell<bool>>,
        refused: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<ArchiveThread> {
        let rt = &self.0.executor.rt;
        let (calls, made) = channel(rt, 1)?;
        let (archives, source, has_ended) = (self.clone(), source.clone(), has_ended.clone());
        rt.spawn_detached(async move {
            make_calls(&source, made).await;
            has_ended.set(true);
            archives.0.ended.notify();
        });
        let caller = move |call| calls.send(call);
        let ended = move |end: ArchiveEnd| {
            if let Err(why) = end.result {
                report::note(format_args!("the archive has ended: {why}"));
                if !end.had_begun {
                    refused();
                }
            }
        };
        let caller = Box::new(caller);
        Ok(ArchiveThread::start(
            plan.bucket,
            plan.options,
            caller,
            ended,
        )?)
    }

    /// The bucket of the archive that runs.
    ///
    /// # Errors
    /// When there is no archive.
    pub fn bucket(&self) -> anyhow::Result<RealBucket> {
        let running = self.0.running.borrow();
        let running = running
            .as_ref()
            .filter(|running| !running.thread.has_ended());
        match running {
            Some(running) => Ok(running.bucket.clone()),
            None => bail!("the store is not archived; start with `tonearm archive start`"),
        }
    }

    /// Asks for a mark at commit `lsn`. The result comes through the channel, which ends without one when the archive does.
    ///
    /// # Errors
    /// When there is no archive.
    pub fn mark(&self, name: String, lsn: Lsn) -> anyhow::Result<Receiver<Result<(), String>>> {
        let running = self.0.running.borrow();
        let running = running
            .as_ref()
            .filter(|running| !running.thread.has_ended());
        let Some(running) = running else {
            bail!("the store is not archived; start with `tonearm archive start`");
        };
        let (sender, result) = channel(&self.0.executor.rt, 1)?;
        let done = Box::new(move |marked| {
            // The client may have gone.
            sender.send(marked);
        });
        running.source.mark(MarkRequest { name, lsn, done });
        Ok(result)
    }

    /// Archives what is durable, and ends. False when there was no archive.
    ///
    /// # Errors
    /// Why not everything was archived.
    pub async fn stop(&self) -> anyhow::Result<bool> {
        let rt = &self.0.executor.rt;
        let until = rt.now() + ARCHIVE_GRACE.0;
        if let Some(running) = &*self.0.running.borrow() {
            running.thread.end();
        }
        loop {
            let ended = self.0.ended.wait();
            if self.has_ended() {
                break;
            }
            if rt.now() > until {
                return Err(archive_unfinished().into());
            }
            ended.until(until + 1).await;
        }
        let Some(running) = self.0.running.take() else {
            return Ok(false);
        };
        running.thread.join().map_err(anyhow::Error::msg)?;
        Ok(true)
    }

    fn has_ended(&self) -> bool {
        let running = self.0.running.borrow();
        running
            .as_ref()
            .is_none_or(|running| running.has_ended.get())
    }
}

/// Reports changes of the archive until it has ended.
async fn report_states(engine: Engine) {
    let mut reported = Reported::default();
    loop {
        let changed = engine.archive_changed();
        let Some(info) = engine.archive() else { return };
        reported.lines(&info).into_iter().for_each(report::note);
        if info.state == ArchiveState::Ended {
            return;
        }
        changed.await;
    }
}

/// What was reported of an archive.
#[derive(Default)]
struct Reported {
    is_waiting: bool,
    lacks_base: bool,
    clock_jumps: u64,
}

impl Reported {
    /// The lines for what has changed: the archive waits or goes on, it cannot make a base, the clock was set.
    fn lines(&mut self, info: &ArchiveInfo) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(why) = &info.notes.unbased
            && !self.lacks_base
        {
            lines.push(format!(
                "the archive at {} cannot make a new base: {why}",
                info.url
            ));
        }
        self.lacks_base = info.notes.unbased.is_some();
        if info.clock_jumps > self.clock_jumps {
            let clock = info.clock.as_deref().unwrap_or_default();
            lines.push(format!("the archive at {}: {clock}", info.url));
        }
        self.clock_jumps = info.clock_jumps;
        match info.state {
            ArchiveState::Waiting if !self.is_waiting => {
                let why = info.why.as_deref().unwrap_or_default();
                lines.push(format!(
                    "the archive at {} waits, and tries again until it can go on: {why}",
                    info.url
                ));
                self.is_waiting = true;
            }
            ArchiveState::Running if self.is_waiting => {
                lines.push(format!("the archive at {} goes on", info.url));
                self.is_waiting = false;
            }
            _ => {}
        }
        lines
    }
}

/// Makes the calls of an archiver until it is gone.
async fn make_calls(source: &EngineSource, mut calls: Receiver<Call>) {
    while let Some(call) = calls.recv().await {
        call(source.clone()).await;
    }
    source.end();
}

#[cfg(test)]
#[path = "archive_test.rs"]
mod archive_test;
