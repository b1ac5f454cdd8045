//! Volumes: names, sizes, a full store.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, bytes, cuts, on_disk, store, with};
use tonearm_base::BufPool;
use tonearm_disk::{Disk, DiskError, ErrorKind, OpenOptions};

const B: u64 = BLOCK as u64;

async fn make(disk: &Disk, name: &str, content: &[u8]) -> tonearm_disk::Volume {
    let mut aru = disk.begin();
    let size = content.len() as u64;
    let file = aru.create_volume(name, size, [7; 16], 5).await.unwrap();
    aru.write(&file, 0, content).await.unwrap();
    aru.end().await.unwrap();
    file
}

async fn content(disk: &Disk, name: &str) -> Vec<u8> {
    let file = disk.volume(name).unwrap();
    bytes(file.read(0, file.size_bytes()).await.unwrap())
}

fn names(disk: &Disk) -> Vec<String> {
    let volumes = disk.volumes().into_iter().map(|volume| volume.name);
    volumes.filter(|name| name != "main").collect()
}

#[test]
fn volumes_are_made_renamed_and_deleted_in_one_unit() {
    let image = on_disk(async |disk| {
        make(&disk, "old", b"old").await;
        make(&disk, "gone", b"gone").await;
        let mut aru = disk.begin();
        aru.delete_volume("old").await.unwrap();
        aru.delete_volume("gone").await.unwrap();
        let new = aru.create_volume("new", 3, [1; 16], 1).await.unwrap();
        aru.write(&new, 0, b"new").await.unwrap();
        aru.rename_volume("new", "old").await.unwrap();
        assert_eq!(aru.size_bytes(&aru.volume("old").unwrap()), 3);
        let missing = aru.volume("gone").err().unwrap();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert_eq!(names(&disk), ["gone", "old"]);
        assert_eq!(content(&disk, "old").await, b"old");
        aru.end().await.unwrap();
        assert_eq!(names(&disk), ["old"]);
        assert_eq!(content(&disk, "old").await, b"new");
    });
    with(&image, OpenOptions::default(), async |disk| {
        assert_eq!(names(&disk), ["old"]);
        assert_eq!(content(&disk, "old").await, b"new");
    });
}

#[test]
fn names_collide_at_once_or_at_the_end() {
    on_disk(async |disk| {
        make(&disk, "x", b"x").await;
        let (mut a, mut b) = (disk.begin(), disk.begin());
        let exists = |error: DiskError| assert_eq!(error.kind(), ErrorKind::Exists);
        exists(a.create_volume("x", B, [1; 16], 1).await.err().unwrap());
        exists(a.create_volume("main", B, [1; 16], 1).await.err().unwrap());
        a.create_volume("y", B, [1; 16], 1).await.unwrap();
        b.create_volume("y", B, [2; 16], 1).await.unwrap();
        exists(b.rename_volume("x", "y").await.err().unwrap());
        b.end().await.unwrap();
        assert_eq!(a.end().await.unwrap_err().kind(), ErrorKind::Conflict);
        for name in [
            "",
            ".lists",
            ".spill",
            "a\nb",
            "a b",
            "a/b",
            &"x".repeat(256),
        ] {
            let error = disk.begin().create_volume(name, B, [1; 16], 1).await;
            assert_eq!(error.err().unwrap().kind(), ErrorKind::Invalid, "{name:?}");
            let error = disk.begin().rename_volume("main", name).await;
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid, "{name:?}");
        }
        // One that renames a volume and one that deletes it.
        let (mut a, mut b) = (disk.begin(), disk.begin());
        a.rename_volume("x", "z").await.unwrap();
        b.delete_volume("x").await.unwrap();
        b.end().await.unwrap();
        assert_eq!(a.end().await.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(names(&disk), ["y"]);
    });
}

#[test]
fn write_beyond_the_end_is_refused() {
    on_disk(async |disk| {
        let file = make(&disk, "f", &[1; BLOCK + 10]).await;
        let mut aru = disk.begin();
        for (offset, len) in [(B + 10, 1), (B, 11), (0, 2 * BLOCK), (u64::MAX, 2)] {
            let error = aru.write(&file, offset, &vec![2; len]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfRange, "{len} at {offset}");
            let error = disk.write(&file, offset, &vec![2; len]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfRange, "{len} at {offset}");
        }
        assert!(aru.is_empty());
        // The unit sees its own size.
        aru.resize(&file, 2 * B).await.unwrap();
        aru.write(&file, B + 10, b"end").await.unwrap();
        let beyond = aru.read(&file, 2 * B - 3, 4).await.err().unwrap();
        assert_eq!(beyond.kind(), ErrorKind::OutOfRange);
        aru.end().await.unwrap();
        assert_eq!(
            content(&disk, "f").await[BLOCK + 9..BLOCK + 14],
            *b"\x01end\0"
        );
    });
}

