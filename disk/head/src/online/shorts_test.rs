//! Tests of cylinders whose last track is shorter.

use super::*;

#[test]
fn the_missing_sectors_of_a_cylinder_are_found() {
    // 17 tracks of 85 sectors, the last one 6 shorter; writes of 31 sectors.
    for missing in [0, 6] {
        let mut shorts = Shorts::new();
        shorts.lost(85);
        let cylinder = 17 * 85 - missing;
        let track = |sector: u32| (sector / cylinder * 17) + (sector % cylinder) / 85;
        for k in 1..1500_u32 {
            let (from, to) = (k * 31 - 1, k * 31 + 30);
            let changes = to / cylinder - from / cylinder;
            shorts.learn(31, track(to) - track(from), changes, 85);
        }
        assert_eq!(shorts.sectors(), u64::from(missing));
    }
}
