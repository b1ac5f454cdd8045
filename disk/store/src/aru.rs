//! A recovery unit for threads: the operations of `tonearm_disk::Aru`, each of which waits for its end.

use crate::error::StoreError;
use crate::files::{FILE_MODE, make, named};
use crate::open_unit::OpenUnit;
use crate::store::{Context, Store};
use crate::units::{NotAvailable, UnitId, Units};
use tonearm_base::{LooseBuf, Lsn};
use tonearm_disk::{Disk, DiskError, Marks, Piece, Volume};
use tonearm_fs::{Fs, FsError, Rename, SetAttr};

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
            context.units.open(OpenUnit::new(aru))
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
        let write = move |context: Context| async move {
            let mut unit = OpenUnit::new(context.disk.begin());
            Ok(match find(&mut unit, &context, &name).await? {
                Found::Volume(volume) => context.disk.write_buf(&volume, offset, data).await?,
                // It is a unit of its own, so that it conflicts with no other.
                Found::File(fs, ino) => fs.committed().write_all(ino, vec![(offset, data)]).await?,
            })
        };
        self.run(write)?
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
    /// Runs an operation on volumes or lists in the unit.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        operation: impl AsyncFnOnce(&mut tonearm_disk::Aru, &Disk) -> Result<T, DiskError>
        + Send
        + 'static,
    ) -> Result<T, StoreError> {
        self.run_unit(async move |unit, context| {
            let operation = async |aru: &mut tonearm_disk::Aru| operation(aru, &context.disk).await;
            Ok(unit.with_disk(operation).await?)
        })
    }

    /// Runs an operation in the unit.
    fn run_unit<T: Send + 'static>(
        &self,
        operation: impl AsyncFnOnce(&mut OpenUnit, &Context) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let id = self.id;
        let done = self.store.run(move |context| async move {
            let operation = async |unit: &mut OpenUnit| operation(unit, &context).await;
            let result = context.units.with(id, operation).await;
            result.map_err(|why| not_available(&context.units, why))?
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
        self.run_unit(
            async move |unit, context| match find(unit, context, &name).await? {
                Found::Volume(volume) => {
                    let read = async |aru: &mut tonearm_disk::Aru| {
                        read_in_unit(aru, &volume, offset, len).await
                    };
                    Ok(unit.with_disk(read).await?)
                }
                Found::File(fs, ino) => Ok(Piece::concat(&fs.read(ino, offset, len as u64).await?)),
            },
        )
    }

    /// Writes `data` at `offset`. A file grows as needed, a volume does not.
    ///
    /// # Errors
    /// When there is none, beyond a volume's end, read-only, or full. The unit cannot end then if it was a file.
    pub fn write(&mut self, name: &str, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        let (name, data) = (name.to_string(), LooseBuf::copy_of(data));
        self.run_unit(
            async move |unit, context| match find(unit, context, &name).await? {
                Found::Volume(volume) => {
                    let write = async |aru: &mut tonearm_disk::Aru| {
                        aru.write_buf(&volume, offset, data).await
                    };
                    Ok(unit.with_disk(write).await?)
                }
                Found::File(fs, ino) => {
                    Ok(fs.write_all(ino, vec![(offset, data)]).await.map(drop)?)
                }
            },
        )
    }

    /// Sets the size of a volume or file. What is cut off is gone; what is added reads as zeroes.
    ///
    /// # Errors
    /// As for [`Aru::write`], and when a volume would have no bytes.
    pub fn resize(&mut self, name: &str, size_bytes: u64) -> Result<(), StoreError> {
        let name = name.to_string();
        self.run_unit(
            async move |unit, context| match find(unit, context, &name).await? {
                Found::Volume(volume) => {
                    let resize =
                        async |aru: &mut tonearm_disk::Aru| aru.resize(&volume, size_bytes).await;
                    Ok(unit.with_disk(resize).await?)
                }
                Found::File(fs, ino) => {
                    let set = SetAttr {
                        size: Some(size_bytes),
                        ..SetAttr::default()
                    };
                    Ok(fs.set_attr(ino, set).await.map(drop)?)
                }
            },
        )
    }

    /// Size in bytes as the unit sees it.
    ///
    /// # Errors
    /// When there is no such volume or file.
    pub fn size(&self, name: &str) -> Result<u64, StoreError> {
        let name = name.to_string();
        self.run_unit(
            async move |unit, context| match find(unit, context, &name).await? {
                Found::Volume(volume) => {
                    let size = async |aru: &mut tonearm_disk::Aru| Ok(aru.size_bytes(&volume));
                    Ok(unit.with_disk(size).await?)
                }
                Found::File(fs, ino) => Ok(fs.size(ino).await?),
            },
        )
    }

    /// Makes an empty file. Its name is a path in the file system.
    ///
    /// # Errors
    /// When the name is taken or impossible, or the store is full.
    pub fn create_file(&mut self, name: &str) -> Result<(), StoreError> {
        let name = name.to_string();
        self.run_unit(async move |unit, context| {
            check_free(unit, &name).await?;
            let fs = unit.files(&context.files).await?.fs().clone();
            let made = make(&fs, &name, FILE_MODE).await;
            made.map(drop).map_err(|error| failure(&name, error))
        })
    }

    /// Deletes a volume or a file.
    ///
    /// # Errors
    /// When there is none.
    pub fn delete(&mut self, name: &str) -> Result<(), StoreError> {
        let name = name.to_string();
        self.run_unit(
            async move |unit, context| match find(unit, context, &name).await? {
                Found::Volume(_) => {
                    let delete = async |aru: &mut tonearm_disk::Aru| aru.delete_volume(&name).await;
                    Ok(unit.with_disk(delete).await?)
                }
                Found::File(fs, _) => {
                    let (dir, own) = fs.above(name.as_bytes()).await?;
                    Ok(fs.unlink(dir, own).await?)
                }
            },
        )
    }

    /// Renames a volume or a file. It replaces nothing.
    ///
    /// # Errors
    /// When there is none, or the new name is taken or impossible.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), StoreError> {
        let (from, to) = (from.to_string(), to.to_string());
        self.run_unit(
            async move |unit, context| match find(unit, context, &from).await? {
                Found::Volume(_) => {
                    if let Some(fs) = context.files.find().await?
                        && fs.at(to.as_bytes()).await.is_ok()
                    {
                        return Err(DiskError::VolumeExists(to).into());
                    }
                    let rename =
                        async |aru: &mut tonearm_disk::Aru| aru.rename_volume(&from, &to).await;
                    Ok(unit.with_disk(rename).await?)
                }
                Found::File(fs, _) => {
                    check_free(unit, &to).await?;
                    let (from_place, to_place) = (
                        fs.above(from.as_bytes()).await?,
                        fs.above(to.as_bytes()).await?,
                    );
                    let renamed = fs.rename(from_place, to_place, Rename::NoReplace).await;
                    renamed.map_err(|error| failure(&to, error))
                }
            },
        )
    }
}

