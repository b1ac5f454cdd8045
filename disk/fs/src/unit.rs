//! Units of applications: several operations that take effect together, or not at all.
//!
//! A unit is one recovery unit of the disk that stays open, with the items that it has changed ([`Overlay`]). Its
//! operations are those of [`Fs`], over its own changes and the committed state behind them.
//!
//! A unit ends unless another one has changed one of these before:
//!
//! * the content of a file whose content the unit has read or changed; for units of sessions, which have locks of their own, the
//!   blocks that such a file has;
//! * an item that the unit has changed, except that changes of different fields of an inode are merged, and so are
//!   different names in one directory.
//!
//! So what it has read of names and attributes alone may be of different commits.
//!
//! Invariants:
//! 1. Until its end a unit changes nothing that others see. Its end is one commit.
//! 2. A unit that cannot end refuses each further operation with the reason.
//! 3. An open unit holds no lock while none of its operations is under way.
//! 4. Open units hold at most a part of the memory for units, so that other operations have the rest.

use crate::error::FsError;
use crate::fs::{Fs, Use};
use crate::merge::merge;
use crate::meta::{Meta, entry_key, inode_key, places};
use crate::overlay::Overlay;
use crate::refusal::Stop;
use crate::step::Step;
use crate::tree::Key;
use crate::types::{AccessPath, Number};
use async_recursion::async_recursion as boxed;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use tonearm_base::Lsn;
use tonearm_disk::{Aru, ErrorKind};
use tonearm_format::{Inode, item};
use tonearm_rt::Semaphore;

/// Most open units.
const UNITS_MAX: usize = 1024;
/// A user who is named has at most this part of the units, and leaves this part of their memory to others.
const USER_SHARE: usize = 8;
/// The part of the memory for units that open units of programs on the mount may hold, of which there may be many that stall. Those
/// of sessions may hold all but this part.
const MEMORY_SHARE: u64 = 4;
/// Most blocks that one operation of a unit frees.
pub(crate) const UNIT_FREES_MAX: u64 = 1 << 16;

const ENDED: &str = "it has ended";
const NO_SPACE: &str =
    "it had no effect, because the store was full and had no other free space than what it held";

/// Counts of units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnitCounts {
    /// Those that are open.
    pub open: u64,
    /// Those begun.
    pub begun: u64,
    /// Those that have taken effect.
    pub committed: u64,
    /// Those without effect, also because of a conflict or another error.
    pub aborted: u64,
    /// Those without effect because of a conflict.
    pub conflicts: u64,
}

/// A unit. Its operations are those of [`Unit::fs`]. Dropped, it is aborted.
pub struct Unit {
    fs: Fs,
    state: Rc<UnitState>,
    /// It has taken effect, or never will.
    is_counted: Cell<bool>,
}

/// The state of an open unit.
pub(crate) struct UnitState {
    pub turn: Semaphore,
    access: AccessPath,
    /// The user who has begun it, if that is one of whom there are bounds.
    user: Option<u32>,
    /// Missing before the first change, while an operation has it, and when the unit has ended.
    pub aru: RefCell<Option<Aru>>,
    pub overlay: RefCell<Overlay>,
    files: RefCell<BTreeMap<u64, Touched>>,
    /// Why it cannot end.
    failed: RefCell<Option<FsError>>,
    /// It takes no operations that have not begun, because it ends.
    is_ending: Cell<bool>,
    /// Memory that it holds.
    memory: Cell<u64>,
}

/// The units of a file system.
#[derive(Default)]
pub(crate) struct Units {
    open: Vec<Weak<UnitState>>,
    /// By access path.
    counts: [UnitCounts; 2],
    /// Memory that open units hold, by access path.
    memory: [u64; 2],
}

