//! Items of the tree of files: inodes, entries of directories, extents, extended attributes, targets of symbolic links,
//! orphans. Byte tables: `docs/format/tree.md`.

use crate::FormatError;
use crate::geometry::COUNTER_MAX;
use zerocopy::byteorder::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The root directory's inode.
pub const ROOT_INO: u64 = 1;
/// Most bytes of a name in a directory.
pub const ENTRY_NAME_MAX: usize = 255;
/// Bytes of one item of a symbolic link's target.
pub const TARGET_CHUNK: usize = 512;

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
        Ok(Self {
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
        })
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

    /// Reads the item.
    ///
    /// # Errors
    /// When it is no entry.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let parts = bytes.split_first_chunk::<8>();
        let parts = parts.and_then(|(ino, rest)| Some((ino, rest.split_first()?)));
        let (ino, (kind, name)) = parts.ok_or(bad("entry", "it is too short"))?;
        if name.is_empty() || name.len() > ENTRY_NAME_MAX {
            return Err(bad("entry", "its name does not have 1 to 255 bytes"));
        }
        Ok(Self {
            ino: u64::from_le_bytes(*ino),
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

    /// Reads the item.
    ///
    /// # Errors
    /// When it is no extent.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
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
        match found.block > COUNTER_MAX {
            true => Err(bad("extent", "it lies behind all blocks")),
            false => Ok(found),
        }
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
        Ok(Self {
            name: name.to_vec(),
            value: value.to_vec(),
        })
    }
}

fn bad(what: &'static str, why: &'static str) -> FormatError {
    FormatError::Inconsistent { what, why }
}
