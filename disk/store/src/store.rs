//! An open store that the threads of a program share.

use crate::archive::ArchiveThread;
use crate::error::StoreError;
use crate::executor::Executor;
use crate::files::{FileSystem, Sessions};
use crate::leader::{Engine, Leader, Platform};
use crate::members::{Members, open_disk};
use crate::units::Units;
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tonearm_archive::EngineSource;
use tonearm_base::Nanos;
use tonearm_disk::{Disk, DiskError, OpenOptions, StoreEvent, StoreStats};
use tonearm_fs::Time;
use tonearm_rt::Rt;
use tonearm_uring::{Call, Calls, MadeCall, RingWatch};

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Where its members are.
    pub members: Members,
    /// Memory, acknowledgement, reading alone and so on.
    pub open: OpenOptions,
    /// How long [`open_files`](crate::files::open_files) waits for a server that has gone away.
    pub server_wait: Duration,
}

/// How long a commit for which no thread waits may stay in this process; see [`OpenOptions::commit_delay`].
const COMMIT_DELAY: Nanos = Nanos::from_millis(1);
/// A supervisor starts a server again within seconds.
const SERVER_WAIT: Duration = Duration::from_secs(10);

impl Default for StoreOptions {
    fn default() -> Self {
        let open = OpenOptions {
            commit_delay: COMMIT_DELAY,
            ..OpenOptions::default()
        };
        Self {
            members: Members::default(),
            open,
            server_wait: SERVER_WAIT,
        }
    }
}

/// An open store, shared by threads; cheap to clone. A thread that calls the store runs the engine itself, unless
/// another thread runs it at that moment. In that case it hands its job over. A single thread never waits for another
/// one.
///
/// Dropping the last clone closes the store in order, which may take as long as [`Store::close`]; errors are lost
/// then.
///
/// The kernel may interrupt system calls (`EINTR`) of a thread that has called the store, while what it began goes on.
/// A store must not be used in a child of fork(2): it refuses there ([`StoreError::Forked`]).
#[derive(Clone)]
pub struct Store(Arc<Handle>);

/// The context of a job; cheap to clone. It belongs to the engine and stays in its jobs.
#[derive(Clone)]
pub struct Context {
    /// The volumes, units and lists.
    pub disk: Disk,
    /// Tasks, timers and the clock.
    pub rt: Rt,
    /// The file system.
    pub files: FileSystem,
    pub(crate) sessions: Sessions,
    pub(crate) units: Units,
    /// What the archiver reads, if there is one.
    pub(crate) archive: Rc<RefCell<Option<EngineSource>>>,
}

impl Context {
    fn new(disk: Disk, rt: Rt, files: FileSystem) -> Self {
        let sessions = Sessions::new(&rt, &disk, &files);
        let units = sessions.units().clone();
        Self {
            disk,
            rt,
            files,
            sessions,
            units,
            archive: Rc::default(),
        }
    }
}

struct Handle {
    path: PathBuf,
    leader: Arc<Leader<Uring>>,
    archive: Mutex<Option<ArchiveThread>>,
}

impl Handle {
    fn new(leader: Arc<Leader<Uring>>, path: PathBuf) -> Arc<Self> {
        let archive = Mutex::default();
        Arc::new(Self {
            path,
            leader,
            archive,
        })
    }
}

/// The platform of a store that threads share: the ring and its clock.
pub(crate) struct Uring(RingWatch);

impl Platform for Uring {
    type Context = Context;
    type Calls = Calls;
    type Call = Call;
    type CallResult = MadeCall;

    fn rt(context: &Context) -> &Rt {
        &context.rt
    }

    fn take_call(calls: &Calls) -> Option<Call> {
        calls.take()
    }

    fn end_call(calls: &Calls, made: MadeCall) {
        calls.end(made);
    }

    fn calls_under_way(calls: &Calls) -> usize {
        calls.under_way()
    }

    fn make(&self, call: Call) -> MadeCall {
        call.make()
    }

    fn watch(&self, until: Option<Nanos>) {
        let left = until.map(|until| Duration::from_nanos(until.since(self.now()).0));
        self.0.wait(left);
    }

    fn interrupt_watch(&self) {
        self.0.interrupt();
    }

    fn now(&self) -> Nanos {
        let now = clock_gettime(ClockId::Monotonic);
        Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }
}

/// A time of an executor's clock as one of day.
fn time_since_start(Nanos(now): Nanos) -> Time {
    Time {
        s: (now / 1_000_000_000) as i64,
        ns: (now % 1_000_000_000) as u32,
    }
}

/// Ends the archive of a store that is about to be closed.
fn end_archive(leader: &Leader<Uring>, thread: ArchiveThread) -> Result<(), StoreError> {
    thread.finish(|| Ok(leader.run(|context| async move { context.disk.flush().await })??))
}

/// The last job of a store.
async fn close(context: Context) -> Result<(), DiskError> {
    context.sessions.end_all();
    context.units.close();
    context.files.close();
    context.disk.close().await
}

