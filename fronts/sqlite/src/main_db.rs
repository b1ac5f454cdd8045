//! A main database: its pages, its locks, and the transaction in which they are written.
//!
//! 1. Under an exclusive lock writes go into the connection's [`Transaction`], whether SQLite brackets them with
//!    `BEGIN_ATOMIC_WRITE` or not. SQLite writes pages that its cache spills before the brackets, and uses no brackets
//!    with `synchronous=OFF`.
//! 2. While a write-ahead log is open (checkpoints) each write is a unit of its own.
//! 3. A connection whose server has gone away goes on with the next one when it takes its first lock (`renewal.rs`). A
//!    transaction that was open fails.
//! 4. With `create=late` a database that does not exist is empty, and its file is made by the first transaction that writes. Until
//!    then all locks up to `SHARED` are granted: they are on nothing.
//! 5. `xSync` within a transaction only notes that the transaction's end has to be durable.

use crate::api::Host;
use crate::database::Database;
use crate::failure::{Failure, Result};
use crate::ffi::{self, Db};
use crate::file::Handle;
use crate::pragma::{self, Pragma};
use crate::renewal::Shift;
use crate::shm::ShmHandle;
use crate::stores::{self, StoreRef};
use crate::transaction::{LastCommit, Phase, Transaction};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tonearm_store::Lsn;
use tonearm_store::files::{AruId, FileId, FilesError, FilesErrorKind, Level, Open};

/// An open main database.
pub struct MainDb {
    host: &'static Host,
    store: StoreRef,
    database: Arc<Database>,
    name: String,
    /// `None` while there is no file yet, and this connection is the one that makes it when it writes.
    file: Option<FileId>,
    level: c_int,
    /// Where SQLite keeps the connection that uses the file now. The place lives as long as the file is open.
    connection: *const *mut Db,
    /// The last commit of each connection that has used the file: several do with a shared cache.
    last_commits: BTreeMap<usize, Arc<LastCommit>>,
    /// Commits wait until they are durable: `synchronous` is FULL or EXTRA.
    durable: bool,
    persist_wal: bool,
    /// The transaction began within the present brackets.
    began_in_batch: bool,
    shm: Option<ShmHandle>,
    /// Where the URI wants the store to be archived.
    archived_at: Option<String>,
    /// What the connection sees of the file's versions.
    shift: Shift,
}

/// The destination of a write.
enum Unit {
    /// A unit of its own.
    Own,
    /// The transaction.
    In(AruId),
    /// None: the transaction is lost.
    Void,
}

impl MainDb {
    /// Opens the database `name`. With `late` a file that is missing is made by the first transaction that writes.
    ///
    /// # Errors
    /// `CANTOPEN`.
    pub fn open(
        host: &'static Host,
        store: &StoreRef,
        name: &str,
        how: Open,
        late: bool,
    ) -> Result<Self> {
        let cannot = || Failure::of(ffi::CANTOPEN);
        let journal = format!("{name}-journal");
        if store.files().exists(&journal).map_err(cannot())? {
            let text = format!(
                "the store has a file {journal}, so {name} was copied in the middle of a transaction: copy both out, \
                 open {name} with sqlite3, and copy it in again"
            );
            return Err(Failure::new(ffi::CANTOPEN, text));
        }
        let file = match late && how.create && !how.exclusive {
            true => find(store, name).map_err(cannot())?,
            false => Some(store.files().open(name, how).map_err(cannot())?),
        };
        Ok(Self {
            host,
            database: store.database(name),
            store: store.clone(),
            name: name.to_owned(),
            file,
            level: ffi::LOCK_NONE,
            connection: std::ptr::null(),
            last_commits: BTreeMap::new(),
            durable: true,
            persist_wal: false,
            began_in_batch: false,
            shm: None,
            archived_at: None,
            shift: Shift::default(),
        })
    }

    /// The URI wants the store to be archived at `url`.
    pub fn set_archived_at(&mut self, url: &str) {
        self.archived_at = Some(url.to_owned());
    }

    /// The session has lost its server, and no transaction is open.
    fn is_stranded(&self) -> bool {
        self.level == ffi::LOCK_NONE && self.store.files().is_over()
    }

