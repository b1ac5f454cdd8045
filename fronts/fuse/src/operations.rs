//! What each request does to the file system.
//!
//! Changes that no program waits for stay in the server's memory for a moment (`OpenOptions::linger`), so that the log takes many
//! at once. The end of a name goes to the log at once, and all changes before it: programs make their changes valid by a rename
//! or by the deletion of a journal, and do not always sync the directory.

use crate::message::{Answer, Caller, Changes, Kept, Line, Operation, Way, When};
use crate::notices::Notice;
use crate::processes::is_owner_of_all;
use crate::reply::Reply;
use crate::translate::without_privilege;
use crate::units::{Place, Units};
use std::rc::Rc;
use std::sync::mpsc::Sender;
use tonearm_base::Nanos;
use tonearm_fs::{ACL_ACCESS, ACL_DEFAULT, Attr, Fs, FsError, New, Rename, SetAttr};

/// Names that are looked up at a time for a listing, about as many as a page of the kernel's holds.
const LISTED: usize = 128;
/// Names with attributes, likewise.
const LISTED_WITH_ATTRS: usize = 32;

/// How long a change that needs space, and one that frees some, wait while there is none below the store. The kernel keeps the
/// directory locked meanwhile, also for those who would look for files there, and delete some. A removal may get the space that
/// an earlier one has freed.
const FULL_PATIENCE: Nanos = Nanos::from_millis(50);
const REMOVAL_PATIENCE: Nanos = Nanos::from_secs(2);

/// Extended attributes that only root sees in a list.
const TRUSTED: &[u8] = b"trusted.";
/// Attributes that would change what the kernel allows. The kernel would not ask for them at each access, so they would be
/// kept and have no effect.
pub(crate) const WITHOUT_EFFECT: &[&[u8]] = &[b"security.capability"];

/// The list of access control that an attribute is.
fn acl(name: &[u8]) -> Option<&'static [u8]> {
    let lists = [ACL_ACCESS, ACL_DEFAULT].into_iter();
    lists.into_iter().find(|list| *list == name)
}

/// What operations need beside the file system.
pub(crate) struct Context<'a> {
    /// The file system as it is committed.
    pub committed: &'a Fs,
    pub units: &'a Rc<Units>,
    /// What the kernel is to be told.
    pub notices: &'a Sender<Notice>,
    /// Who asks.
    pub by: Caller,
    /// The unit of the process that asks.
    pub member: Option<u64>,
    /// The handle.
    pub handle: u64,
    /// Where the operation takes place.
    pub place: Place,
}

/// What the kernel may keep: nothing that an open unit has changed.
fn kept(fs: &Fs, ino: u64, name: Option<(u64, &[u8])>) -> Kept {
    Kept {
        name: !name.is_some_and(|(dir, name)| fs.is_name_held(dir, name)),
        attr: !fs.is_held(ino),
    }
}

