//! Predictors of the head that only experiments compare, and the measurements that predictors need.
//!
//! The predictors that a store can use are in `tonearm_head`. Here are those of the papers that are worse. They
//! implement the same trait, or are a [`tonearm_head::SkipModel`]:
//!
//! | predictor | needs |
//! | --- | --- |
//! | [`Linear`] | a response time, the speed of a track (WebLogic) |
//! | `Mimic` of [`LineFit`], [`Coarse`], [`BasicCompact`], [`LineCompact`] or [`PlaneCompact`] | [`Choices`]: a profile under a [`Policy`] |
//!
//! [`Loss`] compares skip models on the profile itself. [`Trials`] plans the measurement of a profile, and
//! [`DeltaSearch`] that of the deltas of Trail's formula. All code is pure, as in `tonearm_head`.

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

// For the drive in closed form, whose source is shared with the tests of tonearm_head.
#[cfg(test)]
use tonearm_head::{Access, Cell, Grid, Profile, Steps, Track, TrackMap, TrackRun};
