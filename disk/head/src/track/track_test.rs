//! Maps compared with their tracks, one by one.

use crate::{Track, TrackMap, TrackMapError, TrackRun};
use proptest::prelude::*;

prop_compose! {
    fn any_run()(
        sectors in 2_u32..400,
        group in 1_u32..9,
        tracks in 1_u32..120,
        gap in 0_u64..3,
        angle in any::<u32>(),
        track_skew in any::<u32>(),
        cylinder_skew in any::<u32>(),
    )(
        at in 0..group,
        short in 0..sectors.min(9),
        spare in 0_u32..6,
        sectors in Just(sectors),
        group in Just(group),
        tracks in Just(tracks),
        gap in Just(gap),
        angle in Just(angle),
        track_skew in Just(track_skew),
        cylinder_skew in Just(cylinder_skew),
    ) -> TrackRun {
        TrackRun {
            first: gap * 50,
            tracks,
            sectors,
            turn_sectors: sectors + spare,
            angle,
            group,
            at,
            short,
            track_skew,
            cylinder_skew,
        }
    }
}

/// Runs one after the other, with gaps.
fn any_map() -> impl Strategy<Value = TrackMap> {
    prop::collection::vec(any_run(), 1..6).prop_map(|mut runs| {
        let mut end = 0;
        for run in &mut runs {
            run.first += end;
            end = run.first + run.length();
        }
        TrackMap::new(runs).unwrap()
    })
}

fn tracks(map: &TrackMap) -> Vec<Track> {
    (0..map.tracks()).map(|index| map.track(index)).collect()
}

/// The tracks of a run, added up one by one.
fn by_hand(run: &TrackRun) -> Vec<(u64, u32, u32)> {
    let (mut first, mut angle) = (run.first, run.angle);
    let mut tracks = Vec::new();
    for number in run.at..run.at + run.tracks {
        let is_last = number % run.group == run.group - 1;
        let sectors = run.sectors - if is_last { run.short } else { 0 };
        tracks.push((first, sectors, angle));
        first += u64::from(sectors);
        let skew = if is_last {
            run.cylinder_skew
        } else {
            run.track_skew
        };
        angle = angle.wrapping_add(skew);
    }
    tracks
}

#[test]
fn cylinders_are_distinguished() {
    let map = TrackMap::new(vec![TrackRun { at: 3, ..run() }]).unwrap();
    // 2 tracks, then 5, then 3.
    let same = |one, other| map.same_cylinder(one, other);
    assert!(same(0, 1) && same(2, 6) && same(7, 9) && same(4, 4));
    assert!(!same(1, 2) && !same(6, 7) && !same(0, 9));
    assert_eq!(map.cylinder_skew(4), 1 << 29);
}

proptest! {
    #[test]
    fn tracks_match_a_count_by_hand(map in any_map()) {
        let found: Vec<_> = tracks(&map).iter().map(|track| (track.first, track.sectors, track.angle)).collect();
        let expected: Vec<_> = map.runs().iter().flat_map(by_hand).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn every_sector_is_found_on_its_track_and_no_other(map in any_map()) {
        let mut end = 0;
        for track in tracks(&map) {
            for sector in end..track.first {
                prop_assert_eq!(map.find(sector), None);
            }
            for sector in [track.first, track.first + u64::from(track.sectors) / 2, track.end() - 1] {
                prop_assert_eq!(map.find(sector), Some(track));
            }
            end = track.end();
        }
        prop_assert_eq!(map.find(end), None);
    }

    #[test]
    fn angles_pass_through_the_sectors_of_a_track_in_order(map in any_map()) {
        for track in tracks(&map) {
            prop_assert_eq!(track.angle_of(track.first), track.angle);
            let turn = u64::from(track.turn_sectors);
            for sector in track.first..track.end() {
                let angle = u64::from(track.angle_of(sector).wrapping_sub(track.angle));
                let number = sector - track.first;
                prop_assert!(angle * turn <= number << 32 && (angle + 1) * turn > number << 32);
            }
        }
    }

    #[test]
    fn tracks_become_runs_that_describe_the_same_tracks(map in any_map()) {
        let all = tracks(&map);
        let made = TrackMap::from_tracks(all.iter().copied()).unwrap();
        prop_assert_eq!(made.tracks(), map.tracks());
        for (found, track) in tracks(&made).iter().zip(&all) {
            let off = found.angle.wrapping_sub(track.angle) as i32;
            prop_assert!(off.unsigned_abs() <= u32::MAX / track.turn_sectors / 16);
            let angle = track.angle;
            prop_assert_eq!(Track { angle, ..*found }, *track);
        }
    }

    #[test]
    fn a_run_of_whole_cylinders_is_found_again(run in any_run(), cylinders in 2_u32..20) {
        // Skews that can be distinguished.
        let off = run.track_skew.wrapping_sub(run.cylinder_skew) as i32;
        prop_assume!(off.unsigned_abs() > u32::MAX / run.turn_sectors / 8);
        let tracks = cylinders * run.group - run.at;
        let map = TrackMap::new(vec![TrackRun { tracks, ..run }]).unwrap();
        let made = TrackMap::from_tracks(self::tracks(&map).into_iter()).unwrap();
        // A cylinder that has only begun and one whole cylinder show too little.
        let most = if run.at > 0 && cylinders == 2 { 3 } else { 1 };
        prop_assert!(made.runs().len() <= most, "{:?} became {:?}", map.runs(), made.runs());
    }
}

fn run() -> TrackRun {
    TrackRun {
        first: 100,
        tracks: 10,
        sectors: 50,
        turn_sectors: 50,
        angle: 0,
        group: 5,
        at: 0,
        short: 4,
        track_skew: 1 << 28,
        cylinder_skew: 1 << 29,
    }
}

#[test]
fn irregular_track_splits_its_run_in_three() {
    let map = TrackMap::new(vec![TrackRun {
        tracks: 60,
        ..run()
    }])
    .unwrap();
    let mut all = tracks(&map);
    all[27].sectors -= 3;
    all[27].first += 3;
    let made = TrackMap::from_tracks(all.into_iter()).unwrap();
    assert_eq!(made.runs().len(), 3, "{:?}", made.runs());
    assert_eq!(made.runs()[0].tracks, 27);
}

#[test]
fn invalid_runs_are_refused() {
    let fails = |runs: Vec<TrackRun>| TrackMap::new(runs).unwrap_err();
    assert_eq!(fails(Vec::new()), TrackMapError::Empty);
    for wrong in [
        TrackRun { tracks: 0, ..run() },
        TrackRun { group: 0, ..run() },
        TrackRun { at: 5, ..run() },
        TrackRun {
            sectors: 0,
            ..run()
        },
        TrackRun { short: 50, ..run() },
        TrackRun {
            turn_sectors: 49,
            ..run()
        },
        TrackRun {
            first: 1 << 48,
            ..run()
        },
        TrackRun {
            first: u64::MAX,
            ..run()
        },
    ] {
        assert!(
            matches!(fails(vec![wrong]), TrackMapError::Run { run: 0, .. }),
            "{wrong:?}"
        );
    }
    assert!(matches!(
        fails(vec![run(), run()]),
        TrackMapError::Run { run: 1, .. }
    ));
    assert_eq!(
        TrackMap::from_tracks(std::iter::empty()),
        Err(TrackMapError::Empty)
    );
    let none = Track {
        index: 0,
        first: 0,
        sectors: 0,
        turn_sectors: 0,
        angle: 0,
    };
    assert!(TrackMap::from_tracks([none, none, none].into_iter()).is_err());
}
