//! Sessions on the engine's side: the files and units that a client has open, and the operations of `files::Files` as
//! async code over the disk. `LocalFiles` calls them in this process, and a server calls them for its clients through
//! the protocol in `remote`.
//!
//! A session ends in this order: its units are aborted; then its locks are released.

mod attrs;
mod content;
mod locks;
mod names;

use crate::files::{AruId, FileId, FileSystem, FilesError, FilesErrorKind, Level};
use crate::open_unit::OpenUnit;
use crate::units::{NotAvailable, Taken, UnitId, Units};
pub(crate) use locks::SharedLocks;
pub(crate) use names::{make, named};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::{Lsn, Nanos};
use tonearm_disk::{Ack, Changes, Disk, DiskError, Marks, Volume};
use tonearm_engine::ArchiveInfo;
use tonearm_fs::{AccessPath, Fs, FsError};
use tonearm_rt::Rt;

/// Most open files of a session.
const FILES_MAX: usize = 1024;
/// Most runs of one answer about what is allocated.
const RUNS_MAX: usize = 4096;
/// Most open units of a session.
const ARUS_MAX: usize = 256;
/// Locks of files have this bit beside the file's number. Those of volumes have their serial number.
const FILE_BIT: u64 = 1 << 63;
/// Permissions of a new file.
pub(crate) const FILE_MODE: u32 = 0o100_600;
/// Those of a new directory.
const DIRECTORY_MODE: u32 = 0o040_755;
/// Files of one part of a listing.
const LISTED: usize = 192;
/// How long the kernel may take to report that a program has closed a file on the mount.
const CLOSING: Nanos = Nanos::from_millis(500);
const BETWEEN_LOOKS: Nanos = Nanos::from_millis(5);

/// All sessions with a disk; cheap to clone.
#[derive(Clone)]
pub struct Sessions(Rc<State>);

struct State {
    disk: Disk,
    rt: Rt,
    system: FileSystem,
    locks: SharedLocks,
    units: Units,
    open: RefCell<BTreeMap<u64, Session>>,
    next: Cell<u64>,
}

/// One client's session; clones are handles on the same.
#[derive(Clone)]
pub(crate) struct Session(Rc<SessionState>);

/// A file that has just been opened.
pub(crate) struct Opened {
    /// The handle.
    pub file: FileId,
    /// The file's serial number.
    pub serial: u64,
    /// Counts the commits that change it.
    pub changes: Changes,
}

struct SessionState {
    number: u64,
    sessions: Sessions,
    files: RefCell<BTreeMap<FileId, OpenFile>>,
    next_file: Cell<u64>,
}

/// What a handle stands for.
#[derive(Clone)]
enum OpenFile {
    Volume(Volume),
    File(Rc<Handle>),
}

/// A file that is kept open.
struct Handle {
    fs: Fs,
    ino: u64,
    /// Counts the commits that change it.
    changes: Changes,
}

impl Handle {
    fn open(fs: &Fs, ino: u64) -> Result<OpenFile, FsError> {
        let fs = fs.committed();
        fs.open_handle(ino)?;
        let changes = fs.changes(ino);
        Ok(OpenFile::File(Rc::new(Self { fs, ino, changes })))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.fs.close_handle(self.ino);
    }
}

impl OpenFile {
    /// Its name among the locks.
    fn serial(&self) -> u64 {
        match self {
            Self::Volume(volume) => volume.serial(),
            Self::File(file) => file.ino | FILE_BIT,
        }
    }

    fn changes(&self) -> Changes {
        match self {
            Self::Volume(volume) => volume.changes(),
            Self::File(file) => file.changes.clone(),
        }
    }
}

impl Sessions {
    /// No sessions yet.
    pub fn new(rt: &Rt, disk: &Disk, system: &FileSystem) -> Self {
        Self(Rc::new(State {
            disk: disk.clone(),
            rt: rt.clone(),
            system: system.clone(),
            locks: SharedLocks::default(),
            units: Units::default(),
            open: RefCell::default(),
            next: Cell::new(1),
        }))
    }

    /// The locks of all sessions.
    pub(crate) fn locks(&self) -> &SharedLocks {
        &self.0.locks
    }

    /// The units of all sessions, and those of no session.
    pub(crate) fn units(&self) -> &Units {
        &self.0.units
    }

