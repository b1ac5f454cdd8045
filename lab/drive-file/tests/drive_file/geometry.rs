//! The places of sectors.

use crate::made::geometry;
use std::collections::BTreeSet;
use tonearm_drive_file::{
    Angle, DriveSpec, Extent, Geometry, GeometrySpec, HeadOrder, Sparing, ZoneSpec, library,
};

/// All extents from the first sector to the last.
fn extents(map: &Geometry) -> impl Iterator<Item = (u64, Extent)> {
    let mut lba = 0;
    std::iter::from_fn(move || {
        if lba >= map.sectors() {
            return None;
        }
        let extent = map.extent(lba);
        assert!(extent.sectors > 0, "an empty extent at {lba}");
        let first = lba;
        lba += u64::from(extent.sectors);
        Some((first, extent))
    })
}

/// Checks that no two sectors have one place, and that none is outside of its zone or track.
fn check_places(name: &str, map: &Geometry, heads: u32) {
    let zones: Vec<_> = map.zones().collect();
    let mut places = Vec::new();
    for (lba, extent) in extents(map) {
        let zone = zones
            .iter()
            .find(|(first, last, _)| (*first..=*last).contains(&extent.cylinder));
        let zone = zone.unwrap_or_else(|| panic!("{name}: {lba} lies in no zone: {extent:?}"));
        assert_eq!(zone.2, extent.track_sectors, "{name}: {lba}");
        assert!(extent.head < heads, "{name}: {lba}: {extent:?}");
        assert!(
            extent.sector + extent.sectors <= extent.track_sectors,
            "{name}: {lba} runs off its track: {extent:?}"
        );
        places.push((
            extent.cylinder,
            extent.head,
            extent.sector,
            extent.sectors,
            lba,
        ));
    }
    places.sort_unstable();
    for pair in places.windows(2) {
        let ((c1, h1, s1, n1, a), (c2, h2, s2, _, b)) = (pair[0], pair[1]);
        assert!(
            (c1, h1) != (c2, h2) || s1 + n1 <= s2,
            "{name}: sectors {a} and {b} share a place"
        );
    }
}

#[test]
fn no_two_sectors_of_a_library_drive_share_a_place() {
    let mut disks = 0;
    for drive in library() {
        let spec = DriveSpec::parse(drive.name, drive.text).unwrap();
        let Some(disk) = spec.disk else { continue };
        disks += 1;
        let map = Geometry::new(&disk.geometry);
        check_places(drive.name, &map, disk.geometry.heads);
    }
    assert!(disks >= 11);
}

/// Checks that an extent gives each of its sectors the same place as that sector's own extent.
fn check_inside(map: &Geometry, lba: u64, extent: &Extent) {
    for k in 1..extent.sectors {
        let own = map.extent(lba + u64::from(k));
        assert_eq!(own.sector, extent.sector + k, "sector {lba} + {k}");
        assert_eq!(
            (own.cylinder, own.head, own.width),
            (extent.cylinder, extent.head, extent.width)
        );
        let angle = extent.angle.wrapping_add(u64::from(k) * extent.width);
        assert_eq!(own.angle, angle, "sector {lba} + {k}");
        assert_eq!(own.sectors, extent.sectors - k, "sector {lba} + {k}");
        assert_eq!(map.cylinder_of(lba + u64::from(k)), own.cylinder);
    }
}

#[test]
fn extents_match_sectors_at_every_seam_of_a_drive() {
    for drive in library() {
        let spec = DriveSpec::parse(drive.name, drive.text).unwrap();
        let Some(disk) = spec.disk else { continue };
        let map = Geometry::new(&disk.geometry);
        let mut last: Option<Extent> = None;
        for (index, (lba, extent)) in extents(&map).enumerate() {
            let seam = last.is_none_or(|last| {
                last.track_sectors != extent.track_sectors
                    || (last.cylinder, last.head) == (extent.cylinder, extent.head)
                    || last.sector + last.sectors != last.track_sectors
            });
            if seam || index % 997 == 0 {
                check_inside(&map, lba, &extent);
            }
            last = Some(extent);
        }
    }
}

