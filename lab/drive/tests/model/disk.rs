//! A mechanical drive without buffer and cache. The expected times are computed by hand.
//!
//! The small drive turns in 10 ms and has 100 sectors a track: sector `s` of a track begins to pass at
//! `s` times 0.1 ms of each revolution. A seek takes 1 ms and 0.1 ms for each cylinder of 200 sectors.

use crate::made::{disk, disk_with, flush, fua, made, near, read, takes, write};
use tonearm_base::Nanos;
use tonearm_drive::{Disk, DriveOptions};
use tonearm_drive_file::{ReadAhead, Scheduler};
use tonearm_world::{DriveRequest, Timing};

#[test]
fn a_write_costs_overhead_seek_settling_latency_and_transfer() {
    let mut drive = disk(&made(|_, _| ()));
    // From 3 ms on 10 cylinders: there at 5 ms; sector 60 comes at 6 ms.
    near(takes(&mut drive, 3.0, write(2_060, 4)), 3.4);
    let mut drive = disk(&made(|disk, _| {
        disk.overhead.write_miss_ms.read = 0.3;
        disk.overhead.write_disconnect_ms = 0.02;
        disk.overhead.reconnect_ms = 0.03;
        disk.overhead.write_done_ms = 0.05;
        disk.seek.write_settle_ms = 0.2;
        disk.bus.write_sector_ms = 0.01;
    }));
    near(takes(&mut drive, 3.0, write(2_060, 4)), 3.4 + 0.03 + 0.05);
    // With settling it misses sector 54, which comes again at 15.4.
    let mut drive = disk(&made(|disk, _| disk.seek.write_settle_ms = 0.5));
    near(takes(&mut drive, 3.0, write(2_054, 1)), 12.5);
    near(takes(&mut drive, 33.0, read(0, 1)), 7.1);
}

#[test]
fn a_read_costs_overhead_seek_latency_and_the_bus() {
    let mut drive = disk(&made(|_, _| ()));
    near(takes(&mut drive, 3.0, read(2_060, 4)), 3.4);
    let change = |bus: f64| {
        made(move |disk, _| {
            disk.overhead.read_miss_ms.read = 0.3;
            disk.overhead.reconnect_ms = 0.03;
            disk.overhead.prepare_ms = 0.01;
            disk.overhead.read_done_ms = 0.05;
            disk.bus.read_sector_ms = bus;
        })
    };
    // The medium determines the end of the last sector.
    near(
        takes(&mut disk(&change(0.02)), 3.0, read(2_060, 4)),
        3.4 + 0.02 + 0.05,
    );
    // The bus determines the end of all; it is taken when the first sector is in the buffer.
    near(
        takes(&mut disk(&change(0.2)), 3.0, read(2_060, 4)),
        3.1 + 0.04 + 0.8 + 0.05,
    );
}

#[test]
fn overheads_depend_on_the_previous_command() {
    let mut drive = disk(&made(|disk, _| {
        disk.overhead.read_miss_ms.write = 0.2;
        disk.overhead.write_miss_ms.write = 0.25;
    }));
    // Sector 0 passes every 10 ms. A request 0.2 ms earlier is just in time, unless it has more overhead.
    takes(&mut drive, 0.0, write(0, 1));
    near(takes(&mut drive, 19.9, read(0, 1)), 10.2);
    near(takes(&mut drive, 39.9, read(0, 1)), 0.2);
    takes(&mut drive, 50.0, write(0, 1));
    near(takes(&mut drive, 69.8, write(0, 1)), 10.3);
}

#[test]
fn request_across_tracks_waits_when_skew_is_too_small() {
    let mut drive = disk(&made(|_, _| ()));
    near(takes(&mut drive, 0.0, read(50, 100)), 25.0);
    let mut drive = disk(&made(|disk, _| disk.geometry.zones[0].track_skew = 6.0));
    near(takes(&mut drive, 0.0, read(50, 100)), 15.6);
    let mut drive = disk(&made(|disk, _| {
        disk.geometry.zones[0].track_skew = 6.0;
        disk.geometry.zones[0].cylinder_skew = 12.0;
    }));
    // Four cylinders: eight tracks, four head switches, three seeks.
    near(
        takes(&mut drive, 0.0, write(0, 800)),
        80.0 + 4.0 * 0.6 + 3.0 * 1.2,
    );
}

