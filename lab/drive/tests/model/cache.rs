//! The volatile write cache.

use crate::made::{disk, disk_with, flush, fua, made, near, read, run, takes, write};
use tonearm_base::Nanos;
use tonearm_drive::DriveOptions;
use tonearm_drive_file::{CacheTakes, DiskSpec, DriveSpec, WriteCacheSpec};
use tonearm_world::Timing;

/// 64 sectors of cache, in which a write costs 0.1 ms and 0.01 ms a sector; emptied after `idle_ms`.
fn cached(idle_ms: f64, change: impl FnOnce(&mut DiskSpec, &mut WriteCacheSpec)) -> DriveSpec {
    made(|disk, cache| {
        disk.overhead.write_hit_ms.read = 0.1;
        disk.overhead.write_hit_ms.write = 0.1;
        disk.bus.write_sector_ms = 0.01;
        cache.enabled = true;
        cache.sectors = 64;
        cache.idle_ms = idle_ms;
        change(disk, cache);
    })
}

#[test]
fn a_cached_write_costs_its_overhead_and_the_bus() {
    let mut drive = disk(&cached(0.0, |disk, _| disk.overhead.write_done_ms = 0.02));
    near(takes(&mut drive, 0.0, write(5_000, 8)), 0.1 + 0.08 + 0.02);
    near(takes(&mut drive, 100.0, write(100, 64)), 0.1 + 0.64 + 0.02);
    // A write that is larger than the cache goes to the medium, which is busy for another 1.65 ms.
    assert!(takes(&mut drive, 200.0, write(5_000, 65)) > 6.0);
}

#[test]
fn a_full_cache_makes_the_host_wait_for_space() {
    let mut drive = disk(&cached(1e4, |_, _| ()));
    let mut now = 0.0;
    for index in 0..4 {
        let took = takes(&mut drive, now, write(index * 1_000, 8));
        near(took, 0.18);
        now += took;
    }
    // The cache is half full. The host waits until it has space for 40 more sectors.
    let took = takes(&mut drive, 20.0, write(9_000, 40));
    near(took, 0.8 + 0.1 + 0.4);
    // Sectors that are written again need no more space.
    let mut drive = disk(&cached(1e4, |_, _| ()));
    for index in 0..20 {
        near(takes(&mut drive, f64::from(index), write(2_000, 32)), 0.42);
    }
}

#[test]
fn a_cache_for_sequences_takes_only_sequential_writes() {
    let spec = cached(0.0, |_, cache| cache.takes = CacheTakes::Sequential);
    let mut drive = disk(&spec);
    near(takes(&mut drive, 0.0, write(2_000, 8)), 0.18);
    near(takes(&mut drive, 0.18, write(2_008, 8)), 0.18);
    // This write waits for them: sectors 0 to 15 of cylinder 10 pass from 10 ms on.
    let took = takes(&mut drive, 1.0, write(6_000, 8));
    assert!(took > 9.0, "{took} ms");
}

#[test]
fn the_cache_is_emptied_when_the_drive_has_been_idle() {
    // A flush long after the idle time finds an empty cache; one before it finds a full one.
    for (at, empty) in [(40.0, false), (90.0, true)] {
        let mut drive = disk(&cached(50.0, |_, _| ()));
        takes(&mut drive, 0.0, write(2_000, 8));
        let took = takes(&mut drive, at, flush());
        assert_eq!(took < 1e-3, empty, "flush at {at} took {took} ms");
    }
    // A request in between restarts the idle time.
    let mut drive = disk(&cached(50.0, |_, _| ()));
    takes(&mut drive, 0.0, write(2_000, 8));
    takes(&mut drive, 40.0, read(0, 1));
    assert!(takes(&mut drive, 80.0, flush()) > 1.0);
}

#[test]
fn a_flush_takes_as_long_as_the_medium_needs() {
    let mut drive = disk(&cached(1e4, |disk, _| disk.overhead.flush_ms = 0.3));
    takes(&mut drive, 0.0, write(2_060, 8));
    // From 3 ms on 10 cylinders: there at 5 ms; sector 60 passes from 6 ms on.
    near(takes(&mut drive, 3.0, flush()), 3.8 + 0.3);
    near(takes(&mut drive, 7.0, flush()), 0.3);
}

