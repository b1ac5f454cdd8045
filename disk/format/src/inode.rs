//! Items of the tree of files: inodes, entries of directories, extents, extended attributes, targets of symbolic links,
//! orphans. Byte tables: `docs/format/tree.md`.

use crate::FormatError;
use crate::geometry::{BLOCK_SIZE_MIN, COUNTER_MAX};
use crate::lists::LIST_ID_LIMIT;
use zerocopy::byteorder::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The root directory's inode.
pub const ROOT_INO: u64 = 1;
/// Most bytes of a name in a directory.
pub const ENTRY_NAME_MAX: usize = 255;
/// Bytes of one item of a symbolic link's target.
pub const TARGET_CHUNK: usize = 512;
/// Most bytes of a symbolic link's target.
pub const TARGET_MAX: usize = 4095;
/// Inodes are at most this.
pub const INO_MAX: u64 = COUNTER_MAX;
/// Largest size of a file in bytes. Kernels take offsets as signed numbers.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// Most names of an inode. Of a directory: its subdirectories and two.
pub const LINKS_MAX: u32 = i32::MAX as u32;
/// Places of entries in a directory are greater than this, and at most [`FILE_BYTES_MAX`].
pub const RESERVED_PLACES: u64 = 0xff;
/// The blocks of a file are below this, whatever their size is.
const FILE_BLOCKS_LIMIT: u64 = FILE_BYTES_MAX / BLOCK_SIZE_MIN as u64 + 1;
/// Types of files, as in `st_mode` shifted right by 12: FIFO, character device, directory, block device, regular file, symbolic
/// link, socket.
const KINDS: [u32; 7] = [0o01, 0o02, 0o04, 0o06, 0o10, 0o12, 0o14];
const DIRECTORY: u32 = 0o04;
const SYMLINK: u32 = 0o12;

/// Kinds of items: the second part of a key.
pub mod item {
    /// An inode; the third part of the key is 0.
    pub const INODE: u8 = 1;
    /// An extended attribute, by the hash of its name.
    pub const XATTR: u8 = 2;
    /// A part of a symbolic link's target, by its number.
    pub const TARGET: u8 = 3;
    /// An entry of a directory, by the hash of its name.
    pub const ENTRY: u8 = 4;
    /// An extent, by the first block of the file.
    pub const EXTENT: u8 = 5;
    /// A file that is to be deleted or cut, by its inode; the first part of the key is 0.
    pub const ORPHAN: u8 = 6;
}

/// A moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Time {
    /// Seconds since 1970.
    pub s: i64,
    /// Nanoseconds, below 10^9.
    pub ns: u32,
}

/// An inode. Content and names are items of their own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inode {
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names; of a directory 2 and its subdirectories.
    pub nlink: u32,
    /// Bytes of a file or target; entries of a directory.
    pub size: u64,
    /// Blocks of data.
    pub blocks: u64,
    /// Last access.
    pub atime: Time,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// When it was made.
    pub btime: Time,
    /// Number of a device, as `st_rdev`.
    pub rdev: u32,
    /// The list with its blocks; 0 when it has none.
    pub list: u64,
    /// Of a directory: the directory that has it.
    pub parent: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawInode {
    mode: U32,
    uid: U32,
    gid: U32,
    nlink: U32,
    size: U64,
    blocks: U64,
    seconds: [I64; 4],
    nanoseconds: [U32; 4],
    rdev: U32,
    reserved: U32,
    list: U64,
    parent: U64,
}

/// Bytes of an inode.
pub const INODE_BYTES: usize = 104;
const _: () = assert!(size_of::<RawInode>() == INODE_BYTES);

impl Inode {
    /// The bytes of the item.
    pub fn encode(&self) -> [u8; INODE_BYTES] {
        let times = [self.atime, self.mtime, self.ctime, self.btime];
        let raw = RawInode {
            mode: self.mode.into(),
            uid: self.uid.into(),
            gid: self.gid.into(),
            nlink: self.nlink.into(),
            size: self.size.into(),
            blocks: self.blocks.into(),
            seconds: times.map(|time| time.s.into()),
            nanoseconds: times.map(|time| time.ns.into()),
            rdev: self.rdev.into(),
            reserved: 0.into(),
            list: self.list.into(),
            parent: self.parent.into(),
        };
        let mut bytes = [0; INODE_BYTES];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }

    /// Reads the item.
    ///
    /// # Errors
    /// When it is no inode.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let raw =
            RawInode::ref_from_bytes(bytes).map_err(|_| bad("inode", "its length is wrong"))?;
        let time = |at: usize| Time {
            s: raw.seconds[at].get(),
            ns: raw.nanoseconds[at].get(),
        };
        if raw.nanoseconds.iter().any(|ns| ns.get() >= 1_000_000_000) {
            return Err(bad("inode", "a time is not possible"));
        }
        let inode = Self {
            mode: raw.mode.get(),
            uid: raw.uid.get(),
            gid: raw.gid.get(),
            nlink: raw.nlink.get(),
            size: raw.size.get(),
            blocks: raw.blocks.get(),
            atime: time(0),
            mtime: time(1),
            ctime: time(2),
            btime: time(3),
            rdev: raw.rdev.get(),
            list: raw.list.get(),
            parent: raw.parent.get(),
        };
        match inode.fault() {
            Some(why) => Err(bad("inode", why)),
            None => Ok(inode),
        }
    }

    /// The first number that no inode can have. What uses an inode does not have to doubt its numbers.
    fn fault(&self) -> Option<&'static str> {
        let kind = self.mode >> 12;
        let size_max = match kind {
            SYMLINK => TARGET_MAX as u64,
            // Each name is an item.
            DIRECTORY => COUNTER_MAX,
            _ => FILE_BYTES_MAX,
        };
        if !KINDS.contains(&kind) {
            Some("its type is none that a file has")
        } else if self.size > size_max {
            Some("its size is above all sizes")
        } else if self.blocks >= LIST_ID_LIMIT {
            Some("it has more blocks than there can be")
        } else if self.nlink > LINKS_MAX || (kind == DIRECTORY && self.nlink == 1) {
            Some("it has a number of links that is not possible")
        } else if self.list >= LIST_ID_LIMIT {
            Some("its list is above all lists")
        } else if kind == DIRECTORY && !(ROOT_INO..=INO_MAX).contains(&self.parent) {
            Some("its parent is no inode")
        } else {
            None
        }
    }
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// The file.
    pub ino: u64,
    /// Its type: `st_mode` shifted right by 12.
    pub kind: u8,
    /// Its name, 1 to [`ENTRY_NAME_MAX`] bytes.
    pub name: Vec<u8>,
}

