//! Files that an earlier version kept in the volume table are moved into the tree when it is opened.

#![allow(clippy::unwrap_used)]

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_disk::{Disk, Piece};
use tonearm_fs::{Fs, FsError, New, ROOT_INO};
use tonearm_rt::Rt;
use tonearm_sim::archives::{open_options, shape};
use tonearm_sim::trees::{sound, time};
use tonearm_sim::{Layout, Shape, StoreImage};
use tonearm_store::Store;
use tonearm_store::files::{Files, Open};
use tonearm_world::SimWorld;

type Contents = BTreeMap<String, Vec<u8>>;

const BLOCK: usize = 4096;

fn store(spare: u64) -> StoreImage {
    let small = Shape {
        blocks: 1,
        ..shape(Layout::Overwrite, 32)
    };
    small.create_with_spare(spare)
}

fn contents() -> Contents {
    let mut sparse = vec![0; 40 * BLOCK + 10];
    sparse[..BLOCK].fill(1);
    sparse[39 * BLOCK..].fill(2);
    let files = [
        ("app.db", (0..70_000).map(|at| (at % 251) as u8).collect()),
        ("app.db-wal", vec![7; 5000]),
        ("a b/c/deep", b"deep".to_vec()),
        ("a b/other", vec![9; 3 * BLOCK]),
        ("empty", Vec::new()),
        ("sparse", sparse),
    ];
    files
        .into_iter()
        .map(|(name, bytes): (&str, Vec<u8>)| (name.to_string(), bytes))
        .collect()
}

/// Makes files in the volume table, as earlier versions did.
async fn make(disk: &Disk, contents: &Contents) {
    for (name, bytes) in contents {
        let mut unit = disk.begin();
        let file = unit.create_file(name, [7; 16], 5).await.unwrap();
        unit.resize(&file, bytes.len() as u64).await.unwrap();
        unit.end().await.unwrap();
        for (at, block) in bytes.chunks(BLOCK).enumerate() {
            if block.iter().any(|byte| *byte != 0) {
                let mut unit = disk.begin();
                unit.write(&file, (at * BLOCK) as u64, block).await.unwrap();
                unit.end().await.unwrap();
            }
        }
    }
    disk.flush().await.unwrap();
}

fn joined(pieces: Vec<Piece>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Data(data) => bytes.extend_from_slice(&data),
            Piece::Zero(count) => bytes.resize(bytes.len() + count, 0),
        }
    }
    bytes
}

/// The files of the tree that have one of the names.
async fn in_tree(fs: &Fs, contents: &Contents) -> Contents {
    let mut found = Contents::new();
    for name in contents.keys() {
        match fs.at(name.as_bytes()).await {
            Ok(file) => {
                let bytes = fs.read(file.ino, 0, file.inode.size).await.unwrap();
                found.insert(name.clone(), joined(bytes));
            }
            Err(error) => assert!(matches!(error, FsError::NotFound), "{error}"),
        }
    }
    found
}

async fn in_table(disk: &Disk) -> Contents {
    let mut found = Contents::new();
    for info in disk.files() {
        let volume = disk.volume(&info.name).unwrap();
        let bytes = volume.read(0, info.size_bytes).await.unwrap();
        found.insert(info.name, joined(bytes));
    }
    found
}

/// A store with files in the volume table.
fn old(spare: u64, contents: &Rc<Contents>) -> StoreImage {
    let mut image = store(spare);
    let files = contents.clone();
    let (_, world) = image.run(1, move |_, rt: Rt, image: StoreImage| async move {
        let disk = image.open_disk(&rt, open_options()).await.unwrap();
        make(&disk, &files).await;
        assert!(in_table(&disk).await == *files);
        disk.close().await.unwrap();
    });
    image.disks = world.images();
    image
}

