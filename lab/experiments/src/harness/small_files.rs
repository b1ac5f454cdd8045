//! Small files on lists, as in the Minix file system of ARU 5.1: one list for each file, an inode of 64 bytes and a
//! directory entry of 16 bytes, each in a block with those of other files.
//!
//! The blocks of inodes and directories are kept in memory, as in a file system's cache. A creation or deletion changes
//! the bytes of its own inode and entry there and writes both blocks.

use std::cell::RefCell;
use tonearm_disk::{BlockId, Disk, DiskError, ListId};

const BLOCK: usize = 4096;
const INODE_BYTES: usize = 64;
const ENTRY_BYTES: usize = 16;
/// Inodes in a block.
const INODES: usize = BLOCK / INODE_BYTES;
/// Entries of a directory in a block.
const ENTRIES: usize = BLOCK / ENTRY_BYTES;

/// How creation and deletion are kept whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Brackets {
    /// No units: each operation is a unit of its own.
    None,
    /// Each creation and each deletion is a unit.
    Aru,
}

/// How a file's blocks are freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deletion {
    /// Block by block, then the list: "new" in the paper.
    Blocks,
    /// With the list: "new, delete" in the paper.
    List,
}

/// A block of a table of inodes or entries, and its content in memory.
struct TableBlock {
    id: BlockId,
    page: Vec<u8>,
}

/// One client with a directory of its own.
pub struct Client {
    disk: Disk,
    brackets: Brackets,
    deletion: Deletion,
    blocks_per_file: usize,
    inodes: RefCell<Vec<TableBlock>>,
    entries: RefCell<Vec<TableBlock>>,
    files: RefCell<Vec<ListId>>,
}

impl Client {
    /// A client that will create up to `files` files of so many blocks each. Its directory is created here.
    ///
    /// # Errors
    /// The error of the disk.
    pub async fn new(
        disk: &Disk,
        files: usize,
        blocks_per_file: usize,
        (brackets, deletion): (Brackets, Deletion),
    ) -> Result<Self, DiskError> {
        let inodes = new_blocks(disk, files.div_ceil(INODES)).await?;
        let entries = new_blocks(disk, files.div_ceil(ENTRIES)).await?;
        let in_memory = |ids: Vec<BlockId>| {
            let blocks = ids.into_iter().map(|id| TableBlock {
                id,
                page: vec![0; BLOCK],
            });
            RefCell::new(blocks.collect())
        };
        Ok(Self {
            disk: disk.clone(),
            brackets,
            deletion,
            blocks_per_file,
            inodes: in_memory(inodes),
            entries: in_memory(entries),
            files: RefCell::new(Vec::new()),
        })
    }

    /// Creates one more file and writes it.
    ///
    /// # Errors
    /// The error of the disk.
    pub async fn create(&self) -> Result<(), DiskError> {
        let number = self.files.borrow().len();
        let size = self.blocks_per_file * BLOCK;
        let list = match self.brackets {
            Brackets::None => {
                let list = self.disk.new_list().await?;
                let [inode, entry] = self.tables(number, &inode(list, size), &entry(number));
                self.disk.write_block(inode.0, &inode.1).await?;
                self.disk.write_block(entry.0, &entry.1).await?;
                list
            }
            Brackets::Aru => {
                let mut aru = self.disk.begin();
                let list = aru.new_list().await?;
                let [inode, entry] = self.tables(number, &inode(list, size), &entry(number));
                aru.write_block(inode.0, &inode.1).await?;
                aru.write_block(entry.0, &entry.1).await?;
                aru.end().await?;
                list
            }
        };
        let mut last = None;
        for part in 0..self.blocks_per_file {
            let block = self.disk.new_block(list, last).await?;
            self.disk.write_block(block, &content(list, part)).await?;
            last = Some(block);
        }
        self.files.borrow_mut().push(list);
        Ok(())
    }

