//! The order in which each scheduler serves given and random queues.

use super::{Queue, Scheduler, Starts};
use crate::mechanism::{Arm, Mechanism};
use crate::rotation::Rotation;
use crate::seek::Seek;
use proptest::prelude::*;
use tonearm_base::Nanos;
use tonearm_drive_file::Geometry;
use tonearm_drive_file::{GeometrySpec, HeadOrder, SeekCurve, SeekSpec, Sparing, ZoneSpec};
use tonearm_world::Kind::Flush;
use tonearm_world::{DriveRequest, Kind};

/// 100 cylinders of 2 heads and 100 sectors a track; 6000 rpm; 1 ms and 0.1 ms a cylinder.
fn mechanism() -> Mechanism {
    let zone = ZoneSpec {
        first_cylinder: 0,
        last_cylinder: 99,
        track_sectors: 100,
        track_skew: 7.0,
        cylinder_skew: 13.0,
        offset: 0.0,
        reserved: 0,
        spares: 0,
        slips: Vec::new(),
        defects: Vec::new(),
    };
    let geometry = GeometrySpec {
        source: String::new(),
        heads: 2,
        cylinders: 100,
        sectors: None,
        order: HeadOrder::Forward,
        sparing: Sparing::None,
        zones: vec![zone],
    };
    let seek = SeekSpec {
        source: String::new(),
        curve: SeekCurve::Table(vec![(1, 1.1), (99, 10.9)]),
        head_switch_ms: 0.5,
        same_track_ms: 0.0,
        write_settle_ms: 0.4,
    };
    Mechanism {
        geometry: Geometry::new(&geometry),
        rotation: Rotation::new(6_000.0, 0.0, 0, 0),
        seek: Seek::new(&seek, 100),
        arm: Arm::default(),
        passed: 0,
    }
}

fn request(id: u64, kind: Kind, lba: u64) -> DriveRequest {
    DriveRequest {
        id,
        kind,
        fua: false,
        lba,
        sectors: u32::from(kind != Flush),
    }
}

const AT_ONCE: Starts = Starts {
    read: Nanos(0),
    write: Nanos(0),
};

/// Cylinders in the order of service, from an arm that starts at 50; `None` is a flush.
fn served(scheduler: Scheduler, waiting: &[Option<u64>]) -> Vec<Option<u64>> {
    let mut mechanism = mechanism();
    mechanism.arm.cylinder = 50;
    let mut queue = Queue::new(scheduler, 0);
    for (id, cylinder) in waiting.iter().enumerate() {
        let (kind, lba) = cylinder.map_or((Flush, 0), |cylinder| (Kind::Read, cylinder * 200));
        queue.push(request(id as u64, kind, lba), &mechanism);
    }
    let mut order = Vec::new();
    while let Some(next) = queue.pop(AT_ONCE, mechanism.arm, &mut mechanism) {
        if next.request.kind == Flush {
            order.push(None);
            continue;
        }
        let extent = mechanism.geometry.extent(next.request.lba);
        mechanism.move_to(&extent);
        order.push(Some(u64::from(extent.cylinder)));
    }
    assert!(queue.is_empty());
    order
}

fn order(scheduler: Scheduler, cylinders: &[u64]) -> Vec<u64> {
    let waiting: Vec<_> = cylinders.iter().copied().map(Some).collect();
    served(scheduler, &waiting).into_iter().flatten().collect()
}

const MIXED: [u64; 7] = [10, 53, 45, 90, 51, 48, 70];

#[test]
fn each_scheduler_has_its_order() {
    for (scheduler, expected) in [
        (Scheduler::Fcfs, MIXED),
        (Scheduler::Sstf, [51, 53, 48, 45, 70, 90, 10]),
        (Scheduler::Scan, [51, 53, 70, 90, 48, 45, 10]),
        (Scheduler::CLook, [51, 53, 70, 90, 10, 45, 48]),
        (Scheduler::VR(0.0), [51, 53, 48, 45, 70, 90, 10]),
        (Scheduler::VR(1.0), [51, 53, 70, 90, 48, 45, 10]),
        // A turn costs 13 cylinders: from 53 it is 17 to 70, and 5 + 13 back to 48.
        (Scheduler::VR(0.13), [51, 53, 70, 90, 48, 45, 10]),
        (Scheduler::VR(0.11), [51, 53, 48, 45, 10, 70, 90]),
    ] {
        assert_eq!(order(scheduler, &MIXED), expected, "{scheduler}");
    }
}

