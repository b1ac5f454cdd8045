//! Predictors of the head that experiments compare, and the measurements of a drive that predictors need.
//!
//! The predictors that a store can use are in `tonearm_head`. Here are those of the papers that lose against them, in the
//! same trait or as a [`tonearm_head::SkipModel`]:
//!
//! | predictor | needs |
//! | --- | --- |
//! | [`Linear`] | a response time, the speed of a track (WebLogic) |
//! | `Mimic` of [`LineFit`], [`Coarse`], [`BasicCompact`], [`LineCompact`] or [`PlaneCompact`] | [`Choices`]: a profile under a [`Policy`] |
//!
//! [`Loss`] compares skip models on the profile itself. [`Trials`] plans how a profile is taken, [`DeltaSearch`] how the
//! deltas of Trail's formula are found. Everything is pure, as in `tonearm_head`.

mod coarse;
mod compact;
mod delta_search;
mod line_fit;
mod linear;
mod loss;
mod policy;
mod skip_set;
#[cfg(test)]
#[path = "../../../disk/head/src/testing.rs"]
mod testing;
mod trials;

pub use coarse::Coarse;
pub use compact::{BasicCompact, LineCompact, PlaneCompact};
pub use delta_search::{AccessKind, DeltaSearch, DeltaTrial};
pub use line_fit::LineFit;
pub use linear::Linear;
pub use loss::Loss;
pub use policy::{CLOSE, Choice, Choices, Policy};
pub use skip_set::SkipSet;
pub use trials::{TooFewSectors, Trial, Trials, paper_grid};

// For the drive in closed form, whose source the tests of tonearm_head share.
#[cfg(test)]
use tonearm_head::{Access, Track, TrackMap, TrackRun};
