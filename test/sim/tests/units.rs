//! Units of applications on file systems: who sees what, which conflict, what they may hold.

#![allow(clippy::unwrap_used)]

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::{Lsn, Nanos};
use tonearm_fs::{
    Allocate, Attr, Fs, FsError, Piece, ROOT_INO, Rename, SetAttr, SetXattr, Unit, UnitCounts,
};
use tonearm_sim::Layout;
use tonearm_sim::trees::{self, DIRECTORY, FILE, dump, sized, sound, store, with_fs, with_mode};

async fn make(fs: &Fs, name: &[u8], content: &[u8]) -> u64 {
    let made = fs.make(ROOT_INO, name, FILE).await.unwrap();
    if !content.is_empty() {
        fs.write(made.ino, 0, content).await.unwrap();
    }
    made.ino
}

async fn read(fs: &Fs, ino: u64) -> Result<String, FsError> {
    let mut bytes = Vec::new();
    for piece in fs.read(ino, 0, 1 << 20).await? {
        piece.append_to(&mut bytes);
    }
    Ok(String::from_utf8(bytes).unwrap())
}

async fn text(fs: &Fs, ino: u64) -> String {
    read(fs, ino).await.unwrap()
}

async fn is_conflict(unit: Unit) -> bool {
    matches!(unit.commit().await, Err(FsError::Conflict(_)))
}

/// Others see nothing of a unit until it ends, and then all of it; of an aborted one nothing remains.
#[test]
fn others_see_all_of_a_unit_or_nothing() {
    with_fs(8 << 20, async |_, fs| {
        let (a, b) = (
            make(&fs, b"a", b"old a").await,
            make(&fs, b"b", b"old b").await,
        );
        for commits in [false, true] {
            let before = dump(&fs).await.unwrap();
            let unit = fs.begin().unwrap();
            let own = unit.fs();
            own.write(a, 0, b"new a").await.unwrap();
            own.set_attr(b, sized(1)).await.unwrap();
            own.rename((ROOT_INO, b"b"), (ROOT_INO, b"c"), Rename::Replace)
                .await
                .unwrap();
            let made = own.make(ROOT_INO, b"d", FILE).await.unwrap();
            own.write(made.ino, 9000, b"end").await.unwrap();
            own.set_xattr(a, b"user.x", b"1", SetXattr::Any)
                .await
                .unwrap();
            assert_eq!(text(own, a).await, "new a");
            assert_eq!(text(own, b).await, "o");
            assert_eq!(dump(&fs).await.unwrap(), before);
            assert_eq!(text(&fs, a).await, "old a");
            assert!(matches!(fs.attr(made.ino).await, Err(FsError::NotFound)));
            assert!(
                fs.is_held(a)
                    && fs.is_name_held(ROOT_INO, b"c")
                    && !fs.is_name_held(ROOT_INO, b"a")
            );
            let own = own.clone();
            match commits {
                true => drop(unit.commit().await.unwrap()),
                false => drop(unit),
            }
            assert!(!fs.is_held(a));
            let refused = own.write(a, 0, b"late").await;
            assert!(matches!(refused, Err(FsError::UnitEnded(_))));
            let named = fs.look_up(ROOT_INO, b"c").await;
            assert_eq!(named.is_ok_and(|attr| attr.ino == b), commits);
            assert_eq!(text(&fs, a).await, if commits { "new a" } else { "old a" });
            assert_eq!(dump(&fs).await.unwrap() == before, !commits);
        }
        let counts = fs.unit_counts();
        assert_eq!((counts.open, counts.begun, counts.committed), (0, 2, 1));
        assert_eq!((counts.aborted, counts.conflicts), (1, 0));
    });
}

/// Changes of other programs while a unit is open that reads file a and writes file b, and whether each is a conflict for the unit.
const OTHERS: [(&str, bool); 16] = [
    ("nothing", false),
    ("another file", false),
    ("a file that it reads", true),
    ("a file that it writes", true),
    ("the same length again", true),
    ("space of it", true),
    ("attributes that it changes", true),
    ("the name that it makes", true),
    ("the name that it removes", true),
    ("the directory that it fills", true),
    ("the directory that it empties", true),
    ("other names of a directory", false),
    ("an attribute that it sets", true),
    ("the mode that it sets", true),
    ("the owner, where it sets the mode", false),
    ("the content of what it renames", false),
];