#[test]
fn reversed_sweep_continues_in_its_new_direction() {
    let mut mechanism = mechanism();
    mechanism.arm.cylinder = 50;
    let mut queue = Queue::new(Scheduler::Scan, 0);
    let serve = |queue: &mut Queue, mechanism: &mut Mechanism| {
        let next = queue.pop(AT_ONCE, mechanism.arm, mechanism).unwrap();
        let extent = mechanism.geometry.extent(next.request.lba);
        mechanism.move_to(&extent);
        extent.cylinder
    };
    queue.push(request(0, Kind::Read, 40 * 200), &mechanism);
    assert_eq!(serve(&mut queue, &mut mechanism), 40);
    queue.push(request(1, Kind::Read, 41 * 200), &mechanism);
    queue.push(request(2, Kind::Read, 20 * 200), &mechanism);
    assert_eq!(
        serve(&mut queue, &mut mechanism),
        20,
        "it was on its way down"
    );
    assert_eq!(serve(&mut queue, &mut mechanism), 41);
}

#[test]
fn equal_requests_are_served_in_order_of_arrival() {
    for scheduler in [
        Scheduler::Sstf,
        Scheduler::Scan,
        Scheduler::CLook,
        Scheduler::VR(0.2),
        Scheduler::Sptf,
    ] {
        let mut mechanism = mechanism();
        let mut queue = Queue::new(scheduler, 0);
        for id in 0..5 {
            queue.push(request(id, Kind::Read, 4_000), &mechanism);
        }
        for id in 0..5 {
            let arm = mechanism.arm;
            let next = queue.pop(AT_ONCE, arm, &mut mechanism).unwrap();
            assert_eq!(next.request.id, id, "{scheduler}");
        }
    }
    assert_eq!(order(Scheduler::Sstf, &[52, 48]), [52, 48]);
    assert_eq!(order(Scheduler::Sstf, &[48, 52]), [48, 52]);
}

#[test]
fn nothing_passes_a_flush() {
    for scheduler in [
        Scheduler::Fcfs,
        Scheduler::Sstf,
        Scheduler::Scan,
        Scheduler::CLook,
        Scheduler::VR(0.2),
        Scheduler::Sptf,
    ] {
        let waiting = [Some(90), Some(10), None, Some(50), Some(51), None, Some(91)];
        let order = served(scheduler, &waiting);
        let parts: Vec<_> = order.split(Option::is_none).collect();
        assert_eq!(parts.len(), 3, "{scheduler}: {order:?}");
        for (part, expected) in parts.iter().zip([vec![10, 90], vec![50, 51], vec![91]]) {
            let mut part: Vec<_> = part.iter().copied().flatten().collect();
            part.sort_unstable();
            assert_eq!(part, expected, "{scheduler}");
        }
    }
    assert_eq!(served(Scheduler::Sstf, &[None, None]), [None, None]);
}

proptest! {
    #[test]
    fn the_shortest_positioning_time_is_the_shortest_of_all(
        waiting in prop::collection::vec((0_u64..20_000, any::<bool>()), 1..40),
        arm in (0_u32..100, 0_u32..2),
        read in 0_u64..30_000_000,
        write in 0_u64..30_000_000,
    ) {
        let mut mechanism = mechanism();
        mechanism.arm = Arm { cylinder: arm.0, head: arm.1 };
        let starts = Starts { read: Nanos(read), write: Nanos(write) };
        let mut queue = Queue::new(Scheduler::Sptf, 0);
        let mut times = Vec::new();
        for (id, (lba, writes)) in waiting.iter().enumerate() {
            let kind = if *writes { Kind::Write } else { Kind::Read };
            queue.push(request(id as u64, kind, *lba), &mechanism);
            let extent = mechanism.geometry.extent(*lba);
            let start = if *writes { write } else { read };
            let there = start + mechanism.seek_time(&extent, *writes).0;
            times.push(there + mechanism.latency(Nanos(there), extent.angle).0);
        }
        let arm = mechanism.arm;
        let next = queue.pop(starts, arm, &mut mechanism).unwrap();
        let least = *times.iter().min().unwrap();
        let taken = times[next.request.id as usize];
        prop_assert!(taken <= least + 2, "{taken} where {least} was to be had");
    }

    #[test]
    fn every_request_is_served_once_under_every_scheduler(
        waiting in prop::collection::vec(prop::option::weighted(0.9, 0_u64..100), 0..60),
        which in 0_usize..6,
    ) {
        let schedulers = [
            Scheduler::Fcfs,
            Scheduler::Sstf,
            Scheduler::Scan,
            Scheduler::CLook,
            Scheduler::VR(0.3),
            Scheduler::Sptf,
        ];
        let mut found = served(schedulers[which], &waiting);
        let mut expected = waiting;
        found.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn names_of_schedulers_can_be_read_back() {
    for name in ["fcfs", "sstf", "scan", "clook", "vr:0.25", "sptf"] {
        assert_eq!(name.parse::<Scheduler>().unwrap().to_string(), name);
    }
    assert_eq!("LOOK".parse(), Ok(Scheduler::Scan));
    assert_eq!("vr".parse(), Ok(Scheduler::VR(0.2)));
    for wrong in ["", "vr:", "vr:1.5", "vr:-0.1", "vr:nan", "elevator"] {
        let error = wrong.parse::<Scheduler>().unwrap_err();
        assert!(error.contains(wrong), "{error}");
    }
}
