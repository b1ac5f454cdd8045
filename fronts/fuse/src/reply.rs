//! The answers to requests, as `fuser`'s replies.

use crate::ioctl;
use crate::message::{Answer, DirentRef, Responder};
use crate::translate::{attributes, file_type, generation};
use fuser::{
    Errno as Code, FileHandle, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use tonearm_fs::{Attr, Inode, Piece};

/// How long the kernel may keep entries and attributes: only requests of the kernel change the tree while it is mounted. What an
/// open unit has changed differs from process to process, so that the kernel keeps nothing of it.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Most bytes of a name.
const NAME_MAX: u32 = 255;

/// Answers a request of the kernel.
pub(crate) struct Reply {
    pub to: To,
    pub block_size: u32,
    pub direct_io: bool,
    pub handle: FileHandle,
}

/// Where it goes.
pub(crate) enum To {
    Attr(ReplyAttr),
    Create(ReplyCreate),
    Data(ReplyData),
    Directory(ReplyDirectory),
    DirectoryPlus(ReplyDirectoryPlus),
    Empty(ReplyEmpty),
    Entry(ReplyEntry),
    Ioctl(ReplyIoctl),
    Open(ReplyOpen),
    OpenDirectory(ReplyOpen),
    Seek(ReplyLseek),
    Space(ReplyStatfs),
    Write(ReplyWrite),
    /// With the size of the caller's buffer; 0 asks for the size of the value.
    Xattr(ReplyXattr, u32),
}

impl Responder for Reply {
    fn add(&mut self, entry: DirentRef<'_>) -> bool {
        match (&mut self.to, entry) {
            (To::Directory(reply), DirentRef::Name(listed)) => reply.add(
                INodeNo(listed.ino),
                listed.place,
                file_type(listed.kind),
                OsStr::from_bytes(&listed.name),
            ),
            (To::DirectoryPlus(reply), DirentRef::WithAttr(listed, attr, kept)) => reply.add(
                INodeNo(listed.ino),
                listed.place,
                OsStr::from_bytes(&listed.name),
                // One time is for both.
                &time(kept.name && kept.attr),
                &attributes(attr, self.block_size),
                generation(attr),
            ),
            _ => unreachable!("entries go to the listing that asked for them"),
        }
    }

    /// A kernel that is gone takes no answer.
    fn send(self: Box<Self>, result: Result<Answer, Errno>) {
        match result {
            Ok(answer) => self.succeed(answer),
            Err(error) => self.fail(error),
        }
    }
}

impl Reply {
    fn succeed(self, answer: Answer) {
        let block_size = self.block_size;
        let of = |attr: &Attr| attributes(attr, block_size);
        let keep = FopenFlags::FOPEN_KEEP_CACHE;
        let (all_direct, handle) = (self.direct_io, self.handle);
        let file = |direct: bool| {
            if direct || all_direct {
                FopenFlags::FOPEN_DIRECT_IO
            } else {
                keep
            }
        };
        let directory = |direct: bool| {
            if direct {
                FopenFlags::empty()
            } else {
                keep | FopenFlags::FOPEN_CACHE_DIR
            }
        };
        match (self.to, answer) {
            (To::Entry(reply), Answer::Entry(attr, kept)) => {
                let time = time(kept.name && kept.attr);
                reply.entry(&time, &of(&attr), generation(&attr));
            }
            (To::Entry(reply), Answer::NoEntry(kept)) => {
                // Number 0 says that there is nothing, and for how long that holds.
                let (ino, inode) = (0, Inode::default());
                reply.entry(&time(kept.name), &of(&Attr { ino, inode }), Generation(0));
            }
            (To::Attr(reply), Answer::Attr(attr, kept)) => {
                reply.attr(&time(kept.attr), &of(&attr));
            }
            (To::Ioctl(reply), Answer::Done) => reply.ioctl(0, &[]),
            (To::Ioctl(reply), Answer::Begun(unit)) => reply.ioctl(0, &ioctl::argument(unit)),
            (To::Empty(reply), Answer::Done) => reply.ok(),
            (To::Directory(reply), Answer::Done) => reply.ok(),
            (To::DirectoryPlus(reply), Answer::Done) => reply.ok(),
            (To::Open(reply), Answer::Opened { direct }) => reply.opened(handle, file(direct)),
            (To::OpenDirectory(reply), Answer::Opened { direct }) => {
                reply.opened(handle, directory(direct));
            }
            (To::Create(reply), Answer::Created(attr, kept, direct)) => {
                let kept = time(kept.name && kept.attr);
                let generation = generation(&attr);
                reply.created(&kept, &of(&attr), generation, handle, file(direct));
            }
            (To::Data(reply), Answer::Pieces(pieces)) => match &pieces[..] {
                [Piece::Data(data)] => reply.data(data),
                pieces => reply.data(&Piece::concat(pieces)),
            },
            (To::Data(reply), Answer::Bytes(bytes)) => reply.data(&bytes),
            (To::Write(reply), Answer::Count(bytes)) => reply.written(bytes as u32),
            (To::Seek(reply), Answer::Offset(offset)) => reply.offset(offset as i64),
            (To::Space(reply), Answer::Space(space)) => reply.statfs(
                space.blocks,
                space.free_blocks,
                space.free_blocks,
                // An inode takes part of a block, so there is room for as many as there are free blocks.
                space.inodes + space.free_blocks,
                space.free_blocks,
                space.block_size,
                NAME_MAX,
                space.block_size,
            ),
            (To::Xattr(reply, 0), Answer::Bytes(value)) => reply.size(value.len() as u32),
            (To::Xattr(reply, size), Answer::Bytes(value)) if value.len() <= size as usize => {
                reply.data(&value);
            }
            (To::Xattr(reply, _), Answer::Bytes(_)) => reply.error(Code::ERANGE),
            _ => unreachable!("an operation answers in its own kind"),
        }
    }

    fn fail(self, error: Errno) {
        let code = Code::from_i32(error.raw_os_error());
        match self.to {
            To::Attr(reply) => reply.error(code),
            To::Create(reply) => reply.error(code),
            To::Data(reply) => reply.error(code),
            To::Directory(reply) => reply.error(code),
            To::DirectoryPlus(reply) => reply.error(code),
            To::Empty(reply) => reply.error(code),
            To::Entry(reply) => reply.error(code),
            To::Ioctl(reply) => reply.error(code),
            To::Open(reply) | To::OpenDirectory(reply) => reply.error(code),
            To::Seek(reply) => reply.error(code),
            To::Space(reply) => reply.error(code),
            To::Write(reply) => reply.error(code),
            To::Xattr(reply, _) => reply.error(code),
        }
    }
}

/// How long the kernel keeps what it may keep.
fn time(kept: bool) -> Duration {
    if kept { KEPT } else { Duration::ZERO }
}
