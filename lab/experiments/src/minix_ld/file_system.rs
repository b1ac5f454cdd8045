//! A plain Minix file system over the Logical Disk (Tanenbaum, "Operating Systems: Design and Implementation", 5.6; ARU 5.1).
//!
//! Inodes of 64 bytes and directories with entries of 16 bytes are as in Minix. Each file and each directory is a list of blocks,
//! in place of zones and their bitmap. The inodes are on a list too, whose number is that of the file system.
//!
//! Invariants:
//! 1. The creation and the deletion of a file or directory is one recovery unit, with its inode and its entry. So no check is
//!    needed after a crash.
//! 2. The content of files is written by simple operations: first the blocks, then the size. A crash between leaves blocks
//!    beyond the size, which are freed with the file.
//! 3. Blocks of inodes and directories are in memory as committed, and change there after their unit has ended.
//!
//! One operation is served at a time. Times of files are not kept.

use super::logical_disk::{LogicalDisk, Unit};
use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tonearm_disk::{BlockId, DiskError, ListId};
use tonearm_rt::{Permit, Rt, Semaphore};

const BLOCK: usize = 4096;
const INODE_BYTES: usize = 64;
const INODES: usize = BLOCK / INODE_BYTES;
const ENTRY_BYTES: usize = 16;
const NAME_MAX: usize = 14;
/// The number of the root directory.
pub const ROOT: u64 = 1;
const MODE_DIRECTORY: u16 = 0o040_755;
const MODE_FILE: u16 = 0o100_644;

/// How a deletion frees the blocks of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deletion {
    /// One by one from the first on, and then the empty list ("old" and "new" of ARU, Table 1).
    HeadFirst,
    /// One by one from the last on, and then the empty list.
    TailFirst,
    /// With the list ("new, delete").
    List,
}

impl Deletion {
    /// Frees a list of these blocks in a unit.
    ///
    /// # Errors
    /// When there is no such list, or the disk fails.
    pub async fn free(
        self,
        unit: &mut Unit,
        list: ListId,
        blocks: &[BlockId],
    ) -> Result<(), DiskError> {
        match self {
            Self::HeadFirst => {
                for block in blocks {
                    unit.delete_block(*block).await?;
                }
            }
            Self::TailFirst => {
                for block in blocks.iter().rev() {
                    unit.delete_block(*block).await?;
                }
            }
            Self::List => {}
        }
        unit.delete_list(list).await
    }
}

/// Why an operation has failed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// From the disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The name is taken.
    #[error("there is a file '{0}'")]
    Exists(String),
    /// There is no file of this name.
    #[error("there is no file '{0}'")]
    NotFound(String),
    /// The name cannot be an entry.
    #[error("a name has 1 to 14 bytes: '{0}'")]
    BadName(String),
    /// Files have no holes.
    #[error("a write begins at byte {0}, beyond the end of the file")]
    Beyond(u64),
}

/// The file system. Clones are the same one.
#[derive(Clone)]
pub struct FileSystem(Rc<State>);

struct State {
    disk: LogicalDisk,
    deletion: Deletion,
    /// The list of the blocks of inodes.
    table: ListId,
    turn: Semaphore,
    memory: RefCell<Memory>,
}

/// What was read before.
#[derive(Default)]
struct Memory {
    /// Blocks of inodes and directories.
    blocks: BTreeMap<BlockId, Rc<[u8]>>,
    /// The blocks of files and directories.
    lists: BTreeMap<ListId, Rc<Vec<BlockId>>>,
    /// Inodes that are free.
    free: BTreeSet<u64>,
}

/// An inode.
#[derive(Clone, Copy)]
struct Inode {
    /// 0 for a free inode.
    mode: u16,
    /// Bytes of a file. A directory has the blocks of its list.
    size: u32,
    list: u64,
}

impl Inode {
    fn decode(bytes: &[u8]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        Self {
            mode: u16::from_le_bytes([bytes[0], bytes[1]]),
            size: u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
            list: u64::from_le_bytes(words[3]),
        }
    }

    fn encode(&self, bytes: &mut [u8]) {
        bytes[..2].copy_from_slice(&self.mode.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.list.to_le_bytes());
    }
}

/// Blocks of inodes and directories with the changes of an operation.
#[derive(Default)]
struct Edits(BTreeMap<BlockId, Vec<u8>>);

