use crate::{
    DirEntry, FILE_BYTES_MAX, FileExtent, INO_MAX, Inode, LINKS_MAX, LIST_ID_LIMIT, ROOT_INO,
    TARGET_MAX, Xattr, decode_orphan,
};

const FILE: u32 = 0o100_644;
const DIRECTORY: u32 = 0o040_755;
const LINK: u32 = 0o120_777;

fn inode(mode: u32) -> Inode {
    Inode {
        mode,
        nlink: 2,
        parent: ROOT_INO,
        ..Inode::default()
    }
}

fn is_read(inode: &Inode) -> bool {
    match Inode::decode(&inode.encode()) {
        Ok(read) => {
            assert_eq!(read, *inode);
            true
        }
        Err(_) => false,
    }
}

/// The largest number of each field is read, and the next one is not.
#[test]
fn numbers_that_no_inode_has_are_refused() {
    type Set = fn(&mut Inode, u64);
    let cases: [(u32, u64, Set); 8] = [
        (FILE, FILE_BYTES_MAX, |inode, most| inode.size = most),
        (LINK, TARGET_MAX as u64, |inode, most| inode.size = most),
        (DIRECTORY, 1 << 60, |inode, most| inode.size = most),
        (FILE, LIST_ID_LIMIT - 1, |inode, most| inode.blocks = most),
        (FILE, LIST_ID_LIMIT - 1, |inode, most| inode.list = most),
        (FILE, u64::from(LINKS_MAX), |inode, most| {
            inode.nlink = most as u32;
        }),
        (DIRECTORY, u64::from(LINKS_MAX), |inode, most| {
            inode.nlink = most as u32;
        }),
        (DIRECTORY, INO_MAX, |inode, most| inode.parent = most),
    ];
    for (number, (mode, most, set)) in cases.into_iter().enumerate() {
        let mut sound = inode(mode);
        set(&mut sound, most);
        assert!(is_read(&sound), "case {number}");
        let mut wrong = inode(mode);
        set(&mut wrong, most + 1);
        assert!(!is_read(&wrong), "case {number}");
    }
    for kind in 0..20 {
        let is_kind = [0o01, 0o02, 0o04, 0o06, 0o10, 0o12, 0o14].contains(&kind);
        assert_eq!(is_read(&inode(kind << 12)), is_kind, "type {kind:o}");
    }
    let mut one_link = inode(DIRECTORY);
    one_link.nlink = 1;
    assert!(!is_read(&one_link), "a directory has two links at least");
    one_link.nlink = 0;
    assert!(is_read(&one_link), "it has none when it is removed");
}

#[test]
fn extents_beyond_the_last_block_are_refused() {
    let read = |at, block, count| FileExtent::decode(at, &FileExtent { block, count }.encode());
    let file_end = 1 << 51;
    assert!(read(file_end - 3, LIST_ID_LIMIT - 3, 3).is_ok());
    for (at, block, count) in [
        (file_end - 3, 1, 4),
        (u64::MAX, 1, 1),
        (u64::MAX - 1, 1, u32::MAX),
        (0, LIST_ID_LIMIT - 3, 4),
        (0, 1 << 55, 1),
        (0, u64::MAX, u32::MAX),
        (0, 0, 1),
        (0, 1, 0),
    ] {
        assert!(
            read(at, block, count).is_err(),
            "{count} from {at}, {block}"
        );
    }
}

#[test]
fn names_and_places_that_no_entry_has_are_refused() {
    let entry = |ino, kind, name: &[u8]| {
        let name = name.to_vec();
        DirEntry { ino, kind, name }.encode()
    };
    let is_read = |at, bytes: &[u8]| DirEntry::decode(at, bytes).is_ok();
    let good = entry(ROOT_INO, 0o10, b"name");
    assert!(is_read(256, &good) && is_read(FILE_BYTES_MAX, &good));
    assert!(!is_read(255, &good) && !is_read(FILE_BYTES_MAX + 1, &good));
    for name in [&b"."[..], b"..", b"../x", b"a/b", b"a\0", b""] {
        assert!(!is_read(256, &entry(ROOT_INO, 0o10, name)), "{name:?}");
    }
    for (ino, kind) in [
        (0, 0o10),
        (INO_MAX + 1, 0o10),
        (u64::MAX, 4),
        (1, 0),
        (1, 200),
    ] {
        assert!(!is_read(256, &entry(ino, kind, b"name")), "{ino} {kind}");
    }
    let xattr = |name: &[u8]| Xattr {
        name: name.to_vec(),
        value: vec![0],
    };
    assert!(Xattr::decode(&xattr(b"user.a").encode()).is_ok());
    assert!(Xattr::decode(&xattr(b"user\0a").encode()).is_err());
}

#[test]
fn the_note_of_an_orphan_is_empty_or_a_size() {
    assert_eq!(decode_orphan(&[]), Ok(None));
    let most = FILE_BYTES_MAX.to_le_bytes();
    assert_eq!(decode_orphan(&most), Ok(Some(FILE_BYTES_MAX)));
    assert!(decode_orphan(&[1, 2, 3]).is_err());
    assert!(decode_orphan(&u64::MAX.to_le_bytes()).is_err());
}