#[test]
fn a_flush_waits_for_writes_under_way_to_the_medium() {
    let mut drive = disk(&cached(0.0, |_, _| ()));
    takes(&mut drive, 0.0, write(2_060, 8));
    // The write begins at 0.1 ms and ends at 6.8.
    near(takes(&mut drive, 4.0, flush()), 2.8);
    near(takes(&mut drive, 20.0, flush()), 0.0);
}

#[test]
fn the_cache_is_written_in_the_order_of_places() {
    let zero = |idle: f64| {
        cached(idle, |disk, _| {
            disk.overhead.write_hit_ms.read = 0.0;
            disk.overhead.write_hit_ms.write = 0.0;
            disk.bus.write_sector_ms = 0.0;
        })
    };
    let mut drive = disk(&zero(1e4));
    for cylinder in [40, 10, 30, 20] {
        near(takes(&mut drive, 0.0, write(cylinder * 203, 8)), 0.0);
    }
    let found = takes(&mut drive, 0.0, flush());
    let through = DriveOptions {
        write_cache: Some(false),
        ..DriveOptions::default()
    };
    let sum = |cylinders: [u64; 4]| {
        let mut drive = disk_with(&zero(1e4), &through);
        let mut now = 0.0;
        for cylinder in cylinders {
            now += takes(&mut drive, now, write(cylinder * 203, 8));
        }
        now
    };
    near(found, sum([10, 20, 30, 40]));
    assert!(found < sum([40, 10, 30, 20]));
}

#[test]
fn with_fua_or_without_the_cache_a_write_goes_to_the_medium() {
    let mut drive = disk(&cached(1e4, |_, _| ()));
    near(takes(&mut drive, 3.0, fua(2_060, 4)), 3.4);
    near(takes(&mut drive, 30.0, flush()), 0.0);
    let through = DriveOptions {
        write_cache: Some(false),
        ..DriveOptions::default()
    };
    let mut drive = disk_with(&cached(1e4, |_, _| ()), &through);
    near(takes(&mut drive, 3.0, write(2_060, 4)), 3.4);
    near(takes(&mut drive, 30.0, flush()), 0.0);
}

#[test]
fn fua_replaces_an_older_cached_version() {
    let mut drive = disk(&cached(1e4, |_, _| ()));
    takes(&mut drive, 0.0, write(2_060, 4));
    takes(&mut drive, 3.0, fua(2_058, 8));
    near(takes(&mut drive, 30.0, flush()), 0.0);
}

#[test]
fn dirty_sectors_are_read_from_the_cache() {
    let mut drive = disk(&cached(1e4, |disk, _| {
        disk.overhead.read_hit_ms.write = 0.2;
        disk.bus.read_sector_ms = 0.02;
    }));
    takes(&mut drive, 0.0, write(2_060, 8));
    near(takes(&mut drive, 3.0, read(2_062, 4)), 0.2 + 0.08);
    // With one more sector the read goes to the medium.
    assert!(takes(&mut drive, 10.0, read(2_062, 7)) > 1.0);
}

#[test]
fn a_read_waits_for_a_write_back_that_has_begun() {
    let mut drive = disk(&cached(0.0, |_, _| ()));
    takes(&mut drive, 0.0, write(2_060, 8));
    // The arm is away until 6.8 ms, then back to cylinder 0 at 8.8; sector 95 comes at 9.5.
    near(takes(&mut drive, 4.0, read(95, 1)), 5.6);
}

#[test]
fn a_write_of_no_sectors_is_done_and_leaves_nothing() {
    for enabled in [false, true] {
        let mut drive = disk(&cached(1e4, |_, cache| cache.enabled = enabled));
        let at = run(&mut drive, Nanos(0), write(9_000, 0));
        assert!(at <= Nanos(100_000), "{at:?}");
        assert_eq!(run(&mut drive, at, flush()), at);
        assert_eq!(drive.next(), None);
    }
}