impl Units {
    /// Checks that one more can be begun, for `user` if there are bounds of one.
    fn check(&mut self, access: AccessPath, user: Option<u32>) -> Result<(), FsError> {
        self.open.retain(|unit| unit.strong_count() > 0);
        let check = |most, count| {
            if count < most {
                Ok(())
            } else {
                Err(FsError::TooManyUnits(most))
            }
        };
        let through_access = || self.open().filter(|unit| unit.access == access);
        match user {
            Some(_) => {
                check(UNITS_MAX - UNITS_MAX / USER_SHARE, through_access().count())?;
                let count = through_access().filter(|unit| unit.user == user).count();
                check(UNITS_MAX / USER_SHARE, count)
            }
            // The last share is kept for those of whom there are no bounds.
            None => check(UNITS_MAX, through_access().count()),
        }
    }

    /// Memory that open units may hold besides those of `access` and of the user of `unit` that are open.
    fn memory_left(&self, unit: &UnitState, most: u64) -> u64 {
        let own = unit.memory.get();
        let left = most.saturating_sub(self.memory[unit.access as usize] - own);
        if unit.user.is_none() {
            return left;
        }
        let of_user = self.open();
        let of_user = of_user.filter(|open| (open.access, open.user) == (unit.access, unit.user));
        let used: u64 = of_user.map(|open| open.memory.get()).sum();
        let most_of_user = most - most / USER_SHARE as u64;
        left.min(most_of_user.saturating_sub(used - own))
    }

    /// Ends the oldest unit of a program on the mount that holds space, without effect. False when there is none. Those of sessions
    /// have locks, for which others wait: they end by themselves.
    pub fn end_oldest(units: &RefCell<Self>) -> bool {
        let oldest = {
            let units = units.borrow();
            let mut open = units.open();
            open.find(|unit| unit.access == AccessPath::Mount && unit.holds_space())
        };
        if let Some(unit) = &oldest {
            unit.fail(FsError::UnitEnded(NO_SPACE));
            // The end of the last use of a file without a name deletes it.
            unit.files.take();
        }
        oldest.is_some()
    }

    fn open(&self) -> impl Iterator<Item = Rc<UnitState>> {
        self.open.iter().filter_map(Weak::upgrade)
    }
}

/// A file of the unit, which is not deleted before the unit has ended.
struct Touched {
    used: Use,
    /// Its last change when the unit first used its content; `None` when it has not.
    seen: Option<Lsn>,
    is_changed: bool,
}

impl UnitState {
    fn new(fs: &Fs, aru: Option<Aru>) -> Self {
        Self {
            turn: Semaphore::new(fs.rt(), 1),
            access: fs.access(),
            user: fs.user(),
            aru: RefCell::new(aru),
            overlay: RefCell::default(),
            files: RefCell::default(),
            failed: RefCell::new(None),
            is_ending: Cell::new(false),
            memory: Cell::new(0),
        }
    }

    /// Checks that the unit takes operations.
    pub fn check(&self) -> Result<(), FsError> {
        self.check_failed()?;
        if self.is_ending.get() {
            Err(FsError::UnitEnded(ENDED))
        } else {
            Ok(())
        }
    }

