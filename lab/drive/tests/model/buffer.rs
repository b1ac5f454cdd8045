//! The read buffer: hits, reading ahead, and the effect of writes.

use crate::made::{disk, disk_with, flush, fua, made, near, read, takes, write};
use tonearm_base::Nanos;
use tonearm_drive::{Disk, DriveOptions};
use tonearm_drive_file::{DriveSpec, ReadAhead, WriteCacheSpec};
use tonearm_world::Timing;

/// Two segments of 200 sectors; reads 150 on.
fn buffered(
    change: impl FnOnce(&mut tonearm_drive_file::DiskSpec, &mut WriteCacheSpec),
) -> DriveSpec {
    made(|disk, cache| {
        disk.buffer.segments = 2;
        disk.buffer.segment_sectors = 200;
        disk.buffer.read_ahead = ReadAhead::Segment;
        disk.buffer.read_ahead_sectors = 150;
        cache.sectors = 64;
        change(disk, cache);
    })
}

fn cached() -> DriveOptions {
    DriveOptions {
        write_cache: Some(true),
        ..DriveOptions::default()
    }
}

#[test]
fn sectors_that_were_read_ahead_cost_a_hit_and_the_bus() {
    let mut drive = disk(&buffered(|disk, _| {
        disk.overhead.read_hit_ms.read = 0.25;
        disk.overhead.read_done_ms = 0.05;
        disk.bus.read_sector_ms = 0.01;
    }));
    near(takes(&mut drive, 0.0, read(0, 10)), 1.0 + 0.01 + 0.05);
    near(takes(&mut drive, 100.0, read(100, 10)), 0.25 + 0.1 + 0.05);
    near(takes(&mut drive, 200.0, read(4, 100)), 0.25 + 1.0 + 0.05);
}

#[test]
fn read_of_sectors_being_read_ahead_follows_the_medium() {
    let mut drive = disk(&buffered(|_, _| ()));
    near(takes(&mut drive, 0.0, read(0, 10)), 1.0);
    // Right after it, then farther on, then from sectors in the buffer into sectors that are still to come.
    near(takes(&mut drive, 1.0, read(10, 10)), 1.0);
    near(takes(&mut drive, 2.0, read(40, 10)), 3.0);
    near(takes(&mut drive, 6.05, read(55, 10)), 0.45);
}

#[test]
fn a_hit_that_ends_before_the_read_fetches_the_rest() {
    let mut drive = disk(&buffered(|disk, _| {
        disk.buffer.read_ahead = ReadAhead::None
    }));
    near(takes(&mut drive, 0.0, read(0, 10)), 1.0);
    // Sectors 10 to 14 pass from 11 to 11.5.
    near(takes(&mut drive, 5.0, read(5, 10)), 6.5);
    near(takes(&mut drive, 20.0, read(0, 15)), 0.0);
}

#[test]
fn reading_ahead_goes_to_the_end_of_the_track_or_of_the_next() {
    let held = |ahead: ReadAhead, from: u64| {
        let mut drive = disk(&buffered(|disk, _| disk.buffer.read_ahead = ahead));
        takes(&mut drive, 0.0, read(from, 10));
        let mut held = from + 10;
        while takes(&mut drive, 1_000.0, read(held, 1)) < 1e-9 {
            held += 1;
        }
        held
    };
    assert_eq!(held(ReadAhead::None, 20), 30);
    assert_eq!(held(ReadAhead::Track, 20), 100);
    assert_eq!(held(ReadAhead::Segment, 20), 180);
    // A first read stays on its track. A read that continues one of the previous track goes on to the next track.
    assert_eq!(held(ReadAhead::NextTrack, 20), 100);
    assert_eq!(held(ReadAhead::NextTrack, 95), 295);
}

fn stream(drive: &mut Disk, reads: u64, sectors: u32) -> f64 {
    let mut now = 0.0;
    for index in 0..reads {
        now += takes(drive, now, read(index * u64::from(sectors), sectors));
    }
    now
}

#[test]
fn reads_in_a_row_run_at_the_rate_of_the_medium_or_of_the_bus() {
    let skewed = |bus: f64| {
        buffered(move |disk, _| {
            disk.geometry.zones[0].track_skew = 6.0;
            disk.geometry.zones[0].cylinder_skew = 12.0;
            disk.bus.read_sector_ms = bus;
        })
    };
    let medium = 80.0 + 4.0 * 0.6 + 3.0 * 1.2;
    let found = stream(&mut disk(&skewed(0.0)), 100, 8);
    assert!((found - medium).abs() < 0.001, "{found} ms, not {medium}");
    let found = stream(&mut disk(&skewed(0.05)), 100, 8);
    assert!((found - medium).abs() < 0.06, "{found} ms, not {medium}");
    // A full buffer stops the drive. It continues when some sectors have been sent, or when the buffer is empty.
    let mut slow = skewed(0.3);
    let found = stream(&mut disk(&slow), 100, 8);
    assert!(found > 240.0 && found < 260.0, "{found} ms");
    slow.disk.as_mut().unwrap().buffer.reads_on_after_hit = true;
    let found = stream(&mut disk(&slow), 100, 8);
    assert!((found - 240.0).abs() < 1.0, "{found} ms, not 240");
}