/// Does what is called `what` in [`OTHERS`].
async fn disturb(what: &str, fs: &Fs, a: u64, b: u64) -> Result<(), FsError> {
    let of = async |name: &[u8]| fs.look_up(ROOT_INO, name).await.map(|attr| attr.ino);
    let owner = SetAttr {
        uid: Some(9),
        ..SetAttr::default()
    };
    match what {
        "nothing" => Ok(()),
        "another file" => fs.make(ROOT_INO, b"other", FILE).await.map(drop),
        "a file that it reads" => fs.write(a, 1, b"!").await.map(drop),
        "a file that it writes" => fs.write(b, 9, b"!").await.map(drop),
        "the same length again" => fs.set_attr(b, sized(5)).await.map(drop),
        "space of it" => fs.allocate(b, 0, 1, Allocate::Punch).await,
        "attributes that it changes" => fs.set_attr(b, with_mode(0o600)).await.map(drop),
        "the name that it makes" => fs.make(ROOT_INO, b"made", FILE).await.map(drop),
        "the name that it removes" => fs.unlink(ROOT_INO, b"gone").await,
        "the directory that it fills" => fs.remove_dir(ROOT_INO, b"empty").await,
        "the directory that it empties" => {
            fs.make(of(b"old").await?, b"late", FILE).await.map(drop)
        }
        "other names of a directory" => {
            let empty = of(b"empty").await?;
            fs.make(empty, b"late", DIRECTORY).await.map(drop)
        }
        "an attribute that it sets" => fs.set_xattr(a, b"user.x", b"2", SetXattr::Any).await,
        "the mode that it sets" => {
            let plain = of(b"plain").await?;
            fs.set_attr(plain, with_mode(0o600)).await.map(drop)
        }
        "the owner, where it sets the mode" => {
            fs.set_attr(of(b"plain").await?, owner).await.map(drop)
        }
        "the content of what it renames" => fs.write(of(b"log").await?, 3, b"more").await.map(drop),
        _ => panic!("{what}"),
    }
}

#[test]
fn unit_conflicts_only_with_changes_to_what_it_uses() {
    for (what, conflicts) in OTHERS {
        with_fs(8 << 20, async move |rt, fs| {
            let (a, b) = (
                make(&fs, b"a", b"aaaaa").await,
                make(&fs, b"b", b"bbbbb").await,
            );
            make(&fs, b"gone", b"").await;
            make(&fs, b"log", b"log").await;
            let plain = make(&fs, b"plain", b"").await;
            for name in [&b"empty"[..], b"old"] {
                fs.make(ROOT_INO, name, DIRECTORY).await.unwrap();
            }
            let unit = fs.begin().unwrap();
            let own = unit.fs().clone();
            assert_eq!(text(&own, a).await, "aaaaa");
            own.write(b, 0, b"BB").await.unwrap();
            let set = with_mode(0o640);
            own.set_attr(b, set).await.unwrap();
            own.set_attr(plain, set).await.unwrap();
            own.make(ROOT_INO, b"made", FILE).await.unwrap();
            own.unlink(ROOT_INO, b"gone").await.unwrap();
            let dir = own.look_up(ROOT_INO, b"empty").await.unwrap().ino;
            own.make(dir, b"within", DIRECTORY).await.unwrap();
            own.remove_dir(ROOT_INO, b"old").await.unwrap();
            own.set_xattr(a, b"user.x", b"1", SetXattr::Any)
                .await
                .unwrap();
            own.rename((ROOT_INO, b"log"), (ROOT_INO, b"log.1"), Rename::Replace)
                .await
                .unwrap();
            // Times have milliseconds here. With other times it is a change.
            rt.sleep(Nanos::from_millis(2)).await;
            disturb(what, &fs, a, b).await.unwrap();
            let theirs = dump(&fs).await.unwrap();
            assert_eq!(is_conflict(unit).await, conflicts, "{what}");
            if conflicts {
                assert_eq!(dump(&fs).await.unwrap(), theirs, "{what}");
                return;
            }
            assert_eq!(text(&fs, b).await, "BBbbb", "{what}");
            assert_eq!(fs.attr(plain).await.unwrap().inode.mode & 0o777, 0o640);
            let dir = fs.attr(dir).await.unwrap().inode;
            assert_eq!(u64::from(dir.nlink), dir.size + 2, "{what}");
        });
    }
}

