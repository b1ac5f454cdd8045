//! The file system of a store. It is opened when something needs it first: a store that has only volumes gets none.

use crate::files::{FilesError, FilesErrorKind};
use rustix::process::{getegid, geteuid};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};
use tonearm_disk::Disk;
use tonearm_fs::{Fs, FsError, ROOT_INO, SetAttr, Time, has_root};
use tonearm_rt::{Rt, Semaphore};

/// The file system of a store, which sessions, units and the mount share; clones are handles on the same.
#[derive(Clone)]
pub struct FileSystem(Rc<State>);

struct State {
    disk: Disk,
    rt: Rt,
    clock: Rc<dyn Fn() -> Time>,
    /// One caller opens it at a time.
    turn: Semaphore,
    open: RefCell<Option<Fs>>,
}

impl FileSystem {
    /// The file system of `disk`, which is not opened yet. Its clock is the system's.
    pub fn new(rt: &Rt, disk: &Disk) -> Self {
        Self::with_clock(rt, disk, time_of_day)
    }

    /// As [`FileSystem::new`], with a clock of the caller's.
    pub fn with_clock(rt: &Rt, disk: &Disk, clock: impl Fn() -> Time + 'static) -> Self {
        Self(Rc::new(State {
            disk: disk.clone(),
            rt: rt.clone(),
            clock: Rc::new(clock),
            turn: Semaphore::new(rt, 1),
            open: RefCell::new(None),
        }))
    }

    /// Opens it, if it is not open. Makes it if there is none.
    ///
    /// # Errors
    /// As for [`Fs::open`].
    pub async fn get(&self) -> Result<Fs, FsError> {
        let State {
            disk,
            rt,
            clock,
            turn,
            open,
        } = &*self.0;
        if let Some(fs) = &*open.borrow() {
            return Ok(fs.clone());
        }
        let _turn = turn.acquire(1).await;
        if let Some(fs) = &*open.borrow() {
            return Ok(fs.clone());
        }
        let (is_new, clock) = (!has_root(disk).await?, clock.clone());
        let fs = Fs::open(disk, rt, move || clock()).await?;
        if is_new {
            give_root(&fs).await?;
        }
        *open.borrow_mut() = Some(fs.clone());
        Ok(fs)
    }

    /// Opens it, if it is not open. `None` when there is none.
    ///
    /// # Errors
    /// As for [`Fs::open`].
    pub async fn find(&self) -> Result<Option<Fs>, FsError> {
        if let Some(fs) = &*self.0.open.borrow() {
            return Ok(Some(fs.clone()));
        }
        if has_root(&self.0.disk).await? {
            self.get().await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// Closes it. Calls that are under way go on.
    pub(crate) fn close(&self) {
        self.0.open.take();
    }
}

/// The root directory of a new file system belongs to the user who has made it.
async fn give_root(fs: &Fs) -> Result<(), FsError> {
    let owner = SetAttr {
        uid: Some(geteuid().as_raw()),
        gid: Some(getegid().as_raw()),
        ..SetAttr::default()
    };
    fs.set_attr(ROOT_INO, owner).await.map(drop)
}

/// The system's clock.
fn time_of_day() -> Time {
    let now = SystemTime::now();
    match now.duration_since(UNIX_EPOCH) {
        Ok(since) => Time {
            s: since.as_secs() as i64,
            ns: since.subsec_nanos(),
        },
        // A clock before 1970 has not been set.
        Err(_) => Time::default(),
    }
}

impl From<FsError> for FilesError {
    fn from(error: FsError) -> Self {
        let kind = match &error {
            FsError::Disk(_) => FilesErrorKind::Failed,
            FsError::NotFound => FilesErrorKind::NotFound,
            FsError::Exists => FilesErrorKind::Exists,
            FsError::UnitTooLarge => FilesErrorKind::NoSpace,
            FsError::Damaged(_) => FilesErrorKind::Damaged,
            FsError::Conflict(_) => FilesErrorKind::Conflict,
            FsError::Busy(_) => FilesErrorKind::Busy,
            _ => FilesErrorKind::Failed,
        };
        match error {
            FsError::Disk(error) => error.into(),
            error => Self::new(kind, error.to_string()),
        }
    }
}
