//! Profiles: points and files.

use crate::testing::{grid, steps};
use crate::{Cell, Grid, Profile, ProfileError};
use proptest::prelude::*;
use tonearm_base::Nanos;

#[test]
fn between_two_points_the_greater_one_counts() {
    let grid = grid();
    let places = |sectors, think| grid.places(sectors, Nanos(think));
    assert_eq!(places(1, 0), (0, 0));
    assert_eq!(places(4, 1), (0, 1));
    assert_eq!(places(5, 1_000_000), (1, 1));
    assert_eq!(places(12, 1_000_001), (2, 2));
    assert_eq!(places(99, 11_000_000), (2, 11));
}

#[test]
fn beyond_the_grid_the_pattern_repeats_every_revolution() {
    let grid = grid();
    let think = |think| grid.places(4, Nanos(think)).1;
    assert_eq!(think(11_000_001), 2);
    assert_eq!(think(25_000_000), 5);
    assert_eq!(think(1_000_000_000), 0);
    // Not when the grid is shorter than a revolution, or there is no revolution.
    let short = Grid {
        thinks: steps(0, 1_000_000, 9),
        ..grid
    };
    assert_eq!(short.places(4, Nanos(25_000_000)).1, 8);
    let flash = Grid { turn: None, ..grid };
    assert_eq!(flash.places(4, Nanos(25_000_000)).1, 11);
}

#[test]
fn invalid_grids_are_refused() {
    let good = grid();
    assert_eq!(good.check(), Ok(()));
    for wrong in [
        Grid {
            sizes: steps(0, 1, 2),
            ..good
        },
        Grid {
            sizes: steps(1 << 30, 1 << 30, 2),
            ..good
        },
        Grid {
            thinks: steps(0, 1, 0),
            ..good
        },
        Grid {
            thinks: steps(0, 0, 1),
            ..good
        },
        Grid {
            thinks: steps(0, u64::MAX, 2),
            ..good
        },
        Grid {
            skips: steps(0, 1, 70_000),
            ..good
        },
        Grid {
            skips: steps(0, 1 << 31, 2),
            ..good
        },
        Grid { samples: 0, ..good },
        Grid {
            turn: Some(Nanos(0)),
            ..good
        },
        Grid {
            thinks: steps(0, 1, 60_000),
            skips: steps(0, 1, 60_000),
            ..good
        },
    ] {
        assert!(
            matches!(Profile::new(wrong), Err(ProfileError::Grid(_))),
            "{wrong:?}"
        );
    }
}

#[test]
fn a_point_takes_its_samples_and_no_more() {
    let mut profile = Profile::new(grid()).unwrap();
    let cell = Cell {
        size: 1,
        think: 2,
        skip: 3,
    };
    assert_eq!(profile.mean(cell), None);
    for response in [1_000_400, 2_000_500, 99_000_000] {
        assert!(profile.add_sample(cell, Nanos(response)));
    }
    assert!(!profile.add_sample(cell, Nanos(1)));
    // In whole microseconds, up to 65 ms.
    assert_eq!(profile.samples(cell), [1_000, 2_001, 65_535]);
    assert_eq!(profile.mean(cell), Some(Nanos(22_845_333)));
    assert_eq!((profile.taken(), profile.total()), (3, 3 * 12 * 8 * 3));
}

prop_compose! {
    fn any_profile()(
        samples in prop::collection::vec((0_usize..288, 0_u64..70_000_000), 0..300),
        turn in prop::option::of(1_u64..20_000_000),
    ) -> Profile {
        let mut profile = Profile::new(Grid { turn: turn.map(Nanos), ..grid() }).unwrap();
        for (index, response) in samples {
            profile.add_sample(profile.grid().cell(index), Nanos(response));
        }
        profile
    }
}

proptest! {
    #[test]
    fn a_file_holds_the_profile(profile in any_profile()) {
        prop_assert_eq!(Profile::decode(&profile.encode()), Ok(profile));
    }

    #[test]
    fn a_damaged_file_is_refused(profile in any_profile(), at: prop::sample::Index, by in 1_u8..) {
        let mut bytes = profile.encode();
        let at = at.index(bytes.len());
        prop_assert!(matches!(Profile::decode(&bytes[..at]), Err(ProfileError::File(_))));
        bytes[at] ^= by;
        prop_assert!(matches!(Profile::decode(&bytes), Err(ProfileError::File(_))));
    }

    #[test]
    fn a_wrong_file_with_a_right_checksum_is_refused_or_read(
        profile in any_profile(), at in 12_usize..400, by in 1_u8..
    ) {
        let mut bytes = profile.encode();
        let body = bytes.len() - 4;
        let at = at.min(body - 1);
        bytes[at] ^= by;
        let crc = tonearm_base::crc32c(&bytes[..body]);
        bytes[body..].copy_from_slice(&crc.to_le_bytes());
        if let Ok(read) = Profile::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }
}