/// Two units move two directories into each other. One of them ends.
#[test]
fn no_directory_gets_above_itself() {
    with_fs(8 << 20, async |_, fs| {
        let mut dirs = Vec::new();
        for name in [&b"a"[..], b"b"] {
            dirs.push(fs.make(ROOT_INO, name, DIRECTORY).await.unwrap().ino);
        }
        let (one, other) = (fs.begin().unwrap(), fs.begin().unwrap());
        let (a, b) = ((ROOT_INO, &b"a"[..]), (ROOT_INO, &b"b"[..]));
        one.fs()
            .rename(a, (dirs[1], b"a"), Rename::Replace)
            .await
            .unwrap();
        other
            .fs()
            .rename(b, (dirs[0], b"b"), Rename::Replace)
            .await
            .unwrap();
        one.commit().await.unwrap();
        assert!(is_conflict(other).await);
    });
}

/// A unit that finds that it conflicts says so at once, and never calls the file system damaged.
#[test]
fn a_unit_that_cannot_end_refuses_its_operations() {
    with_fs(8 << 20, async |_, fs| {
        let a = make(&fs, b"a", &[1; 20_000]).await;
        let unit = fs.begin().unwrap();
        unit.fs().write(a, 30_000, &[2; 9000]).await.unwrap();
        fs.set_attr(a, sized(0)).await.unwrap();
        fs.write(a, 0, &[3; 40_000]).await.unwrap();
        for _ in 0..2 {
            let refused = unit.fs().write(a, 30_000, &[4; 20_000]).await;
            assert!(matches!(refused, Err(FsError::Conflict(_))), "{refused:?}");
        }
        assert!(is_conflict(unit).await);
        assert_eq!(fs.unit_counts().conflicts, 1);
    });
}

/// Files that lose their last name in a unit are deleted after it, and none of their space is lost.
#[test]
fn files_deleted_in_a_unit_are_freed_after_its_commit() {
    with_fs(8 << 20, async |rt, fs| {
        let (a, b) = (
            make(&fs, b"a", &[1; 50_000]).await,
            make(&fs, b"b", &[1; 50_000]).await,
        );
        fs.open_handle(b).unwrap();
        let unit = fs.begin().unwrap();
        let own = unit.fs();
        own.unlink(ROOT_INO, b"a").await.unwrap();
        own.unlink(ROOT_INO, b"b").await.unwrap();
        let made = own.make(ROOT_INO, b"new", FILE).await.unwrap();
        own.write(made.ino, 0, &[2; 50_000]).await.unwrap();
        own.unlink(ROOT_INO, b"new").await.unwrap();
        assert!(matches!(
            own.look_up(ROOT_INO, b"a").await,
            Err(FsError::NotFound)
        ));
        assert_eq!(fs.look_up(ROOT_INO, b"a").await.unwrap().ino, a);
        unit.commit().await.unwrap();
        rt.sleep(Nanos::from_millis(500)).await;
        assert!(matches!(fs.attr(a).await, Err(FsError::NotFound)));
        assert_eq!(fs.attr(b).await.unwrap().inode.nlink, 0);
        fs.close_handle(b);
        rt.sleep(Nanos::from_millis(500)).await;
        let report = sound(fs.disk()).await.unwrap();
        assert_eq!((report.inodes, report.orphans, report.blocks), (1, 0, 0));
    });
}

/// Units hold a bounded part of the memory. One that needs more fails alone, and operations outside of units go on.
#[test]
fn units_use_a_bounded_share_of_memory() {
    with_fs(24 << 20, async |_, fs| {
        let most = fs.disk().shadow_bytes_max();
        let a = make(&fs, b"a", b"").await;
        let mut units = Vec::new();
        let mut refused = 0;
        // Each holds what it can and does not end.
        for _ in 0..1024 {
            let unit = fs.begin().unwrap();
            let made = unit.fs().make(ROOT_INO, b"large", FILE).await;
            let filled = match made {
                Ok(Attr { ino, .. }) => unit.fs().write(ino, 0, &[7; 100_000]).await,
                Err(error) => Err(error),
            };
            refused += usize::from(matches!(filled, Err(FsError::UnitTooLarge)));
            assert!(
                fs.disk().shadow_bytes() <= most / 4,
                "{} of {most}",
                fs.disk().shadow_bytes()
            );
            units.push(unit);
        }
        assert!(refused > 0, "{most} bytes");
        assert!(matches!(fs.begin(), Err(FsError::TooManyUnits(1024))));
        for at in 0..20 {
            fs.write(a, at * 5000 + 1, &[1; 6000]).await.unwrap();
        }
        fs.sync(Some(a)).await.unwrap();
        units.clear();
        assert_eq!(fs.disk().shadow_bytes(), 0);
        assert_eq!(fs.unit_counts().aborted, 1024);
        fs.begin().unwrap().commit().await.unwrap();
    });
}

