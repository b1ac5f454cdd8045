//! The files that there should be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tonearm_base::crc32c;
use tonearm_fs::{Fs, FsError, ROOT_INO};

/// What a file is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    /// A directory, with its parent.
    Directory(BTreeMap<Vec<u8>, u64>, u64),
    /// A regular file.
    File(Vec<u8>),
    /// A symbolic link.
    Link(Vec<u8>),
    /// A FIFO.
    Fifo,
}

/// A file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// What it is.
    pub node: Node,
    /// Permissions, owner and group.
    pub owner: (u32, u32, u32),
    /// Names.
    pub names: u64,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// All files, by inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    /// The files.
    pub files: BTreeMap<u64, File>,
    /// The next inode.
    pub next: u64,
    /// Files with a handle.
    pub open: BTreeSet<u64>,
    /// Inodes below this number belong to units since the opening.
    pub taken: u64,
}

impl Default for Tree {
    fn default() -> Self {
        let root = File {
            node: Node::Directory(BTreeMap::new(), ROOT_INO),
            owner: (0o755, 0, 0),
            names: 1,
            xattrs: BTreeMap::new(),
        };
        Self {
            files: BTreeMap::from([(ROOT_INO, root)]),
            next: ROOT_INO + 1,
            open: BTreeSet::new(),
            taken: 0,
        }
    }
}

impl Tree {
    /// The names of a directory.
    pub fn names(&mut self, dir: u64) -> Result<&mut BTreeMap<Vec<u8>, u64>, &'static str> {
        match self.files.get_mut(&dir).map(|file| &mut file.node) {
            Some(Node::Directory(names, _)) => Ok(names),
            Some(_) => Err("NotDirectory"),
            None => Err("NotFound"),
        }
    }

    /// True for a directory.
    pub fn is_directory(&self, ino: u64) -> bool {
        matches!(self.files[&ino].node, Node::Directory(..))
    }

    /// Deletes a file that has neither a name nor a handle.
    pub fn reap(&mut self, ino: u64) {
        if self.files.get(&ino).is_some_and(|file| file.names == 0) && !self.open.contains(&ino) {
            self.files.remove(&ino);
        }
    }

    /// The number of the next new file.
    pub fn next(&self) -> u64 {
        self.next.max(self.taken)
    }

    /// Ends all handles and units.
    pub fn close_all(&mut self) {
        self.open.clear();
        self.taken = 0;
        self.files.retain(|_, file| file.names > 0);
    }

    /// All files that have names, one in each line.
    pub fn listing(&self) -> String {
        let mut text = format!("next {}\n", self.next);
        let root = &self.files[&ROOT_INO];
        line(&mut text, "/", ROOT_INO, root, self.links(root));
        self.list(ROOT_INO, "", &mut text);
        text
    }

    fn list(&self, ino: u64, path: &str, text: &mut String) {
        let file = &self.files[&ino];
        let Node::Directory(names, _) = &file.node else {
            return;
        };
        for (name, ino) in names {
            let path = format!("{path}/{}", String::from_utf8_lossy(name));
            let file = &self.files[ino];
            line(text, &path, *ino, file, self.links(file));
            self.list(*ino, &path, text);
        }
    }

    fn links(&self, file: &File) -> u64 {
        match &file.node {
            Node::Directory(names, _) => {
                2 + names
                    .values()
                    .filter(|ino| self.is_directory(**ino))
                    .count() as u64
            }
            _ => file.names,
        }
    }

    /// The files that a file system has.
    ///
    /// # Errors
    /// Those of the file system.
    pub async fn read(fs: &Fs) -> Result<Self, FsError> {
        let mut tree = Self::default();
        tree.files
            .insert(ROOT_INO, file(fs, ROOT_INO, ROOT_INO).await?);
        let mut dirs = vec![ROOT_INO];
        while let Some(dir) = dirs.pop() {
            for (name, ino) in names(fs, dir).await? {
                if let Some(known) = tree.files.get_mut(&ino) {
                    known.names += 1;
                } else {
                    let file = file(fs, ino, dir).await?;
                    if matches!(file.node, Node::Directory(..)) {
                        dirs.push(ino);
                    }
                    tree.files.insert(ino, file);
                }
                let Ok(entries) = tree.names(dir) else {
                    continue;
                };
                entries.insert(name, ino);
            }
        }
        tree.next = next(fs).await?;
        Ok(tree)
    }
}

