//! The guarantee of the compact forms, for candidate sets of any shape.

use crate::policy::{Choice, Choices};
use crate::skip_set::SkipSet;
use crate::{BasicCompact, LineCompact, PlaneCompact};
use proptest::prelude::*;
use tonearm_head::SkipModel;
use tonearm_head::{Grid, Steps};

/// A grid with the skips 5, 8, 11, ... for these `(sizes, thinks, skips)`.
fn grid(sizes: u32, thinks: u32, skips: u32) -> Grid {
    let steps = |first, step, count| Steps { first, step, count };
    Grid {
        sizes: steps(8, 8, sizes),
        thinks: steps(0, 100_000, thinks),
        skips: steps(5, 3, skips),
        samples: 1,
        turn: None,
    }
}

/// Choices with these candidate sets; a skip costs more the farther it is from the best one.
fn choices(grid: Grid, rows: Vec<(usize, Vec<usize>)>) -> Choices {
    let skips = grid.skips.len();
    let choice = |(best, others): (usize, Vec<usize>)| Choice {
        best,
        acceptable: SkipSet::of(skips, others.into_iter().chain([best])),
        costs: (0..skips)
            .map(|skip| skip.abs_diff(best) as u32 * 1_000)
            .collect(),
    };
    Choices::from_rows(grid, rows.into_iter().map(choice).collect())
}

/// Each size and think time accepts the skips on which `acceptable` is true.
fn choices_by(grid: Grid, acceptable: impl Fn(usize, usize, usize) -> bool) -> Choices {
    let mut rows = Vec::new();
    for size in 0..grid.sizes.len() {
        for think in 0..grid.thinks.len() {
            let all = (0..grid.skips.len()).filter(|skip| acceptable(size, think, *skip));
            let all: Vec<usize> = all.collect();
            rows.push((all[all.len() / 2], all));
        }
    }
    choices(grid, rows)
}

/// Fails at the first point where the skip of `model` is not in the candidate set.
fn keeps_promise(choices: &Choices, model: &dyn SkipModel) {
    let grid = choices.grid();
    for size in 0..grid.sizes.len() {
        for think in 0..grid.thinks.len() {
            let sectors = u64::from(model.skip(size, think));
            let skip = (sectors - grid.skips.first) / grid.skips.step;
            assert_eq!(grid.skips.at(skip as usize), sectors, "a skip of the grid");
            let acceptable = &choices.at(size, think).acceptable;
            let name = model.name();
            assert!(
                acceptable.contains(skip as usize),
                "{name} at {size}, {think}: {sectors}"
            );
        }
    }
}

prop_compose! {
    fn any_choices()(sizes in 1_u32..5, thinks in 1_u32..12, skips in 1_u32..80)
        (rows in prop::collection::vec(
            (0..skips as usize, prop::collection::vec(0..skips as usize, 0..12)),
            (sizes * thinks) as usize,
        ), sizes in Just(sizes), thinks in Just(thinks), skips in Just(skips)) -> Choices {
        choices(grid(sizes, thinks, skips), rows)
    }
}

prop_compose! {
    /// Bands along a line that wraps around, as those of a drive do.
    fn bands()(
        slope in 0.0..9.0_f64,
        by_size in -2.0..2.0_f64,
        width in 1_usize..20,
        sizes in 1_u32..6,
        thinks in 1_u32..60,
        skips in 21_u32..150,
    ) -> Choices {
        choices_by(grid(sizes, thinks, skips), |size, think, skip| {
            let begin = (slope * think as f64 + by_size * size as f64).rem_euclid(f64::from(skips));
            (skip + skips as usize - begin as usize) % (skips as usize) < width
        })
    }
}

fn all_keep_promise(choices: &Choices) {
    keeps_promise(choices, &choices.table());
    keeps_promise(choices, &BasicCompact::new(choices));
    keeps_promise(choices, &LineCompact::new(choices));
    keeps_promise(choices, &PlaneCompact::new(choices));
}

proptest! {
    #[test]
    fn every_answer_is_in_the_candidate_set_of_its_point(choices in any_choices()) {
        all_keep_promise(&choices);
    }

    #[test]
    fn every_answer_is_in_the_candidate_set_of_drive_bands(choices in bands()) {
        all_keep_promise(&choices);
    }
}

#[test]
fn a_run_is_as_long_as_one_skip_serves() {
    // Skips from 2 times the think time on, 10 of them: one skip serves five think times.
    let choices = choices_by(grid(1, 20, 60), |_, think, skip| {
        (2 * think..2 * think + 10).contains(&skip)
    });
    let basic = BasicCompact::new(&choices);
    assert_eq!(basic.stored_bytes(), 4 * 4 + 2);
    keeps_promise(&choices, &basic);
}

#[test]
fn straight_band_takes_one_line_per_size_and_one_plane() {
    for sizes in [1, 2, 7] {
        let choices = choices_by(grid(sizes, 40, 130), |size, think, skip| {
            skip == 3 * think + size
        });
        let line = LineCompact::new(&choices);
        let lines = line.stored_bytes();
        assert_eq!(lines, sizes as usize * (6 + 2), "a line for each size");
        let plane = PlaneCompact::new(&choices);
        assert_eq!(plane.stored_bytes(), 14, "one plane");
        all_keep_promise(&choices);
    }
}

#[test]
fn one_line_follows_a_platter_between_whole_steps() {
    // 1.5 steps of skip in a step of think time, and two good skips at each.
    let choices = choices_by(grid(5, 40, 130), |size, think, skip| {
        let first = (3 * think + size) / 2;
        (first..first + 2).contains(&skip)
    });
    assert_eq!(LineCompact::new(&choices).stored_bytes(), 5 * (6 + 2));
    assert_eq!(PlaneCompact::new(&choices).stored_bytes(), 14, "one plane");
    all_keep_promise(&choices);
}

#[test]
fn a_line_ends_when_none_of_its_candidates_continues() {
    // A band of one skip that changes its direction at the tenth think time.
    let at = |think: usize| if think < 10 { 2 * think } else { 30 - think };
    let choices = choices_by(grid(1, 20, 40), |_, think, skip| skip == at(think));
    let line = LineCompact::new(&choices);
    // 0 to 9, 10 to 19.
    assert_eq!(line.stored_bytes(), 2 * 6 + 2);
    keeps_promise(&choices, &line);
}

#[test]
fn the_cheapest_of_the_candidates_is_taken() {
    let rows = vec![(4, vec![1, 2, 3, 5]), (2, vec![1, 4, 5])];
    let choices = choices(grid(1, 2, 8), rows);
    // 2 costs 2 and 0, 4 costs 0 and 2: the first of equals; 1 and 5 cost more.
    assert_eq!(BasicCompact::new(&choices).skip(0, 0), 5 + 2 * 3);
    // A line may take the best at both.
    let line = LineCompact::new(&choices);
    assert_eq!((line.skip(0, 0), line.skip(0, 1)), (5 + 4 * 3, 5 + 2 * 3));
}