#[test]
fn files_of_the_volume_table_are_moved_with_their_content() {
    let files = Rc::new(contents());
    let image = old(4 << 20, &files);
    image.run(2, move |_, rt: Rt, image: StoreImage| async move {
        let disk = image.open_disk(&rt, open_options()).await.unwrap();
        let free = disk.free_bytes();
        let fs = Fs::open(&disk, &rt, time(&rt)).await.unwrap();
        assert!(fs.convert().await.unwrap().is_empty() && disk.files().is_empty());
        assert!(in_tree(&fs, &files).await == *files);
        let sparse = fs.at(b"sparse").await.unwrap().inode;
        assert_eq!(
            (sparse.blocks, sparse.mtime.s),
            (3, 5),
            "holes stay, and the time"
        );
        let report = sound(&disk).await.unwrap();
        assert_eq!((report.inodes, report.orphans), (9, 0));
        assert!(disk.free_bytes() < free, "the lists have the blocks");
    });
}

#[test]
fn a_cut_during_the_move_leaves_each_file_in_one_place() {
    let files = Rc::new(contents());
    let image = old(4 << 20, &files);
    let (mut tables, mut trees, mut both) = (0, 0, 0);
    for seed in 0..60 {
        let mut image = image.with(image.disks.clone());
        let (crash, _) = image.run(
            seed,
            move |world: SimWorld, rt: Rt, image: StoreImage| async move {
                let disk = image.open_disk(&rt, open_options()).await.unwrap();
                let own = rt.clone();
                rt.spawn_detached(async move {
                    let fs = Fs::open(&disk, &own, time(&own)).await.unwrap();
                    fs.convert().await.unwrap();
                    fs.sync(None).await.unwrap();
                });
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                let most = 1000 << (random.next_u64() % 16);
                rt.sleep(Nanos(random.next_u64() % most)).await;
                world.crash()
            },
        );
        image.disks = crash.images(seed);
        let files = files.clone();
        let ((table, tree), _) = image.run(seed, move |_, rt: Rt, image: StoreImage| async move {
            let disk = image.open_disk(&rt, open_options()).await.unwrap();
            let before = in_table(&disk).await;
            for (name, bytes) in &before {
                assert!(files[name] == *bytes, "seed {seed}: {name}");
            }
            sound(&disk).await.unwrap();
            let fs = Fs::open(&disk, &rt, time(&rt)).await.unwrap();
            assert!(fs.convert().await.unwrap().is_empty() && disk.files().is_empty());
            assert!(in_tree(&fs, &files).await == *files, "seed {seed}");
            let report = sound(&disk).await.unwrap();
            assert_eq!((report.inodes, report.orphans), (9, 0), "seed {seed}");
            (before.len(), files.len() - before.len())
        });
        tables += usize::from(table > 0 && tree == 0);
        trees += usize::from(table == 0);
        both += usize::from(table > 0 && tree > 0);
    }
    assert!(
        tables > 2 && trees > 2 && both > 5,
        "{tables} {trees} {both}"
    );
}

/// A cut between the name and the deletion would leave the file in both places or in none. They are one commit: an empty file is
/// made, gets its attributes, and is moved, in three.
#[test]
fn a_file_gets_its_name_and_leaves_the_table_in_one_commit() {
    let files = Rc::new(Contents::from([("empty".to_string(), Vec::new())]));
    let image = old(4 << 20, &files);
    image.run(2, move |_, rt: Rt, image: StoreImage| async move {
        let disk = image.open_disk(&rt, open_options()).await.unwrap();
        let fs = Fs::open(&disk, &rt, time(&rt)).await.unwrap();
        let before = disk.marks().appended;
        assert!(fs.convert().await.unwrap().is_empty());
        assert_eq!(disk.marks().appended.0, before.0 + 3);
        assert!(in_tree(&fs, &files).await == *files && disk.files().is_empty());
    });
}