    /// Goes on with the server that has taken the place of the one that is gone. The caller has no lock, so nothing that it
    /// relies on is lost, but what SQLite has in memory may be.
    fn renew(&mut self) -> Result<()> {
        // A lock that is busy is tried again at once, many times.
        let failed = |failure: Failure| Failure::new(ffi::IOERR_LOCK, failure.text);
        let (name, archived_at) = (&self.name, &self.archived_at);
        let late = self.file.is_none();
        let opened = stores::acquire_and(self.store.path(), |store| {
            if let Some(url) = archived_at {
                store.check_archived(url)?;
            }
            let file = match late {
                true => find(store, name),
                false => store.files().open(name, Open::default()).map(Some),
            };
            file.map_err(Failure::of(ffi::IOERR_LOCK))
        });
        let (store, file) = opened.map_err(failed)?;
        self.database = store.database(name);
        (self.store, self.file) = (store, file);
        self.last_commits.clear();
        self.shift.renew();
        Ok(())
    }

    /// The file, where there must be one.
    fn written_file(&self) -> Result<FileId> {
        // SQLite writes under an exclusive lock, and `make_file` has made the file on the way to it.
        let text = "a write to a database without a file and without a lock";
        self.file
            .ok_or_else(|| Failure::new(ffi::IOERR_WRITE, text))
    }

    /// Makes the file, or opens that of another connection, and takes a shared lock on it: SQLite believes that it has one. False
    /// when others prevent it, or have written meanwhile what this connection has read as empty.
    fn make_file(&mut self) -> std::result::Result<bool, FilesError> {
        let how = Open {
            create: true,
            exclusive: false,
        };
        let files = self.store.files().clone();
        let file = files.open(&self.name, how)?;
        let ready = files.lock(file, Level::Shared).and_then(|locked| {
            Ok(locked && (self.level == ffi::LOCK_NONE || files.size(file, None)? == 0))
        });
        match ready {
            Ok(true) => self.file = Some(file),
            _ => files.close(file),
        }
        ready
    }

    /// Raises the lock of a database that may have no file.
    fn lock_file(&mut self, wanted: c_int) -> std::result::Result<bool, FilesError> {
        if self.file.is_none() && self.level == ffi::LOCK_NONE {
            self.file = find(&self.store, &self.name)?;
        }
        if self.file.is_none() && wanted > ffi::LOCK_SHARED && !self.make_file()? {
            return Ok(false);
        }
        match self.file {
            Some(file) => self.store.files().lock(file, level(wanted)),
            None => Ok(true),
        }
    }

    /// Identifies the connection, or only this handle when there is no connection.
    fn connection(&self) -> *mut Db {
        if self.connection.is_null() {
            return std::ptr::from_ref(self).cast_mut().cast();
        }
        // SAFETY: SQLite gave the address of a field of its b-tree, which closes this file before it is freed, and
        // holds the b-tree's mutex while it calls us.
        unsafe { *self.connection }
    }

    fn last_commit(&mut self) -> Arc<LastCommit> {
        let connection = self.connection() as usize;
        let new = || self.store.last_commit(connection);
        self.last_commits
            .entry(connection)
            .or_insert_with(new)
            .clone()
    }

    /// LSN of the connection's last commit. With an open write-ahead log it is that of the store's last commit: commits
    /// to such a log are not distinguished.
    fn last_lsn(&mut self) -> std::result::Result<Lsn, FilesError> {
        match self.store.has_wal() {
            true => Ok(self.store.files().marks()?.appended),
            false => match self.last_commit().load(Ordering::Relaxed) {
                0 if self.shift.is_renewed() => Err(FilesError::new(
                    FilesErrorKind::Failed,
                    "the server was started again after the connection's last commit, which may have been lost if it was \
                     not durable; commit again, or look",
                )),
                lsn => Ok(Lsn(lsn)),
            },
        }
    }

