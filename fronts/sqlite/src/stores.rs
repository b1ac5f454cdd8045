//! The stores that this process has open for SQLite. Each is open once, shared by all connections, and closed with its
//! last open file, so that other processes can open it then.
//!
//! A store may have several names: a hard link, another mount of its folder, or the name under which the program
//! provides it. The state that connections of one process share of a database (`database.rs`) belongs to the open
//! store, not to one of its names.

use crate::archive::{self, RequestedArchive};
use crate::database::Database;
use crate::failure::{self, Failure, Result};
use crate::ffi;
use crate::names;
use crate::transaction::{LastCommit, Transaction};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tonearm_store::files::{Files, FilesErrorKind};
use tonearm_store::{ArchiveState, PerProcess, StoreOptions, store_of};

/// An open store.
pub struct Store {
    path: String,
    files: Arc<dyn Files>,
    databases: Mutex<BTreeMap<String, Weak<Database>>>,
    /// Open transactions, by connection.
    transactions: Mutex<BTreeMap<usize, Weak<Transaction>>>,
    /// The last commit of each connection that has a database of the store open.
    commits: Mutex<BTreeMap<usize, Weak<LastCommit>>>,
    /// The existing super-journals, by the name of the file. Each has the transaction that it belongs to, once that is
    /// known.
    super_journals: Mutex<BTreeMap<String, Option<Arc<Transaction>>>>,
    /// Held while an archive is looked for and begun.
    archive: Mutex<()>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    fn new(path: &str, files: Arc<dyn Files>) -> Self {
        Self {
            path: path.to_owned(),
            files,
            databases: Mutex::default(),
            transactions: Mutex::default(),
            commits: Mutex::default(),
            super_journals: Mutex::default(),
            archive: Mutex::default(),
        }
    }

