//! Volumes of bytes on a simulated store: compared with an array of bytes, with concurrent unaligned writes next to
//! each other, and through power cuts.

#![allow(clippy::unwrap_used)]

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_disk::{Disk, ErrorKind, OpenOptions, Volume};
use tonearm_rt::Rt;
use tonearm_sim::{Layout, Shape, StoreImage};

const SHAPE: Shape = Shape::small(Layout::Overwrite, 32, 512);

async fn open(image: &StoreImage, rt: &Rt) -> Disk {
    let options = OpenOptions {
        memory_bytes: 1 << 20,
        ..OpenOptions::default()
    };
    image.open_disk(rt, options).await.unwrap()
}

async fn read(volume: &Volume, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in volume.read(offset, len).await.unwrap() {
        piece.append_to(&mut bytes);
    }
    bytes
}

/// Four clients make random writes, zeroings and trims of any alignment. Each has its own lane of bytes, so narrow that
/// the clients share blocks. No client may undo another one's write when it merges its own into a block.
#[test]
fn concurrent_writes_to_one_block_never_undo_each_other() {
    const LANE: u64 = 700;
    for seed in 0..30 {
        let image = SHAPE.create();
        image.run(seed, |_, rt, image| async move {
            let disk = open(&image, &rt).await;
            let clients: Vec<_> = (0..4u64)
                .map(|client| {
                    let volume = disk.volume("main").unwrap();
                    rt.spawn(lane(volume, seed * 4 + client, client * LANE, LANE * 4))
                })
                .collect();
            for client in clients {
                client.await;
            }
            disk.close().await.unwrap();
        });
    }

    async fn lane(volume: Volume, seed: u64, start: u64, stride: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut model = vec![vec![0u8; LANE as usize]; 40];
        let pool = BufPool::new(0);
        for round in 0..120u64 {
            let row = (rng.next_u64() % 40) as usize;
            let from = rng.next_u64() % LANE;
            let len = 1 + rng.next_u64() % (LANE - from);
            let offset = start + row as u64 * stride + from;
            let range = from as usize..(from + len) as usize;
            match rng.next_u32() % 5 {
                0 => {
                    volume
                        .write_zeroes(offset, len, round % 2 == 0, false)
                        .await
                        .unwrap();
                    model[row][range].fill(0);
                }
                1 => assert_eq!(
                    read(&volume, offset, len).await,
                    model[row][range],
                    "seed {seed}"
                ),
                _ => {
                    let bytes: Vec<u8> = (0..len).map(|_| rng.next_u32() as u8).collect();
                    let mut buf = pool.copy_of(&bytes);
                    buf.attach(Rc::new(volume.reserve(len).await.unwrap()));
                    volume
                        .write(offset, buf.share(), rng.next_u32().is_multiple_of(8))
                        .await
                        .unwrap();
                    model[row][range].copy_from_slice(&bytes);
                }
            }
        }
        for (row, expected) in model.iter().enumerate() {
            assert_eq!(
                read(&volume, start + row as u64 * stride, LANE).await,
                *expected,
                "seed {seed}"
            );
        }
    }
}

/// An unaligned write across the border of two blocks is one commit. After a cut at any I/O all of it is there or
/// nothing.
#[test]
fn an_unaligned_write_is_whole_or_absent_after_any_cut() {
    let image = SHAPE.create();
    let cuts = Rc::new(RefCell::new(Vec::new()));
    let kept = cuts.clone();
    let (world, rt) = image.start(0);
    world.on_io(move |_, crash| kept.borrow_mut().push(crash.clone()));
    let (rt2, image2) = (rt.clone(), image.clone());
    rt.block_on(async move {
        let disk = open(&image2, &rt2).await;
        let volume = disk.volume("main").unwrap();
        let pool = BufPool::new(0);
        for round in 1..=20u8 {
            let buf = pool.copy_of(&[round; 5000]);
            volume
                .write(1_000, buf.share(), round % 3 == 0)
                .await
                .unwrap();
            volume.write_zeroes(100, 50, false, false).await.unwrap();
        }
        disk.close().await.unwrap();
    });
    rt.shut_down();
    let mut seen = std::collections::BTreeSet::new();
    for (index, crash) in cuts.borrow().iter().enumerate() {
        let image = image.with(crash.images(index as u64));
        let (bytes, _) = image.run(0, |_, rt, image| async move {
            let disk = open(&image, &rt).await;
            read(&disk.volume("main").unwrap(), 0, 8192).await
        });
        let written = &bytes[1000..6000];
        assert!(
            written.iter().all(|byte| *byte == written[0]),
            "cut {index} has a torn write"
        );
        assert!(
            bytes[..1000]
                .iter()
                .chain(&bytes[6000..])
                .all(|byte| *byte == 0),
            "cut {index}"
        );
        seen.insert(written[0]);
    }
    assert!(seen.len() > 5, "cuts must fall between writes: {seen:?}");
}