    /// The answer to a pragma of this VFS.
    fn answer(&mut self, pragma: Pragma) -> std::result::Result<String, FilesError> {
        let lsn = match pragma {
            Pragma::Lsn => self.last_lsn()?,
            Pragma::Durable => self.store.files().marks()?.durable,
            Pragma::WaitDurable => {
                let lsn = self.last_lsn()?;
                self.store.files().wait_durable(lsn)?;
                self.store.files().marks()?.durable
            }
            Pragma::WaitArchived => {
                let lsn = self.last_lsn()?;
                self.store.files().wait_archived(lsn)?;
                let archive = self.store.files().archive()?;
                archive.map_or(lsn, |archive| lsn.max(Lsn(archive.archived_lsn)))
            }
            Pragma::Archive => {
                let archive = self.store.files().archive()?;
                let json = serde_json::to_string(&archive);
                return Ok(json.expect("it has only names, numbers and texts"));
            }
        };
        Ok(lsn.to_string())
    }

    /// Carries out `PRAGMA name = value`. Returns the answer, or `None` when SQLite is to carry it out.
    fn pragma(
        &mut self,
        name: &str,
        value: Option<&str>,
    ) -> std::result::Result<Option<String>, String> {
        if let (true, Some(value)) = (name.eq_ignore_ascii_case("synchronous"), value) {
            self.set_synchronous(value);
        }
        match Pragma::of(name, value)? {
            Some(pragma) => {
                let answer = match self.answer(pragma) {
                    Err(_) if self.is_stranded() => {
                        self.renew().map_err(|failure| failure.text)?;
                        self.answer(pragma)
                    }
                    answer => answer,
                };
                answer.map(Some).map_err(|error| error.text)
            }
            None => Ok(None),
        }
    }

    /// Whether the connection is outside of BEGIN ... COMMIT, or is about to commit.
    fn autocommits(&self) -> bool {
        if self.connection.is_null() {
            return true;
        }
        // SAFETY: the connection that is calling us.
        unsafe { (self.host.get_autocommit)(self.connection()) != 0 }
    }

    fn transaction(&self) -> Option<Arc<Transaction>> {
        match self.level {
            ffi::LOCK_EXCLUSIVE => self.database.writer().clone(),
            _ => None,
        }
    }

    /// The transaction's unit, for reads.
    fn aru(&self) -> Option<AruId> {
        match self.transaction()?.phase() {
            Phase::Open(aru) => Some(aru),
            Phase::Ended | Phase::Lost => None,
        }
    }

    /// The destination of a write. Begins a transaction when there is none.
    fn unit(&mut self) -> Result<Unit> {
        if self.level < ffi::LOCK_EXCLUSIVE || self.database.is_wal() {
            return Ok(Unit::Own);
        }
        let phase = self.database.writer().as_ref().map(|known| known.phase());
        match phase {
            Some(Phase::Open(aru)) => return Ok(Unit::In(aru)),
            Some(Phase::Lost) => return Ok(Unit::Void),
            Some(Phase::Ended) | None => {}
        }
        let last = self.last_commit();
        let transaction = self.store.join(self.connection() as usize, &last)?;
        let phase = transaction.phase();
        *self.database.writer() = Some(transaction);
        match phase {
            Phase::Open(aru) => Ok(Unit::In(aru)),
            Phase::Ended | Phase::Lost => Ok(Unit::Void),
        }
    }

    /// Leaves the transaction, which has not ended: a rollback.
    fn leave(&mut self) {
        if self.level == ffi::LOCK_EXCLUSIVE
            && let Some(transaction) = self.database.writer().take()
        {
            transaction.abort();
        }
    }

    /// Ends the transaction, for all databases of the connection.
    fn commit(&mut self) -> Result<()> {
        if self.level < ffi::LOCK_EXCLUSIVE {
            return Ok(());
        }
        let transaction = self.database.writer().take();
        match transaction {
            Some(transaction) => transaction.end(self.autocommits()),
            None => Ok(()),
        }
    }

    /// Ends phase one for this database. `super_journal` decides about the transaction if there is one.
    fn phase_one(&mut self, super_journal: Option<&str>) -> Result<()> {
        let Some(transaction) = self.transaction() else {
            return Ok(());
        };
        transaction.check()?;
        match super_journal {
            Some(name) => self.store.set_super_journal(name, &transaction),
            None => Ok(()),
        }
    }

    fn set_synchronous(&mut self, value: &str) {
        // SQLite refuses the change within a transaction.
        if self.autocommits() {
            self.durable = pragma::waits(value);
        }
    }