    /// Checks that the unit can end.
    pub fn check_failed(&self) -> Result<(), FsError> {
        match &*self.failed.borrow() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// The unit cannot end, because of `error`.
    pub fn fail(&self, error: FsError) {
        self.failed.borrow_mut().get_or_insert(error);
        self.aru.take();
    }

    /// True when its end would make space. While an operation is under way it does not end.
    fn holds_space(&self) -> bool {
        self.aru.borrow().as_ref().is_some_and(Aru::holds_space)
    }

    /// Notes that an operation uses the content of a file.
    pub fn touch(&self, fs: &Fs, ino: u64, is_changed: bool) {
        let is_same = self.with_file(fs, ino, |file| {
            file.is_changed |= is_changed;
            let now = file.used.content_changed(self.access);
            *file.seen.get_or_insert(now) == now
        });
        if !is_same {
            self.fail(changed(ino));
        }
    }

    /// Keeps a file in use until the unit has ended.
    fn with_file<T>(&self, fs: &Fs, ino: u64, look: impl FnOnce(&mut Touched) -> T) -> T {
        let mut files = self.files.borrow_mut();
        look(files.entry(ino).or_insert_with(|| Touched {
            used: fs.take(ino),
            seen: None,
            is_changed: false,
        }))
    }

    /// True when the unit has changed the file.
    fn holds(&self, ino: u64) -> bool {
        let items = &self.overlay.borrow().items;
        items.contains_key(&inode_key(ino))
    }

    /// True when the unit has changed an entry whose key is one of `range`.
    fn holds_entry(&self, first: Key, last: Key) -> bool {
        let items = &self.overlay.borrow().items;
        items.range(first..=last).next().is_some()
    }

    /// Makes the unit's changes in the committed tree.
    fn apply(&self, meta: &mut Meta<'_, '_>) -> Result<(), Stop> {
        for (ino, file) in &*self.files.borrow() {
            let now = file.used.content_changed(self.access);
            if file.seen.is_some_and(|seen| seen != now) {
                return Err(changed(*ino).into());
            }
        }
        let overlay = self.overlay.borrow();
        let mut moved = Vec::new();
        for (key, change) in &overlay.items {
            let there = meta.get(*key)?;
            let merged = merge(*key, change, there.as_deref());
            let merged = merged.ok_or_else(|| conflict(*key))?;
            if self.access == AccessPath::Session && was_deleted(*key, there.as_deref()) {
                return Err(conflict(*key).into());
            }
            if key.kind == item::INODE && was_moved(change.base.as_deref(), merged.as_deref()) {
                moved.push(key.ino);
            }
            if is_cut(*key, merged.as_deref(), there.as_deref()) {
                meta.note_blocks(key.ino);
            }
            match merged {
                Some(value) if there.as_ref() != Some(&value) => meta.put(*key, &value)?,
                None if there.is_some() => meta.remove(*key).map(drop)?,
                _ => {}
            }
        }
        for number in [Number::Inodes, Number::Blocks] {
            let more = overlay.numbers[number as usize];
            if more != 0 {
                meta.add(number, more)?;
            }
        }
        if overlay.next_ino > 0 {
            meta.raise_next_ino(overlay.next_ino)?;
        }
        // Another unit may have moved the directory above it below it.
        for ino in moved {
            let parent = meta.inode(ino)?.parent;
            meta.check_outside(ino, parent).map_err(|stop| match stop {
                Stop::Error(FsError::Invalid(_)) => conflict(inode_key(ino)).into(),
                stop => stop,
            })?;
        }
        Ok(())
    }
}

fn changed(ino: u64) -> FsError {
    FsError::Conflict(format!("the content of file {ino}"))
}

fn conflict(key: Key) -> FsError {
    FsError::Conflict(match key.kind {
        item::ENTRY => format!("a name in directory {}", key.ino),
        item::INODE => format!("the attributes of file {}", key.ino),
        item::XATTR => format!("an extended attribute of file {}", key.ino),
        _ => format!("file {}", key.ino.max(key.at)),
    })
}

/// True for the inode of a file that becomes shorter.
fn is_cut(key: Key, now: Option<&[u8]>, there: Option<&[u8]>) -> bool {
    let size = |bytes: Option<&[u8]>| Some(Inode::decode(bytes?).ok()?.size);
    key.kind == item::INODE && size(now) < size(there)
}

/// True for the inode of a file that others have deleted.
fn was_deleted(key: Key, there: Option<&[u8]>) -> bool {
    let nlink = there.and_then(|bytes| Some(Inode::decode(bytes).ok()?.nlink));
    key.kind == item::INODE && nlink == Some(0)
}

/// True when a directory has got another one above it.
fn was_moved(base: Option<&[u8]>, now: Option<&[u8]>) -> bool {
    let parent = |bytes: Option<&[u8]>| Some(Inode::decode(bytes?).ok()?.parent);
    matches!((parent(base), parent(now)), (Some(base), Some(now)) if base != now)
}

impl Fs {
    /// Begins a unit. An empty one costs little and holds nothing.
    ///
    /// # Errors
    /// When there are 1024 units of the same access path, or an eighth of that of the user ([`Fs::for_user`]).
    pub fn begin(&self) -> Result<Unit, FsError> {
        self.begin_unit(None)
    }

    /// Checks that one more unit can be begun.
    ///
    /// # Errors
    /// As for [`Fs::begin`].
    pub fn check_units(&self) -> Result<(), FsError> {
        self.units().borrow_mut().check(self.access(), self.user())
    }

