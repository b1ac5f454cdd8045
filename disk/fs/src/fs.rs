//! The file system: how operations run over the tree, and which files are in use.
//!
//! Invariants:
//! 1. Each operation is one recovery unit. Its last step, without an await, checks that it is possible and changes the tree.
//!    So operations are serialised by the ends of their units, and need no locks among each other.
//! 2. The blocks and the size of a file change only while the operation has the file alone ([`Use::alone`]). Reads of its
//!    content share it. So the blocks that were looked up are those that are read or written.
//! 3. Within a unit of an application (`unit.rs`) operations change the unit alone, and its end changes the tree.
//! 4. A file without a name lives while it is in use. The end of its last use deletes it, a handle or an operation. Its orphan
//!    item tells the next opening that it is to be deleted.

use crate::error::FsError;
use crate::meta::{Meta, Naming, Number, Stop};
use crate::orphans::Deletion;
use crate::overlay::Edit;
use crate::step::Step;
use crate::tree;
use crate::unit::{UnitState, Units};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::Lsn;
use tonearm_disk::{Disk, DiskError, TreePages, TreeStop};
use tonearm_format::{Inode, ROOT_INO, TREE_OWNER_WORDS, Time};
use tonearm_rt::{Permit, Rt, Semaphore};

/// Permissions of the root directory of a new file system.
const ROOT_MODE: u32 = 0o755;
/// Type of a directory, in `st_mode`.
pub(crate) const DIRECTORY: u32 = 0o040_000;
/// Type of a regular file.
pub(crate) const REGULAR: u32 = 0o100_000;
/// Type of a symbolic link.
pub(crate) const SYMLINK: u32 = 0o120_000;
/// Bits of the type.
pub(crate) const TYPE: u32 = 0o170_000;

/// Readers of one file at a time.
const READERS: u64 = 1 << 20;

/// A file's number and attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attr {
    /// Its number, which no other file gets.
    pub ino: u64,
    /// Its attributes.
    pub inode: Inode,
}

/// The size of the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks, used and free ones.
    pub blocks: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Files and directories.
    pub inodes: u64,
}

/// An open file system, as it is committed or as a unit sees it; cheap to clone. One thread uses it, the engine's.
#[derive(Clone)]
pub struct Fs(Rc<State>, Option<Rc<UnitState>>);

struct State {
    disk: Disk,
    rt: Rt,
    clock: Box<dyn Fn() -> Time>,
    hash_key: (u64, u64),
    files: RefCell<BTreeMap<u64, Rc<FileState>>>,
    units: RefCell<Units>,
    /// Inodes below this number belong to units that are open or have been.
    taken: Cell<u64>,
    deletion: Cell<Deletion>,
}

/// The state of a file that is in use.
struct FileState {
    /// Handles, and operations that are under way.
    uses: Cell<u64>,
    content: Semaphore,
    /// The last commit that has changed it since it came into use.
    changed: Cell<Lsn>,
    /// It may have lost its last name, so it is to be deleted when its use ends.
    nameless: Cell<bool>,
}

/// Keeps a file in use.
pub(crate) struct Use {
    fs: Fs,
    ino: u64,
    file: Rc<FileState>,
}

impl Use {
    /// Has the content alone while the permit lives.
    pub async fn alone(&self) -> Permit {
        let permit = self.file.content.acquire(READERS).await;
        self.touch(true);
        permit
    }

    /// Shares the content with other readers while the permit lives.
    pub async fn shared(&self) -> Permit {
        let permit = self.file.content.acquire(1).await;
        self.touch(false);
        permit
    }

    /// A unit that uses the content ends only if nobody else changes it.
    fn touch(&self, is_changed: bool) {
        if let Some(unit) = self.fs.unit() {
            unit.touch(&self.fs.committed(), self.ino, is_changed);
        }
    }

    /// The last commit that has changed the file since it came into use.
    pub fn changed(&self) -> Lsn {
        self.file.changed.get()
    }

    /// Notes that `lsn` has changed the file.
    pub fn note(&self, lsn: Lsn) {
        self.file.changed.set(lsn.max(self.file.changed.get()));
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.fs.end_use(self.ino);
    }
}

