//! Sessions on the engine's side: the files and units that a client has open, and the operations of `files::Files` as
//! async code over the disk. `LocalFiles` calls them in this process, and a server calls them for its clients through
//! the protocol in `remote`.
//!
//! A session ends in this order: its units are aborted; then its locks are released.

mod locks;

use crate::aru::{joined, read_in_unit};
use crate::create::{new_uuid, now_unix_s};
use crate::files::{
    AruId, Due, FileId, FileInfo, FilesError, FilesErrorKind, HeldWrite, Level, Open,
};
use crate::units::{NotAvailable, Taken, UnitId, Units};
pub(crate) use locks::SharedLocks;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::{AlignedMemory, LooseBuf, Lsn};
use tonearm_disk::{Ack, Aru, Changes, Disk, DiskError, ErrorKind, Marks, Volume, VolumeKind};
use tonearm_engine::ArchiveInfo;

/// Most open files of a session.
const FILES_MAX: usize = 1024;
/// Most runs of one answer about what is allocated.
const RUNS_MAX: usize = 4096;
/// Most open units of a session.
const ARUS_MAX: usize = 256;

/// All sessions with a disk; cheap to clone.
#[derive(Clone)]
pub struct Sessions(Rc<State>);

struct State {
    disk: Disk,
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
    files: RefCell<BTreeMap<FileId, Volume>>,
    next_file: Cell<u64>,
}

