//! The file system: how operations run over the tree, and which files are in use.
//!
//! Invariants:
//! 1. Each operation is one recovery unit. Its last step, without an await, checks that it is possible and changes the tree.
//!    So operations are serialised by the ends of their units, and need no locks among each other.
//! 2. The blocks and the size of a file change only while the operation has the file alone ([`Use::alone`]). Reads of its
//!    content share it. So the blocks that were looked up are those that are read or written.
//! 3. Within a unit of an application (`unit.rs`) operations change the unit alone, and its end changes the tree.
//! 4. A file without a name lives while it is in use. The end of its last use deletes it, a handle or an operation. Its orphan
//!    item makes the next opening delete it.

use crate::error::{FsError, LeftOrphan, damaged};
use crate::meta::{Meta, Naming};
use crate::overlay::{Changed, Edit};
use crate::refusal::{Stop, record_refusal, refusal_or};
use crate::step::Step;
use crate::tree;
use crate::types::{AccessPath, DIRECTORY, Invalidation, Number, Space, TYPE};
use crate::unit::{UnitState, Units};
use crate::uses::{FileState, Files};
use async_recursion::async_recursion as boxed;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::Lsn;
use tonearm_disk::{Ack, Changes, Disk, DiskError, TreePages};
use tonearm_format::{Inode, ROOT_INO, TREE_OWNER_WORDS, Time};
use tonearm_rt::{Permit, Rt};

/// Permissions of the root directory of a new file system.
const ROOT_MODE: u32 = 0o755;
/// An open file system, as it is committed or as a unit sees it; cheap to clone. One thread uses it, the engine's.
#[derive(Clone)]
pub struct Fs {
    state: Rc<State>,
    unit: Option<Rc<UnitState>>,
    access: AccessPath,
    /// The user for whom names are taken away; `None` for one who may take all.
    user: Option<u32>,
    /// Its changes free space.
    frees: bool,
}

struct State {
    disk: Disk,
    rt: Rt,
    clock: Box<dyn Fn() -> Time>,
    hash_key: (u64, u64),
    files: Files,
    units: RefCell<Units>,
    /// Inodes below this number belong to units that are open or have been.
    taken: Cell<u64>,
    /// Counts changes of names.
    names: Changes,
    watcher: RefCell<Option<Watcher>>,
    left: RefCell<Vec<LeftOrphan>>,
}

type Watcher = Box<dyn Fn(Invalidation)>;

/// Keeps a file in use.
pub(crate) struct Use {
    fs: Fs,
    ino: u64,
    file: Rc<FileState>,
}

impl Use {
    /// Has the content alone while the permit lives.
    pub async fn alone(&self) -> Permit {
        let permit = self.file.alone().await;
        self.touch(true);
        permit
    }

    /// Shares the content with other readers while the permit lives.
    pub async fn shared(&self) -> Permit {
        let permit = self.file.shared().await;
        self.touch(false);
        permit
    }

    /// A unit that uses the content ends only if nobody else changes it.
    fn touch(&self, is_changed: bool) {
        if let Some(unit) = self.fs.unit() {
            unit.touch(&self.fs.committed(), self.ino, is_changed);
        }
    }

    /// As [`FileState::content_changed`].
    pub fn content_changed(&self, access: AccessPath) -> Lsn {
        self.file.content_changed(access)
    }

    /// Notes that `lsn` has changed the content.
    pub fn note_content(&self, lsn: Lsn) {
        self.file.note_content(lsn);
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.fs.end_use(self.ino);
    }
}

