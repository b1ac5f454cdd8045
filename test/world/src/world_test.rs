use crate::{DiskImage, Jitter, JitterTimes, SimDisk, SimOptions, SimWorld, Zeroing};
use tonearm_base::{BufPool, Nanos};
use tonearm_rt::{Data, DeviceId, Op, Request, Rt, channel};

const DISK: DeviceId = DeviceId(0);

fn world(seed: u64) -> (SimWorld, Rt) {
    let world = SimWorld::new(
        SimOptions {
            seed,
            ..SimOptions::default()
        },
        vec![DiskImage::new(1 << 20)],
    );
    let rt = Rt::new(world.driver());
    (world, rt)
}

fn request(op: Op, offset: u64, data: Data) -> Request {
    Request {
        device: DISK,
        op,
        offset,
        len: 0,
        data,
    }
}

#[test]
fn flushed_writes_survive_and_others_may_not() {
    let (world, rt) = world(1);
    let rt2 = rt.clone();
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let write = |at: u64, byte: u8| {
            let data = Data::whole(pool.copy_of(&[byte; 4096]));
            rt2.io(request(Op::Write, at, data))
        };
        write(0, 1).done().await.unwrap();
        rt2.io(request(Op::Flush, 0, Data::None))
            .done()
            .await
            .unwrap();
        write(0, 2).done().await.unwrap();
        write(4096, 3).done().await.unwrap();
        let data = Data::whole(pool.alloc(4096));
        let (result, data) = rt2.io(request(Op::Read, 0, data)).await;
        assert_eq!((result, data.into_buf()[0]), (Ok(4096), 2));
    });
    let crash = world.crash();
    let mut seen = [false; 256];
    for seed in 0..200 {
        let image = &crash.images(seed)[0];
        let mut page = [0; 4096];
        image.read(0, &mut page);
        for sector in page.chunks(512) {
            seen[sector[0] as usize] = true;
        }
        image.read(8192, &mut page);
        assert_eq!(page, [0; 4096]);
    }
    assert!(
        seen[1] && seen[2],
        "both the stable and the unstable version must occur"
    );
    assert!(
        seen.iter().filter(|seen| **seen).count() > 2,
        "garbage must occur"
    );
    assert!(!seen[3]);
}

#[test]
fn a_durable_write_is_stable_when_it_completes() {
    let (world, rt) = world(2);
    let rt2 = rt.clone();
    rt.block_on(async move {
        let pool = BufPool::new(0);
        let data = Data::whole(pool.copy_of(&[9; 512]));
        rt2.io(request(Op::WriteDurable, 512, data))
            .done()
            .await
            .unwrap();
    });
    assert!(world.crash().is_settled());
    let mut sector = [0; 512];
    world.crash().images(5)[0].read(512, &mut sector);
    assert_eq!(sector, [9; 512]);
}

/// A write that completes while a flush is under way may have come too late for it.
#[test]
fn flush_makes_stable_only_writes_completed_before_it() {
    let times = JitterTimes {
        flush: Nanos::from_millis(1),
        ..JitterTimes::default()
    };
    for send_before in [false, true] {
        let disk = SimDisk {
            image: DiskImage::new(1 << 20),
            timing: Box::new(Jitter::new(times, 3)),
            write_cache: true,
            zeroing: Zeroing::Write,
        };
        let world = SimWorld::with_disks(SimOptions::default(), vec![disk]);
        let rt = Rt::new(world.driver());
        let rt2 = rt.clone();
        rt.block_on(async move {
            let pool = BufPool::new(0);
            let write = |at: u64| {
                let data = Data::whole(pool.copy_of(&[7; 512]));
                rt2.io(request(Op::Write, at, data))
            };
            let flush = || rt2.io(request(Op::Flush, 0, Data::None));
            write(0).done().await.unwrap();
            let (late, flush) = if send_before {
                (write(512), flush())
            } else {
                let flush = flush();
                (write(512), flush)
            };
            late.done().await.unwrap();
            flush.done().await.unwrap();
        });
        assert!(
            !world.crash().is_settled(),
            "the late write is in the cache"
        );
        let lost = |at: u64| {
            let crash = world.crash();
            let lost = |seed: &u64| {
                let mut sector = [0; 512];
                crash.images(*seed)[0].read(at, &mut sector);
                sector != [7; 512]
            };
            (0..100).filter(lost).count()
        };
        assert!(lost(0) == 0 && lost(512) > 0);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let run = |seed| {
        let (world, rt) = world(seed);
        let rt2 = rt.clone();
        rt.block_on(async move {
            let pool = BufPool::new(0);
            let writes: Vec<_> = (0..50u64)
                .map(|i| {
                    rt2.io(request(
                        Op::Write,
                        i * 512,
                        Data::whole(pool.copy_of(&[i as u8; 512])),
                    ))
                })
                .collect();
            for write in writes {
                write.done().await.unwrap();
            }
        });
        (world.trace_hash(), rt.now())
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn values_of_a_channel_come_in_virtual_time() {
    let (_world, rt) = world(1);
    let (sender, mut receiver) = channel(&rt, 4).unwrap();
    let timer = rt.clone();
    rt.spawn_detached(async move {
        for value in 0..3 {
            timer.sleep(Nanos::from_millis(5)).await;
            assert!(sender.send(value));
        }
    });
    let clock = rt.clone();
    rt.block_on(async move {
        for value in 0..3 {
            assert_eq!(receiver.recv().await, Some(value));
            assert_eq!(clock.now(), Nanos::from_millis(5 * (value + 1)));
        }
        assert_eq!(receiver.recv().await, None);
    });
}
