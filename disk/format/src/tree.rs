//! Pages of a file system's tree: the header page, free pages, keys. Nodes are in `node.rs`. Byte tables:
//! `docs/format/tree.md`. A page has no checksum, because each page is a home block, and home blocks and log records have
//! theirs.

mod node;

pub use node::{TreeNode, child_value, max_value};

use crate::seal::check_version;
use crate::{FORMAT_VERSION, FormatError};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"TNTREE\0\0";
const FREE_MAGIC: [u8; 4] = *b"TNFR";
const WHAT: &str = "tree header";
const WHAT_FREE: &str = "free page of a tree";
/// Most levels of a tree. A page has room for over 100 children, so no store needs more.
pub const TREE_LEVELS_MAX: u32 = 16;
/// Bytes of an item without a value, with its slot.
const ITEM_BYTES_MIN: usize = 26;
/// Words of the header page that belong to the tree's owner.
pub const TREE_OWNER_WORDS: usize = 8;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U32,
    levels: U32,
    root: U64,
    used: U64,
    free_head: U64,
    free_count: U64,
    items: U64,
    reserved: U64,
    owner: [U64; TREE_OWNER_WORDS],
}

const _: () = assert!(size_of::<Raw>() == 128);
const _: () = assert!(std::mem::offset_of!(Raw, owner) == 64);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawFree {
    magic: [u8; 4],
    reserved: U32,
    next: U64,
}

const _: () = assert!(size_of::<RawFree>() == 16);

/// Key of an item. Keys are in the order of their fields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Key {
    /// Number of the inode to which the item belongs.
    pub ino: u64,
    /// Kind of item.
    pub kind: u8,
    /// Its place among the items of this inode and kind.
    pub at: u64,
}

/// The header of a tree, page 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeHeader {
    /// Page of the root.
    pub root: u64,
    /// Levels of nodes: 1 if the root is a leaf, at most [`TREE_LEVELS_MAX`].
    pub levels: u32,
    /// Pages that were ever used, this one included. Pages from this number on have no content.
    pub used: u64,
    /// First page of the chain of free pages; 0 when there is none.
    pub free_head: u64,
    /// Pages of the chain.
    pub free_count: u64,
    /// Items in the leaves.
    pub items: u64,
    /// Words of the tree's owner, who alone knows their meaning.
    pub owner: [u64; TREE_OWNER_WORDS],
}

impl TreeHeader {
    /// Writes the first 128 bytes of the header page.
    ///
    /// # Panics
    /// When `page` is shorter.
    pub fn encode(&self, page: &mut [u8]) {
        let mut raw = Raw::new_zeroed();
        raw.magic = MAGIC;
        raw.version = FORMAT_VERSION.into();
        raw.levels = self.levels.into();
        raw.root = self.root.into();
        raw.used = self.used.into();
        raw.free_head = self.free_head.into();
        raw.free_count = self.free_count.into();
        raw.items = self.items.into();
        raw.owner = self.owner.map(U64::from);
        raw.write_to_prefix(page)
            .expect("a page is longer than its header");
    }

    /// Reads the header page of a tree in a space of `count` pages.
    ///
    /// # Errors
    /// When the bytes are no header, of another version, or inconsistent.
    pub fn decode(page: &[u8], count: u64) -> Result<Self, FormatError> {
        let (raw, _) = Raw::ref_from_prefix(page).map_err(|_| FormatError::Signature(WHAT))?;
        if raw.magic != MAGIC {
            return Err(FormatError::Signature(WHAT));
        }
        check_version(WHAT, raw.version.get())?;
        let header = Self {
            root: raw.root.get(),
            levels: raw.levels.get(),
            used: raw.used.get(),
            free_head: raw.free_head.get(),
            free_count: raw.free_count.get(),
            items: raw.items.get(),
            owner: raw.owner.map(U64::get),
        };
        let why = if !(1..=TREE_LEVELS_MAX).contains(&header.levels) {
            "it has no level or too many"
        } else if header.used > count {
            "more pages are in use than there are"
        } else if !(1..header.used).contains(&header.root) {
            "its root is no page in use"
        } else if header.free_head >= header.used || header.free_count >= header.used {
            "its free pages are beyond the pages in use"
        } else if (header.free_head == 0) != (header.free_count == 0) {
            "the chain and the number of its free pages do not agree"
        } else if header.items.div_ceil((page.len() / ITEM_BYTES_MIN) as u64) > header.used {
            "it has more items than its pages can hold"
        } else {
            return Ok(header);
        };
        Err(FormatError::Inconsistent { what: WHAT, why })
    }
}

/// A page that no node uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeFreePage {
    /// The next free page; 0 at the end of the chain.
    pub next: u64,
}

impl TreeFreePage {
    /// Writes the first 16 bytes of the page. The rest stays, so that the log records two words.
    ///
    /// # Panics
    /// When `page` is shorter.
    pub fn encode(self, page: &mut [u8]) {
        let mut raw = RawFree::new_zeroed();
        raw.magic = FREE_MAGIC;
        raw.next = self.next.into();
        raw.write_to_prefix(page)
            .expect("a page is longer than its header");
    }

    /// Reads a free page.
    ///
    /// # Errors
    /// When the bytes are no free page.
    pub fn decode(page: &[u8]) -> Result<Self, FormatError> {
        match RawFree::ref_from_prefix(page) {
            Ok((raw, _)) if raw.magic == FREE_MAGIC => Ok(Self {
                next: raw.next.get(),
            }),
            _ => Err(FormatError::Signature(WHAT_FREE)),
        }
    }
}