impl Sessions {
    /// No sessions yet.
    pub fn new(disk: &Disk) -> Self {
        Self(Rc::new(State {
            disk: disk.clone(),
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

    /// Opens a file.
    pub async fn open(&self, name: &str, how: Open) -> Result<Opened, FilesError> {
        self.check_files()?;
        let volume = loop {
            match self.file(name) {
                Ok(_) if how.create && how.exclusive => {
                    let text = format!("there is a file {name:?} already");
                    return Err(FilesError::new(FilesErrorKind::Exists, text));
                }
                Ok(volume) => break volume,
                Err(error) if error.kind != FilesErrorKind::NotFound || !how.create => {
                    return Err(error);
                }
                Err(_) => {}
            }
            let mut aru = self.disk().begin();
            let made = aru.create_file(name, new_uuid(), now_unix_s()).await;
            let made = match made {
                Ok(volume) => aru.end().await.map(|_| volume),
                Err(error) => Err(error),
            };
            match made {
                Ok(volume) => break volume,
                // Another session has made the file meanwhile.
                Err(error) if matches!(error.kind(), ErrorKind::Exists | ErrorKind::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
            if how.exclusive || self.file(name).is_err() {
                // A volume has the name, or the file was made and deleted again.
                let text = format!("there is a volume or file {name:?} already");
                return Err(FilesError::new(FilesErrorKind::Exists, text));
            }
        };
        Ok(self.opened(volume))
    }

    /// Opens a volume.
    pub fn open_volume(&self, name: &str) -> Result<Opened, FilesError> {
        self.check_files()?;
        match self.disk().volume(name) {
            Ok(volume) if volume.kind() == VolumeKind::Plain => Ok(self.opened(volume)),
            Ok(_) | Err(DiskError::NoVolume(_)) => {
                let text = format!("there is no volume {name:?}; `tonearm volume list` shows all");
                Err(FilesError::new(FilesErrorKind::NotFound, text))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a range read as zeroes.
    pub async fn zero(&self, file: FileId, offset: u64, len: u64) -> Result<(), FilesError> {
        let volume = self.volume(file)?;
        Ok(volume.write_zeroes(offset, len, false, false).await?)
    }

    /// Which parts of a range are allocated, at least for the first part of it.
    pub async fn status(
        &self,
        file: FileId,
        offset: u64,
        len: u64,
    ) -> Result<Vec<(u64, bool)>, FilesError> {
        let mut runs = self.volume(file)?.status(offset, len).await?;
        runs.truncate(RUNS_MAX);
        Ok(runs)
    }

    /// Makes a file within a unit; as [`Session::open`].
    pub async fn create(&self, aru: AruId, name: &str) -> Result<Opened, FilesError> {
        self.check_files()?;
        let create = async |aru: &mut Aru| {
            let made = aru.create_file(name, new_uuid(), now_unix_s());
            made.await
        };
        Ok(self.opened(self.within(aru, create).await?))
    }

    fn check_files(&self) -> Result<(), FilesError> {
        match self.0.files.borrow().len() < FILES_MAX {
            true => Ok(()),
            false => Err(failed(format!(
                "the session has {FILES_MAX} files open, as many as it may; close some"
            ))),
        }
    }

    fn opened(&self, volume: Volume) -> Opened {
        let file = FileId(self.0.next_file.replace(self.0.next_file.get() + 1));
        let (serial, changes) = (volume.serial(), volume.changes());
        self.0.files.borrow_mut().insert(file, volume);
        Opened {
            file,
            serial,
            changes,
        }
    }

    pub fn close(&self, file: FileId) {
        if let Some(volume) = self.0.files.borrow_mut().remove(&file) {
            let locks = self.locks();
            let released = locks.unlock(volume.serial(), self.holder(file), Level::None);
            debug_assert!(released.is_ok(), "a lock can always be given up");
        }
    }

    pub fn list(&self) -> Vec<FileInfo> {
        let files = self.disk().files().into_iter();
        let info = |file: tonearm_disk::VolumeInfo| FileInfo {
            name: file.name,
            size_bytes: file.size_bytes,
            created_unix_s: file.created_unix_s,
        };
        files.map(info).collect()
    }

    /// Counts the commits that have changed names.
    pub fn names(&self) -> Changes {
        self.disk().names()
    }

    /// How many commits have changed the file, and its size.
    pub fn state(&self, file: FileId) -> Result<(u64, u64), FilesError> {
        let volume = self.volume(file)?;
        Ok((volume.changes().count(), volume.size_bytes()))
    }

    pub fn exists(&self, name: &str) -> bool {
        self.file(name).is_ok()
    }

    pub async fn delete(&self, name: &str) -> Result<(), FilesError> {
        self.file(name)?;
        let mut aru = self.disk().begin();
        aru.delete_volume(name).await?;
        self.acknowledge(aru.end().await?, false).await
    }

    pub async fn rename(&self, from: &str, to: &str) -> Result<(), FilesError> {
        self.file(from)?;
        let mut aru = self.disk().begin();
        aru.rename_volume(from, to).await?;
        self.acknowledge(aru.end().await?, false).await
    }

    pub fn size(&self, file: FileId, aru: Option<AruId>) -> Result<u64, FilesError> {
        let volume = self.volume(file)?;
        match aru {
            None => Ok(volume.size_bytes()),
            Some(id) => {
                let mut taken = self.take(id)?;
                let size = taken.aru().size_bytes(&volume);
                taken.put_back();
                Ok(size)
            }
        }
    }

    /// At most `len` bytes at `offset`, fewer at the end of the file.
    pub async fn read(
        &self,
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>, FilesError> {
        let volume = self.volume(file)?;
        if let Some(id) = aru {
            let read = async |aru: &mut Aru| read_in_unit(aru, &volume, offset, len).await;
            return self.within(id, read).await;
        }
        loop {
            let size = volume.size_bytes();
            let part = size.saturating_sub(offset).min(len as u64);
            match volume.read(offset.min(size), part).await {
                Ok(pieces) => return Ok(joined(&pieces, part as usize)),
                // The file was made shorter during the read.
                Err(DiskError::OutOfRange { .. }) => {}
                Err(error) => return Err(error.into()),
            }
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
        self.units().insert(self.unit(id), self.disk().begin());
        Ok(())
    }

    /// Carries out the writes that a client has kept back of unit `id`. Returns memory for as many bytes, as far as
    /// some is free. A file that was deleted since is a conflict.
    pub async fn catch_up(&self, id: AruId, due: Due) -> Result<Vec<AlignedMemory>, FilesError> {
        if due.begin {
            self.begin(id)?;
        }
        let mut spare = Vec::new();
        for HeldWrite { file, offset, data } in due.writes {
            if let LooseBuf::Aligned(_) = data {
                spare.extend(self.disk().spare_memory(data.len()));
            }
            let written = self.write(file, Some(id), offset, data).await;
            written.map_err(|error| match error.kind {
                FilesErrorKind::NotFound => FilesError::new(FilesErrorKind::Conflict, error.text),
                _ => error,
            })?;
        }
        Ok(spare)
    }

    pub async fn write(
        &self,
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        data: LooseBuf,
    ) -> Result<(), FilesError> {
        let volume = self.volume(file)?;
        match aru {
            Some(id) => {
                let write = async move |aru: &mut Aru| aru.write_buf(&volume, offset, data).await;
                self.within(id, write).await
            }
            None => {
                let lsn = self.disk().write_buf(&volume, offset, data).await?;
                self.acknowledge(lsn, false).await
            }
        }
    }

    pub async fn truncate(
        &self,
        file: FileId,
        aru: Option<AruId>,
        size: u64,
    ) -> Result<(), FilesError> {
        let volume = self.volume(file)?;
        if volume.kind() == VolumeKind::Plain {
            return Err(failed(
                "the size of a volume is changed by `tonearm volume resize`",
            ));
        }
        match aru {
            Some(id) => {
                let resize = async |aru: &mut Aru| aru.resize(&volume, size).await;
                self.within(id, resize).await
            }
            None => {
                let lsn = self.disk().resize(&volume, size).await?;
                self.acknowledge(lsn, false).await
            }
        }
    }

    /// Ends a unit. It is durable when [`Session::acknowledge`] of the result ends.
    pub async fn end(&self, id: AruId) -> Result<Lsn, FilesError> {
        let aru = self.take(id)?.keep();
        Ok(aru.end().await?)
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
        let serial = self.volume(file)?.serial();
        self.locks().lock(serial, self.holder(file), level)
    }

    pub fn unlock(&self, file: FileId, level: Level) -> Result<(), FilesError> {
        let serial = self.volume(file)?.serial();
        self.locks().unlock(serial, self.holder(file), level)
    }

    pub fn reserved(&self, file: FileId) -> Result<bool, FilesError> {
        let serial = self.volume(file)?.serial();
        Ok(self.locks().reserved(serial))
    }

    fn holder(&self, file: FileId) -> (u64, u64) {
        (self.0.number, file.0)
    }

    /// The file `name`; a volume of that name does not count.
    fn file(&self, name: &str) -> Result<Volume, FilesError> {
        match self.disk().volume(name) {
            Ok(volume) if volume.kind() == VolumeKind::File => Ok(volume),
            Ok(_) | Err(DiskError::NoVolume(_)) => {
                let text = format!("there is no file {name:?}; `tonearm files list` shows all");
                Err(FilesError::new(FilesErrorKind::NotFound, text))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn volume(&self, file: FileId) -> Result<Volume, FilesError> {
        let files = self.0.files.borrow();
        let volume = files.get(&file).cloned();
        volume.ok_or_else(|| not_open_file(file))
    }

    fn take(&self, id: AruId) -> Result<Taken, FilesError> {
        let taken = self.units().take(self.unit(id));
        taken.map_err(|why| not_available(id, why))
    }

    /// Runs an operation in a unit.
    async fn within<T>(
        &self,
        id: AruId,
        operation: impl AsyncFnOnce(&mut Aru) -> Result<T, DiskError>,
    ) -> Result<T, FilesError> {
        let done = self.units().with(self.unit(id), operation).await;
        Ok(done.map_err(|why| not_available(id, why))??)
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