/// The place of a directory's entry: its block, and the first byte there.
type Place = (BlockId, usize);

impl FileSystem {
    /// Makes an empty file system on `disk`.
    ///
    /// # Errors
    /// When the store is full, or failed.
    pub async fn format(
        disk: &LogicalDisk,
        rt: &Rt,
        deletion: Deletion,
    ) -> Result<Self, FileError> {
        let mut unit = disk.begin();
        let table = unit.new_list().await?;
        let first = unit.new_block(table, None).await?;
        let root = Inode {
            mode: MODE_DIRECTORY,
            size: 0,
            list: unit.new_list().await?.0,
        };
        let mut block = vec![0; BLOCK];
        root.encode(&mut block[..INODE_BYTES]);
        unit.write_block(first, &block).await?;
        unit.end().await?;
        Self::mount(disk, rt, table, deletion).await
    }

    /// Opens the file system with this number.
    ///
    /// # Errors
    /// When its inodes cannot be read.
    pub async fn mount(
        disk: &LogicalDisk,
        rt: &Rt,
        table: ListId,
        deletion: Deletion,
    ) -> Result<Self, FileError> {
        let system = Self(Rc::new(State {
            disk: disk.clone(),
            deletion,
            table,
            turn: Semaphore::new(rt, 1),
            memory: RefCell::default(),
        }));
        let mut free = BTreeSet::new();
        for (index, block) in system.blocks(table).await?.iter().enumerate() {
            let data = system.block(*block).await?;
            let inodes = (1..).zip(data.chunks(INODE_BYTES));
            let inodes = inodes.filter(|(_, bytes)| Inode::decode(bytes).mode == 0);
            free.extend(inodes.map(|(slot, _)| (index * INODES) as u64 + slot));
        }
        system.0.memory.borrow_mut().free = free;
        Ok(system)
    }

    /// Its number.
    pub fn number(&self) -> ListId {
        self.0.table
    }

    /// The disk below.
    pub fn disk(&self) -> &LogicalDisk {
        &self.0.disk
    }

    /// Makes an empty directory.
    ///
    /// # Errors
    /// When the name is taken or impossible, the store is full, or failed.
    pub async fn make_directory(&self, directory: u64, name: &str) -> Result<u64, FileError> {
        self.make_inode(directory, name, MODE_DIRECTORY).await
    }

    /// Makes an empty file.
    ///
    /// # Errors
    /// As for [`FileSystem::make_directory`].
    pub async fn make(&self, directory: u64, name: &str) -> Result<u64, FileError> {
        self.make_inode(directory, name, MODE_FILE).await
    }

    /// Looks up a name.
    ///
    /// # Errors
    /// When there is none, or the disk fails.
    pub async fn look_up(&self, directory: u64, name: &str) -> Result<u64, FileError> {
        let _turn = self.turn().await;
        Ok(self.known(directory, name).await?.1)
    }

    /// Deletes a file.
    ///
    /// # Errors
    /// When there is none, or the disk fails.
    pub async fn delete(&self, directory: u64, name: &str) -> Result<(), FileError> {
        let _turn = self.turn().await;
        let (state, mut edits) = (&self.0, Edits::default());
        let ((block, at), number) = self.known(directory, name).await?;
        edits.of(self, block).await?[at..at + ENTRY_BYTES].fill(0);
        let list = ListId(self.inode(number).await?.list);
        let (block, at) = self.place(number).await?;
        edits.of(self, block).await?[at..at + INODE_BYTES].fill(0);
        // A deletion with the list does not look at its blocks.
        let blocks = match state.deletion {
            Deletion::List => Rc::default(),
            Deletion::HeadFirst | Deletion::TailFirst => self.blocks(list).await?,
        };
        let mut unit = state.disk.begin();
        edits.write(&mut unit).await?;
        state.deletion.free(&mut unit, list, &blocks).await?;
        unit.end().await?;
        let mut memory = state.memory.borrow_mut();
        edits.apply(&mut memory);
        memory.lists.remove(&list);
        memory.free.insert(number);
        Ok(())
    }