impl Fs {
    /// Opens the file system of a store, and makes it if there is none. Frees what the last opening left: files without a
    /// name. `clock` tells the time of day.
    ///
    /// # Errors
    /// When the store is read-only and has no file system, is full, or the tree is damaged.
    pub async fn open(
        disk: &Disk,
        rt: &Rt,
        clock: impl Fn() -> Time + 'static,
    ) -> Result<Self, FsError> {
        if !disk.has_tree() {
            make_root(disk, clock()).await?;
        }
        let hash_key = look(disk, Naming::default(), |meta| {
            Ok((
                meta.number(Number::HashKey)?,
                meta.number(Number::HashKey1)?,
            ))
        });
        let hash_key = hash_key.await?;
        let state = State {
            disk: disk.clone(),
            rt: rt.clone(),
            clock: Box::new(clock),
            hash_key,
            files: RefCell::default(),
            units: RefCell::default(),
            taken: Cell::new(0),
            deletion: Cell::default(),
        };
        let fs = Self(Rc::new(state), None);
        if !disk.engine().options().read_only {
            fs.free_orphans().await?;
        }
        Ok(fs)
    }

    /// The time of day.
    pub fn now(&self) -> Time {
        (self.0.clock)()
    }

    /// The store below.
    pub fn disk(&self) -> &Disk {
        &self.0.disk
    }

    /// Sets how the blocks of deleted files are freed: with their list, unless it is set.
    pub fn set_deletion(&self, how: Deletion) {
        self.0.deletion.set(how);
    }

    pub(crate) fn deletion(&self) -> Deletion {
        self.0.deletion.get()
    }

    pub(crate) fn rt(&self) -> &Rt {
        &self.0.rt
    }

    /// The file system as it is committed.
    pub fn committed(&self) -> Self {
        Self(self.0.clone(), None)
    }

    /// The file system as a unit sees it.
    pub(crate) fn within(&self, unit: &Rc<UnitState>) -> Self {
        Self(self.0.clone(), Some(unit.clone()))
    }

    /// The unit in which operations are done.
    pub(crate) fn unit(&self) -> Option<&Rc<UnitState>> {
        self.1.as_ref()
    }

    pub(crate) fn units(&self) -> &RefCell<Units> {
        &self.0.units
    }

    pub(crate) fn hash_key(&self) -> (u64, u64) {
        self.0.hash_key
    }

    fn naming(&self) -> Naming {
        Naming {
            hash_key: self.0.hash_key,
            taken: self.0.taken.get(),
        }
    }

    /// Notes that units have taken the inodes below `next`.
    pub(crate) fn take_inos(&self, next: u64) {
        self.0.taken.set(self.0.taken.get().max(next));
    }

    /// The recovery unit of an operation.
    pub(crate) async fn step(&self) -> Result<Step, FsError> {
        match self.unit() {
            Some(unit) => Step::of(unit).await,
            None => Ok(Step::own(self.0.disk.begin())),
        }
    }

    pub(crate) fn block(&self) -> u64 {
        u64::from(self.0.disk.block_size())
    }