    /// Begins a session; its number.
    pub(crate) fn begin(&self) -> u64 {
        let number = self.0.next.replace(self.0.next.get() + 1);
        let session = Session(Rc::new(SessionState {
            number,
            sessions: self.clone(),
            files: RefCell::default(),
            next_file: Cell::new(1),
        }));
        self.0.open.borrow_mut().insert(number, session);
        number
    }

    /// The session `number`.
    ///
    /// # Errors
    /// When it has ended.
    pub(crate) fn get(&self, number: u64) -> Result<Session, FilesError> {
        let open = self.0.open.borrow();
        let session = open.get(&number).cloned();
        session.ok_or_else(|| failed("the session has ended"))
    }

    /// Sessions that have the volume `name` open.
    pub(crate) fn volume_users(&self, name: &str) -> usize {
        let is_it =
            |file: &OpenFile| matches!(file, OpenFile::Volume(volume) if volume.name() == name);
        let open = self.0.open.borrow();
        let uses = |session: &&Session| session.0.files.borrow().values().any(is_it);
        open.values().filter(uses).count()
    }

    /// Ends the session `number`, if it is open.
    pub(crate) fn end(&self, number: u64) {
        let session = self.0.open.borrow_mut().remove(&number);
        if let Some(session) = session {
            session.end_all();
        }
    }

    /// Ends all sessions.
    pub(crate) fn end_all(&self) {
        let sessions = std::mem::take(&mut *self.0.open.borrow_mut());
        for session in sessions.into_values() {
            session.end_all();
        }
    }
}

impl Session {
    fn disk(&self) -> &Disk {
        &self.0.sessions.0.disk
    }

    fn system(&self) -> &FileSystem {
        &self.0.sessions.0.system
    }

    /// The file system; `None` when there is none.
    async fn fs(&self) -> Result<Option<Fs>, FilesError> {
        let fs = self.system().find().await?;
        Ok(fs.map(|fs| fs.via(AccessPath::Session)))
    }

    /// The file system, made if there is none.
    async fn fs_to_change(&self) -> Result<Fs, FilesError> {
        Ok(self.system().get().await?.via(AccessPath::Session))
    }

    fn locks(&self) -> &SharedLocks {
        self.0.sessions.locks()
    }

    fn units(&self) -> &Units {
        self.0.sessions.units()
    }

    fn unit(&self, id: AruId) -> UnitId {
        UnitId {
            session: self.0.number,
            number: id.0,
        }
    }

    fn end_all(&self) {
        self.units().end_session(self.0.number);
        self.0.files.borrow_mut().clear();
        self.locks().release(self.0.number);
    }

