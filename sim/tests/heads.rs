//! The whole engine with its log on a simulated drive whose head is followed.

#![allow(clippy::unwrap_used)]

use base::{BufPool, Nanos};
use calibrate::{deltas, track_map, turn};
use device::{Device, RawDevice};
use disk::{
    CreateParams, HeadParams, LogDrive, MemberDevice, MemberSpace, NewMember, OpenOptions,
    plan_create,
};
use drive::{
    DiskImage, Drive, DriveOptions, DriveSpec, SimDisk, SimOptions, SimWorld, Zeroing, library,
};
use engine::{CommitChange, Engine};
use format::{HeadKind, Roles, SYSTEM_BLOCKS};
use rt::{DeviceId, Rt};
use std::rc::Rc;

const BLOCK: u32 = 4096;
const LOG_BYTES: u64 = 64 << 20;

fn spec(name: &str) -> DriveSpec {
    let known = library().iter().find(|drive| drive.name == name).unwrap();
    DriveSpec::parse(known.name, known.text).unwrap()
}

/// Latencies of `count` durable commits of one block, each `think` after the end of the one before, in
/// nanoseconds.
fn latencies(
    spec: &DriveSpec,
    kind: HeadKind,
    drives: usize,
    think: Nanos,
    count: u64,
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
        size_bytes: 8 << 20,
        log_bytes: Some(LOG_BYTES * drives as u64),
        track_bytes: None,
        block_size: BLOCK,
        head: (kind != HeadKind::Sequential).then_some(head),
        store: [1; 16],
        created_unix_s: 0,
    };
    let space = |log, path: &str| MemberSpace {
        roles: Roles { log, data: !log },
        available_bytes: None,
        uuid: [1; 16],
        path: path.into(),
    };
    let logs = (0..drives).map(|index| space(true, if index == 0 { "" } else { "log" }));
    let spaces: Vec<MemberSpace> = logs.chain([space(false, "data")]).collect();
    let plan = plan_create(&params, &spaces).unwrap();
    let sizes = plan.member_bytes.clone();
    let disk = |(index, bytes): (usize, &u64)| SimDisk {
        image: DiskImage::new(*bytes),
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
    let disks = sizes.iter().enumerate().map(disk).collect();
    let world = SimWorld::with_disks(SimOptions::default(), disks);
    let rt = Rt::new(world.driver());
    let rt2 = rt.clone();
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let device = |index: usize| {
            let id = DeviceId(index as u32);
            Rc::new(RawDevice::new(&rt2, id, sizes[index], 512, "drive")) as Rc<dyn Device>
        };
        let members = (0..sizes.len()).map(|index| NewMember {
            device: device(index),
            blank: true,
        });
        let members = members.collect();
        disk::create(
            &rt2,
            &pool,
            &plan,
            members,
            params.size_bytes,
            [2; 16],
            |_, _| {},
        )
        .await
        .unwrap();
        let members = (0..sizes.len()).map(|index| MemberDevice {
            device: device(index),
            path: format!("member-{index}"),
        });
        let engine = Engine::open(
            &rt2,
            &pool,
            members.collect(),
            OpenOptions::default(),
            |_| {},
        )
        .await
        .unwrap();
        let mut took = Vec::new();
        for number in 0..count {
            let change = CommitChange::Write {
                first: SYSTEM_BLOCKS + number % 1000,
                data: pool.copy_of(&[number as u8; BLOCK as usize]).share(),
            };
            let admission = engine.admit(1, 1).await.unwrap();
            let sent = rt2.now();
            let lsn = engine.commit(admission, vec![change]).unwrap();
            engine.wait_durable(lsn).await.unwrap();
            took.push(rt2.now().since(sent).0);
            rt2.sleep(think).await;
        }
        took
    })
}

fn mean_ms(took: &[u64]) -> f64 {
    took.iter().sum::<u64>() as f64 / took.len() as f64 / 1e6
}

#[test]
fn a_durable_block_takes_overhead_and_transfer_on_the_drive_of_the_paper() {
    let spec = spec("st41601n");
    for (kind, think_ms) in [
        (HeadKind::Sequential, 5),
        (HeadKind::Formula, 5),
        (HeadKind::Online, 5),
        (HeadKind::Formula, 0),
        (HeadKind::Online, 0),
    ] {
        let took = latencies(&spec, kind, 1, Nanos::from_millis(think_ms), 400);
        println!(
            "{kind:?} think {think_ms} ms: mean {:.3} ms {:?}",
            mean_ms(&took[100..]),
            took[200..230].iter().map(|t| t / 10000).collect::<Vec<_>>()
        );
    }
}
