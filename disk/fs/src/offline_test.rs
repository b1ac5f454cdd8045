use super::{NAMES_MAX, OfflineError, OfflineTree, path_text};
use crate::meta::{entry_key, extent_key, hash, inode_key};
use crate::tree::{Key, OWNER_WORDS, Pages, Tree, Wait, format};
use crate::types::{DIRECTORY, REGULAR, SYMLINK};
use std::collections::BTreeMap;
use std::io;
use tonearm_format::{DirEntry, FileExtent, Inode, ROOT_INO, item};

const PAGE: usize = 4096;
const FIFO: u32 = 0o010_000;
const HASH_KEY: (u64, u64) = (17, 18);

/// A tree that is filled in memory.
struct Space {
    pages: Vec<Vec<u8>>,
    next_ino: u64,
    /// Inodes of directories by path; that of the root is "".
    dirs: BTreeMap<Vec<u8>, u64>,
}

impl Pages for Space {
    fn page(&mut self, page: u64) -> Result<&[u8], Wait> {
        Ok(&self.pages[page as usize])
    }

    fn page_mut(&mut self, page: u64) -> Result<&mut [u8], Wait> {
        Ok(&mut self.pages[page as usize])
    }

    fn count(&self) -> u64 {
        self.pages.len() as u64
    }
}

impl Space {
    fn new(pages: usize) -> Self {
        let mut owner = [0; OWNER_WORDS];
        (owner[3], owner[4]) = HASH_KEY;
        let mut space = Self {
            pages: vec![vec![0; PAGE]; pages],
            next_ino: ROOT_INO + 1,
            dirs: BTreeMap::from([(Vec::new(), ROOT_INO)]),
        };
        format(&mut space, owner).unwrap();
        space.put_inode(ROOT_INO, DIRECTORY, 0, ROOT_INO);
        space
    }

    fn put(&mut self, key: Key, value: &[u8]) {
        Tree(self).put(key, value).unwrap();
    }

    fn put_inode(&mut self, ino: u64, mode: u32, size: u64, parent: u64) {
        let inode = Inode {
            mode,
            size,
            parent,
            nlink: if mode == DIRECTORY { 2 } else { 1 },
            ..Inode::default()
        };
        self.put(inode_key(ino), &inode.encode());
    }

    /// Makes a file of `size` bytes. Returns its inode.
    fn make(&mut self, path: &[u8], mode: u32, size: u64) -> u64 {
        let slash = path.iter().rposition(|byte| *byte == b'/');
        let (above, name) = slash.map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]));
        let (dir, ino) = (self.dirs[above], self.next_ino);
        self.next_ino += 1;
        self.put_inode(ino, mode, size, if mode == DIRECTORY { dir } else { 0 });
        self.enter(dir, name, ino, mode);
        if mode == DIRECTORY {
            self.dirs.insert(path.to_vec(), ino);
        }
        ino
    }

    fn enter(&mut self, dir: u64, name: &[u8], ino: u64, mode: u32) {
        let entry = DirEntry {
            ino,
            kind: (mode >> 12) as u8,
            name: name.to_vec(),
        };
        let mut at = hash(HASH_KEY, name);
        while Tree(self).get(entry_key(dir, at)).unwrap().is_some() {
            at += 1;
        }
        self.put(entry_key(dir, at), &entry.encode());
    }

    fn read(&self) -> OfflineTree<impl FnMut(u64, &mut [u8]) -> io::Result<()>> {
        let read = |page: u64, bytes: &mut [u8]| {
            bytes.copy_from_slice(&self.pages[page as usize]);
            Ok(())
        };
        let tree = OfflineTree::open(PAGE, self.pages.len() as u64, read);
        tree.unwrap().expect("a tree")
    }

    /// The paths and sizes of all files, with so many names in memory.
    fn files(&self, names_max: usize) -> Result<Vec<(Vec<u8>, u64)>, OfflineError> {
        let mut files = Vec::new();
        self.read().files_within(names_max, |path, inode| {
            files.push((path.to_vec(), inode.size));
            Ok::<_, OfflineError>(())
        })?;
        Ok(files)
    }

    fn error_of(&self, path: &[u8]) -> String {
        self.read().find(path).expect_err("an error").to_string()
    }
}