    /// Runs `task` beside the caller.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.rt.spawn(task);
    }

    /// Runs `look` over the tree. It may run several times.
    pub(crate) async fn look<T>(
        &self,
        what: impl FnMut(&mut Meta<'_, '_>) -> Result<T, Stop>,
    ) -> Result<T, FsError> {
        match self.unit() {
            None => look(&self.0.disk, self.naming(), what).await,
            Some(unit) => {
                unit.check()?;
                match self.edit(unit, what).await {
                    Ok(found) => found.map(|(found, _)| found).ok_or_else(again),
                    Err(error) => Err(Box::pin(self.reason(unit, error)).await),
                }
            }
        }
    }

    /// Runs `change` over the tree as `unit` sees it. `None` when the operation has to begin again.
    async fn edit<T>(
        &self,
        unit: &UnitState,
        mut change: impl FnMut(&mut Meta<'_, '_>) -> Result<T, Stop>,
    ) -> Result<Option<(T, Edit)>, FsError> {
        let (mut found, mut failed) = (None, None);
        let naming = self.naming();
        let looked = self.0.disk.look_at_tree(|pages| {
            let (overlay, mut edit) = (unit.overlay.borrow(), Edit::default());
            let result = change(&mut Meta::over(pages, naming, &overlay, &mut edit));
            settle(result, &mut failed).map(|result| found = Some((result, edit)))
        });
        match looked.await {
            Err(DiskError::Refused) if failed.is_none() => Ok(None),
            looked => told(looked, failed).map(|()| found),
        }
    }

    /// Ends `unit` with a change of the tree. `change` may run several times, each time over the tree without its earlier
    /// changes. It does not ask for the operation to begin again.
    pub(crate) async fn end<T: 'static>(
        &self,
        unit: Step,
        change: impl FnMut(&mut Meta<'_, '_>) -> Result<T, Stop> + 'static,
    ) -> Result<(T, Lsn), FsError> {
        let ended = self.try_end(unit, change).await?;
        // Its caller has the file alone, so that nobody can have changed what it has looked up.
        ended.ok_or_else(again)
    }

    /// As [`Fs::end`]. `None` when the operation has to begin again: `change` asks for it, or another unit has freed a list that
    /// this one frees.
    pub(crate) async fn try_end<T: 'static>(
        &self,
        step: Step,
        mut change: impl FnMut(&mut Meta<'_, '_>) -> Result<T, Stop> + 'static,
    ) -> Result<Option<(T, Lsn)>, FsError> {
        if let Some(unit) = self.unit() {
            let changed = match self.edit(unit, change).await {
                Err(error) => return Err(Box::pin(self.reason(unit, error)).await),
                Ok(changed) => changed,
            };
            let Some((found, edit)) = changed else {
                return Ok(None);
            };
            self.take_edit(unit, step, edit).await?;
            return Ok(Some((found, Lsn(0))));
        }
        let mut unit = step.into_aru();
        let result = Rc::new(RefCell::new((None, None)));
        let (own, fs) = (result.clone(), self.clone());
        unit.set_tree(Box::new(move |pages: &mut TreePages<'_>| {
            let changed = change(&mut Meta::new(pages, fs.naming()));
            let mut own = own.borrow_mut();
            let (found, failed) = &mut *own;
            settle(changed, failed).map(|value| *found = Some(value))
        }));
        let ended = unit.end().await;
        let (found, failed) = result.take();
        match ended {
            Err(DiskError::Refused) if failed.is_none() => Ok(None),
            Err(DiskError::Conflict(_)) => Ok(None),
            ended => {
                let lsn = told(ended, failed)?;
                let found = found.expect("a change that was committed has a result");
                Ok(Some((found, lsn)))
            }
        }
    }

    /// Changes the tree alone.
    pub(crate) async fn change<T: 'static>(
        &self,
        change: impl FnMut(&mut Meta<'_, '_>) -> Result<T, Stop> + 'static,
    ) -> Result<(T, Lsn), FsError> {
        self.end(self.step().await?, change).await
    }

    /// Takes a file into use.
    pub(crate) fn take(&self, ino: u64) -> Use {
        let mut files = self.0.files.borrow_mut();
        let file = files.entry(ino).or_insert_with(|| {
            Rc::new(FileState {
                uses: Cell::new(0),
                content: Semaphore::new(&self.0.rt, READERS),
                changed: Cell::new(Lsn(0)),
                nameless: Cell::new(false),
            })
        });
        file.uses.set(file.uses.get() + 1);
        Use {
            fs: self.clone(),
            ino,
            file: file.clone(),
        }
    }

    /// True when a handle is open on the file, or an operation on its content is under way.
    pub(crate) fn is_in_use(&self, ino: u64) -> bool {
        self.0.files.borrow().contains_key(&ino)
    }

    fn end_use(&self, ino: u64) {
        let mut files = self.0.files.borrow_mut();
        let Some(file) = files.get(&ino) else { return };
        file.uses.set(file.uses.get() - 1);
        if file.uses.get() > 0 {
            return;
        }
        let nameless = file.nameless.get();
        files.remove(&ino);
        drop(files);
        if nameless {
            self.free_in_background(ino);
        }
    }

    /// Sees to it that a file, which may have no name, is deleted when its use ends. False when it is not in use.
    pub(crate) fn free_after_use(&self, ino: u64) -> bool {
        let files = self.0.files.borrow();
        files.get(&ino).is_some_and(|file| {
            file.nameless.set(true);
            true
        })
    }

    /// Counts a handle of a file or directory. A file without a name is deleted with its last handle.
    pub fn open_handle(&self, ino: u64) {
        // The handle keeps the use.
        std::mem::forget(self.committed().take(ino));
    }

    /// Ends a handle.
    pub fn close_handle(&self, ino: u64) {
        self.end_use(ino);
    }

    /// Notes a commit that has changed `ino`, if the file is in use.
    pub(crate) fn note(&self, ino: u64, lsn: Lsn) {
        if let Some(file) = self.0.files.borrow().get(&ino) {
            file.changed.set(lsn.max(file.changed.get()));
        }
    }

    /// Waits until the last change of a file is durable, or with `None` every change so far. All callers share the writes and
    /// flushes of the log.
    ///
    /// # Errors
    /// When the store has failed.
    pub async fn sync(&self, ino: Option<u64>) -> Result<(), FsError> {
        // The changes of a unit become durable when it has ended.
        if let Some(unit) = self.unit() {
            return unit.check();
        }
        let file = ino.and_then(|ino| self.0.files.borrow().get(&ino).cloned());
        match file {
            Some(file) if file.changed.get() > Lsn(0) => {
                Ok(self.0.disk.wait_durable(file.changed.get()).await?)
            }
            _ => Ok(self.0.disk.flush().await?),
        }
    }

    /// How much there is.
    ///
    /// # Errors
    /// When the tree cannot be read.
    pub async fn space(&self) -> Result<Space, FsError> {
        let (used, inodes) = self
            .look(|meta| Ok((meta.number(Number::Blocks)?, meta.number(Number::Inodes)?)))
            .await?;
        let block_size = self.0.disk.block_size();
        let free = self.0.disk.free_bytes() / u64::from(block_size);
        let free_blocks = free + self.0.disk.list_blocks_max().saturating_sub(used);
        Ok(Space {
            block_size,
            blocks: used + free_blocks,
            free_blocks,
            inodes,
        })
    }
}