    /// One of its names.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The name of the file with the full name `full`, if it lies in this store, under any name of the store.
    pub fn file_of<'a>(&self, full: &'a str) -> Option<&'a str> {
        let (path, file) = names::split(full)?;
        if path == self.path {
            return Some(file);
        }
        let slot = TABLE.lock().slots.get(path).cloned()?;
        let slot = locked(&slot);
        let is_here = slot
            .store
            .as_ref()
            .is_some_and(|store| std::ptr::eq(&**store, self));
        is_here.then_some(file)
    }

    /// Its files.
    pub fn files(&self) -> &Arc<dyn Files> {
        &self.files
    }

    /// The state that the connections of this process share of the database `name`.
    pub fn database(&self, name: &str) -> Arc<Database> {
        let mut databases = locked(&self.databases);
        databases.retain(|_, database| database.strong_count() > 0);
        if let Some(database) = databases.get(name).and_then(Weak::upgrade) {
            return database;
        }
        let database = Arc::new(Database::default());
        databases.insert(name.to_owned(), Arc::downgrade(&database));
        database
    }

    /// The last commit of a connection. Its databases share it.
    pub fn last_commit(&self, connection: usize) -> Arc<LastCommit> {
        let mut commits = locked(&self.commits);
        if let Some(last) = commits.get(&connection).and_then(Weak::upgrade) {
            return last;
        }
        commits.retain(|_, last| last.strong_count() > 0);
        let last = Arc::new(LastCommit::default());
        commits.insert(connection, Arc::downgrade(&last));
        last
    }

    /// Sees to it that the store is archived at `wanted.url`: begins it when this process has the store open itself.
    ///
    /// # Errors
    /// `CANTOPEN` when the store is archived elsewhere, when another process has it open and does not archive it, or when
    /// the archive cannot be begun.
    pub fn archive(&self, wanted: &RequestedArchive<'_>) -> Result<()> {
        let _one = locked(&self.archive);
        let (url, path) = (wanted.url, &self.path);
        let known = self.files.archive().map_err(Failure::of(ffi::CANTOPEN))?;
        let running = known
            .as_ref()
            .filter(|info| info.state != ArchiveState::Ended);
        let text = match (running, store_of(&*self.files), known.as_ref()) {
            (Some(info), ..) if wanted.is(&info.url) => return Ok(()),
            // SQLite's log cuts a text off after 200 bytes.
            (Some(info), ..) => format!(
                "a store has one archive at a time: {path} is archived at {}, not at {url}",
                info.url
            ),
            (None, Some(store), _) => match wanted.begin(&store, Path::new(path)) {
                Ok(()) => return Ok(()),
                Err(error) => format!("{path} cannot be archived: {error}"),
            },
            (None, None, Some(info)) => format!(
                "the server's archive has ended ({}): `tonearm archive start {path} {url}`",
                info.why.as_deref().unwrap_or_default()
            ),
            (None, None, None) => format!(
                "another process serves the store without an archive: `tonearm archive start {path} {url}`"
            ),
        };
        Err(Failure::new(ffi::CANTOPEN, text))
    }

    /// Sees to it that the store is still archived at `url`, by the process that has it open now.
    ///
    /// # Errors
    /// `CANTOPEN` when it is not.
    pub fn check_archived(&self, url: &str) -> Result<()> {
        let known = self.files.archive().map_err(Failure::of(ffi::CANTOPEN))?;
        let runs = known.is_some_and(|info| {
            info.state != ArchiveState::Ended && archive::is_same(&info.url, url)
        });
        if runs {
            return Ok(());
        }
        let text = format!(
            "{} is not archived at {url} since its server was started again; open the database again",
            self.path
        );
        Err(Failure::new(ffi::CANTOPEN, text))
    }

    /// Whether a database of the store has its write-ahead log open in this process.
    pub fn has_wal(&self) -> bool {
        let databases = locked(&self.databases);
        let mut open = databases.values().filter_map(Weak::upgrade);
        open.any(|database| database.is_wal())
    }

    /// The open transaction of a connection, with one more member; a new one, whose end puts its LSN into `last`, if
    /// there is none.
    ///
    /// # Errors
    /// Those of [`Transaction::begin`].
    pub fn join(&self, connection: usize, last: &Arc<LastCommit>) -> Result<Arc<Transaction>> {
        let mut transactions = locked(&self.transactions);
        let known = transactions.get(&connection).and_then(Weak::upgrade);
        if let Some(transaction) = known.filter(|transaction| transaction.join()) {
            return Ok(transaction);
        }
        transactions.retain(|_, transaction| transaction.strong_count() > 0);
        let transaction = Arc::new(Transaction::begin(&self.files, last.clone())?);
        transactions.insert(connection, Arc::downgrade(&transaction));
        Ok(transaction)
    }

    /// Adds a super-journal, which begins to exist.
    pub fn add_super_journal(&self, name: &str) {
        locked(&self.super_journals).insert(name.to_owned(), None);
    }

    /// Whether the super-journal `name` exists.
    pub fn has_super_journal(&self, name: &str) -> bool {
        locked(&self.super_journals).contains_key(name)
    }

    /// Notes that the super-journal with the full name `full` decides about `transaction`.
    ///
    /// # Errors
    /// When it is not a super-journal of this store.
    pub fn set_super_journal(&self, full: &str, transaction: &Arc<Transaction>) -> Result<()> {
        let file = self.file_of(full);
        let mut super_journals = locked(&self.super_journals);
        match file.and_then(|file| super_journals.get_mut(file)) {
            Some(place) => {
                *place = Some(transaction.clone());
                Ok(())
            }
            None => Err(names::not_one_store(full, &self.path)),
        }
    }

    /// Deletes a super-journal, which ends its transaction. If that fails, the super-journal still exists. SQLite rolls
    /// back only databases whose super-journal exists.
    ///
    /// # Errors
    /// Those of [`Transaction::end`].
    pub fn delete_super_journal(&self, name: &str) -> Result<()> {
        let known = locked(&self.super_journals).get(name).cloned();
        if let Some(Some(transaction)) = known {
            transaction.end(true)?;
        }
        locked(&self.super_journals).remove(name);
        Ok(())
    }
}

static TABLE: PerProcess<Table> = PerProcess::new();

#[derive(Default)]
struct Table {
    /// All stores, by path.
    slots: BTreeMap<String, Arc<Mutex<Slot>>>,
    /// The stores that only this process has open, by [`Files::in_process`].
    own: BTreeMap<usize, Weak<Store>>,
}

#[derive(Default)]
struct Slot {
    store: Option<Arc<Store>>,
    /// Those of `store`.
    users: usize,
    /// The program has provided it; it stays open until it is withdrawn.
    provided: Option<Arc<dyn Files>>,
}

fn slot(path: &str) -> Arc<Mutex<Slot>> {
    let slots = &mut TABLE.lock().slots;
    slots.retain(|known, slot| {
        known == path || Arc::strong_count(slot) > 1 || locked(slot).provided.is_some()
    });
    slots.entry(path.to_owned()).or_default().clone()
}

/// Opens the store at `path`, or shares it.
///
/// # Errors
/// `CANTOPEN`, with the reason in the text.
pub fn acquire(path: &str) -> Result<StoreRef> {
    let slot = slot(path);
    let mut inner = locked(&slot);
    let store = match &inner.store {
        Some(store) if !store.files.is_over() => store.clone(),
        // What still uses a session that has lost its server keeps that until it takes a lock (`main_db.rs`).
        _ => {
            let files = match &inner.provided {
                Some(files) => files.clone(),
                None => open(path)?,
            };
            let store = shared(path, files);
            inner.store = Some(store.clone());
            inner.users = 0;
            store
        }
    };
    inner.users += 1;
    drop(inner);
    Ok(StoreRef {
        store: Some(store),
        slot,
    })
}

