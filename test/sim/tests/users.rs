//! What users may do: whose names they take away, how many units they have. Whiteouts, and files by their numbers.

#![allow(clippy::unwrap_used)]

use tonearm_fs::{Attr, Fs, FsError, NewInode, ROOT_INO, Rename, SetXattr, Unit};
use tonearm_sim::trees::{self, DIRECTORY, with_fs};

const FILE: NewInode = NewInode {
    mode: 0o100_600,
    ..trees::FILE
};
/// Users.
const ONE: u32 = 1001;
const OTHER: u32 = 1002;

fn of(uid: u32, kind: NewInode) -> NewInode {
    NewInode { uid, ..kind }
}

/// A name that stands for another file than the kernel has looked up is taken away only by one who may.
#[test]
fn only_owners_unlink_names_in_sticky_directories() {
    with_fs(8 << 20, async |_, fs| {
        let sticky = NewInode {
            mode: 0o041_777,
            ..DIRECTORY
        };
        let dir = fs.make(ROOT_INO, b"tmp", sticky).await.unwrap().ino;
        let own = fs.make(ROOT_INO, b"own", of(ONE, sticky)).await.unwrap();
        let open = fs.make(ROOT_INO, b"open", DIRECTORY).await.unwrap().ino;
        let names: [(&[u8], NewInode); 4] = [
            (b"one", of(ONE, FILE)),
            (b"other", of(OTHER, FILE)),
            (b"one.d", of(ONE, DIRECTORY)),
            (b"other.d", of(OTHER, DIRECTORY)),
        ];
        for dir in [dir, own.ino, open] {
            for (name, kind) in names {
                fs.make(dir, name, kind).await.unwrap();
            }
        }
        let one = fs.for_user(Some(ONE));
        let refused = |result: Result<(), FsError>| matches!(result, Err(FsError::NotOwner));
        assert!(refused(one.unlink(dir, b"other").await));
        assert!(refused(one.remove_dir(dir, b"other.d").await));
        for (from, to, how) in [
            (&b"other"[..], &b"free"[..], Rename::Replace),
            (b"other", b"free", Rename::NoReplace),
            (b"other.d", b"free", Rename::Replace),
            (b"one", b"other", Rename::Replace),
            (b"one.d", b"other.d", Rename::Replace),
            (b"one", b"other", Rename::Exchange),
            (b"other", b"one", Rename::Exchange),
        ] {
            let renamed = one.rename((dir, from), (dir, to), how).await;
            assert!(refused(renamed), "{from:?} {to:?} {how:?}");
        }
        // To and from another directory.
        for (from, to) in [
            ((dir, &b"other"[..]), (open, &b"moved"[..])),
            ((open, b"one"), (dir, b"other")),
        ] {
            assert!(refused(one.rename(from, to, Rename::Replace).await));
        }
        // In a unit, too.
        let unit = one.begin().unwrap();
        assert!(refused(unit.fs().unlink(dir, b"other").await));
        unit.fs().unlink(dir, b"one").await.unwrap();
        drop(unit);
        // What is one's own, in a directory of one's own, and without the bit.
        one.rename((dir, b"one"), (dir, b"mine"), Rename::Replace)
            .await
            .unwrap();
        one.unlink(dir, b"mine").await.unwrap();
        one.remove_dir(dir, b"one.d").await.unwrap();
        for dir in [own.ino, open] {
            one.rename((dir, b"one"), (dir, b"other"), Rename::Exchange)
                .await
                .unwrap();
            one.unlink(dir, b"other").await.unwrap();
            one.unlink(dir, b"one").await.unwrap();
            one.remove_dir(dir, b"other.d").await.unwrap();
        }
        fs.unlink(dir, b"other").await.unwrap();
        fs.for_user(Some(OTHER))
            .remove_dir(dir, b"other.d")
            .await
            .unwrap();
    });
}

/// One user leaves places for others.
#[test]
fn a_user_has_a_part_of_the_units() {
    with_fs(8 << 20, async |_, fs| {
        let one = fs.for_user(Some(ONE));
        let units: Vec<_> = (0..128).map(|_| one.begin().unwrap()).collect();
        assert!(matches!(one.begin(), Err(FsError::TooManyUnits(128))));
        let others = [fs.for_user(Some(OTHER)).begin(), fs.begin()];
        assert!(others.iter().all(Result::is_ok));
        drop(units);
        one.begin().unwrap();
    });
}

/// Many users together leave a part of the units to root.
#[test]
fn root_has_a_part_of_the_units() {
    with_fs(8 << 20, async |_, fs| {
        let mut units = Vec::new();
        for user in 0..7 {
            let of_user = fs.for_user(Some(ONE + user));
            units.extend((0..128).map(|_| of_user.begin().unwrap()));
        }
        let last = fs.for_user(Some(ONE + 7)).begin();
        assert!(matches!(last, Err(FsError::TooManyUnits(896))));
        units.extend((0..128).map(|_| fs.begin().unwrap()));
        assert!(matches!(fs.begin(), Err(FsError::TooManyUnits(1024))));
        drop(units);
    });
}