    /// Writes bytes, from the end of the file on or before it.
    ///
    /// # Errors
    /// When `offset` is beyond the end, the store is full, or failed.
    pub async fn write(&self, file: u64, offset: u64, data: &[u8]) -> Result<(), FileError> {
        let _turn = self.turn().await;
        let (disk, mut inode) = (&self.0.disk, self.inode(file).await?);
        let (size, list) = (inode.size as usize, ListId(inode.list));
        let (mut at, end) = (offset as usize, offset as usize + data.len());
        if at > size {
            return Err(FileError::Beyond(offset));
        }
        for _ in self.blocks(list).await?.len()..end.div_ceil(BLOCK) {
            self.append(list).await?;
        }
        let blocks = self.blocks(list).await?;
        while at < end {
            let stop = end.min((at / BLOCK + 1) * BLOCK);
            let part = &data[at - offset as usize..stop - offset as usize];
            let (block, from) = (blocks[at / BLOCK], at % BLOCK);
            if part.len() == BLOCK {
                disk.write_block(block, part).await?;
            } else {
                let mut whole = match at - from < size {
                    true => disk.read_block(block).await?,
                    false => vec![0; BLOCK],
                };
                whole[from..from + part.len()].copy_from_slice(part);
                disk.write_block(block, &whole).await?;
            }
            at = stop;
        }
        if end > size {
            inode.size = end as u32;
            let (block, at) = self.place(file).await?;
            let mut edits = Edits::default();
            inode.encode(&mut edits.of(self, block).await?[at..at + INODE_BYTES]);
            disk.write_block(block, &edits.0[&block]).await?;
            edits.apply(&mut self.0.memory.borrow_mut());
        }
        Ok(())
    }

    /// Reads so many bytes, or as many as there are.
    ///
    /// # Errors
    /// When the disk fails.
    pub async fn read(&self, file: u64, offset: u64, len: u64) -> Result<Vec<u8>, FileError> {
        let _turn = self.turn().await;
        let inode = self.inode(file).await?;
        let blocks = self.blocks(ListId(inode.list)).await?;
        let (mut at, end) = (
            offset as usize,
            (offset + len).min(inode.size.into()) as usize,
        );
        let mut data = Vec::with_capacity(len as usize);
        while at < end {
            let stop = end.min((at / BLOCK + 1) * BLOCK);
            let block = self.0.disk.read_block(blocks[at / BLOCK]).await?;
            data.extend_from_slice(&block[at % BLOCK..][..stop - at]);
            at = stop;
        }
        Ok(data)
    }

    async fn turn(&self) -> Permit {
        self.0.turn.acquire(1).await
    }

    async fn make_inode(&self, directory: u64, name: &str, mode: u16) -> Result<u64, FileError> {
        let _turn = self.turn().await;
        let (state, mut edits) = (&self.0, Edits::default());
        let (found, free) = self.find(directory, name).await?;
        if found.is_some() {
            return Err(FileError::Exists(name.into()));
        }
        let (block, at) = match free {
            Some(place) => place,
            None => (
                self.grow(ListId(self.inode(directory).await?.list)).await?,
                0,
            ),
        };
        let number = self.free_inode().await?;
        let entry = &mut edits.of(self, block).await?[at..at + ENTRY_BYTES];
        entry[..2].copy_from_slice(&(number as u16).to_le_bytes());
        entry[2..2 + name.len()].copy_from_slice(name.as_bytes());
        let (block, at) = self.place(number).await?;
        let mut unit = state.disk.begin();
        let list = unit.new_list().await?;
        let inode = Inode {
            mode,
            size: 0,
            list: list.0,
        };
        inode.encode(&mut edits.of(self, block).await?[at..at + INODE_BYTES]);
        edits.write(&mut unit).await?;
        unit.end().await?;
        let mut memory = state.memory.borrow_mut();
        edits.apply(&mut memory);
        memory.free.remove(&number);
        memory.lists.insert(list, Rc::default());
        Ok(number)
    }

    /// The first free inode. If there is none, the list of inodes gets a block.
    async fn free_inode(&self) -> Result<u64, FileError> {
        let free = self.0.memory.borrow().free.first().copied();
        if let Some(number) = free {
            return Ok(number);
        }
        self.grow(self.0.table).await?;
        let mut memory = self.0.memory.borrow_mut();
        let end = (memory.lists[&self.0.table].len() * INODES) as u64;
        memory.free.extend(end - INODES as u64 + 1..=end);
        Ok(end - INODES as u64 + 1)
    }