/// Carries out an operation. `reply` takes the lines of listings.
pub(crate) async fn perform(
    context: &Context<'_>,
    operation: Operation,
    reply: &mut Reply,
) -> Result<Answer, FsError> {
    let (by, place) = (context.by, &context.place);
    let fs = place.fs(context.committed);
    match operation {
        Operation::LookUp { dir, name } => match fs.look_up(dir, &name).await {
            Err(FsError::NotFound) => Ok(Answer::NoEntry(kept(fs, 0, Some((dir, &name))))),
            found => context.entry(found?, dir, &name).await,
        },
        Operation::Attr { ino } => Ok(Answer::Attr(fs.attr(ino).await?, kept(fs, ino, None))),
        Operation::SetAttr { ino, changes } => {
            if changes.size.is_some() {
                fs.check_not_busy(ino)?;
            }
            let set = without_lost_privilege(fs, by, ino, changes).await?;
            let attr = match set.size {
                None => {
                    context
                        .unless_full(FULL_PATIENCE, fs.set_attr(ino, set))
                        .await?
                }
                Some(_) => fs.set_attr(ino, set).await?,
            };
            let attr = context.shown(attr).await?;
            Ok(Answer::Attr(attr, kept(fs, ino, None)))
        }
        Operation::ReadLink { ino } => fs.read_link(ino).await.map(Answer::Bytes),
        Operation::Make {
            dir,
            name,
            mode,
            umask,
            rdev,
        } => {
            let new = New {
                rdev,
                ..new(by, mode)
            };
            let made = fs.make_masked(dir, &name, new, umask);
            let made = context.unless_full(FULL_PATIENCE, made).await?;
            context.entry(made, dir, &name).await
        }
        Operation::MakeLink { dir, name, target } => {
            let made = fs.make_link(dir, &name, &target, new(by, 0));
            let made = context.unless_full(FULL_PATIENCE, made).await?;
            context.entry(made, dir, &name).await
        }
        Operation::Create {
            dir,
            name,
            mode,
            umask,
            direct,
            ..
        } => {
            // A file that is there is not opened here: the kernel has not checked its permissions.
            let made = fs.make_masked(dir, &name, new(by, mode), umask);
            let attr = context.unless_full(FULL_PATIENCE, made).await?;
            fs.open_handle(attr.ino)?;
            let direct = context.opened(attr.ino, direct);
            let kept = kept(fs, attr.ino, Some((dir, &name)));
            let ino = attr.ino;
            let shown = context.shown(attr).await;
            if shown.is_err() {
                fs.close_handle(ino);
            }
            Ok(Answer::Created(shown?, kept, direct))
        }
        Operation::Link { ino, dir, name } => {
            let linked = context
                .unless_full(FULL_PATIENCE, fs.link(ino, dir, &name))
                .await?;
            context.entry(linked, dir, &name).await
        }
        Operation::Unlink { dir, name } => {
            let unlink = remove_entry(by, fs, async |fs| fs.unlink(dir, &name).await);
            context.unless_full(REMOVAL_PATIENCE, unlink).await?;
            written(fs).await?;
            Ok(Answer::Done)
        }
        Operation::RemoveDir { dir, name } => {
            let remove = remove_entry(by, fs, async |fs| fs.remove_dir(dir, &name).await);
            context.unless_full(REMOVAL_PATIENCE, remove).await?;
            written(fs).await?;
            Ok(Answer::Done)
        }
        Operation::Rename { from, to, how } => {
            let rename = async |fs: &Fs| fs.rename((from.0, &from.1), (to.0, &to.1), how).await;
            context
                .unless_full(FULL_PATIENCE, remove_entry(by, fs, rename))
                .await?;
            written(fs).await?;
            if matches!(place, Place::Unit(_)) {
                // The kernel moves what it keeps of the name, also for processes that are not of the unit.
                let old = (how == Rename::Exchange).then_some(from);
                context.tell(Notice {
                    names: [to].into_iter().chain(old).collect(),
                    ..Notice::default()
                });
            }
            Ok(Answer::Done)
        }
        Operation::Open { ino, direct } => {
            // The handle comes first, so that the file is not deleted meanwhile.
            fs.open_handle(ino)?;
            match fs.attr(ino).await {
                Ok(_) => {
                    let direct = context.opened(ino, direct);
                    Ok(Answer::Opened { direct })
                }
                Err(error) => {
                    fs.close_handle(ino);
                    Err(error)
                }
            }
        }
        Operation::Close { ino } => {
            fs.close_handle(ino);
            Ok(Answer::Done)
        }
        Operation::Read {
            ino,
            offset,
            len,
            cached,
        } => {
            if cached && context.differs(ino) {
                return Err(FsError::Unsupported(
                    "the page cache has no content of a file that a unit has changed",
                ));
            }
            fs.read(ino, offset, len).await.map(Answer::Pieces)
        }
        Operation::Write {
            ino,
            offset,
            data,
            kill_suid,
            durable,
            append,
            way,
        } => {
            let fs = match (place, way) {
                (Place::Unit(unit), Way::Buffered) if !unit.has_made(ino) => {
                    return Err(FsError::Invalid("the descriptor has lost its O_DIRECT"));
                }
                // A mapped page may have been changed by any process, so its write is not one of the unit.
                (Place::Unit(unit), Way::Mapped) if !unit.has_made(ino) => context.committed,
                _ => fs,
            };
            if kill_suid {
                take_privilege(fs, ino).await?;
            }
            let at = match append && fs.unit_counts().begun > 0 {
                true => fs.attr(ino).await?.inode.size,
                false => offset,
            };
            fs.write(ino, at, &data).await?;
            if at != offset {
                // The kernel has taken the size of the file in a unit for its size.
                context.tell(Notice {
                    files: vec![ino],
                    ..Notice::default()
                });
            }
            if durable {
                fs.sync(Some(ino)).await?;
            }
            Ok(Answer::Count(data.len() as u64))
        }
        Operation::Sync { ino } => done(fs.sync(Some(ino)).await),
        Operation::List { dir, after } => list(fs, dir, after, reply).await,
        Operation::ListWithAttrs { dir, after } => {
            list_with_attrs(context, fs, dir, after, reply).await
        }
        Operation::Space => fs.space().await.map(Answer::Space),
        Operation::Xattr { ino, name } => fs.xattr(ino, &name).await.map(Answer::Bytes),
        Operation::SetXattr {
            ino,
            name,
            value,
            how,
        } => {
            if WITHOUT_EFFECT.contains(&&name[..]) {
                return Err(FsError::Unsupported("this attribute would have no effect"));
            }
            if let Some(list) = acl(&name) {
                // Only members of the file's group keep the bit, and the kernel does not say in which groups the caller is.
                let keeps = by.is_root() || fs.attr(ino).await?.inode.gid == by.gid;
                let set = fs.set_acl(ino, list, Some(&value), keeps);
                return done(context.unless_full(FULL_PATIENCE, set).await);
            }
            let set = fs.set_xattr(ino, &name, &value, how);
            done(context.unless_full(FULL_PATIENCE, set).await)
        }
        Operation::RemoveXattr { ino, name } => match acl(&name) {
            // A file without one has the list that its mode stands for.
            Some(list) => {
                let removed = fs.set_acl(ino, list, None, true);
                done(context.unless_full(REMOVAL_PATIENCE, removed).await)
            }
            None => {
                let removed = fs.remove_xattr(ino, &name);
                done(context.unless_full(REMOVAL_PATIENCE, removed).await)
            }
        },
        Operation::Xattrs { ino } => {
            let mut names = fs.xattrs(ino).await?;
            names.retain(|name| by.is_root() || !name.starts_with(TRUSTED));
            let ended = names.into_iter().flat_map(|name| [name, vec![0]]);
            Ok(Answer::Bytes(ended.flatten().collect()))
        }
        Operation::Allocate {
            ino,
            offset,
            len,
            how,
        } => done(fs.allocate(ino, offset, len, how).await),
        Operation::Seek { ino, offset, what } => {
            fs.seek(ino, offset, what).await.map(Answer::Offset)
        }
        Operation::Copy {
            from,
            from_handle,
            to,
            len,
        } => {
            let source = context.units.place_of(from_handle, true, None)?;
            take_privilege(fs, to.0).await?;
            let copied = fs.copy(source.fs(context.committed), from, to, len).await;
            copied.map(Answer::Count)
        }
        Operation::BeginUnit { processes } => {
            let (fs, units) = (context.committed, context.units);
            if context.member.is_some() {
                return Err(FsError::Invalid("the process is in a unit already"));
            }
            let unit = units.begin(fs, context.handle, by, processes)?;
            Ok(Answer::Begun(unit))
        }
        Operation::Enlist { unit } => done(context.units.enlist(context.handle, unit, by.uid)),
        Operation::Commit { .. } | Operation::Abort => {
            unreachable!("the server ends units, and tells the kernel")
        }
    }
}

