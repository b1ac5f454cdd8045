//! Operations on names: files are looked up, made, linked, renamed, removed and listed.

use super::context::{Context, FULL_PATIENCE, REMOVAL_PATIENCE, kept};
use crate::message::{Answer, Caller, Create, DirentRef, Make, Responder};
use crate::notices::Notice;
use crate::processes::is_owner_of_all;
use crate::units::Place;
use tonearm_fs::{Fs, FsError, NewInode, Rename};

/// Names that are looked up at a time for a listing, about as many as a page of the kernel's holds.
const LISTED: usize = 128;
/// Names with attributes, likewise.
const LISTED_WITH_ATTRS: usize = 32;

/// A name in a directory.
type Name = (u64, Vec<u8>);

impl Context<'_> {
    pub async fn look_up(&self, dir: u64, name: &[u8]) -> Result<Answer, FsError> {
        let fs = self.fs();
        match fs.look_up(dir, name).await {
            Err(FsError::NotFound) => Ok(Answer::NoEntry(kept(fs, 0, Some((dir, name))))),
            found => self.entry(found?, dir, name).await,
        }
    }

    pub async fn make(&self, make: Make) -> Result<Answer, FsError> {
        let Make {
            dir, name, rdev, ..
        } = make;
        let new = NewInode {
            rdev,
            ..new(self.by, make.mode)
        };
        let made = self.fs().make_masked(dir, &name, new, make.umask);
        let made = self.unless_full(FULL_PATIENCE, made).await?;
        self.entry(made, dir, &name).await
    }

    pub async fn make_link(&self, dir: u64, name: &[u8], target: &[u8]) -> Result<Answer, FsError> {
        let made = self.fs().make_link(dir, name, target, new(self.by, 0));
        let made = self.unless_full(FULL_PATIENCE, made).await?;
        self.entry(made, dir, name).await
    }

    /// Makes a file and opens it. A file that is there is not opened here: the kernel has not checked its permissions.
    pub async fn create(&self, create: Create) -> Result<Answer, FsError> {
        let (fs, dir, name) = (self.fs(), create.dir, &create.name);
        let made = fs.make_masked(dir, name, new(self.by, create.mode), create.umask);
        let attr = self.unless_full(FULL_PATIENCE, made).await?;
        fs.open_handle(attr.ino)?;
        let direct = self.opened(attr.ino, create.direct);
        let kept = kept(fs, attr.ino, Some((dir, name)));
        let ino = attr.ino;
        let shown = self.shown(attr).await;
        if shown.is_err() {
            fs.close_handle(ino);
        }
        Ok(Answer::Created(shown?, kept, direct))
    }

    pub async fn link(&self, ino: u64, dir: u64, name: &[u8]) -> Result<Answer, FsError> {
        let link = self.fs().link(ino, dir, name);
        let linked = self.unless_full(FULL_PATIENCE, link).await?;
        self.entry(linked, dir, name).await
    }

    pub async fn unlink(&self, dir: u64, name: &[u8]) -> Result<Answer, FsError> {
        let unlink = self.remove_entry(async |fs| fs.unlink(dir, name).await);
        self.unless_full(REMOVAL_PATIENCE, unlink).await?;
        self.written().await
    }

    pub async fn remove_dir(&self, dir: u64, name: &[u8]) -> Result<Answer, FsError> {
        let remove = self.remove_entry(async |fs| fs.remove_dir(dir, name).await);
        self.unless_full(REMOVAL_PATIENCE, remove).await?;
        self.written().await
    }

    pub async fn rename(&self, from: Name, to: Name, how: Rename) -> Result<Answer, FsError> {
        let rename = async |fs: &Fs| fs.rename((from.0, &from.1), (to.0, &to.1), how).await;
        self.unless_full(FULL_PATIENCE, self.remove_entry(rename))
            .await?;
        let done = self.written().await?;
        if matches!(self.place, Place::Unit(_)) {
            // The kernel moves what it keeps of the name, also for processes that are not of the unit.
            let old = (how == Rename::Exchange).then_some(from);
            self.notify(Notice {
                names: [to].into_iter().chain(old).collect(),
                ..Notice::default()
            });
        }
        Ok(done)
    }

    /// Lists until the kernel's buffer is full.
    pub async fn list(
        &self,
        dir: u64,
        mut after: u64,
        reply: &mut dyn Responder,
    ) -> Result<Answer, FsError> {
        loop {
            let lines = self.fs().list(dir, after, LISTED).await?;
            for listed in &lines {
                if reply.add(DirentRef::Name(listed)) {
                    return Ok(Answer::Done);
                }
                after = listed.place;
            }
            if lines.is_empty() {
                return Ok(Answer::Done);
            }
        }
    }

    pub async fn list_with_attrs(
        &self,
        dir: u64,
        mut after: u64,
        reply: &mut dyn Responder,
    ) -> Result<Answer, FsError> {
        let fs = self.fs();
        loop {
            let lines = fs.list_with_attrs(dir, after, LISTED_WITH_ATTRS).await?;
            for (listed, attr) in &lines {
                let kept = kept(fs, attr.ino, Some((dir, &listed.name)));
                let attr = self.shown(attr.clone()).await?;
                if reply.add(DirentRef::WithAttr(listed, &attr, kept)) {
                    return Ok(Answer::Done);
                }
                after = listed.place;
            }
            if lines.is_empty() {
                return Ok(Answer::Done);
            }
        }
    }

    /// Takes names away. In a directory with the sticky bit the kernel has checked whether the caller may; if another file has got
    /// the name since then, that counts.
    async fn remove_entry<T>(
        &self,
        take: impl AsyncFn(&Fs) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        let (by, fs) = (self.by, self.fs());
        match take(&fs.for_user(by.user())).await {
            Err(FsError::NotOwner) if is_owner_of_all(by.thread) => take(&fs.for_user(None)).await,
            taken => taken,
        }
    }

    /// Waits until what was changed so far survives the end of this process. A name that is gone says to programs that other
    /// changes are complete: SQLite deletes its rollback journal to commit.
    async fn written(&self) -> Result<Answer, FsError> {
        let written = self.fs().disk().engine().wait_flushed().await;
        written.map_err(|error| FsError::Disk(error.into()))?;
        Ok(Answer::Done)
    }
}

fn new(by: Caller, mode: u32) -> NewInode {
    NewInode {
        mode,
        uid: by.uid,
        gid: by.gid,
        rdev: 0,
    }
}
