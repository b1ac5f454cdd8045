//! Media cache and shingled zones.

use crate::made::{disk, flush, fua, made, read, run, takes, write};
use tonearm_base::Nanos;
use tonearm_drive::Disk;
use tonearm_drive_file::{DriveSpec, MediaCacheSpec};

/// The plain drive (10 ms a turn, 0.1 ms a sector) with 8 heads and a band of `sectors` sectors. Skews as long as a
/// head switch and a seek of one cylinder.
fn banded(sectors: u64, zone_sectors: u32, idle_ms: f64) -> DriveSpec {
    made(|disk, _| {
        disk.geometry.heads = 8;
        disk.geometry.zones[0].track_skew = 6.0;
        disk.geometry.zones[0].cylinder_skew = 12.0;
        disk.media_cache = Some(MediaCacheSpec {
            source: "made up".into(),
            sectors,
            writes: 0,
            zone_sectors,
            idle_ms,
            map_writes: 0,
            map_ms: 0.0,
        });
    })
}

/// A place for each write, all over the drive.
fn places(sectors: u64) -> impl Iterator<Item = u64> {
    (1_u64..).map(move |index| index * 7_919 % (sectors - 100))
}

/// Mean time of `count` durable writes of 8 sectors, one after the other, in ms.
fn mean(
    drive: &mut Disk,
    places: &mut impl Iterator<Item = u64>,
    now: &mut Nanos,
    count: u32,
) -> f64 {
    let begun = *now;
    for lba in places.by_ref().take(count as usize) {
        *now = run(drive, *now, fua(lba, 8));
    }
    (now.0 - begun.0) as f64 / 1e6 / f64::from(count)
}

#[test]
fn a_burst_goes_at_the_sequential_rate_and_then_at_that_of_the_moves() {
    let mut plain = disk(&made(|disk, _| disk.geometry.heads = 8));
    let sectors = plain.sectors();
    let (mut now, mut next) = (Nanos(0), places(sectors));
    let in_place = mean(&mut plain, &mut next, &mut now, 300);
    let mut banded = disk(&banded(4_000, 0, 1e4));
    let (mut now, mut next) = (Nanos(0), places(sectors));
    let burst = mean(&mut banded, &mut next, &mut now, 480);
    // 8 sectors of 0.1 ms, and a twelfth of a track to the next one.
    assert!((0.8..1.0).contains(&burst), "{burst} ms");
    assert!(in_place > 7.0, "{in_place} ms");
    mean(&mut banded, &mut next, &mut now, 100);
    let full = mean(&mut banded, &mut next, &mut now, 300);
    // Each one into the band, another one out of it, and that one to its place.
    let moves = full / in_place;
    assert!(
        (1.5..3.5).contains(&moves),
        "{full} ms, in place {in_place}"
    );
}

#[test]
fn a_random_write_costs_the_pass_over_a_zone_twice_once_the_band_is_full() {
    for zone in [400, 800] {
        let mut drive = disk(&banded(1_600, zone, 1e4));
        let (mut now, mut next) = (Nanos(0), places(drive.sectors()));
        mean(&mut drive, &mut next, &mut now, 250);
        let full = mean(&mut drive, &mut next, &mut now, 300);
        // Of a zone the band holds several writes, so fewer zones move than writes come.
        let zones = (drive.sectors() / u64::from(zone)) as f64;
        let held = 200.0 / zones;
        let pass = f64::from(zone) * 0.106;
        let expected = 2.0 * pass / held.max(1.0);
        let share = full / expected;
        assert!(
            (0.6..2.2).contains(&share),
            "{full} ms, {expected} of two passes"
        );
    }
}

#[test]
fn what_is_in_the_band_is_read_there_and_moves_when_the_drive_is_idle() {
    let mut drive = disk(&banded(4_000, 800, 100.0));
    let far = drive.sectors() - 400;
    let wrote = takes(&mut drive, 0.0, fua(far, 8));
    assert!(wrote < 11.0, "no seek: {wrote} ms");
    // At the outer edge, where the arm is.
    let near = takes(&mut drive, 50.0, read(far, 8));
    assert!(near < 11.0, "{near} ms");
    assert_eq!(drive.mechanism().arm.cylinder, 0);
    // It has moved meanwhile, and the arm with it.
    let there = takes(&mut drive, 2_000.0, read(far, 8));
    assert_eq!(drive.mechanism().arm.cylinder, 49);
    assert!(there < 11.0, "{there} ms");
}

#[test]
fn a_request_waits_for_the_zone_that_is_being_moved() {
    let mut drive = disk(&banded(4_000, 800, 100.0));
    takes(&mut drive, 0.0, fua(20_000, 8));
    // The move begins 100 ms after the write and passes 800 sectors twice.
    let waits = takes(&mut drive, 150.0, read(20_000, 8));
    assert!((110.0..200.0).contains(&waits), "{waits} ms");
}

#[test]
fn a_sequence_goes_to_its_place_and_a_flush_into_the_band() {
    let cached = |zone| {
        let mut spec = banded(4_000, zone, 1e4);
        spec.write_cache.enabled = true;
        spec.write_cache.sectors = 800;
        spec.write_cache.source = "made up".into();
        spec
    };
    let mut drive = disk(&cached(400));
    let mut now = Nanos(0);
    // 8000 sectors from the start of a zone.
    for index in 0..200 {
        now = run(&mut drive, now, write(12_000 + index * 40, 40));
    }
    now = run(&mut drive, now, flush());
    let took = now.0 as f64 / 1e6 / 8_000.0;
    assert!((0.1..0.12).contains(&took), "{took} ms a sector");
    // The end of it went with the flush: into the band at the outer edge.
    assert_eq!(drive.mechanism().arm.cylinder, 0);
    let before = takes(&mut drive, now.0 as f64 / 1e6 + 50.0, read(13_000, 8));
    assert!(drive.mechanism().arm.cylinder > 10, "{before} ms");
}

#[test]
fn the_map_of_the_band_is_written_after_so_many_writes() {
    let mut spec = banded(4_000, 0, 1e4);
    let cache = spec.disk.as_mut().unwrap().media_cache.as_mut().unwrap();
    (cache.map_writes, cache.map_ms) = (5, 300.0);
    let mut drive = disk(&spec);
    let slow = (0..20_u32).map(|index| {
        takes(
            &mut drive,
            f64::from(index) * 1_000.0,
            fua(u64::from(index) * 50, 8),
        )
    });
    let slow: Vec<bool> = slow.map(|ms| ms > 300.0).collect();
    let expected: Vec<bool> = (1..=20).map(|index| index % 5 == 0).collect();
    assert_eq!(slow, expected);
}