/// True when `unit` has ended without effect.
async fn has_ended(unit: &Unit) -> bool {
    let looked = unit.fs().look_up(ROOT_INO, b"none").await;
    matches!(looked, Err(FsError::UnitEnded(_)))
}

/// Writes `file` on from block `at` until the store is full. The end, in blocks, and the numbers of those of `units` that have ended,
/// each after the block at which it did.
async fn fill(fs: &Fs, file: u64, mut at: u64, units: &[Unit]) -> (u64, Vec<(u64, usize)>) {
    let mut ended: Vec<(u64, usize)> = Vec::new();
    loop {
        let written = fs.write(file, at * 4096, &[3; 4096]).await;
        for (number, unit) in units.iter().enumerate() {
            let is_known = ended.iter().any(|(_, known)| *known == number);
            if !is_known && has_ended(unit).await {
                ended.push((at, number));
            }
        }
        match written {
            Ok(_) => at += 1,
            Err(error) => {
                assert!(error.is_full(), "{error}");
                return (at, ended);
            }
        }
    }
}

/// The unit that needs the last space gets what open units hold, the oldest one first. One that has changed nothing goes on.
#[test]
fn the_oldest_unit_ends_when_space_is_short() {
    with_fs(8 << 20, async |_, fs| {
        let file = make(&fs, b"file", b"").await;
        let units: Vec<Unit> = (0..4).map(|_| fs.begin().unwrap()).collect();
        // The first one only reads, and tries what is not possible.
        let read = make(&fs, b"read", b"text").await;
        assert_eq!(text(units[0].fs(), read).await, "text");
        let removed = units[0].fs().unlink(ROOT_INO, b"none").await;
        assert!(matches!(removed, Err(FsError::NotFound)), "{removed:?}");
        for unit in &units[1..] {
            let made = unit.fs().make(ROOT_INO, b"own", FILE).await.unwrap();
            let written = unit.fs().write(made.ino, 0, &[7; 64 << 10]).await;
            written.unwrap();
            // What is freed now waits for this unit, and for those that have changed something before.
            make(&fs, b"freed", &[5; 64 << 10]).await;
            fs.unlink(ROOT_INO, b"freed").await.unwrap();
        }
        let (end, ended) = fill(&fs, file, 0, &units).await;
        let numbers: Vec<usize> = ended.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, [1, 2, 3], "{end} blocks");
        assert!(
            ended[0].0 < ended[1].0 && ended[1].0 < ended[2].0,
            "each ends when what the older ones held is used up: {ended:?}"
        );
        for (number, unit) in units.into_iter().enumerate() {
            let result = unit.commit().await;
            match numbers.contains(&number) {
                true => assert!(matches!(result, Err(FsError::UnitEnded(_))), "{result:?}"),
                false => assert!(result.is_ok(), "{number}: {result:?}"),
            }
        }
        // Nothing is left of those that have ended.
        let names = fs.look_up(ROOT_INO, b"own").await;
        assert!(matches!(names, Err(FsError::NotFound)), "{names:?}");
    });
}

/// A unit that has changed something keeps what others free since; it ends before they get ENOSPC.
#[test]
fn a_unit_that_keeps_freed_space_ends_when_space_is_short() {
    with_fs(8 << 20, async |_, fs| {
        let freed = make(&fs, b"freed", &[5; 256 << 10]).await;
        let file = make(&fs, b"file", b"").await;
        let (end, _) = fill(&fs, file, 0, &[]).await;
        let unit = fs.begin().unwrap();
        let attr = with_mode(0o600);
        unit.fs().set_attr(file, attr).await.unwrap();
        let nothing = sized(0);
        fs.set_attr(freed, nothing).await.unwrap();
        let (more, ended) = fill(&fs, file, end, std::slice::from_ref(&unit)).await;
        assert_eq!(ended.len(), 1);
        assert!(more >= end + 60, "{} blocks were freed", more - end);
        let result = unit.commit().await;
        assert!(matches!(result, Err(FsError::UnitEnded(_))), "{result:?}");
        assert_eq!(fs.attr(file).await.unwrap().inode.mode, FILE.mode);
    });
}

