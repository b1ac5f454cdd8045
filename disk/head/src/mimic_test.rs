//! The table of a profile, and the predictor that uses it.

use crate::testing::{profile, steps};
use crate::{Access, Cell, Grid, Head, Mimic, Profile, ProfileError, SkipModel, Span, Table};
use tonearm_base::Nanos;

/// The best skips are 0 to 4, repeatedly, by think time.
fn saw() -> Profile {
    profile(10, |think, skip, _| {
        1_000 + 100 * skip.abs_diff(think % 5) as u64
    })
}

#[test]
fn the_table_has_every_best_skip() {
    let profile = saw();
    let table = Table::best(&profile).unwrap();
    let skips: Vec<u32> = (0..10).map(|think| table.skip(0, think)).collect();
    assert_eq!(skips, [0, 10, 20, 30, 40, 0, 10, 20, 30, 40]);
    assert_eq!(table.stored_bytes(), 20);
}

#[test]
fn a_profile_with_a_hole_has_no_table() {
    let mut part = Profile::new(Grid {
        thinks: steps(0, 100_000, 2),
        ..*saw().grid()
    })
    .unwrap();
    let cell = |think| Cell {
        size: 0,
        think,
        skip: 2,
    };
    let hole = |think_ns| ProfileError::Incomplete {
        sectors: 8,
        think_ns,
    };
    assert_eq!(Table::best(&part).unwrap_err(), hole(0));
    part.add_sample(cell(0), Nanos(1_000));
    assert_eq!(Table::best(&part).unwrap_err(), hole(100_000));
    // A single sample is enough.
    part.add_sample(cell(1), Nanos(1_000));
    assert_eq!(Table::best(&part).unwrap().skips(), [2, 2]);
}

#[test]
fn mimic_places_a_write_one_skip_after_the_last_end() {
    let table = Table::best(&saw()).unwrap();
    let mut head = Mimic::new(*table.grid(), table);
    assert_eq!(head.name(), "mimic");
    let free = [
        Span {
            start: 50,
            end: 130,
        },
        Span {
            start: 200,
            end: 300,
        },
    ];
    let place = |head: &mut Mimic<Table>, micros| {
        head.place(Nanos::from_micros(micros), 8, &free)
            .map(|place| place.sector)
    };
    assert_eq!(place(&mut head, 0), Some(50), "it knows nothing yet");
    head.written(&Access {
        first: 90,
        sectors: 8,
        sent: Nanos(0),
        done: Nanos::from_micros(1_000),
    });
    assert_eq!(place(&mut head, 1_000), Some(98));
    assert_eq!(place(&mut head, 1_150), Some(118));
    // The write does not fit at 128, so it goes farther down the track.
    assert_eq!(place(&mut head, 1_300), Some(200));
    assert_eq!(
        head.memory_bytes() - head.model().stored_bytes(),
        size_of_val(&head)
    );
}