/// A file for whose copy there is no room stays where it is, and so does one whose name is taken.
#[test]
fn files_that_cannot_be_moved_stay_in_the_table_and_can_be_used() {
    let mut files = contents();
    files.insert("large".into(), vec![3; 5 << 20]);
    let files = Rc::new(files);
    let image = old(8 << 20, &files);
    image.run(2, move |_, rt: Rt, image: StoreImage| async move {
        let disk = image.open_disk(&rt, open_options()).await.unwrap();
        let fs = Fs::open(&disk, &rt, time(&rt)).await.unwrap();
        let left = fs.convert().await.unwrap();
        assert_eq!((left.len(), left[0].name.as_str()), (1, "large"));
        assert!(left[0].why.is_full(), "{}", left[0].why);
        assert_eq!(disk.files().len(), 1);
        assert_eq!(
            sound(&disk).await.unwrap().orphans,
            0,
            "nothing of the copy is left"
        );
        let new = New {
            mode: 0o100_644,
            ..New::default()
        };
        fs.make(ROOT_INO, b"large", new).await.unwrap();
        // The name belongs to the new file; the old one stays.
        let left = fs.convert().await.unwrap();
        assert!(matches!(left[0].why, FsError::Exists));
        disk.close().await.unwrap();
    });
}

/// The first use of any file moves all of them, so that none is moved while it is open in the table.
#[test]
fn sessions_move_the_files_before_they_use_one() {
    let files = Rc::new(contents());
    let image = old(4 << 20, &files);
    let world = SimWorld::new(Default::default(), image.disks.clone());
    let rt = Rt::new(world.driver());
    let (own, opening) = (rt.clone(), image.with(image.disks.clone()));
    let disk = rt.block_on(async move { opening.open_disk(&own, open_options()).await });
    let disk = disk.unwrap();
    let store = Store::over(rt.clone(), disk.clone());
    let listed = store.files().unwrap().list_all("").unwrap();
    let names: Vec<&str> = listed.iter().map(|file| &file.name[..]).collect();
    assert_eq!(names, ["a b", "app.db", "app.db-wal", "empty", "sparse"]);
    assert!(disk.files().is_empty());
    let mut unit = store.begin().unwrap();
    assert_eq!(unit.read("a b/c/deep", 0, 9).unwrap(), b"deep");
    unit.write("a b/c/deep", 4, b"er").unwrap();
    unit.end().unwrap();
    let session = store.files().unwrap();
    let file = session.open("app.db", Open::default()).unwrap();
    let mut bytes = vec![0; files["app.db"].len()];
    session.read(file, None, 0, &mut bytes).unwrap();
    assert!(bytes == files["app.db"]);
    assert_eq!(store.read("a b/c/deep", 0, 9).unwrap(), b"deeper");
    drop((session, store, disk));
    rt.shut_down();
}

#[test]
fn sessions_use_a_file_that_stays_in_the_table() {
    let files = Rc::new(Contents::from([("large".to_string(), vec![3; 5 << 20])]));
    let image = old(8 << 20, &files);
    let world = SimWorld::new(Default::default(), image.disks.clone());
    let rt = Rt::new(world.driver());
    let (own, opening) = (rt.clone(), image.with(image.disks.clone()));
    let disk = rt.block_on(async move { opening.open_disk(&own, open_options()).await });
    let store = Store::over(rt.clone(), disk.unwrap());
    let session = store.files().unwrap();
    let file = session.open("large", Open::default()).unwrap();
    session.write(file, None, 10, b"changed").unwrap();
    let mut bytes = [0; 20];
    session.read(file, None, 0, &mut bytes).unwrap();
    assert_eq!(&bytes[8..18], b"\x03\x03changed\x03");
    let names = |path: &str| -> Vec<String> {
        let files = session.list_all(path).unwrap();
        files.into_iter().map(|file| file.name).collect()
    };
    assert_eq!(names(""), ["large"]);
    let create = Open {
        create: true,
        exclusive: true,
    };
    assert!(session.open("large", create).is_err());
    session.open("new", create).unwrap();
    assert!(session.rename("large", "new").is_err());
    assert!(session.rename("new", "large").is_err());
    session.close(session.open("/large", Open::default()).unwrap());
    assert_eq!(names(""), ["large", "new"]);
    session.close(file);
    session.delete("large").unwrap();
    assert_eq!(names(""), ["new"]);
    drop((session, store));
    rt.shut_down();
}