#[test]
fn a_request_over_a_zone_continues_at_the_rate_of_the_next() {
    let spec = made(|disk, _| {
        let mut inner = disk.geometry.zones[0].clone();
        disk.geometry.zones[0].last_cylinder = 9;
        inner.first_cylinder = 10;
        inner.track_sectors = 50;
        inner.offset = 10.0;
        disk.geometry.zones.push(inner);
    });
    let mut drive = disk(&spec);
    // Cylinder 9, head 1 ends with sector 1999; ready at 1.9, sector 90 passes from 9 to 10, seek to 11.1,
    // the next zone begins a fifth of a turn on, at 12; 5 sectors of 0.2 ms.
    near(takes(&mut drive, 0.0, read(1_990, 15)), 13.0);
    assert_eq!(drive.sectors(), 2_000 + 4_000);
    takes(&mut drive, 40.0, read(5_999, 1));
    takes(&mut drive, 80.0, write(5_900, 100));
}

#[test]
fn zero_latency_transfers_a_track_in_one_revolution() {
    let plain = made(|_, _| ());
    near(takes(&mut disk(&plain), 2.55, read(0, 100)), 17.45);
    near(takes(&mut disk(&plain), 2.55, write(0, 100)), 17.45);
    let both = made(|disk, _| {
        disk.buffer.zero_latency_read = true;
        disk.buffer.zero_latency_write = true;
    });
    near(takes(&mut disk(&both), 2.55, read(0, 100)), 10.05);
    near(takes(&mut disk(&both), 2.55, write(0, 100)), 10.05);
    // Heads that arrive before or after the sectors find none of them.
    near(takes(&mut disk(&both), 2.55, read(50, 20)), 4.45);
    near(takes(&mut disk(&both), 8.05, read(50, 20)), 8.95);
    near(takes(&mut disk(&both), 6.05, read(50, 20)), 10.05);
}

#[test]
fn a_slow_bus_lets_the_platter_turn_before_a_write() {
    let mut drive = disk(&made(|disk, _| disk.bus.write_sector_ms = 0.15));
    // The data of sector 1 is in the buffer after 0.15 ms, when sector 1 has begun to pass.
    near(takes(&mut drive, 0.0, write(1, 1)), 10.2);
    let mut drive = disk(&made(|disk, _| disk.bus.write_sector_ms = 0.15));
    near(takes(&mut drive, 0.0, write(2, 1)), 0.3);
}

#[test]
fn last_sector_is_reachable_from_the_first_cylinder() {
    let mut drive = disk(&made(|_, _| ()));
    near(takes(&mut drive, 0.0, read(9_999, 1)), 10.0);
    near(takes(&mut drive, 15.0, read(0, 1)), 15.1);
    takes(&mut drive, 30.0, write(9_900, 100));
}

#[test]
fn a_flush_without_a_cache_costs_its_overhead() {
    let mut drive = disk(&made(|disk, _| disk.overhead.flush_ms = 0.7));
    near(takes(&mut drive, 5.0, flush()), 0.7);
    near(takes(&mut drive, 10.0, fua(0, 1)), 0.1);
}

#[test]
fn the_phase_moves_all_times() {
    let options = DriveOptions {
        phase: 0.25,
        ..DriveOptions::default()
    };
    let mut drive = disk_with(&made(|_, _| ()), &options);
    near(takes(&mut drive, 0.0, read(30, 1)), 0.6);
    drive.turn(0.5);
    near(takes(&mut drive, 10.0, read(80, 1)), 0.6);
}

#[test]
fn queued_requests_are_served_and_end_in_order() {
    let mut drive = disk(&made(|_, _| ()));
    for (id, lba) in [(1, 0), (2, 50), (3, 20)] {
        let request = tonearm_world::DriveRequest {
            id,
            ..read(lba, 10)
        };
        drive.submit(Nanos(0), request);
    }
    let mut done = Vec::new();
    drive.advance(Nanos(999_000), &mut done);
    assert!(done.is_empty());
    drive.advance(Nanos(1_000_000_000), &mut done);
    let found: Vec<_> = done.iter().map(|done| done.id).collect();
    assert_eq!(found, [1, 2, 3]);
    for (done, expected) in done.iter().zip([1.0, 6.0, 13.0]) {
        near(done.at.0 as f64 / 1e6, expected);
    }
    assert_eq!(drive.next(), None);
}