#[test]
fn a_file_is_found_by_its_path() {
    let mut space = Space::new(64);
    let app = space.make(b"app.db", REGULAR | 0o644, 5);
    space.make(b"dir", DIRECTORY, 0);
    space.make(b"dir/deep", DIRECTORY, 0);
    let deep = space.make(b"dir/deep/app.db", REGULAR, 7);
    let bytes = space.make(b"\xff\xfe", REGULAR, 0);
    let tree = &mut space.read();
    for (path, ino) in [
        (&b"app.db"[..], app),
        (b"/app.db", app),
        (b"//./app.db", app),
        (b"dir/deep/app.db", deep),
        (b"/dir//deep/./app.db", deep),
        (b"\xff\xfe", bytes),
    ] {
        let found = tree.find(path).unwrap();
        assert_eq!(found.ino, ino, "{}", path_text(path));
    }
    assert_eq!(tree.find(b"dir/deep/app.db").unwrap().inode.size, 7);
}

/// Names whose hashes are the same have consecutive places.
#[test]
fn names_with_equal_hashes_are_distinguished() {
    let mut space = Space::new(16);
    let first = space.make(b"first", REGULAR, 1);
    // The next name's item lies after that of another name, which has taken its place.
    let at = hash(HASH_KEY, b"second");
    let other = DirEntry {
        ino: first,
        kind: 8,
        name: b"other".to_vec(),
    };
    space.put(entry_key(ROOT_INO, at), &other.encode());
    let second = space.make(b"second", REGULAR, 2);
    assert_eq!(space.read().find(b"second").unwrap().ino, second);
}

#[test]
fn path_of_no_regular_file_is_an_error() {
    let mut space = Space::new(16);
    space.make(b"dir", DIRECTORY, 0);
    space.make(b"file", REGULAR, 0);
    space.make(b"pipe", FIFO, 0);
    let link = space.make(b"link", SYMLINK, 4);
    let at = 0;
    let (ino, kind) = (link, item::TARGET);
    space.put(Key { ino, kind, at }, b"file");
    for (path, text) in [
        (&b"dir"[..], "dir is a directory; name a file"),
        (b"/", "/ is a directory; name a file"),
        (b"none", "there is no file none"),
        (b"dir/none", "there is no file dir/none"),
        (b"dir/none/x", "there is no file dir/none/x"),
        (b"file/x", "file is not a directory, so no file is in it"),
        (
            b"link",
            "link is a symbolic link, which is not followed; name the file that it leads to (file)",
        ),
        (
            b"link/x",
            "link is a symbolic link, which is not followed; name the file that it leads to (file)",
        ),
        (
            b"pipe",
            "pipe is a device, a FIFO or a socket, which has no content; name a file",
        ),
    ] {
        assert_eq!(space.error_of(path), text);
    }
    let mut siblings = Vec::new();
    let tree = &mut space.read();
    tree.siblings(b"/files", |path| siblings.push(path.to_vec()))
        .unwrap();
    siblings.sort();
    let expected = [&b"dir/"[..], b"file", b"link", b"pipe"];
    assert_eq!(siblings, expected);
    let mut count = 0;
    tree.siblings(b"dir/none", |_| count += 1).unwrap();
    assert_eq!(count, 0);
}

#[test]
fn extents_are_cut_off_at_the_end() {
    let mut space = Space::new(16);
    let file = space.make(b"file", REGULAR, 0);
    let other = space.make(b"other", REGULAR, 0);
    for (ino, at, block, count) in [
        (file, 0, 100, 3),
        (file, 10, 50, 10),
        (file, 1 << 40, 90, 1),
        (other, 2, 200, 1),
    ] {
        let extent = FileExtent { block, count };
        space.put(extent_key(ino, at), &extent.encode());
    }
    let extents = |end: u64| {
        let mut found = Vec::new();
        let each = |at, extent: FileExtent| found.push((at, extent.block, extent.count));
        space.read().extents(file, end, each).unwrap();
        found
    };
    assert_eq!(extents(0), []);
    assert_eq!(extents(2), [(0, 100, 2)]);
    assert_eq!(extents(10), [(0, 100, 3)]);
    assert_eq!(extents(12), [(0, 100, 3), (10, 50, 2)]);
    assert_eq!(
        extents(u64::MAX),
        [(0, 100, 3), (10, 50, 10), (1 << 40, 90, 1)]
    );
    let extent = FileExtent {
        block: 70,
        count: 1,
    };
    space.put(extent_key(file, 2), &extent.encode());
    let error = space.read().extents(file, 100, |_, _| {}).unwrap_err();
    let text = format!("the tree of files is damaged: inode {file} has a block twice");
    assert_eq!(error.to_string(), text);
}