/// The amount that a file has.
async fn amount(fs: &Fs, file: u8) -> Result<(u64, u64), FsError> {
    let ino = fs.look_up(ROOT_INO, &[b'0' + file]).await?.ino;
    Ok((ino, read(fs, ino).await?.trim().parse().unwrap()))
}

/// The sum of all amounts. `None` when they are of different commits.
async fn sum(fs: &Fs) -> Result<Option<u64>, FsError> {
    let (unit, mut sum) = (fs.begin()?, 0);
    for file in 0..FILES {
        sum += match amount(unit.fs(), file).await {
            Err(FsError::NotFound | FsError::Conflict(_)) => return Ok(None),
            found => found?.1,
        };
    }
    match unit.commit().await {
        Err(FsError::Conflict(_)) => Ok(None),
        ended => ended.map(|_| Some(sum)),
    }
}

/// Moves an amount from one file to another, in a unit: one is written over, the other is replaced.
async fn transfer(fs: &Fs, from: u8, to: u8, moved: u64) -> Result<Option<Lsn>, FsError> {
    let unit = fs.begin()?;
    let own = unit.fs();
    let (one, has) = amount(own, from).await?;
    let (other, gets) = amount(own, to).await?;
    if one == other || has < moved {
        return Ok(None);
    }
    own.write(one, 0, format!("{:<8}", has - moved).as_bytes())
        .await?;
    let made = own.make(ROOT_INO, b"new", FILE).await?.ino;
    own.write(made, 0, format!("{:<8}", gets + moved).as_bytes())
        .await?;
    let to = [b'0' + to];
    own.rename((ROOT_INO, b"new"), (ROOT_INO, &to), Rename::Replace)
        .await?;
    unit.commit().await.map(Some)
}

const FILES: u8 = 6;
const SUM: u64 = 100 * FILES as u64;

/// Clients move amounts between files in units, so that the sum stays. The power is cut somewhere. A unit that was durable is
/// still there, and none is there in part.
#[test]
fn transfers_in_units_keep_their_sum_after_a_cut() {
    let (mut committed, mut conflicts) = (0, 0);
    for seed in 0..40 {
        let image = store(Layout::Overwrite, 4 << 20);
        let counts = Rc::new(Cell::new(UnitCounts::default()));
        let own = counts.clone();
        let (crash, durable) = image.with_fs(seed, async move |world, rt, fs| {
            let disk = fs.disk().clone();
            for file in 0..FILES {
                make(&fs, &[b'0' + file], b"100").await;
            }
            fs.sync(None).await.unwrap();
            for client in 0..3 {
                let (fs, task) = (fs.clone(), rt.clone());
                rt.spawn_detached(async move {
                    let mut random = ChaCha8Rng::seed_from_u64(seed * 16 + client);
                    loop {
                        let mut file = || (random.next_u64() % u64::from(FILES)) as u8;
                        let (from, to) = (file(), file());
                        match transfer(&fs, from, to, 1 + random.next_u64() % 20).await {
                            Ok(Some(lsn)) if random.next_u64().is_multiple_of(2) => {
                                fs.disk().wait_durable(lsn).await.unwrap();
                            }
                            Ok(_) | Err(FsError::Conflict(_) | FsError::NotFound) => {}
                            Err(error) => panic!("{error:?}"),
                        }
                        if let Some(sum) = sum(&fs).await.unwrap() {
                            assert_eq!(sum, SUM, "seed {seed}");
                        }
                        task.sleep(Nanos(random.next_u64() % 3_000_000)).await;
                    }
                });
            }
            let pause = ChaCha8Rng::seed_from_u64(seed).next_u64() % 200_000_000;
            rt.sleep(Nanos(1_000_000 + pause)).await;
            own.set(fs.unit_counts());
            let durable = disk.engine().marks().durable;
            (world.crash(), durable)
        });
        let left = image.with(crash.images(seed));
        left.with_disk(seed, async move |_, rt, disk| {
            assert!(disk.engine().marks().appended >= durable, "seed {seed}");
            let fs = Fs::open(&disk, &rt, trees::time(&rt)).await.unwrap();
            sound(&disk).await.unwrap();
            assert_eq!(sum(&fs).await.unwrap(), Some(SUM), "seed {seed}");
        });
        let counts = counts.get();
        (committed, conflicts) = (committed + counts.committed, conflicts + counts.conflicts);
    }
    println!("{committed} units, {conflicts} conflicts");
    assert!(committed > 500 && conflicts > 50, "{committed} {conflicts}");
}

