//! Mimic's predictors on the drive of its paper.

use crate::truth::{spec, turn, user, write};
use tonearm_base::Nanos;
use tonearm_head::{Grid, Head, Mimic, Profile, SkipModel, Span, Steps};
use tonearm_head_study::{
    BasicCompact, Choices, Coarse, LineCompact, LineFit, Linear, Loss, PlaneCompact, Policy,
    Trials, paper_grid,
};

const RANGE: Span = Span {
    start: 0,
    end: 400_000,
};

/// The paper's profile of `mimic80` for so many request sizes from 4 KB up, with skips by `skip_step`.
fn profile(sizes: u32, skip_step: u32) -> Profile {
    let spec = spec("mimic80");
    let mut user = user(&spec, 0.3);
    let sizes = Steps {
        first: 8,
        step: 8,
        count: sizes,
    };
    let grid = Grid {
        sizes,
        ..paper_grid(turn(&spec), 1_020, skip_step)
    };
    let mut trials = Trials::new(Profile::new(grid).unwrap(), RANGE, 1).unwrap();
    while let Some(trial) = trials.trial() {
        user.think(trial.think);
        trials.done(&write(&mut user, trial.first, trial.sectors));
    }
    assert_eq!(
        (trials.late(), trials.progress().0),
        (0, trials.profile().total())
    );
    trials.into_profile()
}

fn within(profile: &Profile, tolerance_us: u64) -> (Choices, Nanos) {
    let tolerance = Nanos::from_micros(tolerance_us);
    (
        Choices::new(profile, Policy::AverageLimit { tolerance }).unwrap(),
        tolerance,
    )
}

/// By how much less than the table a model stores, and its loss.
fn measure(
    profile: &Profile,
    choices: &Choices,
    model: &dyn SkipModel,
    tolerance: Nanos,
) -> (f64, Loss) {
    let table = choices.table().stored_bytes();
    let smaller = table as f64 / model.stored_bytes() as f64;
    let loss = Loss::of(std::slice::from_ref(profile), model, 0, tolerance);
    println!(
        "{:13} {:4} us: {:4} bytes, 1/{smaller:.1} of the table; loss {:.2} ms, at most {:.2}; outliers {:.2}",
        model.name(),
        tolerance.0 / 1_000,
        model.stored_bytes(),
        loss.mean.0 as f64 / 1e6,
        loss.most.0 as f64 / 1e6,
        loss.outliers
    );
    (smaller, loss)
}

/// Disk Mimic 4.2 and 4.3 for requests of 4 KB: order and sizes of the losses, and footprints of a third at
/// 0.5 ms and a sixth at 1.5 ms.
#[test]
fn compact_models_keep_the_tolerance_in_less_space() {
    let profile = profile(1, 8);
    let (choices, tolerance) = within(&profile, 500);
    let loss = |model: &dyn SkipModel| measure(&profile, &choices, model, tolerance).1;
    assert_eq!(loss(&choices.table()).most, Nanos(0));
    let line_fit = loss(&LineFit::new(&choices));
    let coarse = loss(&Coarse::new(&choices, 31));
    // The naive models have outliers; the paper has losses of 0.57 and 0.23 ms.
    assert!(line_fit.mean > coarse.mean && coarse.outliers > 0.0 && line_fit.outliers > 0.0);
    assert!(
        (200_000..800_000).contains(&line_fit.mean.0),
        "{line_fit:?}"
    );
    assert!((100_000..400_000).contains(&coarse.mean.0), "{coarse:?}");
    for (tolerance_us, line, basic) in [(500, 2.5, 2.0), (1_500, 6.0, 6.0)] {
        let (choices, tolerance) = within(&profile, tolerance_us);
        let models: [(Box<dyn SkipModel>, f64); 3] = [
            (Box::new(BasicCompact::new(&choices)), basic),
            (Box::new(LineCompact::new(&choices)), line),
            (Box::new(PlaneCompact::new(&choices)), 1.0),
        ];
        for (model, at_least) in models {
            let (smaller, loss) = measure(&profile, &choices, &model, tolerance);
            assert!(smaller >= at_least, "{}: {smaller}", model.name());
            assert!(
                loss.outliers == 0.0 && loss.most <= tolerance,
                "{}: {loss:?}",
                model.name()
            );
        }
    }
}

/// The best skip grows as the platter turns, and the pattern repeats a revolution later (Figure 1 of the paper).
#[test]
fn the_best_skip_follows_the_platter() {
    let profile = profile(1, 8);
    let (choices, _) = within(&profile, 500);
    let table = choices.table();
    // 12.24 sectors pass in a step of think time.
    for think in 0..60 {
        let turned = 31.0 + 12.24 * think as f64;
        let skip = f64::from(table.skip(0, think));
        assert!(
            (skip - turned).abs() < 40.0,
            "{think}: {skip}, turned by {turned}"
        );
    }
    for think in 84..91 {
        let skip = i64::from(table.skip(0, think));
        let before = i64::from(table.skip(0, think - 83));
        assert!((skip - before).abs() < 56, "{think}: {skip} and {before}");
    }
}

#[test]
fn over_many_sizes_planes_are_smaller_than_lines() {
    let profile = profile(12, 16);
    let (choices, _) = within(&profile, 1_500);
    let line = LineCompact::new(&choices).stored_bytes();
    let plane = PlaneCompact::new(&choices).stored_bytes();
    let basic = BasicCompact::new(&choices).stored_bytes();
    println!(
        "basic {basic} line {line} plane {plane} table {}",
        choices.table().stored_bytes()
    );
    assert!(plane < line, "{plane}, {line}");
}

/// Mean response of 4-KB writes, in ms, with various think times up to 25 ms, as a log would make them.
fn mean_response(head: &mut dyn Head) -> f64 {
    let mut user = user(&spec("mimic80"), 0.1);
    let mut at = RANGE.start;
    let (mut sum, writes) = (0, 2_000);
    for number in 0..writes {
        user.think(Nanos(number * number * 7_919 % 25_000_000));
        if at + 20_000 > RANGE.end {
            at = RANGE.start;
        }
        let free = Span {
            start: at,
            end: RANGE.end,
        };
        let place = head.place(user.now(), 8, &[free]).unwrap();
        let access = write(&mut user, place.sector, 8);
        head.written(&access);
        at = access.end();
        sum += access.done.since(access.sent).0;
    }
    sum as f64 / writes as f64 / 1e6
}

#[test]
fn predicted_log_writes_match_the_profile() {
    let profile = profile(1, 8);
    let (choices, _) = within(&profile, 500);
    let grid = *profile.grid();
    let best: u64 = (0..91)
        .map(|think| {
            let choice = choices.at(0, think);
            u64::from(choice.costs[choice.best])
        })
        .sum();
    let best = best as f64 / 91.0 / 1e6;
    let table = mean_response(&mut Mimic::new(grid, choices.table()));
    let line = mean_response(&mut Mimic::new(grid, LineCompact::new(&choices)));
    let line_fit = mean_response(&mut Mimic::new(grid, LineFit::new(&choices)));
    let linear = mean_response(&mut Linear::new(
        Nanos(320_000),
        turn(&spec("mimic80")),
        1_020,
    ));
    let next = mean_response(&mut tonearm_head::Sequential);
    println!(
        "profile {best} table {table} line {line} line fit {line_fit} linear {linear} next sector {next}"
    );
    assert!(table < best + 0.3, "{table}, {best} in the profile");
    assert!(line < best + 0.8, "{line}");
}
