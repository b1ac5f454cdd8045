//! Files that are deleted in many units, and those that cannot be deleted; on full stores, too.

#![allow(clippy::unwrap_used)]

use tonearm_base::Nanos;
use tonearm_disk::TreePages;
use tonearm_fs::{Fs, FsError, Inode, Key, ROOT_INO, Rename, SetXattr, Tree as FsTree};
use tonearm_sim::Layout;
use tonearm_sim::trees::{
    DIRECTORY, FILE, craft, inode_key, orphan_key, read, sized, sound, store, time, with_fs,
};

/// A file has a bounded number of extended attributes, and of bytes of their names.
#[test]
fn a_file_has_a_bounded_number_of_attributes() {
    with_fs(12 << 20, async |_, fs| {
        for (len, most) in [(8, 1024), (254, (1 << 16) / 255)] {
            let ino = fs.make(ROOT_INO, &[b'a', len], FILE).await.unwrap().ino;
            let name = |number: usize| format!("{number:0>width$}", width = usize::from(len));
            for number in 0..most {
                let name = name(number);
                fs.set_xattr(ino, name.as_bytes(), b"", SetXattr::Any)
                    .await
                    .unwrap();
            }
            let last = name(most);
            let more = fs.set_xattr(ino, last.as_bytes(), b"", SetXattr::Any);
            assert!(matches!(more.await, Err(FsError::TooManyAttributes)));
            // Those that there are can be changed, and removed for others.
            let known = name(0);
            fs.set_xattr(ino, known.as_bytes(), b"new", SetXattr::Any)
                .await
                .unwrap();
            assert_eq!(fs.xattrs(ino).await.unwrap().len(), most);
            fs.remove_xattr(ino, known.as_bytes()).await.unwrap();
            fs.set_xattr(ino, last.as_bytes(), b"", SetXattr::Any)
                .await
                .unwrap();
        }
    });
}

/// An orphan that cannot be deleted keeps nobody from opening the file system. It is reported, and tried again by the next opening.
#[test]
fn an_orphan_that_cannot_be_deleted_is_left_and_tried_again() {
    store(Layout::Overwrite, 3 << 20).with_fs(1, async move |_, rt, fs| {
        let disk = fs.disk().clone();
        let kept = fs.make(ROOT_INO, b"kept", FILE).await.unwrap().ino;
        let good = fs.make_unnamed(ROOT_INO, FILE).await.unwrap().ino;
        let file = |list, blocks| Inode {
            mode: FILE.mode,
            list,
            blocks,
            ..Inode::default()
        };
        // Without an inode, of a list that is not there, of blocks that are not there, with a note that is no size, and with
        // the largest number.
        craft(&fs, move |tree| {
            let made = |ino, value: &[u8], note: &[u8], tree: &mut FsTree<'_, TreePages<'_>>| {
                tree.put(inode_key(ino), value).ok()?;
                tree.put(orphan_key(ino), note).ok()
            };
            tree.put(orphan_key(900), &[]).ok()?;
            made(901, &file(77, 1).encode(), &[], tree)?;
            made(902, &file(0, 1 << 39).encode(), &[], tree)?;
            made(903, &file(0, 0).encode(), &[1, 2, 3], tree)?;
            made(904, &[1; 104], &[], tree)?;
            tree.put(orphan_key(u64::MAX), &[]).ok()
        })
        .await;
        drop(fs);
        let fs = Fs::open(&disk, &rt, time(&rt)).await.unwrap();
        let left: Vec<_> = fs.orphans_left().iter().map(|left| left.ino).collect();
        let bad = [900, 901, 902, 903, 904, u64::MAX];
        assert_eq!(left, bad.map(Some));
        assert!(fs.attr(good).await.is_err(), "the good one is deleted");
        fs.write(kept, 0, b"content").await.unwrap();
        // With what was missing it is deleted.
        craft(&fs, move |tree| {
            tree.put(inode_key(901), &file(0, 0).encode()).ok()
        })
        .await;
        drop(fs);
        let fs = Fs::open(&disk, &rt, time(&rt)).await.unwrap();
        assert_eq!(fs.orphans_left().len(), bad.len() - 1);
        fs.unlink(ROOT_INO, b"kept").await.unwrap();
    });
}