impl DirEntry {
    /// The bytes of the item: inode, type, name.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(9 + self.name.len());
        bytes.extend_from_slice(&self.ino.to_le_bytes());
        bytes.push(self.kind);
        bytes.extend_from_slice(&self.name);
        bytes
    }

    /// Reads the item at a place of a directory.
    ///
    /// # Errors
    /// When it is no entry.
    pub fn decode(at: u64, bytes: &[u8]) -> Result<Self, FormatError> {
        let parts = bytes.split_first_chunk::<8>();
        let parts = parts.and_then(|(ino, rest)| Some((ino, rest.split_first()?)));
        let (ino, (kind, name)) = parts.ok_or(bad("entry", "it is too short"))?;
        if name.is_empty() || name.len() > ENTRY_NAME_MAX {
            return Err(bad("entry", "its name does not have 1 to 255 bytes"));
        }
        if matches!(name, b"." | b"..") || name.contains(&b'/') || name.contains(&0) {
            return Err(bad("entry", "its name is none that a file can have"));
        }
        if at <= RESERVED_PLACES || at > FILE_BYTES_MAX {
            return Err(bad("entry", "its place is none of a hash"));
        }
        let ino = u64::from_le_bytes(*ino);
        if !(ROOT_INO..=INO_MAX).contains(&ino) || !KINDS.contains(&u32::from(*kind)) {
            return Err(bad("entry", "its inode or its type is not possible"));
        }
        Ok(Self {
            ino,
            kind: *kind,
            name: name.to_vec(),
        })
    }
}

/// Adjacent blocks of the lists area that are adjacent in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileExtent {
    /// First block of the area.
    pub block: u64,
    /// Blocks.
    pub count: u32,
}

impl FileExtent {
    /// The bytes of the item.
    pub fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.block.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.count.to_le_bytes());
        bytes
    }

    /// Reads the item of block `at` of a file.
    ///
    /// # Errors
    /// When it is no extent, or ends beyond all blocks of a file or of the area.
    pub fn decode(at: u64, bytes: &[u8]) -> Result<Self, FormatError> {
        let raw = <&[u8; 16]>::try_from(bytes).map_err(|_| bad("extent", "its length is wrong"))?;
        let (block, rest) = raw.split_first_chunk::<8>().expect("16 bytes");
        let (count, _) = rest.split_first_chunk::<4>().expect("8 bytes");
        let found = Self {
            block: u64::from_le_bytes(*block),
            count: u32::from_le_bytes(*count),
        };
        if found.count == 0 || found.block == 0 {
            return Err(bad("extent", "it is empty"));
        }
        let ends_by = |first: u64, limit: u64| {
            let end = first.checked_add(u64::from(found.count));
            end.is_some_and(|end| end <= limit)
        };
        if ends_by(at, FILE_BLOCKS_LIMIT) && ends_by(found.block, LIST_ID_LIMIT) {
            Ok(found)
        } else {
            Err(bad("extent", "it ends beyond all blocks"))
        }
    }
}

/// Reads the item of an orphan: the size beyond which the file is to be cut off, or `None` for one that is to be deleted.
///
/// # Errors
/// When it is no such item.
pub fn decode_orphan(bytes: &[u8]) -> Result<Option<u64>, FormatError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let size = <[u8; 8]>::try_from(bytes).map(u64::from_le_bytes);
    match size.ok().filter(|size| *size <= FILE_BYTES_MAX) {
        Some(size) => Ok(Some(size)),
        None => Err(bad("orphan", "it is no size of a file")),
    }
}

/// An extended attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Xattr {
    /// Its name, 1 to 255 bytes.
    pub name: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

impl Xattr {
    /// The bytes of the item: length of the name, name, value.
    ///
    /// # Panics
    /// When the name is too long; callers check it.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(1 + self.name.len() + self.value.len());
        bytes.push(u8::try_from(self.name.len()).expect("a name of at most 255 bytes"));
        bytes.extend_from_slice(&self.name);
        bytes.extend_from_slice(&self.value);
        bytes
    }

    /// Reads the item.
    ///
    /// # Errors
    /// When it is no extended attribute.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let parts = bytes.split_first();
        let parts = parts.and_then(|(len, rest)| rest.split_at_checked(usize::from(*len)));
        let (name, value) = parts.ok_or(bad("extended attribute", "it is too short"))?;
        if name.is_empty() {
            return Err(bad("extended attribute", "it has no name"));
        }
        if name.contains(&0) {
            return Err(bad("extended attribute", "its name has a zero byte"));
        }
        Ok(Self {
            name: name.to_vec(),
            value: value.to_vec(),
        })
    }
}

fn bad(what: &'static str, why: &'static str) -> FormatError {
    FormatError::Inconsistent { what, why }
}

#[cfg(test)]
#[path = "inode_test.rs"]
mod inode_test;
