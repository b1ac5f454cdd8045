//! Experiments on simulated drives: named, described, seeded.
//!
//! An [`Experiment`] gives a [`Report`], which is data: findings with the papers' figures, plots and tables. [`svg`],
//! [`html`] and [`markdown`] show it. The same seed gives the same report with any number of threads,
//! apart from the processor times of one experiment.

mod experiment;
mod experiments;
mod harness;
pub mod html;
mod known_misses;
pub mod markdown;
// For the tests, as `pagedb`.
#[doc(hidden)]
pub mod minix_ld;
// For the tests: this library is large, and unit tests would compile it a second time.
#[doc(hidden)]
pub mod pagedb;
mod parallel;
mod report;
pub mod study;
pub mod svg;

pub use experiment::{Context, Drives, Effort, Experiment, LabError, Outcome, Random, Run};
pub use experiments::{EXPERIMENTS, find};
#[doc(hidden)]
pub use known_misses::all as known_misses;
pub use report::{
    Axis, Bound, Figure, Finding, KnownMiss, Legend, Line, Panel, Report, Style, Table, Verdict,
    number,
};