    /// Begins a unit with a recovery unit, which may have changed volumes and lists.
    ///
    /// # Errors
    /// As for [`Fs::begin`].
    pub fn begin_with(&self, aru: Aru) -> Result<Unit, FsError> {
        self.begin_unit(Some(aru))
    }

    fn begin_unit(&self, aru: Option<Aru>) -> Result<Unit, FsError> {
        let fs = self.committed();
        let state = {
            let mut units = fs.units().borrow_mut();
            units.check(fs.access(), fs.user())?;
            let state = Rc::new(UnitState::new(&fs, aru));
            units.open.push(Rc::downgrade(&state));
            units.counts[fs.access() as usize].begun += 1;
            state
        };
        let fs = fs.within(&state);
        let is_counted = Cell::new(false);
        Ok(Unit {
            fs,
            state,
            is_counted,
        })
    }

    /// Counts of units, of those that were begun through the same access path.
    pub fn unit_counts(&self) -> UnitCounts {
        let counts = self.units().borrow().counts[self.access() as usize];
        let open = counts.begun - counts.committed - counts.aborted;
        UnitCounts { open, ..counts }
    }

    /// True when an open unit has changed a file.
    pub fn is_held(&self, ino: u64) -> bool {
        self.units().borrow().open().any(|unit| unit.holds(ino))
    }

    /// True when an open unit has changed what a name stands for.
    pub fn is_name_held(&self, dir: u64, name: &[u8]) -> bool {
        let units = self.units().borrow();
        if units.open().next().is_none() {
            return false;
        }
        let places = places(self.hash_key(), name);
        let (first, last) = (*places.start(), *places.end());
        let (first, last) = (entry_key(dir, first), entry_key(dir, last));
        units.open().any(|unit| unit.holds_entry(first, last))
    }

    /// Takes the changes of an operation of `unit`, whose step it was.
    pub(crate) async fn take_edit(
        &self,
        unit: &Rc<UnitState>,
        mut step: Step,
        edit: Overlay,
    ) -> Result<(), FsError> {
        unit.check_failed()?;
        self.take_inos(edit.next_ino);
        // A file without a name that the unit has changed, or has taken the last name, is deleted after the unit.
        let fs = self.committed();
        edit.inodes()
            .for_each(|ino| unit.with_file(&fs, ino, |_| ()));
        let more = unit.overlay.borrow().added_by(&edit);
        let memory = self.disk().shadow_bytes_max();
        let most = match self.access() {
            AccessPath::Mount => memory / MEMORY_SHARE,
            AccessPath::Session => memory - memory / MEMORY_SHARE,
        };
        let access = self.access() as usize;
        let left = self.units().borrow().memory_left(unit, most);
        let fits = match step.charge(more) {
            Ok(()) => step.spill_to(left).await,
            refused => refused,
        };
        let now = step.memory_bytes();
        match fits {
            Err(error) if error.kind() != ErrorKind::NoSpace => return Err(error.into()),
            Ok(()) if now <= left => {}
            // The unit does not take what does not fit. So what it holds until its program ends it is within the bounds.
            _ => {
                unit.fail(FsError::UnitTooLarge);
                return Err(FsError::UnitTooLarge);
            }
        }
        unit.check_failed()?;
        unit.overlay.borrow_mut().take(edit);
        let before = unit.memory.replace(now);
        let memory = &mut self.units().borrow_mut().memory[access];
        *memory = *memory - before + now;
        step.complete();
        Ok(())
    }

    /// The error of an operation of `unit`. When others have changed what the unit has changed, that is the reason.
    pub(crate) async fn reason(&self, unit: &Rc<UnitState>, error: FsError) -> FsError {
        if !error.is_damage() || matches!(error, FsError::NotFound) {
            return error;
        }
        let found = self.committed().look(|meta| unit.apply(meta)).await;
        match found {
            Err(conflict @ FsError::Conflict(_)) => {
                unit.fail(conflict.clone());
                conflict
            }
            _ => error,
        }
    }
}

impl Unit {
    /// The file system as the unit sees it.
    pub fn fs(&self) -> &Fs {
        &self.fs
    }

