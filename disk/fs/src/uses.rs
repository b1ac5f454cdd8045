//! Files that are in use: by which handles and operations, and what commits have changed of them since.

use crate::overlay::Changed;
use crate::types::AccessPath;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::Lsn;
use tonearm_disk::Changes;
use tonearm_rt::{Permit, Rt, Semaphore};

/// Readers of one file at a time.
const READERS: u64 = 1 << 20;

/// The state of a file that is in use.
pub(crate) struct FileState {
    /// Handles, and operations that are under way.
    uses: Cell<u64>,
    content: Semaphore,
    /// Handles of each access path.
    handles: [Cell<u64>; 2],
    /// The last commit that has changed it since it came into use.
    pub changed: Cell<Lsn>,
    /// The last commit that has changed its content since then.
    content_changed: Cell<Lsn>,
    /// The last commit that has changed since then which blocks it has, or has cut it off.
    blocks_changed: Cell<Lsn>,
    /// Counts the commits that have changed it since then.
    pub changes: Changes,
    /// Its size, if it is known.
    pub size: Cell<Option<u64>>,
    /// It may have lost its last name, so it is to be deleted when its use ends.
    unlinked: Cell<bool>,
}

impl FileState {
    fn new(rt: &Rt) -> Self {
        Self {
            uses: Cell::new(0),
            content: Semaphore::new(rt, READERS),
            handles: Default::default(),
            changed: Cell::new(Lsn(0)),
            content_changed: Cell::new(Lsn(0)),
            blocks_changed: Cell::new(Lsn(0)),
            changes: Changes::default(),
            size: Cell::new(None),
            unlinked: Cell::new(false),
        }
    }

    fn note(&self, lsn: Lsn) {
        self.changed.set(lsn.max(self.changed.get()));
        self.changes.note();
    }

    pub fn note_content(&self, lsn: Lsn) {
        // Within a unit nothing is committed.
        if lsn == Lsn(0) {
            return;
        }
        self.note(lsn);
        let before = self.content_changed.get();
        self.content_changed.set(lsn.max(before));
    }

    /// Has the content alone while the permit lives.
    pub async fn alone(&self) -> Permit {
        self.content.acquire(READERS).await
    }

    /// Shares the content with other readers while the permit lives.
    pub async fn shared(&self) -> Permit {
        self.content.acquire(1).await
    }

    /// The last commit, since the file came into use, after which a unit cannot end that has used the content before. On the
    /// mount that is any change of the content. Sessions have locks for that, and their units may write to the same blocks as
    /// others: only the blocks must be the same.
    pub fn content_changed(&self, access: AccessPath) -> Lsn {
        match access {
            AccessPath::Mount => self.content_changed.get(),
            AccessPath::Session => self.blocks_changed.get(),
        }
    }
}

/// The files that are in use.
#[derive(Default)]
pub(crate) struct Files(RefCell<BTreeMap<u64, Rc<FileState>>>);

impl Files {
    pub fn get(&self, ino: u64) -> Option<Rc<FileState>> {
        self.0.borrow().get(&ino).cloned()
    }

    /// Begins a use.
    pub fn begin(&self, rt: &Rt, ino: u64) -> Rc<FileState> {
        let mut files = self.0.borrow_mut();
        let file = files.entry(ino);
        let file = file.or_insert_with(|| Rc::new(FileState::new(rt)));
        file.uses.set(file.uses.get() + 1);
        file.clone()
    }

    /// Ends a use. True when it was the last one of a file that may have no name.
    pub fn end(&self, ino: u64) -> bool {
        let mut files = self.0.borrow_mut();
        let Some(file) = files.get(&ino) else {
            return false;
        };
        file.uses.set(file.uses.get() - 1);
        if file.uses.get() > 0 {
            return false;
        }
        let unlinked = file.unlinked.get();
        files.remove(&ino);
        unlinked
    }

    /// Notes that a file may have no name. False when it is not in use.
    pub fn unlink(&self, ino: u64) -> bool {
        let file = self.get(ino);
        file.is_some_and(|file| {
            file.unlinked.set(true);
            true
        })
    }

    /// Begins a use by a handle.
    pub fn open(&self, rt: &Rt, ino: u64, access: AccessPath) {
        let file = self.begin(rt, ino);
        let handles = &file.handles[access as usize];
        handles.set(handles.get() + 1);
    }

    /// Handles of a file that are open through this access path.
    pub fn handles(&self, ino: u64, access: AccessPath) -> u64 {
        let file = self.get(ino);
        file.map_or(0, |file| file.handles[access as usize].get())
    }

    /// Takes a handle off a file, whose use has to end then. False when the file has none of this access path.
    pub fn close(&self, ino: u64, access: AccessPath) -> bool {
        self.get(ino).is_some_and(|file| {
            let handles = &file.handles[access as usize];
            let open = handles.get();
            handles.set(open.saturating_sub(1));
            open > 0
        })
    }

    /// All files in use.
    pub fn numbers(&self) -> Vec<u64> {
        self.0.borrow().keys().copied().collect()
    }

    /// Notes a commit that has changed the content of a file, if it is in use.
    pub fn note_content(&self, ino: u64, lsn: Lsn) {
        if let Some(file) = self.get(ino) {
            file.note_content(lsn);
        }
    }

    /// Notes what a commit has changed.
    pub fn note(&self, changed: &Changed, lsn: Lsn) {
        for (ino, size) in &changed.inodes {
            if let Some(file) = self.get(*ino) {
                file.note(lsn);
                file.size.set(*size);
            }
        }
        for file in changed.others.iter().filter_map(|ino| self.get(*ino)) {
            file.note(lsn);
        }
        // What a unit has read of a file that has lost its last name is no longer so.
        for ino in &changed.unlinked {
            self.note_content(*ino, lsn);
        }
        for file in changed.extents.iter().filter_map(|ino| self.get(*ino)) {
            file.blocks_changed.set(lsn);
        }
    }
}