    /// Reads file `number`.
    ///
    /// # Errors
    /// The error of the disk.
    ///
    /// # Panics
    /// When a block is not there or not as it was written.
    pub async fn read(&self, number: usize) -> Result<(), DiskError> {
        let list = self.files.borrow()[number];
        let blocks = self.disk.list_blocks(list).await?;
        assert_eq!(blocks.len(), self.blocks_per_file, "a file has its blocks");
        for (part, block) in blocks.into_iter().enumerate() {
            match self.disk.read_block(block).await? {
                tonearm_disk::Piece::Data(data) => {
                    assert_eq!(data[..], content(list, part)[..], "as it was written")
                }
                tonearm_disk::Piece::Zero(_) => panic!("a block that was written is no hole"),
            }
        }
        Ok(())
    }

    /// Deletes file `number`. Numbers of other files stay.
    ///
    /// # Errors
    /// The error of the disk.
    pub async fn delete(&self, number: usize) -> Result<(), DiskError> {
        let list = self.files.borrow()[number];
        let blocks = match self.deletion {
            Deletion::Blocks => self.disk.list_blocks(list).await?,
            Deletion::List => Vec::new(),
        };
        let [inode, entry] = self.tables(number, &[0; INODE_BYTES], &[0; ENTRY_BYTES]);
        match self.brackets {
            Brackets::None => {
                for block in blocks {
                    self.disk.delete_block(block).await?;
                }
                self.disk.delete_list(list).await?;
                self.disk.write_block(inode.0, &inode.1).await?;
                self.disk.write_block(entry.0, &entry.1).await
            }
            Brackets::Aru => {
                let mut aru = self.disk.begin();
                for block in blocks {
                    aru.delete_block(block).await?;
                }
                aru.delete_list(list).await?;
                aru.write_block(inode.0, &inode.1).await?;
                aru.write_block(entry.0, &entry.1).await?;
                aru.end().await.map(|_| ())
            }
        }
    }

    /// Changes inode and entry of file `number` in memory. Returns both blocks with their new content.
    fn tables(
        &self,
        number: usize,
        inode: &[u8; INODE_BYTES],
        entry: &[u8; ENTRY_BYTES],
    ) -> [(BlockId, Vec<u8>); 2] {
        let change = |table: &RefCell<Vec<TableBlock>>, bytes: &[u8]| {
            let at = number * bytes.len();
            let block = &mut table.borrow_mut()[at / BLOCK];
            block.page[at % BLOCK..][..bytes.len()].copy_from_slice(bytes);
            (block.id, block.page.clone())
        };
        [change(&self.inodes, inode), change(&self.entries, entry)]
    }
}

/// An inode as Minix has it: mode, owner, size, three times, links, and the list in place of zones.
fn inode(list: ListId, size: usize) -> [u8; INODE_BYTES] {
    let mut inode = [0; INODE_BYTES];
    inode[0..4].copy_from_slice(&0o100_644_u32.to_le_bytes());
    inode[4..8].copy_from_slice(&1000_u32.to_le_bytes());
    inode[8..16].copy_from_slice(&(size as u64).to_le_bytes());
    for time in 0..3 {
        let seconds = 800_000_000 + list.0 as u32;
        inode[16 + 4 * time..][..4].copy_from_slice(&seconds.to_le_bytes());
    }
    inode[28..32].copy_from_slice(&1_u32.to_le_bytes());
    inode[32..40].copy_from_slice(&list.0.to_le_bytes());
    inode
}

/// A directory entry as Minix has it: the number of the inode, and a name of up to 14 bytes.
fn entry(number: usize) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    entry[..2].copy_from_slice(&(number as u16 + 1).to_le_bytes());
    let name = format!("file{number:06}");
    entry[2..2 + name.len()].copy_from_slice(name.as_bytes());
    entry
}

/// Block `part` of the file on `list`.
fn content(list: ListId, part: usize) -> Vec<u8> {
    let word = list.0 << 16 | part as u64 | 0x5a << 56;
    word.to_le_bytes().repeat(BLOCK / 8)
}

/// So many blocks on a new list.
async fn new_blocks(disk: &Disk, count: usize) -> Result<Vec<BlockId>, DiskError> {
    let list = disk.new_list().await?;
    let mut blocks = Vec::new();
    for _ in 0..count {
        blocks.push(disk.new_block(list, blocks.last().copied()).await?);
    }
    Ok(blocks)
}