    /// The files that the unit has changed, directories too.
    pub fn changed(&self) -> Vec<u64> {
        self.state.overlay.borrow().inodes().collect()
    }

    /// Runs an operation on volumes or lists in the unit. It changes nothing when it fails.
    ///
    /// # Errors
    /// When the unit takes no operations.
    pub async fn with_disk<T>(
        &self,
        operation: impl AsyncFnOnce(&mut Aru) -> T,
    ) -> Result<T, FsError> {
        let mut step = Step::of(&self.state, self.fs.disk()).await?;
        let result = operation(&mut step).await;
        step.complete();
        Ok(result)
    }

    /// True when the unit has made the file: nobody else can know it.
    pub fn has_made(&self, ino: u64) -> bool {
        let overlay = self.state.overlay.borrow();
        let change = overlay.items.get(&inode_key(ino));
        change.is_some_and(|change| change.base.is_none())
    }

    /// True when the unit has changed the file.
    pub fn has_changed(&self, ino: u64) -> bool {
        self.state.holds(ino)
    }

    /// Ends the unit: all of it is there for everybody from then on, and durable with [`tonearm_disk::Disk::wait_durable`]
    /// of the result.
    ///
    /// # Errors
    /// [`FsError::Conflict`] and others; nothing of the unit is there then.
    #[boxed(?Send)]
    pub async fn commit(&self) -> Result<Lsn, FsError> {
        if self.state.is_ending.replace(true) {
            return Err(FsError::UnitEnded(ENDED));
        }
        let result = self.try_commit().await;
        let has_conflict = matches!(result, Err(FsError::Conflict(_)));
        let counts = self.fs.units();
        let access = self.fs.access() as usize;
        counts.borrow_mut().counts[access].conflicts += u64::from(has_conflict);
        if result.is_ok() && !self.is_counted.replace(true) {
            counts.borrow_mut().counts[access].committed += 1;
        }
        self.abort();
        result
    }

    /// Ends the unit without any effect. Nothing happens to one that has ended.
    pub fn abort(&self) {
        self.state.fail(FsError::UnitEnded(ENDED));
        self.state.overlay.take();
        // The end of the last use of a file without a name deletes it.
        self.state.files.take();
        let access = self.fs.access() as usize;
        self.fs.units().borrow_mut().memory[access] -= self.state.memory.replace(0);
        if !self.is_counted.replace(true) {
            self.fs.units().borrow_mut().counts[access].aborted += 1;
        }
    }

    async fn try_commit(&self) -> Result<Lsn, FsError> {
        let (state, fs) = (&self.state, self.fs.committed());
        state.check_failed()?;
        // No other operation changes the content until the commit. An operation that has a file alone also relies on where the
        // file's blocks are. All units take files in one order, so that two of them do not wait for each other.
        let files: Vec<(u64, bool)> = {
            let files = state.files.borrow();
            let used = files.iter().filter(|(_, file)| file.seen.is_some());
            used.map(|(ino, file)| (*ino, file.is_changed)).collect()
        };
        let (mut permits, mut written) = (Vec::with_capacity(files.len()), Vec::new());
        for (ino, is_changed) in files {
            // Units of sessions do not notice what the mount writes meanwhile.
            fs.check_not_busy(ino)?;
            let used = fs.take(ino);
            permits.push(if is_changed {
                used.alone().await
            } else {
                used.shared().await
            });
            written.extend(is_changed.then_some(used));
        }
        let turn = state.turn.acquire(1).await;
        state.check_failed()?;
        let aru = state.aru.take().unwrap_or_else(|| fs.disk().begin());
        let own = state.clone();
        let ended = fs
            .try_end(Step::own(aru), move |meta| own.apply(meta))
            .await?;
        let moved = || FsError::Conflict("a list of blocks".into());
        let ((), lsn) = ended.ok_or_else(moved)?;
        for used in &written {
            used.note_content(lsn);
        }
        drop((permits, turn));
        Ok(lsn)
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        self.abort();
    }
}