impl Context<'_> {
    /// The result of a change, unless there is no space below the store and the change would wait for longer than `patience`.
    async fn unless_full<T>(
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

    async fn entry(&self, attr: Attr, dir: u64, name: &[u8]) -> Result<Answer, FsError> {
        let kept = kept(self.committed, attr.ino, Some((dir, name)));
        Ok(Answer::Entry(self.shown(attr).await?, kept))
    }

    /// The attributes for an answer in which no program has asked for them. The kernel has one size of a file, for all who read it
    /// through the page cache. So that these find its end it is the committed one. A program that asks for attributes gets those
    /// of its unit.
    async fn shown(&self, mut attr: Attr) -> Result<Attr, FsError> {
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
    fn opened(&self, ino: u64, is_direct: bool) -> bool {
        let of_unit = matches!(self.place, Place::Unit(_));
        self.units.add_handle(self.handle, self.member, is_direct);
        of_unit || self.committed.is_held(ino)
    }

    /// True when the unit has changed the content that others see.
    fn differs(&self, ino: u64) -> bool {
        match &self.place {
            Place::Unit(unit) => unit.has_changed(ino) && !unit.has_made(ino),
            Place::Committed => false,
        }
    }

    fn tell(&self, notice: Notice) {
        // The thread that takes it ends with the mount.
        let _ = self.notices.send(notice);
    }
}

fn done(result: Result<(), FsError>) -> Result<Answer, FsError> {
    result.map(|()| Answer::Done)
}

fn new(by: Caller, mode: u32) -> New {
    New {
        mode,
        uid: by.uid,
        gid: by.gid,
        rdev: 0,
    }
}

/// Takes names away. In a directory with the sticky bit the kernel has checked whether the caller may; if another file has got the
/// name since then, that counts.
async fn remove_entry<T>(
    by: Caller,
    fs: &Fs,
    take: impl AsyncFn(&Fs) -> Result<T, FsError>,
) -> Result<T, FsError> {
    match take(&fs.for_user(by.user())).await {
        Err(FsError::NotOwner) if is_owner_of_all(by.thread) => take(&fs.for_user(None)).await,
        taken => taken,
    }
}

/// The changes of a request, with the mode that they leave: another owner takes the set-user-id bits of any file, and another
/// size those of files that root does not change. A request without any change is a chown(2) that keeps both owner and group.
async fn without_lost_privilege(
    fs: &Fs,
    by: Caller,
    ino: u64,
    changes: Changes,
) -> Result<SetAttr, FsError> {
    let Changes {
        mode,
        uid,
        gid,
        size,
        ..
    } = changes;
    let times = [
        changes.atime.is_some(),
        changes.mtime.is_some(),
        changes.ctime.is_some(),
    ];
    let is_empty = mode.is_none() && size.is_none() && times == [false; 3];
    let takes = uid.is_some() || gid.is_some() || is_empty || size.is_some() && !by.is_root();
    let mode = match mode {
        None if takes => {
            let mode = fs.attr(ino).await?.inode.mode;
            Some(without_privilege(mode)).filter(|left| *left != mode)
        }
        mode => mode,
    };
    let at = |when: When| match when {
        When::Now => fs.now(),
        When::At(time) => time,
    };
    Ok(SetAttr {
        mode,
        uid,
        gid,
        size,
        atime: changes.atime.map(at),
        mtime: changes.mtime.map(at),
        ctime: changes.ctime,
    })
}

/// Takes the set-user-id bits of a file that is about to be written.
async fn take_privilege(fs: &Fs, ino: u64) -> Result<(), FsError> {
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

/// Lists until the kernel's buffer is full.
async fn list(fs: &Fs, dir: u64, mut after: u64, reply: &mut Reply) -> Result<Answer, FsError> {
    loop {
        let lines = fs.list(dir, after, LISTED).await?;
        for listed in &lines {
            if reply.add(Line::Name(listed)) {
                return Ok(Answer::Done);
            }
            after = listed.place;
        }
        if lines.is_empty() {
            return Ok(Answer::Done);
        }
    }
}

async fn list_with_attrs(
    context: &Context<'_>,
    fs: &Fs,
    dir: u64,
    mut after: u64,
    reply: &mut Reply,
) -> Result<Answer, FsError> {
    loop {
        let lines = fs.list_with_attrs(dir, after, LISTED_WITH_ATTRS).await?;
        for (listed, attr) in &lines {
            let kept = kept(fs, attr.ino, Some((dir, &listed.name)));
            let attr = context.shown(attr.clone()).await?;
            if reply.add(Line::WithAttr(listed, &attr, kept)) {
                return Ok(Answer::Done);
            }
            after = listed.place;
        }
        if lines.is_empty() {
            return Ok(Answer::Done);
        }
    }
}

/// Waits until what was changed so far survives the end of this process. A name that is gone says to programs that other changes are
/// complete: SQLite deletes its rollback journal to commit.
async fn written(fs: &Fs) -> Result<(), FsError> {
    let written = fs.disk().engine().wait_flushed().await;
    written.map_err(|error| FsError::Disk(error.into()))
}