/// What a name stands for in a unit.
enum Found {
    /// A volume.
    Volume(Volume),
    /// A file, and the file system as the unit sees it.
    File(Fs, u64),
}

async fn find(unit: &mut OpenUnit, context: &Context, name: &str) -> Result<Found, StoreError> {
    let fs = context.files.find().await?;
    let volume = async |aru: &mut tonearm_disk::Aru| Ok(aru.volume(name));
    match unit.with_disk(volume).await? {
        Err(DiskError::NoVolume(_)) => {}
        found => return Ok(Found::Volume(found?)),
    }
    if fs.is_none() {
        return Err(DiskError::NoVolume(name.to_string()).into());
    }
    let fs = unit.files(&context.files).await?.fs().clone();
    match fs.at(name.as_bytes()).await {
        Err(FsError::NotFound) => Err(DiskError::NoVolume(name.to_string()).into()),
        found => Ok(Found::File(fs.clone(), found?.ino)),
    }
}

/// The error of an operation that makes `name`.
fn failure(name: &str, error: FsError) -> StoreError {
    let why = match error {
        FsError::IsDirectory => "it is the root directory",
        FsError::NameTooLong => "a name has at most 255 bytes, and a path 4096",
        FsError::Invalid(why) => why,
        error => return named(name, error).into(),
    };
    let name = name.to_string();
    DiskError::BadName { name, why }.into()
}

/// Checks that no volume has the name.
async fn check_free(unit: &mut OpenUnit, name: &str) -> Result<(), StoreError> {
    let volume = async |aru: &mut tonearm_disk::Aru| Ok(aru.volume(name));
    match unit.with_disk(volume).await? {
        Ok(_) => Err(DiskError::VolumeExists(name.to_string()).into()),
        Err(_) => Ok(()),
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
            Ok(pieces) => return Ok(Piece::concat(&pieces)),
            // The file was made shorter during the read.
            Err(DiskError::OutOfRange { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}
