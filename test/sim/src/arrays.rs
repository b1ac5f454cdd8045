//! Power cuts under stores over arrays, with members that fail at any request, stay away, are old copies, come back, and
//! are replaced and rebuilt under load.
//!
//! After each cut all drives work again, also those that had failed. Then the store must open with a prefix of the commit
//! order that contains everything acknowledged as durable. `check.rs` says what else is compared. While it runs, a RAID-5
//! array with one member less than it should have fails no request. If it lacks two members, or a RAID-0 array lacks one,
//! the store ends with an error that names them.

mod check;
mod generation;
mod image;
mod plan;
mod pulls;

pub use image::{ArrayImage, ArrayShape, OpenArray};

use self::generation::Generation;
use self::plan::{draw_plan, draw_shape};
use crate::campaign::{Failure, Outcome};
use crate::cut;
use crate::generate::Size;
use crate::oracle::Oracle;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::rc::Rc;

/// Runs one seed.
///
/// # Errors
/// The first promise that does not hold.
pub fn run(seed: u64, size: Size) -> Result<Outcome, Failure> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0xa44a);
    let shape = draw_shape(&mut rng, seed, size);
    let ordered = rng.next_u32().is_multiple_of(5);
    let mut image = shape.create();
    let mut oracle = Oracle::default();
    let mut outcome = Outcome::default();
    // The drives as they were one opening ago.
    let mut earlier: Option<ArrayImage> = None;
    for generation in 0..size.generations {
        let fail = |at| Failure::at(seed, generation, at);
        let before = image.clone();
        let plan = draw_plan(&mut rng, &mut image, earlier.as_ref(), size, ordered);
        let plan = Rc::new(plan.map_err(|what| fail((0, 0, what)))?);
        let next = Generation {
            image: &image,
            oracle: &oracle,
            plan: &plan,
            ordered,
            operations: size.operations,
        };
        let next = next.run(&mut outcome).map_err(fail)?;
        earlier = Some(before);
        image.disks = cut::images(&next.crash, next.cut, ordered);
        oracle = next.state;
        let met = &mut outcome.met;
        let number = check::with_all_drives(&image, &oracle, next.cut, ordered, met);
        oracle.go_on(number.map_err(|what| fail((u64::MAX, next.cut, what)))?);
    }
    Ok(outcome)
}
