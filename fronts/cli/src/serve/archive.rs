//! The archive of a store that is served.
//!
//! The archiver has a thread of its own, and calls an [`EngineSource`] on the engine's thread. The calls come through a channel
//! of their own, because they are still made when the mailbox is closed: at the end the archiver gets everything that clients
//! have written.

use crate::control::ArchiveStart;
use anyhow::bail;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, channel, sync_channel};
use tonearm_archive::{ArchiverOptions, Bucket, EngineSource, MarkRequest};
use tonearm_base::{Lsn, Nanos};
use tonearm_bucket::{RealBucket, Writer};
use tonearm_engine::{ArchiveInfo, ArchiveState, Engine};
use tonearm_rt::{Data, DeviceId, Op};
use tonearm_store::{
    ARCHIVE_GRACE, ArchiveEnd, ArchiveThread, Call, Executor, archive_unfinished, begin_archive,
};
use tonearm_terminal::report;
use tonearm_uring::EventSender;

/// How often the end of an archiver is looked for.
const LOOK: Nanos = Nanos::from_millis(20);

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
}

struct Running {
    source: EngineSource,
    thread: ArchiveThread,
    bucket: RealBucket,
}

impl Archives {
    /// None runs yet.
    pub fn new(executor: &Executor, engine: &Engine) -> Self {
        Self(Rc::new(State {
            executor: executor.clone(),
            engine: engine.clone(),
            running: RefCell::default(),
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
        let bucket = plan.bucket.clone();
        match self.start_thread(plan, &source, refused) {
            Ok(thread) => {
                rt.spawn_detached(report_states(self.0.engine.clone()));
                *self.0.running.borrow_mut() = Some(Running {
                    source,
                    thread,
                    bucket,
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
        refused: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<ArchiveThread> {
        let (bell, ring) = self.0.executor.handle.add_event()?;
        let (calls, made) = sync_channel(1);
        let rt = &self.0.executor.rt;
        rt.spawn_detached(make_calls(self.clone(), source.clone(), bell, made));
        let line = Line {
            calls,
            ring: NotifyOnDrop(ring),
        };
        let caller = move |call| line.send(call);
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

    /// Asks for a mark at commit `lsn`. The result comes through the channel.
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
        let (done, result) = channel();
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
        while !self.has_ended() {
            if rt.now() > until {
                return Err(archive_unfinished().into());
            }
            rt.sleep(LOOK).await;
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
            .is_none_or(|running| running.thread.has_ended())
    }
}

/// Reports changes of the archive until it has ended.
async fn report_states(engine: Engine) {
    let mut reported = Reported::default();
    loop {
        let changed = engine.archive_told();
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

/// The archiver's end of the channel. When it is dropped, the engine's thread is woken once the channel is gone.
struct Line {
    calls: SyncSender<Call>,
    ring: NotifyOnDrop,
}

struct NotifyOnDrop(EventSender);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify();
    }
}

impl Line {
    fn send(&self, call: Call) -> bool {
        let sent = self.calls.send(call).is_ok();
        self.ring.0.notify();
        sent
    }
}

/// Makes the calls of an archiver until it is gone.
async fn make_calls(
    archives: Archives,
    source: EngineSource,
    bell: DeviceId,
    calls: Receiver<Call>,
) {
    let Executor { rt, pool, .. } = &archives.0.executor;
    let mut buf = pool.alloc(8);
    loop {
        match calls.try_recv() {
            Ok(call) => call(source.clone()).await,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                let (result, data) = rt.stream(bell, Op::Recv, Data::whole(buf)).await;
                buf = data.into_buf();
                if result.is_err() {
                    break;
                }
            }
        }
    }
    source.end();
    let (_closed, _) = rt.stream(bell, Op::Close, Data::None).await;
}

#[cfg(test)]
#[path = "archive_test.rs"]
mod archive_test;
