//! Names: directories and what is in them.

use crate::error::{FsError, damaged};
use crate::fs::Fs;
use crate::meta::{Meta, damage_of, entry_key, inode_key, orphan_key};
use crate::orphans::Freed;
use crate::refusal::Stop;
use crate::step::{Attempts, Step};
use crate::tree::Key;
use crate::types::{Attr, DIRECTORY, Number, SET_GID, STICKY, SYMLINK, TYPE};
use async_recursion::async_recursion as boxed;
use tonearm_format::{
    DirEntry, ENTRY_NAME_MAX, INO_MAX, Inode, LINKS_MAX, TARGET_CHUNK, TARGET_MAX, Time, item,
};

/// Type of a device of characters, in `st_mode`.
const DEVICE: u32 = 0o020_000;
/// Most names of a file that is no directory.
const NAMES_MAX: u32 = 65_000;
/// Place of `..` in a directory; `.` comes before it. Those of entries are larger.
const PLACE_PARENT: u64 = 2;

/// What a new file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NewInode {
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group. In a directory with the set-group-ID bit it is that of the directory.
    pub gid: u32,
    /// Number of a device, as `st_rdev`.
    pub rdev: u32,
}

/// What a rename does when there is a file of the new name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rename {
    /// It takes that file's place.
    #[default]
    Replace,
    /// It fails.
    NoReplace,
    /// Both files change their names. There must be one.
    Exchange,
    /// It takes that file's place, and a whiteout takes its own: the device 0/0, with which an overlay hides a name of the layers
    /// below.
    Whiteout {
        /// Owner of the whiteout.
        uid: u32,
        /// Its group.
        gid: u32,
    },
}

/// A name in a directory, with the place after which a listing goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dirent {
    /// Its position in the listing.
    pub place: u64,
    /// The file.
    pub ino: u64,
    /// Its type: `st_mode` shifted right by 12.
    pub kind: u8,
    /// The name.
    pub name: Vec<u8>,
}

impl Meta<'_, '_> {
    /// A directory's inode.
    fn directory(&mut self, ino: u64) -> Result<Inode, Stop> {
        let inode = self.inode(ino)?;
        if is_directory(&inode) {
            Ok(inode)
        } else {
            Err(FsError::NotDirectory.into())
        }
    }

    /// A directory's inode, to which a name is to be added.
    fn open_directory(&mut self, ino: u64) -> Result<Inode, Stop> {
        let inode = self.directory(ino)?;
        match inode.nlink {
            0 => Err(FsError::NotFound.into()),
            _ => Ok(inode),
        }
    }

    pub(crate) fn look_up(&mut self, dir: u64, name: &[u8]) -> Result<u64, Stop> {
        if name == b"." {
            return Ok(dir);
        }
        let inode = self.directory(dir)?;
        match name {
            b".." => Ok(inode.parent),
            name => Ok(self.known(dir, name)?.1.ino),
        }
    }

    /// An entry that must be there.
    fn known(&mut self, dir: u64, name: &[u8]) -> Result<(Key, DirEntry), Stop> {
        Ok(self.entry(dir, name)?.ok_or(FsError::NotFound)?)
    }

    /// A new inode in `dir`, which gives its group.
    fn new_inode(&mut self, dir: &Inode, new: NewInode, now: Time) -> Result<(u64, Inode), Stop> {
        let ino = self.take_ino()?;
        if ino > INO_MAX || self.get(inode_key(ino))?.is_some() {
            let text = format!("the next inode is to be {ino}, which is no number of a new one");
            return Err(FsError::Damaged(text).into());
        }
        self.add(Number::Inodes, 1)?;
        let inherits = dir.mode & SET_GID != 0;
        let is_directory = new.mode & TYPE == DIRECTORY;
        let inode = Inode {
            mode: new.mode | if inherits && is_directory { SET_GID } else { 0 },
            uid: new.uid,
            gid: if inherits { dir.gid } else { new.gid },
            nlink: if is_directory { 2 } else { 1 },
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            rdev: new.rdev,
            ..Inode::default()
        };
        Ok((ino, inode))
    }