/// Directories with names that sort differently with and without the slash after them, and more names than fit in memory.
#[test]
fn files_are_listed_in_the_order_of_their_paths() {
    let mut space = Space::new(600);
    let mut expected = Vec::new();
    for dir in [&b"a"[..], b"a/a", b"a/a/a", b"a b", b"a-", b"z"] {
        space.make(dir, DIRECTORY, 0);
    }
    for dir in [&b""[..], b"a/", b"a/a/", b"a/a/a/", b"a b/", b"a-/"] {
        for number in 0..97 {
            let name = format!("a{number}.x");
            let path = [dir, name.as_bytes()].concat();
            space.make(&path, REGULAR, number);
            expected.push((path, number));
        }
    }
    space.make(b"pipe", FIFO, 0);
    space.make(b"link", SYMLINK, 0);
    let linked = space.make(b"one", REGULAR, 1234);
    let dir = space.dirs[&b"a-"[..]];
    space.enter(dir, b"two", linked, REGULAR);
    expected.extend([(b"one".to_vec(), 1234), (b"a-/two".to_vec(), 1234)]);
    expected.sort();
    let few = (2..12).chain((20..420).step_by(20));
    for names_max in few.chain([NAMES_MAX]) {
        let found = space.files(names_max).unwrap();
        assert!(found == expected, "{names_max} names: {found:?}");
    }
}

#[test]
fn a_damaged_tree_leads_to_an_error() {
    let mut space = Space::new(16);
    let dir = space.make(b"dir", DIRECTORY, 0);
    let below = space.make(b"dir/below", DIRECTORY, 0);
    space.make(b"dir/file", REGULAR, 0);
    // A directory that is in a directory below it.
    space.enter(below, b"dir", dir, DIRECTORY);
    let error = space.files(NAMES_MAX).unwrap_err().to_string();
    let text = "the tree of files is damaged: dir/below/dir/ is in another directory than it tells";
    assert_eq!(error, text);

    let mut space = Space::new(16);
    space.enter(ROOT_INO, b"root", ROOT_INO, DIRECTORY);
    let error = space.files(NAMES_MAX).unwrap_err().to_string();
    assert!(error.contains("is in another directory"), "{error}");

    let mut space = Space::new(16);
    space.enter(ROOT_INO, b"none", 99, REGULAR);
    let text = "the tree of files is damaged: inode 99 is named, and there is none";
    assert_eq!(space.error_of(b"none"), text);
    assert_eq!(space.files(2).unwrap_err().to_string(), text);

    let mut space = Space::new(16);
    space.make(b"file", REGULAR, 0);
    space.pages[1][0] ^= 1;
    let error = space.error_of(b"file");
    assert!(
        error.starts_with("the tree of files is damaged: page 1: "),
        "{error}"
    );
}

#[test]
fn a_tree_that_is_not_made_yet_has_no_files() {
    let blank = |_: u64, bytes: &mut [u8]| {
        bytes.fill(0);
        Ok(())
    };
    assert!(OfflineTree::open(PAGE, 64, blank).unwrap().is_none());
    assert!(OfflineTree::open(PAGE, 0, blank).unwrap().is_none());
}

#[test]
fn page_read_error_is_returned() {
    let mut space = Space::new(600);
    for number in 0..500 {
        space.make(format!("file{number}").as_bytes(), REGULAR, 0);
    }
    let root = Tree(&mut space).header().unwrap().root;
    let read = |page: u64, bytes: &mut [u8]| {
        if page == root {
            return Err(io::Error::other("the drive is gone"));
        }
        bytes.copy_from_slice(&space.pages[page as usize]);
        Ok(())
    };
    let mut tree = OfflineTree::open(PAGE, 600, read).unwrap().unwrap();
    let error = tree.find(b"file3").unwrap_err().to_string();
    assert!(error.contains("the drive is gone"), "{error}");
}