/// Files that are open lose their names on a store without any space: that needs pages of the tree, which are kept for it.
#[test]
fn open_files_are_unlinked_on_a_full_store() {
    with_fs(4 << 20, async |rt, fs| {
        let mut open = Vec::new();
        for number in 0..300u32 {
            let name = format!("open {number}").into_bytes();
            let ino = fs.make(ROOT_INO, &name, FILE).await.unwrap().ino;
            fs.open_handle(ino).unwrap();
            open.push((name, ino));
        }
        let large = fs.make(ROOT_INO, b"large", FILE).await.unwrap().ino;
        let mut at = 0;
        for len in [64 << 10, 4096] {
            while fs.write(large, at, &vec![1; len]).await.is_ok() {
                at += len as u64;
            }
        }
        // Until no item of any size has a place.
        let mut number = 0;
        for len in [900, 500, 200, 60, 20, 1] {
            let mut misses = 0;
            while misses < 20 {
                let name = format!("x{number}").into_bytes();
                number += 1;
                let made = match fs.make(ROOT_INO, &name, FILE).await {
                    Ok(made) => {
                        let value = vec![7; len];
                        fs.set_xattr(made.ino, b"a", &value, SetXattr::Any).await
                    }
                    Err(error) => Err(error),
                };
                if let Err(error) = made {
                    assert!(error.is_full(), "{error}");
                    misses += 1;
                }
            }
        }
        for (name, _) in &open {
            fs.unlink(ROOT_INO, name).await.unwrap();
        }
        let set = sized(5000);
        fs.set_attr(large, set).await.unwrap();
        fs.remove_xattr(1 + 302, b"a").await.unwrap();
        open.iter().for_each(|(_, ino)| fs.close_handle(*ino));
        rt.sleep(Nanos::from_secs(1)).await;
        // What was freed can be used again.
        fs.write(large, 0, &[2; 40_000]).await.unwrap();
    });
}

/// Directories that are above each other: a rename does not search the root for ever, and `check` finds them.
#[test]
fn directories_in_a_circle_are_damage() {
    store(Layout::Overwrite, 3 << 20).with_fs(1, async move |_, _, fs| {
        let a = fs.make(ROOT_INO, b"a", DIRECTORY).await.unwrap().ino;
        let b = fs.make(a, b"b", DIRECTORY).await.unwrap().ino;
        fs.make(ROOT_INO, b"c", DIRECTORY).await.unwrap();
        let mut inode = fs.attr(a).await.unwrap().inode;
        inode.parent = b;
        craft(&fs, move |tree| {
            tree.put(inode_key(a), &inode.encode()).ok()
        })
        .await;
        let (from, to) = ((ROOT_INO, &b"c"[..]), (b, &b"c"[..]));
        let moved = fs.rename(from, to, Rename::Replace).await.unwrap_err();
        assert!(matches!(moved, FsError::Damaged(_)), "{moved}");
        let problems = sound(fs.disk()).await.unwrap_err();
        let text = format!("directory {a} is not below the root");
        assert!(problems.contains(&text), "{problems}");
    });
}

/// Two files whose items name the same block: what frees it for one of them does not take it from the other.
#[test]
fn a_file_frees_no_block_of_another_one() {
    store(Layout::Overwrite, 3 << 20).with_fs(1, async move |_, _, fs| {
        let mut files = Vec::new();
        for name in [b"a", b"b"] {
            let ino = fs.make(ROOT_INO, name, FILE).await.unwrap().ino;
            fs.write(ino, 0, &[name[0]; 8192]).await.unwrap();
            files.push(ino);
        }
        let (a, b) = (files[0], files[1]);
        craft(&fs, move |tree| {
            let extent = |ino| Key {
                ino,
                kind: 5,
                at: 0,
            };
            let of_b = tree.get(extent(b)).ok()??;
            tree.put(extent(a), &of_b).ok()
        })
        .await;
        let set = sized(4096);
        let cut = fs.set_attr(a, set).await.unwrap_err();
        assert!(matches!(cut, FsError::Damaged(_)), "{cut}");
        let punched = fs.allocate(a, 0, 4096, tonearm_fs::Allocate::Punch).await;
        assert!(matches!(punched, Err(FsError::Damaged(_))), "{punched:?}");
        assert_eq!(read(&fs, b, 0, 8192).await, [b'b'; 8192]);
        let problems = sound(fs.disk()).await.unwrap_err();
        assert!(problems.contains("are not those of its list"), "{problems}");
    });
}