/// Runs `look` over the committed tree. It may run several times.
pub(crate) async fn look<T>(
    disk: &Disk,
    naming: Naming,
    mut look: impl FnMut(&mut Meta<'_, '_>) -> Result<T, Stop>,
) -> Result<T, FsError> {
    let (mut found, mut failed) = (None, None);
    let looked = disk.look_at_tree(|pages| {
        let result = look(&mut Meta::new(pages, naming));
        settle(result, &mut failed).map(|result| found = Some(result))
    });
    told(looked.await, failed)?;
    Ok(found.expect("a look that has ended has a result"))
}

/// Makes the tree with the root directory.
async fn make_root(disk: &Disk, now: Time) -> Result<(), FsError> {
    let store = disk.uuid();
    let (halves, _) = store.as_chunks::<8>();
    let hash_key = (u64::from_le_bytes(halves[0]), u64::from_le_bytes(halves[1]));
    let failed = Rc::new(RefCell::new(None));
    let own = failed.clone();
    let mut unit = disk.begin();
    unit.set_tree(Box::new(move |pages: &mut TreePages<'_>| {
        let made = (|| {
            let mut owner = [0; TREE_OWNER_WORDS];
            owner[Number::NextIno as usize] = ROOT_INO + 1;
            owner[Number::Inodes as usize] = 1;
            owner[Number::HashKey as usize] = hash_key.0;
            owner[Number::HashKey1 as usize] = hash_key.1;
            tree::format(pages, owner)?;
            let root = Inode {
                mode: DIRECTORY | ROOT_MODE,
                nlink: 2,
                parent: ROOT_INO,
                atime: now,
                mtime: now,
                ctime: now,
                btime: now,
                ..Inode::default()
            };
            Meta::new(pages, Naming::default()).put_inode(ROOT_INO, &root)
        })();
        settle(made, &mut own.borrow_mut())
    }));
    let ended = unit.end().await;
    told(ended, failed.take()).map(|_| ())
}

/// The error of an operation whose file has changed under it.
fn again() -> FsError {
    DiskError::Conflict("the file has been changed".into()).into()
}

/// Keeps the reason of a refusal in `failed`.
fn settle<T>(result: Result<T, Stop>, failed: &mut Option<FsError>) -> Result<T, TreeStop> {
    *failed = None;
    result.map_err(|stop| match stop {
        Stop::Tree(stop) => stop,
        Stop::Again => TreeStop::Refused,
        Stop::Error(error) => {
            *failed = Some(error);
            TreeStop::Refused
        }
    })
}

/// The reason of a refusal in place of the refusal.
fn told<T>(result: Result<T, DiskError>, failed: Option<FsError>) -> Result<T, FsError> {
    match (result, failed) {
        (Err(DiskError::Refused), Some(error)) => Err(error),
        (result, _) => Ok(result?),
    }
}
