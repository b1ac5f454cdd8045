//! What every predictor has to keep to, whatever it has been told.

use proptest::prelude::*;
use tonearm_base::Nanos;
use tonearm_head::{
    Access, BasicCompact, Cell, Choices, Coarse, Delta, Deltas, Formula, Grid, Head, LineCompact,
    LineFit, Linear, Mimic, Online, PlaneCompact, Policy, Profile, Sequential, SkipModel, Span,
    Steps, Table, TrackMap, TrackRun,
};

const TURN: Nanos = Nanos::from_millis(10);

/// A small profile of a platter with 100 sectors to a revolution.
fn choices() -> Choices {
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
    let tolerance = Nanos::from_micros(500);
    Choices::new(&profile, Policy::AverageLimit { tolerance }).unwrap()
}

fn formula() -> Formula {
    let run = TrackRun {
        first: 300,
        tracks: 30,
        sectors: 90,
        turn_sectors: 100,
        angle: 77,
        group: 3,
        at: 1,
        short: 5,
        track_skew: 1 << 29,
        cylinder_skew: 1 << 30,
    };
    let delta = Delta {
        sectors: 4,
        turn_sectors: 100,
    };
    let map = TrackMap::new(vec![run]).unwrap();
    Formula::new(map, TURN, Deltas::one(delta), None)
}

fn heads() -> Vec<Box<dyn Head>> {
    let choices = choices();
    let grid = *choices.grid();
    let models: [Box<dyn SkipModel>; 6] = [
        Box::new(Table::new(&choices)),
        Box::new(LineFit::new(&choices)),
        Box::new(Coarse::new(&choices, 7)),
        Box::new(BasicCompact::new(&choices)),
        Box::new(LineCompact::new(&choices)),
        Box::new(PlaneCompact::new(&choices)),
    ];
    let mut heads: Vec<Box<dyn Head>> = vec![
        Box::new(Sequential),
        Box::new(Linear::new(Nanos::from_millis(1), TURN, 100)),
        Box::new(formula()),
        Box::new(Online::new()),
        Box::new(Online::with_map(formula().map().clone())),
    ];
    for model in models {
        heads.push(Box::new(Mimic::new(grid, model)));
    }
    heads
}

#[derive(Clone, Debug)]
struct Step {
    think: u64,
    sectors: u32,
    free: Vec<Span>,
    response: u64,
    read: bool,
}

prop_compose! {
    fn any_step()(
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

/// From nothing to hours, each order of magnitude alike.
fn any_think() -> impl Strategy<Value = u64> {
    (0_u32..44, any::<u64>()).prop_map(|(bits, chance)| chance % (1 << bits))
}

proptest! {
    #[test]
    fn a_place_is_free_and_there_is_one_when_the_write_fits(
        steps in prop::collection::vec(any_step(), 1..12)
    ) {
        for mut head in heads() {
            let mut now = Nanos(5);
            for step in &steps {
                now.0 += step.think;
                let place = head.place(now, step.sectors, &step.free);
                let fits = |span: &Span| span.len() >= u64::from(step.sectors);
                prop_assert_eq!(place.is_some(), step.free.iter().any(fits), "{}", head.name());
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
    }
}

#[test]
fn names_are_different_and_memory_is_told() {
    let heads = heads();
    let mut names: Vec<&str> = heads.iter().map(|head| head.name()).collect();
    names.sort_unstable();
    names.dedup();
    // The one that learns is there twice, with a map and without.
    assert_eq!(names.len(), heads.len() - 1);
    let bytes = |name: &str| {
        heads
            .iter()
            .find(|head| head.name() == name)
            .unwrap()
            .memory_bytes()
    };
    assert_eq!(bytes("sequential"), 0);
    assert!((1..64).contains(&bytes("linear")));
    // 3 sizes by 21 think times, two bytes each.
    assert!(bytes("mimic") >= 126 && bytes("line-fit") < bytes("mimic"));
}
