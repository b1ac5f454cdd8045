//! Making a store, of whatever files and devices: a plan, then the members, then what is on them. A store that cannot be
//! completed is removed.

mod files;
mod plan;

use crate::error::StoreError;
use crate::executor::Executor;
use crate::members::device_of;
use crate::place::folder_of;
pub use files::CreatedFiles;
use plan::Planned;
pub use plan::{CreateOptions, PlannedMember, new_uuid, now_unix_s};
use rustix::fs::{Mode, OFlags};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use tonearm_disk::NewMember;
use tonearm_engine::create_array;
use tonearm_format::Superblock;
use tonearm_uring::{Medium, MemberError, MemberKind, MemberOptions, open_member};

/// What a creation is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreateStep {
    /// Bytes of the member with this index are allocated.
    Allocate(usize),
    /// Members of the array are cleared.
    ClearMembers,
    /// Bytes of members that were there are cleared.
    Clear,
}

/// Called with what is done, and of how much.
type OnStep = Rc<RefCell<dyn FnMut(CreateStep, u64, u64)>>;

/// A store that is about to be made.
pub struct Create {
    options: CreateOptions,
    planned: Planned,
    files: CreatedFiles,
}

/// Makes an empty store with its primary member in a new file at `path`.
///
/// # Errors
/// When `path` exists, or the sizes do not work. Nothing is left at `path` then, except what was there before.
pub fn create(path: &Path, options: &CreateOptions) -> Result<(), StoreError> {
    let create = Create::new(path, options.clone())?;
    let executor = Executor::new()?;
    let made = create.make(&executor, |_, _, _| {});
    executor.rt.shut_down();
    made.map(drop)
}

impl Create {
    /// Plans a store whose primary member is at `path`.
    ///
    /// # Errors
    /// When sizes, members or roles do not work, with what would.
    pub fn new(path: &Path, options: CreateOptions) -> Result<Self, StoreError> {
        Ok(Self {
            planned: Planned::new(path, &options)?,
            options,
            files: CreatedFiles::default(),
        })
    }

    /// The files that are made.
    pub fn files(&self) -> CreatedFiles {
        self.files.clone()
    }

    /// The members, of which the first is the primary one.
    pub fn members(&self) -> &[PlannedMember] {
        &self.planned.members
    }

    /// The first superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.planned.store.superblock
    }

    /// Makes the store. Returns what is below each of its members.
    ///
    /// # Errors
    /// When it cannot be made; files made so far are removed when the value is dropped.
    pub fn make(
        &self,
        executor: &Executor,
        progress: impl FnMut(CreateStep, u64, u64) + 'static,
    ) -> Result<Vec<Medium>, StoreError> {
        let progress: OnStep = Rc::new(RefCell::new(progress));
        let (mut members, mut media) = (Vec::new(), Vec::new());
        for index in 0..self.planned.members.len() {
            let opened = self.make_member(index, &progress)?;
            media.push(opened.medium);
            let blank = opened.kind == MemberKind::File;
            members.push(NewMember {
                device: device_of(executor, opened).device,
                blank,
                log_written: blank,
            });
        }
        self.write(executor, members, progress)?;
        self.files.keep();
        Ok(media)
    }

    /// Makes the file of a member, or opens its device.
    fn make_member(
        &self,
        index: usize,
        progress: &OnStep,
    ) -> Result<tonearm_uring::Member, MemberError> {
        let member = &self.planned.members[index];
        let mut progress =
            |done, total| (progress.borrow_mut())(CreateStep::Allocate(index), done, total);
        let is_file = member.space.available_bytes.is_none();
        let is_new = is_file && member.path.symlink_metadata().is_err();
        if is_new {
            // Noted before the file is made, because an interruption may come at any time.
            self.files.note(&member.path);
        }
        let create = tonearm_uring::Create {
            size_bytes: member.bytes,
            written: self.planned.filled(index, self.options.preallocate),
            force: self.options.force,
            progress: Some(&mut progress),
        };
        let options = MemberOptions {
            create: Some(create),
            ..MemberOptions::default()
        };
        let opened = open_member(&member.path, options);
        match &opened {
            // A file that could not be opened is not this creation's, or was removed already.
            Err(_) => self.files.forget(&member.path),
            Ok(_) if is_file && !is_new => self.files.note(&member.path),
            Ok(_) => {}
        }
        opened
    }

    /// Writes what is on the members.
    fn write(
        &self,
        executor: &Executor,
        mut members: Vec<NewMember>,
        progress: OnStep,
    ) -> Result<(), StoreError> {
        let (rt, pool) = (executor.rt.clone(), executor.pool.clone());
        let (store, array) = (self.planned.store.clone(), self.planned.array.clone());
        let main_bytes = self.options.main_volume.then_some(self.options.size_bytes);
        executor.rt.block_on(async move {
            let at = |step| {
                let progress = progress.clone();
                move |done, total| (progress.borrow_mut())(step, done, total)
            };
            if let Some(array) = array {
                let primary = members.remove(0);
                let clearing = at(CreateStep::ClearMembers);
                members = create_array(&rt, &pool, &array, primary, &members, clearing).await?;
            }
            let clearing = at(CreateStep::Clear);
            match main_bytes {
                Some(bytes) => {
                    let uuid = new_uuid();
                    tonearm_disk::create(&rt, &pool, &store, members, bytes, uuid, clearing)
                        .await?;
                }
                None => tonearm_engine::create(&rt, &pool, &store, &members, clearing).await?,
            }
            Ok(())
        })
    }

    /// The largest file that the file system of the member at `path` takes, and the largest size of the store, in whole GiB, with
    /// which no member is larger. `None` when there is none, or the blocks are on an array.
    pub fn size_limit(&self, path: &Path) -> Option<(u64, u64)> {
        if self.planned.array.is_some() {
            return None;
        }
        let largest = largest_file(folder_of(path))?;
        let most = self.options.size_bytes >> 30;
        let gib = largest_true(most, |gib| self.planned.fits(gib << 30, largest))?;
        Some((largest, gib << 30))
    }
}

impl Drop for Create {
    fn drop(&mut self) {
        self.files.remove();
    }
}

/// Largest file that the file system of `folder` takes, found by trying with a file without a name.
fn largest_file(folder: &Path) -> Option<u64> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR).ok()?;
    let blocks = largest_true(i64::MAX as u64 >> 12, |blocks| {
        rustix::fs::ftruncate(&fd, blocks << 12).is_ok()
    })?;
    Some(blocks << 12)
}

/// Largest number from 1 to `most` for which `holds`, if it holds for all smaller ones.
fn largest_true(most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut good, mut bad) = (0, most + 1);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle) {
            good = middle
        } else {
            bad = middle
        }
    }
    (good > 0).then_some(good)
}
