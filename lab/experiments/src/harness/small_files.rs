//! Small files on lists, as in the Minix file system of ARU 5.1: one list for each file, and separate writes for its
//! inode and its directory's block.

use std::cell::RefCell;
use tonearm_disk::{BlockId, Disk, DiskError, ListId};

const BLOCK: usize = 4096;
/// Inodes in a block, 64 bytes each.
const INODES: usize = 64;
/// Entries of a directory in a block, 16 bytes each.
const ENTRIES: usize = 256;

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

/// One client with a directory of its own.
pub struct Client {
    disk: Disk,
    brackets: Brackets,
    deletion: Deletion,
    blocks_per_file: usize,
    inodes: Vec<BlockId>,
    entries: Vec<BlockId>,
    files: RefCell<Vec<ListId>>,
    page: Vec<u8>,
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
        Ok(Self {
            disk: disk.clone(),
            brackets,
            deletion,
            blocks_per_file,
            inodes,
            entries,
            files: RefCell::new(Vec::new()),
            page: vec![0x5a; BLOCK],
        })
    }

    /// Creates one more file and writes it.
    ///
    /// # Errors
    /// The error of the disk.
    pub async fn create(&self) -> Result<(), DiskError> {
        let number = self.files.borrow().len();
        let (inode, entry) = (self.inodes[number / INODES], self.entries[number / ENTRIES]);
        let list = match self.brackets {
            Brackets::None => {
                let list = self.disk.new_list().await?;
                self.disk.write_block(inode, &self.page).await?;
                self.disk.write_block(entry, &self.page).await?;
                list
            }
            Brackets::Aru => {
                let mut aru = self.disk.begin();
                let list = aru.new_list().await?;
                aru.write_block(inode, &self.page).await?;
                aru.write_block(entry, &self.page).await?;
                aru.end().await?;
                list
            }
        };
        let mut last = None;
        for _ in 0..self.blocks_per_file {
            let block = self.disk.new_block(list, last).await?;
            self.disk.write_block(block, &self.page).await?;
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
        for block in blocks {
            match self.disk.read_block(block).await? {
                tonearm_disk::Piece::Data(data) => {
                    assert_eq!(data[..], self.page[..], "as it was written")
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
        let (inode, entry) = (self.inodes[number / INODES], self.entries[number / ENTRIES]);
        let blocks = match self.deletion {
            Deletion::Blocks => self.disk.list_blocks(list).await?,
            Deletion::List => Vec::new(),
        };
        match self.brackets {
            Brackets::None => {
                for block in blocks {
                    self.disk.delete_block(block).await?;
                }
                self.disk.delete_list(list).await?;
                self.disk.write_block(inode, &self.page).await?;
                self.disk.write_block(entry, &self.page).await
            }
            Brackets::Aru => {
                let mut aru = self.disk.begin();
                for block in blocks {
                    aru.delete_block(block).await?;
                }
                aru.delete_list(list).await?;
                aru.write_block(inode, &self.page).await?;
                aru.write_block(entry, &self.page).await?;
                aru.end().await.map(|_| ())
            }
        }
    }
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
