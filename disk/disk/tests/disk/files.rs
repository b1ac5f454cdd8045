//! Files: names, growth, sizes, a full store.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, bytes, cuts, on_disk, store, with};
use tonearm_base::BufPool;
use tonearm_disk::{Disk, DiskError, ErrorKind, OpenOptions};

const B: u64 = BLOCK as u64;

async fn make(disk: &Disk, name: &str, content: &[u8]) -> tonearm_disk::Volume {
    let mut aru = disk.begin();
    let file = aru.create_file(name, [7; 16], 5).await.unwrap();
    aru.write(&file, 0, content).await.unwrap();
    aru.end().await.unwrap();
    file
}

async fn content(disk: &Disk, name: &str) -> Vec<u8> {
    let file = disk.volume(name).unwrap();
    bytes(file.read(0, file.size_bytes()).await.unwrap())
}

fn names(disk: &Disk) -> Vec<String> {
    disk.files().into_iter().map(|file| file.name).collect()
}

#[test]
fn files_are_made_renamed_and_deleted_as_one() {
    let image = on_disk(async |disk| {
        make(&disk, "old", b"old").await;
        make(&disk, "gone", b"gone").await;
        let mut aru = disk.begin();
        aru.delete_volume("old").await.unwrap();
        aru.delete_volume("gone").await.unwrap();
        let new = aru.create_file("a b/c", [1; 16], 1).await.unwrap();
        aru.write(&new, 0, b"new").await.unwrap();
        aru.rename_volume("a b/c", "old").await.unwrap();
        assert_eq!(aru.volume("old").unwrap().size_bytes(), 0);
        assert_eq!(aru.size_bytes(&aru.volume("old").unwrap()), 3);
        let missing = aru.volume("gone").err().unwrap();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert_eq!(names(&disk), ["gone", "old"]);
        assert_eq!(content(&disk, "old").await, b"old");
        aru.end().await.unwrap();
        assert_eq!(names(&disk), ["old"]);
        assert_eq!(disk.volumes().len(), 1, "a file is no volume");
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
        exists(a.create_file("x", [1; 16], 1).await.err().unwrap());
        exists(a.create_file("main", [1; 16], 1).await.err().unwrap());
        a.create_file("y", [1; 16], 1).await.unwrap();
        b.create_file("y", [2; 16], 1).await.unwrap();
        exists(b.rename_volume("x", "y").await.err().unwrap());
        b.end().await.unwrap();
        assert_eq!(a.end().await.unwrap_err().kind(), ErrorKind::Conflict);
        for name in ["", ".lists", ".spill", "a\nb", &"x".repeat(256)] {
            let error = disk.begin().create_file(name, [1; 16], 1).await;
            assert_eq!(error.err().unwrap().kind(), ErrorKind::Invalid, "{name:?}");
        }
        let error = disk.begin().rename_volume("main", "a b").await.unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::Invalid,
            "a volume's name is an export's"
        );
        // One that renames a file and one that deletes it.
        let (mut a, mut b) = (disk.begin(), disk.begin());
        a.rename_volume("x", "z").await.unwrap();
        b.delete_volume("x").await.unwrap();
        b.end().await.unwrap();
        assert_eq!(a.end().await.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(names(&disk), ["y"]);
    });
}

#[test]
fn a_file_grows_with_what_is_written_and_ahead_of_it() {
    on_disk(async |disk| {
        let file = make(&disk, "f", b"").await;
        let free = disk.free_bytes();
        let mut aru = disk.begin();
        aru.write(&file, 3 * B + 10, b"end").await.unwrap();
        assert_eq!((aru.size_bytes(&file), file.size_bytes()), (3 * B + 13, 0));
        let all = bytes(aru.read(&file, 0, 3 * B + 13).await.unwrap());
        assert!(all[..3 * BLOCK + 10].iter().all(|byte| *byte == 0) && all.ends_with(b"end"));
        let beyond = aru.read(&file, 3 * B, 14).await.err().unwrap();
        assert_eq!(beyond.kind(), ErrorKind::OutOfRange);
        aru.end().await.unwrap();
        assert_eq!(free - disk.free_bytes(), 64 << 10, "the least chunk");
        let before = disk.stats().commits;
        for block in 4..16 {
            let mut aru = disk.begin();
            aru.write(&file, block * B, &[block as u8; BLOCK])
                .await
                .unwrap();
            aru.end().await.unwrap();
        }
        assert_eq!(free - disk.free_bytes(), 64 << 10, "within the chunk");
        assert_eq!(disk.stats().commits, before + 12);
        assert_eq!(file.size_bytes(), 16 * B);
        assert_eq!(bytes(file.read(15 * B, 1).await.unwrap()), [15]);
    });
}