/// Times of flushes that take 0.7 ms without noise.
fn noisy_flushes(seed: u64, noise_ms: f64) -> Vec<f64> {
    let spec = made(|disk, _| {
        disk.overhead.flush_ms = 0.7;
        disk.overhead.noise_ms = noise_ms;
    });
    let options = DriveOptions {
        seed,
        ..DriveOptions::default()
    };
    let mut drive = disk_with(&spec, &options);
    (0..1_000)
        .map(|at| takes(&mut drive, f64::from(at) * 20.0, flush()))
        .collect()
}

#[test]
fn noise_lengthens_each_command_evenly_up_to_its_most() {
    let times = noisy_flushes(1, 0.4);
    assert!(times.iter().all(|time| (0.7..=1.1001).contains(time)));
    for quarter in 0..4 {
        let from = 0.7 + 0.1 * f64::from(quarter);
        let within = times
            .iter()
            .filter(|time| (from..from + 0.1).contains(*time));
        // 250 of 1,000, with a standard deviation of 14.
        assert!((190..310).contains(&within.count()), "from {from} ms");
    }
    assert!(
        noisy_flushes(1, 0.0)
            .iter()
            .all(|time| (time - 0.7).abs() < 1e-6)
    );
}

#[test]
fn the_seed_determines_the_noise() {
    assert_eq!(noisy_flushes(1, 0.4), noisy_flushes(1, 0.4));
    assert_ne!(noisy_flushes(1, 0.4), noisy_flushes(2, 0.4));
}

#[test]
fn noise_makes_a_command_miss_its_sector() {
    let spec = made(|disk, _| disk.overhead.noise_ms = 1.0);
    let mut drive = disk(&spec);
    // Each is sent 0.5 ms before sector 0 passes.
    let times: Vec<f64> = (1..1_001)
        .map(|turn| takes(&mut drive, f64::from(turn) * 50.0 - 0.5, write(0, 1)))
        .collect();
    let missed = times.iter().filter(|time| **time > 5.0).count();
    assert!((430..570).contains(&missed), "{missed} of 1,000 missed");
    for time in times {
        let turn = if time > 5.0 { 10.0 } else { 0.0 };
        near(time, turn + 0.6);
    }
}

/// The order in which simultaneous requests are completed.
fn order(drive: &mut Disk, requests: &[DriveRequest]) -> Vec<usize> {
    for (id, request) in requests.iter().enumerate() {
        let id = id as u64;
        drive.submit(Nanos(0), DriveRequest { id, ..*request });
    }
    let mut done = Vec::new();
    drive.advance(Nanos(1_000_000_000), &mut done);
    assert!(done.is_sorted_by_key(|done| done.at));
    done.iter().map(|done| done.id as usize).collect()
}

#[test]
fn the_shortest_positioning_counts_from_when_the_arm_may_move() {
    // The first ends at 0.1 ms; the command of the next takes 1 ms, in which sector 6 has passed.
    let requests = [read(0, 1), read(6, 1), read(30, 1)];
    for (command_ms, expected) in [(0.0, [0, 1, 2]), (1.0, [0, 2, 1])] {
        let spec = made(|disk, _| {
            disk.scheduler = Scheduler::Sptf;
            disk.overhead.read_miss_ms.read = command_ms;
        });
        assert_eq!(order(&mut disk(&spec), &requests), expected);
    }
}

#[test]
fn the_nearest_cylinder_is_near_to_where_reading_ahead_went() {
    let spec = made(|disk, _| {
        disk.scheduler = Scheduler::Sstf;
        disk.buffer.segments = 1;
        disk.buffer.segment_sectors = 200;
        disk.buffer.read_ahead = ReadAhead::Segment;
        disk.buffer.read_ahead_sectors = 150;
        disk.bus.read_sector_ms = 3.0;
    });
    // While the bus transfers the first, the heads move to the next cylinder.
    let requests = [read(150, 10), read(0, 1), read(390, 1)];
    assert_eq!(order(&mut disk(&spec), &requests), [0, 2, 1]);
}
