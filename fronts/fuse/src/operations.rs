//! What each request does to the file system.
//!
//! Changes that no program waits for stay in the server's memory for a moment (`OpenOptions::commit_delay`), so that the log takes many
//! at once. The end of a name goes to the log at once, and all changes before it: programs make their changes valid by a rename
//! or by the deletion of a journal, and do not always sync the directory.

mod attributes;
mod content;
mod context;
mod names;

pub(crate) use self::attributes::WITHOUT_EFFECT;
pub(crate) use self::context::Context;

use self::context::done;
use crate::message::{Answer, Operation, Responder};
use tonearm_fs::FsError;

/// Carries out an operation. `reply` takes the lines of listings.
pub(crate) async fn perform(
    context: &Context<'_>,
    operation: Operation,
    reply: &mut dyn Responder,
) -> Result<Answer, FsError> {
    let fs = context.fs();
    match operation {
        Operation::LookUp { dir, name } => context.look_up(dir, &name).await,
        Operation::Make(make) => context.make(make).await,
        Operation::MakeLink { dir, name, target } => context.make_link(dir, &name, &target).await,
        Operation::Create(create) => context.create(create).await,
        Operation::Link { ino, dir, name } => context.link(ino, dir, &name).await,
        Operation::Unlink { dir, name } => context.unlink(dir, &name).await,
        Operation::RemoveDir { dir, name } => context.remove_dir(dir, &name).await,
        Operation::Rename { from, to, how } => context.rename(from, to, how).await,
        Operation::List { dir, after } => context.list(dir, after, reply).await,
        Operation::ListWithAttrs { dir, after } => context.list_with_attrs(dir, after, reply).await,

        Operation::Attr { ino } => context.attr(ino).await,
        Operation::SetAttr { ino, changes } => context.set_attr(ino, changes).await,
        Operation::ReadLink { ino } => fs.read_link(ino).await.map(Answer::Bytes),
        Operation::Xattr { ino, name } => fs.xattr(ino, &name).await.map(Answer::Bytes),
        Operation::SetXattr {
            ino,
            name,
            value,
            how,
        } => context.set_xattr(ino, &name, &value, how).await,
        Operation::RemoveXattr { ino, name } => context.remove_xattr(ino, &name).await,
        Operation::Xattrs { ino } => context.xattrs(ino).await,

        Operation::Open { ino, direct } => context.open(ino, direct).await,
        Operation::Close { ino } => {
            fs.close_handle(ino);
            Ok(Answer::Done)
        }
        Operation::Read(read) => context.read(read).await,
        Operation::Write(write) => context.write(write).await,
        Operation::Sync { ino } => done(fs.sync(Some(ino)).await),
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
        } => context.copy(from, from_handle, to, len).await,
        Operation::Space => fs.space().await.map(Answer::Space),

        Operation::BeginUnit { processes } => context.begin_unit(processes),
        Operation::Enlist { unit } => {
            let uid = context.by.uid;
            done(context.units.enlist(context.handle, unit, uid))
        }
        Operation::Commit { .. } | Operation::Abort => {
            unreachable!("the server ends units, and tells the kernel")
        }
    }
}
