//! The search for delta on a drive in closed form, whose delays are 0.35 ms, and 0.65 ms after a read.

use crate::testing::{Platter, READ_LAG, TURN};
use crate::{AccessKind, DeltaSearch};
use tonearm_base::Nanos;
use tonearm_head::{Access, Delta};

fn delta(sectors: u32) -> Delta {
    Delta {
        sectors,
        turn_sectors: 100,
    }
}

fn search(before: AccessKind, of: AccessKind) -> DeltaSearch {
    let mut platter = Platter::new();
    let tracks = (0..5).map(|index| platter.track(index)).collect();
    let mut search = DeltaSearch::new(tracks, TURN, before, of, 3);
    while let Some(trial) = search.trial() {
        let access = match trial.kind {
            AccessKind::Read => platter.read(trial.first, trial.sectors),
            AccessKind::Write => platter.write(trial.first, trial.sectors),
        };
        search.done(&access);
        platter.think(3_000);
    }
    search
}

#[test]
fn the_search_finds_the_delays_of_the_drive() {
    use AccessKind::{Read, Write};
    for (before, of, expected, lag) in [
        (Write, Write, 4, 0),
        (Read, Write, 7, READ_LAG as i64),
        (Write, Read, 4, -(READ_LAG as i64)),
        (Read, Read, 7, 0),
    ] {
        let search = search(before, of);
        assert_eq!(search.found(), Some(delta(expected)), "{before:?}, {of:?}");
        let found = search.lag_ns().unwrap();
        assert!(found.abs_diff(lag) < 10, "{before:?}, {of:?}: {found}");
    }
}

#[test]
fn a_drive_that_always_takes_a_revolution_has_no_delta() {
    let platter = Platter::new();
    let mut search = DeltaSearch::new(
        vec![platter.track(0)],
        TURN,
        AccessKind::Write,
        AccessKind::Write,
        1,
    );
    let mut requests = 0;
    while let Some(trial) = search.trial() {
        let access = Access {
            first: trial.first,
            sectors: trial.sectors,
            sent: Nanos(2 * TURN.0 * requests),
            done: Nanos(2 * TURN.0 * (requests + 1)),
        };
        search.done(&access);
        requests += 1;
    }
    assert_eq!(
        (search.found(), search.lag_ns(), requests),
        (None, None, 2 * 99)
    );
}