impl Fs {
    /// Opens the file system of a store, and makes it if there is none. Deletes what the last opening left: files without a
    /// name. Those that cannot be deleted stay ([`Fs::orphans_left`]). `clock` returns the time of day.
    ///
    /// # Errors
    /// When the store is read-only and has no file system, is full, or the tree's header or root directory is damaged.
    pub async fn open(
        disk: &Disk,
        rt: &Rt,
        clock: impl Fn() -> Time + 'static,
    ) -> Result<Self, FsError> {
        if !has_root(disk).await? {
            make_root(disk, clock()).await?;
        }
        let hash_key = look(disk, Naming::default(), |meta| {
            let root = meta.inode(ROOT_INO)?;
            if root.mode & TYPE != DIRECTORY || root.nlink == 0 {
                return Err(damaged("its root is no directory").into());
            }
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
            files: Files::default(),
            units: RefCell::default(),
            taken: Cell::new(0),
            names: disk.names(),
            watcher: RefCell::new(None),
            left: RefCell::default(),
        };
        let fs = Self {
            state: Rc::new(state),
            unit: None,
            access: AccessPath::Mount,
            user: None,
            frees: false,
        };
        fs.end_units_for_space();
        if !disk.engine().options().read_only {
            *fs.state.left.borrow_mut() = fs.free_orphans().await;
        }
        Ok(fs)
    }

    /// The time of day.
    pub fn now(&self) -> Time {
        (self.state.clock)()
    }

    /// The store below.
    pub fn disk(&self) -> &Disk {
        &self.state.disk
    }

    pub(crate) fn access(&self) -> AccessPath {
        self.access
    }

    pub(crate) fn rt(&self) -> &Rt {
        &self.state.rt
    }

    /// The file system as it is committed.
    pub fn committed(&self) -> Self {
        Self {
            unit: None,
            ..self.clone()
        }
    }

    /// The same, reached through another access path.
    pub fn via(&self, access: AccessPath) -> Self {
        Self {
            access,
            ..self.clone()
        }
    }

    /// The same, for a user: in a directory with the sticky bit only the owner of the file or of the directory takes a name away
    /// ([`FsError::NotOwner`]). The operation itself checks that, so it holds for the file that it meets. There are bounds of the
    /// units of a user.
    pub fn for_user(&self, user: Option<u32>) -> Self {
        Self {
            user,
            ..self.clone()
        }
    }

    pub(crate) fn user(&self) -> Option<u32> {
        self.user
    }

    /// Calls `watcher` after each commit of sessions.
    pub fn watch_sessions(&self, watcher: impl Fn(Invalidation) + 'static) {
        *self.state.watcher.borrow_mut() = Some(Box::new(watcher));
    }

    /// The same for changes that free space: they may use what is kept for them.
    pub(crate) fn freeing(&self) -> Self {
        Self {
            frees: true,
            ..self.clone()
        }
    }

    /// Files without a name that the opening could not delete.
    pub fn orphans_left(&self) -> Vec<LeftOrphan> {
        self.state.left.borrow().clone()
    }

    /// The file system as a unit sees it.
    pub(crate) fn within(&self, unit: &Rc<UnitState>) -> Self {
        Self {
            unit: Some(unit.clone()),
            ..self.clone()
        }
    }

    /// The unit in which operations are done.
    pub(crate) fn unit(&self) -> Option<&Rc<UnitState>> {
        self.unit.as_ref()
    }

    pub(crate) fn units(&self) -> &RefCell<Units> {
        &self.state.units
    }

    /// While the store has no free block, units that hold space end, the oldest ones first.
    fn end_units_for_space(&self) {
        let state = Rc::downgrade(&self.state);
        self.disk().set_reclaim(move || {
            let state = state.upgrade();
            state.is_some_and(|state| Units::end_oldest(&state.units))
        });
    }

    pub(crate) fn hash_key(&self) -> (u64, u64) {
        self.state.hash_key
    }

    fn naming(&self) -> Naming {
        Naming {
            hash_key: self.state.hash_key,
            taken: self.state.taken.get(),
        }
    }

    /// Notes that units have taken the inodes below `next`.
    pub(crate) fn take_inos(&self, next: u64) {
        self.state.taken.set(self.state.taken.get().max(next));
    }

    /// The recovery unit of an operation.
    pub(crate) async fn step(&self) -> Result<Step, FsError> {
        match self.unit() {
            Some(unit) => Step::of(unit, &self.state.disk).await,
            None => Ok(Step::own(self.state.disk.begin())),
        }
    }

    pub(crate) fn block(&self) -> u64 {
        u64::from(self.state.disk.block_size())
    }

    /// Runs `task` beside the caller.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.state.rt.spawn(task);
    }

