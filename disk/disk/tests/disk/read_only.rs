//! A volume that refuses changes.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, begun, bytes, cuts, on_disk, with};
use tonearm_base::{BufPool, Slice};
use tonearm_disk::{Disk, DiskError, ErrorKind, OpenOptions, Volume};

const B: u64 = BLOCK as u64;

fn block(byte: u8) -> Slice {
    let mut buf = BufPool::new(1 << 20).alloc(BLOCK);
    buf.fill(byte);
    buf.share()
}

async fn content(volume: &Volume) -> Vec<u8> {
    bytes(volume.read(0, B).await.unwrap())
}

#[track_caller]
fn refused<T>(result: Result<T, DiskError>) {
    let error = result.err().expect("a read-only volume takes no changes");
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    let text = error.to_string();
    assert!(
        text.contains("volume set STORE main --read-write"),
        "{text}"
    );
}

async fn refuses_every_change(disk: &Disk) {
    let main = disk.volume("main").unwrap();
    assert!(main.read_only() && disk.volumes()[0].read_only);
    refused(main.write(0, block(9), false).await);
    refused(main.write(1, block(9).slice(0..5), true).await);
    refused(main.trim(0, B, false).await);
    refused(main.write_zeroes(0, B, true, false).await);
    refused(disk.resize_volume("main", 2 * B).await);
    refused(disk.resize_volume("main", 1).await);
    refused(disk.delete_volume("main").await);
    let mut unit = disk.begin();
    refused(unit.write(&main, 0, b"unit").await);
    refused(unit.resize(&main, 2 * B).await);
    refused(unit.rename_volume("main", "other").await);
    refused(unit.delete_volume("main").await);
    unit.end().await.unwrap();
    assert_eq!(content(&main).await, [1; BLOCK]);
    assert_eq!(main.size_bytes(), B);
}

#[test]
fn read_only_volume_refuses_changes_until_writable() {
    let image = on_disk(async |disk| {
        let main = disk.volume("main").unwrap();
        main.write(0, block(1), false).await.unwrap();
        disk.set_read_only("main", true).await.unwrap();
        refuses_every_change(&disk).await;
        // Others take changes.
        disk.create_volume("other", B, [3; 16], 1).await.unwrap();
        let other = disk.volume("other").unwrap();
        other.write(0, block(2), false).await.unwrap();
        disk.delete_volume("other").await.unwrap();
    });
    let (_, image) = with(&image, OpenOptions::default(), async |disk| {
        refuses_every_change(&disk).await;
        disk.set_read_only("main", false).await.unwrap();
        let main = disk.volume("main").unwrap();
        main.write(0, block(4), false).await.unwrap();
        disk.resize_volume("main", 2 * B).await.unwrap();
    });
    with(&image, OpenOptions::default(), async |disk| {
        let main = disk.volume("main").unwrap();
        assert!(!main.read_only());
        assert_eq!(content(&main).await, [4; BLOCK]);
    });
}

#[test]
fn unit_cannot_commit_to_a_volume_made_read_only() {
    on_disk(async |disk| {
        let main = disk.volume("main").unwrap();
        main.write(0, block(1), false).await.unwrap();
        let (mut writing, mut deleting) = (disk.begin(), disk.begin());
        writing.write(&main, 0, b"unit").await.unwrap();
        let file = writing.create_volume("f", 4, [5; 16], 1).await.unwrap();
        writing.write(&file, 0, b"file").await.unwrap();
        deleting.delete_volume("main").await.unwrap();
        disk.set_read_only("main", true).await.unwrap();
        refused(writing.end().await);
        refused(deleting.end().await);
        assert!(disk.volume("f").is_err(), "nothing of the unit is applied");
        refuses_every_change(&disk).await;
    });
}

#[test]
fn write_in_flight_is_refused_once_volume_is_read_only() {
    let image = on_disk(async |disk| {
        let main = disk.volume("main").unwrap();
        main.write(0, block(1), true).await.unwrap();
    });
    with(&image, OpenOptions::default(), async |disk| {
        let main = disk.volume("main").unwrap();
        // It reads the rest of the block first: that waits for the drive.
        let mut write = Box::pin(main.write(1, block(9).slice(0..5), false));
        begun(&mut write).await;
        disk.set_read_only("main", true).await.unwrap();
        refused(write.await);
        refuses_every_change(&disk).await;
    });
}

#[test]
fn set_read_only_is_atomic_and_durable_once_acknowledged() {
    let image = on_disk(async |disk| {
        let main = disk.volume("main").unwrap();
        main.write(0, block(1), true).await.unwrap();
    });
    let cuts = cuts(&image, 77, async |disk, acknowledged| {
        disk.set_read_only("main", true).await.unwrap();
        acknowledged.set(1);
        disk.flush().await.unwrap();
        disk.close().await.unwrap();
    });
    assert!(cuts.iter().any(|(_, acknowledged)| *acknowledged == 1));
    for (image, acknowledged) in cuts {
        with(&image, OpenOptions::default(), async move |disk| {
            let main = disk.volume("main").unwrap();
            assert!(main.read_only() || acknowledged == 0);
            assert_eq!(content(&main).await, [1; BLOCK]);
        });
    }
}