    /// Opens a volume.
    pub fn open_volume(&self, name: &str) -> Result<Opened, FilesError> {
        self.check_files()?;
        match self.disk().volume(name) {
            Ok(volume) => Ok(self.opened(OpenFile::Volume(volume))),
            Err(DiskError::NoVolume(_)) => {
                let text = format!("there is no volume {name:?}; `tonearm volume list` shows all");
                Err(FilesError::new(FilesErrorKind::NotFound, text))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn check_files(&self) -> Result<(), FilesError> {
        if self.0.files.borrow().len() < FILES_MAX {
            Ok(())
        } else {
            Err(failed(format!(
                "the session has {FILES_MAX} files open, as many as it may; close some"
            )))
        }
    }

    fn opened(&self, open: OpenFile) -> Opened {
        let file = FileId(self.0.next_file.replace(self.0.next_file.get() + 1));
        let (serial, changes) = (open.serial(), open.changes());
        self.0.files.borrow_mut().insert(file, open);
        Opened {
            file,
            serial,
            changes,
        }
    }

    pub fn close(&self, file: FileId) {
        let open = self.0.files.borrow_mut().remove(&file);
        if let Some(open) = open {
            let locks = self.locks();
            let released = locks.unlock(open.serial(), self.holder(file), Level::None);
            debug_assert!(released.is_ok(), "a lock can always be given up");
        }
    }

    /// Counts the commits that have changed names.
    pub fn names(&self) -> Changes {
        self.disk().names()
    }

    /// How many commits have changed the file.
    pub fn count(&self, file: FileId) -> Result<u64, FilesError> {
        Ok(self.file(file)?.changes().count())
    }

    /// The committed size of the file, if it is known without a look at the store.
    pub fn known_size(&self, file: FileId) -> Option<u64> {
        match self.file(file).ok()? {
            OpenFile::Volume(volume) => Some(volume.size_bytes()),
            OpenFile::File(file) => file.fs.known_size(file.ino),
        }
    }

    /// Opens a unit under a number of the client's choice.
    pub fn begin(&self, id: AruId) -> Result<(), FilesError> {
        if self.units().count(self.0.number) >= ARUS_MAX {
            return Err(failed(format!(
                "the session has {ARUS_MAX} units open, as many as it may; end some"
            )));
        }
        if self.has(id) {
            return Err(failed(format!("unit {} is open already", id.0)));
        }
        self.units()
            .insert(self.unit(id), OpenUnit::new(self.disk().begin()));
        Ok(())
    }

    /// Ends a unit. It is durable when [`Session::acknowledge`] of the result ends.
    pub async fn end(&self, id: AruId) -> Result<Lsn, FilesError> {
        let unit = self.take(id)?.keep();
        Ok(unit.end().await?)
    }

    /// Waits until everything so far is durable, if the store's mode asks for it.
    async fn acknowledge_all(&self) -> Result<(), FilesError> {
        self.acknowledge(Lsn(0), false).await
    }

    /// Waits until the changes with `lsn` are durable, if `durable` or the store's mode asks for it.
    pub async fn acknowledge(&self, lsn: Lsn, durable: bool) -> Result<(), FilesError> {
        let disk = self.disk();
        if durable || disk.engine().options().ack == Ack::Write {
            match lsn {
                // A unit without changes has no place in the log. Everything before it must be durable.
                Lsn(0) => disk.flush().await?,
                lsn => disk.wait_durable(lsn).await?,
            }
        }
        Ok(())
    }

    /// Whether unit `id` is open.
    pub fn has(&self, id: AruId) -> bool {
        self.units().contains(self.unit(id))
    }

    pub fn abort(&self, id: AruId) {
        self.units().abort(self.unit(id));
    }

    pub async fn flush(&self) -> Result<(), FilesError> {
        Ok(self.disk().flush().await?)
    }

    pub fn marks(&self) -> Marks {
        self.disk().marks()
    }

    pub async fn wait_durable(&self, lsn: Lsn) -> Result<(), FilesError> {
        Ok(self.disk().wait_durable(lsn).await?)
    }

    pub fn archive(&self) -> Option<ArchiveInfo> {
        self.disk().engine().archive()
    }

    pub async fn wait_archived(&self, lsn: Lsn) -> Result<(), FilesError> {
        Ok(self.disk().wait_archived(lsn).await?)
    }

    pub fn lock(&self, file: FileId, level: Level) -> Result<bool, FilesError> {
        let serial = self.file(file)?.serial();
        self.locks().lock(serial, self.holder(file), level)
    }

    pub fn unlock(&self, file: FileId, level: Level) -> Result<(), FilesError> {
        let serial = self.file(file)?.serial();
        self.locks().unlock(serial, self.holder(file), level)
    }

    pub fn reserved(&self, file: FileId) -> Result<bool, FilesError> {
        let serial = self.file(file)?.serial();
        Ok(self.locks().reserved(serial))
    }

    fn holder(&self, file: FileId) -> (u64, u64) {
        (self.0.number, file.0)
    }

    fn file(&self, file: FileId) -> Result<OpenFile, FilesError> {
        let files = self.0.files.borrow();
        let open = files.get(&file).cloned();
        open.ok_or_else(|| not_open_file(file))
    }

    fn take(&self, id: AruId) -> Result<Taken, FilesError> {
        let taken = self.units().take(self.unit(id));
        taken.map_err(|why| not_available(id, why))
    }

    /// Runs an operation in a unit.
    async fn within<T>(
        &self,
        id: AruId,
        operation: impl AsyncFnOnce(&mut OpenUnit) -> Result<T, FilesError>,
    ) -> Result<T, FilesError> {
        let done = self.units().with(self.unit(id), operation).await;
        done.map_err(|why| not_available(id, why))?
    }
}

fn not_available(id: AruId, why: NotAvailable) -> FilesError {
    failed(match why {
        NotAvailable::InUse => format!("unit {} is in use by another call", id.0),
        NotAvailable::NotOpen => format!("unit {} is not open in this session", id.0),
    })
}

/// The error for a handle that does not exist.
pub(crate) fn not_open_file(file: FileId) -> FilesError {
    failed(format!("file {} is not open in this session", file.0))
}

fn failed(text: impl Into<String>) -> FilesError {
    FilesError::new(FilesErrorKind::Failed, text)
}