    /// Appends a block of zeroes to a list of inodes or entries.
    async fn grow(&self, list: ListId) -> Result<BlockId, FileError> {
        let block = self.append(list).await?;
        let mut memory = self.0.memory.borrow_mut();
        memory.blocks.insert(block, Rc::from([0; BLOCK]));
        Ok(block)
    }

    /// The place and the inode of a name in a directory, and the first free place.
    async fn find(
        &self,
        directory: u64,
        name: &str,
    ) -> Result<(Option<(Place, u64)>, Option<Place>), FileError> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(FileError::BadName(name.into()));
        }
        let mut wanted = [0; ENTRY_BYTES];
        wanted[2..2 + name.len()].copy_from_slice(name.as_bytes());
        // The name without the number before it.
        let wanted = u128::from_le_bytes(wanted) >> 16;
        let mut free = None;
        let entries = ListId(self.inode(directory).await?.list);
        for &block in self.blocks(entries).await?.iter() {
            let data = self.block(block).await?;
            let (entries, _) = data.as_chunks::<ENTRY_BYTES>();
            for (index, entry) in entries.iter().enumerate() {
                let entry = u128::from_le_bytes(*entry);
                let place = (block, index * ENTRY_BYTES);
                match entry as u16 {
                    0 => free = free.or(Some(place)),
                    number if entry >> 16 == wanted => {
                        return Ok((Some((place, number.into())), free));
                    }
                    _ => {}
                }
            }
        }
        Ok((None, free))
    }

    /// A name that must be there: its place and its inode.
    async fn known(&self, directory: u64, name: &str) -> Result<(Place, u64), FileError> {
        let (found, _) = self.find(directory, name).await?;
        found.ok_or_else(|| FileError::NotFound(name.into()))
    }

    async fn inode(&self, number: u64) -> Result<Inode, FileError> {
        let (block, at) = self.place(number).await?;
        let data = self.block(block).await?;
        Ok(Inode::decode(&data[at..at + INODE_BYTES]))
    }

    /// The block of an inode, and its first byte there.
    async fn place(&self, number: u64) -> Result<Place, FileError> {
        let index = number as usize - 1;
        let block = self.blocks(self.0.table).await?[index / INODES];
        Ok((block, index % INODES * INODE_BYTES))
    }

    /// A block of inodes or entries.
    async fn block(&self, block: BlockId) -> Result<Rc<[u8]>, FileError> {
        let known = self.0.memory.borrow().blocks.get(&block).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let data: Rc<[u8]> = self.0.disk.read_block(block).await?.into();
        let mut memory = self.0.memory.borrow_mut();
        memory.blocks.insert(block, data.clone());
        Ok(data)
    }

    /// The blocks of a list.
    async fn blocks(&self, list: ListId) -> Result<Rc<Vec<BlockId>>, FileError> {
        let known = self.0.memory.borrow().lists.get(&list).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let blocks = Rc::new(self.0.disk.list_blocks(list).await?);
        let mut memory = self.0.memory.borrow_mut();
        memory.lists.insert(list, blocks.clone());
        Ok(blocks)
    }

    /// Appends a block of zeroes to a list.
    async fn append(&self, list: ListId) -> Result<BlockId, FileError> {
        let last = self.blocks(list).await?.last().copied();
        let block = self.0.disk.new_block(list, last).await?;
        let mut memory = self.0.memory.borrow_mut();
        let blocks = memory.lists.get_mut(&list).expect("the list is known");
        Rc::make_mut(blocks).push(block);
        Ok(block)
    }
}

impl Edits {
    /// A block with the changes.
    async fn of(&mut self, system: &FileSystem, block: BlockId) -> Result<&mut [u8], FileError> {
        match self.0.entry(block) {
            Entry::Occupied(edited) => Ok(edited.into_mut()),
            Entry::Vacant(new) => Ok(new.insert(system.block(block).await?.to_vec())),
        }
    }

    /// Writes the blocks in a unit.
    async fn write(&self, unit: &mut Unit) -> Result<(), FileError> {
        for (block, data) in &self.0 {
            unit.write_block(*block, data).await?;
        }
        Ok(())
    }

    /// Takes the blocks to memory, when they are committed.
    fn apply(self, memory: &mut Memory) {
        let blocks = self.0.into_iter();
        memory
            .blocks
            .extend(blocks.map(|(block, data)| (block, data.into())));
    }
}