const SCHEMES: [Sparing; 8] = [
    Sparing::None,
    Sparing::Tracks,
    Sparing::Track,
    Sparing::Cylinder,
    Sparing::Cylinders(1),
    Sparing::Cylinders(3),
    Sparing::Zone,
    Sparing::Drive,
];

fn zone(first_cylinder: u32, last_cylinder: u32, track_sectors: u32) -> ZoneSpec {
    ZoneSpec {
        first_cylinder,
        last_cylinder,
        track_sectors,
        ..geometry(|_| ()).zones[0].clone()
    }
}

/// Two zones of 6 and 9 cylinders with 3 heads and tracks of 10 and 7.
fn small(sparing: Sparing, change: impl Fn(usize, &mut ZoneSpec)) -> GeometrySpec {
    geometry(|spec| {
        spec.heads = 3;
        spec.cylinders = 16;
        spec.sparing = sparing;
        spec.zones = vec![zone(0, 5, 10), zone(7, 15, 7)];
        for (index, zone) in spec.zones.iter_mut().enumerate() {
            change(index, zone);
        }
    })
}

/// The physical sectors of a zone, in the order of their numbers, found one by one.
fn expected(spec: &GeometrySpec, zone: &ZoneSpec) -> Vec<u64> {
    let track = u64::from(zone.track_sectors);
    let cylinder = track * u64::from(spec.heads);
    let cylinders = u64::from(zone.last_cylinder - zone.first_cylinder + 1);
    let all = cylinder * cylinders;
    let spares = u64::from(zone.spares);
    let (region, spares, slipped): (u64, u64, BTreeSet<u64>) = match spec.sparing {
        Sparing::Tracks => {
            let tracks = zone.slips.iter();
            let slipped = tracks.flat_map(|slip| slip * track..(slip + 1) * track);
            (all, spares * track, slipped.collect())
        }
        scheme => {
            let region = match scheme {
                Sparing::Track => track,
                Sparing::Cylinder => cylinder,
                Sparing::Cylinders(range) => cylinder * u64::from(range),
                _ => all,
            };
            let spares = match scheme {
                Sparing::None | Sparing::Drive => zone.slips.len() as u64,
                _ => spares,
            };
            (region, spares, zone.slips.iter().copied().collect())
        }
    };
    let mut places = Vec::new();
    for start in (0..all).step_by(region as usize) {
        let end = (start + region).min(all);
        let own = (start..end).filter(|place| !slipped.contains(place));
        places.extend(own.take((end - start - spares) as usize));
    }
    let unit = if spec.sparing == Sparing::Tracks {
        track
    } else {
        1
    };
    for place in &mut places {
        let at = *place / unit;
        if let Some((_, spare)) = zone.defects.iter().find(|(bad, _)| *bad == at) {
            *place = spare * unit + *place % unit;
        }
    }
    places.split_off(zone.reserved as usize)
}

fn check_against_brute_force(spec: &GeometrySpec) {
    let map = Geometry::new(spec);
    let name = format!("{spec:?}");
    let mut lba = 0;
    for zone in &spec.zones {
        for place in expected(spec, zone) {
            let extent = map.extent(lba);
            let track = place / u64::from(zone.track_sectors);
            let surface = (track % u64::from(spec.heads)) as u32;
            let cylinder = (track / u64::from(spec.heads)) as u32;
            let head = if spec.order == HeadOrder::Serpentine && cylinder % 2 == 1 {
                spec.heads - 1 - surface
            } else {
                surface
            };
            let sector = (place % u64::from(zone.track_sectors)) as u32;
            assert_eq!(
                (extent.cylinder, extent.head, extent.sector),
                (zone.first_cylinder + cylinder, head, sector),
                "sector {lba} of {name}"
            );
            lba += 1;
        }
    }
    assert_eq!(map.sectors(), lba, "{name}");
    for (lba, extent) in extents(&map) {
        check_inside(&map, lba, &extent);
    }
    check_places(&name, &map, spec.heads);
}

