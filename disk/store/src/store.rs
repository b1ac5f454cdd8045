//! An open store that the threads of a program share.

use crate::aru::Units;
use crate::error::StoreError;
use crate::executor::Executor;
use crate::files::LocalFiles;
use crate::lead::{Engine, Lead};
use crate::members::{Members, open_disk};
use crate::session::Sessions;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tonearm_base::Nanos;
use tonearm_disk::{Disk, OpenOptions};
use tonearm_rt::Rt;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Where its members are.
    pub members: Members,
    /// Memory, acknowledgement, reading alone and so on.
    pub open: OpenOptions,
    /// How long [`open_files`](crate::open_files) waits for a server that has gone away.
    pub server_wait: Duration,
}

/// How long a commit that nobody waits for may stay in this process; see [`OpenOptions::linger`].
const LINGER: Nanos = Nanos::from_millis(1);
/// A supervisor starts a server again within seconds.
const SERVER_WAIT: Duration = Duration::from_secs(10);

impl Default for StoreOptions {
    fn default() -> Self {
        let open = OpenOptions {
            linger: LINGER,
            ..OpenOptions::default()
        };
        Self {
            members: Members::default(),
            open,
            server_wait: SERVER_WAIT,
        }
    }
}

/// An open store, shared by threads; cheap to clone. Whoever calls first drives the engine on its own thread until
/// its job is done, and the others hand their jobs to it: a thread that is alone never waits for another one.
///
/// Dropping the last clone closes the store in order, which may take as long as [`Store::close`]; errors are lost
/// then.
///
/// The kernel may interrupt system calls (`EINTR`) of a thread that has called the store, while what it began goes on.
/// A store must not be used in a child of fork(2): it refuses there ([`StoreError::Forked`]).
#[derive(Clone)]
pub struct Store(Arc<Handle>);

/// What a job has at hand; cheap to clone, and of the engine alone.
#[derive(Clone)]
pub struct Context {
    /// The volumes, files, units and lists.
    pub disk: Disk,
    /// Tasks, timers and the clock.
    pub rt: Rt,
    pub(crate) sessions: Sessions,
    pub(crate) units: Units,
}

impl Context {
    fn new(disk: Disk, rt: Rt) -> Self {
        let sessions = Sessions::new(&disk);
        let units = Units::default();
        Self {
            disk,
            rt,
            sessions,
            units,
        }
    }
}

struct Handle(Arc<Lead>);

impl Store {
    /// Opens the store at `path`, and recovers it if need be.
    ///
    /// # Errors
    /// When its members cannot be opened or are in use, or recovery fails.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Store, StoreError> {
        let (executor, aside) = Executor::shared()?;
        let opened = open_disk(&executor, path, &options.members, options.open, |_| {});
        let Executor { rt, .. } = executor;
        let disk = match opened {
            Ok(disk) => disk,
            Err(error) => {
                // Lets go of the members.
                rt.shut_down();
                return Err(error);
            }
        };
        let context = Context::new(disk, rt);
        let lead = Lead::start(Engine::new(context), aside)?;
        Ok(Self(Arc::new(Handle(lead))))
    }

    /// A store over any executor, for worlds that are simulated: no thread is started, and only the calling
    /// thread may use it. The executor stays the caller's: closing the store does not shut it down.
    pub fn over(rt: Rt, disk: Disk) -> Store {
        let context = Context::new(disk, rt);
        Self(Arc::new(Handle(Lead::of_one_thread(Engine::new(context)))))
    }

    /// Runs `job` beside those of other threads, and waits for its end. A job that panics does so here, on
    /// the calling thread, and disturbs no other.
    ///
    /// The job may run on another thread that is in such a call. It must wait for nothing but what its context
    /// gives, must not call the store, and must not keep parts of the context in thread-local storage: the engine
    /// moves on to other threads.
    ///
    /// # Errors
    /// When the store is closed, has panicked, or is called where it must not be.
    pub fn run<T, F>(
        &self,
        job: impl FnOnce(Context) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        self.0.0.run(job)
    }

    /// Its number among the stores that this process has open.
    pub(crate) fn number(&self) -> usize {
        Arc::as_ptr(&self.0.0).addr()
    }

    /// Whether the store may be called here and is open: what [`Store::run`] looks at first.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.0.0.check()
    }

    /// Begins a session with the files of the store.
    ///
    /// # Errors
    /// As for [`Store::run`].
    pub fn files(&self) -> Result<LocalFiles, StoreError> {
        LocalFiles::new(self)
    }

    /// Ends open sessions and units, writes everything home and marks the store clean. Calls that are under way
    /// may fail with [`StoreError::Closed`], and later ones do.
    ///
    /// # Errors
    /// When something cannot be written (the next opening recovers it then), or it was closed before.
    pub fn close(&self) -> Result<(), StoreError> {
        self.0.0.close()
    }
}

/// A store that others may close.
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
        self.0.abandon();
    }
}
