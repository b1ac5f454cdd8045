//! The plan of the measurement of a profile.

use crate::testing::{BEFORE, Platter, grid};
use crate::{TooFewSectors, Trials, paper_grid};
use tonearm_base::Nanos;
use tonearm_head::{Access, Profile, Span};

#[test]
fn the_paper_s_grid_covers_a_revolution() {
    for (turn, thinks) in [(8_333_333, 91), (10_000_000, 101), (11_117_287, 113)] {
        let grid = paper_grid(Nanos(turn), 1_000, 8);
        assert_eq!((grid.check(), grid.thinks.count), (Ok(()), thinks));
        assert_eq!((grid.sizes.last(), grid.skips.last()), (400, 1_056));
        let early = grid.places(8, Nanos(500_000));
        assert_eq!(grid.places(8, Nanos(500_000 + 7 * turn)), early);
    }
}

const RANGE: Span = Span {
    start: 1_000,
    end: 4_000,
};

/// Sends the writes that `trials` plan, at most `writes`, and returns them.
fn run(trials: &mut Trials, writes: usize) -> Vec<Access> {
    let mut platter = Platter::new();
    let mut sent = Vec::new();
    while let Some(trial) = trials.trial().filter(|_| sent.len() < writes) {
        platter.think(trial.think.0);
        assert!(RANGE.holds(trial.first, trial.sectors));
        // The drive in closed form writes within one track, so the other sectors do not matter.
        let access = platter.write(trial.first, 1);
        let access = Access {
            sectors: trial.sectors,
            ..access
        };
        trials.done(&access);
        sent.push(access);
    }
    sent
}

#[test]
fn the_plan_takes_every_sample_once() {
    let mut trials = Trials::new(Profile::new(grid()).unwrap(), RANGE, 1).unwrap();
    let writes = run(&mut trials, usize::MAX).len() as u64;
    let total = trials.profile().total();
    assert_eq!(trials.progress(), (total, total));
    assert_eq!((trials.late(), trials.trial()), (0, None));
    // A new place for each row of each pass, and a few more at the end of the range.
    let rows = 3 * 12 * 3;
    assert!(
        (total + rows..total + 2 * rows).contains(&writes),
        "{writes}"
    );
    let profile = trials.into_profile();
    let means = (0..profile.grid().cells()).map(|index| profile.mean(profile.grid().cell(index)));
    assert!(means.into_iter().all(|mean| mean.unwrap() > Nanos(BEFORE)));
}

#[test]
fn each_write_is_counted_from_the_one_before() {
    let mut trials = Trials::new(Profile::new(grid()).unwrap(), RANGE, 1).unwrap();
    let mut before: Option<Access> = None;
    let mut measured = 0;
    let mut platter = Platter::new();
    while let Some(trial) = trials.trial() {
        platter.think(trial.think.0);
        let mut access = platter.write(trial.first, 1);
        access.sectors = trial.sectors;
        if let Some(cell) = trial.cell {
            let before = before.unwrap();
            let grid = trials.profile().grid();
            assert_eq!(access.first - before.end(), grid.skips.at(cell.skip));
            assert_eq!(access.sent.since(before.done).0, grid.thinks.at(cell.think));
            assert_eq!(u64::from(trial.sectors), grid.sizes.at(cell.size));
            measured += 1;
        }
        before = Some(access);
        trials.done(&access);
    }
    assert_eq!(measured, trials.profile().total());
}

#[test]
fn a_profile_taken_in_part_is_completed() {
    let mut first = Trials::new(Profile::new(grid()).unwrap(), RANGE, 7).unwrap();
    run(&mut first, 500);
    let (taken, total) = first.progress();
    assert!(taken > 400 && taken < total);
    let file = first.profile().encode();
    let mut second = Trials::new(Profile::decode(&file).unwrap(), RANGE, 7).unwrap();
    assert_eq!(second.progress(), (taken, total));
    assert_eq!(
        second.trial().unwrap().cell,
        None,
        "the head may be anywhere"
    );
    let writes = run(&mut second, usize::MAX).len() as u64;
    assert_eq!(second.progress(), (total, total));
    assert!(writes < total - taken + 200, "{writes}");
    // The earlier samples are still there.
    let (old, new) = (first.profile(), second.profile());
    for index in 0..old.grid().cells() {
        let cell = old.grid().cell(index);
        assert!(new.samples(cell).starts_with(old.samples(cell)));
    }
}

#[test]
fn a_write_that_was_sent_late_does_not_count() {
    let mut trials = Trials::new(Profile::new(grid()).unwrap(), RANGE, 7).unwrap();
    let mut platter = Platter::new();
    let anchor = trials.trial().unwrap();
    trials.done(&platter.write(anchor.first, 1));
    let planned = trials.trial().unwrap();
    platter.think(planned.think.0 + 500_001);
    trials.done(&platter.write(planned.first, 1));
    assert_eq!((trials.late(), trials.progress().0), (1, 0));
    assert_eq!(
        trials.trial().unwrap().cell,
        None,
        "it begins again elsewhere"
    );
    run(&mut trials, 2);
    assert_eq!(trials.progress().0, 1);
}

#[test]
fn too_few_sectors_are_refused() {
    let range = Span { start: 0, end: 59 };
    let error = Trials::new(Profile::new(grid()).unwrap(), range, 0).unwrap_err();
    assert_eq!(error, TooFewSectors { have: 59, need: 60 });
}