#[test]
fn every_scheme_of_sparing_matches_a_walk_over_all_places() {
    for sparing in SCHEMES {
        for order in [HeadOrder::Forward, HeadOrder::Serpentine] {
            for reserved in [0, 4, 25] {
                for spares in [0, 1, 3] {
                    let mut spec = small(sparing, |_, zone| {
                        zone.reserved = reserved;
                        zone.spares = spares;
                    });
                    spec.order = order;
                    check_against_brute_force(&spec);
                }
            }
        }
    }
}

#[test]
fn slips_at_first_and_last_places_and_in_a_row_are_skipped() {
    for sparing in SCHEMES {
        let slips: &[&[u64]] = match sparing {
            Sparing::Tracks => &[&[0], &[14], &[17], &[3, 4], &[0, 1], &[0, 17]],
            Sparing::Track => &[
                &[0],
                &[7, 8],
                &[9],
                &[10, 19],
                &[8],
                &[0, 11, 25],
                &[8, 9, 10, 11],
            ],
            Sparing::Cylinder => &[&[0], &[29], &[28, 29], &[5, 6], &[0, 27, 30], &[27, 28, 33]],
            _ => &[&[0], &[29], &[88], &[61, 62], &[0, 1], &[2, 89], &[0, 88]],
        };
        for slips in slips {
            for reserved in [0, 3] {
                check_against_brute_force(&small(sparing, |index, zone| {
                    zone.spares = 2;
                    if index == 0 {
                        zone.slips = slips.to_vec();
                        zone.reserved = reserved;
                    }
                }));
            }
        }
    }
}

#[test]
fn a_last_range_of_fewer_cylinders_has_its_spares_too() {
    // Zones of 6 and 9 cylinders in ranges of 4.
    check_against_brute_force(&small(Sparing::Cylinders(4), |_, zone| zone.spares = 5));
}

#[test]
fn defect_maps_to_its_spare_and_breaks_the_run() {
    for (sparing, bad, spare) in [
        (Sparing::Zone, 5, 178),
        (Sparing::Zone, 0, 179),
        (Sparing::Zone, 99, 178),
        (Sparing::Cylinder, 31, 59),
        (Sparing::Track, 3, 9),
        (Sparing::Tracks, 2, 17),
    ] {
        let spec = small(sparing, |index, zone| {
            zone.spares = 2;
            if index == 0 {
                zone.defects = vec![(bad, spare)];
            }
        });
        check_against_brute_force(&spec);
    }
}

fn turns(angle: Angle) -> f64 {
    angle as f64 / 2f64.powi(64)
}

fn near(a: f64, b: f64) {
    let apart = (a - b).rem_euclid(1.0);
    assert!(apart.min(1.0 - apart) < 1e-9, "{a} {b}");
}

#[test]
fn angles_follow_the_skews_over_tracks_and_cylinders() {
    for order in [HeadOrder::Forward, HeadOrder::Serpentine] {
        let mut spec = small(Sparing::None, |index, zone| {
            zone.track_skew = 1.5;
            zone.cylinder_skew = 3.25;
            zone.offset = if index == 0 { 0.0 } else { 2.5 };
        });
        spec.order = order;
        let map = Geometry::new(&spec);
        let tracks: Vec<_> = extents(&map).map(|(_, extent)| extent).collect();
        near(turns(tracks[0].angle), 0.0);
        for pair in tracks.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let skew = turns(b.angle) - turns(a.angle);
            let track = f64::from(b.track_sectors);
            match b.cylinder - a.cylinder {
                0 => near(skew, 1.5 / track),
                1 => near(skew, 3.25 / track),
                _ => near(turns(b.angle), 2.5 / track),
            }
            near(turns(a.width), 1.0 / f64::from(a.track_sectors));
        }
        let heads: Vec<_> = tracks[..6].iter().map(|track| track.head).collect();
        let second = if order == HeadOrder::Forward {
            [0, 1, 2]
        } else {
            [2, 1, 0]
        };
        assert_eq!(heads, [[0, 1, 2], second].concat());
    }
}

#[test]
fn drive_reports_its_given_number_of_sectors() {
    let spec = geometry(|spec| spec.sectors = Some(9_990));
    assert_eq!(Geometry::new(&spec).sectors(), 9_990);
    assert_eq!(Geometry::new(&geometry(|_| ())).sectors(), 10_000);
}
