use crate::raid::{Raid, Spot};
use crate::setup::Redundancy;
use std::collections::BTreeSet;

#[test]
fn every_slot_has_a_page_of_its_own() {
    for (redundancy, disks) in [
        (Redundancy::Raid0, 1),
        (Redundancy::Raid0, 15),
        (Redundancy::Raid5, 3),
        (Redundancy::Raid5, 9),
    ] {
        let raid = Raid::new(redundancy, disks, 8, 20);
        let mut seen = BTreeSet::new();
        for slot in 0..20 * raid.segment_pages() {
            let spot = raid.spot(slot);
            assert!(spot.disk < disks && spot.page < 20 * 8);
            assert!(seen.insert((spot.disk, spot.page)));
            if raid.has_parity() {
                let parity = raid.parity(slot);
                assert!(parity.disk != spot.disk && parity.page == spot.page);
                assert!(!seen.contains(&(parity.disk, parity.page)));
            }
        }
        let chunks = (0..20).flat_map(|segment| raid.data_chunks(segment));
        assert_eq!(chunks.count() as u32 * 8, 20 * raid.segment_pages());
    }
}

#[test]
fn parity_rotates_over_the_disks() {
    let raid = Raid::new(Redundancy::Raid5, 5, 8, 20);
    let disks: BTreeSet<_> = (0..5)
        .filter_map(|segment| raid.parity_chunk(segment))
        .map(|spot| spot.disk)
        .collect();
    assert_eq!(disks.len(), 5);
    assert_eq!(
        raid.parity_chunk(7),
        Some(Spot {
            disk: 5 - 1 - 7 % 5,
            page: 7 * 8
        })
    );
    assert_eq!((raid.segment_pages(), raid.ios_of_page_write()), (32, 4));
}