impl Store {
    /// Opens the store at `path`, and recovers it if need be.
    ///
    /// # Errors
    /// When its members cannot be opened or are in use, or recovery fails.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Store, StoreError> {
        // The program may change its directory later.
        let own_path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let (executor, calls, watch) = Executor::shared()?;
        let opened = open_disk(&executor, path, &options.members, options.open, |_| {});
        let Executor { rt, .. } = executor;
        let disk = match opened {
            Ok(disk) => disk,
            Err(error) => {
                // Releases the members.
                rt.shut_down();
                return Err(error);
            }
        };
        let files = FileSystem::new(&rt, &disk);
        let context = Context::new(disk, rt, files);
        let leader = Leader::start(Engine::new(context, Some(calls)), Uring(watch))?;
        Ok(Self(Handle::new(leader, own_path)))
    }

    /// Where it lies, as an absolute path; empty for a store in a simulated world. The writer of its archives notes beside it
    /// where they are (`Writer::of_store` of `tonearm-bucket`).
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// A store over any executor, for simulated worlds: no thread is started, and only the calling thread may use it.
    /// The executor stays the caller's: closing the store does not shut it down. Times of
    /// files are those of the executor's clock.
    pub fn over(rt: Rt, disk: Disk) -> Store {
        let clock = rt.clone();
        let files = FileSystem::with_clock(&rt, &disk, move || time_since_start(clock.now()));
        let context = Context::new(disk, rt, files);
        let leader = Leader::of_one_thread(Engine::new(context, None));
        Self(Handle::new(leader, PathBuf::new()))
    }

    /// Runs `job` beside those of other threads, and waits for its end. If the job panics, the panic goes on here, on
    /// the calling thread, and affects no other job.
    ///
    /// # Errors
    /// When the store is closed, has panicked, or is called where it must not be.
    ///
    /// # Safety
    /// The job may run on any thread that calls the store, and may change threads where it waits. Its future is not
    /// `Send`, because it holds handles of the engine, so the compiler does not check these rules:
    ///
    /// - The job puts no part of its context where other jobs or threads find it (thread-local storage, for example).
    /// - Where the job waits, it holds nothing of its thread: no value of thread-local storage, no guard of a lock.
    ///
    /// Also, a job waits only for what its context gives. It does not call the store, which refuses such calls.
    pub unsafe fn run_job<T, F>(
        &self,
        job: impl FnOnce(Context) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        self.run(job)
    }

    /// [`Store::run_job`] for the jobs of this crate, which keep its rules.
    pub(crate) fn run<T, F>(
        &self,
        job: impl FnOnce(Context) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        self.0.leader.run(job)
    }

    /// Counters and gauges.
    ///
    /// # Errors
    /// When the store is closed, has panicked, or is called where it must not be.
    pub fn stats(&self) -> Result<StoreStats, StoreError> {
        self.run(|context| async move { context.disk.stats() })
    }

    /// What has happened to the store and its drives since the opening, of each class in its order: a failed drive, a
    /// damaged block, space that has ended.
    ///
    /// # Errors
    /// As for [`Store::stats`].
    pub fn events(&self) -> Result<Vec<StoreEvent>, StoreError> {
        self.run(|context| async move { context.disk.engine().events().kept() })
    }

    /// Its number among the stores that this process has open.
    pub(crate) fn number(&self) -> usize {
        Arc::as_ptr(&self.0.leader).addr()
    }

    /// Checks that the store may be called here and is open, as each job does first.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.0.leader.check()
    }

    pub(crate) fn leader(&self) -> &Arc<Leader<Uring>> {
        &self.0.leader
    }

    /// The thread of the archive. In a child process the lock may be another thread's for ever: [`Store::check`] first.
    pub(crate) fn archive_thread(&self) -> MutexGuard<'_, Option<ArchiveThread>> {
        let archive = self.0.archive.lock();
        archive.unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends open sessions and units, writes everything home and marks the store clean. Calls that are under way may
    /// fail with [`StoreError::Closed`], and later calls do. An archive gets everything before, within 30 seconds.
    ///
    /// # Errors
    /// When something cannot be written (the next opening recovers it then), or it was closed before. When the store is
    /// closed in order, and the archive has not got everything.
    pub fn close(&self) -> Result<(), StoreError> {
        self.check()?;
        let thread = self.archive_thread().take();
        let archived = thread.map_or(Ok(()), |thread| end_archive(&self.0.leader, thread));
        self.0.leader.close(close)??;
        archived
    }
}

/// A handle that does not keep the store open.
pub(crate) struct WeakStore(Weak<Handle>);

impl Store {
    pub(crate) fn downgrade(&self) -> WeakStore {
        WeakStore(Arc::downgrade(&self.0))
    }
}

impl WeakStore {
    /// The store, unless its last handle is gone.
    pub fn upgrade(&self) -> Option<Store> {
        self.0.upgrade().map(Store)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let archive = self.archive.get_mut();
        let archive = archive.unwrap_or_else(PoisonError::into_inner).take();
        // No caller is left to get the errors.
        let before = move |leader: &Arc<Leader<Uring>>| {
            let _ = archive.map(|thread| end_archive(leader, thread));
        };
        self.leader
            .abandon(before, |context| async { drop(close(context).await) });
    }
}
