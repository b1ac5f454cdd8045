//! Recovery units over volumes.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, assert_sound, begun, bytes, cuts, on_disk, store, with};
use tonearm_base::Lsn;
use tonearm_disk::{Aru, Disk, ErrorKind, OpenOptions, Volume};

const B: u64 = BLOCK as u64;

async fn volume(disk: &Disk) -> Volume {
    disk.create_volume("v", 16 * B, [9; 16], 1).await.unwrap();
    disk.volume("v").unwrap()
}

async fn read(volume: &Volume, offset: u64, len: u64) -> Vec<u8> {
    bytes(volume.read(offset, len).await.unwrap())
}

#[test]
fn a_unit_sees_its_own_writes_and_others_see_them_at_its_end() {
    on_disk(async |disk| {
        let v = volume(&disk).await;
        let mut aru = disk.begin();
        aru.write(&v, 0, &[1; 2 * BLOCK]).await.unwrap();
        aru.write(&v, B + 7, b"seven").await.unwrap();
        let own = bytes(aru.read(&v, B + 5, 9).await.unwrap());
        assert_eq!(own, b"\x01\x01seven\x01\x01");
        assert_eq!(read(&v, B + 5, 9).await, [0; 9]);
        let other = disk.begin();
        assert_eq!(bytes(other.read(&v, B + 5, 9).await.unwrap()), [0; 9]);
        let lsn = aru.end().await.unwrap();
        assert!(lsn > Lsn(0));
        assert_eq!(read(&v, B + 5, 9).await, b"\x01\x01seven\x01\x01");
        assert_eq!(bytes(other.read(&v, B + 7, 5).await.unwrap()), b"seven");
    });
}

#[test]
fn a_unit_is_one_commit_and_an_empty_one_is_none() {
    on_disk(async |disk| {
        let v = volume(&disk).await;
        let before = disk.stats().commits;
        assert_eq!(disk.begin().end().await.unwrap(), Lsn(0));
        disk.begin().abort();
        assert_eq!(disk.stats().commits, before);
        let mut aru = disk.begin();
        for block in [0, 3, 4, 9] {
            aru.write(&v, block * B, &[2; BLOCK]).await.unwrap();
        }
        aru.end().await.unwrap();
        assert_eq!(disk.stats().commits, before + 1);
    });
}

#[test]
fn an_aborted_unit_leaves_nothing() {
    on_disk(async |disk| {
        let v = volume(&disk).await;
        let free = disk.free_bytes();
        let mut aru = disk.begin();
        aru.write(&v, 0, &[1; BLOCK]).await.unwrap();
        let f = aru.create_volume("f", 9 * B, [1; 16], 1).await.unwrap();
        aru.write(&f, 0, &[1; 9 * BLOCK]).await.unwrap();
        assert!(disk.free_bytes() < free && disk.shadow_bytes() == 10 * B);
        drop(aru);
        assert_eq!((disk.free_bytes(), disk.shadow_bytes()), (free, 0));
        assert_eq!(read(&v, 0, B).await, [0; BLOCK]);
        assert!(disk.volume("f").is_err());
        assert_eq!(f.read(0, 1).await.unwrap_err().kind(), ErrorKind::Deleted);
    });
}

#[test]
fn of_two_units_the_one_that_ends_last_counts() {
    on_disk(async |disk| {
        let v = volume(&disk).await;
        let (mut a, mut b) = (disk.begin(), disk.begin());
        a.write(&v, 0, &[b'a'; BLOCK]).await.unwrap();
        b.write(&v, 0, &[b'b'; BLOCK]).await.unwrap();
        b.end().await.unwrap();
        a.end().await.unwrap();
        assert_eq!(read(&v, 0, 1).await, b"a");
    });
}

