//! Files of a store that is open in this process.

use super::{AruId, FileId, FileInfo, Files, FilesError, Level, Open};
use crate::error::StoreError;
use crate::session::Session;
use crate::store::Store;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

/// A session with an open store.
pub struct LocalFiles {
    store: Store,
    session: u64,
    next_aru: AtomicU64,
}

impl LocalFiles {
    /// Begins a session.
    ///
    /// # Errors
    /// When the store is closed or must not be called here.
    pub fn new(store: &Store) -> Result<Self, StoreError> {
        let session = store.run(|context| async move { context.sessions.begin() })?;
        Ok(Self {
            store: store.clone(),
            session,
            next_aru: AtomicU64::new(1),
        })
    }

    /// The store of the session.
    pub fn store(&self) -> &Store {
        &self.store
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
    fn in_process(&self) -> bool {
        true
    }

    fn open(&self, name: &str, how: Open) -> Result<FileId, FilesError> {
        let name = name.to_string();
        self.run(move |session| async move { session.open(&name, how).await })
    }

    fn create(&self, aru: AruId, name: &str) -> Result<FileId, FilesError> {
        let name = name.to_string();
        self.run(move |session| async move { session.create(aru, &name).await })
    }

    fn close(&self, file: FileId) {
        // Of a store that is closed nothing is open.
        let _ = self.run(move |session| async move {
            session.close(file);
            Ok(())
        });
    }

    fn list(&self) -> Result<Vec<FileInfo>, FilesError> {
        self.run(|session| async move { Ok(session.list()) })
    }

    fn exists(&self, name: &str) -> Result<bool, FilesError> {
        let name = name.to_string();
        self.run(move |session| async move { Ok(session.exists(&name)) })
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
        self.run(move |session| async move { session.size(file, aru) })
    }

    fn read(
        &self,
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, FilesError> {
        let len = buf.len();
        let bytes =
            self.run(move |session| async move { session.read(file, aru, offset, len).await })?;
        buf[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn begin(&self) -> Result<AruId, FilesError> {
        let id = AruId(self.next_aru.fetch_add(1, Ordering::Relaxed));
        self.run(move |session| async move { session.begin(id) })?;
        Ok(id)
    }

    fn write(
        &self,
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        data: &[u8],
    ) -> Result<(), FilesError> {
        let data = data.to_vec();
        self.run(move |session| async move { session.write(file, aru, offset, &data).await })
    }

    fn truncate(&self, file: FileId, aru: Option<AruId>, size: u64) -> Result<(), FilesError> {
        self.run(move |session| async move { session.truncate(file, aru, size).await })
    }

    fn end(&self, aru: AruId, durable: bool) -> Result<(), FilesError> {
        self.run(move |session| async move {
            let lsn = session.end(aru).await?;
            session.acknowledge(lsn, durable).await
        })
    }

    fn abort(&self, aru: AruId) {
        // Of a store that is closed nothing is open.
        let _ = self.run(move |session| async move {
            session.abort(aru);
            Ok(())
        });
    }

    fn flush(&self) -> Result<(), FilesError> {
        self.run(|session| async move { session.flush().await })
    }

    fn lock(&self, file: FileId, level: Level) -> Result<bool, FilesError> {
        self.run(move |session| async move { session.lock(file, level) })
    }

    fn unlock(&self, file: FileId, level: Level) -> Result<(), FilesError> {
        self.run(move |session| async move { session.unlock(file, level) })
    }

    fn reserved(&self, file: FileId) -> Result<bool, FilesError> {
        self.run(move |session| async move { session.reserved(file) })
    }
}
