//! Verifies a file system. After a crash nothing has to be repaired, so what it finds is damage.

use crate::acl;
use crate::error::FsError;
use crate::fs::has_root;
use crate::meta::{Meta, Naming, damage_of, extent, first_key, hash, twice};
use crate::refusal::Stop;
use crate::tree::Key;
use crate::types::{DIRECTORY, Number, REGULAR, SYMLINK, TYPE};
use async_recursion::async_recursion as boxed;
use std::collections::BTreeMap;
use tonearm_disk::{BlockId, Disk, ErrorKind, ListId};
use tonearm_format::{DirEntry, Inode, ROOT_INO, TARGET_CHUNK, Xattr, decode_orphan, item};

/// Items that are looked at together.
const ITEMS: usize = 256;
/// Pages of the tree that are verified together.
const STEPS: usize = 64;
/// Most problems that are reported.
const PROBLEMS_MAX: usize = 100;

/// What a file system consists of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FsReport {
    /// Inodes, directories among them.
    pub inodes: u64,
    /// Directories.
    pub directories: u64,
    /// Files without a name, which the next opening for writing deletes.
    pub orphans: u64,
    /// Blocks of data.
    pub blocks: u64,
    /// Pages of the tree that are in use.
    pub pages: u64,
    /// The number that the next file gets.
    pub next_ino: u64,
    /// The problems, up to a hundred sentences.
    pub problems: Vec<String>,
}

impl FsReport {
    fn problem(&mut self, text: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(text);
        }
    }
}

/// What is known of a file.
#[derive(Default)]
struct Known {
    /// None when only names refer to it.
    inode: Option<(u32, u32)>,
    /// Names of it.
    names: u32,
    /// Of a directory: its subdirectories.
    subdirectories: u32,
    /// Of a directory: the directory that its inode names, and the one that has its name.
    parents: (u64, u64),
}

impl Known {
    fn is_directory(&self) -> bool {
        self.inode.is_some_and(|(mode, _)| mode & TYPE == DIRECTORY)
    }
}

/// The file whose items are being read.
struct Current {
    ino: u64,
    inode: Inode,
    entries: u64,
    target_bytes: u64,
    blocks: u64,
    /// All of them are on its list, and in no other place.
    has_own_blocks: bool,
    /// The first block of the file after its extents so far.
    next: u64,
}

struct Checker<'a> {
    disk: &'a Disk,
    hash_key: (u64, u64),
    report: FsReport,
    files: BTreeMap<u64, Known>,
    /// Files with an item of an orphan, and whether it has no value.
    orphans: BTreeMap<u64, bool>,
    /// The blocks that files have, one bit each.
    met: Vec<u64>,
    current: Option<Current>,
}

/// Verifies the tree of a store, its files, directories and accounting. Nothing may be committed meanwhile. `None` when the
/// store has no file system. Takes memory in proportion to the number of files, and a bit for each block of data. [`Disk::check_lists`]
/// verifies the lists.
///
/// # Errors
/// When a page cannot be read; damage is in the report.
#[boxed(?Send)]
pub async fn check(disk: &Disk) -> Result<Option<FsReport>, FsError> {
    if !has_root(disk).await? {
        return Ok(None);
    }
    let mut checker = Checker {
        disk,
        hash_key: (0, 0),
        report: FsReport::default(),
        files: BTreeMap::new(),
        orphans: BTreeMap::new(),
        met: vec![0; disk.list_blocks_end().div_ceil(64) as usize],
        current: None,
    };
    match checker.run().await {
        Err(FsError::Damaged(text)) => checker.report.problem(text),
        ended => ended?,
    }
    Ok(Some(checker.report))
}

