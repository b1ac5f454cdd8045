//! The thread that writes an archive.

use crate::error::StoreError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tonearm_archive::{
    ArchiveError, Archiver, ArchiverOptions, Blocks, Bucket, EngineSource, KnownCommit,
    MarkRequest, ReadResult, SeekResult, Source, StoreShape,
};
use tonearm_base::Nanos;
use tonearm_engine::ArchiveInfo;
use tonearm_rt::Boxed;

/// How long an archiver may take at its end.
pub const ARCHIVE_GRACE: Nanos = Nanos::from_secs(30);

/// A call that is to be made on the engine's thread. It keeps its result to itself.
pub type Call = Box<dyn FnOnce(EngineSource) -> Boxed<'static, ()> + Send>;
/// Brings a call to the engine's thread; false when that has ended.
pub type Caller = Box<dyn Fn(Call) -> bool + Send>;

/// How an archiver has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveEnd {
    /// Why it has ended before everything was archived.
    pub result: Result<(), String>,
    /// It has taken the archive over before. If not, the address or the place cannot be used.
    pub had_begun: bool,
}

/// A running archiver.
pub struct ArchiveThread {
    ending: Arc<Ending>,
    /// Closed when it has ended.
    gone: Receiver<()>,
    thread: JoinHandle<Result<(), String>>,
}

/// Whether an archiver is to end.
#[derive(Default)]
struct Ending {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Ending {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_set(&self) -> bool {
        *self.lock()
    }

    fn set(&self) {
        *self.lock() = true;
        self.changed.notify_all();
    }

    /// Waits until it is set, no longer than for `span`.
    fn wait(&self, span: Duration) {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), span, |is_set| !*is_set);
        drop(waited);
    }
}

/// A source on another thread.
struct ThreadSource {
    caller: Caller,
    ending: Arc<Ending>,
}

impl ThreadSource {
    /// Makes a call and waits for its result. Nothing else runs on this thread: requests to the bucket run on those of its
    /// runtime.
    fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(EngineSource) -> Boxed<'static, Result<T, ArchiveError>> + Send + 'static,
    ) -> Boxed<'_, Result<T, ArchiveError>> {
        let (sender, result) = channel();
        let sent = (self.caller)(Box::new(move |source| {
            Box::pin(async move {
                // The archiver waits for it.
                let _ = sender.send(call(source).await);
            })
        }));
        let result = if sent {
            result.recv().unwrap_or(Err(ArchiveError::Closed))
        } else {
            Err(ArchiveError::Closed)
        };
        Box::pin(async { result })
    }
}

impl Source for ThreadSource {
    fn shape(&self) -> Boxed<'_, Result<StoreShape, ArchiveError>> {
        self.call(|source| Box::pin(async move { source.shape().await }))
    }

    fn seek(&self, known: Vec<KnownCommit>) -> Boxed<'_, Result<SeekResult, ArchiveError>> {
        self.call(move |source| Box::pin(async move { source.seek(known).await }))
    }

    fn rest(&self, span: Nanos) -> Boxed<'_, Result<bool, ArchiveError>> {
        self.call(move |source| Box::pin(async move { source.rest(span).await }))
    }

    fn read(&self, bytes: u64, moved_max: u64) -> Boxed<'_, Result<ReadResult, ArchiveError>> {
        self.call(move |source| Box::pin(async move { source.read(bytes, moved_max).await }))
    }

    fn blocks(&self, first: u64, bytes: u64) -> Boxed<'_, Result<Blocks, ArchiveError>> {
        self.call(move |source| Box::pin(async move { source.blocks(first, bytes).await }))
    }

    fn report(&self, info: ArchiveInfo) -> Boxed<'_, Result<Vec<MarkRequest>, ArchiveError>> {
        self.call(move |source| Box::pin(async move { source.report(info).await }))
    }

    fn sleep(&self, span: Nanos) -> Boxed<'_, ()> {
        Box::pin(async move {
            let span = Duration::from_nanos(span.0);
            // Nothing else runs on this thread. An archiver that is to end looks at once, and then waits as it says.
            if self.is_ending() {
                std::thread::sleep(span);
            } else {
                self.ending.wait(span);
            }
        })
    }

    fn unix_ms(&self) -> u64 {
        unix_ms()
    }

    fn now(&self) -> Nanos {
        // It goes on while the machine sleeps.
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    fn is_ending(&self) -> bool {
        self.ending.is_set()
    }
}

/// The error for an archiver that does not end within [`ARCHIVE_GRACE`].
pub fn archive_unfinished() -> StoreError {
    StoreError::Archive(
        "the archive has not got everything within 30 s; what is missing is in the log, and the next opening archives it".into(),
    )
}

/// Milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_millis() as u64
}

/// What an archive says of its writer when the caller names none.
fn this_process() -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    format!("process {} on {host}", std::process::id())
}

impl ArchiveThread {
    /// Starts to archive, in `bucket`, the store that `caller` reaches. `ended` is called at the end.
    /// [`ArchiverOptions::creator`] is this process where it is empty.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(
        bucket: impl Bucket + Send + 'static,
        mut options: ArchiverOptions,
        caller: Caller,
        ended: impl FnOnce(ArchiveEnd) + Send + 'static,
    ) -> std::io::Result<Self> {
        if options.creator.is_empty() {
            options.creator = this_process();
        }
        let ending = Arc::new(Ending::default());
        let (present, gone) = channel();
        let source = ThreadSource {
            caller,
            ending: ending.clone(),
        };
        let thread = std::thread::Builder::new().name("archive".into());
        let thread = thread.spawn(move || {
            let _present = present;
            let result = catch_unwind(AssertUnwindSafe(|| {
                let mut archiver = Archiver::new(&bucket, &source, options);
                let result = pollster::block_on(archiver.run());
                (result, archiver.has_begun())
            }));
            let had_begun = !matches!(result, Ok((_, false)));
            let result = match result {
                Ok((result, _)) => result.map_err(|error| error.to_string()),
                Err(_) => {
                    let why = "the archive's thread has panicked";
                    (source.caller)(Box::new(move |source| {
                        Box::pin(async move { source.fail(why) })
                    }));
                    Err(why.to_string())
                }
            };
            ended(ArchiveEnd {
                result: result.clone(),
                had_begun,
            });
            result
        })?;
        Ok(Self {
            ending,
            gone,
            thread,
        })
    }

    /// Lets it archive what is durable, and end.
    pub fn end(&self) {
        self.ending.set();
    }

    /// True when it has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its end; false when it has not ended after `span`.
    pub fn ends_within(&self, span: Duration) -> bool {
        self.gone.recv_timeout(span) == Err(RecvTimeoutError::Disconnected)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Why it has ended before everything was archived.
    pub fn join(self) -> Result<(), String> {
        let ended = self.thread.join();
        ended.unwrap_or_else(|_| Err("the archive's thread has panicked".into()))
    }

    /// Lets it end. False when it has not ended within [`ARCHIVE_GRACE`].
    pub(crate) fn has_ended_in_time(&self) -> bool {
        self.end();
        self.ends_within(Duration::from_nanos(ARCHIVE_GRACE.0))
    }

    /// Lets the archiver of a store that is about to be closed get everything, and waits for its end. `flush` makes durable what
    /// it is to get.
    ///
    /// # Errors
    /// When not everything was archived.
    pub(crate) fn finish(
        self,
        flush: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        // After a failure of the log the archiver gets what was durable before.
        let flushed = flush();
        if !self.has_ended_in_time() {
            return Err(archive_unfinished());
        }
        self.join().map_err(StoreError::Archive)?;
        flushed
    }
}