/// Opens or shares the store at `path`, and does `open` there. A session whose end shows only then is replaced by another
/// one.
///
/// # Errors
/// As for [`acquire`], and what `open` gives.
pub fn acquire_and<T>(path: &str, open: impl Fn(&StoreRef) -> Result<T>) -> Result<(StoreRef, T)> {
    for _ in 1..TRIES {
        let store = acquire(path)?;
        match open(&store) {
            Err(_) if store.files().is_over() => {}
            opened => return opened.map(|opened| (store, opened)),
        }
    }
    let store = acquire(path)?;
    open(&store).map(|opened| (store, opened))
}

/// So many sessions that have lost their server may follow one another.
const TRIES: usize = 3;

/// The open store of `files`, which may be known under other names already.
fn shared(path: &str, files: Arc<dyn Files>) -> Arc<Store> {
    let number = files.in_process();
    let store = Arc::new(Store::new(path, files));
    let Some(number) = number else {
        return store;
    };
    let mut table = TABLE.lock();
    table.own.retain(|_, store| store.strong_count() > 0);
    if let Some(known) = table.own.get(&number).and_then(Weak::upgrade) {
        // The surplus session ends without the lock.
        drop(table);
        return known;
    }
    table.own.insert(number, Arc::downgrade(&store));
    store
}

/// The environment variable with the seconds to wait for a server that has gone away.
const WAIT_VARIABLE: &str = "TONEARM_SERVER_WAIT";

fn server_wait() -> Option<Duration> {
    let seconds = std::env::var(WAIT_VARIABLE).ok()?;
    Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
}

/// Opens the store itself, or a session with the server that has it open.
fn open(path: &str) -> Result<Arc<dyn Files>> {
    let defaults = StoreOptions::default();
    let options = StoreOptions {
        server_wait: server_wait().unwrap_or(defaults.server_wait),
        ..defaults
    };
    let opened = tonearm_store::open_files(Path::new(path), options);
    opened.map_err(|error| {
        let code = match error.kind {
            FilesErrorKind::Away => ffi::BUSY,
            _ => ffi::CANTOPEN,
        };
        if matches!(error.kind, FilesErrorKind::Away | FilesErrorKind::Busy) {
            failure::print_once(&error.text);
        }
        Failure::new(code, error.text)
    })
}

/// Makes connections find `files` under `path`, until [`withdraw`].
pub fn provide(path: &str, files: Arc<dyn Files>) {
    locked(&slot(path)).provided = Some(files);
}

/// Takes back what was provided. Connections that are open keep it.
pub fn withdraw(path: &str) {
    locked(&slot(path)).provided = None;
}

/// Whether the program provides `path`.
pub fn is_provided(path: &str) -> bool {
    let slot = TABLE.lock().slots.get(path).cloned();
    slot.is_some_and(|slot| locked(&slot).provided.is_some())
}

/// A share in an open store.
pub struct StoreRef {
    /// Empty once the share is being dropped.
    store: Option<Arc<Store>>,
    slot: Arc<Mutex<Slot>>,
}

impl StoreRef {
    /// True unless the store was replaced, because its session had lost its server.
    fn is_of(&self, slot: &Slot) -> bool {
        let (own, present) = (self.store.as_ref(), slot.store.as_ref());
        own.zip(present)
            .is_some_and(|(own, present)| Arc::ptr_eq(own, present))
    }
}

impl Clone for StoreRef {
    fn clone(&self) -> Self {
        let mut slot = locked(&self.slot);
        slot.users += usize::from(self.is_of(&slot));
        drop(slot);
        Self {
            store: self.store.clone(),
            slot: self.slot.clone(),
        }
    }
}

impl Deref for StoreRef {
    type Target = Store;
    fn deref(&self) -> &Store {
        self.store.as_deref().expect("it is taken in drop alone")
    }
}

impl Drop for StoreRef {
    fn drop(&mut self) {
        // A thread that wants to open the store meanwhile waits for the lock until the store is closed.
        let mut slot = locked(&self.slot);
        let is_current = self.is_of(&slot);
        let store = self.store.take();
        if !is_current {
            return;
        }
        slot.users -= 1;
        if slot.users == 0 {
            slot.store = None;
            if let Some(store) = store {
                // An error here has been reported by every commit that asked for durability, or will be by the next
                // opening.
                let _ = store.files.flush();
            }
        }
    }
}
