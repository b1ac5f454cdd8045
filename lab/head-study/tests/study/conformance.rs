//! Rules that every predictor keeps after any sequence of requests.

#[path = "../../../../disk/head/tests/conformance/steps.rs"]
mod steps;

use proptest::prelude::*;
use steps::{TURN, any_step, places_are_free, profile};
use tonearm_base::Nanos;
use tonearm_head::{Head, Mimic, SkipModel};
use tonearm_head_study::{
    BasicCompact, Choices, Coarse, LineCompact, LineFit, Linear, PlaneCompact, Policy,
};

fn choices() -> Choices {
    let tolerance = Nanos::from_micros(500);
    Choices::new(&profile(), Policy::AverageLimit { tolerance }).unwrap()
}

fn heads() -> Vec<Box<dyn Head>> {
    let choices = choices();
    let models: [Box<dyn SkipModel>; 5] = [
        Box::new(LineFit::new(&choices)),
        Box::new(Coarse::new(&choices, 7)),
        Box::new(BasicCompact::new(&choices)),
        Box::new(LineCompact::new(&choices)),
        Box::new(PlaneCompact::new(&choices)),
    ];
    let mut heads: Vec<Box<dyn Head>> =
        vec![Box::new(Linear::new(Nanos::from_millis(1), TURN, 100))];
    for model in models {
        heads.push(Box::new(Mimic::new(*choices.grid(), model)));
    }
    heads
}

proptest! {
    #[test]
    fn place_is_free_and_exists_when_the_write_fits(
        steps in prop::collection::vec(any_step(), 1..12)
    ) {
        places_are_free(heads(), &steps)?;
    }
}

#[test]
fn names_are_different_and_models_are_smaller_than_the_table() {
    let heads = heads();
    let mut names: Vec<&str> = heads.iter().map(|head| head.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), heads.len());
    let bytes = |name: &str| {
        heads
            .iter()
            .find(|head| head.name() == name)
            .unwrap()
            .memory_bytes()
    };
    assert!((1..64).contains(&bytes("linear")));
    let table = choices().table().stored_bytes();
    assert_eq!(table, 126, "3 sizes by 21 think times, two bytes each");
    let line_fit = LineFit::new(&choices()).stored_bytes();
    assert!(line_fit < table);
}