/// A unit gives a name to another file within the resolution of the clock, so that the inode of the directory stays as
/// it was. The sync of the directory waits for the unit nevertheless; likewise that of a file with another attribute.
#[test]
fn file_sync_covers_unit_changes_outside_the_inode() {
    store(Layout::Overwrite, 1 << 20).with_disk(1, async |_, rt, disk| {
        let fs = Fs::open(&disk, &rt, Default::default).await.unwrap();
        fs.open_handle(ROOT_INO).unwrap();
        make(&fs, b"name", b"").await;
        let file = make(&fs, b"file", b"").await;
        fs.open_handle(file).unwrap();
        let put = async |fs: &Fs, value: &[u8]| {
            let set = fs.set_xattr(file, b"user.a", value, SetXattr::Any);
            set.await.unwrap();
        };
        put(&fs, b"old").await;
        fs.sync(None).await.unwrap();
        for ino in [ROOT_INO, file] {
            let unit = fs.begin().unwrap();
            if ino == file {
                put(unit.fs(), b"new").await;
            } else {
                unit.fs().unlink(ROOT_INO, b"name").await.unwrap();
                make(unit.fs(), b"name", b"").await;
            }
            let before = fs.attr(ino).await.unwrap();
            let lsn = unit.commit().await.unwrap();
            assert!(fs.attr(ino).await.unwrap() == before);
            fs.sync(Some(ino)).await.unwrap();
            assert!(disk.engine().marks().durable >= lsn, "{ino}");
        }
    });
}

/// What a unit has changed first is compared with what others commit, also when the unit changes it again after them.
#[test]
fn a_second_change_does_not_hide_what_others_have_changed() {
    with_fs(1 << 20, async |_, fs| {
        let file = make(&fs, b"file", b"").await;
        let mode = |mode| with_mode(mode);
        let unit = fs.begin().unwrap();
        unit.fs().set_attr(file, mode(0o600)).await.unwrap();
        fs.set_attr(file, mode(0o640)).await.unwrap();
        let owner = SetAttr {
            uid: Some(5),
            ..SetAttr::default()
        };
        unit.fs().set_attr(file, owner).await.unwrap();
        assert!(is_conflict(unit).await);
        let inode = fs.attr(file).await.unwrap().inode;
        assert_eq!((inode.mode & 0o777, inode.uid), (0o640, 0));
    });
}

/// A cold read of many runs during the commit of a unit that cuts the file off returns what the file had before the unit or after
/// it, and nothing of a file that gets the blocks then.
#[test]
fn read_during_a_unit_commit_is_not_torn() {
    const RUNS: u64 = 32;
    for wait in 0..20u64 {
        with_fs(8 << 20, async move |rt, fs| {
            let file = make(&fs, b"file", b"").await;
            for at in 0..RUNS {
                fs.write(file, at * 8192, &[7; 4096]).await.unwrap();
            }
            fs.disk().flush().await.unwrap();
            fs.disk().engine().drain().await.unwrap();
            let unit = fs.begin().unwrap();
            let cut = sized(0);
            unit.fs().set_attr(file, cut).await.unwrap();
            let own = fs.clone();
            let reader = rt.spawn(async move { own.read(file, 0, 1 << 20).await });
            rt.sleep(Nanos(wait * 10_000)).await;
            if unit.commit().await.is_ok() {
                let other = make(&fs, b"other", b"").await;
                let data = vec![9; RUNS as usize * 4096];
                fs.write(other, 0, &data).await.unwrap();
            }
            let (mut read, mut own) = (0, 0);
            for piece in reader.await.unwrap() {
                match piece {
                    Piece::Data(data) => {
                        read += data.len();
                        own += data.iter().filter(|byte| **byte == 7).count() as u64;
                    }
                    Piece::Zero(count) => read += count,
                }
            }
            let expected = if read == 0 { 0 } else { RUNS * 4096 };
            assert_eq!(own, expected, "wait {wait}: {read} bytes");
        });
    }
}
