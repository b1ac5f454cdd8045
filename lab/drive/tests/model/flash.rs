//! Drives without moving parts.

use crate::made::{flush, fua, near, read, takes, write};
use tonearm_base::Nanos;
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::DriveSpec;
use tonearm_world::{DriveRequest, Timing};

/// Two channels; 128 MiB/s both ways (a MiB in 7.8125 ms); a cache of 4 MiB.
const FLASH: &str = r#"
title = "made up"
source = "made up"
[flash]
source = "made up"
sectors = 1000000
channels = 2
read_ms = 0.1
write_ms = 0.5
write_cached_ms = 0.02
flush_ms = 1.0
flush_ms_per_mib = 2.0
read_mib_per_s = 128.0
write_mib_per_s = 128.0
[write_cache]
source = "made up"
enabled = true
sectors = 8192
"#;

const MIB: u32 = 2_048;
const MIB_MS: f64 = 7.8125;

fn drive(cache: bool) -> Drive {
    let options = DriveOptions {
        write_cache: Some(cache),
        ..DriveOptions::default()
    };
    Drive::new(&DriveSpec::parse("flash.toml", FLASH).unwrap(), &options)
}

/// Submits all at time 0 and returns when each is done, in ms.
fn all(drive: &mut Drive, requests: &[DriveRequest]) -> Vec<f64> {
    for (id, request) in requests.iter().enumerate() {
        let id = id as u64;
        drive.submit(Nanos(0), DriveRequest { id, ..*request });
    }
    let mut done = Vec::new();
    while let Some(at) = drive.next() {
        drive.advance(at, &mut done);
    }
    assert_eq!(done.len(), requests.len());
    assert!(done.is_sorted_by_key(|done| done.at));
    done.sort_by_key(|done| done.id);
    done.iter().map(|done| done.at.0 as f64 / 1e6).collect()
}

#[test]
fn each_kind_of_request_has_its_time() {
    let mut flash = drive(true);
    assert_eq!(flash.sectors(), 1_000_000);
    near(takes(&mut flash, 0.0, read(0, MIB)), 0.1 + MIB_MS);
    near(takes(&mut flash, 100.0, write(0, MIB)), 0.02 + MIB_MS);
    near(takes(&mut flash, 200.0, fua(0, MIB)), 0.5 + MIB_MS);
    near(takes(&mut drive(false), 0.0, write(0, MIB)), 0.5 + MIB_MS);
}

#[test]
fn the_time_of_a_flush_depends_on_the_content_of_the_cache() {
    let mut flash = drive(true);
    takes(&mut flash, 0.0, write(0, MIB));
    near(takes(&mut flash, 100.0, flush()), 1.0 + 2.0);
    near(takes(&mut flash, 200.0, flush()), 1.0);
    takes(&mut flash, 300.0, fua(0, MIB));
    near(takes(&mut flash, 400.0, flush()), 1.0);
    near(takes(&mut drive(false), 0.0, flush()), 1.0);
}

#[test]
fn a_cache_holds_no_more_than_its_size() {
    let mut flash = drive(true);
    for index in 0..20 {
        takes(&mut flash, f64::from(index) * 100.0, write(0, MIB));
    }
    near(takes(&mut flash, 5_000.0, flush()), 1.0 + 4.0 * 2.0);
}

#[test]
fn as_many_commands_as_channels_are_served_at_once() {
    let times = all(&mut drive(true), &[read(0, 0); 4]);
    for (found, expected) in times.iter().zip([0.1, 0.1, 0.2, 0.2]) {
        near(*found, expected);
    }
}

#[test]
fn all_channels_share_one_link() {
    let times = all(&mut drive(true), &[read(0, MIB); 8]);
    let last = times.last().unwrap();
    assert!(
        (8.0 * MIB_MS..8.0 * MIB_MS + 0.5).contains(last),
        "{last} ms"
    );
}

#[test]
fn a_flush_is_a_barrier() {
    let requests = [write(0, 8), write(8, 8), flush(), read(0, 8), flush()];
    let times = all(&mut drive(true), &requests);
    let before = times[0].max(times[1]);
    assert!(times[2] >= before + 1.0, "{times:?}");
    assert!(times[3] > times[2], "{times:?}");
    near(times[4], times[3] + 1.0);
}