    /// Runs `look` over the tree. It may run several times.
    pub(crate) async fn look<T>(
        &self,
        what: impl FnMut(&mut Meta<'_, '_>) -> Result<T, Stop>,
    ) -> Result<T, FsError> {
        match self.unit() {
            None => look(&self.state.disk, self.naming(), what).await,
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
        let looked = self.state.disk.look_at_tree(|pages| {
            let (overlay, mut edit) = (unit.overlay.borrow(), Edit::default());
            let result = change(&mut Meta::over(pages, naming, &overlay, &mut edit));
            record_refusal(result, &mut failed).map(|result| found = Some((result, edit)))
        });
        match looked.await {
            Err(DiskError::Refused) if failed.is_none() => Ok(None),
            looked => refusal_or(looked, failed).map(|()| found),
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
        if self.frees {
            unit.set_frees();
        }
        let result = Rc::new(RefCell::new((None, None, Changed::default())));
        let (own, fs) = (result.clone(), self.clone());
        unit.set_tree(Box::new(move |pages: &mut TreePages<'_>| {
            let mut meta = Meta::new(pages, fs.naming());
            let value = change(&mut meta);
            let mut own = own.borrow_mut();
            let (found, failed, changed) = &mut *own;
            *changed = meta.into_changed();
            record_refusal(value, failed).map(|value| *found = Some(value))
        }));
        let ended = unit.end().await;
        let (found, failed, changed) = result.take();
        match ended {
            Err(DiskError::Refused) if failed.is_none() => Ok(None),
            Err(DiskError::Conflict(_)) => Ok(None),
            ended => {
                let lsn = refusal_or(ended, failed)?;
                self.note(changed, lsn);
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
        Use {
            fs: self.clone(),
            ino,
            file: self.state.files.begin(self.rt(), ino),
        }
    }

    /// True when a handle is open on the file, or an operation on its content is under way.
    pub(crate) fn is_in_use(&self, ino: u64) -> bool {
        self.state.files.get(ino).is_some()
    }

    fn end_use(&self, ino: u64) {
        if self.state.files.end(ino) {
            self.free_in_background(ino);
        }
    }

    /// Sees to it that a file, which may have no name, is deleted when its use ends. False when it is not in use.
    pub(crate) fn free_after_use(&self, ino: u64) -> bool {
        self.state.files.unlink(ino)
    }

    /// Counts a handle of a file or directory. A file without a name is deleted with its last handle.
    ///
    /// # Errors
    /// When the file is open in the other way.
    pub fn open_handle(&self, ino: u64) -> Result<(), FsError> {
        self.check_not_busy(ino)?;
        self.state.files.open(self.rt(), ino, self.access);
        Ok(())
    }

    /// Checks that a file is not open in the other way.
    ///
    /// # Errors
    /// When it is.
    pub fn check_not_busy(&self, ino: u64) -> Result<(), FsError> {
        let other = self.access.other();
        if self.state.files.handles(ino, other) > 0 {
            return Err(FsError::Busy(other));
        }
        Ok(())
    }

    /// Ends a handle, if the file has one of this way.
    pub fn close_handle(&self, ino: u64) {
        if self.state.files.close(ino, self.access) {
            self.end_use(ino);
        }
    }

    /// Ends all handles of this way.
    pub fn close_handles(&self) {
        for ino in self.state.files.numbers() {
            for _ in 0..self.state.files.handles(ino, self.access) {
                self.close_handle(ino);
            }
        }
    }

    /// Counts the commits that have changed a file while it was in use.
    pub fn changes(&self, ino: u64) -> Changes {
        self.committed().take(ino).file.changes.clone()
    }

    /// The committed size of a file that is in use, if it is known. It is known after each commit that has changed the file.
    pub fn known_size(&self, ino: u64) -> Option<u64> {
        self.state.files.get(ino)?.size.get()
    }

    /// The size of a file.
    ///
    /// # Errors
    /// When there is none.
    #[boxed(?Send)]
    pub async fn size(&self, ino: u64) -> Result<u64, FsError> {
        if self.unit().is_none()
            && let Some(size) = self.known_size(ino)
        {
            return Ok(size);
        }
        let size = self.attr(ino).await?.inode.size;
        if self.unit().is_none()
            && let Some(file) = self.state.files.get(ino)
        {
            file.size.set(Some(size));
        }
        Ok(size)
    }

    /// Notes a commit that has changed the content of `ino`, if the file is in use.
    pub(crate) fn note_content(&self, ino: u64, lsn: Lsn) {
        self.state.files.note_content(ino, lsn);
    }

    /// Notes what a commit has changed.
    fn note(&self, changed: Changed, lsn: Lsn) {
        self.state.files.note(&changed, lsn);
        if !changed.names.is_empty() {
            self.state.names.note();
        }
        if self.access == AccessPath::Session
            && let Some(watcher) = &*self.state.watcher.borrow()
        {
            watcher(Invalidation {
                files: changed.inodes.into_iter().map(|(ino, _)| ino).collect(),
                names: changed.names,
            });
        }
    }

    /// True when a change is to be durable when its caller gets the answer.
    pub fn is_durable_at_once(&self) -> bool {
        self.state.disk.engine().options().ack == Ack::Write
    }

    /// Waits until the last change of a file is durable, or with `None` every change so far. All callers share the writes and
    /// flushes of the log.
    ///
    /// # Errors
    /// When the store has failed.
    #[boxed(?Send)]
    pub async fn sync(&self, ino: Option<u64>) -> Result<(), FsError> {
        // The changes of a unit become durable when it has ended.
        if let Some(unit) = self.unit() {
            return unit.check();
        }
        let file = ino.and_then(|ino| self.state.files.get(ino));
        match file {
            Some(file) if file.changed.get() > Lsn(0) => {
                Ok(self.state.disk.wait_durable(file.changed.get()).await?)
            }
            _ => Ok(self.state.disk.flush().await?),
        }
    }

    /// How much there is.
    ///
    /// # Errors
    /// When the tree cannot be read.
    #[boxed(?Send)]
    pub async fn space(&self) -> Result<Space, FsError> {
        let (used, inodes) = self
            .look(|meta| Ok((meta.number(Number::Blocks)?, meta.number(Number::Inodes)?)))
            .await?;
        let block_size = self.state.disk.block_size();
        let free = self.state.disk.free_bytes() / u64::from(block_size);
        let free_blocks = free + self.state.disk.list_blocks_max().saturating_sub(used);
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
        record_refusal(result, &mut failed).map(|result| found = Some(result))
    });
    refusal_or(looked.await, failed)?;
    Ok(found.expect("a look that has ended has a result"))
}

/// True when the store has a tree with a root directory. The tree's pages are a commit of their own, so that a crash may leave
/// them without any.
///
/// # Errors
/// When the first page cannot be read.
#[boxed(?Send)]
pub async fn has_root(disk: &Disk) -> Result<bool, DiskError> {
    if !disk.has_tree() {
        return Ok(false);
    }
    let mut found = false;
    disk.look_at_tree(|pages| {
        found = pages.page(0)?.iter().any(|byte| *byte != 0);
        Ok(())
    })
    .await?;
    Ok(found)
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
        record_refusal(made, &mut own.borrow_mut())
    }));
    let ended = unit.end().await;
    refusal_or(ended, failed.take()).map(|_| ())
}

/// The error of an operation whose file has changed under it.
fn again() -> FsError {
    DiskError::Conflict("the file has been changed".into()).into()
}