#[test]
fn a_spindle_that_wanders_loses_no_turns_to_reads_in_a_row() {
    for seed in 0..20 {
        let spec = buffered(|disk, _| {
            disk.rotation.jitter_ns = 20_000;
            disk.geometry.zones[0].track_skew = 6.0;
            disk.geometry.zones[0].cylinder_skew = 12.0;
            // With this drive every read ends reading ahead.
            disk.buffer.read_ahead = ReadAhead::None;
        });
        let options = DriveOptions {
            seed,
            ..DriveOptions::default()
        };
        let mut drive = disk_with(&spec, &options);
        let found = stream(&mut drive, 100, 8);
        assert!(found < 90.0, "seed {seed}: {found} ms");
    }
}

#[test]
fn written_sectors_leave_the_buffer() {
    let mut drive = disk(&buffered(|disk, _| {
        disk.buffer.read_ahead = ReadAhead::None
    }));
    takes(&mut drive, 0.0, read(0, 20));
    takes(&mut drive, 50.0, write(5, 2));
    near(takes(&mut drive, 100.0, read(0, 5)), 0.0);
    near(takes(&mut drive, 150.0, read(4, 2)), 0.6);
    let mut drive = disk(&buffered(|disk, _| {
        disk.buffer.read_ahead = ReadAhead::None;
        disk.buffer.keeps_writes = true;
    }));
    takes(&mut drive, 0.0, read(0, 20));
    takes(&mut drive, 50.0, write(5, 2));
    near(takes(&mut drive, 100.0, read(5, 2)), 0.0);
}

#[test]
fn cached_write_invalidates_read_ahead_sectors() {
    for place in [2, 9, 12, 30] {
        let mut drive = disk_with(&buffered(|_, _| ()), &cached());
        takes(&mut drive, 0.0, read(0, 10));
        near(takes(&mut drive, 2.05, write(place, 2)), 0.0);
        // The cache was emptied long ago, so the read comes from the medium.
        let found = takes(&mut drive, 100.0, read(place, 2));
        assert!(found > 0.1, "place {place}: {found} ms");
        // The cache is emptied later: reading ahead continues, but not over the write.
        let mut drive = disk_with(&buffered(|_, cache| cache.idle_ms = 1e4), &cached());
        takes(&mut drive, 0.0, read(0, 10));
        near(takes(&mut drive, 2.05, write(place, 2)), 0.0);
        takes(&mut drive, 80.0, flush());
        let found = takes(&mut drive, 100.0, read(place, 2));
        assert!(found > 0.1, "place {place}: {found} ms");
    }
}

#[test]
fn a_segment_that_was_taken_for_a_write_is_read_into_no_more() {
    let spec = buffered(|disk, _| {
        disk.buffer.segments = 1;
        disk.buffer.keeps_writes = true;
    });
    let mut drive = disk_with(&spec, &cached());
    takes(&mut drive, 0.0, read(500, 10));
    takes(&mut drive, 52.0, write(100, 4));
    near(takes(&mut drive, 200.0, read(100, 4)), 0.0);
    // The buffer has neither the sectors between the write and the read-ahead, nor those of the read-ahead.
    for lba in [520, 400, 110] {
        let mut drive = disk_with(&spec, &cached());
        takes(&mut drive, 0.0, read(500, 10));
        takes(&mut drive, 2.0, write(100, 4));
        let found = takes(&mut drive, 201.05, read(lba, 4));
        assert!(found > 0.1, "sector {lba}: {found} ms");
    }
}

#[test]
fn request_larger_than_a_segment_leaves_its_end_buffered() {
    let mut drive = disk(&buffered(|disk, _| {
        disk.buffer.read_ahead = ReadAhead::None
    }));
    takes(&mut drive, 0.0, read(0, 500));
    near(takes(&mut drive, 500.0, read(300, 200)), 0.0);
    assert!(takes(&mut drive, 1_000.05, read(299, 1)) > 0.1);
}

#[test]
fn reading_ahead_ends_with_the_drive() {
    let mut drive = disk(&buffered(|_, _| ()));
    takes(&mut drive, 0.0, read(9_980, 10));
    near(takes(&mut drive, 100.0, read(9_990, 10)), 0.0);
    assert_eq!(drive.next(), None);
    takes(&mut drive, 200.0, fua(9_999, 1));
    takes(&mut drive, 300.0, read(9_999, 1));
}

#[test]
fn the_least_recently_used_segment_is_replaced() {
    let mut drive = disk(&buffered(|disk, _| {
        disk.buffer.read_ahead = ReadAhead::None
    }));
    takes(&mut drive, 0.0, read(0, 10));
    takes(&mut drive, 100.0, read(1_000, 10));
    near(takes(&mut drive, 200.0, read(0, 10)), 0.0);
    takes(&mut drive, 300.0, read(2_000, 10));
    near(takes(&mut drive, 400.0, read(0, 10)), 0.0);
    assert!(takes(&mut drive, 500.05, read(1_000, 10)) > 0.1);
}

#[test]
fn the_same_seed_gives_the_same_times() {
    let times = |seed| {
        let spec = buffered(|disk, _| disk.rotation.jitter_ns = 50_000);
        let options = DriveOptions {
            seed,
            ..DriveOptions::default()
        };
        let mut drive = disk_with(&spec, &options);
        let mut now = Nanos(0);
        let mut times = Vec::new();
        for index in 0..200_u64 {
            let lba = index * 7_919 % 9_900;
            let request = if index % 3 == 0 {
                write(lba, 8)
            } else {
                read(lba, 8)
            };
            now = crate::made::run(&mut drive, now, request);
            times.push(now);
        }
        times
    };
    assert_eq!(times(3), times(3));
    assert_ne!(times(3), times(4));
}