fn line(text: &mut String, path: &str, ino: u64, file: &File, links: u64) {
    let what = match &file.node {
        Node::Directory(names, parent) => format!("directory of {} in {parent}", names.len()),
        Node::File(data) => format!("file of {} bytes {:08x}", data.len(), crc32c(data)),
        Node::Link(target) => format!("link to {}", String::from_utf8_lossy(target)),
        Node::Fifo => "fifo".to_string(),
    };
    let xattrs: Vec<String> = file
        .xattrs
        .iter()
        .map(|(name, value)| format!("{}={:08x}", String::from_utf8_lossy(name), crc32c(value)))
        .collect();
    let _ = writeln!(
        text,
        "{path} {ino} {what} {:?} {links} {xattrs:?}",
        file.owner
    );
}

/// The names of a directory, read in small parts.
async fn names(fs: &Fs, dir: u64) -> Result<Vec<(Vec<u8>, u64)>, FsError> {
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let part = fs.list_with_attrs(dir, after, 3).await?;
        let Some((last, _)) = part.last() else { break };
        after = last.place;
        for (listed, attr) in part {
            assert_eq!(
                u32::from(listed.kind),
                attr.inode.mode >> 12,
                "the type in the directory"
            );
            if ![&b"."[..], b".."].contains(&&listed.name[..]) {
                found.push((listed.name, listed.ino));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A file, with one name.
async fn file(fs: &Fs, ino: u64, dir: u64) -> Result<File, FsError> {
    let inode = fs.attr(ino).await?.inode;
    let node = match inode.mode >> 12 {
        0o04 => Node::Directory(BTreeMap::new(), fs.look_up(ino, b"..").await?.ino),
        0o10 => Node::File(content(fs, ino, inode.size).await?),
        0o12 => Node::Link(fs.read_link(ino).await?),
        _ => Node::Fifo,
    };
    if let Node::Directory(_, parent) = &node {
        assert_eq!(*parent, dir, "the parent of directory {ino}");
    }
    let mut xattrs = BTreeMap::new();
    for name in fs.xattrs(ino).await? {
        let value = fs.xattr(ino, &name).await?;
        xattrs.insert(name, value);
    }
    let owner = (inode.mode & 0o7777, inode.uid, inode.gid);
    Ok(File {
        node,
        owner,
        names: 1,
        xattrs,
    })
}

/// The whole content of a file, which ends where its size says.
pub async fn content(fs: &Fs, ino: u64, size: u64) -> Result<Vec<u8>, FsError> {
    let mut data = Vec::with_capacity(size as usize);
    for piece in fs.read(ino, 0, size + 5000).await? {
        piece.append_to(&mut data);
    }
    assert_eq!(data.len() as u64, size, "bytes of file {ino}");
    Ok(data)
}

async fn next(fs: &Fs) -> Result<u64, FsError> {
    let report = tonearm_fs::check(fs.disk()).await?;
    Ok(report.unwrap_or_default().next_ino)
}

/// All files that have names, one in each line, as [`Tree::listing`] has them.
///
/// # Errors
/// Those of the file system.
pub async fn dump(fs: &Fs) -> Result<String, FsError> {
    let tree = Tree::read(fs).await?;
    for (ino, file) in &tree.files {
        let nlink = u64::from(fs.attr(*ino).await?.inode.nlink);
        assert_eq!(nlink, tree.links(file), "links of {ino}");
    }
    Ok(tree.listing())
}
