//! What a drive is like, seen only through timed reads and writes.

mod error;
mod journal;
mod layout;
mod map;
mod probe;
mod run;
mod spindle;
mod survey;

pub use error::Error;
pub use journal::{Journal, replace};
pub use layout::{Layout, Zone};
pub use probe::{Hooks, Method, Progress};
pub use run::{Findings, Options, calibrate};
pub use spindle::Spindle;
