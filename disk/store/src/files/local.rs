//! Files of a store that is open in this process.

use super::held::{HeldUnits, Left, not_open};
use super::seen::{Seen, View};
use super::session::{Opened, Session, SharedLocks, not_open_file};
use super::{
    AruId, Due, FileId, FileInfo, Files, FilesError, HeldWrite, Level, Listing, NewAttr, Open,
};
use crate::error::StoreError;
use crate::store::Store;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use tonearm_base::{LooseBuf, Lsn};
use tonearm_disk::Marks;
use tonearm_engine::ArchiveInfo;

/// A session with an open store. The session itself keeps its locks, the last writes of its units, and what it has read
/// and no commit has changed since. None of these needs the engine.
pub struct LocalFiles {
    store: Store,
    session: u64,
    next_aru: AtomicU64,
    units: HeldUnits,
    locks: SharedLocks,
    seen: Seen,
}

impl Store {
    /// Begins a session with the files of the store.
    ///
    /// # Errors
    /// As for [`Store::stats`].
    pub fn files(&self) -> Result<LocalFiles, StoreError> {
        LocalFiles::new(self)
    }
}

impl LocalFiles {
    /// Begins a session.
    ///
    /// # Errors
    /// When the store is closed or must not be called here.
    pub fn new(store: &Store) -> Result<Self, StoreError> {
        let begun = store.run(|context| async move {
            let sessions = &context.sessions;
            (
                sessions.begin(),
                sessions.locks().clone(),
                context.disk.names(),
            )
        });
        let (session, locks, names) = begun?;
        Ok(Self {
            store: store.clone(),
            session,
            next_aru: AtomicU64::new(1),
            units: HeldUnits::default(),
            locks,
            seen: Seen::new(names),
        })
    }

    fn run<T, F>(&self, job: impl FnOnce(Session) -> F + Send + 'static) -> Result<T, FilesError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, FilesError>> + 'static,
    {
        let number = self.session;
        let done = self.store.run(move |context| async move {
            let session = context.sessions.get(number)?;
            job(session).await
        });
        done?
    }

    /// Runs `job`, which may belong to a unit, after the writes that were kept back of that unit.
    fn run_in<T, F>(
        &self,
        aru: Option<AruId>,
        job: impl FnOnce(Session) -> F + Send + 'static,
    ) -> Result<T, FilesError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, FilesError>> + 'static,
    {
        let Some(aru) = aru else {
            return self.run(job);
        };
        let due = self.units.due(aru)?;
        self.run_after(aru, due, job)
    }

    fn run_after<T, F>(
        &self,
        aru: AruId,
        due: Due,
        job: impl FnOnce(Session) -> F + Send + 'static,
    ) -> Result<T, FilesError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, FilesError>> + 'static,
    {
        let done = self.run(move |session| async move {
            Ok(match session.catch_up(aru, due).await {
                Ok(spare) => Ok((spare, job(session).await)),
                Err(late) => Err(late),
            })
        });
        // If the store is gone, so is the unit.
        match done? {
            Ok((spare, done)) => {
                self.units.give(spare);
                done
            }
            Err(late) => {
                self.units.fail(aru, &late);
                Err(late)
            }
        }
    }

    fn opened(&self, opened: Result<Opened, FilesError>) -> Result<FileId, FilesError> {
        let opened = opened?;
        let file = opened.file;
        self.seen.open(opened);
        Ok(file)
    }

    /// The result that the last short read of each file in `due` would have after `due`, for files in which `due`
    /// writes all of that range.
    fn after(&self, due: &Due) -> Vec<(FileId, View)> {
        let mut views: Vec<(FileId, View)> = Vec::new();
        for write in due.writes.iter().rev() {
            if views.iter().any(|(file, _)| *file == write.file) {
                continue;
            }
            let read = self.seen.last_read(write.file).and_then(|(at, len)| {
                let overlaps = |write: &&HeldWrite| {
                    let end = write.offset.saturating_add(write.data.len() as u64);
                    write.offset < at + len as u64 && at < end
                };
                let mut of_file = due.writes.iter().rev().filter(|of| of.file == write.file);
                let last = of_file.find(overlaps)?;
                let from = usize::try_from(at.checked_sub(last.offset)?).ok()?;
                let bytes = last.data.get(from..from + len)?;
                Some((at, len, bytes.to_vec()))
            });
            let view = View {
                read,
                ..View::default()
            };
            views.push((write.file, view));
        }
        views
    }

    /// The locks' name for the handle `file`: the file, and the holder.
    fn handle(&self, file: FileId) -> Result<(u64, (u64, u64)), FilesError> {
        self.store.check()?;
        let serial = self.seen.serial(file);
        let serial = serial.ok_or_else(|| not_open_file(file))?;
        Ok((serial, (self.session, file.0)))
    }
}

impl Drop for LocalFiles {
    fn drop(&mut self) {
        let number = self.session;
        // A store that is closed has ended its sessions.
        let _ = self
            .store
            .run(move |context| async move { context.sessions.end(number) });
    }
}

impl Files for LocalFiles {
    fn in_process(&self) -> Option<usize> {
        Some(self.store.number())
    }

