//! The whole engine with its log on a simulated drive whose head it follows.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_calibrate::deltas;
use tonearm_disk::{CreateParams, HeadParams, LogDrive, OpenOptions};
use tonearm_drive::{ClosedLoop, Drive, DriveOptions};
use tonearm_drive_file::{DriveFile, DriveSpec, track_map, turn};
use tonearm_engine::{CommitChange, Engine, EngineError};
use tonearm_format::{HeadKind, Roles, SYSTEM_BLOCKS};
use tonearm_rt::Rt;
use tonearm_sim::{Heads, Layout, Shape, create, members};
use tonearm_world::{DiskImage, Kind, SimDisk, SimOptions, SimWorld, Zeroing};

const BLOCK: u32 = 4096;
const LOG_BYTES: u64 = 64 << 20;

/// Latencies in nanoseconds of `count` durable commits of one block by `clients` clients. Each client thinks for
/// `think` between two commits.
fn latencies(
    spec: &DriveSpec,
    kind: HeadKind,
    drives: usize,
    think: Nanos,
    (clients, count): (u64, u64),
) -> Vec<u64> {
    let map = track_map(spec, 2048..2048 + LOG_BYTES / 512).unwrap();
    let head = HeadParams {
        kind,
        sector_bytes: 512,
        drives: vec![
            LogDrive {
                deltas: deltas(spec, &map),
                period_ps: turn(spec.disk.as_ref().unwrap()).0 * 1000,
                tracks: Some(map),
                ..LogDrive::default()
            };
            drives
        ],
    };
    let params = CreateParams {
        log_bytes: Some(LOG_BYTES * drives as u64),
        block_size: BLOCK,
        head: (kind != HeadKind::Sequential).then_some(head),
        ..CreateParams::new(8 << 20, [1; 16])
    };
    let of = |log| Roles { log, data: !log };
    let roles = [vec![of(true); drives], vec![of(false)]].concat();
    let disks = create(&params, &roles, params.size_bytes).unwrap();
    let disk = |(index, image): (usize, &DiskImage)| SimDisk {
        image: image.clone(),
        timing: Box::new(Drive::new(
            spec,
            &DriveOptions {
                seed: index as u64,
                phase: 0.3 * index as f64,
                ..DriveOptions::default()
            },
        )),
        write_cache: true,
        zeroing: Zeroing::Command,
    };
    let on_drives = disks.iter().enumerate().map(disk).collect();
    let world = SimWorld::with_disks(SimOptions::default(), on_drives);
    let rt = Rt::new(world.driver());
    let rt2 = rt.clone();
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let engine = opened(&rt2, &disks, 512).await.unwrap();
        let took = Rc::new(RefCell::new(Vec::new()));
        let client = |number: u64| {
            let (rt, pool, engine, took) =
                (rt2.clone(), pool.clone(), engine.clone(), took.clone());
            async move {
                for commit in 0..count / clients {
                    let change = CommitChange::Write {
                        first: SYSTEM_BLOCKS + (commit * clients + number) % 1000,
                        data: pool.copy_of(&[commit as u8; BLOCK as usize]).share(),
                    };
                    let admission = engine.admit(1, 1).await.unwrap();
                    let sent = rt.now();
                    let lsn = engine.commit(admission, vec![change]).unwrap();
                    engine.wait_durable(lsn).await.unwrap();
                    took.borrow_mut().push(rt.now().since(sent).0);
                    rt.sleep(think).await;
                }
            }
        };
        let running: Vec<_> = (0..clients)
            .map(|number| rt2.spawn(client(number)))
            .collect();
        for client in running {
            client.await;
        }
        took.take()
    })
}

async fn opened(rt: &Rt, disks: &[DiskImage], sector: usize) -> Result<Engine, EngineError> {
    let members = members(rt, disks.iter().map(|disk| disk.size), sector);
    let pool = BufPool::new(1 << 20);
    Engine::open(rt, &pool, members, OpenOptions::default(), |_| {}).await
}

fn mean_ms(took: &[u64]) -> f64 {
    took.iter().sum::<u64>() as f64 / took.len() as f64 / 1e6
}

/// Least time of a write of `sectors` sectors that is sent `think` after another write on the same track.
fn floor_ms(spec: &DriveSpec, sectors: u32, think: Nanos) -> f64 {
    let first = 17 * 85 * 10;
    let times = (0..85).map(|skip| {
        let mut user = ClosedLoop::new(Drive::new(spec, &DriveOptions::default()));
        user.serve(Kind::Write, first, sectors);
        user.think(think);
        user.serve(Kind::Write, first + u64::from(sectors) + skip, sectors)
    });
    times.min().unwrap().0 as f64 / 1e6
}

/// A commit of one block is a header sector and eight sectors of payload. With its formula the paper leaves at most 0.5
/// ms of rotational latency (Trail 5.1). The bound of the online predictor is 0.2 ms.
#[test]
fn durable_block_costs_overhead_and_transfer_only() {
    let spec = DriveFile::of_library("st41601n").spec;
    let think = Nanos::from_millis(5);
    let floor = floor_ms(&spec, 9, think);
    let mean = |kind| {
        let took = latencies(&spec, kind, 1, think, (1, 2000));
        mean_ms(&took[300..])
    };
    let (sequential, formula, online) = (
        mean(HeadKind::Sequential),
        mean(HeadKind::Formula),
        mean(HeadKind::Online),
    );
    println!(
        "floor {floor:.3}, sequential {sequential:.3}, formula {formula:.3}, online {online:.3} ms"
    );
    assert!(formula - floor < 0.5, "{formula} above {floor}");
    assert!(online - floor < 0.2, "{online} above {floor}");
    assert!(online < 1.05 * floor, "{online} above {floor}");
    assert!(
        sequential > 2.5 * online,
        "following the head makes commits at least 2.5 times faster"
    );
}

/// While one drive writes, the other one takes the commits that have come meanwhile.
#[test]
fn two_log_drives_are_faster_for_several_clients() {
    let spec = DriveFile::of_library("st41601n").spec;
    let mean = |drives| {
        let think = Nanos::from_millis(1);
        let took = latencies(&spec, HeadKind::Online, drives, think, (4, 2000));
        mean_ms(&took[300..])
    };
    let (one, two) = (mean(1), mean(2));
    println!("one drive {one:.3}, two in turn {two:.3} ms");
    assert!(two < 0.85 * one, "{two} against {one}");
}

#[test]
fn a_drive_with_larger_sectors_than_the_log_is_refused() {
    let shape = Shape {
        track_bytes: 40 << 10,
        split: true,
        heads: Heads::Tracks {
            kind: HeadKind::Online,
            drives: 1,
        },
        ..Shape::small(Layout::Overwrite, 32, 64)
    };
    let image = shape.create();
    let (refused, _) = image.run(0, async |_, rt, image| {
        opened(&rt, &image.disks, 4096).await.err()
    });
    let text = refused.unwrap().to_string();
    assert!(
        text.contains("sectors of 4096 bytes, and the log has sectors of 512"),
        "{text}"
    );
}