#[test]
fn space_of_deleted_volumes_reads_as_zeroes() {
    let image = SHAPE.create();
    let (_, world) = image.run(0, |_, rt, image| async move {
        let disk = open(&image, &rt).await;
        let main = disk.volume("main").unwrap();
        let size = main.size_bytes();
        assert_eq!((size, disk.free_bytes()), (2 << 20, 0));
        let full = disk
            .create_volume("more", 4096, [1; 16], 0)
            .await
            .unwrap_err();
        assert_eq!(full.kind(), ErrorKind::NoSpace);
        let data = BufPool::new(0).copy_of(&[7; 8192]).share();
        main.write(size - 8192, data.clone(), false).await.unwrap();
        disk.resize_volume("main", size - 6000).await.unwrap();
        assert_eq!(main.size_bytes(), size - 6000);
        assert_eq!(
            main.read(size - 6000, 1).await.unwrap_err().kind(),
            ErrorKind::OutOfRange
        );
        disk.create_volume("more", 4096, [1; 16], 0).await.unwrap();
        assert_eq!(
            read(&disk.volume("more").unwrap(), 0, 4096).await,
            vec![0; 4096]
        );
        disk.delete_volume("more").await.unwrap();
        disk.resize_volume("main", size).await.unwrap();
        let tail = read(&main, size - 8192, 8192).await;
        assert!(tail[..2192].iter().all(|byte| *byte == 7));
        assert!(
            tail[2192..].iter().all(|byte| *byte == 0),
            "what was cut off must not come back"
        );
        for bad in ["", "a b", "a/b", &"x".repeat(256)] {
            assert_eq!(
                disk.create_volume(bad, 4096, [1; 16], 0)
                    .await
                    .unwrap_err()
                    .kind(),
                ErrorKind::Invalid
            );
        }
        assert_eq!(
            disk.volume("none").err().map(|error| error.kind()),
            Some(ErrorKind::NotFound)
        );
        disk.close().await.unwrap();
    });
    let image = image.with(world.images());
    image.run(1, |_, rt, image| async move {
        let disk = open(&image, &rt).await;
        let names: Vec<String> = disk
            .volumes()
            .into_iter()
            .map(|volume| volume.name)
            .collect();
        assert_eq!(names, ["main"]);
    });
}

#[test]
fn status_reports_allocated_ranges_and_holes() {
    let image = SHAPE.create();
    image.run(0, |_, rt, image| async move {
        let disk = open(&image, &rt).await;
        let volume = disk.volume("main").unwrap();
        let data = BufPool::new(0).copy_of(&[7; 8192]).share();
        volume.write(8192, data, false).await.unwrap();
        assert_eq!(
            volume.status(0, 20000).await.unwrap(),
            [(8192, false), (8192, true), (3616, false)]
        );
        disk.engine().drain().await.unwrap();
        assert_eq!(
            volume.status(9000, 8000).await.unwrap(),
            [(7384, true), (616, false)]
        );
        volume.trim(8192, 5000, false).await.unwrap();
        assert_eq!(
            volume.status(8192, 8192).await.unwrap(),
            [(4096, false), (4096, true)]
        );
    });
}
