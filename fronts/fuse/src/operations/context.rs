//! What operations have in common: where they take place, how long they wait for space, and what the kernel may keep of their answers.

use crate::message::{Answer, Caller, Kept};
use crate::notices::Notice;
use crate::translate::without_privilege;
use crate::units::{Place, Units};
use std::rc::Rc;
use std::sync::mpsc::Sender;
use tonearm_base::Nanos;
use tonearm_fs::{Attr, Fs, FsError, SetAttr};

/// How long a change that needs space, and one that frees some, wait while there is none below the store. The kernel keeps the
/// directory locked meanwhile, also for those who would look for files there, and delete some. A removal may get the space that
/// an earlier one has freed.
pub(super) const FULL_PATIENCE: Nanos = Nanos::from_millis(50);
pub(super) const REMOVAL_PATIENCE: Nanos = Nanos::from_secs(2);

/// What operations need beside the file system.
pub(crate) struct Context<'a> {
    /// The file system as it is committed.
    pub committed: &'a Fs,
    pub units: &'a Rc<Units>,
    /// Notices for the kernel.
    pub notices: &'a Sender<Notice>,
    /// The caller.
    pub by: Caller,
    /// The unit of the process that asks.
    pub member: Option<u64>,
    /// The handle.
    pub handle: u64,
    /// Where the operation takes place.
    pub place: Place,
}

/// What the kernel may keep: nothing that an open unit has changed.
pub(super) fn kept(fs: &Fs, ino: u64, name: Option<(u64, &[u8])>) -> Kept {
    Kept {
        name: !name.is_some_and(|(dir, name)| fs.is_name_held(dir, name)),
        attr: !fs.is_held(ino),
    }
}

impl Context<'_> {
    /// The file system as it is seen where the operation takes place.
    pub fn fs(&self) -> &Fs {
        self.place.fs(self.committed)
    }

    /// The result of a change, unless there is no space below the store and the change would wait for longer than `patience`.
    pub async fn unless_full<T>(
        &self,
        patience: Nanos,
        change: impl Future<Output = Result<T, FsError>>,
    ) -> Result<T, FsError> {
        // A step of a unit waits for no space, and would take the unit with it.
        if !matches!(self.place, Place::Committed) {
            return change.await;
        }
        let changed = self.committed.unless_full(patience, change).await;
        changed.unwrap_or(Err(FsError::NoSpaceBelow))
    }

    pub async fn entry(&self, attr: Attr, dir: u64, name: &[u8]) -> Result<Answer, FsError> {
        let kept = kept(self.committed, attr.ino, Some((dir, name)));
        Ok(Answer::Entry(self.shown(attr).await?, kept))
    }

    /// The attributes for an answer in which no program has asked for them. The kernel has one size of a file, for all who read it
    /// through the page cache. So that these find its end it is the committed one. A program that asks for attributes gets those
    /// of its unit.
    pub async fn shown(&self, mut attr: Attr) -> Result<Attr, FsError> {
        if self.differs(attr.ino) {
            match self.committed.attr(attr.ino).await {
                Ok(committed) => attr.inode.size = committed.inode.size,
                Err(FsError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(attr)
    }

    /// Notes the handle of a file that was opened. True when the kernel must not keep its content.
    pub fn opened(&self, ino: u64, is_direct: bool) -> bool {
        let of_unit = matches!(self.place, Place::Unit(_));
        self.units.add_handle(self.handle, self.member, is_direct);
        of_unit || self.committed.is_held(ino)
    }

    /// True when the unit has changed the content that others see.
    pub fn differs(&self, ino: u64) -> bool {
        match &self.place {
            Place::Unit(unit) => unit.has_changed(ino) && !unit.has_made(ino),
            Place::Committed => false,
        }
    }

    /// Begins a unit on the handle.
    pub fn begin_unit(&self, processes: Option<u32>) -> Result<Answer, FsError> {
        if self.member.is_some() {
            return Err(FsError::Invalid("the process is in a unit already"));
        }
        let unit = self
            .units
            .begin(self.committed, self.handle, self.by, processes)?;
        Ok(Answer::Begun(unit))
    }

    pub fn notify(&self, notice: Notice) {
        // The thread that takes it ends with the mount.
        let _ = self.notices.send(notice);
    }
}

pub(super) fn done(result: Result<(), FsError>) -> Result<Answer, FsError> {
    result.map(|()| Answer::Done)
}

/// Takes the set-user-id bits of a file that is about to be written.
pub(super) async fn take_privilege(fs: &Fs, ino: u64) -> Result<(), FsError> {
    let mode = fs.attr(ino).await?.inode.mode;
    let left = without_privilege(mode);
    if left != mode {
        let set = SetAttr {
            mode: Some(left),
            ..SetAttr::default()
        };
        fs.set_attr(ino, set).await?;
    }
    Ok(())
}