    /// Adds a name for `ino`, whose inode the caller stores.
    fn enter(
        &mut self,
        (dir, parent): (u64, &mut Inode),
        name: &[u8],
        (ino, inode): (u64, &mut Inode),
        now: Time,
    ) -> Result<(), Stop> {
        let entry = DirEntry {
            ino,
            kind: (inode.mode >> 12) as u8,
            name: name.to_vec(),
        };
        self.put_entry(dir, &entry)?;
        parent.size += 1;
        if is_directory(inode) {
            if parent.nlink == LINKS_MAX {
                return Err(FsError::TooManyLinks.into());
            }
            inode.parent = dir;
            parent.nlink += 1;
        }
        (parent.mtime, parent.ctime, inode.ctime) = (now, now, now);
        Ok(())
    }

    /// Takes a name away. `parent` is the directory's inode, which the caller stores.
    fn leave(
        &mut self,
        parent: &mut Inode,
        key: Key,
        is_directory: bool,
        now: Time,
    ) -> Result<(), Stop> {
        self.remove(key)?;
        let size = parent.size.checked_sub(1);
        parent.size = size.ok_or_else(|| damaged("a directory has more entries than it counts"))?;
        // No directory has fewer than two links.
        let nlink = parent.nlink.checked_sub(u32::from(is_directory));
        let nlink = nlink.filter(|nlink| *nlink != 1);
        parent.nlink = nlink.ok_or_else(|| damaged("a directory counts too few directories"))?;
        (parent.mtime, parent.ctime) = (now, now);
        Ok(())
    }

    /// The file `ino` has lost a name. Without another one, it becomes an orphan.
    fn drop_name(&mut self, ino: u64, now: Time) -> Result<Dropped, Stop> {
        let mut inode = self.inode(ino)?;
        inode.nlink = if is_directory(&inode) {
            0
        } else {
            inode.nlink.saturating_sub(1)
        };
        inode.ctime = now;
        self.put_inode(ino, &inode)?;
        let is_last = inode.nlink == 0;
        // A note that it is being cut off stays, and the file is an orphan by its inode.
        if is_last && self.get(orphan_key(ino))?.is_none() {
            self.put(orphan_key(ino), &[])?;
        }
        Ok(Dropped { ino, is_last })
    }

    /// Checks that `ino` is a directory that can be removed.
    fn check_empty(inode: &Inode) -> Result<(), Stop> {
        match inode.size {
            0 => Ok(()),
            _ => Err(FsError::NotEmpty.into()),
        }
    }

    /// Checks that `ino`, a directory, is not `dir` or above it.
    pub(crate) fn check_outside(&mut self, ino: u64, dir: u64) -> Result<(), Stop> {
        // A way that leads back to a directory, as no sound tree has it, comes by the last one that was noted (Brent).
        let (mut at, mut noted, mut steps) = (dir, 0, 0u64);
        while at != noted {
            if at == ino {
                return Err(FsError::Invalid("a directory cannot be moved into itself").into());
            }
            if steps.is_power_of_two() {
                noted = at;
            }
            steps += 1;
            let parent = self.named_inode(at)?.parent;
            if parent == at {
                return Ok(());
            }
            at = parent;
        }
        Err(FsError::Damaged(format!("directory {at} is above itself")).into())
    }
}

/// A file that has lost a name.
#[derive(Clone, Copy)]
struct Dropped {
    ino: u64,
    is_last: bool,
}

fn is_directory(inode: &Inode) -> bool {
    inode.mode & TYPE == DIRECTORY
}

/// Checks that `user` may take a name of `inode` away from the directory `parent`.
fn check_owner(user: Option<u32>, parent: &Inode, inode: &Inode) -> Result<(), FsError> {
    let is_owner = |uid| uid == parent.uid || uid == inode.uid;
    if parent.mode & STICKY == 0 || user.is_none_or(is_owner) {
        Ok(())
    } else {
        Err(FsError::NotOwner)
    }
}

/// Checks a name that is to be made.
fn check_name(name: &[u8]) -> Result<(), FsError> {
    if name.len() > ENTRY_NAME_MAX {
        return Err(FsError::NameTooLong);
    }
    if name.is_empty() {
        return Err(FsError::NotFound);
    }
    if matches!(name, b"." | b"..") {
        return Err(FsError::Exists);
    }
    if name.contains(&b'/') || name.contains(&0) {
        Err(FsError::Invalid("a name has no slash and no zero byte"))
    } else {
        Ok(())
    }
}

/// Checks a name that is to be taken away.
fn validate_name(name: &[u8]) -> Result<(), FsError> {
    match check_name(name) {
        Err(FsError::Exists) => Err(FsError::Invalid("the names . and .. cannot be removed")),
        checked => checked,
    }
}

