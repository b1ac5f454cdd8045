//! A recovery unit for threads: the operations of `tonearm_disk::Aru`, each of which waits for its end.

use crate::create::{new_uuid, now_unix_s};
use crate::error::StoreError;
use crate::store::Store;
use crate::units::{NotAvailable, UnitId, Units};
use tonearm_base::{LooseBuf, Lsn};
use tonearm_disk::{Disk, DiskError, Marks, Piece, Volume};

/// An open recovery unit: all its changes take effect at once when it ends, or not at all. Dropping it aborts it.
///
/// Volumes and files are named at each operation, as the unit sees them; lists and blocks have identifiers. See
/// `tonearm_disk::Aru` for what units see of each other.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("store.tn");
/// use tonearm_store::{CreateOptions, Store, StoreOptions, create};
///
/// create(&path, &CreateOptions::default())?;
/// let store = Store::open(&path, StoreOptions::default())?;
/// let mut unit = store.begin()?;
/// unit.create_file("accounts")?;
/// unit.create_file("journal")?;
/// unit.write("accounts", 0, b"balance 100")?;
/// unit.write("journal", 0, b"opened")?;
/// assert!(store.size("journal").is_err(), "nobody else sees it yet");
/// let lsn = unit.end()?;
/// assert_eq!(store.read("accounts", 8, 3)?, b"100");
/// store.wait_durable(lsn)?;
/// store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Aru {
    store: Store,
    id: UnitId,
}

fn not_available(units: &Units, why: NotAvailable) -> StoreError {
    match why {
        NotAvailable::InUse => StoreError::UnitInUse,
        NotAvailable::NotOpen if units.is_closed() => StoreError::Closed,
        // An operation of it has panicked.
        NotAvailable::NotOpen => StoreError::UnitOver,
    }
}

impl Store {
    /// Begins a recovery unit.
    ///
    /// # Errors
    /// As for [`Store::stats`].
    pub fn begin(&self) -> Result<Aru, StoreError> {
        let begin = |context: crate::Context| async move {
            let aru = context.disk.begin();
            context.units.open(aru)
        };
        Ok(Aru {
            id: self.run(begin)?,
            store: self.clone(),
        })
    }

    /// Reads at most `len` bytes at `offset` of a volume or file in the committed state, fewer at its end.
    ///
    /// # Errors
    /// When there is none, or a block is damaged.
    pub fn read(&self, name: &str, offset: u64, len: usize) -> Result<Vec<u8>, StoreError> {
        self.begin()?.read(name, offset, len)
    }

    /// Writes `data` at `offset` of a volume or file, as a unit of its own.
    ///
    /// # Errors
    /// As for [`Aru::write`]; read-only, full or failed.
    pub fn write(&self, name: &str, offset: u64, data: &[u8]) -> Result<Lsn, StoreError> {
        let (name, data) = (name.to_string(), LooseBuf::copy_of(data));
        let write = move |context: crate::Context| async move {
            let volume = context.disk.volume(&name)?;
            context.disk.write_buf(&volume, offset, data).await
        };
        Ok(self.run(write)??)
    }

    /// Size in bytes of a volume or file in the committed state.
    ///
    /// # Errors
    /// When there is none.
    pub fn size(&self, name: &str) -> Result<u64, StoreError> {
        self.begin()?.size(name)
    }

    /// Makes everything that has ended durable.
    ///
    /// # Errors
    /// When the log fails.
    pub fn flush(&self) -> Result<(), StoreError> {
        Ok(self.run(|context| async move { context.disk.flush().await })??)
    }

    /// Brings everything that has ended home, and makes the log's start pass it: a recovery from then on replays nothing of
    /// it. Returns the LSN of the last of these units. The store writes home by itself, too; this is for a moment that
    /// suits the program.
    ///
    /// # Errors
    /// When the store is read-only, fails or is full.
    pub fn checkpoint(&self) -> Result<Lsn, StoreError> {
        Ok(self.run(|context| async move { context.disk.checkpoint().await })??)
    }

    /// How far the commits of the store have come: appended >= flushed >= durable. Waits for no device.
    ///
    /// # Errors
    /// As for [`Store::stats`].
    pub fn marks(&self) -> Result<Marks, StoreError> {
        self.run(|context| async move { context.disk.marks() })
    }

    /// The last durable commit: the unit that ended with this LSN, and all before it, survive any crash. Waits for no
    /// device, so that a program can look from time to time.
    ///
    /// # Errors
    /// As for [`Store::stats`].
    pub fn durable(&self) -> Result<Lsn, StoreError> {
        Ok(self.marks()?.durable)
    }

    /// Waits until the unit that ended with `lsn`, and all before it, are durable.
    ///
    /// # Errors
    /// When no unit has ended with `lsn` yet, or the log fails.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<(), StoreError> {
        Ok(self.run(move |context| async move { context.disk.wait_durable(lsn).await })??)
    }
}