impl Checker<'_> {
    async fn look<T>(
        &self,
        look: impl FnMut(&mut Meta<'_, '_>) -> Result<T, Stop>,
    ) -> Result<T, FsError> {
        let naming = Naming {
            hash_key: self.hash_key,
            ..Naming::default()
        };
        crate::fs::look(self.disk, naming, look).await
    }

    async fn run(&mut self) -> Result<(), FsError> {
        let mut check = self.look(|meta| meta.begin_check()).await?;
        loop {
            let check = &mut check;
            let done = self.look(|meta| meta.check_pages(check, STEPS)).await?;
            if done {
                break;
            }
        }
        let pages = check.report();
        self.report.pages = 1 + pages.inner + pages.leaves;
        self.hash_key = self
            .look(|meta| {
                Ok((
                    meta.number(Number::HashKey)?,
                    meta.number(Number::HashKey1)?,
                ))
            })
            .await?;
        let mut from = Some(first_key(0));
        while let Some(first) = from {
            let items = next_items(self.disk, first).await?;
            from = items.last().and_then(|(last, _)| after(*last));
            for (key, value) in items {
                self.item(key, &value).await?;
            }
        }
        self.end_file().await?;
        self.compare().await
    }

    /// An item. What it says may be wrong, and the others are verified all the same.
    async fn item(&mut self, key: Key, value: &[u8]) -> Result<(), FsError> {
        match self.try_item(key, value).await {
            Err(FsError::Damaged(text)) => {
                self.report.problem(text);
                Ok(())
            }
            verified => verified,
        }
    }

    async fn try_item(&mut self, key: Key, value: &[u8]) -> Result<(), FsError> {
        if (key.ino, key.kind) == (0, item::ORPHAN) {
            let note = decode_orphan(value).map_err(damage_of(key.at))?;
            // A file of which a part is being cut off has its size there, with a name or without one.
            self.orphans.insert(key.at, note.is_none());
            return Ok(());
        }
        if (key.kind, key.at) == (item::INODE, 0) {
            self.end_file().await?;
            let inode = Inode::decode(value).map_err(damage_of(key.ino))?;
            self.begin_file(key.ino, inode);
            return Ok(());
        }
        match self.current.as_ref().map(|current| current.ino) {
            Some(ino) if ino == key.ino && key.kind == item::EXTENT => {
                self.extent(key, value).await
            }
            Some(ino) if ino == key.ino => self.part(key, value).map_err(damage_of(ino)),
            _ => {
                self.report
                    .problem(format!("inode {} has items and is not there", key.ino));
                Ok(())
            }
        }
    }

    /// An extent of the current file.
    async fn extent(&mut self, key: Key, value: &[u8]) -> Result<(), FsError> {
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        let (ino, is_regular) = (current.ino, current.inode.mode & TYPE == REGULAR);
        if !is_regular {
            self.report
                .problem(format!("inode {ino} has an extent, which its type has not"));
        }
        let extent = extent(key, value, self.disk.list_blocks_end())?;
        if key.at < current.next {
            let text = twice(ino, key.at).to_string();
            self.report.problem(text);
        }
        current.next = key.at + u64::from(extent.count);
        current.blocks += u64::from(extent.count);
        let list = ListId(current.inode.list);
        for block in extent.block..extent.block + u64::from(extent.count) {
            let (word, bit) = ((block / 64) as usize, 1 << (block % 64));
            let is_own = match self.disk.list_of(BlockId(block)).await {
                Ok(found) => found == list && self.met[word] & bit == 0,
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => {
                    false
                }
                Err(error) => return Err(error.into()),
            };
            self.met[word] |= bit;
            current.has_own_blocks &= is_own;
            if !is_own {
                break;
            }
        }
        Ok(())
    }

    fn begin_file(&mut self, ino: u64, inode: Inode) {
        self.report.inodes += 1;
        let known = self.files.entry(ino).or_default();
        known.inode = Some((inode.mode, inode.nlink));
        if inode.mode & TYPE == DIRECTORY {
            self.report.directories += 1;
            known.parents.0 = inode.parent;
        }
        self.current = Some(Current {
            ino,
            inode,
            entries: 0,
            target_bytes: 0,
            blocks: 0,
            has_own_blocks: true,
            next: 0,
        });
    }

    /// An item of the current file.
    fn part(&mut self, key: Key, value: &[u8]) -> Result<(), tonearm_format::FormatError> {
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        let ino = current.ino;
        let kind = current.inode.mode & TYPE;
        let belongs = match key.kind {
            item::XATTR => {
                let xattr = Xattr::decode(value)?;
                if let Some(fault) = acl::fault(&xattr, current.inode.mode) {
                    self.report.problem(format!("inode {ino} has {fault}"));
                }
                true
            }
            item::TARGET => {
                let chunk = TARGET_CHUNK as u64;
                let is_next = key.at.checked_mul(chunk) == Some(current.target_bytes);
                current.target_bytes += value.len() as u64;
                kind == SYMLINK && is_next && value.len() as u64 <= chunk
            }
            item::ENTRY => {
                let entry = DirEntry::decode(key.at, value)?;
                current.entries += 1;
                let known = self.files.entry(entry.ino).or_default();
                known.names += 1;
                if u32::from(entry.kind) << 12 == DIRECTORY {
                    known.parents.1 = ino;
                    self.files.entry(ino).or_default().subdirectories += 1;
                }
                if key.at & !0xff != hash(self.hash_key, &entry.name) {
                    let name = String::from_utf8_lossy(&entry.name);
                    self.report
                        .problem(format!("{name:?} of directory {ino} is in the wrong place"));
                }
                kind == DIRECTORY
            }
            _ => false,
        };
        if !belongs {
            let kind = key.kind;
            self.report.problem(format!(
                "inode {ino} has an item of kind {kind} that does not belong to it"
            ));
        }
        Ok(())
    }

    /// Compares the items of the current file with its inode, and its blocks with its list.
    async fn end_file(&mut self) -> Result<(), FsError> {
        let Some(current) = self.current.take() else {
            return Ok(());
        };
        let (ino, inode) = (current.ino, &current.inode);
        let kind = inode.mode & TYPE;
        let size = match kind {
            DIRECTORY => Some(current.entries),
            SYMLINK => Some(current.target_bytes),
            _ => None,
        };
        if let Some(size) = size.filter(|size| *size != inode.size) {
            let says = inode.size;
            self.report.problem(format!(
                "inode {ino} says that its size is {says}, and it is {size}"
            ));
        }
        let count = current.blocks;
        self.report.blocks += count;
        if count != inode.blocks {
            let says = inode.blocks;
            self.report.problem(format!(
                "inode {ino} says to have {says} blocks, and it has {count}"
            ));
        }
        let listed = match inode.list {
            0 => 0,
            list => match self.disk.list_len(ListId(list)).await {
                Ok(listed) => listed,
                Err(error) => {
                    self.report.problem(format!("inode {ino}: {error}"));
                    return Ok(());
                }
            },
        };
        if listed != count || !current.has_own_blocks {
            let list = inode.list;
            self.report.problem(format!(
                "the blocks of inode {ino} are not those of its list {list}"
            ));
        }
        Ok(())
    }

    /// Checks that all directories are below the root.
    fn check_ways(&mut self, files: &BTreeMap<u64, Known>) {
        // Whether a directory is below the root.
        let mut known = BTreeMap::from([(ROOT_INO, true)]);
        for ino in files.keys() {
            let (mut at, mut way) = (*ino, Vec::new());
            let is_below = loop {
                if let Some(is_below) = known.get(&at) {
                    break *is_below;
                }
                let file = files.get(&at).filter(|file| file.is_directory());
                let Some(file) = file.filter(|file| file.names > 0) else {
                    break true;
                };
                // On a way that leads back to itself.
                known.insert(at, false);
                way.push(at);
                at = file.parents.0;
            };
            if !is_below {
                let text = format!("directory {ino} is not below the root");
                self.report.problem(text);
            }
            known.extend(way.into_iter().map(|dir| (dir, is_below)));
        }
    }

    /// Compares names with inodes, and the counts of the header.
    async fn compare(&mut self) -> Result<(), FsError> {
        let files = std::mem::take(&mut self.files);
        self.check_ways(&files);
        for (ino, known) in &files {
            let Some((mode, nlink)) = known.inode else {
                self.report
                    .problem(format!("inode {ino} has a name and is not there"));
                continue;
            };
            let is_directory = mode & TYPE == DIRECTORY;
            let own = u32::from(*ino == ROOT_INO);
            let links = if !is_directory {
                known.names
            } else if known.names + own == 0 {
                0
            } else {
                2 + known.subdirectories
            };
            if links != nlink {
                self.report.problem(format!(
                    "inode {ino} says to have {nlink} links, and it has {links}"
                ));
            }
            if is_directory && known.names > 1 - own {
                self.report
                    .problem(format!("directory {ino} has several names"));
            }
            if is_directory && known.names == 1 && known.parents.0 != known.parents.1 {
                let (says, is) = known.parents;
                self.report.problem(format!(
                    "directory {ino} says to be in {says}, and it is in {is}"
                ));
            }
            match (nlink == 0, self.orphans.get(ino)) {
                (true, Some(_)) => self.report.orphans += 1,
                (true, None) => self
                    .report
                    .problem(format!("inode {ino} has no name and is no orphan")),
                (false, Some(true)) => self
                    .report
                    .problem(format!("inode {ino} is an orphan and has a name")),
                (false, None | Some(false)) => {}
            }
        }
        let orphans = std::mem::take(&mut self.orphans);
        for ino in orphans.keys().filter(|ino| !files.contains_key(ino)) {
            let text = format!("inode {ino} is an orphan and is not there");
            self.report.problem(text);
        }
        let next = self.look(|meta| meta.number(Number::NextIno)).await?;
        self.report.next_ino = next;
        if files.keys().next_back().is_some_and(|last| *last >= next) {
            self.report.problem(format!(
                "the next inode is to be {next}, and there is a later one"
            ));
        }
        let counts = self
            .look(|meta| Ok((meta.number(Number::Inodes)?, meta.number(Number::Blocks)?)))
            .await?;
        let found = (self.report.inodes, self.report.blocks);
        if counts != found {
            let text =
                format!("the tree counts {counts:?} inodes and blocks, and it has {found:?}");
            self.report.problem(text);
        }
        Ok(())
    }
}

/// The next items of the tree, from `from` on; none at the end.
pub(crate) async fn next_items(disk: &Disk, from: Key) -> Result<Vec<(Key, Vec<u8>)>, FsError> {
    crate::fs::look(disk, Naming::default(), |meta| {
        let mut items = Vec::new();
        meta.scan(from, |key, value| {
            items.push((key, value.to_vec()));
            items.len() < ITEMS
        })?;
        Ok(items)
    })
    .await
}

/// The smallest key after `key`; `None` when there is none.
pub(crate) fn after(key: Key) -> Option<Key> {
    let at = key.at.wrapping_add(1);
    match (at, key.kind.checked_add(1)) {
        (1.., _) => Some(Key { at, ..key }),
        (0, Some(kind)) => Some(Key { at, kind, ..key }),
        (0, None) => key.ino.checked_add(1).map(first_key),
    }
}