#[test]
fn volume_without_room_leaves_nothing_in_its_unit() {
    on_disk(async |disk| {
        let mut aru = disk.begin();
        let too_much = disk.size_bytes() + 100;
        let full = aru.create_volume("f", too_much, [1; 16], 1).await;
        assert_eq!(full.err().unwrap().kind(), ErrorKind::NoSpace);
        let empty = aru.create_volume("f", 0, [1; 16], 1).await;
        assert_eq!(empty.err().unwrap().kind(), ErrorKind::Invalid);
        aru.create_volume("g", B, [1; 16], 1).await.unwrap();
        aru.end().await.unwrap();
        assert_eq!(names(&disk), ["g"]);
    });
}

#[test]
fn truncated_bytes_never_come_back() {
    on_disk(async |disk| {
        let file = make(&disk, "f", &[7; 20 * BLOCK]).await;
        let mut aru = disk.begin();
        aru.write(&file, 12 * B, &[8; BLOCK]).await.unwrap();
        aru.resize(&file, 5 * B + 100).await.unwrap();
        aru.resize(&file, 18 * B).await.unwrap();
        aru.write(&file, 15 * B, &[9; BLOCK]).await.unwrap();
        let mut model = vec![0; 18 * BLOCK];
        model[..5 * BLOCK + 100].fill(7);
        model[15 * BLOCK..16 * BLOCK].fill(9);
        assert!(bytes(aru.read(&file, 0, 18 * B).await.unwrap()) == model);
        aru.end().await.unwrap();
        assert!(content(&disk, "f").await == model);
        // And over several units.
        for size in [3 * B + 1, 1, 2 * B, 19 * B] {
            let mut aru = disk.begin();
            aru.resize(&file, size).await.unwrap();
            aru.end().await.unwrap();
            model.truncate(size as usize);
            model.resize(size as usize, 0);
            assert!(content(&disk, "f").await == model, "{size}");
        }
    });
}

#[test]
fn truncated_volume_bytes_never_come_back() {
    on_disk(async |disk| {
        disk.resize_volume("main", 20 * B).await.unwrap();
        let main = disk.volume("main").unwrap();
        let mut data = BufPool::new(0).alloc(20 * BLOCK);
        data.fill(7);
        main.write(0, data.share(), false).await.unwrap();
        let mut model = vec![7; 20 * BLOCK];
        for size in [12 * B, 18 * B, 3 * B + 1, 4 * B, B, 2 * B + 100, 19 * B] {
            disk.resize_volume("main", size).await.unwrap();
            model.truncate(size as usize);
            model.resize(size as usize, 0);
            assert!(content(&disk, "main").await == model, "{size}");
        }
    });
}

#[test]
fn trim_keeps_neighbouring_bytes_of_partial_blocks() {
    on_disk(async |disk| {
        let size = 3 * BLOCK + 500;
        disk.resize_volume("main", size as u64).await.unwrap();
        let main = disk.volume("main").unwrap();
        let mut data = BufPool::new(0).alloc(size);
        data.fill(7);
        main.write(0, data.share(), false).await.unwrap();
        let mut model = vec![7; size];
        // Bytes that are trimmed, and those that read as zeroes then. The last block ends with the volume.
        for (trimmed, gone) in [
            (10..20, 0..0),
            (BLOCK - 10..BLOCK + 10, 0..0),
            (100..2 * BLOCK + 100, BLOCK..2 * BLOCK),
            (2 * BLOCK + 1..size - 1, 0..0),
            (2 * BLOCK + 1..size, 3 * BLOCK..size),
            (0..BLOCK, 0..BLOCK),
        ] {
            let (offset, len) = (trimmed.start as u64, trimmed.len() as u64);
            main.trim(offset, len, false).await.unwrap();
            model[gone].fill(0);
            assert!(content(&disk, "main").await == model, "{trimmed:?}");
        }
    });
}

#[test]
fn volume_changes_persist_once_acknowledged() {
    let image = on_disk(async |_| {});
    let cuts = cuts(&image, 5, async |disk, acknowledged| {
        disk.create_volume("v", B, [3; 16], 1).await.unwrap();
        acknowledged.set(1);
        disk.resize_volume("v", 3 * B).await.unwrap();
        acknowledged.set(2);
        disk.delete_volume("v").await.unwrap();
        acknowledged.set(3);
        disk.flush().await.unwrap();
        disk.close().await.unwrap();
    });
    assert!((0..=3).all(|step| cuts.iter().any(|(_, acknowledged)| *acknowledged == step)));
    for (image, acknowledged) in cuts {
        with(&image, OpenOptions::default(), async move |disk| {
            let size = disk.volume("v").map(|volume| volume.size_bytes() / B).ok();
            let is_possible = match size {
                None => acknowledged == 0 || acknowledged >= 2,
                Some(1) => acknowledged <= 1,
                Some(3) => acknowledged == 1 || acknowledged == 2,
                _ => false,
            };
            assert!(is_possible, "{size:?} blocks after step {acknowledged}");
        });
    }
}

