//! What each request does to the file system.

use crate::message::{Answer, Caller, Changes, Line, Operation, When};
use crate::translate::without_privilege;
use crate::transport::Reply;
use tonearm_fs::{Attr, Fs, FsError, New, SetAttr};

/// Names that are looked up at a time for a listing, about as many as a page of the kernel's holds.
const LISTED: usize = 128;
/// Names with attributes, likewise.
const LISTED_WITH_ATTRS: usize = 32;

/// Extended attributes that only root sees in a list.
const TRUSTED: &[u8] = b"trusted.";
/// Attributes that would change what the kernel allows. The kernel would not ask for them at each access, so they would be
/// kept and have no effect.
pub(crate) const WITHOUT_EFFECT: &[&[u8]] = &[
    b"security.capability",
    b"system.posix_acl_access",
    b"system.posix_acl_default",
];

/// Carries out an operation. `reply` takes the lines of listings.
pub(crate) async fn perform(
    fs: &Fs,
    by: Caller,
    operation: Operation,
    reply: &mut Reply,
) -> Result<Answer, FsError> {
    match operation {
        Operation::LookUp { dir, name } => match fs.look_up(dir, &name).await {
            Err(FsError::NotFound) => Ok(Answer::NoEntry),
            found => found.map(Answer::Entry),
        },
        Operation::Attr { ino } => fs.attr(ino).await.map(Answer::Attr),
        Operation::SetAttr { ino, changes } => {
            let set = without_lost_privilege(fs, by, ino, changes).await?;
            fs.set_attr(ino, set).await.map(Answer::Attr)
        }
        Operation::ReadLink { ino } => fs.read_link(ino).await.map(Answer::Bytes),
        Operation::Make {
            dir,
            name,
            mode,
            rdev,
        } => {
            let new = New {
                rdev,
                ..new(by, mode)
            };
            fs.make(dir, &name, new).await.map(Answer::Entry)
        }
        Operation::MakeLink { dir, name, target } => {
            let made = fs.make_link(dir, &name, &target, new(by, 0));
            made.await.map(Answer::Entry)
        }
        Operation::Create {
            dir,
            name,
            mode,
            exclusive,
            truncate,
        } => {
            let attr = match fs.make(dir, &name, new(by, mode)).await {
                // Another program has made it since the kernel looked.
                Err(FsError::Exists) if !exclusive => found(fs, by, dir, &name, truncate).await?,
                made => made?,
            };
            fs.open_handle(attr.ino);
            Ok(Answer::Created(attr))
        }
        Operation::Link { ino, dir, name } => fs.link(ino, dir, &name).await.map(Answer::Entry),
        Operation::Unlink { dir, name } => done(fs.unlink(dir, &name).await),
        Operation::RemoveDir { dir, name } => done(fs.remove_dir(dir, &name).await),
        Operation::Rename { from, to, how } => {
            done(fs.rename((from.0, &from.1), (to.0, &to.1), how).await)
        }
        Operation::Open { ino } => {
            // The handle comes first, so that the file is not deleted meanwhile.
            fs.open_handle(ino);
            match fs.attr(ino).await {
                Ok(_) => Ok(Answer::Opened),
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
        Operation::Read { ino, offset, len } => fs.read(ino, offset, len).await.map(Answer::Pieces),
        Operation::Write {
            ino,
            offset,
            data,
            kill_suid,
            durable,
        } => {
            if kill_suid {
                take_privilege(fs, ino).await?;
            }
            fs.write(ino, offset, &data).await?;
            if durable {
                fs.sync(Some(ino)).await?;
            }
            Ok(Answer::Count(data.len() as u64))
        }
        Operation::Sync { ino } => done(fs.sync(Some(ino)).await),
        Operation::List { dir, after } => list(fs, dir, after, reply).await,
        Operation::ListWithAttrs { dir, after } => list_with_attrs(fs, dir, after, reply).await,
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
            done(fs.set_xattr(ino, &name, &value, how).await)
        }
        Operation::RemoveXattr { ino, name } => done(fs.remove_xattr(ino, &name).await),
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
        Operation::Copy { from, to, len } => {
            take_privilege(fs, to.0).await?;
            fs.copy(from, to, len).await.map(Answer::Count)
        }
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

/// The file of a `create` that was there already.
async fn found(
    fs: &Fs,
    by: Caller,
    dir: u64,
    name: &[u8],
    truncate: bool,
) -> Result<Attr, FsError> {
    let attr = fs.look_up(dir, name).await?;
    if !truncate {
        return Ok(attr);
    }
    let changes = Changes {
        size: Some(0),
        ..Changes::default()
    };
    let set = without_lost_privilege(fs, by, attr.ino, changes).await?;
    fs.set_attr(attr.ino, set).await
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
    fs: &Fs,
    dir: u64,
    mut after: u64,
    reply: &mut Reply,
) -> Result<Answer, FsError> {
    loop {
        let lines = fs.list_with_attrs(dir, after, LISTED_WITH_ATTRS).await?;
        for (listed, attr) in &lines {
            if reply.add(Line::WithAttr(listed, attr)) {
                return Ok(Answer::Done);
            }
            after = listed.place;
        }
        if lines.is_empty() {
            return Ok(Answer::Done);
        }
    }
}