impl Fs {
    /// The file `name` of a directory; also `.` and `..`. The name `.` of any file is the file itself, which may have no name any
    /// more while it is in use.
    ///
    /// # Errors
    /// When there is none.
    #[boxed(?Send)]
    pub async fn look_up(&self, dir: u64, name: &[u8]) -> Result<Attr, FsError> {
        if name.len() > ENTRY_NAME_MAX {
            return Err(FsError::NameTooLong);
        }
        let found = self.look(|meta| {
            let ino = meta.look_up(dir, name)?;
            let inode = meta.named_inode(ino)?;
            Ok(Attr { ino, inode })
        });
        match found.await {
            // It is about to be deleted.
            Ok(found) if found.inode.nlink == 0 && !self.is_in_use(found.ino) => {
                Err(FsError::NotFound)
            }
            found => found,
        }
    }

    /// Makes a file, a directory, a device, a FIFO or a socket, as the mode says.
    ///
    /// # Errors
    /// When the name is taken or impossible, or the store is full.
    #[boxed(?Send)]
    pub async fn make(&self, dir: u64, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.make_masked(dir, name, new, 0).await
    }

    /// As [`Fs::make`]. The mode loses the bits of `umask`, unless the directory has a default list of access control.
    ///
    /// # Errors
    /// As for [`Fs::make`].
    #[boxed(?Send)]
    pub async fn make_masked(
        &self,
        dir: u64,
        name: &[u8],
        new: NewInode,
        umask: u32,
    ) -> Result<Attr, FsError> {
        self.make_named(dir, name, (new, umask), Vec::new()).await
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// As for [`Fs::make`], and when the target is empty or has over 4095 bytes.
    #[boxed(?Send)]
    pub async fn make_link(
        &self,
        dir: u64,
        name: &[u8],
        target: &[u8],
        new: NewInode,
    ) -> Result<Attr, FsError> {
        if target.is_empty() {
            return Err(FsError::NotFound);
        }
        if target.len() > TARGET_MAX {
            return Err(FsError::NameTooLong);
        }
        let mode = SYMLINK | 0o777;
        let new = (NewInode { mode, ..new }, 0);
        self.make_named(dir, name, new, target.to_vec()).await
    }

    async fn make_named(
        &self,
        dir: u64,
        name: &[u8],
        (new, umask): (NewInode, u32),
        target: Vec<u8>,
    ) -> Result<Attr, FsError> {
        check_name(name)?;
        let (name, now) = (name.to_vec(), self.now());
        let (attr, _) = self
            .change(move |meta| {
                let mut parent = meta.open_directory(dir)?;
                if meta.entry(dir, &name)?.is_some() {
                    return Err(FsError::Exists.into());
                }
                let (ino, mut inode) = meta.new_inode(&parent, new, now)?;
                inode.size = target.len() as u64;
                meta.inherit_acl(dir, (ino, &mut inode), umask)?;
                meta.enter((dir, &mut parent), &name, (ino, &mut inode), now)?;
                meta.put_inode(dir, &parent)?;
                meta.put_inode(ino, &inode)?;
                for (at, part) in (0..).zip(target.chunks(TARGET_CHUNK)) {
                    let kind = item::TARGET;
                    meta.put(Key { ino, kind, at }, part)?;
                }
                Ok(Attr { ino, inode })
            })
            .await?;
        Ok(attr)
    }

    /// Makes a file without a name, with a handle.
    ///
    /// # Errors
    /// As for [`Fs::make`].
    #[boxed(?Send)]
    pub async fn make_unnamed(&self, dir: u64, new: NewInode) -> Result<Attr, FsError> {
        let now = self.now();
        let (attr, _) = self
            .change(move |meta| {
                let parent = meta.open_directory(dir)?;
                let (ino, mut inode) = meta.new_inode(&parent, new, now)?;
                inode.nlink = 0;
                meta.put_inode(ino, &inode)?;
                meta.put(orphan_key(ino), &[])?;
                Ok(Attr { ino, inode })
            })
            .await?;
        self.open_handle(attr.ino)?;
        self.free_after_use(attr.ino);
        Ok(attr)
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// When the name is taken or impossible, the file is a directory or has as many names as it can, or the store is full.
    #[boxed(?Send)]
    pub async fn link(&self, ino: u64, dir: u64, name: &[u8]) -> Result<Attr, FsError> {
        check_name(name)?;
        let (name, now) = (name.to_vec(), self.now());
        let (attr, _) = self
            .change(move |meta| {
                let mut parent = meta.open_directory(dir)?;
                let mut inode = meta.inode(ino)?;
                if is_directory(&inode) {
                    return Err(FsError::NotPermitted("a directory has one name").into());
                }
                if meta.entry(dir, &name)?.is_some() {
                    return Err(FsError::Exists.into());
                }
                if inode.nlink >= NAMES_MAX {
                    return Err(FsError::TooManyLinks.into());
                }
                if inode.nlink == 0 && meta.orphan(ino)? == Some(None) {
                    meta.remove(orphan_key(ino))?;
                }
                inode.nlink += 1;
                meta.enter((dir, &mut parent), &name, (ino, &mut inode), now)?;
                meta.put_inode(dir, &parent)?;
                meta.put_inode(ino, &inode)?;
                Ok(Attr { ino, inode })
            })
            .await?;
        Ok(attr)
    }

    /// Takes a name of a file away. Without another name the file is deleted, when its last handle is closed.
    ///
    /// # Errors
    /// When there is no such name, or it is that of a directory.
    #[boxed(?Send)]
    pub async fn unlink(&self, dir: u64, name: &[u8]) -> Result<(), FsError> {
        self.remove_entry(dir, name, false).await
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// When there is none, or it is not empty.
    #[boxed(?Send)]
    pub async fn remove_dir(&self, dir: u64, name: &[u8]) -> Result<(), FsError> {
        self.remove_entry(dir, name, true).await
    }

    async fn remove_entry(&self, dir: u64, name: &[u8], directory: bool) -> Result<(), FsError> {
        validate_name(name)?;
        let (now, mut attempts) = (self.now(), Attempts::default());
        loop {
            // Most files are deleted with their last name, in the same unit.
            let found = self.look(|meta| Ok(meta.known(dir, name)?.1.ino)).await?;
            let mut unit = self.step().await?;
            if self.unit().is_none() {
                unit.set_frees();
            }
            let freed = Freed::begin(self, found, &mut unit).await?;
            let (name, fs) = (name.to_vec(), self.clone());
            let ended = self
                .freeing()
                .try_end(unit, move |meta| {
                    let mut parent = meta.directory(dir)?;
                    let (key, entry) = meta.known(dir, &name)?;
                    let inode = meta.named_inode(entry.ino)?;
                    check_owner(fs.user(), &parent, &inode)?;
                    match (directory, is_directory(&inode)) {
                        (true, false) => return Err(FsError::NotDirectory.into()),
                        (false, true) => return Err(FsError::IsDirectory.into()),
                        (true, true) => Meta::check_empty(&inode)?,
                        (false, false) => {}
                    }
                    meta.leave(&mut parent, key, directory, now)?;
                    meta.put_inode(dir, &parent)?;
                    let dropped = meta.drop_name(entry.ino, now)?;
                    if let Some(freed) = &freed {
                        freed.end(&fs, meta, dropped.ino, dropped.is_last)?;
                    }
                    Ok(dropped)
                })
                .await?;
            if let Some((dropped, _)) = ended {
                self.dropped(dropped);
                return Ok(());
            }
            attempts.again(self.disk())?;
        }
    }

    fn dropped(&self, dropped: Dropped) {
        if dropped.is_last && !self.free_after_use(dropped.ino) {
            self.free_in_background(dropped.ino);
        }
    }

    /// Renames a file or directory, at once: there is no moment without either name, or with both.
    ///
    /// # Errors
    /// When there is no such file, a directory would come into itself, or what is replaced is a directory with entries or of
    /// another kind.
    #[boxed(?Send)]
    pub async fn rename(
        &self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        how: Rename,
    ) -> Result<(), FsError> {
        validate_name(from.1)?;
        validate_name(to.1)?;
        let (now, mut attempts) = (self.now(), Attempts::default());
        loop {
            let mut unit = self.step().await?;
            let freed = match how {
                Rename::Replace | Rename::Whiteout { .. } => {
                    self.free_replaced(from, to, &mut unit).await?
                }
                Rename::NoReplace | Rename::Exchange => None,
            };
            let ((from_dir, from_name), (to_dir, to_name)) = (from, to);
            let (from_name, to_name, fs) = (from_name.to_vec(), to_name.to_vec(), self.clone());
            let ended = self
                .try_end(unit, move |meta| {
                    let from = (from_dir, &from_name[..]);
                    let to = (to_dir, &to_name[..]);
                    let user = fs.user();
                    if how == Rename::Exchange {
                        return meta.exchange(from, to, user, now).map(|()| None);
                    }
                    let dropped = meta.rename(from, to, (how, user), now)?;
                    match (&freed, dropped) {
                        (Some(freed), Some(dropped)) => {
                            freed.end(&fs, meta, dropped.ino, dropped.is_last)?;
                        }
                        (Some(_), None) => return Err(Stop::Again),
                        (None, _) => {}
                    }
                    Ok(dropped)
                })
                .await?;
            if let Some((dropped, _)) = ended {
                if let Some(dropped) = dropped {
                    self.dropped(dropped);
                }
                return Ok(());
            }
            attempts.again(self.disk())?;
        }
    }

    /// Adds the deletion of the file that a rename replaces to the unit, if there is one and the unit can free it.
    async fn free_replaced(
        &self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        unit: &mut Step,
    ) -> Result<Option<Freed>, FsError> {
        let (moved, replaced) = self
            .look(|meta| Ok((meta.entry(from.0, from.1)?, meta.entry(to.0, to.1)?)))
            .await?;
        let ino_of = |found: Option<(Key, DirEntry)>| found.map(|(_, entry)| entry.ino);
        let (moved, replaced) = (ino_of(moved), ino_of(replaced));
        match replaced {
            // A rename to another name of the same file replaces nothing.
            Some(ino) if moved != replaced => Freed::begin(self, ino, unit).await,
            _ => Ok(None),
        }
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// When it is none.
    #[boxed(?Send)]
    pub async fn read_link(&self, ino: u64) -> Result<Vec<u8>, FsError> {
        self.look(|meta| {
            let inode = meta.inode(ino)?;
            if inode.mode & TYPE != SYMLINK {
                return Err(FsError::Invalid("it is no symbolic link").into());
            }
            let mut target = Vec::with_capacity(inode.size as usize);
            for at in 0..inode.size.div_ceil(TARGET_CHUNK as u64) {
                let kind = item::TARGET;
                target.extend(meta.get(Key { ino, kind, at })?.unwrap_or_default());
            }
            if target.len() as u64 == inode.size {
                Ok(target)
            } else {
                let text = format!("the target of inode {ino} is not as long as it says");
                Err(FsError::Damaged(text).into())
            }
        })
        .await
    }

    /// Up to `most` names of a directory after the place `after`; the first listing begins after 0.
    ///
    /// # Errors
    /// When it is no directory.
    #[boxed(?Send)]
    pub async fn list(&self, dir: u64, after: u64, most: usize) -> Result<Vec<Dirent>, FsError> {
        self.look(|meta| meta.list(dir, after, most)).await
    }

    /// As [`Fs::list`], with the files' attributes.
    ///
    /// # Errors
    /// As for [`Fs::list`].
    #[boxed(?Send)]
    pub async fn list_with_attrs(
        &self,
        dir: u64,
        after: u64,
        most: usize,
    ) -> Result<Vec<(Dirent, Attr)>, FsError> {
        self.look(|meta| {
            let listed = meta.list(dir, after, most)?;
            let mut found = Vec::with_capacity(listed.len());
            for one in listed {
                let (ino, inode) = (one.ino, meta.named_inode(one.ino)?);
                found.push((one, Attr { ino, inode }));
            }
            Ok(found)
        })
        .await
    }
}

impl Meta<'_, '_> {
    fn list(&mut self, dir: u64, after: u64, most: usize) -> Result<Vec<Dirent>, Stop> {
        let inode = self.directory(dir)?;
        let kind = (DIRECTORY >> 12) as u8;
        let mut listed = Vec::new();
        let own = [(1, dir, &b"."[..]), (PLACE_PARENT, inode.parent, b"..")];
        for (place, ino, name) in own.into_iter().filter(|(place, ..)| *place > after) {
            let name = name.to_vec();
            listed.push(Dirent {
                place,
                ino,
                kind,
                name,
            });
        }
        listed.truncate(most);
        let mut failed = None;
        let from = after.max(PLACE_PARENT).saturating_add(1);
        self.scan(entry_key(dir, from), |key, value| {
            if (key.ino, key.kind) != (dir, item::ENTRY) || listed.len() >= most {
                return false;
            }
            match DirEntry::decode(key.at, value) {
                Ok(entry) => {
                    let (ino, kind) = (entry.ino, entry.kind);
                    let (place, name) = (key.at, entry.name);
                    listed.push(Dirent {
                        place,
                        ino,
                        kind,
                        name,
                    });
                    true
                }
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        })?;
        failed.map_or(Ok(listed), |error| Err(damage_of(dir)(error).into()))
    }

    fn rename(
        &mut self,
        (from_dir, from_name): (u64, &[u8]),
        (to_dir, to_name): (u64, &[u8]),
        (how, user): (Rename, Option<u32>),
        now: Time,
    ) -> Result<Option<Dropped>, Stop> {
        let mut from_parent = self.directory(from_dir)?;
        let mut to_parent = self.open_directory(to_dir)?;
        let (from_key, moved) = self.known(from_dir, from_name)?;
        let replaced = self.entry(to_dir, to_name)?;
        let mut inode = self.named_inode(moved.ino)?;
        check_owner(user, &from_parent, &inode)?;
        let moves_directory = is_directory(&inode);
        if moves_directory {
            self.check_outside(moved.ino, to_dir)?;
        }
        let mut dropped = None;
        if let Some((key, old)) = replaced {
            if how == Rename::NoReplace {
                return Err(FsError::Exists.into());
            }
            if old.ino == moved.ino {
                return Ok(None);
            }
            let old_inode = self.named_inode(old.ino)?;
            check_owner(user, &to_parent, &old_inode)?;
            match (moves_directory, is_directory(&old_inode)) {
                (true, false) => return Err(FsError::NotDirectory.into()),
                (false, true) => return Err(FsError::IsDirectory.into()),
                (true, true) => Self::check_empty(&old_inode)?,
                (false, false) => {}
            }
            self.leave(&mut to_parent, key, moves_directory, now)?;
            dropped = Some(self.drop_name(old.ino, now)?);
        }
        if from_dir == to_dir {
            // Both are one inode. What was changed above is in this copy.
            from_parent = to_parent;
            self.leave(&mut from_parent, from_key, moves_directory, now)?;
            to_parent = from_parent;
        } else {
            self.leave(&mut from_parent, from_key, moves_directory, now)?;
            self.put_inode(from_dir, &from_parent)?;
        }
        self.enter(
            (to_dir, &mut to_parent),
            to_name,
            (moved.ino, &mut inode),
            now,
        )?;
        self.put_inode(to_dir, &to_parent)?;
        self.put_inode(moved.ino, &inode)?;
        if let Rename::Whiteout { uid, gid } = how {
            let new = NewInode {
                mode: DEVICE,
                uid,
                gid,
                rdev: 0,
            };
            let mut parent = self.directory(from_dir)?;
            let (ino, mut inode) = self.new_inode(&parent, new, now)?;
            self.enter((from_dir, &mut parent), from_name, (ino, &mut inode), now)?;
            self.put_inode(from_dir, &parent)?;
            self.put_inode(ino, &inode)?;
        }
        Ok(dropped)
    }

    fn exchange(
        &mut self,
        (from_dir, from_name): (u64, &[u8]),
        (to_dir, to_name): (u64, &[u8]),
        user: Option<u32>,
        now: Time,
    ) -> Result<(), Stop> {
        let (from_key, one) = self.known(from_dir, from_name)?;
        let (to_key, other) = self.known(to_dir, to_name)?;
        if one.ino == other.ino {
            return Ok(());
        }
        for (entry, dir, key, name, old_dir) in [
            (&one, to_dir, to_key, to_name, from_dir),
            (&other, from_dir, from_key, from_name, to_dir),
        ] {
            let mut inode = self.named_inode(entry.ino)?;
            check_owner(user, &self.directory(old_dir)?, &inode)?;
            if is_directory(&inode) && dir != old_dir {
                self.check_outside(entry.ino, dir)?;
                inode.parent = dir;
                for (dir, more) in [(dir, 1), (old_dir, -1)] {
                    let mut parent = self.directory(dir)?;
                    parent.nlink = parent.nlink.saturating_add_signed(more);
                    self.put_inode(dir, &parent)?;
                }
            }
            inode.ctime = now;
            self.put_inode(entry.ino, &inode)?;
            let name = name.to_vec();
            self.put(
                key,
                &DirEntry {
                    name,
                    ..entry.clone()
                }
                .encode(),
            )?;
        }
        for dir in [from_dir, to_dir] {
            let mut parent = self.directory(dir)?;
            (parent.mtime, parent.ctime) = (now, now);
            self.put_inode(dir, &parent)?;
        }
        Ok(())
    }
}
