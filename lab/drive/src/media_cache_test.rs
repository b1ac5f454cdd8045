//! The content of a media cache against a plain list of sectors.

use super::MediaCache;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tonearm_drive_file::MediaCacheSpec;

fn cache(sectors: u64, writes: u32, zone_sectors: u32) -> MediaCache {
    let spec = MediaCacheSpec {
        source: String::new(),
        sectors,
        writes,
        zone_sectors,
        idle_ms: 0.0,
        map_writes: 3,
        map_ms: 1.0,
    };
    MediaCache::new(&spec, 1_000)
}

#[test]
fn a_zone_moves_with_all_its_parts() {
    let mut cache = cache(500, 0, 100);
    cache.put(190, 210);
    cache.put(120, 130);
    let unit = cache.take().unwrap();
    assert_eq!(unit.home, 100..200);
    assert!(unit.is_partial);
    assert_eq!(unit.parts, [(20, 10), (0, 10)]);
    let unit = cache.take().unwrap();
    assert_eq!((unit.home, unit.parts), (200..300, vec![(10, 10)]));
    assert!(cache.take().is_none() && cache.is_empty());
    cache.put(300, 400);
    assert!(!cache.take().unwrap().is_partial, "the whole zone is held");
}

#[test]
fn a_sequence_that_ends_within_a_zone_damages_it() {
    let mut cache = cache(500, 0, 100);
    cache.damage(400);
    assert!(cache.is_empty(), "it ended where the zone does");
    cache.damage(450);
    let unit = cache.take().unwrap();
    assert_eq!((unit.home, unit.parts), (400..500, Vec::new()));
    assert!(unit.is_partial && cache.is_empty());
}

#[test]
fn a_band_is_full_of_sectors_or_of_writes() {
    let mut sectors = cache(100, 0, 0);
    sectors.put(0, 60);
    assert!(sectors.is_full(41) && !sectors.is_full(40));
    sectors.put(0, 60);
    assert!(!sectors.is_full(40), "what is written again takes no more");
    let mut writes = cache(100, 2, 0);
    writes.put(0, 1);
    assert!(!writes.is_full(1));
    writes.put(5, 6);
    assert!(writes.is_full(1));
    let maps: Vec<bool> = (0..6).map(|_| writes.must_map()).collect();
    assert_eq!(maps, [false, false, true, false, false, true]);
}

proptest! {
    #[test]
    fn each_sector_is_found_where_it_was_put(
        steps in prop::collection::vec((0_u8..6, 0_u64..990, 1_u64..10), 1..60),
        zone in 0_u32..200,
    ) {
        let mut cache = cache(1_000, 0, zone);
        let mut model = BTreeMap::new();
        for (step, lba, count) in steps {
            match step {
                0 => {
                    let Some(unit) = cache.take() else { continue };
                    let mut parts = 0;
                    for lba in unit.home.clone() {
                        parts += u64::from(model.remove(&lba).is_some());
                    }
                    let moved: u64 = unit.parts.iter().map(|part| part.1).sum();
                    prop_assert_eq!(parts, moved);
                    prop_assert_eq!(unit.is_partial, parts < unit.home.end - unit.home.start);
                }
                1 => {
                    cache.forget(lba, lba + count);
                    model.retain(|at, _| *at < lba || *at >= lba + count);
                }
                _ if cache.is_full(count) => {}
                _ => {
                    let place = cache.put(lba, lba + count);
                    model.extend((0..count).map(|k| (lba + k, place + k)));
                }
            }
            for lba in 0..1_000 {
                prop_assert_eq!(cache.place(lba, lba + 1), model.get(&lba).copied());
            }
            prop_assert_eq!(cache.sectors, model.len() as u64);
        }
        while cache.take().is_some() {}
        prop_assert!(cache.is_empty());
    }
}