#[test]
fn growing_unit_conflicts_with_a_shrinking_one() {
    on_disk(async |disk| {
        let file = make(&disk, "f", &[1; 3 * BLOCK]).await;
        let (mut a, mut b) = (disk.begin(), disk.begin());
        a.resize(&file, 50 * B).await.unwrap();
        b.resize(&file, B).await.unwrap();
        b.end().await.unwrap();
        assert_eq!(a.end().await.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(file.size_bytes(), B);
    });
}

#[test]
fn a_store_that_is_nearly_full_gives_what_is_needed() {
    let (_, image) = with(&store(1 << 20), OpenOptions::default(), async |disk| {
        let free = disk.free_bytes();
        make(&disk, "f", &[1; BLOCK]).await;
        let mut size = B;
        let error = loop {
            match disk.resize_volume("f", size + B).await {
                Ok(()) => size += B,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, DiskError::StoreFull { .. }), "{error}");
        assert_eq!((size, disk.free_bytes()), (free, 0), "to the last block");
        // There is no room either while a unit holds the space.
        disk.delete_volume("f").await.unwrap();
        let mut aru = disk.begin();
        aru.create_volume("g", free, [1; 16], 1).await.unwrap();
        let full = disk.create_volume("w", B, [1; 16], 1).await.unwrap_err();
        assert_eq!(full.kind(), ErrorKind::NoSpace);
        aru.abort();
        disk.create_volume("w", B, [1; 16], 1).await.unwrap();
    });
    with(&image, OpenOptions::default(), async |disk| {
        assert_eq!(disk.volumes().len(), 2);
    });
}

#[test]
fn the_table_of_volumes_fills_up_and_is_freed() {
    on_disk(async |disk| {
        let mut aru = disk.begin();
        for number in 0..255 {
            aru.create_volume(&format!("f{number}"), B, [1; 16], 1)
                .await
                .unwrap();
        }
        let error = disk.create_volume("one", B, [1; 16], 1).await.unwrap_err();
        assert!(matches!(error, DiskError::TooManyVolumes(256)), "{error}");
        aru.end().await.unwrap();
        assert_eq!(names(&disk).len(), 255);
        let mut aru = disk.begin();
        for number in 0..255 {
            aru.delete_volume(&format!("f{number}")).await.unwrap();
        }
        aru.end().await.unwrap();
        disk.create_volume("one", B, [1; 16], 1).await.unwrap();
    });
}

#[test]
fn a_size_that_a_unit_sets_cuts_off_what_others_add_meanwhile() {
    on_disk(async |disk| {
        for size in [B + 50, B + 100, B + 150] {
            let file = make(&disk, "f", &[1; BLOCK + 100]).await;
            let (mut a, mut b) = (disk.begin(), disk.begin());
            a.resize(&file, size).await.unwrap();
            b.resize(&file, 3 * B).await.unwrap();
            b.write(&file, B, &[2; 2 * BLOCK]).await.unwrap();
            b.end().await.unwrap();
            // In the same unit, and in a later one.
            if size == B + 50 {
                a.resize(&file, 3 * B).await.unwrap();
            } else {
                a.end().await.unwrap();
                a = disk.begin();
                a.resize(&file, 3 * B).await.unwrap();
            }
            a.end().await.unwrap();
            let now = content(&disk, "f").await;
            assert_eq!(now.len() as u64, 3 * B);
            let added = &now[size as usize..];
            assert!(added.iter().all(|byte| *byte == 0), "cut to {size}");
            disk.delete_volume("f").await.unwrap();
        }
    });
}

#[test]
fn resize_without_space_changes_nothing() {
    on_disk(async |disk| {
        let file = make(&disk, "f", &[1; BLOCK]).await;
        let (mut a, mut b) = (disk.begin(), disk.begin());
        a.write(&file, 0, &[2; 10]).await.unwrap();
        // Into the middle of a block that the file can never have.
        let too_much = disk.size_bytes() + 100;
        let full = a.resize(&file, too_much).await.unwrap_err();
        assert_eq!(full.kind(), ErrorKind::NoSpace);
        assert_eq!(a.size_bytes(&file), B);
        b.resize(&file, 2 * B).await.unwrap();
        b.write(&file, B, &[3; BLOCK]).await.unwrap();
        b.end().await.unwrap();
        a.end().await.unwrap();
        let now = content(&disk, "f").await;
        assert!(now[..10].iter().all(|byte| *byte == 2));
        assert!(now[10..BLOCK].iter().all(|byte| *byte == 1));
        assert!(now[BLOCK..].iter().all(|byte| *byte == 3));
        assert_eq!(now.len(), 2 * BLOCK);
    });
}

/// The rest of a block that a unit wrote in part is of what the file was; a file that is as long again is another.
#[test]
fn unit_conflicts_with_truncation_followed_by_growth() {
    on_disk(async |disk| {
        let file = make(&disk, "f", &[1; BLOCK]).await;
        let mut slow = disk.begin();
        slow.write(&file, 10, b"here").await.unwrap();
        for size in [1, B] {
            let mut other = disk.begin();
            other.resize(&file, size).await.unwrap();
            other.end().await.unwrap();
        }
        let error = slow.end().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        let now = content(&disk, "f").await;
        assert_eq!((now[0], &now[1..]), (1, &[0; BLOCK - 1][..]));
    });
}