#[test]
fn a_unit_conflicts_with_a_volume_that_was_deleted_or_shrunk() {
    on_disk(async |disk| {
        let v = volume(&disk).await;
        let mut a = disk.begin();
        a.write(&v, 10 * B, &[1; BLOCK]).await.unwrap();
        disk.resize_volume("v", 8 * B).await.unwrap();
        assert_eq!(a.end().await.unwrap_err().kind(), ErrorKind::Conflict);
        let mut a = disk.begin();
        a.write(&v, 0, &[1; BLOCK]).await.unwrap();
        disk.delete_volume("v").await.unwrap();
        // Another of the same name is not the same volume.
        let again = volume(&disk).await;
        let error = a.end().await.unwrap_err();
        assert!(error.to_string().contains("deleted"), "{error}");
        assert_eq!(read(&again, 0, 1).await, [0]);
        assert_eq!(disk.shadow_bytes(), 0);
    });
}

#[test]
fn a_unit_reads_its_own_writes_and_else_what_is_committed() {
    on_disk(async |disk| {
        let v = volume(&disk).await;
        let (mut a, mut b) = (disk.begin(), disk.begin());
        a.write(&v, 0, &[b'a'; BLOCK]).await.unwrap();
        b.write(&v, 0, &[b'b'; BLOCK]).await.unwrap();
        let c = disk.begin();
        let mut seen = Vec::new();
        for unit in [&a, &b, &c] {
            seen.extend(bytes(unit.read(&v, 5, 1).await.unwrap()));
        }
        assert_eq!(seen, b"ab\0");
        a.abort();
        b.end().await.unwrap();
        assert_eq!(bytes(c.read(&v, 5, 1).await.unwrap()), b"b");
    });
}

#[test]
fn shadows_have_a_bound() {
    let options = OpenOptions {
        memory_bytes: 64 << 10,
        ..OpenOptions::default()
    };
    with(&store(8 << 20), options, async |disk| {
        let v = volume(&disk).await;
        let mut aru = disk.begin();
        aru.write(&v, 0, &[1; 4 * BLOCK]).await.unwrap();
        aru.write(&v, 8 * B, &[1; BLOCK]).await.unwrap();
        // 16 KiB for all units, and 8 KiB for one: the rest has gone home.
        assert!(disk.shadow_bytes() <= 2 * B);
        aru.end().await.unwrap();
        assert_eq!(read(&v, 3 * B, B).await, [1; BLOCK]);
        assert_eq!(read(&v, 8 * B, B).await, [1; BLOCK]);
        // Ends make room, however many follow each other.
        for round in 0..100u8 {
            let mut aru = disk.begin();
            aru.write(&v, 0, &[round; 4 * BLOCK]).await.unwrap();
            aru.end().await.unwrap();
        }
        assert_eq!(read(&v, 3 * B, B).await, [99; BLOCK]);
    });
}

#[test]
fn unit_is_atomic_across_a_power_cut() {
    let image = store(8 << 20);
    let mut seen = [0; 3];
    for seed in 0..6 {
        let left = cuts(&image, seed, async |disk, acknowledged| {
            let v = volume(&disk).await;
            acknowledged.set(1);
            let mut aru = disk.begin();
            aru.write(&v, 0, &[1; BLOCK]).await.unwrap();
            aru.write(&v, 5 * B, &[1; BLOCK]).await.unwrap();
            let f = aru.create_volume("f", 3 * B, [1; 16], 1).await.unwrap();
            aru.write(&f, 0, &[1; 3 * BLOCK]).await.unwrap();
            let mut never = disk.begin();
            never.write(&v, 0, &[2; BLOCK]).await.unwrap();
            never.create_volume("never", B, [1; 16], 1).await.unwrap();
            let lsn = aru.end().await.unwrap();
            disk.wait_durable(lsn).await.unwrap();
            acknowledged.set(2);
            disk.engine().drain().await.unwrap();
        });
        for (left, acknowledged) in left {
            let found = with(&left, OpenOptions::default(), async |disk| {
                found(&disk).await
            })
            .0;
            match (acknowledged, found) {
                (0, _) | (1, Some(_)) | (2, Some(1)) => {}
                _ => panic!("after step {acknowledged} there is {found:?}"),
            }
            seen[found.map_or(0, |one| 1 + usize::from(one))] += 1;
        }
    }
    assert!(seen.iter().all(|seen| *seen > 1), "each was seen: {seen:?}");

    /// The content of the unit that is on the disk: all of it or nothing. `None` before the volume is there.
    async fn found(disk: &Disk) -> Option<u8> {
        let v = disk.volume("v").ok()?;
        let mut found = vec![read(&v, 0, 1).await[0], read(&v, 5 * B, 1).await[0]];
        assert!(disk.volume("never").is_err());
        let f = disk.volume("f").ok();
        found.push(u8::from(f.is_some()));
        if let Some(f) = f {
            assert_eq!(f.size_bytes(), 3 * B);
            found.push(read(&f, 2 * B, 1).await[0]);
        }
        assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
        Some(found[0])
    }
}