    fn control_string(&self, text: &CStr) -> *mut c_char {
        let bytes = text.to_bytes_with_nul();
        // SAFETY: SQLite's allocator takes any size; what it gives is as long as asked for.
        unsafe {
            let copy = (self.host.malloc64)(bytes.len() as u64).cast::<c_char>();
            if !copy.is_null() {
                copy.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
            }
            copy
        }
    }
}

impl Drop for MainDb {
    fn drop(&mut self) {
        self.leave();
        if let Some(mut handle) = self.shm.take() {
            self.database.shm().detach(&mut handle);
        }
        if let Some(file) = self.file {
            self.store.files().close(file);
        }
    }
}

/// Opens the file `name`, if there is one.
fn find(store: &StoreRef, name: &str) -> std::result::Result<Option<FileId>, FilesError> {
    match store.files().open(name, Open::default()) {
        Err(error) if error.kind == FilesErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

fn level(level: c_int) -> Level {
    match level {
        ffi::LOCK_NONE => Level::None,
        ffi::LOCK_SHARED => Level::Shared,
        ffi::LOCK_RESERVED => Level::Reserved,
        ffi::LOCK_PENDING => Level::Pending,
        _ => Level::Exclusive,
    }
}

impl Handle for MainDb {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let Some(file) = self.file else {
            return Ok(0);
        };
        let aru = self.aru();
        let read = self.store.files().read(file, aru, offset, buf);
        let count = read.map_err(Failure::of(ffi::IOERR_READ))?;
        self.shift.show(&mut buf[..count], offset);
        Ok(count)
    }

    fn write(&mut self, data: &[u8], offset: u64) -> Result<()> {
        let aru = match self.unit()? {
            Unit::Own => None,
            Unit::In(aru) => Some(aru),
            Unit::Void => return Ok(()),
        };
        let file = self.written_file()?;
        let data = self.shift.store(data, offset);
        let written = self.store.files().write(file, aru, offset, &data);
        written.map_err(Failure::of(ffi::IOERR_WRITE))
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        let aru = match self.unit()? {
            Unit::Own => None,
            Unit::In(aru) => Some(aru),
            Unit::Void => return Ok(()),
        };
        let Some(file) = self.file else {
            return Ok(());
        };
        let cut = self.store.files().truncate(file, aru, size);
        cut.map_err(Failure::of(ffi::IOERR_TRUNCATE))
    }

    fn sync(&mut self) -> Result<()> {
        match self.transaction() {
            Some(transaction) => {
                if self.durable {
                    transaction.make_durable();
                }
                transaction.check()
            }
            None => {
                let flushed = self.store.files().flush();
                flushed.map_err(Failure::of(ffi::IOERR_FSYNC))
            }
        }
    }

    fn size(&mut self) -> Result<u64> {
        let Some(file) = self.file else {
            return Ok(0);
        };
        let size = self.store.files().size(file, self.aru());
        size.map_err(Failure::of(ffi::IOERR_FSTAT))
    }

    fn lock(&mut self, wanted: c_int) -> Result<()> {
        if wanted <= self.level {
            return Ok(());
        }
        let locked = match self.lock_file(wanted) {
            Err(_) if self.is_stranded() => {
                self.renew()?;
                self.lock_file(wanted)
            }
            locked => locked,
        };
        if !locked.map_err(Failure::of(ffi::IOERR_LOCK))? {
            // On its way to the exclusive lock the writer has taken the pending one, and keeps it.
            if wanted == ffi::LOCK_EXCLUSIVE && self.level == ffi::LOCK_RESERVED {
                self.level = ffi::LOCK_PENDING;
            }
            return Err(Failure::silent(ffi::BUSY));
        }
        self.level = wanted;
        Ok(())
    }

    fn unlock(&mut self, wanted: c_int) -> Result<()> {
        if wanted < ffi::LOCK_EXCLUSIVE {
            self.leave();
        }
        // Even if this handle has no higher lock: a failed attempt at the exclusive lock may have left the pending one.
        let unlocked = match self.file {
            Some(file) => self.store.files().unlock(file, level(wanted)),
            None => Ok(()),
        };
        self.level = self.level.min(wanted);
        unlocked.map_err(Failure::of(ffi::IOERR_UNLOCK))
    }

    fn check_reserved_lock(&mut self) -> Result<bool> {
        let Some(file) = self.file else {
            return Ok(false);
        };
        let reserved = self.store.files().reserved(file);
        reserved.map_err(Failure::of(ffi::IOERR_CHECKRESERVEDLOCK))
    }

    unsafe fn control(&mut self, operation: c_int, argument: *mut c_void) -> Result<bool> {
        // SAFETY: for each operation SQLite documents what the argument points to.
        unsafe {
            match operation {
                ffi::FCNTL_PDB => self.connection = argument.cast(),
                ffi::FCNTL_SYNC => {
                    let name = argument.cast::<c_char>().cast_const();
                    let name = (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy());
                    self.phase_one(name.as_deref())?;
                }
                ffi::FCNTL_COMMIT_PHASETWO => self.commit()?,
                ffi::FCNTL_BEGIN_ATOMIC_WRITE => self.began_in_batch = self.aru().is_none(),
                ffi::FCNTL_COMMIT_ATOMIC_WRITE => self.phase_one(None)?,
                // If the transaction holds nothing but the batch, it is aborted. Otherwise SQLite writes the same pages
                // again, with a journal, or rolls them back from it. Both restore the pages of the batch.
                ffi::FCNTL_ROLLBACK_ATOMIC_WRITE => {
                    if self.began_in_batch {
                        self.leave();
                    }
                }
                // Space is allocated as files grow.
                ffi::FCNTL_SIZE_HINT | ffi::FCNTL_CHUNK_SIZE => {}
                ffi::FCNTL_LOCKSTATE => *argument.cast::<c_int>() = self.level,
                ffi::FCNTL_LAST_ERRNO => *argument.cast::<c_int>() = 0,
                ffi::FCNTL_HAS_MOVED => {
                    let exists = self.store.files().exists(&self.name);
                    let exists = exists.map_err(Failure::of(ffi::IOERR_ACCESS))?;
                    *argument.cast::<c_int>() = c_int::from(!exists && self.file.is_some());
                }
                ffi::FCNTL_PERSIST_WAL => {
                    let value = argument.cast::<c_int>();
                    match *value {
                        0 | 1 => self.persist_wal = *value == 1,
                        _ => *value = c_int::from(self.persist_wal),
                    }
                }
                ffi::FCNTL_POWERSAFE_OVERWRITE => *argument.cast::<c_int>() = 1,
                ffi::FCNTL_VFSNAME => {
                    *argument.cast::<*mut c_char>() = self.control_string(crate::vfs::NAME);
                }
                ffi::FCNTL_PRAGMA => {
                    let words = argument.cast::<*mut c_char>();
                    let text = |word: *mut c_char| {
                        (!word.is_null()).then(|| CStr::from_ptr(word).to_string_lossy())
                    };
                    let (name, value) = (text(*words.add(1)), text(*words.add(2)));
                    let done = self.pragma(&name.unwrap_or_default(), value.as_deref());
                    let (answer, failed) = match done {
                        Ok(None) => return Ok(false),
                        Ok(Some(answer)) => (answer, false),
                        Err(text) => (text, true),
                    };
                    // SQLite frees it, and shows it as the row or the error of the pragma.
                    let shown = CString::new(answer.replace('\0', " ")).unwrap_or_default();
                    *words = self.control_string(&shown);
                    if failed {
                        return Err(Failure::new(ffi::ERROR, answer));
                    }
                }
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    fn shm_map(&mut self, index: usize, bytes: usize, extend: bool) -> Result<*mut c_void> {
        let mut shm = self.database.shm();
        if self.shm.is_none() {
            self.shm = Some(shm.attach());
        }
        shm.map(index, bytes, extend)
    }

    fn shm_lock(&mut self, first: usize, count: usize, flags: c_int) -> Result<()> {
        let mut shm = self.database.shm();
        let handle = self.shm.get_or_insert_with(|| shm.attach());
        if flags & ffi::SHM_UNLOCK != 0 {
            shm.unlock(handle, first, count);
            return Ok(());
        }
        shm.lock(handle, first, count, flags & ffi::SHM_SHARED != 0)
    }

    fn shm_unmap(&mut self) {
        if let Some(mut handle) = self.shm.take() {
            self.database.shm().detach(&mut handle);
        }
    }
}