impl Aru {
    pub(crate) fn run<T: Send + 'static>(
        &self,
        operation: impl AsyncFnOnce(&mut tonearm_disk::Aru, &Disk) -> Result<T, DiskError>
        + Send
        + 'static,
    ) -> Result<T, StoreError> {
        let id = self.id;
        let done = self.store.run(move |context| async move {
            let operation = async |aru: &mut tonearm_disk::Aru| operation(aru, &context.disk).await;
            let result = context.units.with(id, operation).await;
            Ok(result.map_err(|why| not_available(&context.units, why))??)
        });
        done?
    }

    /// Ends the unit: it is visible to all at once, and durable with [`Store::wait_durable`] or [`Store::flush`].
    ///
    /// # Errors
    /// `Conflict` when units of others that have ended before make it impossible; read-only, full or failed. Nothing of
    /// the unit is applied then.
    pub fn end(self) -> Result<Lsn, StoreError> {
        let id = self.id;
        let ended = self.store.run(move |context| async move {
            let taken = context.units.take(id);
            let taken = taken.map_err(|why| not_available(&context.units, why))?;
            Ok(taken.keep().end().await?)
        });
        ended?
    }

    /// Ends the unit without any effect.
    pub fn abort(self) {}

    /// Reads at most `len` bytes at `offset` as the unit sees them, fewer at the end of the volume or file.
    ///
    /// # Errors
    /// When there is none, or a block is damaged.
    pub fn read(&self, name: &str, offset: u64, len: usize) -> Result<Vec<u8>, StoreError> {
        let name = name.to_string();
        self.run(async move |aru, _| {
            let volume = aru.volume(&name)?;
            read_in_unit(aru, &volume, offset, len).await
        })
    }

    /// Writes `data` at `offset`. A file grows as needed, a volume does not.
    ///
    /// # Errors
    /// When there is none, beyond a volume's end, read-only, or full. The unit goes on without the write.
    pub fn write(&mut self, name: &str, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let (name, data) = (name.to_string(), LooseBuf::copy_of(data));
        self.run(async move |aru, _| {
            let volume = aru.volume(&name)?;
            aru.write_buf(&volume, offset, data).await
        })
    }

    /// Sets the size of a volume or file. What is cut off is gone; what is added reads as zeroes.
    ///
    /// # Errors
    /// When there is none, read-only, full, or a volume would have no bytes.
    pub fn resize(&mut self, name: &str, size_bytes: u64) -> Result<(), StoreError> {
        let name = name.to_string();
        self.run(async move |aru, _| {
            let volume = aru.volume(&name)?;
            aru.resize(&volume, size_bytes).await
        })
    }

    /// Size in bytes as the unit sees it.
    ///
    /// # Errors
    /// When there is no such volume or file.
    pub fn size(&self, name: &str) -> Result<u64, StoreError> {
        let name = name.to_string();
        self.run(async move |aru, _| {
            let volume = aru.volume(&name)?;
            Ok(aru.size_bytes(&volume))
        })
    }

    /// Makes an empty file.
    ///
    /// # Errors
    /// When the name is taken or impossible, or there are too many.
    pub fn create_file(&mut self, name: &str) -> Result<(), StoreError> {
        let name = name.to_string();
        self.run(async move |aru, _| {
            let made = aru.create_file(&name, new_uuid(), now_unix_s()).await;
            made.map(|_| ())
        })
    }

    /// Deletes a volume or a file.
    ///
    /// # Errors
    /// When there is none.
    pub fn delete(&mut self, name: &str) -> Result<(), StoreError> {
        let name = name.to_string();
        self.run(async move |aru, _| aru.delete_volume(&name).await)
    }

    /// Renames a volume or a file. It replaces nothing.
    ///
    /// # Errors
    /// When there is none, or the new name is taken or impossible.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), StoreError> {
        let (from, to) = (from.to_string(), to.to_string());
        self.run(async move |aru, _| aru.rename_volume(&from, &to).await)
    }
}

impl Drop for Aru {
    fn drop(&mut self) {
        let id = self.id;
        // A closed store has no open units, and a unit that has ended is not open.
        let _ = self.store.run(move |context| async move {
            context.units.abort(id);
        });
    }
}

/// At most `len` bytes at `offset` as the unit sees them, fewer at the end of the volume or file.
pub(crate) async fn read_in_unit(
    aru: &tonearm_disk::Aru,
    volume: &Volume,
    offset: u64,
    len: usize,
) -> Result<Vec<u8>, DiskError> {
    loop {
        let size = aru.size_bytes(volume);
        let part = size.saturating_sub(offset).min(len as u64);
        match aru.read(volume, offset.min(size), part).await {
            Ok(pieces) => return Ok(joined(&pieces, part as usize)),
            // The file was made shorter during the read.
            Err(DiskError::OutOfRange { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The bytes of `pieces`, which are `len` together.
pub(crate) fn joined(pieces: &[Piece], len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    for piece in pieces {
        match piece {
            Piece::Data(data) => bytes.extend_from_slice(data),
            Piece::Zero(zeroes) => bytes.resize(bytes.len() + zeroes, 0),
        }
    }
    bytes
}