    fn open(&self, name: &str, how: Open) -> Result<FileId, FilesError> {
        let name = name.to_string();
        self.opened(self.run(move |session| async move { session.open(&name, how).await }))
    }

    fn create(&self, aru: AruId, name: &str) -> Result<FileId, FilesError> {
        let name = name.to_string();
        let create = move |session: Session| async move { session.create(aru, &name).await };
        self.opened(self.run_in(Some(aru), create))
    }

    fn open_volume(&self, name: &str) -> Result<FileId, FilesError> {
        let name = name.to_string();
        self.opened(self.run(move |session| async move { session.open_volume(&name) }))
    }

    fn close(&self, file: FileId) {
        self.seen.close(file);
        for (aru, due) in self.units.due_of(file) {
            // The unit's end reports any error.
            let _ = self.run_after(aru, due, |_| async { Ok(()) });
        }
        // A closed store has no open files.
        let _ = self.run(move |session| async move {
            session.close(file);
            Ok(())
        });
    }

    fn look(&self, path: &str) -> Result<FileInfo, FilesError> {
        let path = path.to_string();
        self.run(move |session| async move { session.look(&path).await })
    }

    fn list(&self, path: &str, after: u64) -> Result<Listing, FilesError> {
        let path = path.to_string();
        self.run(move |session| async move { session.list(&path, after).await })
    }

    fn make_dir(&self, path: &str) -> Result<(), FilesError> {
        let path = path.to_string();
        self.run(move |session| async move { session.make_dir(&path).await })
    }

    fn read_link(&self, path: &str) -> Result<String, FilesError> {
        let path = path.to_string();
        self.run(move |session| async move { session.read_link(&path).await })
    }

    fn make_link(&self, path: &str, target: &str) -> Result<(), FilesError> {
        let (path, target) = (path.to_string(), target.to_string());
        self.run(move |session| async move { session.make_link(&path, &target).await })
    }

    fn set_attr(&self, path: &str, aru: Option<AruId>, set: NewAttr) -> Result<(), FilesError> {
        let path = path.to_string();
        self.run_in(aru, move |session| async move {
            session.set_attr(&path, aru, set).await
        })
    }

    fn exists(&self, name: &str) -> Result<bool, FilesError> {
        if let Some(exists) = self.seen.exists(name) {
            self.store.check()?;
            return Ok(exists);
        }
        let name = name.to_string();
        let (count, name, exists) = self.run(move |session| async move {
            // The count is taken before the look, so that a change during the look counts as later.
            let count = session.names().count();
            let exists = session.exists(&name).await?;
            Ok((count, name, exists))
        })?;
        self.seen.found_name(count, name, exists);
        Ok(exists)
    }

    fn delete(&self, name: &str) -> Result<(), FilesError> {
        let name = name.to_string();
        self.run(move |session| async move { session.delete(&name).await })
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), FilesError> {
        let (from, to) = (from.to_string(), to.to_string());
        self.run(move |session| async move { session.rename(&from, &to).await })
    }

    fn size(&self, file: FileId, aru: Option<AruId>) -> Result<u64, FilesError> {
        if aru.is_some() {
            let size = move |session: Session| async move { session.size(file, aru).await };
            return self.run_in(aru, size);
        }
        if let Some(size) = self.seen.size(file) {
            self.store.check()?;
            return Ok(size);
        }
        let (count, size) = self.run(move |session| async move {
            let count = session.count(file)?;
            Ok((count, session.size(file, None).await?))
        })?;
        let found = View {
            count,
            size: Some(size),
            read: None,
        };
        self.seen.found(file, found);
        Ok(size)
    }