/// A unit that is larger than the log: its end waits for the drive.
async fn larger_than_the_log(disk: &Disk) -> Aru {
    let mut aru = disk.begin();
    let file = aru.create_volume("large", 600 * B, [9; 16], 1);
    let file = file.await.unwrap();
    aru.write(&file, 0, &vec![1; 600 * BLOCK]).await.unwrap();
    aru
}

#[test]
fn commit_of_a_unit_keeps_concurrent_commits() {
    with(&store(16 << 20), OpenOptions::default(), async |disk| {
        let list = disk.new_list().await.unwrap();
        let mut large = larger_than_the_log(&disk).await;
        let mut small = disk.begin();
        let of_large = large.new_block(list, None).await.unwrap();
        let of_small = small.new_block(list, None).await.unwrap();
        let mut end = Box::pin(large.end());
        begun(&mut end).await;
        small.end().await.unwrap();
        end.await.unwrap();
        assert_eq!(
            disk.list_blocks(list).await.unwrap(),
            [of_large, of_small],
            "in the order of their ends, each at the head"
        );
        let report = disk.check_lists().await.unwrap();
        assert_eq!((report.blocks, report.problems), (2, vec![]));
    });
}

#[test]
fn commit_has_log_space_for_concurrent_growth() {
    with(&store(16 << 20), OpenOptions::default(), async |disk| {
        let mut aru = disk.begin();
        let f = aru.create_volume("f", B, [1; 16], 1).await.unwrap();
        let g = aru.create_volume("g", B, [2; 16], 1).await.unwrap();
        aru.end().await.unwrap();
        let mut large = larger_than_the_log(&disk).await;
        large.delete_volume("f").await.unwrap();
        let mut end = Box::pin(large.end());
        begun(&mut end).await;
        // The files have many pieces: each is a range of the deletion.
        for blocks in 1..=150 {
            for file in [&f, &g] {
                let mut aru = disk.begin();
                aru.resize(file, blocks * B).await.unwrap();
                aru.end().await.unwrap();
            }
        }
        end.await.unwrap();
        assert!(disk.volume("f").is_err());
        disk.engine().drain().await.unwrap();
        assert_sound(&disk).await;
    });
}

/// The unit's cost is computed again after its wait: the engine refuses a commit that was admitted for less.
#[test]
fn commit_cost_is_recomputed_after_a_wait() {
    with(&store(16 << 20), OpenOptions::default(), async |disk| {
        let names = ["f", "g", "h"];
        for name in names {
            let uuid = [name.as_bytes()[0]; 16];
            disk.create_volume(name, B, uuid, 1).await.unwrap();
        }
        let mut aru = disk.begin();
        for name in names {
            aru.delete_volume(name).await.unwrap();
        }
        let engine = disk.engine();
        let all_memory = engine.reserve(engine.options().memory_bytes).await.unwrap();
        let mut end = Box::pin(aru.end());
        begun(&mut end).await;
        // The files have many pieces: each is a range of the deletion.
        for blocks in 2..=200 {
            for name in names {
                disk.resize_volume(name, blocks * B).await.unwrap();
            }
        }
        begun(&mut end).await;
        drop(all_memory);
        end.await.unwrap();
        assert!(names.iter().all(|name| disk.volume(name).is_err()));
        engine.drain().await.unwrap();
        assert_sound(&disk).await;
    });
}
