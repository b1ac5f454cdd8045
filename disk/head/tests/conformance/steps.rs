//! Rules that every predictor keeps after any sequence of requests. The tests of `lab/head-study` share this file.

use proptest::prelude::*;
use tonearm_base::Nanos;
use tonearm_head::{Access, Cell, Grid, Head, Profile, Span, Steps};

#[derive(Clone, Debug)]
pub struct Step {
    think: u64,
    sectors: u32,
    free: Vec<Span>,
    response: u64,
    read: bool,
}

prop_compose! {
    pub fn any_step()(
        think in any_think(),
        sectors in 1_u32..40,
        ends in prop::collection::btree_set(0_u64..4_000, 0..12),
        turned in any::<bool>(),
        response in 0_u64..30_000_000,
        read in any::<bool>(),
    ) -> Step {
        let ends: Vec<u64> = ends.into_iter().collect();
        let mut free: Vec<Span> =
            ends.chunks_exact(2).map(|pair| Span { start: pair[0], end: pair[1] }).collect();
        // A ring may begin anywhere.
        if turned {
            let middle = free.len() / 2;
            free.rotate_left(middle);
        }
        Step { think, sectors, free, response, read }
    }
}

/// From zero to hours; each order of magnitude is equally likely.
fn any_think() -> impl Strategy<Value = u64> {
    (0_u32..44, any::<u64>()).prop_map(|(bits, chance)| chance % (1 << bits))
}

/// A returned place is free, and there is one if the write fits.
pub fn places_are_free(heads: Vec<Box<dyn Head>>, steps: &[Step]) -> Result<(), TestCaseError> {
    for mut head in heads {
        let mut now = Nanos(5);
        for step in steps {
            now.0 += step.think;
            let place = head.place(now, step.sectors, &step.free);
            let fits = |span: &Span| span.len() >= u64::from(step.sectors);
            prop_assert_eq!(
                place.is_some(),
                step.free.iter().any(fits),
                "{}",
                head.name()
            );
            let Some(place) = place else { continue };
            let holds = |span: &Span| span.holds(place.sector, step.sectors);
            prop_assert!(step.free.iter().any(holds), "{}: {place:?}", head.name());
            let access = Access {
                first: place.sector,
                sectors: step.sectors,
                sent: now,
                done: Nanos(now.0 + step.response),
            };
            now = access.done;
            if step.read {
                head.read(&access);
            } else {
                head.written(&access);
            }
            if let Some(track) = step.free.first()
                && let Some(sector) = head.reposition(now, *track)
            {
                prop_assert!(track.holds(sector, 1), "{}: {sector}", head.name());
            }
        }
    }
    Ok(())
}

/// Time of a revolution.
pub const TURN: Nanos = Nanos::from_millis(10);

/// A small profile of a platter with 100 sectors to a revolution.
pub fn profile() -> Profile {
    let steps = |first, step, count| Steps { first, step, count };
    let grid = Grid {
        sizes: steps(4, 4, 3),
        thinks: steps(0, 500_000, 21),
        skips: steps(0, 4, 27),
        samples: 1,
        turn: Some(TURN),
    };
    let mut profile = Profile::new(grid).unwrap();
    for index in 0..grid.cells() {
        let Cell { size, think, skip } = grid.cell(index);
        let (think, skip) = (grid.thinks.at(think), grid.skips.at(skip));
        let ready = think + 350_000;
        let wait = (skip * 100_000 + TURN.0 - ready % TURN.0) % TURN.0;
        let transfer = grid.sizes.at(size) * 100_000;
        profile.add_sample(grid.cell(index), Nanos(350_000 + wait + transfer));
    }
    profile
}