/// Begins units of `fs` that each set an attribute until one gets no more memory.
async fn use_up(fs: &Fs, ino: u64) -> Vec<Unit> {
    let mut units = Vec::new();
    loop {
        let unit = fs.begin().unwrap();
        let name = format!("user.{}", units.len());
        let set = unit.fs();
        let set = set.set_xattr(ino, name.as_bytes(), &[7; 900], SetXattr::Any);
        match set.await {
            Ok(()) => units.push(unit),
            Err(error) => {
                assert!(matches!(error, FsError::UnitTooLarge), "{error}");
                return units;
            }
        }
    }
}

/// One user leaves memory to others, and root has what all of them leave.
#[test]
fn a_user_has_a_part_of_the_memory_of_units() {
    with_fs(8 << 20, async |_, fs| {
        let ino = fs.make(ROOT_INO, b"file", FILE).await.unwrap().ino;
        let most = fs.disk().shadow_bytes_max() / 4;
        let used = || fs.disk().shadow_bytes();
        let one = use_up(&fs.for_user(Some(ONE)), ino).await;
        assert!(used() <= most - most / 8, "{} of {most}", used());
        let before = used();
        let other = use_up(&fs.for_user(Some(OTHER)), ino).await;
        assert!(used() > before && used() <= most, "{before}, {}", used());
        drop(other);
        let root = use_up(&fs, ino).await;
        assert!(
            used() > most - 1500 && used() <= most,
            "{} of {most}",
            used()
        );
        drop((one, root));
        // Root alone has all of it.
        let root = use_up(&fs, ino).await;
        assert!(used() > most - most / 8, "{} of {most}", used());
        drop(root);
    });
}

/// What units were refused counts for no memory of others, although their program keeps them.
#[test]
fn units_that_are_refused_memory_leave_it_to_others() {
    with_fs(8 << 20, async |_, fs| {
        let ino = fs.make(ROOT_INO, b"file", FILE).await.unwrap().ino;
        let one = fs.for_user(Some(ONE));
        let units = use_up(&one, ino).await;
        let mut refused = Vec::new();
        for _ in 0..20 {
            let unit = one.begin().unwrap();
            let set = unit
                .fs()
                .set_xattr(ino, b"user.more", &[7; 900], SetXattr::Any);
            assert!(matches!(set.await, Err(FsError::UnitTooLarge)));
            refused.push(unit);
        }
        for user in [Some(OTHER), None] {
            let unit = fs.for_user(user).begin().unwrap();
            let made = unit.fs().make(ROOT_INO, b"made", FILE).await;
            assert!(made.is_ok(), "{user:?}: {made:?}");
        }
        drop((units, refused));
    });
}

/// A rename leaves a whiteout in the same commit: no moment shows what the layers below have of the name.
#[test]
fn a_rename_leaves_a_whiteout() {
    with_fs(8 << 20, async |_, fs| {
        let dir = fs.make(ROOT_INO, b"d", DIRECTORY).await.unwrap().ino;
        let how = Rename::Whiteout { uid: 3, gid: 4 };
        for (from, to) in [
            ((ROOT_INO, &b"a"[..]), (ROOT_INO, &b"b"[..])),
            ((ROOT_INO, b"c"), (dir, b"c")),
        ] {
            let moved = fs.make(from.0, from.1, FILE).await.unwrap().ino;
            fs.make(to.0, to.1, FILE).await.unwrap();
            let before = fs.disk().engine().marks().appended.0;
            fs.rename(from, to, how).await.unwrap();
            assert_eq!(fs.disk().engine().marks().appended.0, before + 1);
            assert_eq!(fs.look_up(to.0, to.1).await.unwrap().ino, moved);
            let Attr { inode, .. } = fs.look_up(from.0, from.1).await.unwrap();
            let made = (inode.mode, inode.rdev, inode.uid, inode.gid, inode.nlink);
            assert_eq!(made, (0o020_000, 0, 3, 4, 1));
        }
    });
}

/// A file is found by its number while it is there: a kernel that has only a handle of it asks for its `.`.
#[test]
fn a_file_is_found_by_its_number() {
    with_fs(8 << 20, async |_, fs| {
        for kind in [FILE, DIRECTORY] {
            let made = fs.make(ROOT_INO, b"x", kind).await.unwrap();
            let found = fs.look_up(made.ino, b".").await.unwrap();
            assert_eq!(found.ino, made.ino);
            fs.open_handle(made.ino).unwrap();
            match kind == DIRECTORY {
                true => fs.remove_dir(ROOT_INO, b"x").await.unwrap(),
                false => fs.unlink(ROOT_INO, b"x").await.unwrap(),
            }
            assert_eq!(fs.look_up(made.ino, b".").await.unwrap().inode.nlink, 0);
            fs.close_handle(made.ino);
            let gone = fs.look_up(made.ino, b".").await;
            assert!(matches!(gone, Err(FsError::NotFound)), "{gone:?}");
        }
        let up = fs.look_up(ROOT_INO, b"..").await.unwrap();
        assert_eq!(up.ino, ROOT_INO);
    });
}