#[test]
fn what_is_cut_off_never_comes_back() {
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
        for size in [3 * B + 1, 0, 2 * B, 19 * B] {
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
fn what_is_cut_off_a_volume_never_comes_back() {
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
fn a_trim_leaves_what_is_beside_it_in_its_first_and_last_block() {
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
fn a_volume_is_made_resized_and_deleted_for_good_once_that_was_told() {
    let image = on_disk(async |_| {});
    let cuts = cuts(&image, 5, async |disk, told| {
        disk.create_volume("v", B, [3; 16], 1).await.unwrap();
        told.set(1);
        disk.resize_volume("v", 3 * B).await.unwrap();
        told.set(2);
        disk.delete_volume("v").await.unwrap();
        told.set(3);
        disk.flush().await.unwrap();
        disk.close().await.unwrap();
    });
    assert!((0..=3).all(|step| cuts.iter().any(|(_, told)| *told == step)));
    for (image, told) in cuts {
        with(&image, OpenOptions::default(), async move |disk| {
            let size = disk.volume("v").map(|volume| volume.size_bytes() / B).ok();
            let is_possible = match size {
                None => told == 0 || told >= 2,
                Some(1) => told <= 1,
                Some(3) => told == 1 || told == 2,
                _ => false,
            };
            assert!(is_possible, "{size:?} blocks after step {told}");
        });
    }
}

#[test]
fn two_units_that_let_a_file_grow() {
    on_disk(async |disk| {
        let file = make(&disk, "f", &[1; BLOCK]).await;
        let (mut a, mut b) = (disk.begin(), disk.begin());
        a.write(&file, 40 * B, &[2; BLOCK]).await.unwrap();
        b.write(&file, 20 * B, &[3; BLOCK]).await.unwrap();
        a.end().await.unwrap();
        assert_eq!(file.size_bytes(), 41 * B);
        b.end().await.unwrap();
        assert_eq!(file.size_bytes(), 41 * B);
        let all = content(&disk, "f").await;
        assert_eq!((all[20 * BLOCK], all[40 * BLOCK]), (3, 2));
        // One that has grown it conflicts with one that has made it shorter.
        let (mut a, mut b) = (disk.begin(), disk.begin());
        a.write(&file, 50 * B, &[2; BLOCK]).await.unwrap();
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
        let file = make(&disk, "f", b"").await;
        let mut written = 0;
        let error = loop {
            let mut aru = disk.begin();
            match aru.write(&file, written, &[1; BLOCK]).await {
                Ok(()) => aru.end().await.unwrap(),
                Err(error) => break error,
            };
            written += B;
        };
        assert!(matches!(error, DiskError::StoreFull { .. }), "{error}");
        assert_eq!((written, disk.free_bytes()), (free, 0), "to the last block");
        // There is no room either while a unit holds the space.
        disk.delete_volume("f").await.unwrap();
        let mut aru = disk.begin();
        let g = aru.create_file("g", [1; 16], 1).await.unwrap();
        aru.resize(&g, free).await.unwrap();
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
            aru.create_file(&format!("f{number}"), [1; 16], 1)
                .await
                .unwrap();
        }
        let error = disk.create_volume("one", B, [1; 16], 1).await.unwrap_err();
        assert!(matches!(error, DiskError::TooManyVolumes(256)), "{error}");
        aru.end().await.unwrap();
        assert_eq!(disk.files().len(), 255);
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
            b.write(&file, B, &[2; 2 * BLOCK]).await.unwrap();
            b.end().await.unwrap();
            // In the same unit, and in a later one.
            match size == B + 50 {
                true => a.resize(&file, 3 * B).await.unwrap(),
                false => {
                    a.end().await.unwrap();
                    a = disk.begin();
                    a.resize(&file, 3 * B).await.unwrap();
                }
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
fn a_size_for_which_there_is_no_room_changes_nothing() {
    on_disk(async |disk| {
        let file = make(&disk, "f", &[1; BLOCK]).await;
        let (mut a, mut b) = (disk.begin(), disk.begin());
        a.write(&file, 0, &[2; 10]).await.unwrap();
        // Into the middle of a block that the file can never have.
        let too_much = disk.size_bytes() + 100;
        let full = a.resize(&file, too_much).await.unwrap_err();
        assert_eq!(full.kind(), ErrorKind::NoSpace);
        assert_eq!(a.size_bytes(&file), B);
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
fn a_file_that_was_cut_and_grew_again_is_not_what_a_unit_has_read() {
    on_disk(async |disk| {
        let file = make(&disk, "f", &[1; BLOCK]).await;
        let mut slow = disk.begin();
        slow.write(&file, 10, b"here").await.unwrap();
        for size in [0, B] {
            let mut other = disk.begin();
            other.resize(&file, size).await.unwrap();
            other.end().await.unwrap();
        }
        let error = slow.end().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert_eq!(content(&disk, "f").await, [0; BLOCK]);
    });
}
