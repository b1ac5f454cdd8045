//! Random drives and requests: every request ends, once, and not too early.

use crate::made::made;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tonearm_base::Nanos;
use tonearm_drive::{Disk, DriveOptions};
use tonearm_drive_file::{
    CacheTakes, DriveSpec, HeadOrder, MediaCacheSpec, ReadAhead, Scheduler, Sparing, ZoneSpec,
};
use tonearm_world::{DriveRequest, Kind, Timing};

type Choices = (
    (u32, u32, u32, u32),
    (usize, usize, usize, usize),
    (u32, u32, u32, u32),
    [bool; 11],
    (f64, f64, f64, u64),
);

fn choices() -> impl Strategy<Value = Choices> {
    (
        (1_u32..5, 1_u32..30, 1_u32..40, 1_u32..40),
        (0_usize..6, 0_usize..4, 0_usize..6, 0_usize..2),
        (0_u32..4, 1_u32..80, 0_u32..100, 1_u32..60),
        any::<[bool; 11]>(),
        (0.0..0.3_f64, 0.0..0.3_f64, 0.0..1.0_f64, 0_u64..3),
    )
}

fn drive(choices: &Choices) -> DriveSpec {
    let (shape, kinds, sizes, flags, times) = choices;
    let spec = made(|disk, cache| {
        let plain = disk.geometry.zones[0].clone();
        disk.geometry.heads = shape.0;
        disk.geometry.cylinders = 2 * shape.1 + 1;
        let zone = |first, last, track| ZoneSpec {
            first_cylinder: first,
            last_cylinder: last,
            track_sectors: track,
            track_skew: f64::from(track) * 0.3,
            offset: f64::from(track) * 0.1,
            ..plain.clone()
        };
        disk.geometry.zones = vec![
            zone(0, shape.1 - 1, shape.2 + 2),
            zone(shape.1 + 1, 2 * shape.1, shape.3 + 2),
        ];
        disk.geometry.sparing = [
            Sparing::None,
            Sparing::Track,
            Sparing::Cylinder,
            Sparing::Cylinders(3),
            Sparing::Zone,
            Sparing::Drive,
        ][kinds.0];
        disk.geometry.zones[0].slips = vec![1];
        if !matches!(disk.geometry.sparing, Sparing::None | Sparing::Drive) {
            disk.geometry.zones[0].spares = 1;
        }
        if flags[0] {
            disk.geometry.order = HeadOrder::Serpentine;
        }
        disk.rotation.jitter_ns = times.3 * 50_000;
        disk.overhead.read_miss_ms.read = times.0;
        disk.overhead.write_miss_ms.write = times.1;
        disk.overhead.read_hit_ms.write = times.1;
        disk.overhead.reconnect_ms = times.0;
        disk.seek.same_track_ms = times.1;
        disk.seek.write_settle_ms = times.0 - 0.15;
        disk.bus.read_sector_ms = times.1;
        disk.bus.write_sector_ms = times.0;
        let buffer = &mut disk.buffer;
        buffer.segments = sizes.0;
        buffer.segment_sectors = sizes.1;
        buffer.read_ahead_sectors = sizes.2;
        buffer.read_ahead = [
            ReadAhead::None,
            ReadAhead::Track,
            ReadAhead::Segment,
            ReadAhead::NextTrack,
        ][kinds.1];
        buffer.zero_latency_read = flags[1];
        buffer.zero_latency_write = flags[2];
        buffer.stop_in_sector = flags[3];
        buffer.keeps_writes = flags[4];
        buffer.reads_on_arrival = flags[5];
        buffer.reads_on_after_hit = flags[6];
        buffer.read_ahead_if_sequential = flags[7];
        buffer.drops_sent = flags[8];
        buffer.read_watermark = times.2;
        disk.scheduler = [
            Scheduler::Fcfs,
            Scheduler::Sstf,
            Scheduler::Scan,
            Scheduler::CLook,
            Scheduler::VR(0.2),
            Scheduler::Sptf,
        ][kinds.2];
        disk.queue_depth = sizes.0;
        disk.media_cache = flags[10].then(|| MediaCacheSpec {
            source: "made up".into(),
            sectors: u64::from(sizes.1) + 8,
            writes: sizes.0 * 5,
            zone_sectors: if flags[0] { sizes.2 * 3 } else { 0 },
            idle_ms: times.2 * 20.0,
            map_writes: 7,
            map_ms: 2.0,
        });
        cache.enabled = flags[9];
        cache.sectors = sizes.3;
        cache.takes = [CacheTakes::All, CacheTakes::Sequential][kinds.3];
        cache.idle_ms = times.2 * 20.0;
    });
    // A file that the check refuses is not run.
    assert!(spec.disk.is_some());
    spec
}