    fn read(
        &self,
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, FilesError> {
        if aru.is_none()
            && let Some(bytes) = self.seen.read(file, offset, buf)
        {
            self.store.check()?;
            return Ok(bytes);
        }
        let len = buf.len();
        let read = move |session: Session| async move {
            // The count is taken before the read, so that a change during the read counts as later.
            let count = session.count(file)?;
            Ok((count, session.read(file, aru, offset, len).await?))
        };
        let (count, bytes) = self.run_in(aru, read)?;
        let read = bytes.len();
        buf[..read].copy_from_slice(&bytes);
        if aru.is_none() {
            let found = View {
                count,
                size: None,
                read: Some((offset, len, bytes)),
            };
            self.seen.found(file, found);
        }
        Ok(read)
    }

    fn begin(&self) -> Result<AruId, FilesError> {
        self.store.check()?;
        let id = AruId(self.next_aru.fetch_add(1, Ordering::Relaxed));
        self.units.begin(id);
        Ok(id)
    }

    fn write(
        &self,
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        data: &[u8],
    ) -> Result<(), FilesError> {
        let Some(aru) = aru else {
            let data = LooseBuf::copy_of(data);
            return self
                .run(move |session| async move { session.write(file, None, offset, data).await });
        };
        self.store.check()?;
        match self.units.write(aru, file, offset, data)? {
            None => Ok(()),
            Some(due) => self.run_after(aru, due, |_| async { Ok(()) }),
        }
    }

    fn truncate(&self, file: FileId, aru: Option<AruId>, size: u64) -> Result<(), FilesError> {
        self.run_in(aru, move |session| async move {
            session.truncate(file, aru, size).await
        })
    }

    fn zero(&self, file: FileId, offset: u64, len: u64) -> Result<(), FilesError> {
        self.run(move |session| async move { session.zero(file, offset, len).await })
    }

    fn status(&self, file: FileId, offset: u64, len: u64) -> Result<Vec<(u64, bool)>, FilesError> {
        self.run(move |session| async move { session.status(file, offset, len).await })
    }

    fn end(&self, aru: AruId, durable: bool) -> Result<Lsn, FilesError> {
        let Left { due, failed } = self.units.leave(aru).ok_or_else(|| not_open(aru))?;
        let mut views = self.after(&due);
        let (spare, views, ended) = self.run(move |session| async move {
            let caught_up = match failed {
                Some(error) => Err(error),
                None => session.catch_up(aru, due).await,
            };
            let spare = match caught_up {
                Ok(spare) => spare,
                Err(error) => {
                    session.abort(aru);
                    return Err(error);
                }
            };
            let lsn = session.end(aru).await?;
            // There was no await, so nothing else has been committed in between.
            views.retain_mut(|(file, view)| {
                view.size = session.known_size(*file);
                let count = session.count(*file);
                count.map(|count| view.count = count).is_ok()
            });
            let acknowledged = session.acknowledge(lsn, durable).await;
            Ok((spare, views, acknowledged.map(|()| lsn)))
        })?;
        self.units.give(spare);
        // If the store has failed, the session answers with the engine's error, not from its cache.
        if ended.is_ok() {
            for (file, view) in views {
                self.seen.found(file, view);
            }
        }
        ended
    }

    fn abort(&self, aru: AruId) {
        match self.units.leave(aru) {
            // The engine does not have the unit.
            Some(Left { due, .. }) if due.begin => return,
            Some(_) => {}
            None => return,
        }
        // A closed store has no open units.
        let _ = self.run(move |session| async move {
            session.abort(aru);
            Ok(())
        });
    }

    fn flush(&self) -> Result<(), FilesError> {
        self.run(|session| async move { session.flush().await })
    }

    fn marks(&self) -> Result<Marks, FilesError> {
        self.run(|session| async move { Ok(session.marks()) })
    }

    fn wait_durable(&self, lsn: Lsn) -> Result<(), FilesError> {
        self.run(move |session| async move { session.wait_durable(lsn).await })
    }

    fn archive(&self) -> Result<Option<ArchiveInfo>, FilesError> {
        self.run(|session| async move { Ok(session.archive()) })
    }

    fn wait_archived(&self, lsn: Lsn) -> Result<(), FilesError> {
        self.run(move |session| async move { session.wait_archived(lsn).await })
    }

    fn lock(&self, file: FileId, level: Level) -> Result<bool, FilesError> {
        let (serial, holder) = self.handle(file)?;
        self.locks.lock(serial, holder, level)
    }

    fn unlock(&self, file: FileId, level: Level) -> Result<(), FilesError> {
        let (serial, holder) = self.handle(file)?;
        self.locks.unlock(serial, holder, level)
    }

    fn reserved(&self, file: FileId) -> Result<bool, FilesError> {
        let (serial, _) = self.handle(file)?;
        Ok(self.locks.reserved(serial))
    }
}