/// Think time in ns, kind, place as a share, sectors, and whether it continues the previous request.
type Step = (u64, u8, f64, u32, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let think = prop_oneof![Just(0), 0_u64..500_000, 0_u64..80_000_000];
    let step = (think, 0_u8..12, 0.0..1.0_f64, 0_u32..60, any::<bool>());
    prop::collection::vec(step, 1..80)
}

fn requests(sectors: u64, steps: &[Step]) -> Vec<(u64, DriveRequest)> {
    let (mut now, mut last) = (0, 0);
    let mut requests = Vec::new();
    for (id, (think, kind, place, count, follows)) in steps.iter().enumerate() {
        now += think;
        let kind = match kind {
            0 => Kind::Flush,
            1..6 => Kind::Read,
            _ => Kind::Write,
        };
        let lba = match follows {
            true if last < sectors => last,
            _ => ((sectors as f64 * place) as u64).min(sectors - 1),
        };
        let count = match kind {
            Kind::Flush => 0,
            Kind::Read => u64::from(*count).clamp(1, sectors - lba),
            Kind::Write => u64::from(*count).min(sectors - lba),
        };
        last = lba + count;
        let request = DriveRequest {
            id: id as u64,
            kind,
            fua: place.fract() < 0.1,
            lba: if kind == Kind::Flush { 0 } else { lba },
            sectors: count as u32,
        };
        requests.push((now, request));
    }
    requests
}

/// Longest time of one request: a turn or two and the longest seek, for each sector of it and of the cache.
const BOUND_NS: u64 = (60 + 60 + 10) * 30_000_000;

/// Times of completion by id.
fn completions(disk: &mut Disk, requests: &[(u64, DriveRequest)]) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    let mut done = Vec::new();
    let mut arrivals = requests.iter().peekable();
    let (mut now, mut events) = (0, 0);
    loop {
        events += 1;
        assert!(events < 10 * requests.len() + 10, "it makes no headway");
        let arrival = arrivals.peek().map(|(at, _)| *at);
        let event = disk.next().map(|at| at.0);
        if let Some(event) = event {
            assert!(event >= now, "an event in the past");
            if event > now {
                // No request ends before the announced time.
                let before = arrival.map_or(event - 1, |arrival| arrival.min(event - 1));
                disk.advance(Nanos(before.max(now)), &mut done);
                assert!(done.is_empty(), "done before next()");
            }
        }
        match (arrival, event) {
            (None, None) => break,
            (Some(arrival), event) if event.is_none_or(|event| arrival < event) => {
                now = arrival;
                disk.submit(Nanos(now), arrivals.next().unwrap().1);
            }
            (_, Some(event)) => {
                now = event;
                disk.advance(Nanos(now), &mut done);
                assert!(!done.is_empty(), "next() announced nothing");
            }
            (Some(_), None) => unreachable!("the arrival comes first"),
        }
        for done in done.drain(..) {
            assert!(done.at.0 <= now);
            let (came, _) = requests[done.id as usize];
            assert!(done.at.0 >= came, "done before it came");
            assert!(found.insert(done.id, done.at.0).is_none(), "done twice");
            let bound = (requests.len() as u64 + 1) * BOUND_NS;
            assert!(done.at.0 - came < bound, "{} took too long", done.id);
        }
    }
    assert_eq!(found.len(), requests.len(), "not all were done");
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_request_is_done_once_and_in_time(choices in choices(), steps in steps()) {
        let spec = drive(&choices);
        let disk = || {
            let options = DriveOptions { seed: 5, ..DriveOptions::default() };
            Disk::new(spec.disk.as_ref().unwrap(), &spec.write_cache, &options)
        };
        let mut first = disk();
        let requests = requests(first.sectors(), &steps);
        let found = completions(&mut first, &requests);
        prop_assert_eq!(completions(&mut disk(), &requests), found);
    }
}
